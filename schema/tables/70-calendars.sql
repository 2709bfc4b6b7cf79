-- Business hours, and seconds of business time.

create table analytics.calendars (
  name text primary key,
  time_zone text not null,
  check (name <> '')
);

create table analytics.calendar_hours (
  calendar text,
  weekday integer,
  opens time(0) without time zone,
  closes time(0) without time zone not null,
  primary key (calendar, weekday, opens),
  foreign key (calendar) references analytics.calendars(name) on update cascade on delete cascade,
  constraint calendar_hours_check check (opens < closes),
  check ((weekday >= 1) and (weekday <= 7))
);

create table analytics.calendar_holidays (
  calendar text,
  day date,
  name text,
  primary key (calendar, day),
  foreign key (calendar) references analytics.calendars(name) on update cascade on delete cascade
);

create table internal.stored_calendar_assignments (
  account_id text not null,
  inbox_id text,
  calendar text not null,
  unique nulls not distinct (account_id, inbox_id),
  foreign key (calendar) references analytics.calendars(name) on update cascade
);

create index stored_calendar_assignments_calendar on internal.stored_calendar_assignments (calendar);

create table analytics.calendar_spans (
  calendar text,
  opens_at timestamptz,
  closes_at timestamptz not null,
  seconds_before bigint not null,
  primary key (calendar, opens_at) with (fillfactor = 10),
  foreign key (calendar) references analytics.calendars(name) on update cascade on delete cascade,
  constraint calendar_spans_check check (opens_at < closes_at)
);

create table internal.stored_recomputes (
  account_id text primary key,
  asked integer default 1 not null
);
