-- Up Migration

-- What a report may rely on, in SQL. Nothing here says more than was proven: what is not known is null, or raises.

create or replace view sync.status as
select s.account_id, s.stream,
  sync.complete_through(s.account_id, s.stream) as complete_through,
  now() - sync.complete_through(s.account_id, s.stream) as lag,
  (select count(*) from sync.holes h where h.account_id = s.account_id and h.stream = s.stream) as holes,
  case s.stream
    when 'messages' then (
      select count(*) from helpdesk.tickets t
      where t.account_id = s.account_id
        and (t._messages_as_of is null or t._messages_as_of < t.updated_at)
        and t._deleted_at is null)
    when 'volumes' then (select count(*) from sync.waiting_volumes w where w.account_id = s.account_id)
    else 0 end as waiting,
  (select count(*) from sync.rejects r
   where r.account_id = s.account_id and r.stream = s.stream and r.cleared_at is null) as open_rejects,
  l.run_id as last_run,
  l.state as last_state,
  l.finished_at as last_finished_at,
  (select g.finished_at from sync.stored_run_streams g join sync.stored_runs o on o.id = g.run_id
   where g.account_id = s.account_id and g.stream = s.stream and g.state = 'completed' and o.kind not in ('audit', 'verify')
   order by g.finished_at desc limit 1) as last_success_at,
  case when l.state = 'interrupted' and l.finished_at is null then 'its process is gone' else l.error end as last_error,
  case when l.state = 'interrupted' and l.finished_at is null
    then 'Nothing to do while a worker runs: it goes on there. Else run `npx shelfdesk start`, or the same command again.' else l.remedy end as remedy,
  k.source,
  l.sleeps_until,
  sync.deletes_checked_at(s.account_id, s.stream) as deletes_checked_at,
  y.at_most_percent as differ_at_most_percent,
  y.as_of as differ_as_of
from (
  select distinct c.account_id, k.stream
  from sync.coverage c join sync.streams k on c.stream in (k.stream, k.follows)
) s
join sync.streams k using (stream)
left join lateral (
  select r.run_id, case when r.state = 'waiting' and u.state = 'interrupted' then u.state else r.state end as state,
    r.finished_at, r.error, r.remedy, r.sleeps_until
  from sync.run_streams r join sync.runs u on u.id = r.run_id
  -- Audits and verifications compare what others have read: they say nothing of how far that is.
  where r.account_id = s.account_id and r.stream = s.stream and u.kind not in ('audit', 'verify')
  order by r.run_id desc
  limit 1
) l on true
left join sync.certainty y on (y.account_id, y.stream, y.field) = (s.account_id, s.stream, '');
comment on column sync.status.last_run is 'The last run that read the stream: not one that only compared (audit, verify).';
comment on column sync.status.last_success_at is 'When a run that read the stream last completed.';
comment on column sync.status.deletes_checked_at is
  'Nothing that is shown here had been deleted at the source before this time; null where that was never checked whole. Of messages nobody can tell: see sync.ticket_completeness.';
comment on column sync.status.differ_at_most_percent is
  'Of its records that are here at most so many percent differ from the source, with a confidence of 95 %: what random checks of the last seven days prove; of messages, tickets whose messages are complete. Null if there were none. By field, and how many could not be read: sync.certainty.';
comment on column sync.status.differ_as_of is 'The oldest check that this is drawn from, by the source''s clock.';

create function sync.require_complete(account text, stream text, through timestamptz, rejects_allowed bigint default 0)
returns timestamptz
language plpgsql stable
as $$
declare
  complete constant timestamptz := sync.complete_through(account, stream);
  hole record;
  open_rejects bigint;
  waiting bigint;
begin
  if account is null or stream is null or through is null then
    raise exception 'sync.require_complete(account, stream, through) was asked about nothing: one of them is null'
      using errcode = 'null_value_not_allowed';
  end if;
  if not exists (
    select from sync.coverage c join sync.streams k on c.stream in (k.stream, k.follows)
    where c.account_id = account and k.stream = require_complete.stream) then
    raise exception 'nothing is mirrored of the stream % for the account %', stream, account
      using errcode = 'no_data_found', hint = 'sync.status lists accounts and streams.';
  end if;
  if complete is null or complete < through then
    select h.list, h.hole_from, h.hole_to, h.reason into hole
    from sync.holes h join sync.streams k on h.stream in (k.stream, k.follows)
    where h.account_id = account and k.stream = require_complete.stream and h.hole_from < through
    order by h.hole_from limit 1;
    select s.waiting into waiting from sync.status s where s.account_id = account and s.stream = require_complete.stream;
    raise exception '% of the account % % complete through %, not through %', stream, account,
      case when complete is null then 'was never read:' else 'is' end, coalesce(complete::text, 'nothing'), through
      using errcode = 'object_not_in_prerequisite_state', hint = case
        when hole.hole_from is not null then format('There is a hole from %s to %s%s. Run `npx shelfdesk backfill %s`.',
          hole.hole_from, hole.hole_to, coalesce(' (' || hole.reason || ')', ''), stream)
        when waiting > 0 then format('%s records wait to be read by their id. They are read while `npx shelfdesk start` runs, or by `npx shelfdesk sync`.', waiting)
        else 'Run `npx shelfdesk sync`, or wait for the next slot of the schedule.' end;
  end if;
  select count(*) into open_rejects
  from sync.rejects r join sync.streams k on r.stream in (k.stream, k.follows)
  where r.account_id = account and k.stream = require_complete.stream and r.cleared_at is null;
  if open_rejects > rejects_allowed then
    raise exception '% records of % of the account % could not be stored', open_rejects, stream, account
      using errcode = 'object_not_in_prerequisite_state',
        hint = 'See `npx shelfdesk rejects list`. A report that can do without them says how many, as fourth argument.';
  end if;
  return complete;
end
$$;
comment on function sync.require_complete(text, text, timestamptz, bigint) is
  'For the beginning of a report: up to when the stream is complete, if that is as far as the report goes; else it raises, and says what is missing. Records that were set aside raise as well, if there are more than rejects_allowed.';

create view sync.ticket_completeness as
select t.account_id, t.id as ticket_id,
  t._messages_as_of is not null and t._messages_as_of >= t.updated_at and r.open_rejects = 0 as messages_complete,
  t._messages_as_of as messages_as_of,
  k.checked_at,
  r.open_rejects
from helpdesk.tickets t
join sync.checked_tickets k on (k.account_id, k.ticket_id) = (t.account_id, t.id)
cross join lateral (
  select count(*) as open_rejects from sync.rejects r
  where r.account_id = t.account_id and r.stream in ('tickets', 'messages') and r.ask_id = t.id and r.cleared_at is null) r
where t._deleted_at is null;
comment on view sync.ticket_completeness is
  'For every ticket that is here: whether all its messages are here as well, and when the source was last seen to have it as it is here.';
comment on column sync.ticket_completeness.account_id is 'The account.';
comment on column sync.ticket_completeness.ticket_id is 'The ticket; joins helpdesk.tickets.id.';
comment on column sync.ticket_completeness.messages_complete is
  'True if its messages were read when it was as it is here, and nothing of it was set aside. A message that changes without the ticket is not announced: see messages_as_of.';
comment on column sync.ticket_completeness.messages_as_of is
  'Its messages are as the source showed them at this time; null if they were never read.';
comment on column sync.ticket_completeness.checked_at is
  'When the source was last seen to have this ticket as it is here, in what a list shows of it: sync.ticket_checked_at.';
comment on column sync.ticket_completeness.open_rejects is 'What of it could not be stored, or read; see sync.rejects.';
