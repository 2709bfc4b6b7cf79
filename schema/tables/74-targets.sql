-- Service targets: how long a response and a resolution may take, since when, and how each ticket keeps them.

create table internal.stored_service_targets (
  account_id text not null,
  inbox_id text,
  label_id text,
  metric text not null,
  target_seconds integer not null,
  valid_from timestamptz,
  valid_to timestamptz,
  constraint stored_service_targets_one unique nulls not distinct (account_id, inbox_id, label_id, metric, valid_to),
  constraint stored_service_targets_metric check (metric = any (array['first_response', 'next_reply', 'resolution', 'resolution_without_hold'])),
  constraint stored_service_targets_seconds check (target_seconds > 0),
  constraint stored_service_targets_times check (valid_from < valid_to)
);
