comment on table sync.audit is
  'Records that an audit or `verify --sample` compared with the source, one row per comparison. `verify --full` stores only the records that differ.';
comment on column sync.audit.id is 'Number of the comparison.';
comment on column sync.audit.run_id is 'The run that made the comparison; joins sync.runs.id while the run is kept.';
comment on column sync.audit.stream is
  'tickets (with labels), customers (with contacts), users, labels, inboxes; messages: all messages and attachments of one ticket; shelves with their shelf_volumes; volumes.';
comment on column sync.audit.record_id is
  'Id of the record at the source. For messages: the ticket id; for shelves: owner/shelf.';
comment on column sync.audit.checked_at is 'The source showed the compared record at this time, by its own clock.';
comment on column sync.audit.ours_as_of is
  'The source had shown the stored row at this time; null if no row was stored.';
comment on column sync.audit.random is
  'True if the record was drawn at random. Only random comparisons allow a conclusion about other records.';
comment on column sync.audit.unread is
  'True if the record could not be fetched or compared. Then the comparison has no result.';
comment on column sync.audit.differences is
  'Differences by field: [stored, at the source]. Null if there are none or if unread. row: the whole row is missing on one side. For child rows both sides are {id: value}.';
comment on column sync.audit.kind is
  'Kinds of difference, separated by ''; '': changed here (the row contradicts its own _payload), a change was missed, deleted, label edits do not move updated_at, and so on.';
comment on column sync.audit.repaired_at is 'Time of the repair, by our clock; null if not repaired.';

-- Probability of at most this many differences in the sample, if a share p of all records differs. The bound is the p
-- at which it falls to 5 %.
create or replace function sync.at_most(differ bigint, "of" bigint) returns numeric
language plpgsql immutable parallel safe
as $$
declare
  many constant bigint := at_most."of";
  -- ln C(many, differ)
  choose float8 := 0;
  low float8;
  high float8 := 1;
  p float8;
  -- Terms of the sum, from the last to the first, each relative to the last.
  term float8;
  total float8;
begin
  if differ is null or many is null then return null; end if;
  if many <= 0 or differ >= many then return 100; end if;
  for i in 1..differ loop
    choose := choose + ln((many - differ + i)::float8 / i);
  end loop;
  low := greatest(differ, 0)::float8 / many;
  for step in 1..64 loop
    p := (low + high) / 2;
    exit when p <= low or p >= high;
    term := 1;
    total := 1;
    for i in reverse differ..1 loop
      term := term * i / (many - i + 1) * (1 - p) / p;
      exit when term < 1e-17;
      total := total + term;
    end loop;
    if choose + differ * ln(p) + (many - differ) * ln(1 - p) + ln(total) > ln(0.05::float8) then
      low := p;
    else
      high := p;
    end if;
  end loop;
  return trim_scale(ceil(high::numeric * 1000000) / 10000);
end;
$$;
comment on function sync.at_most is
  'Upper bound of the share of differing records, in percent, with 95 % confidence, from a random sample (Clopper and Pearson, one-sided).';

create or replace function sync.at_most_with_missing(at_most numeric, account text, stream text) returns numeric
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select case when coalesce(m.missing, 0) <= 0 then at_most
    else trim_scale(ceil((m.missing + at_most / 100 * m.here) / (m.missing + m.here) * 1000000) / 10000) end
  from (
    select sum(c.ours) as here, sum(greatest(0, c.theirs_least - c.ours)) - (
        select count(*) from sync.audit a
        where a.run_id = max(c.run_id) and a.stream_key = at_most_with_missing.stream and a.repaired_at is not null
          and a.kind ~ '(missing here|came back)') as missing
    from sync.verified_lists c
    where c.stream_key = at_most_with_missing.stream and c.ours is not null and c.run_id = (
      select max(l.run_id)
      from sync.verified_lists l join sync.stored_runs r on r.id = l.run_id
      where l.account_id = at_most_with_missing.account and l.stream_key = at_most_with_missing.stream
        and l.ours is not null and r.started_at > now() - interval '7 days')) m
$$;
comment on function sync.at_most_with_missing is
  'The bound of sync.at_most for the records of the source: random rows are drawn from what is stored, so records that the last comparison of counts found missing here are added to the differing ones.';

create or replace view sync.audit_confidence as
with counted as not materialized (
  select account_id, source, stream, stream_key, record_id, checked_at, unread, differences
  from sync.audit
  where random and checked_at > now() - interval '7 days'),
totals as not materialized (
  select account_id, source, stream, stream_key, count(distinct record_id) as drawn, count(distinct record_id) filter (where not unread) as checked,
    min(checked_at) as as_of
  from counted
  group by account_id, source, stream, stream_key),
differing as not materialized (
  select c.account_id, c.stream_key, f.field, count(distinct c.record_id) as differed
  from counted c cross join lateral (select '' as field union all select jsonb_object_keys(c.differences)) f
  where c.differences is not null
  group by c.account_id, c.stream_key, f.field)
select t.account_id, t.stream, f.field, t.checked, coalesce(d.differed, 0) as differed, t.drawn - t.checked as unread,
  sync.at_most_with_missing(sync.at_most(coalesce(d.differed, 0), t.checked), t.account_id, t.stream_key) as at_most_percent, t.as_of, t.source, t.stream_key
from totals t
join (select account_id, stream_key, '' as field from totals union select account_id, stream_key, field from differing) f
  using (account_id, stream_key)
left join differing d using (account_id, stream_key, field);
comment on view sync.audit_confidence is
  'Confidence from the random comparisons of the last seven days: the upper bound, at 95 %, of the share of stored records that differ from the source in a field. The bound does not cover records that are not stored or could not be fetched.';
comment on column sync.audit_confidence.account_id is 'The account.';
comment on column sync.audit_confidence.stream is
  'tickets, customers or volumes (on a shelf); messages: one record is a ticket with complete messages and attachments, and so for details of other sources; shelves: one record is a shelf with its contents.';
comment on column sync.audit_confidence.field is 'A field with differences; '''' stands for any field.';
comment on column sync.audit_confidence.checked is 'Number of compared records, each counted once.';
comment on column sync.audit_confidence.differed is
  'Number of records that differed in any comparison of these seven days. Audits repaired theirs.';
comment on column sync.audit_confidence.unread is
  'Number of further records that were drawn but could not be fetched or compared. They may differ.';
comment on column sync.audit_confidence.at_most_percent is
  'Upper bound, in percent with 95 % confidence, of the share of stored and fetchable records that differ.';
comment on column sync.audit_confidence.as_of is 'The oldest comparison that counts, by the source''s clock.';
comment on table sync.verifications is 'Request and forecast of each `verify` run.';
comment on column sync.verifications.sample is
  'Number of records drawn at random for each stream whose records, or their details, can be asked for one by one, such as tickets, customers, shelves and volumes; null: all records.';
comment on column sync.verifications.repair is 'True if the run repairs differences.';
comment on column sync.verifications.credits is
  'Credits that the stored rows cost, announced at the start; for the catalog, requests.';
comment on column sync.verifications.seconds is
  'Duration for them at the configured limits, in seconds, announced at the start.';
comment on table sync.verified_lists is 'Counts and progress of `verify`, one row per list of a stream.';
comment on column sync.verified_lists.list is 'List of the stream; default if the stream has only one.';
comment on column sync.verified_lists.place is
  'Position up to which the list was compared: a creation time or an id; null at the beginning. The next worker resumes here.';
comment on column sync.verified_lists.ours is 'Number of stored rows; null if not counted.';
comment on column sync.verified_lists.theirs_least is
  'Number of records that the source counts, without records that arrived after the stream was complete. Null if the source was not asked or cannot count that far.';
comment on column sync.verified_lists.theirs_most is 'The same, with records that may have arrived afterwards.';

create or replace view sync.recommendations as
select k.account_id, k.stream, k.kind, k.times, k.last_at, r.said[1] as setting, format(r.said[2], r.said[1]) as remedy, k.source, k.stream_key
from (
  select a.account_id, a.source, a.stream, a.stream_key, one.kind, count(*) as times, max(a.checked_at) as last_at
  from sync.audit a, unnest(string_to_array(a.kind, '; ')) one (kind)
  where a.checked_at > now() - interval '30 days' and a.kind is not null
  group by a.account_id, a.source, a.stream, a.stream_key, one.kind
  having count(distinct a.run_id) >= 2) k
left join sync.streams f using (stream_key)
cross join lateral (
  -- The setting, and the sentence that has it.
  select case
      when k.kind in ('changed here', 'only here')
        then array[null, 'Another program writes to these tables. Only the worker may write to them.']
      when k.kind in ('a change was missed', 'missing here')
        then array[null, 'Read the range again: backfill --again. If it happens anew, please report it.']
      when k.stream_key in ('helpdesk.labels', 'helpdesk.inboxes')
        then array[null, 'Nothing to do: names of labels and inboxes are looked at again once a week.']
      when k.stream_key = 'helpdesk.messages'
        then array['MESSAGES_AGE_DAYS', 'The source does not announce such changes. Set %s to re-read messages after that many days.']
      when k.stream_key = 'helpdesk.users'
        then array['SCHEDULE_NIGHTLY', 'Nothing announces it: let the night come more often, by %s.']
      when k.stream_key = 'books.shelves'
        then array['BOOKS_SHELF_AGE_HOURS', 'Nothing announces it: set %s lower, so that shelves are read again sooner.']
      when k.stream_key = 'books.volumes'
        then array['BOOKS_VOLUME_AGE_DAYS', 'Nothing announces it: set %s lower, so that volumes are read again sooner.']
      when f.follows is not null
        then array[null, 'Nothing announces it: declare fewer ageDays for the stream, so that it is read again sooner.']
      else array['SWEEP_AGE_DAYS', 'Nothing announces it: set %s lower, so that everything is looked at again sooner.'] end as said) r;
comment on view sync.recommendations is
  'Kinds of difference that audits and verifications found in at least two runs of the last 30 days, with their remedy.';
comment on column sync.recommendations.account_id is 'The account.';
comment on column sync.recommendations.stream is 'The stream, as in sync.audit.';
comment on column sync.recommendations.kind is 'The kind of difference.';
comment on column sync.recommendations.times is 'Number of findings.';
comment on column sync.recommendations.last_at is 'Time of the last finding, by the source''s clock.';
comment on column sync.recommendations.setting is 'The setting that prevents the difference; null if none does.';
comment on column sync.recommendations.remedy is 'Recommended action.';
