-- Up Migration

-- A target that is changed or removed stays for what began while it was in force. Targets of before hold from the beginning.
alter table internal.stored_service_targets add column valid_from timestamptz;
alter table internal.stored_service_targets add column valid_to timestamptz;
alter table internal.stored_service_targets drop constraint stored_service_targets_account_id_inbox_id_label_id_metric_key;
alter table internal.stored_service_targets add constraint stored_service_targets_one unique nulls not distinct (account_id, inbox_id, label_id, metric, valid_to);
alter table internal.stored_service_targets add constraint stored_service_targets_times check (valid_from < valid_to);
alter table internal.stored_service_targets drop constraint stored_service_targets_metric;
alter table internal.stored_service_targets add constraint stored_service_targets_metric
  check (metric = any (array['first_response', 'next_reply', 'resolution', 'resolution_without_hold']));
