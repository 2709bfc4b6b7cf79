create schema crm;
create table crm.contacts (
  account_id text not null,
  id text not null,
  name text,
  email text,
  mail_domain text,
  phones text[],
  note text,
  stage text,
  company_id text,
  created_at timestamptz,
  primary key (account_id, id)
);
create table crm.addresses (
  account_id text not null,
  id text not null,
  contact_id text not null,
  street text,
  primary key (account_id, id)
);
