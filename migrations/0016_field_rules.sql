-- Up Migration

create table sync.field_rules (
  account_id text,
  rule text,
  since timestamptz not null,
  applied_at timestamptz,
  key_mark text,
  primary key (account_id, rule)
);
comment on table sync.field_rules is
  'Field rules: fields of the source that are left out, hashed, cut or reduced to a domain before they are stored. No process without these rules writes rows of the account.';
comment on column sync.field_rules.rule is 'The rule as in the setting FIELD_RULES, for example messages.body.';
comment on column sync.field_rules.since is 'From when on records that arrive follow the rule.';
comment on column sync.field_rules.applied_at is
  'When the records of before had been rewritten by the rule. Null: records of before may still hold the field.';
comment on column sync.field_rules.key_mark is 'Digest of the key of the hashes; null for a rule without hashes.';

comment on column sync.operations.action is
  'The action: run, pause, resume, retry, cancel, erase, let a reader in, revoke a reader, calendar, target, field rules.';
comment on column sync.operations.subject is
  'Object of the action: a stream, a run, a kind of run, a customer, a reader, a calendar, a service target or field rules; empty for the whole account.';

select sync.settle_comments();
select sync.settle_roles();
