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

comment on column sync.lake_pending.unit is
  'ticket, customer, volume or shelf: all rows of that record. account: all rows of the account. list: only the short lists of the account. all: the tables without an account. tickets, messages, attachments, customers or contacts, only if erased: one row of that table. rules, only if erased: field rules have rewritten rows of the account; the next export removes all older snapshots.';

create or replace function sync.keep_ticket_history() returns trigger
language plpgsql
as $$
declare
  -- The times of the source are whole seconds. A parameter instead of a literal would cause new plans.
  second constant interval := '1 second';
  plans constant text := current_setting('plan_cache_mode');
begin
  -- Field rules rewrite stored values (fields apply): no ticket has changed.
  if current_setting('shelfdesk.rewriting', true) = 'on' then return null; end if;
  -- Most updates change nothing of these, as those that note when messages were read. A full join never becomes a nested
  -- loop, whatever the plan expected, so a kept plan serves.
  if not exists (
    select from before b full join after a using (account_id, id)
    where (a._observed_at, a._true_by, a.updated_at, a.created_at, a._deleted_at, a.state, a.user_id, a.inbox_id, a.spam, a.trash, a.label_ids)
      is distinct from (b._observed_at, b._true_by, b.updated_at, b.created_at, b._deleted_at, b.state, b.user_id, b.inbox_id, b.spam, b.trash, b.label_ids)) then
    return null;
  end if;
  -- A cached plan would fit the rows of another statement: one ticket, or an empty warehouse.
  perform set_config('plan_cache_mode', 'force_custom_plan', true);
  -- The second version ends what the ticket's own row could say about the first.
  insert into internal.ticket_history select v.* from before b join after a using (account_id, id)
  left join sync.accounts k on k.account_id = b.account_id
  cross join lateral sync.first_version(b, k.mirrored_since) v
  where (a._observed_at, a._true_by, a.updated_at, a.created_at, a._deleted_at) is distinct from (b._observed_at, b._true_by, b.updated_at, b.created_at, b._deleted_at)
    and not exists (
      select from internal.ticket_history h where h.account_id = b.account_id and h.ticket_id = b.id)
  on conflict do nothing;
  if not exists (
    select from before b full join after a using (account_id, id)
    where (b._deleted_at is null) <> (a._deleted_at is null)
      or a.state is distinct from b.state or a.user_id is distinct from b.user_id or a.inbox_id is distinct from b.inbox_id
      or a.spam is distinct from b.spam or a.trash is distinct from b.trash or not sync.same_set(a.label_ids, b.label_ids)) then
    perform set_config('plan_cache_mode', plans, true);
    return null;
  end if;
  with changed as materialized (
    select a.account_id, a.id, a.state, a.user_id, a.inbox_id, a.label_ids, a.spam, a.trash,
      a._deleted_at is null as alive,
      case
        when a._deleted_at is not null then greatest(a._deleted_at, last.valid_from + second)
        else greatest(last.valid_from, last.valid_to, case
          -- The ticket was deleted at its tombstone. An older version does not tell when it came back.
          when a.updated_at <> b.updated_at and (b._deleted_at is null or a.updated_at > b._deleted_at)
            then least(a.updated_at, y.by)
          else y.by end)
      end as at,
      y.by,
      last.valid_from as last_from, last.valid_from is not null and last.valid_to is null as is_open,
      case
        when last.valid_from is null then a.created_at - second
        -- The ticket came back after its deletion. How long it had been back before it was seen is unknown.
        when b._deleted_at is not null then greatest(b._observed_at - k.lookback, b._deleted_after)
        -- A version shows everything up to the second of its date, unless the date is wrong: later than the reply, or
        -- later than the next version. A reply shows everything up to a lookback before it.
        else greatest(
          case when b.updated_at <= least(a.updated_at, sync.true_by(b._true_by, b._observed_at)) then b.updated_at - second end,
          b._observed_at - k.lookback, w.as_of, last.change_after)
      end as before_at,
      a._deleted_after
    from before b
    join after a using (account_id, id)
    cross join lateral (select sync.true_by(a._true_by, a._observed_at) as by) y
    left join lateral (
      select h.valid_from, h.valid_to, h.change_after from internal.ticket_history h
      where h.account_id = a.account_id and h.ticket_id = a.id
      order by h.valid_from desc limit 1) last on true
    left join sync.accounts k on k.account_id = b.account_id
    left join sync.separate_lists apart on apart.account_id = b.account_id
    left join lateral sync.swept_at(b.account_id, b.created_at, b.state, b.spam, b.trash, apart.spam, apart.trash) w on true
    where (b._deleted_at is null) <> (a._deleted_at is null)
      or a._deleted_at is null and (
        a.state is distinct from b.state or a.user_id is distinct from b.user_id or a.inbox_id is distinct from b.inbox_id
        or a.spam is distinct from b.spam or a.trash is distinct from b.trash or not sync.same_set(a.label_ids, b.label_ids))),
  -- Finds the open row by its flag and not by its time, because a thousand tickets may change in one second. Two
  -- changes at one time share a row with the later values and the lower bound of the first change.
  replaced as (
    update internal.ticket_history h
    set state = c.state, user_id = c.user_id, inbox_id = c.inbox_id, label_ids = c.label_ids, spam = c.spam, trash = c.trash,
      change_by = case when c.by > c.at then c.by end
    from changed c
    where c.is_open and c.alive and c.at = c.last_from
      and h.account_id = c.account_id and h.ticket_id = c.id and h.valid_to is null),
  ended as (
    update internal.ticket_history h set valid_to = c.at, deleted_after = c._deleted_after
    from changed c
    where c.is_open and (c.at > c.last_from or not c.alive)
      and h.account_id = c.account_id and h.ticket_id = c.id and h.valid_to is null
    returning h.account_id, h.ticket_id)
  -- Ends the current row before the next begins: a ticket has one open row.
  insert into internal.ticket_history
    (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, change_after, change_by, is_first)
  select c.account_id, c.id, c.state, c.user_id, c.inbox_id, c.label_ids, c.spam, c.trash, c.at,
    case when c.before_at is not null then least(c.before_at, c.at - second) end,
    case when c.by > c.at then c.by end, c.last_from is null
  from changed c left join ended e on e.account_id = c.account_id and e.ticket_id = c.id
  where c.alive and (e.ticket_id is not null or not c.is_open);
  perform set_config('plan_cache_mode', plans, true);
  return null;
end
$$;

select sync.settle_comments();
select sync.settle_roles();
