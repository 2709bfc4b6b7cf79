-- Up Migration

-- What nothing announces is found by reading everything again. What a sweep has read is kept by creation time, which cannot
-- change: so for every row it can be told when the source was last seen to have it.

create table sync.swept (
  account_id text not null,
  stream text not null,
  list text not null,
  created tstzrange not null,
  as_of timestamptz not null,
  run_id bigint not null,
  constraint swept_no_overlap exclude using gist (account_id with =, stream with =, list with =, created with &&),
  check (not isempty(created))
);
create index swept_from on sync.swept (account_id, stream, list, (coalesce(lower(created), '-infinity')));
comment on table sync.swept is
  'What sweeps have read: everything that a list shows of what was created in a range, the newest reading of each range.';
comment on column sync.swept.account_id is 'The operator''s name for the mirrored account; part of every key.';
comment on column sync.swept.stream is 'tickets or customers.';
comment on column sync.swept.list is
  'default, spam, trash, or open: open and held tickets, which are looked at daily. undated: tickets that show no created_at, asked for by id.';
comment on column sync.swept.created is 'Everything that was created in this range was read; of undated, everything.';
comment on column sync.swept.as_of is
  'What had happened up to here was in what was read: a lookback before the replies, since a source may show things so late; of customers a minute more, since a reply may be slower than the first one of the walk.';
comment on column sync.swept.run_id is 'The run that read it.';

create table sync.suspects (
  account_id text not null,
  stream text not null,
  record_id text not null,
  suspected_at timestamptz not null,
  alive_at timestamptz not null,
  gone_at timestamptz,
  gone_since timestamptz,
  attempts int not null default 0,
  error text,
  run_id bigint,
  primary key (account_id, stream, record_id)
);
comment on table sync.suspects is
  'Rows that a list of the source lacked where it should have shown them: each is asked for by its id, and only what the source does not have (404) gets a tombstone.';
comment on column sync.suspects.account_id is 'The operator''s name for the mirrored account; part of every key.';
comment on column sync.suspects.stream is 'tickets or customers.';
comment on column sync.suspects.record_id is 'The row; joins the id of that table.';
comment on column sync.suspects.suspected_at is
  'As-of time of the reading that lacked it. A row that was observed since is no suspect any more.';
comment on column sync.suspects.alive_at is 'The source had it then: the last proof of that.';
comment on column sync.suspects.gone_at is
  'By then, by its own clock, the source had it no more: it said so when asked by id (404). Null while it has not said so.';
comment on column sync.suspects.gone_since is 'When it said so for the first time, if it has said nothing else since; null with gone_at.';
comment on column sync.suspects.attempts is 'How often it was asked for by id in vain, for other reasons.';
comment on column sync.suspects.error is 'What came of it the last time.';
comment on column sync.suspects.run_id is 'The run that last asked for it by id; null while none has, or when it is to be asked for again.';

alter table helpdesk.tickets add column _deleted_after timestamptz;
alter table helpdesk.customers add column _deleted_after timestamptz;
comment on column helpdesk.tickets._deleted_after is
  'It was deleted after this time, and by _deleted_at; null while it is there.';
comment on column helpdesk.customers._deleted_after is
  'It was deleted after this time, and by _deleted_at; null while it is there.';
comment on column helpdesk.tickets._deleted_at is
  'By then the source had it no more: it said so when asked by id; null while it is there.';
comment on column helpdesk.customers._deleted_at is
  'By then the source had it no more: it said so when asked by id; null while it is there.';
comment on column helpdesk.customers._checked_at is
  'A list showed the customer, as it is here, at this time: every sweep of all customers moves it on.';

alter table sync.stored_run_streams add column note text;
comment on column sync.stored_run_streams.note is 'Why nothing happens just now, in words for who watches; null while something does.';

alter table sync.stored_runs add column accept_deletions boolean not null default false;
comment on column sync.stored_runs.accept_deletions is
  'True for a sweep that may bury more than SWEEP_MOST_DELETED_PERCENT of a stream: somebody has said so.';
comment on column sync.stored_runs.again is
  'True if a backfill reads also what is covered, and a sweep also what was checked lately.';
comment on column sync.runs.again is
  'True if a backfill reads also what is covered, and a sweep also what was checked lately.';
comment on column sync.stored_runs.again_before is
  'Messages that were read before this time of the source are read again by this backfill, and customers that were checked before it are suspects of this sweep; null until its first reply.';
comment on column sync.runs.again_before is
  'Messages that were read before this time of the source are read again by this backfill, and customers that were checked before it are suspects of this sweep; null until its first reply.';
comment on table sync.run_lists is
  'How far a backfill reads each list, from its first look on; what one that reads again (--again) has read so far; and what a sweep has walked of the customers.';
comment on column sync.run_lists.covered is 'With --again, and of a sweep: ranges that this run has read.';

create function sync.is_gone_or_known(deleted_at timestamptz, observed_at timestamptz, suspected_at timestamptz) returns boolean
language sql immutable
begin atomic
  select deleted_at is not null or observed_at >= suspected_at;
end;
comment on function sync.is_gone_or_known(timestamptz, timestamptz, timestamptz) is
  'Whether a row is no suspect any more: it has its tombstone, or was observed since it was suspected.';

create view sync.open_suspects as
select s.account_id, s.stream, s.record_id, s.suspected_at, s.alive_at, s.gone_at, s.gone_since, s.attempts, s.error, s.run_id
from sync.suspects s
where case s.stream
  when 'tickets' then exists (
    select from helpdesk.tickets t
    where t.account_id = s.account_id and t.id = s.record_id
      and not sync.is_gone_or_known(t._deleted_at, greatest(t._observed_at, t._messages_as_of), s.suspected_at))
  else exists (
    select from helpdesk.customers c
    where c.account_id = s.account_id and c.id = s.record_id
      and not sync.is_gone_or_known(c._deleted_at, greatest(c._observed_at, c._checked_at), s.suspected_at))
  end;
comment on view sync.open_suspects is
  'Suspects that are still to be asked for by their id, or still to get their tombstone. The rest of sync.suspects was observed since.';
do $$
declare
  said record;
begin
  for said in
    select v.attname as name, col_description(t.attrelid, t.attnum) as words
    from pg_attribute v
    join pg_attribute t on t.attrelid = 'sync.suspects'::regclass and t.attname = v.attname
    where v.attrelid = 'sync.open_suspects'::regclass and v.attnum > 0
  loop
    execute format('comment on column sync.open_suspects.%I is %L', said.name, said.words);
  end loop;
end
$$;

-- How far back certainty reaches. A list that was never swept from the beginning on proves nothing of what came later.
create function sync.deletes_checked_at(account text, stream text) returns timestamptz
language sql stable
begin atomic
  with swept as (
    select s.list, s.created, s.as_of
    from sync.coverage c
    join sync.swept s using (account_id, stream, list)
    where c.account_id = account and c.stream = deletes_checked_at.stream and not c.redundant),
  reach as (
    select c.list, (
        select upper(part)
        from (select range_agg(s.created) as parts from swept s where s.list = c.list) one, unnest(one.parts) part
        where part @> '1970-01-01T00:00:00Z'::timestamptz) as top
    from sync.coverage c
    where c.account_id = account and c.stream = deletes_checked_at.stream and not c.redundant)
  select case
    when deletes_checked_at.stream not in ('tickets', 'customers') then null
    when (select count(*) = 0 or bool_or(r.top is null) from reach r) then null
    when deletes_checked_at.stream = 'tickets'
      and exists (
        select from helpdesk.tickets t where t.account_id = account and t.created_at is null and t._deleted_at is null)
      and not exists (
        select from sync.swept s where s.account_id = account and s.stream = 'tickets' and s.list = 'undated') then null
    else least(
      (select min(r.top) from reach r),
      (select min(s.as_of) from swept s join reach r using (list) where lower(s.created) < r.top),
      (select min(s.as_of) from sync.swept s
       where s.account_id = account and s.stream = deletes_checked_at.stream and s.list = 'undated'
         and exists (
           select from helpdesk.tickets t
           where t.account_id = account and t.created_at is null and t._deleted_at is null)),
      (select min(o.alive_at) from sync.open_suspects o
       where o.account_id = account and o.stream = deletes_checked_at.stream))
  end;
end;
comment on function sync.deletes_checked_at(text, text) is
  'Nothing that this stream shows here had been deleted at the source before this time; null if it was never swept from the beginning to the end.';

-- Joins, and no function for each row: a report asks it of all tickets.
create view sync.checked_tickets as
select t.account_id, t.id as ticket_id,
  case
    when exists (
      select from sync.rejects r
      where r.account_id = t.account_id and r.stream = 'tickets' and r.ask_id = t.id and r.cleared_at is null)
      then least(t._observed_at, s.alive_at)
    when s.alive_at is not null then s.alive_at
    else greatest(t._observed_at, w.as_of)
  end as checked_at
from helpdesk.tickets t
left join sync.open_suspects s on s.account_id = t.account_id and s.stream = 'tickets' and s.record_id = t.id
left join (
  select c.account_id, bool_or(c.list = 'spam') as spam, bool_or(c.list = 'trash') as trash
  from sync.coverage c
  where c.stream = 'tickets' and not c.redundant
  group by c.account_id) apart on apart.account_id = t.account_id
left join lateral (
  select max(w.as_of) as as_of
  from (values
    ('undated', t.created_at is null),
    ('spam', t.spam),
    ('trash', t.trash),
    ('open', t.state in ('open', 'hold') and not coalesce(t.spam, false) and not coalesce(t.trash, false)),
    ('default', not coalesce(apart.spam and t.spam or apart.trash and t.trash, false))) l (list, speaks)
  cross join lateral (
    -- Ranges of a list do not overlap: only the last one that begins by then can hold it.
    select w.created, w.as_of
    from sync.swept w
    where w.account_id = t.account_id and w.stream = 'tickets' and w.list = l.list
      and coalesce(lower(w.created), '-infinity') <= coalesce(t.created_at, '-infinity')
    order by coalesce(lower(w.created), '-infinity') desc
    limit 1) w
  where l.speaks and w.created @> coalesce(t.created_at, '-infinity')) w on true
where t._deleted_at is null;
comment on view sync.checked_tickets is
  'For every ticket that is here: when the source was last seen to have it as it is here, in what a list shows of it.';
comment on column sync.checked_tickets.account_id is 'The account.';
comment on column sync.checked_tickets.ticket_id is 'The ticket; joins helpdesk.tickets.id.';
comment on column sync.checked_tickets.checked_at is
  'When the source was last seen to have this ticket as it is here, in what a list shows of it. While a later version of it is set aside (sync.rejects), no sweep counts.';

create function sync.ticket_checked_at(account text, id text) returns timestamptz
language sql stable
begin atomic
  select c.checked_at from sync.checked_tickets c where c.account_id = account and c.ticket_id = ticket_checked_at.id;
end;
comment on function sync.ticket_checked_at(text, text) is
  'When the source was last seen to have this ticket as it is here, in what a list shows of it; null for one that is not here any more.';
