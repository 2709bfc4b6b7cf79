-- Up Migration

-- What runs were expected to take, beside what they took; and how long the source takes to answer, which a forecast needs.

alter table sync.credit_minutes add column requests bigint not null default 0, add column took_ms bigint not null default 0,
  add column followed bigint not null default 0, add column between_ms bigint not null default 0;
comment on column sync.credit_minutes.requests is
  'Requests that were answered in this minute, refusals and time-outs among them. Nothing before this column was there.';
comment on column sync.credit_minutes.took_ms is 'How long they took together, from the grant of their credits to the reply, in milliseconds.';

comment on column sync.credit_minutes.followed is
  'Of these requests those that followed another one of the same process at once, where none was on its way beside it.';
comment on column sync.credit_minutes.between_ms is
  'How long it took together from the reply before to the next request of theirs: to store what came, in milliseconds.';

create table sync.plans (
  account_id text not null,
  kind text not null,
  question jsonb not null,
  made_at timestamptz not null,
  forecast jsonb not null,
  primary key (account_id, kind, question)
);
comment on table sync.plans is
  'What `plan` has answered last to each question. A run that is asked for the same within the hour is compared with it.';
comment on column sync.plans.account_id is 'The operator''s name for the mirrored account; part of every key.';
comment on column sync.plans.kind is 'The kind of run: sync, backfill, sweep or verify.';
comment on column sync.plans.question is 'What of it was asked for: streams, range, sample.';
comment on column sync.plans.made_at is 'When it was answered.';
comment on column sync.plans.forecast is 'The answer: see sync.stored_runs.forecast.';

create view sync.forecasts as
select r.account_id, r.id as run, r.kind, r.state, r.started_at,
  (r.forecast ->> 'requests')::bigint as forecast_requests,
  (r.forecast ->> 'credits')::bigint as forecast_credits,
  t.credits,
  round(t.credits / nullif((r.forecast ->> 'credits')::numeric, 0), 3) as credits_ratio,
  round((r.forecast ->> 'seconds')::numeric, 1) as forecast_seconds,
  round(extract(epoch from r.finished_at - r.started_at), 1) as seconds,
  round(extract(epoch from r.finished_at - r.started_at) / nullif((r.forecast ->> 'seconds')::numeric, 0), 3) as seconds_ratio,
  (r.forecast ->> 'counted_with_credits')::bigint as counted_with_credits
from sync.stored_runs r
cross join lateral (
  select sum(s.credits)::bigint as credits from sync.stored_run_streams s where s.run_id = r.id) t
where r.forecast is not null;
comment on view sync.forecasts is
  'What runs were expected to take beside what they took: one row for each run that was reckoned before it began. A ratio above 1: it took more.';
comment on column sync.forecasts.account_id is 'The operator''s name for the mirrored account; part of every key.';
comment on column sync.forecasts.run is 'The run.';
comment on column sync.forecasts.kind is 'Its kind: sync, backfill, sweep or verify.';
comment on column sync.forecasts.state is 'How it stands, as it was written down; see sync.runs. Ratios say something of runs that are over.';
comment on column sync.forecasts.started_at is 'When it began.';
comment on column sync.forecasts.forecast_requests is 'Requests that were expected.';
comment on column sync.forecasts.forecast_credits is 'Credits that were expected. Those of the catalog, a request each, are among them.';
comment on column sync.forecasts.credits is 'Credits that it has used so far, or did.';
comment on column sync.forecasts.credits_ratio is 'Used, divided by expected.';
comment on column sync.forecasts.forecast_seconds is 'How long it was expected to take.';
comment on column sync.forecasts.seconds is 'How long it took; null while it runs. One that was interrupted and gone on with: with the time between.';
comment on column sync.forecasts.seconds_ratio is 'Taken, divided by expected.';
comment on column sync.forecasts.counted_with_credits is 'Credits that were used beforehand, to count what there is.';
