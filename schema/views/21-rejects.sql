comment on table sync.rejects is
  'Rejects: records that could not be stored, and tickets and volumes that could not be fetched by id. A reject never blocks other records.';
comment on column sync.rejects.id is 'Number of the reject.';
comment on column sync.rejects.key is
  'Id of the record, after that of the record that it is part of if it is unique within that only; or a hash of its text if the id is unreadable.';
comment on column sync.rejects.record_id is 'Id of the record; null if unreadable.';
comment on column sync.rejects.ask_id is
  'Id for the next fetch: the record''s own id, or that of its ticket. For shelves: the owner, shelf or volumes of the shelf that showed the record.';
comment on column sync.rejects.reason is 'Reason for the rejection.';
comment on column sync.rejects.payload is 'The record as JSON text; null if no record arrived.';
comment on column sync.rejects.replayable is 'True if the stored payload can be retried without a request.';
comment on column sync.rejects.attempts is 'Number of attempts.';
comment on column sync.rejects.first_seen_at is 'Time of the first rejection.';
comment on column sync.rejects.last_seen_at is 'Time of the last rejection.';
comment on column sync.rejects.next_try_at is
  'When the next fetch by id is due; the run that is active then makes the request. Null: no automatic retry. Rejects of shelves are never fetched by id: shelves are re-read when they change or reach a set age.';
comment on column sync.rejects.gone_at is
  'When the source first answered a fetch by id that the record no longer exists. A second such answer gives a ticket its tombstone, and asks for the record of declared details itself.';
comment on column sync.rejects.cleared_at is
  'When a version that could be stored cleared the reject, or the tombstone of the record; null while the reject is open.';
comment on column sync.rejects.as_of is
  'The source showed the payload at this time, by its own clock; null if no record arrived.';
comment on column sync.rejects.place is 'Position in the reply, from 1. For a message: position within its ticket.';
comment on column sync.rejects.path is
  'The first field whose value has another shape than documented; empty for the record as a whole. Null if something else is the reason.';

create or replace view sync.reject_groups as
select g.account_id, g.stream, g.path, g.reason, g.rejects, g.since, g.last_seen_at,
  format('%s × %s, since %s%s', g.rejects, g.reason, sync.time_in_words(g.since), case when g.path is not null and g.rejects >= 5 then ': the interface has changed' end) as says,
  g.source, g.stream_key
from (
  select r.account_id, r.source, r.stream, r.stream_key, t.path, t.reason,
    count(*) as rejects, min(r.first_seen_at) as since, max(r.last_seen_at) as last_seen_at
  from sync.rejects r
  -- Neither the place in a list, nor the id or a parameter in a request, nor the size of a reply makes another reason.
  cross join lateral (
    select regexp_replace(r.path, '\.\d+(?=\.|$)', '[]', 'g') as path,
      case when r.path is null then regexp_replace(regexp_replace(
            case when coalesce(r.ask_id, r.record_id) is null then r.reason else replace(r.reason, '/' || coalesce(r.ask_id, r.record_id), '/…') end,
          '([?&]\w+=)[^&: ]+', '\1…', 'g'), '; reading ended at [\d.]+ MB', '')
        else regexp_replace(split_part(r.reason, '; ', 1), '\.\d+(?=[.:])', '[]', 'g') end as reason) t
  where r.cleared_at is null
  group by r.account_id, r.source, r.stream, r.stream_key, t.path, t.reason) g;
comment on view sync.reject_groups is
  'Open rejects by their reason. Rejects of one group have one cause, as a format that the source has changed.';
comment on column sync.reject_groups.path is
  'The first field whose value has another shape than documented, as messages[].created_at; null if something else is the reason.';
comment on column sync.reject_groups.reason is 'The reason, without what differs from record to record.';
comment on column sync.reject_groups.rejects is 'Number of open rejects.';
comment on column sync.reject_groups.since is 'Time of the first of these rejections.';
comment on column sync.reject_groups.last_seen_at is 'Time of the last of these rejections.';
comment on column sync.reject_groups.says is 'The group in one sentence.';

create or replace view sync.most_rejected as
select g.account_id, g.stream, g.rejects, g.since, g.last_seen_at,
  g.last_seen_at + least(interval '6 hours', greatest(interval '1 minute', g.last_seen_at - g.half_at)) as next_try_at,
  g.source, g.stream_key
from (
  select r.account_id, r.source, r.stream, r.stream_key, count(*) as rejects, min(r.first_seen_at) as since, max(r.last_seen_at) as last_seen_at,
    (array_agg(r.first_seen_at order by r.first_seen_at desc))[5] as few_at,
    percentile_disc(0.5) within group (order by r.first_seen_at) as half_at
  from sync.rejects r
  where r.cleared_at is null and r.path is not null
  group by r.account_id, r.source, r.stream, r.stream_key
  having count(*) >= 5) g
cross join lateral (
  select count(*) as rejects from sync.rejects r
  where r.account_id = g.account_id and r.stream_key = g.stream_key and r.cleared_at is null and r.path is not null and r.first_seen_at >= g.few_at) few
-- The sum is taken from the last run on, and ends as soon as enough was stored.
where not exists (
  select from (
    select sum(s.inserted + s.updated + s.unchanged) over (order by s.run_id desc) as stored
    from sync.stored_run_streams s
    where s.account_id = g.account_id and s.stream_key = g.stream_key and (s.finished_at is null or s.finished_at >= g.few_at)) w
  where w.stored >= few.rejects);
comment on view sync.most_rejected is
  'Streams of which most is rejected because its shape is not as documented: since the fifth youngest of its open rejects came, the runs have rejected more records than they stored. Instead of reading such a stream, a run asks for one record, at times that grow rarer.';
comment on column sync.most_rejected.rejects is 'Number of open rejects of such a reason.';
comment on column sync.most_rejected.since is 'Time of the first of these rejections.';
comment on column sync.most_rejected.last_seen_at is 'Time of the last of these rejections.';
comment on column sync.most_rejected.next_try_at is
  'When one record is asked for again: after 1, 2, 4 … minutes, at most 6 hours. A run that a person starts asks at once.';
comment on table sync.drift is
  'Drift: differences between the source and its documentation. Drift is counted and causes no reject.';
comment on column sync.drift.kind is
  'unknown_field, unknown_value, wrong_type. unstorable: characters that PostgreSQL cannot store. simplified_html: a body with too much markup; body_text keeps its words without its layout. repeated_id: an id that occurs twice in a reply, or that belongs to another record already (two tickets with one message). Only one row is kept. clock: the source''s clock moved by more than the lookback.';
comment on column sync.drift.path is
  'Place of the field in the record. The path … collects all difference kinds after the first hundred of a reply.';
comment on column sync.drift.value is
  'The unknown value. For an id that moved from one record to another: "of another record". For clock: the size of the move. Empty otherwise.';
comment on column sync.drift.seen is 'Number of occurrences.';
comment on column sync.drift.first_seen_at is 'Time of the first occurrence.';
comment on column sync.drift.last_seen_at is 'Time of the last occurrence.';
comment on column sync.drift.sample is
  'A record with this drift, as JSON text, cut at 2,000 characters. Null if none is kept: older versions of Shelfdesk stored no samples, and erasures remove samples.';
