-- Up Migration

-- A reply is complete as of a moment before its data was read, and true by a moment after that. What is seen in a reply has happened
-- by the later one; history took the earlier one for it, and said "certain" of times in which the change had not happened yet.

alter table helpdesk.ticket_history add column change_by timestamptz;
comment on column helpdesk.ticket_history.change_by is
  'The change happened by this time, if that is later than valid_from: the reply that showed it was true by then. Between valid_from and this time it is not certain that it had happened. Null where it happened by valid_from; of a first row, where updated_at is taken at its word, since the ticket was last updated before the mirror began.';
comment on column helpdesk.ticket_history.valid_from is
  'From then on: updated_at, if that has moved; else the time by which the reply that showed the change was true. Of the first row: updated_at as it was when the ticket was first seen here; what it was before that nobody can tell. updated_at is that of the version which showed the change: where something else had moved it, and the change itself did not, it happened later, by change_by.';
comment on column helpdesk.ticket_history.change_after is
  'The change happened after this time, in the seconds of the source: it was seen to have the values before still at this time; of a first row, a second before it was created. Null where that is not known. It happened by valid_from, or by change_by where that is set. What was changed and changed back since is not known.';

create function sync.true_by(true_by timestamptz, observed_at timestamptz) returns timestamptz
language sql immutable
begin atomic
  select coalesce(true_by, observed_at + interval '1 minute');
end;
comment on function sync.true_by(timestamptz, timestamptz) is
  'The time by which a reply was true, also of a row in which it was not noted.';

create or replace function sync.begin_ticket_history() returns trigger
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
declare
  begun int;
begin
  -- The ticket comes with its messages, and most of the time as it is here: then there is nothing to begin.
  if not exists (select from after) then return null; end if;
  perform set_config('shelfdesk.metrics', 'with the ticket', true);
  insert into helpdesk.ticket_history
    (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, valid_to, change_after, change_by, deleted_after, is_first)
  select t.account_id, t.id, t.state, t.user_id, t.inbox_id, t.label_ids, t.spam, t.trash, f.valid_from,
    case when t._deleted_at is not null then greatest(t._deleted_at, f.valid_from + interval '1 second') end,
    case when t.created_at <= f.valid_from then t.created_at - interval '1 second' end,
    -- A ticket that came while the mirror was there was seen soon after; the source is taken at its word for older ones.
    case when t.updated_at >= k.mirrored_since and y.by > f.valid_from then y.by end,
    t._deleted_after, true
  from after t
  left join sync.accounts k on k.account_id = t.account_id
  cross join lateral (select sync.true_by(t._true_by, t._observed_at) as by) y
  cross join lateral (select least(t.updated_at, y.by) as valid_from) f
  on conflict do nothing;
  perform set_config('shelfdesk.metrics', '', true);

  insert into analytics.stored_ticket_metrics (
    account_id, ticket_id, message_count, inbound_count, authored_count, automatic_count, note_count, other_count, attachment_count,
    agents_involved, is_outbound_initiated, is_one_touch, is_unreplied, turns,
    first_closed_at, first_closed_error_seconds, last_closed_at, last_closed_error_seconds,
    first_resolution_seconds, first_resolution_error_seconds, first_resolution_business_seconds,
    full_resolution_seconds, full_resolution_error_seconds, full_resolution_business_seconds,
    reopen_count, reopen_error_seconds, assignment_count, assignment_error_seconds,
    seconds_open, open_error_seconds, seconds_hold, hold_error_seconds, seconds_snoozed, snoozed_error_seconds,
    seconds_closed, closed_error_seconds, seconds_archived, archived_error_seconds)
  select n.account_id, n.id, 0, 0, 0, 0, 0, 0, 0, 0, false, false, false, 0,
    r.closed_at, r.closed_within, r.closed_at, r.closed_within, r.took, r.closed_within, r.took_business, r.took, r.closed_within, r.took_business,
    0, n.within, (n.user_id is not null)::int, n.within, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
  from (
    select t.account_id, t.id, t.user_id, t.inbox_id, t.created_at, f.valid_from, t.state in ('closed', 'archived') as resolved,
      case when t.created_at <= f.valid_from then date_part('epoch', f.valid_from - (t.created_at - interval '1 second')) end as within
    from after t
    cross join lateral (select sync.true_by(t._true_by, t._observed_at) as by) y
    cross join lateral (select least(t.updated_at, y.by) as valid_from) f
    where t._deleted_at is null
      and t.account_id = any (array(select account_id from sync.readable_accounts))
      and (
        -- In the order of the one index that serves, as in analytics.keep_metrics.
        select true from helpdesk.messages m where m.account_id = t.account_id and m.ticket_id = t.id
        order by m.position limit 1) is null
    offset 0) n
  left join lateral (
    select n.valid_from as closed_at, n.within as closed_within, date_part('epoch', n.valid_from - n.created_at) as took,
      case when exists (select from analytics.stored_calendar_assignments)
        then analytics.business_seconds(analytics.calendar_of(n.account_id, n.inbox_id), n.created_at, n.valid_from)::float8 end as took_business
    where n.resolved) r on true
  on conflict do nothing;
  get diagnostics begun = row_count;
  if begun < (select count(*) from after) then
    perform analytics.keep_metrics(array_agg(t.account_id), array_agg(t.id)) from after t;
  end if;
  return null;
end
$$;

create or replace function sync.keep_ticket_history() returns trigger
language plpgsql
-- A plan that is kept was made for the rows of another statement: one ticket, or an empty warehouse.
set plan_cache_mode = force_custom_plan
as $$
declare
  -- The source's times are in whole seconds. As a parameter it has plans made anew.
  second constant interval := '1 second';
begin
  -- Most updates change nothing of it. A full join is never a nested loop, whatever it was planned for.
  if not exists (
    select from before b full join after a using (account_id, id)
    where (b._deleted_at is null) <> (a._deleted_at is null)
      or a.state is distinct from b.state or a.user_id is distinct from b.user_id or a.inbox_id is distinct from b.inbox_id
      or a.spam is distinct from b.spam or a.trash is distinct from b.trash or not sync.same_set(a.label_ids, b.label_ids)) then
    return null;
  end if;
  with changed as materialized (
    select a.account_id, a.id, a.state, a.user_id, a.inbox_id, a.label_ids, a.spam, a.trash,
      a._deleted_at is null as alive,
      case
        when a._deleted_at is not null then greatest(a._deleted_at, last.valid_from + second)
        else greatest(last.valid_from, last.valid_to, case
          -- It was gone at its tombstone: a version of before that does not say when it came back.
          when a.updated_at <> b.updated_at and (b._deleted_at is null or a.updated_at > b._deleted_at)
            then least(a.updated_at, y.by)
          else y.by end)
      end as at,
      y.by,
      last.valid_from as last_from, last.valid_from is not null and last.valid_to is null as is_open,
      case
        when last.valid_from is null then a.created_at - second
        -- It came back after it was deleted. How long before its tombstone the source had looked for it is not known.
        when b._deleted_at is not null then greatest(b._observed_at - k.lookback, b._deleted_after)
        -- A version holds what had happened by the second that it is dated, unless that is a slip: it is dated later than its reply
        -- was true, or than the version after it. A reading holds all up to a lookback before it.
        else greatest(
          case when b.updated_at <= least(a.updated_at, sync.true_by(b._true_by, b._observed_at)) then b.updated_at - second end,
          b._observed_at - k.lookback, w.as_of, last.change_after)
      end as before_at,
      a._deleted_after
    from before b
    join after a using (account_id, id)
    cross join lateral (select sync.true_by(a._true_by, a._observed_at) as by) y
    left join lateral (
      select h.valid_from, h.valid_to, h.change_after from helpdesk.ticket_history h
      where h.account_id = a.account_id and h.ticket_id = a.id
      order by h.valid_from desc limit 1) last on true
    left join sync.accounts k on k.account_id = b.account_id
    left join sync.lists_apart apart on apart.account_id = b.account_id
    left join lateral sync.swept_at(b.account_id, b.created_at, b.state, b.spam, b.trash, apart.spam, apart.trash) w on true
    where (b._deleted_at is null) <> (a._deleted_at is null)
      or a._deleted_at is null and (
        a.state is distinct from b.state or a.user_id is distinct from b.user_id or a.inbox_id is distinct from b.inbox_id
        or a.spam is distinct from b.spam or a.trash is distinct from b.trash or not sync.same_set(a.label_ids, b.label_ids))),
  -- The open row is named as such, and not by its time: a thousand tickets may have been changed within one second.
  -- Two changes at one time are one row: it takes on the later values, and happened after what it came after.
  replaced as (
    update helpdesk.ticket_history h
    set state = c.state, user_id = c.user_id, inbox_id = c.inbox_id, label_ids = c.label_ids, spam = c.spam, trash = c.trash,
      change_by = case when c.by > c.at then c.by end
    from changed c
    where c.is_open and c.alive and c.at = c.last_from
      and h.account_id = c.account_id and h.ticket_id = c.id and h.valid_to is null),
  ended as (
    update helpdesk.ticket_history h set valid_to = c.at, deleted_after = c._deleted_after
    from changed c
    where c.is_open and (c.at > c.last_from or not c.alive)
      and h.account_id = c.account_id and h.ticket_id = c.id and h.valid_to is null
    returning h.account_id, h.ticket_id)
  -- What has ended is asked for, so that it has before the next row begins: one row of a ticket is open.
  insert into helpdesk.ticket_history
    (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, change_after, change_by, is_first)
  select c.account_id, c.id, c.state, c.user_id, c.inbox_id, c.label_ids, c.spam, c.trash, c.at,
    case when c.before_at is not null then least(c.before_at, c.at - second) end,
    case when c.by > c.at then c.by end, c.last_from is null
  from changed c left join ended e on e.account_id = c.account_id and e.ticket_id = c.id
  where c.alive and (e.ticket_id is not null or not c.is_open);
  return null;
end
$$;

create or replace view analytics.ticket_history with (security_barrier) as
select h.account_id, h.ticket_id, h.state, h.user_id, h.inbox_id, h.label_ids, h.spam, h.trash, h.valid_from, h.valid_to, h.change_after,
  h.deleted_after, h.is_first, h.change_by
from helpdesk.ticket_history h
where h.account_id = any (array(select r.account_id from sync.readable_accounts r));
do $$
declare
  said record;
begin
  for said in
    select v.attname as name, col_description(t.attrelid, t.attnum) as words
    from pg_attribute v
    join pg_attribute t on t.attrelid = 'helpdesk.ticket_history'::regclass and t.attname = v.attname
    where v.attrelid = 'analytics.ticket_history'::regclass and v.attnum > 0
  loop
    execute format('comment on column analytics.ticket_history.%I is %L', said.name, said.words);
  end loop;
end
$$;

create or replace view analytics.ticket_state_intervals with (security_barrier) as
select i.account_id, i.ticket_id, i.state, i.valid_from,
  case when i.ends then i.valid_to else i.next_valid_to end as valid_to,
  i.change_after,
  extract(epoch from i.valid_from - i.change_after)::float8 as error_seconds,
  case when i.ends then i.deleted_after else i.next_deleted_after end as deleted_after,
  i.change_by
from (
  -- Of each run of rows the first and the last are left: the one has its begin, the other its end.
  select b.*, lead(b.valid_to) over once as next_valid_to, lead(b.deleted_after) over once as next_deleted_after
  from (
    select h.account_id, h.ticket_id, h.state, h.valid_from, h.valid_to, h.change_after, h.change_by, h.deleted_after,
      lag(h.valid_to) over w is distinct from h.valid_from or lag(h.state) over w is distinct from h.state as begins,
      lead(h.valid_from) over w is distinct from h.valid_to or lead(h.state) over w is distinct from h.state as ends
    from helpdesk.ticket_history h
    where h.account_id = any (array(select r.account_id from sync.readable_accounts r))
    window w as (partition by h.account_id, h.ticket_id order by h.valid_from)) b
  where b.begins or b.ends
  window once as (partition by b.account_id, b.ticket_id order by b.valid_from)) i
where i.begins;
comment on column analytics.ticket_state_intervals.change_after is
  'It came into this state after this time, and by valid_from, or by change_by where that is set; null where that is not known.';
comment on column analytics.ticket_state_intervals.change_by is
  'It came into this state by this time, if that is later than valid_from: see helpdesk.ticket_history.change_by.';

create or replace function analytics.tickets_as_of(at timestamptz)
returns table (account_id text, ticket_id text, number bigint, customer_id text, inbox_id text, user_id text, state text, type text,
  label_ids text[], spam boolean, trash boolean, created_at timestamptz, valid_from timestamptz, valid_to timestamptz, certain boolean)
language sql stable
begin atomic
  select t.account_id, t.ticket_id, t.number, t.customer_id, h.inbox_id, h.user_id, h.state, t.type, h.label_ids, h.spam, h.trash,
    t.created_at, h.valid_from, h.valid_to,
    h.valid_from is not null and coalesce(h.change_by <= tickets_as_of.at, true) and case
      when h.valid_to is null then true
      when n.ticket_id is null then coalesce(h.deleted_after >= tickets_as_of.at, false)
      else coalesce(n.change_after >= tickets_as_of.at, false) and coalesce(h.deleted_after >= tickets_as_of.at, true) end
  from analytics.ticket_basics t
  left join analytics.ticket_history h
    on h.account_id = t.account_id and h.ticket_id = t.ticket_id
      and h.valid_from <= tickets_as_of.at and (h.valid_to is null or h.valid_to > tickets_as_of.at)
  -- The row that follows on it at once; where there is none, the ticket was deleted.
  left join analytics.ticket_history n
    on n.account_id = h.account_id and n.ticket_id = h.ticket_id and n.valid_from = h.valid_to
  where coalesce(t.created_at <= tickets_as_of.at, h.valid_from is not null) and (h.valid_from is not null or exists (
    select from analytics.ticket_history f
    where f.account_id = t.account_id and f.ticket_id = t.ticket_id and f.is_first and f.valid_from > tickets_as_of.at));
end;
comment on function analytics.tickets_as_of(timestamptz) is
  'Every ticket that was there at a time, as it was then. certain is false where it may have been otherwise: where the change that ended the row may have happened by then; where the one that began it may have happened later; and where nobody can tell what it was, since it was first seen, or had changed, later: then its values are null. Certain is so as far as changes were seen: what was changed and changed back between two readings left no trace. Times after analytics.completeness says are as far as the mirror knows.';

create or replace function analytics.backlog_daily(from_day date, to_day date, time_zone text default 'UTC')
returns table (account_id text, day date, state text, inbox_id text, user_id text, tickets bigint, uncertain bigint)
language sql stable
begin atomic
  with days as materialized (
    select g.n::int as n, from_day + g.n::int - 1 as day
    from generate_series(1, to_day - from_day + 1) g (n)),
  -- When they end, a microsecond later: so the number of a time is how many days have ended before it. Where clocks go back to
  -- midnight there are two, of which PostgreSQL takes the later one: the day ends with the first.
  ends as materialized (
    select array_agg(m.at - case
      when (m.at - interval '1 hour') at time zone time_zone >= (d.day + 1)::timestamp then interval '1 hour'
      else interval '0' end + interval '1 microsecond' order by d.n) as at
    from days d cross join lateral (select (d.day + 1)::timestamp at time zone time_zone as at) m),
  -- The ends of days after the first number, up to the second one.
  span as (
    select h.account_id, h.state, h.inbox_id, h.user_id, width_bucket(h.valid_from, (select e.at from ends e)) as after,
      coalesce(width_bucket(h.valid_to, (select e.at from ends e)), (select cardinality(e.at) from ends e)) as through,
      count(*) as tickets, 0 as uncertain
    from analytics.ticket_history h
    where analytics.is_backlog(h.state, h.spam, h.trash) and (h.valid_to is null or h.valid_to >= (select e.at[1] from ends e))
    group by 1, 2, 3, 4, 5, 6
    union all
    -- What it was before its first row.
    select h.account_id, null, null, null, width_bucket(h.change_after + interval '1 second', (select e.at from ends e)),
      width_bucket(h.valid_from, (select e.at from ends e)), 1, 1
    from analytics.ticket_history h
    where h.is_first and h.valid_from >= (select e.at[1] from ends e) and h.change_after < (select e.at[cardinality(e.at)] from ends e)
    union all
    -- What it was between its first row and the reply that showed it.
    select h.account_id, null, null, null, width_bucket(h.valid_from, (select e.at from ends e)),
      width_bucket(h.change_by, (select e.at from ends e)), 0, 1
    from analytics.ticket_history h
    where h.is_first and h.change_by >= (select e.at[1] from ends e) and h.valid_from < (select e.at[cardinality(e.at)] from ends e)
    union all
    -- A change that may have happened before the end of a day as well as after it, of what it was before and after.
    select n.account_id, d.state, d.inbox_id, d.user_id, greatest(n.after, o.after), n.through, 0, 1
    from (
      select h.*,
        case
          when h.is_first then width_bucket(h.valid_from, (select e.at from ends e))
          else coalesce(width_bucket(h.change_after + interval '1 microsecond', (select e.at from ends e)), 0) end as after,
        width_bucket(greatest(h.valid_from, h.change_by), (select e.at from ends e)) as through
      from analytics.ticket_history h
      where (not h.is_first and h.valid_from >= (select e.at[1] from ends e) or h.change_by >= (select e.at[1] from ends e))
        and coalesce(h.change_after < (select e.at[cardinality(e.at)] from ends e), true)) n
    left join lateral (
      select h.state, h.inbox_id, h.user_id, h.valid_to, analytics.is_backlog(h.state, h.spam, h.trash) as counts,
        width_bucket(h.valid_from, (select e.at from ends e)) as after
      from analytics.ticket_history h
      -- By the primary key.
      where h.account_id = n.account_id and h.ticket_id = n.ticket_id and h.valid_from < n.valid_from
      order by h.valid_from desc
      limit 1) o on o.valid_to = n.valid_from
    cross join lateral (
      select o.state, o.inbox_id, o.user_id where o.counts
      union all
      select n.state, n.inbox_id, n.user_id where analytics.is_backlog(n.state, n.spam, n.trash)) d
    where n.after < n.through and not (coalesce(o.counts, false) and analytics.is_backlog(n.state, n.spam, n.trash)
      and n.state is not distinct from o.state and n.inbox_id is not distinct from o.inbox_id and n.user_id is not distinct from o.user_id)
    union all
    -- As well a deletion.
    select h.account_id, h.state, h.inbox_id, h.user_id,
      greatest(width_bucket(h.valid_from, (select e.at from ends e)), width_bucket(h.deleted_after + interval '1 microsecond', (select e.at from ends e))),
      width_bucket(h.valid_to, (select e.at from ends e)), 0, 1
    from analytics.ticket_history h
    where analytics.is_backlog(h.state, h.spam, h.trash) and h.deleted_after is not null and h.valid_to >= (select e.at[1] from ends e)),
  event as (
    select s.account_id, s.state, s.inbox_id, s.user_id, e.n, sum(e.sign * s.tickets) as tickets, sum(e.sign * s.uncertain) as uncertain
    from span s cross join lateral (values (s.after + 1, 1), (s.through + 1, -1)) e (n, sign)
    where s.after < s.through
    group by 1, 2, 3, 4, 5),
  total as (
    select b.account_id, b.state, b.inbox_id, b.user_id, b.n, sum(sum(b.tickets)) over w as tickets, sum(sum(b.uncertain)) over w as uncertain
    from (
      select e.account_id, e.state, e.inbox_id, e.user_id, e.n, e.tickets, e.uncertain from event e
      union all
      select k.account_id, k.state, k.inbox_id, k.user_id, d.n, 0, 0
      from (select distinct e.account_id, e.state, e.inbox_id, e.user_id from event e) k cross join days d) b
    group by 1, 2, 3, 4, 5
    window w as (partition by b.account_id, b.state, b.inbox_id, b.user_id order by b.n))
  select t.account_id, d.day, t.state, t.inbox_id, t.user_id, t.tickets::bigint, t.uncertain::bigint
  from total t join days d on d.n = t.n
  where t.tickets > 0 or t.uncertain > 0;
end;
comment on function analytics.backlog_daily(date, date, text) is
  'How many tickets were open work at the end of each day of a time zone, by state, inbox and user: as analytics.tickets_as_of tells for that midnight, without spam, trash, closed and archived ones. Under state null: tickets that were there, and of which nobody can tell what they were. uncertain: the true number may differ by so many; of so many tickets the change that brought them in or took them out may have happened on either side of that midnight, since it lies between change_after and valid_from, or change_by, or nothing is known. So it may be more than tickets. What was changed and changed back between two readings is in neither; a deletion of which deleted_after is not known counts as of valid_to. A day that is not over shows what is known so far.';

-- What is said of it beside the figures.
update analytics.metric_definitions d set formula = n.formula
from (values
  ('tickets_as_of', 'certain',
    'True if the time lies at or after valid_from, and at or after change_by where that is set, and before change_after of the row that follows, before deleted_after of a deletion, or in a row that has not ended. False also where the ticket was there, and its history begins later. As far as changes were seen: what was changed and changed back between two readings left no trace.'),
  ('backlog_daily', 'uncertain',
    'By how many the true number may differ: changes, into this group or out of it, that may have happened on either side of that midnight, since it lies between change_after and valid_from, or change_by where that is later (of a deletion between deleted_after and valid_to); and tickets of which nothing is known. Tickets that are not among "tickets" count too, so it may be more than these. What was changed and changed back between two readings does not count.'),
  ('ticket_metrics', 'first_closed_error_seconds',
    'valid_from − change_after of the row that first_closed_at comes from. Where change_by of that row is set, it may have happened as late as that.'),
  ('ticket_state_intervals', 'error_seconds',
    'valid_from − change_after. Where change_by is set, the change may have happened as late as that.')) n (relation, name, formula)
where d.relation = n.relation and d.name = n.name;

-- Rows that are here already. A row that follows a deletion began after the ticket was last seen before it.
update helpdesk.ticket_history h set change_after = case when p.deleted_after is not null then least(h.change_after, p.deleted_after) end
from (
  select o.account_id, o.ticket_id, o.valid_to, o.deleted_after,
    lead(o.valid_from) over (partition by o.account_id, o.ticket_id order by o.valid_from) as next_from
  from helpdesk.ticket_history o) p
where h.account_id = p.account_id and h.ticket_id = p.ticket_id and h.valid_from = p.next_from
  and (p.deleted_after is not null or p.valid_to < p.next_from);

-- No row says by when its reply was true. The reply was true before its commit, and sync.changes has the time of each commit: the row
-- is found by the time that the commit dated it. Our clock may differ from that of the source by the lookback at most. A row without
-- a commit had begun by its end. The trigger stores metrics anew, and none of them has change_by.
alter table helpdesk.ticket_history disable trigger keep_metrics_updated;
with commits as (
  select c.account_id, c.record_id, c.seen_at,
    max(case when c.changes ? 'updated_at' then (c.changes #>> '{updated_at,1}')::timestamptz else c.as_of end)
      over (partition by c.account_id, c.record_id order by c.id) as at
  from sync.changes c
  where c.table_name = 'tickets' and c.changes ?| '{state,user_id,inbox_id,label_ids,spam,trash,_deleted_at}'),
known as (select c.account_id, c.record_id, c.at, max(c.seen_at) as seen_at from commits c group by 1, 2, 3),
bound as (
  select h.account_id, h.ticket_id, h.valid_from,
    case
      when k.at is not null then k.seen_at + l.lookback
      when not h.is_first then coalesce(h.valid_to, t._synced_at + l.lookback)
      when h.valid_from >= a.mirrored_since then t._first_seen_at + l.lookback
    end as change_by
  from helpdesk.ticket_history h
  join helpdesk.tickets t on t.account_id = h.account_id and t.id = h.ticket_id
  left join known k on k.account_id = h.account_id and k.record_id = h.ticket_id and k.at = h.valid_from
  left join sync.accounts a on a.account_id = h.account_id
  cross join lateral (select coalesce(a.lookback, interval '2 minutes') as lookback) l)
update helpdesk.ticket_history h set change_by = b.change_by
from bound b
where h.account_id = b.account_id and h.ticket_id = b.ticket_id and h.valid_from = b.valid_from and b.change_by > h.valid_from;
alter table helpdesk.ticket_history enable trigger keep_metrics_updated;
