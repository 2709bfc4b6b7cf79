create schema store;
create table store.orders (
  account_id text not null,
  id text not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  total numeric,
  returned boolean,
  _deleted_after timestamptz,
  _true_by timestamptz,
  primary key (account_id, id)
);
create table store.items (
  account_id text not null,
  id text not null,
  order_id text not null,
  primary key (account_id, id)
);
create table store.buyers (
  account_id text not null,
  id text not null,
  nick text,
  _created_after timestamptz not null,
  _created_before timestamptz not null,
  _checked_at timestamptz not null,
  _deleted_after timestamptz,
  primary key (account_id, id)
);
select sync.add_mirror('store.orders'), sync.add_mirror('store.items', 'order_id'), sync.add_mirror('store.buyers');
