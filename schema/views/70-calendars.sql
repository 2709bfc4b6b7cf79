comment on table analytics.calendars is
  'Business calendars by name: weekly hours and holidays in a time zone. Created with npx shelfdesk warehouse calendar set.';
comment on column analytics.calendars.name is 'Name of the calendar.';
comment on column analytics.calendars.time_zone is 'Time zone of the hours and holidays, such as Europe/Berlin.';
comment on table analytics.calendar_hours is
  'Weekly hours of a calendar. A day may have several spans; overlapping time counts once. A day without rows is closed.';
comment on column analytics.calendar_hours.weekday is 'Day of the week: 1 Monday to 7 Sunday.';
comment on column analytics.calendar_hours.opens is 'Opening time, local.';
comment on column analytics.calendar_hours.closes is
  'Closing time, local and exclusive; 24:00 is the end of the day. Hours that cross midnight are two rows.';
comment on table analytics.calendar_holidays is
  'Local days on which a calendar is closed, whatever its weekly hours are.';
comment on column analytics.calendar_holidays.day is 'The day, from midnight to midnight in the zone of the calendar.';
comment on column analytics.calendar_holidays.name is 'Name of the holiday; null if not given.';
comment on table internal.stored_calendar_assignments is
  'Storage of analytics.calendar_assignments, for all accounts.';
comment on column internal.stored_calendar_assignments.account_id is 'The operator''s name for the mirrored account.';
comment on column internal.stored_calendar_assignments.inbox_id is
  'The inbox; null for all other inboxes of the account.';

create or replace view analytics.calendar_assignments with (security_barrier) as
select a.account_id, a.inbox_id, a.calendar
from internal.stored_calendar_assignments a
where a.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.calendar_assignments is
  'Calendar of each inbox. Without a calendar, business time is null. Created with npx shelfdesk warehouse calendar assign.';
comment on column analytics.calendar_assignments.inbox_id is
  'The inbox; joins helpdesk.inboxes.id. Null for tickets without an inbox, and of inboxes without a calendar of their own.';
comment on table analytics.calendar_spans is
  'Open spans of each calendar as instants, from 2000 to the end of 2059. Maintained by triggers on the calendars; do not write here.';
comment on column analytics.calendar_spans.opens_at is 'Start of business hours.';
comment on column analytics.calendar_spans.closes_at is 'End of business hours.';
comment on column analytics.calendar_spans.seconds_before is 'Seconds of business time in all earlier spans.';

create or replace function analytics.calendar_of(account text, inbox text) returns text
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
comment on function analytics.calendar_of is
  'Calendar for tickets of an inbox: that of the inbox, else that of the account; null without either.';

-- Rejects an unknown time zone at the write, where the error names it.
create or replace function internal.check_time_zone() returns trigger
language plpgsql
as $$
begin
  perform 'epoch'::timestamptz at time zone new.time_zone;
  return new;
end
$$;
comment on function internal.check_time_zone is 'Rejects a calendar whose time zone PostgreSQL does not know.';

create or replace function analytics.zone_offsets(time_zone text, since timestamptz, until timestamptz)
returns table (starts timestamptz, ends timestamptz, utc_offset interval)
language plpgsql stable strict parallel safe rows 300
as $$
declare
  -- Whole seconds suffice: no zone changes its offset between two seconds.
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
    -- The offset changes on this day: bisect until one second is left.
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
comment on function analytics.zone_offsets is
  'UTC offsets of a time zone between two instants: one row per period with a constant offset.';

create or replace function analytics.open_spans(calendar text, since timestamptz, until timestamptz)
returns table (opens_at timestamptz, closes_at timestamptz)
language sql stable strict parallel safe rows 10000
as $$
  select lower(open.span), upper(open.span)
  from unnest((
    select range_agg(tstzrange(s.opens_at, s.closes_at))
    from analytics.calendars c
    cross join lateral analytics.zone_offsets(c.time_zone, $2, $3) z
    -- Local days that overlap the period of this offset.
    cross join lateral generate_series(
      date_trunc('day', (z.starts at time zone 'UTC') + z.utc_offset), (z.ends at time zone 'UTC') + z.utc_offset, interval '1 day') d (day)
    join analytics.calendar_hours h on h.calendar = c.name and h.weekday = extract(isodow from d.day)
    cross join lateral (
      select greatest((d.day::date + h.opens - z.utc_offset) at time zone 'UTC', z.starts, $2) as opens_at,
        least((d.day::date + h.closes - z.utc_offset) at time zone 'UTC', z.ends, $3) as closes_at) s
    where c.name = $1 and s.opens_at < s.closes_at
      and not exists (select from analytics.calendar_holidays f where f.calendar = c.name and f.day = d.day::date))) open (span)
$$;
comment on function analytics.open_spans is
  'Open spans of a calendar between two instants, in order, from its hours and holidays. analytics.calendar_spans stores them for 2000 to 2059.';

create or replace function analytics.business_seconds(calendar text, since timestamptz, until timestamptz) returns float8
language plpgsql stable strict parallel safe
-- The worker's connections plan each statement anew. Here that would mean each call.
set plan_cache_mode = force_generic_plan
as $$
declare
  first_stored constant timestamptz := '2000-01-01T00:00:00Z';
  last_stored constant timestamptz := '2060-01-01T00:00:00Z';
  seconds float8;
begin
  -- Business time up to each of the instants. Intervals keep microseconds exact. Two look-ups of one expression take less time than
  -- two statements, or than a join.
  seconds := date_part('epoch',
    (select s.seconds_before * interval '1 second' + (least($3, s.closes_at) - s.opens_at)
     from analytics.calendar_spans s where s.calendar = $1 and s.opens_at <= $3 order by s.opens_at desc limit 1)
    - (select s.seconds_before * interval '1 second' + (least($2, s.closes_at) - s.opens_at)
       from analytics.calendar_spans s where s.calendar = $1 and s.opens_at <= $2 order by s.opens_at desc limit 1));
  if seconds is not null and $2 >= first_stored and $2 <= last_stored and $3 >= first_stored and $3 <= last_stored then
    return seconds;
  end if;

  -- Before the first span, and beyond the stored ones.
  if not isfinite($2) or not isfinite($3) or not exists (select from analytics.calendars c where c.name = $1) then return null; end if;
  return coalesce((
      select date_part('epoch', s.seconds_before * interval '1 second' + (least($3, s.closes_at) - s.opens_at))
      from analytics.calendar_spans s where s.calendar = $1 and s.opens_at <= $3 order by s.opens_at desc limit 1), 0)
    - coalesce((
      select date_part('epoch', s.seconds_before * interval '1 second' + (least($2, s.closes_at) - s.opens_at))
      from analytics.calendar_spans s where s.calendar = $1 and s.opens_at <= $2 order by s.opens_at desc limit 1), 0)
    + case when $3 < $2 then -1 else 1 end * (
      select coalesce(sum(extract(epoch from o.closes_at - o.opens_at)), 0)
      from (values
        (least($2, $3), least(greatest($2, $3), first_stored)),
        (greatest(least($2, $3), last_stored), greatest($2, $3))) beyond (since, until)
      cross join lateral analytics.open_spans($1, beyond.since, beyond.until) o
      where beyond.since < beyond.until);
end
$$;
comment on function analytics.business_seconds is
  'Seconds of business time from one instant to another in a calendar. Counts elapsed seconds, also across clock changes. Negative if the second instant is earlier. Null for an unknown calendar and for instants that are null or infinite.';

create or replace function internal.rebuild_calendar(calendar text) returns void
language plpgsql
as $$
begin
  -- One rebuild at a time: the waiting one sees what the other wrote.
  perform from analytics.calendars c where c.name = rebuild_calendar.calendar for no key update;
  delete from analytics.calendar_spans s where s.calendar = rebuild_calendar.calendar;
  insert into analytics.calendar_spans (calendar, opens_at, closes_at, seconds_before)
  select rebuild_calendar.calendar, o.opens_at, o.closes_at,
    coalesce(sum(extract(epoch from o.closes_at - o.opens_at)) over (order by o.opens_at rows between unbounded preceding and 1 preceding), 0)
  from analytics.open_spans(rebuild_calendar.calendar, '2000-01-01T00:00:00Z', '2060-01-01T00:00:00Z') o;
end
$$;
comment on function internal.rebuild_calendar is
  'Recomputes analytics.calendar_spans of a calendar. Triggers call it on every change; call it by hand only after PostgreSQL has received new time zone rules.';

create or replace function internal.keep_calendar_spans() returns trigger
language plpgsql
as $$
declare
  changed text;
begin
  if tg_table_name = 'calendars' then
    -- A new calendar has no hours yet; deleting a calendar deletes its hours.
    for changed in select n.name from news n join olds o on o.name = n.name and o.time_zone <> n.time_zone loop
      perform internal.rebuild_calendar(changed);
    end loop;
  elsif tg_op = 'INSERT' then
    for changed in select distinct n.calendar from news n loop
      perform internal.rebuild_calendar(changed);
    end loop;
  elsif tg_op = 'DELETE' then
    -- Only calendars that still exist.
    for changed in select c.name from analytics.calendars c where c.name in (select o.calendar from olds o) loop
      perform internal.rebuild_calendar(changed);
    end loop;
  else
    for changed in
      select c.name from analytics.calendars c where c.name in (select o.calendar from olds o union all select n.calendar from news n)
    loop
      perform internal.rebuild_calendar(changed);
    end loop;
  end if;
  return null;
end
$$;
comment on function internal.keep_calendar_spans is 'Updates analytics.calendar_spans after a change of a calendar.';
comment on table internal.stored_recomputes is
  'Accounts whose calendars changed since the last analytics.recompute; see analytics.integrity.';
comment on column internal.stored_recomputes.account_id is 'The account.';
comment on column internal.stored_recomputes.asked is
  'Number of changes since the last recompute. The counter keeps changes that happen during a recompute.';

create or replace function internal.ask_for_recompute() returns trigger
language plpgsql
as $$
begin
  -- What it would write is copied too.
  if current_setting('shelfdesk.copying', true) = 'on' then return null; end if;
  if tg_table_name = 'stored_calendar_assignments' then
    insert into internal.stored_recomputes (account_id)
    select case tg_op when 'DELETE' then old.account_id else new.account_id end
    on conflict (account_id) do update set asked = stored_recomputes.asked + 1;
  else
    insert into internal.stored_recomputes (account_id)
    select distinct a.account_id from internal.stored_calendar_assignments a
    where a.calendar in (select s.calendar from changed s)
      -- Rows of an account that has left for another warehouse are read-only.
      and not exists (select from sync.moves m where m.account_id = a.account_id and m.state in ('leaving', 'moved')) order by 1
    on conflict (account_id) do update set asked = stored_recomputes.asked + 1;
  end if;
  return null;
end
$$;
comment on function internal.ask_for_recompute is
  'Records in internal.stored_recomputes which accounts have outdated business times.';

-- The time zone in which days and hours are shown.
create or replace view analytics.account_zones with (security_barrier) as
select r.account_id, coalesce(c.time_zone, 'UTC') as time_zone
from sync.readable_accounts r
left join internal.stored_calendar_assignments z on z.account_id = r.account_id and z.inbox_id is null
left join analytics.calendars c on c.name = z.calendar;
comment on view analytics.account_zones is
  'Time zone for days and hours of an account: that of its calendar, or UTC. Inboxes with a calendar of their own follow analytics.inbox_zones.';
comment on column analytics.account_zones.time_zone is 'The time zone.';

-- Without a security barrier, so that the statistics of its tables reach the views that join it.
create or replace view internal.own_zones as
select a.account_id, a.inbox_id, c.time_zone, a.calendar
from internal.stored_calendar_assignments a
join analytics.calendars c on c.name = a.calendar;
comment on view internal.own_zones is
  'Time zone of each calendar assignment, for all accounts. A row with an inbox goes before that of the account, and without either the zone is UTC.';
comment on column internal.own_zones.inbox_id is 'The inbox; null for all other inboxes of the account.';
comment on column internal.own_zones.time_zone is 'Time zone of the calendar.';
comment on column internal.own_zones.calendar is 'The calendar.';

create or replace view analytics.inbox_zones with (security_barrier) as
select i.account_id, i.inbox_id, coalesce(o.time_zone, z.time_zone) as time_zone, o.time_zone is not null as is_own
from (
  select n.account_id, n.id as inbox_id from helpdesk.inboxes n
  union
  select a.account_id, a.inbox_id from internal.stored_calendar_assignments a where a.inbox_id is not null) i
join analytics.account_zones z on z.account_id = i.account_id
left join internal.own_zones o on o.account_id = i.account_id and o.inbox_id = i.inbox_id;
comment on view analytics.inbox_zones is
  'Time zone for days and hours of the tickets of an inbox: that of the inbox''s own calendar, else that of analytics.account_zones. Tickets without an inbox follow the account.';
comment on column analytics.inbox_zones.inbox_id is 'The inbox; joins helpdesk.inboxes.id.';
comment on column analytics.inbox_zones.time_zone is 'The time zone.';
comment on column analytics.inbox_zones.is_own is 'True if the inbox has a calendar of its own.';

create or replace trigger keep_spans after update on analytics.calendars referencing old table as olds new table as news for each statement execute function internal.keep_calendar_spans();

create or replace trigger keep_spans_inserted after insert on analytics.calendar_hours referencing new table as news for each statement execute function internal.keep_calendar_spans();

create or replace trigger keep_spans_updated after update on analytics.calendar_hours referencing old table as olds new table as news for each statement execute function internal.keep_calendar_spans();

create or replace trigger keep_spans_deleted after delete on analytics.calendar_hours referencing old table as olds for each statement execute function internal.keep_calendar_spans();

create or replace trigger keep_spans_inserted after insert on analytics.calendar_holidays referencing new table as news for each statement execute function internal.keep_calendar_spans();

create or replace trigger keep_spans_updated after update on analytics.calendar_holidays referencing old table as olds new table as news for each statement execute function internal.keep_calendar_spans();

create or replace trigger keep_spans_deleted after delete on analytics.calendar_holidays referencing old table as olds for each statement execute function internal.keep_calendar_spans();

create or replace trigger check_time_zone before insert or update on analytics.calendars for each row execute function internal.check_time_zone();

create or replace trigger ask_for_recompute after insert or delete or update on internal.stored_calendar_assignments for each row execute function internal.ask_for_recompute();

create or replace trigger ask_for_recompute_written after insert on analytics.calendar_spans referencing new table as changed for each statement execute function internal.ask_for_recompute();

create or replace trigger ask_for_recompute_removed after delete on analytics.calendar_spans referencing old table as changed for each statement execute function internal.ask_for_recompute();
