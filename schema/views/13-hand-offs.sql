comment on table sync.hand_off_settings is
  'Accounts with hand-offs, and how they are told. A worker copies them from its settings at its start; without a live worker, sync and backfill do. The transaction that ends a run reads it.';
comment on column sync.hand_off_settings.channels is 'The ways of delivery: webhook, command.';
comment on column sync.hand_off_settings.notify is
  'Channel of pg_notify that carries the id of each hand-off; null: none.';
comment on column sync.hand_off_settings.runs is 'Kinds of runs that hand off: nightly, sync, backfill, fresh.';
comment on column sync.hand_off_settings.rejects_allowed is
  'Highest number of open rejects of a stream that still is handed off.';
comment on column sync.hand_off_settings.due_within is
  'The last hand-off is younger than this, else sync.problems has hand_off_late; null: no such limit.';
comment on column sync.hand_off_settings.due_by is
  'Local time of each day by which a hand-off has come, else sync.problems has hand_off_late; null: no such time.';
comment on column sync.hand_off_settings.time_zone is 'Time zone of due_by.';
comment on column sync.hand_off_settings.since is
  'Since when the account has hand-offs. Nights that ended before have none.';
comment on table sync.hand_offs is
  'Runs that ended and that hand off: each with its certificate, or with the reason why it has none. The transaction that ends the run writes the row. Kept for 35 days, and until each delivery has succeeded.';
comment on column sync.hand_offs.id is 'Place in the order of delivery.';
comment on column sync.hand_offs.kind is 'Kind of the run.';
comment on column sync.hand_offs.started_at is 'Start of the run; of a retried night, the start of that night.';
comment on column sync.hand_offs.ended_at is
  'End of the run. A night is handed off later, when its sweep has ended and its details are stored.';
comment on column sync.hand_offs.issued_at is 'When the certificate was written; null while it is withheld.';
comment on column sync.hand_offs.certificate is
  'The message: for each stream complete_from and complete_through, gaps, rejects, the last check of deletions and the audit confidence, as of issued_at. Null while it is withheld.';
comment on column sync.hand_offs.withheld is
  'Why the run has no certificate, in the words of sync.require_complete; null if it has one.';
comment on table sync.hand_off_deliveries is
  'Deliveries of hand-offs, one row for each channel. Written with the hand-off, in the transaction that ends the run. The oldest open one of an account and channel goes first.';
comment on column sync.hand_off_deliveries.hand_off_id is 'The hand-off; joins sync.hand_offs.id.';
comment on column sync.hand_off_deliveries.channel is 'webhook, command or notify.';
comment on column sync.hand_off_deliveries.tries is 'Number of failed attempts.';
comment on column sync.hand_off_deliveries.next_try_at is 'Time of the next attempt; -infinity before the first.';
comment on column sync.hand_off_deliveries.held_by is
  'The process of sync.workers that is sending it, or died while sending it; null: none.';
comment on column sync.hand_off_deliveries.delivered_at is 'When the receiver took it; null if it has not.';
comment on column sync.hand_off_deliveries.last_error is 'Error of the last attempt; null if none failed.';
