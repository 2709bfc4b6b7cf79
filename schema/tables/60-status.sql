create table sync.targets (
  account_id text,
  subject text,
  target interval not null,
  primary key (account_id, subject)
);
