-- Comparisons of the mirror with the source: audits and verifications.

create table sync.audit (
  account_id text,
  id bigint generated always as identity,
  run_id bigint not null,
  stream text not null,
  record_id text not null,
  checked_at timestamptz not null,
  ours_as_of timestamptz,
  random boolean not null,
  unread boolean default false not null,
  differences jsonb,
  kind text,
  repaired_at timestamptz,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored not null,
  primary key (account_id, id)
);
create index audit_checked on sync.audit (checked_at);
create index audit_differs on sync.audit (account_id, checked_at) where (kind is not null);
create unique index audit_record on sync.audit (account_id, run_id, stream_key, record_id);
create index audit_of_record on sync.audit (account_id, stream_key, record_id);
comment on table sync.audit is
  'Records that an audit or `verify --sample` read again and compared, one row each time; of `verify --full` only those that differ.';
comment on column sync.audit.id is 'Number of the comparison.';
comment on column sync.audit.run_id is 'The run that made it; joins sync.runs.id, where that is still kept.';
comment on column sync.audit.stream is
  'tickets (with their labels), customers (with their contacts), users, labels and inboxes; messages: all messages and attachments of one ticket; shelves, with what stands on them (shelf_volumes); volumes.';
comment on column sync.audit.record_id is 'The record at the source; of messages, their ticket; of shelves, owner/shelf.';
comment on column sync.audit.checked_at is 'It was compared as the source showed it at this time, by its clock.';
comment on column sync.audit.ours_as_of is 'The row here was as the source had shown it at this time; null where there was none.';
comment on column sync.audit.random is
  'True if the record was chosen at random from all that are here: only of such can anything be concluded about the others.';
comment on column sync.audit.unread is 'True if it could not be read, or not be compared: nothing is known of it.';
comment on column sync.audit.differences is
  'What differs, by field: [here, at the source]; null if nothing does, or if it is unread. row: the whole row is missing on one side. For what hangs on a record, both sides are {id: value}.';
comment on column sync.audit.kind is
  'What kind of difference it is, several parted by ''; '': changed here (the row contradicts its own _payload), a change was missed, deleted, label edits do not move updated_at, and so on.';
comment on column sync.audit.repaired_at is 'When the row here was made equal, by our clock; null if it was not.';

-- Chance of so few or fewer among so many, if a share p of all differ: the bound is the p at which it falls to 5 in 100.
create or replace function sync.at_most(differ bigint, "of" bigint) returns numeric
language plpgsql immutable parallel safe
as $$
declare
  many constant bigint := at_most."of";
  -- ln C(many, differ)
  choose float8 := 0;
  low float8;
  high float8 := 1;
  p float8;
  -- Terms of the sum, from the last one down: each beside the last one.
  term float8;
  total float8;
begin
  if differ is null or many is null then return null; end if;
  if many <= 0 or differ >= many then return 100; end if;
  for i in 1..differ loop
    choose := choose + ln((many - differ + i)::float8 / i);
  end loop;
  low := greatest(differ, 0)::float8 / many;
  for step in 1..64 loop
    p := (low + high) / 2;
    exit when p <= low or p >= high;
    term := 1;
    total := 1;
    for i in reverse differ..1 loop
      term := term * i / (many - i + 1) * (1 - p) / p;
      exit when term < 1e-17;
      total := total + term;
    end loop;
    if choose + differ * ln(p) + (many - differ) * ln(1 - p) + ln(total) > ln(0.05::float8) then
      low := p;
    else
      high := p;
    end if;
  end loop;
  return trim_scale(ceil(high::numeric * 1000000) / 10000);
end;
$$;
comment on function sync.at_most is
  'If so many of so many that were chosen at random differ, then of all at most so many percent do, with a confidence of 95 % (Clopper and Pearson, one-sided).';

create or replace view sync.audit_confidence as
with counted as not materialized (
  select account_id, source, stream, stream_key, record_id, checked_at, unread, differences
  from sync.audit
  where random and checked_at > now() - interval '7 days'),
totals as not materialized (
  select account_id, source, stream, stream_key, count(distinct record_id) as drawn, count(distinct record_id) filter (where not unread) as checked,
    min(checked_at) as as_of
  from counted
  group by account_id, source, stream, stream_key),
differing as not materialized (
  select c.account_id, c.stream_key, f.field, count(distinct c.record_id) as differed
  from counted c cross join lateral (select '' as field union all select jsonb_object_keys(c.differences)) f
  where c.differences is not null
  group by c.account_id, c.stream_key, f.field)
select t.account_id, t.stream, f.field, t.checked, coalesce(d.differed, 0) as differed, t.drawn - t.checked as unread,
  sync.at_most(coalesce(d.differed, 0), t.checked) as at_most_percent, t.as_of, t.source, t.stream_key
from totals t
join (select account_id, stream_key, '' as field from totals union select account_id, stream_key, field from differing) f
  using (account_id, stream_key)
left join differing d using (account_id, stream_key, field);
comment on view sync.audit_confidence is
  'What the random checks of the last seven days prove: of the records that are here at most so many percent differ from the source in this field, with a confidence of 95 %. Of what is not here, and of what could not be read, they prove nothing.';
comment on column sync.audit_confidence.account_id is 'The account.';
comment on column sync.audit_confidence.stream is
  'tickets, customers, or messages: then a record is a ticket whose messages are complete, with all of them and their attachments; shelves, with what stands on them; volumes that stand on a shelf.';
comment on column sync.audit_confidence.field is 'A field in which some differed; '''' is any field.';
comment on column sync.audit_confidence.checked is 'How many records were read again and compared, each counted once.';
comment on column sync.audit_confidence.differed is
  'How many of them differed in any check of these seven days; each was repaired if the check was an audit.';
comment on column sync.audit_confidence.unread is
  'How many more were drawn, and could not be read or compared in any check: they may differ.';
comment on column sync.audit_confidence.at_most_percent is
  'Of all such records that are here, and can be read, at most so many percent differ, with a confidence of 95 %.';
comment on column sync.audit_confidence.as_of is 'The oldest check that is counted, by the source''s clock.';

create table sync.verifications (
  run_id bigint primary key,
  account_id text not null,
  sample integer,
  repair boolean not null,
  credits bigint not null,
  seconds bigint not null,
  foreign key (run_id) references sync.stored_runs(id) on delete cascade
);
comment on table sync.verifications is
  'What `verify` was asked for, and what it said beforehand that it takes; one row for each of its runs.';
comment on column sync.verifications.sample is
  'So many tickets, customers, shelves and volumes, chosen at random; null: everything.';
comment on column sync.verifications.repair is 'True if what differs is made equal.';
comment on column sync.verifications.credits is 'The credits that it was expected to take; of the catalog, requests.';
comment on column sync.verifications.seconds is 'The time that it was expected to take, at the credits that the limits allow.';

create table sync.verified_lists (
  run_id bigint,
  account_id text not null,
  stream text not null,
  list text,
  place text,
  ours bigint,
  theirs_least bigint,
  theirs_most bigint,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  primary key (run_id, stream_key, list),
  foreign key (run_id) references sync.stored_runs(id) on delete cascade
);
comment on table sync.verified_lists is 'What `verify` counted, and how far it has come: for each list of a stream one row.';
comment on column sync.verified_lists.list is 'The list of the stream; default where it has only one.';
comment on column sync.verified_lists.place is
  'Up to here it has been compared: a time of creation, or an id; null at the beginning. Whoever takes the work up goes on there.';
comment on column sync.verified_lists.ours is 'How many rows are here; null if they were not counted.';
comment on column sync.verified_lists.theirs_least is
  'How many the source counts, without those that came since the stream is complete here; null if it was not asked, or counts no further.';
comment on column sync.verified_lists.theirs_most is 'The same with those of which it is not known whether they came since.';

create or replace view sync.recommendations as
select k.account_id, k.stream, k.kind, k.times, k.last_at, r.setting, r.remedy, k.source, k.stream_key
from (
  select a.account_id, a.source, a.stream, a.stream_key, one.kind, count(*) as times, max(a.checked_at) as last_at
  from sync.audit a, unnest(string_to_array(a.kind, '; ')) one (kind)
  where a.checked_at > now() - interval '30 days' and a.kind is not null
  group by a.account_id, a.source, a.stream, a.stream_key, one.kind
  having count(distinct a.run_id) >= 2) k
cross join lateral (
  select case
      when k.kind in ('changed here', 'only here') then null
      when k.kind in ('a change was missed', 'missing here') then null
      when k.stream_key in ('helpdesk.labels', 'helpdesk.inboxes') then null
      when k.stream_key = 'helpdesk.messages' then 'MESSAGES_AGE_DAYS'
      when k.stream_key = 'helpdesk.users' then 'SCHEDULE_NIGHTLY'
      when k.stream_key = 'books.shelves' then 'BOOKS_SHELF_AGE_HOURS'
      when k.stream_key = 'books.volumes' then 'BOOKS_VOLUME_AGE_DAYS'
      else 'SWEEP_AGE_DAYS' end as setting,
    case
      when k.kind in ('changed here', 'only here') then 'Somebody else writes to these tables: let nobody but the worker do so.'
      when k.kind in ('a change was missed', 'missing here') then 'Read the range again: backfill --again. If it happens anew, please report it.'
      when k.stream_key in ('helpdesk.labels', 'helpdesk.inboxes') then 'Nothing to do: names of labels and inboxes are looked at again once a week.'
      when k.stream_key = 'helpdesk.messages' then 'Nothing announces it: set MESSAGES_AGE_DAYS, so that messages are read again after so many days.'
      when k.stream_key = 'helpdesk.users' then 'Nothing announces it: let the night come more often, by SCHEDULE_NIGHTLY.'
      when k.stream_key = 'books.shelves' then 'Nothing announces it: set BOOKS_SHELF_AGE_HOURS lower, so that shelves are read again sooner.'
      when k.stream_key = 'books.volumes' then 'Nothing announces it: set BOOKS_VOLUME_AGE_DAYS lower, so that volumes are read again sooner.'
      else 'Nothing announces it: set SWEEP_AGE_DAYS lower, so that everything is looked at again sooner.' end as remedy) r;
comment on view sync.recommendations is
  'Kinds of difference that audits and verifications found in at least two runs of the last 30 days, and what cures them.';
comment on column sync.recommendations.account_id is 'The account.';
comment on column sync.recommendations.stream is 'The stream, as in sync.audit.';
comment on column sync.recommendations.kind is 'The kind of difference.';
comment on column sync.recommendations.times is 'How often it was found.';
comment on column sync.recommendations.last_at is 'When it was last found, by the source''s clock.';
comment on column sync.recommendations.setting is 'The setting that cures it; null where none does.';
comment on column sync.recommendations.remedy is 'What to do about it.';
