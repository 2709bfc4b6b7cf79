-- Up Migration

-- Business time: how many of the seconds between two instants lay within business hours. An instant is a business one if the
-- clock on the wall, in the calendar's zone, shows business hours: an hour that daylight saving skips is nobody's, one that it
-- repeats counts twice. What a calendar says is turned into spans of instants once, each with the sum of those before it, so
-- that a question costs two look-ups, however long ago it was.

create table analytics.calendars (
  name text primary key check (name <> ''),
  time_zone text not null
);
comment on table analytics.calendars is
  'Business hours by name: weekly hours and holidays, in a time zone. Made with npx shelfdesk calendar set.';
comment on column analytics.calendars.name is 'Name of the calendar.';
comment on column analytics.calendars.time_zone is 'The zone in which its hours and holidays are meant, such as Europe/Berlin.';

create table analytics.calendar_hours (
  calendar text not null references analytics.calendars on update cascade on delete cascade,
  weekday int not null check (weekday between 1 and 7),
  opens time(0) not null,
  closes time(0) not null,
  primary key (calendar, weekday, opens),
  check (opens < closes)
);
comment on table analytics.calendar_hours is
  'Weekly hours of a calendar: several spans a day are fine, and what two of them share counts once. A day without a row is closed.';
comment on column analytics.calendar_hours.calendar is 'The calendar; joins analytics.calendars.name.';
comment on column analytics.calendar_hours.weekday is 'Day of the week: 1 Monday to 7 Sunday.';
comment on column analytics.calendar_hours.opens is 'From this local time on.';
comment on column analytics.calendar_hours.closes is
  'Up to this local time, without; 24:00 is the end of the day. Hours that go on after midnight are two rows.';

create table analytics.calendar_holidays (
  calendar text not null references analytics.calendars on update cascade on delete cascade,
  day date not null,
  name text,
  primary key (calendar, day)
);
comment on table analytics.calendar_holidays is 'Local days on which a calendar is closed, whatever its weekly hours say.';
comment on column analytics.calendar_holidays.calendar is 'The calendar; joins analytics.calendars.name.';
comment on column analytics.calendar_holidays.day is 'The day, from midnight to midnight in the zone of the calendar.';
comment on column analytics.calendar_holidays.name is 'What day it is; null if nobody said.';

-- Who may read which account is the view's business; this table is the worker's.
create table analytics.stored_calendar_assignments (
  account_id text not null,
  inbox_id text,
  calendar text not null references analytics.calendars on update cascade,
  unique nulls not distinct (account_id, inbox_id)
);
create index stored_calendar_assignments_calendar on analytics.stored_calendar_assignments (calendar);
comment on table analytics.stored_calendar_assignments is 'What analytics.calendar_assignments shows, of all accounts.';
comment on column analytics.stored_calendar_assignments.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.stored_calendar_assignments.inbox_id is 'The inbox; null for all others of the account.';
comment on column analytics.stored_calendar_assignments.calendar is 'The calendar; joins analytics.calendars.name.';

create view analytics.calendar_assignments with (security_barrier) as
select a.account_id, a.inbox_id, a.calendar
from analytics.stored_calendar_assignments a
where a.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.calendar_assignments is
  'Which calendar holds for which inbox. Where there is none, business time is null. Made with npx shelfdesk calendar assign.';
comment on column analytics.calendar_assignments.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.calendar_assignments.inbox_id is
  'The inbox; joins helpdesk.inboxes.id. Null: for tickets of all inboxes that have none of their own, and those without an inbox.';
comment on column analytics.calendar_assignments.calendar is 'The calendar; joins analytics.calendars.name.';

create table analytics.calendar_spans (
  calendar text not null references analytics.calendars on update cascade on delete cascade,
  opens_at timestamptz not null,
  closes_at timestamptz not null,
  seconds_before bigint not null,
  -- A look-up for the last one before an instant goes through half of a page: pages that are nearly empty make it twice as fast.
  primary key (calendar, opens_at) with (fillfactor = 20),
  check (opens_at < closes_at)
);
comment on table analytics.calendar_spans is
  'When each calendar is open, from 2000 to the end of 2059, as instants. Kept by triggers on the calendars; do not write here.';
comment on column analytics.calendar_spans.calendar is 'The calendar; joins analytics.calendars.name.';
comment on column analytics.calendar_spans.opens_at is 'Business hours begin.';
comment on column analytics.calendar_spans.closes_at is 'Business hours end.';
comment on column analytics.calendar_spans.seconds_before is 'Seconds of business time in all spans before this one.';

create function analytics.zone_offsets(time_zone text, since timestamptz, until timestamptz)
returns table (starts timestamptz, ends timestamptz, utc_offset interval)
language plpgsql stable strict parallel safe rows 300
as $$
declare
  -- Whole seconds: no clock is ever changed between two of them.
  low bigint := floor(extract(epoch from since));
  last constant bigint := ceil(extract(epoch from until));
  high bigint;
  middle bigint;
  next_offset interval;
begin
  starts := to_timestamp(low);
  utc_offset := (starts at time zone time_zone) - (starts at time zone 'UTC');
  while low < last loop
    high := least(low + 86400, last);
    ends := to_timestamp(high);
    next_offset := (ends at time zone time_zone) - (ends at time zone 'UTC');
    if next_offset = utc_offset then
      low := high;
      continue;
    end if;
    -- Somewhere on this day: halve it until one second is left.
    while high - low > 1 loop
      middle := (low + high) / 2;
      if (to_timestamp(middle) at time zone time_zone) - (to_timestamp(middle) at time zone 'UTC') = utc_offset then
        low := middle;
      else
        high := middle;
      end if;
    end loop;
    ends := to_timestamp(high);
    return next;
    starts := ends;
    utc_offset := (starts at time zone time_zone) - (starts at time zone 'UTC');
    low := high;
  end loop;
  ends := to_timestamp(last);
  if starts < ends then return next; end if;
end
$$;
comment on function analytics.zone_offsets(text, timestamptz, timestamptz) is
  'How far the clocks of a time zone are from UTC between two instants: one row for as long as nobody changes them.';

create function analytics.open_spans(calendar text, since timestamptz, until timestamptz)
returns table (opens_at timestamptz, closes_at timestamptz)
language sql stable strict parallel safe rows 10000
as $$
  select lower(open.span), upper(open.span)
  from unnest((
    select range_agg(tstzrange(s.opens_at, s.closes_at))
    from analytics.calendars c
    cross join lateral analytics.zone_offsets(c.time_zone, $2, $3) z
    -- The local days that this offset has a part of.
    cross join lateral generate_series(
      date_trunc('day', (z.starts at time zone 'UTC') + z.utc_offset), (z.ends at time zone 'UTC') + z.utc_offset, interval '1 day') d (day)
    join analytics.calendar_hours h on h.calendar = c.name and h.weekday = extract(isodow from d.day)
    cross join lateral (
      select greatest((d.day::date + h.opens - z.utc_offset) at time zone 'UTC', z.starts, $2) as opens_at,
        least((d.day::date + h.closes - z.utc_offset) at time zone 'UTC', z.ends, $3) as closes_at) s
    where c.name = $1 and s.opens_at < s.closes_at
      and not exists (select from analytics.calendar_holidays f where f.calendar = c.name and f.day = d.day::date))) open (span)
$$;
comment on function analytics.open_spans(text, timestamptz, timestamptz) is
  'When a calendar is open between two instants, from its hours and holidays, in order. analytics.calendar_spans holds the answer for 2000 to 2059.';

create function analytics.rebuild_calendar(calendar text) returns void
language plpgsql
as $$
begin
  -- One at a time: who waits sees what the other one has written.
  perform from analytics.calendars c where c.name = rebuild_calendar.calendar for no key update;
  delete from analytics.calendar_spans s where s.calendar = rebuild_calendar.calendar;
  insert into analytics.calendar_spans (calendar, opens_at, closes_at, seconds_before)
  select rebuild_calendar.calendar, o.opens_at, o.closes_at,
    coalesce(sum(extract(epoch from o.closes_at - o.opens_at)) over (order by o.opens_at rows between unbounded preceding and 1 preceding), 0)
  from analytics.open_spans(rebuild_calendar.calendar, '2000-01-01T00:00:00Z', '2060-01-01T00:00:00Z') o;
end
$$;
comment on function analytics.rebuild_calendar(text) is
  'Works out analytics.calendar_spans of a calendar anew. Triggers do it on every change; by hand only when PostgreSQL has learned new rules of a time zone.';

create function analytics.keep_calendar_spans() returns trigger
language plpgsql
as $$
declare
  changed text;
begin
  if tg_table_name = 'calendars' then
    -- A new one has no hours yet, and with an old one they go.
    for changed in select n.name from news n join olds o on o.name = n.name and o.time_zone <> n.time_zone loop
      perform analytics.rebuild_calendar(changed);
    end loop;
  elsif tg_op = 'INSERT' then
    for changed in select distinct n.calendar from news n loop
      perform analytics.rebuild_calendar(changed);
    end loop;
  elsif tg_op = 'DELETE' then
    -- Of those that are still there.
    for changed in select c.name from analytics.calendars c where c.name in (select o.calendar from olds o) loop
      perform analytics.rebuild_calendar(changed);
    end loop;
  else
    for changed in
      select c.name from analytics.calendars c where c.name in (select o.calendar from olds o union all select n.calendar from news n)
    loop
      perform analytics.rebuild_calendar(changed);
    end loop;
  end if;
  return null;
end
$$;
comment on function analytics.keep_calendar_spans() is 'Brings analytics.calendar_spans up to date with what has changed in a calendar.';

create trigger keep_spans after update on analytics.calendars
  referencing old table as olds new table as news for each statement execute function analytics.keep_calendar_spans();
do $$
declare
  kept text;
begin
  foreach kept in array array['calendar_hours', 'calendar_holidays'] loop
    execute format('create trigger keep_spans_inserted after insert on analytics.%I
      referencing new table as news for each statement execute function analytics.keep_calendar_spans()', kept);
    execute format('create trigger keep_spans_updated after update on analytics.%I
      referencing old table as olds new table as news for each statement execute function analytics.keep_calendar_spans()', kept);
    execute format('create trigger keep_spans_deleted after delete on analytics.%I
      referencing old table as olds for each statement execute function analytics.keep_calendar_spans()', kept);
  end loop;
end
$$;

-- A zone that PostgreSQL does not know is refused where it is said.
create function analytics.check_time_zone() returns trigger
language plpgsql
as $$
begin
  perform 'epoch'::timestamptz at time zone new.time_zone;
  return new;
end
$$;
comment on function analytics.check_time_zone() is 'Refuses a calendar in a time zone that PostgreSQL does not know.';
create trigger check_time_zone before insert or update on analytics.calendars
  for each row execute function analytics.check_time_zone();

create function analytics.business_seconds(calendar text, since timestamptz, until timestamptz) returns float8
language plpgsql stable strict parallel safe
-- The worker has plans made anew for each statement; here that would be for each call.
set plan_cache_mode = force_generic_plan
as $$
declare
  first_stored constant timestamptz := '2000-01-01T00:00:00Z';
  last_stored constant timestamptz := '2060-01-01T00:00:00Z';
  before_since bigint;
  before_until bigint;
  of_since float8;
  of_until float8;
  seconds float8;
begin
  -- Two small statements: a third less than one that joins them.
  select s.seconds_before, date_part('epoch', least($2, s.closes_at) - s.opens_at) into before_since, of_since
  from analytics.calendar_spans s where s.calendar = $1 and s.opens_at <= $2 order by s.opens_at desc limit 1;
  select s.seconds_before, date_part('epoch', least($3, s.closes_at) - s.opens_at) into before_until, of_until
  from analytics.calendar_spans s where s.calendar = $1 and s.opens_at <= $3 order by s.opens_at desc limit 1;
  seconds := coalesce(before_until, 0) - coalesce(before_since, 0) + (coalesce(of_until, 0) - coalesce(of_since, 0));
  if $2 >= first_stored and $2 <= last_stored and $3 >= first_stored and $3 <= last_stored then
    if before_since is null and before_until is null and not exists (select from analytics.calendars c where c.name = $1) then return null; end if;
    return seconds;
  end if;

  -- Beyond what is stored it is worked out.
  if not isfinite($2) or not isfinite($3) or not exists (select from analytics.calendars c where c.name = $1) then return null; end if;
  return seconds + case when $3 < $2 then -1 else 1 end * (
    select coalesce(sum(extract(epoch from o.closes_at - o.opens_at)), 0)
    from (values
      (least($2, $3), least(greatest($2, $3), first_stored)),
      (greatest(least($2, $3), last_stored), greatest($2, $3))) beyond (since, until)
    cross join lateral analytics.open_spans($1, beyond.since, beyond.until) o
    where beyond.since < beyond.until);
end
$$;
comment on function analytics.business_seconds(text, timestamptz, timestamptz) is
  'Seconds of business time from one instant to another, by a calendar: real ones, also where clocks are changed. Below zero if the second instant is the earlier one. '
  'Null if there is no such calendar, or an instant is null or infinite.';

create function analytics.calendar_of(account text, inbox text) returns text
language plpgsql stable parallel safe
set plan_cache_mode = force_generic_plan
as $$
begin
  return (
    select a.calendar from analytics.calendar_assignments a
    where a.account_id = account and (a.inbox_id = inbox or a.inbox_id is null)
    order by a.inbox_id nulls last limit 1);
end
$$;
comment on function analytics.calendar_of(text, text) is
  'The calendar that holds for tickets of an inbox: its own one, else that of the account; null if there is neither.';
