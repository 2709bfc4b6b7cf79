-- Service targets: how long a first response and a resolution may take, and how each ticket keeps them.

create table internal.stored_service_targets (
  account_id text not null,
  inbox_id text,
  label_id text,
  metric text not null,
  target_seconds integer not null,
  unique nulls not distinct (account_id, inbox_id, label_id, metric),
  constraint stored_service_targets_metric check (metric = any (array['first_response', 'resolution'])),
  constraint stored_service_targets_seconds check (target_seconds > 0)
);
