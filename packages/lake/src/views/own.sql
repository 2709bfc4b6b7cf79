-- Macros of the lake that belong to no source, in the SQL of DuckDB. The functions of the same name in the warehouse say what
-- they mean. An argument is bound in a subquery of its own: a column of the caller could have the name of an inner column.

create or replace macro analytics.calendar_of(account, inbox) as (
  select coalesce(max(_a.calendar) filter (where _a.inbox_id = _q.inbox_asked), max(_a.calendar) filter (where _a.inbox_id is null))
  from (select account as account_asked, inbox as inbox_asked) _q, analytics.calendar_assignments _a
  where _a.account_id = _q.account_asked);

-- The difference of two instants is an interval of days in the zone of who asks: a day is 23 hours long where clocks go forward.
create or replace macro analytics.seconds_between(since, until) as (epoch_us(until) - epoch_us(since)) / 1000000;

-- Business time before each of the two instants, as its last span tells that has begun. The lake has the spans from 2000 to 2059.
create or replace macro analytics.business_seconds(calendar, since, until) as
case when calendar in (select _c.name from analytics.calendars _c) and isfinite(since) and isfinite(until) then coalesce((
  select sum(_q.sign * (_s.seconds_before + analytics.seconds_between(_s.opens_at, least(_q.asked, _s.closes_at))))
  from (select calendar as calendar_asked, since as asked, -1 as sign union all select calendar, until, 1) _q
  asof join analytics.calendar_spans _s on _s.calendar = _q.calendar_asked and _s.opens_at <= _q.asked), 0) end;

-- The first span with so much business time before its end. Before its first span a calendar has none.
create or replace macro analytics.business_time_after(calendar, since, seconds) as
case when calendar in (select _c.name from analytics.calendars _c) and since >= timestamptz '2000-01-01 00:00:00+00' then (
  select _e.opens_at + to_microseconds(((_w.wanted - _e.seconds_before) * 1000000)::bigint)
  from (
    select _q.calendar_asked, _q.wanted + _s.seconds_before + analytics.seconds_between(_s.opens_at, least(_q.asked, _s.closes_at)) as wanted
    from (select calendar as calendar_asked, since as asked, seconds as wanted) _q
    asof join (
      select _b.calendar, _b.opens_at, _b.closes_at, _b.seconds_before from analytics.calendar_spans _b
      union all
      select _c.name, timestamptz '1999-01-01 00:00:00+00', timestamptz '1999-01-01 00:00:00+00', 0 from analytics.calendars _c) _s on _s.calendar = _q.calendar_asked and _s.opens_at <= _q.asked) _w
  asof join (
    select _t.calendar, _t.opens_at, _t.seconds_before, _t.seconds_before + analytics.seconds_between(_t.opens_at, _t.closes_at) as seconds_through
    from analytics.calendar_spans _t) _e on _e.calendar = _w.calendar_asked and _e.seconds_through >= _w.wanted) end;

-- The state at the time of the question, by the rule of sync.status.
create or replace view analytics.completeness as
select c.account_id, c.stream, c.complete_through, c.gaps, c.waiting, c.open_rejects, c.deletes_checked_at,
  case
    when c.settled_state is not null then c.settled_state
    when now() > c.reached + to_seconds(c.target_seconds) and not coalesce(c.deferred_until > now(), false) then 'stale'
    when (c.waiting > 0 or c.gaps > 0)
      and not coalesce(c.complete_through > least(now() - to_seconds(c.target_seconds), c.reached), false) then 'catching_up'
    when c.deferred_until > now() and c.waiting > 0 then 'catching_up'
    else 'fresh' end as state,
  c.source, c.complete_from, c.unchecked_since
from internal.lake_completeness c;
