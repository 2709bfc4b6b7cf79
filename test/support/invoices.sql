create schema shop;
create table shop.invoices (
  account_id text not null,
  id text not null,
  total numeric,
  primary key (account_id, id)
);
create table shop.lines (
  account_id text not null,
  id text not null,
  invoice_id text not null,
  amount numeric,
  primary key (account_id, id)
);
create table shop.taxes (
  account_id text not null,
  id text not null,
  invoice_id text not null,
  line_id text not null,
  rate numeric,
  primary key (account_id, id)
);
select sync.add_mirror('shop.invoices'), sync.add_mirror('shop.lines', 'invoice_id'), sync.add_mirror('shop.taxes', 'invoice_id');
