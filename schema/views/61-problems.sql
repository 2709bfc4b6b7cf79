comment on table sync.alarms is
  'Problems of sync.problems that are reported to people, through the webhook if one is set. One row from the start to the end of a problem, kept for 35 days afterwards.';
comment on column sync.alarms.id is 'Number of the alarm, part of each notification.';
comment on column sync.alarms.account_id is 'The operator''s name for the mirrored account.';
comment on column sync.alarms.problem is 'The problem, as in sync.problems.';
comment on column sync.alarms.stream is 'The stream; empty for the whole account or a whole source.';
comment on column sync.alarms.severity is 'critical or warning.';
comment on column sync.alarms.says is 'Description of the problem when it was last seen.';
comment on column sync.alarms.remedy is 'Remedy.';
comment on column sync.alarms.began_at is
  'When the problem was first seen. A notification is due once the problem has lasted one minute.';
comment on column sync.alarms.gone_at is
  'Since when the problem is no longer seen; null while it is. After one minute the alarm ends.';
comment on column sync.alarms.ended_at is 'End of the alarm; null while it lasts.';
comment on column sync.alarms.begin_delivered_at is
  'When the webhook accepted the notification of the start; null if it has not.';
comment on column sync.alarms.end_delivered_at is
  'When the webhook accepted the notification of the end; null if it has not.';
comment on column sync.alarms.tries is 'Number of failed deliveries of the next notification.';
comment on column sync.alarms.next_try_at is
  'Time of the next delivery, and of the retry if the delivering process dies; null if no notification is due.';
comment on column sync.alarms.last_error is 'Error of the last delivery; null if none failed.';
comment on column sync.alarms.source is 'The source: helpdesk or books. Empty for the whole account.';
comment on column sync.alarms.stream_key is
  'Key of the stream: source.stream, as helpdesk.tickets; of a whole source its name. Empty for the whole account.';

create or replace view sync.problems as
with streams as not materialized (
  select distinct c.account_id, k.stream_key
  from sync.coverage c join sync.streams k on c.source = k.source and c.stream in (k.stream, k.follows)),
last_runs as (
  -- The last finished run that synced a stream, and the last that swept it.
  select s.account_id, sync.name_of(s.stream_key) as stream, s.stream_key, k.source, false as sweeps, d.*
  from streams s join sync.streams k using (stream_key)
  cross join lateral (
    select r.run_id, (select u.kind from sync.stored_runs u where u.id = r.run_id) as kind,
      r.state, r.error, r.remedy, r.exit_code, r.finished_at, r.answer
    from sync.stored_run_streams r
    -- Who interrupts a run ends no failure.
    where r.account_id = s.account_id and r.stream_key = s.stream_key and r.state not in ('waiting', 'running', 'interrupted')
      and (select u.kind from sync.stored_runs u where u.id = r.run_id) not in ('sweep', 'audit', 'verify', 'backfill')
    order by r.run_id desc limit 1) d
  union all
  select s.account_id, sync.name_of(s.stream_key), s.stream_key, k.source, true, d.*
  from streams s join sync.streams k using (stream_key)
  cross join lateral (
    -- A stream that is never swept would look through all sweeps.
    select r.run_id, u.kind, r.state, r.error, r.remedy, r.exit_code, r.finished_at, r.answer
    from (
      select i.id, i.kind from sync.stored_runs i
      where k.swept and i.account_id = s.account_id and i.kind = 'sweep' order by i.id desc offset 0) u
    cross join lateral (
      select * from sync.stored_run_streams i
      where i.run_id = u.id and i.stream_key = s.stream_key and i.state not in ('waiting', 'running', 'interrupted') offset 0) r
    order by u.id desc limit 1) d),
failing as not materialized (
  select d.*, regexp_replace(d.error, '^[A-Z]+ /\S*: ', '') as cause, t.behind > t.target as is_late, n.of_night,
    case
      -- The source has answered since, and the stream is read again when it is due.
      when d.answer is not null and p.proven then null
      when d.answer is not null then 'outage'
      when d.exit_code = 4 and not p.proven then case when not d.sweeps then 'token_refused' end
      when d.sweeps and d.error like '%seem to have been deleted at the source%' then 'mass_deletion_stopped'
      else 'run_failed' end as problem,
    b.failing_since, b.was_refused, b.first_answer
  from last_runs d
  cross join lateral (
     select coalesce(min(coalesce(f.failing_since, f.finished_at)), d.finished_at) as failing_since, coalesce(bool_or(f.exit_code = 4), false) as was_refused,
       (array_agg(f.answer order by f.finished_at))[1] as first_answer
     from sync.stored_run_streams f
     where f.account_id = d.account_id and f.stream_key = d.stream_key and f.state = 'failed'
       and case when d.sweeps then (select u.kind from sync.stored_runs u where u.id = f.run_id) = 'sweep'
         else (select u.kind from sync.stored_runs u where u.id = f.run_id) not in ('sweep', 'audit', 'verify', 'backfill') end
       and f.run_id > coalesce((
         select g.run_id from sync.stored_run_streams g
         where g.account_id = d.account_id and g.stream_key = d.stream_key and g.state in ('completed', 'partial')
           and case when d.sweeps then (select u.kind from sync.stored_runs u where u.id = g.run_id) = 'sweep'
             else (select u.kind from sync.stored_runs u where u.id = g.run_id) not in ('sweep', 'audit', 'verify', 'backfill') end
         order by g.run_id desc limit 1), 0)) b
  -- Any later reply proves that the source answers, and accepts the token.
  cross join lateral (
    select exists (
      select from sync.streams k join sync.stored_run_streams o on o.account_id = d.account_id and o.stream_key = k.stream_key
      where k.source = d.source and o.run_id > d.run_id and o.state in ('completed', 'partial') and o.credits > 0) as proven) p
  left join lateral (
    select t.target, sync.behind(d.account_id, d.stream_key) as behind
    from sync.targets t where (t.account_id, t.subject) = (d.account_id, d.stream_key) offset 0) t on true
  -- The sweep of a night is a run of its own, opened with its slot.
  cross join lateral (
    select d.kind = 'nightly' or d.sweeps and exists (
      select from sync.schedule_slots p join sync.stored_runs r on (r.account_id, r.started_at) = (p.account_id, p.claimed_at)
      where r.id = d.run_id and p.schedule = 'nightly') as of_night) n
  where d.state = 'failed' and not sync.is_paused(d.account_id, d.stream_key)),
nights as (
  select a.account_id, n.slot, n.run_id, t.target
  from sync.accounts a
  cross join lateral (
    select s.slot, s.run_id from sync.schedule_slots s
    where s.account_id = a.account_id and s.schedule = 'nightly' and s.run_id is not null
    order by s.slot desc limit 1) n
  join sync.targets t on (t.account_id, t.subject) = (a.account_id, 'nightly')),
-- A query of its own, because pg_locks cannot be filtered by account: otherwise each account would pay for all.
alive as materialized (
  select w.account_id, w.works, w.host, w.page_url, w.page_error, w.started_at from sync.live_workers w),
unattended as not materialized (
  select a.account_id, greatest(p.last_at, r.last_at) as last_at,
    -- Somebody syncs without the scheduler, for example with cron: nobody is missing before twice the time between the last two.
    coalesce((
      select max(i.started_at) > coalesce(p.last_at, '-infinity') and now() < max(i.started_at) + 2 * (max(i.started_at) - min(i.started_at))
      from (
        select o.started_at from sync.stored_runs o
        where o.account_id = a.account_id and o.kind = 'sync' order by o.id desc limit 2) i
      having count(*) = 2), false) as by_hand
  from sync.accounts a
  cross join lateral (
    select max(n.claimed_at) as last_at
    from (values ('fresh'), ('nightly')) w (schedule)
    cross join lateral (
      select i.claimed_at from sync.schedule_slots i
      where i.account_id = a.account_id and i.schedule = w.schedule
      order by i.slot desc limit 1) n) p
  cross join lateral (
    select max(coalesce(i.finished_at, i.started_at)) as last_at
    from (
      select o.finished_at, o.started_at from sync.stored_runs o
      where o.account_id = a.account_id order by o.id desc limit 5) i) r
  where coalesce(p.last_at, r.last_at) is not null
    and exists (select from sync.targets t where t.account_id = a.account_id)
    and not exists (select from alive w where w.account_id = a.account_id and w.works)),
-- When the schedule tries a source again: as long after its last slot as that was after the one before.
next_slots as not materialized (
  select a.account_id, w.schedule, p.slot
  from sync.accounts a cross join (values ('fresh'), ('nightly')) w (schedule)
  cross join lateral (
    select max(i.slot) + (max(i.slot) - min(i.slot)) as slot
    from (
      select o.slot from sync.schedule_slots o
      where o.account_id = a.account_id and o.schedule = w.schedule order by o.slot desc limit 2) i
    having count(*) = 2) p
  where p.slot > now() and exists (select from alive w where w.account_id = a.account_id and w.works)),
found as (
  -- One cause makes several streams of a source fail: the row names all, and carries the first.
  -- An outage is of its source, whatever streams meet it, and whatever it answers: it begins and ends once.
  select r.account_id, case r.problem when 'outage' then r.source || '.' else (array_agg(r.stream_key order by r.place))[1] end as stream_key, r.problem,
    case when r.problem not in ('run_failed', 'outage') or bool_or(r.is_late or r.of_night or r.problem = 'outage' and r.was_refused)
      then 'critical' else 'warning' end as severity,
    case r.problem
      when 'outage' then format(case when (array_agg(r.first_answer order by r.failing_since, r.place))[1] is distinct from (array_agg(r.answer order by r.finished_at desc, r.place))[1]
          then '%s; no request has succeeded since %s; nothing is lost%s.' else '%s since %s; nothing is lost%s.' end,
        (array_agg(r.answer order by r.finished_at desc, r.place))[1], sync.time_in_words(min(r.failing_since)),
        '; next try ' || (select sync.time_in_words(min(n.slot)) from next_slots n
          where n.account_id = r.account_id and n.schedule = any(array_agg(case r.kind when 'nightly' then 'nightly' else 'fresh' end))))
      when 'token_refused' then format('The source refuses our token: %s.', min(r.error))
      when 'run_failed' then
        case when count(distinct r.stream_key) = 1
          then string_agg(format('Run %s (%s) of %s failed: %s.', r.run_id, r.kind, r.stream, r.error), ' ' order by r.run_id)
          else format('Runs of %s failed, the last is run %s: %s.', string_agg(distinct r.stream, ', '), max(r.run_id), min(r.cause)) end
      else format('%s and perhaps more seem to have been deleted at the source, too many to be believed; none was marked as deleted here.',
        sync.counted(min(g.many), rtrim(min(r.stream), 's'), min(r.stream))) end as says,
    case r.problem
      when 'outage' then coalesce((array_agg(r.remedy order by r.finished_at desc, r.place))[1], 'It is tried again by itself.')
      when 'token_refused' then coalesce(min(r.remedy), 'Set a token that is valid, and start the workers again.')
      when 'run_failed' then string_agg(distinct coalesce(r.remedy, 'Look at the log.'), ' ')
      else format('Look there whether it is so; if it is, run `npx shelfdesk sweep %s --accept-deletions%s`; if not, the next sweep asks again.',
        min(r.stream), sync.option_of(r.account_id)) end as remedy,
    min(coalesce(g.since, r.failing_since)) as since
  from (select f.*, k.place from failing f join sync.streams k using (stream_key)) r
  left join lateral (
    select count(*) as many, min(o.gone_since) as since from sync.open_deletion_candidates o
    where o.account_id = r.account_id and o.stream_key = r.stream_key and o.gone_at is not null) g on r.problem = 'mass_deletion_stopped'
  where r.problem <> 'mass_deletion_stopped' or g.many > 0
  group by r.account_id, r.source, r.problem,
    case r.problem when 'outage' then '' when 'token_refused' then '' when 'run_failed' then r.cause else r.stream_key end
  union all
  select n.account_id, null, 'nightly_failed', 'critical',
    string_agg(format(case n.kind when 'sweep' then 'The sweep of the night (run %s) %s.' else 'The nightly run %s %s.' end, n.id,
      case n.state when 'failed' then 'failed' else 'was interrupted and not resumed' end), ' ' order by n.id),
    string_agg(format('See `npx shelfdesk runs show %s%s`; then run `npx shelfdesk runs retry %1$s%2$s`, or wait for the next night.',
      n.id, sync.option_of(n.account_id)), ' ' order by n.id),
    min(n.finished_at)
  from (
    select r.* from sync.accounts a
    cross join lateral (
      select r.account_id, r.kind, r.id, r.state, r.finished_at from sync.stored_runs r
      where r.account_id = a.account_id and r.kind = 'nightly' and r.finished_at is not null
      order by r.id desc limit 1) r
    union all
    -- The sweep of a night is a run of its own, opened with its slot.
    select r.* from sync.accounts a
    cross join lateral (
      select r.account_id, r.kind, r.id, r.state, r.finished_at from sync.stored_runs r
      where r.account_id = a.account_id and r.kind = 'sweep' and r.finished_at is not null and exists (
        select from sync.schedule_slots p
        where p.account_id = r.account_id and p.schedule = 'nightly' and p.claimed_at = r.started_at
        offset 0)
      order by r.id desc limit 1) r
    where exists (
        select from sync.stored_run_streams s
        where s.run_id = r.id and s.state in ('failed', 'interrupted')
          -- A run that stopped for a mass deletion has a problem of its own.
          and coalesce(s.error, '') not like '%seem to have been deleted at the source%'
          and not exists (
            select from sync.stored_runs o join sync.stored_run_streams p on p.run_id = o.id and p.stream_key = s.stream_key
            where o.account_id = r.account_id and o.kind = 'sweep' and o.id > r.id and p.state in ('completed', 'partial')
            offset 0)
        offset 0)) n
  where n.state = 'failed'
    -- What still fails has a problem of its own.
    and not exists (select from failing f where f.account_id = n.account_id and f.run_id = n.id and f.problem is not null)
    or n.state = 'interrupted' and not exists (
    -- The person who canceled the run knows about it.
    select from sync.operations o
    where o.account_id = n.account_id and o.action = 'cancel' and o.subject = n.id::text and o.outcome = 'done'
    offset 0)
  group by n.account_id
  union all
  select n.account_id, null, 'nightly_late', 'warning',
    format('The nightly run %s is running for %s; its target is %s.',
      n.run_id, sync.in_words(now() - n.since), sync.in_words(n.target)),
    format('See what it does by `npx shelfdesk runs show %s%s`; if it needs that long, raise NIGHTLY_WITHIN_HOURS.',
      n.run_id, sync.option_of(n.account_id)),
    n.since + n.target
  from (select n.*, greatest(n.slot, (select r.started_at from sync.stored_runs r where r.id = n.run_id)) as since from nights n) n
  where now() > n.since + n.target and not exists (select from unattended u where u.account_id = n.account_id) and exists (
    select from sync.stored_runs r join sync.stored_run_streams s on s.run_id = r.id
    where r.id = n.run_id and r.state = 'running' and s.state in ('waiting', 'running')
      and not sync.is_paused(s.account_id, s.stream_key)
      -- A first load takes as long as it takes.
      and exists (
        select from sync.stored_run_streams o
        where o.account_id = s.account_id and o.stream_key = s.stream_key and o.state = 'completed' and o.run_id < s.run_id)
    offset 0)
  union all
  select b.account_id, b.stream_key, 'past_target', 'warning',
    format('%s is %s behind; %s were promised.', b.stream, sync.in_words(b.behind), sync.in_words(b.target)),
    format('See `npx shelfdesk status%s` for what holds it up; if more cannot be had at these limits, raise FRESHNESS_TARGETS.',
      sync.option_of(b.account_id)),
    now() - (b.behind - b.target)
  from (
    select s.account_id, sync.name_of(s.stream_key) as stream, s.stream_key, t.target, l.behind
    from streams s join sync.streams k using (stream_key) join sync.targets t on (t.account_id, t.subject) = (s.account_id, s.stream_key)
    cross join lateral (select sync.behind(s.account_id, s.stream_key) as behind offset 0) l) b
  -- What holds it up has a problem of its own: a run that failed, an outage, rejects, a worker that is missing.
  where b.behind > b.target and not exists (select from unattended u where u.account_id = b.account_id)
    and not exists (select from sync.most_rejected m where m.account_id = b.account_id and split_part(m.stream_key, '.', 1) = split_part(b.stream_key, '.', 1))
    and not exists (select from failing f where f.account_id = b.account_id and f.problem = 'outage' and f.source = split_part(b.stream_key, '.', 1))
    and not coalesce((
    select r.state = 'failed' or r.deferred_until > now() from sync.stored_run_streams r
    where r.account_id = b.account_id and r.stream_key = b.stream_key and r.state not in ('waiting', 'running', 'interrupted')
      and (select u.kind from sync.stored_runs u where u.id = r.run_id) not in ('sweep', 'audit', 'verify', 'backfill')
    order by r.run_id desc limit 1), false)
  union all
  select b.account_id, b.stream_key, 'reread_late', 'warning',
    format('All of %s was last read again %s ago; %s were promised. Silent edits and deletions since then are unknown.', sync.name_of(b.stream_key),
      sync.in_words(now() - b.read_at), sync.in_words(b.target)),
    format('See `npx shelfdesk runs list%s` for what its sweeps wait for. If the credits do not suffice, raise SWEEP_SHARE_PERCENT. `npx shelfdesk sweep %s%1$s` reads it now.',
      sync.option_of(b.account_id), sync.name_of(b.stream_key)),
    b.read_at + b.target
  from (
    select t.account_id, k.stream_key, k.source, t.target, l.read_at
    from sync.targets t join sync.streams k on t.subject = 'reread ' || k.stream_key
    cross join lateral (
      select min(r.finished_at) as at from sync.stored_run_streams r
      where r.account_id = t.account_id and r.stream_key = k.stream_key and r.state = 'completed') f
    -- When its lists were read: a single record of which less is known is no reason to read all of them.
    cross join lateral (
      select min(coalesce((
        select min(w.as_of) from sync.swept w
        where (w.account_id, w.stream_key, w.list) = (c.account_id, c.stream_key, c.list)), f.at)) as read_at
      from sync.coverage c
      where (c.account_id, c.stream_key) = (t.account_id, k.stream_key) and not c.redundant and not isempty(c.covered)) l) b
  where b.read_at < now() - b.target and not exists (select from unattended u where u.account_id = b.account_id)
    -- What holds it up has a problem of its own.
    and not exists (select from failing f where f.account_id = b.account_id and f.source = b.source and (f.sweeps and f.stream_key = b.stream_key or f.problem = 'outage'))
    and not exists (select from sync.most_rejected m where m.account_id = b.account_id and m.stream_key = b.stream_key)
    and not coalesce((
      select r.deferred_until > now() from sync.stored_run_streams r join sync.stored_runs u on u.id = r.run_id
      where r.account_id = b.account_id and r.stream_key = b.stream_key and u.kind = 'sweep' and r.state not in ('waiting', 'running', 'interrupted')
      order by r.run_id desc limit 1), false)
  union all
  select c.account_id, null, 'credits_refused', 'warning',
    format('Within the last 15 minutes %s refused for want of credits (429): %s.',
      case sum(c.refused) when 1 then '1 request was' else sum(c.refused) || ' requests were' end,
      string_agg(case c.source when 'books' then 'by the book catalog ' else 'by the help desk ' end || c.refused, ', ' order by c.source desc)),
    'Somebody else uses more than the reserve, or the limits are lower than the settings say: compare HELPDESK_CREDITS, HELPDESK_REQUESTS_PER_SECOND and HELPDESK_RESERVE (of the catalog BOOKS_REQUESTS_PER_DAY) with what the source allows.',
    min(c.since)
  from (
    select m.account_id, m.source, sum(m.refused) as refused, min(m.minute) as since
    from sync.accounts a join sync.credit_minutes m using (account_id)
    where m.source in ('helpdesk', 'books') and m.minute > now() - interval '15 minutes' and m.refused > 0
    group by 1, 2) c
  group by c.account_id
  union all
  select d.account_id, d.stream_key, 'audit_found_drift', 'warning',
    format('Within the last 24 hours %s of %s %s found to differ from the source: %s.', sync.counted(count(distinct d.record_id), 'record'), d.stream,
      case count(distinct d.record_id) when 1 then 'was' else 'were' end,
      string_agg(distinct d.kind, '; ')),
    format('See `npx shelfdesk sql "select * from sync.audit where account_id = %L and kind is not null"` for what differs. It ends by itself after 24 hours without another one.',
      d.account_id),
    min(d.checked_at)
  from (
    select u.account_id, sync.name_of(coalesce(k.stream_key, 'helpdesk.tickets')) as stream, coalesce(k.stream_key, 'helpdesk.tickets') as stream_key, u.stream || ' ' || u.record_id as record_id, u.kind, u.checked_at
    from sync.accounts a join sync.audit u using (account_id) left join sync.streams k on k.stream_key = u.stream_key
    where u.kind is not null and u.checked_at > now() - interval '24 hours') d
  group by d.account_id, d.stream, d.stream_key
  union all
  select h.account_id, h.stream_key, 'gap', 'warning',
    format('%s of %s could not be read, the first from %s on: %s.', sync.counted(count(*), 'range'), sync.name_of(h.stream_key),
      to_char(min(h.gap_from) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), min(h.reason)),
    format('Run `npx shelfdesk backfill %s%s`.', sync.name_of(h.stream_key), sync.option_of(h.account_id)),
    (select min(r.found_at) from sync.gap_reasons r where r.account_id = h.account_id and r.stream_key = h.stream_key)
  from sync.gaps h where h.reason is not null
  group by h.account_id, h.stream, h.stream_key
  union all
  select r.account_id, r.stream_key, 'most_rejected', 'critical',
    format('Most of what is read of %s is rejected: %s. Nothing is lost; next try %s.', sync.name_of(r.stream_key), g.says, sync.time_in_words(r.next_try_at)),
    format('See `npx shelfdesk rejects list%s`, and look whether a newer Shelfdesk knows it. One record is asked for at times that grow rarer; once it can be stored, all are read again by themselves.',
      sync.option_of(r.account_id)),
    r.since
  from sync.most_rejected r
  cross join lateral (
    select i.says from sync.reject_groups i
    where i.account_id = r.account_id and i.stream_key = r.stream_key and i.path is not null
    order by i.rejects desc, i.since limit 1) g
  union all
  select r.account_id, r.stream_key, 'rejects_open', 'warning',
    format('%s: %s%s.', sync.name_of(r.stream_key), string_agg(r.says, '; ' order by r.place) filter (where r.place <= 3),
      '; and ' || sync.counted(nullif(count(*) filter (where r.place > 3), 0), 'other reason')),
    format('See `npx shelfdesk rejects list%s`; what can be asked for again is asked for again by itself.', sync.option_of(r.account_id)),
    min(r.since)
  from (
    select g.*, row_number() over (partition by g.account_id, g.stream_key order by g.rejects desc, g.since, g.reason) as place
    from sync.reject_groups g) r
  where not exists (select from sync.most_rejected m where (m.account_id, m.stream_key) = (r.account_id, r.stream_key))
  group by r.account_id, r.stream, r.stream_key
  union all
  -- It is critical once work waits longer than was promised.
  select a.account_id, null, 'no_worker',
    case when exists (
      select from sync.targets t where t.account_id = a.account_id and t.subject <> 'nightly' and t.subject not like 'reread %' and sync.behind(a.account_id, t.subject) > t.target)
      then 'critical' else 'warning' end,
    format('No worker runs since %s.', sync.time_in_words(a.last_at)),
    format('Run `npx shelfdesk start`; if the account is to rest, `npx shelfdesk pause%s`.', sync.option_of(a.account_id)),
    a.last_at
  from unattended a where not a.by_hand
  union all
  select c.account_id, c.source || '.', 'source_clock_jumped', 'warning',
    format('The clock of %s jumped by %s, last seen at %s: nothing counts as complete until it has stood still for 5 minutes.',
      sync.label_of(c.source), (array_agg(c.value order by c.last_seen_at desc))[1], sync.time_in_words(max(c.last_seen_at))),
    'What was read is stored, and the next runs resume by themselves. If it comes again, ask the support of the source, or look at the clock of the database server.',
    max(c.last_seen_at)
  from sync.drift c
  where c.kind = 'clock' and c.last_seen_at > now() - interval '1 hour'
  group by c.account_id, c.source
  union all
  select w.account_id, null, 'page_not_served', 'warning',
    format('The worker on %s does not serve the page: %s.', min(w.host), min(w.page_error)),
    'End the other program, or set another SHELFDESK_WEB_PORT; then restart the worker.', min(w.started_at)
  from alive w
  -- Another process of the machine may serve it.
  where w.page_error is not null and not exists (
    select from alive o where o.account_id = w.account_id and o.host = w.host and o.page_url is not null)
  group by w.account_id
  union all
  select m.account_id, null, 'alarms_undelivered', 'warning',
    format('The webhook does not take %s: %s.', sync.counted(count(*), 'alarm'), (array_agg(m.last_error order by m.id desc))[1]),
    'Look at its receiver, and at ALARM_WEBHOOK_URL and ALARM_FORMAT; it is tried again, in the end once an hour.',
    min(m.began_at)
  from sync.alarms m where m.next_try_at is not null and m.last_error is not null
  group by m.account_id
  union all
  select d.account_id, null, 'hand_off_undelivered', 'warning',
    format('For more than a day the %s did not take %s, the first of run %s: %s.', d.channel, sync.counted(count(*), 'hand-off'),
      (array_agg(h.run_id order by h.id))[1],
      coalesce((array_agg(d.last_error order by h.id))[1], 'no process has sent it')),
    format('Look at its receiver, and at the settings that begin with HANDOFF_; it is tried again once an hour, or by `npx shelfdesk hand-off send%s`.',
      sync.option_of(d.account_id)),
    min(h.issued_at)
  from sync.hand_off_deliveries d join sync.hand_offs h on h.id = d.hand_off_id
  where d.delivered_at is null
  group by d.account_id, d.channel
  having min(h.issued_at) < now() - interval '1 day'
  union all
  select l.account_id, null, 'hand_off_late', 'warning',
    format('%s; the next one was due %s.',
      case when l.run_id is null then 'No hand-off was taken yet'
        else format('The last hand-off is that of run %s, issued %s ago', l.run_id, sync.in_words(now() - l.issued_at)) end,
      case when l.due_within is not null then 'within ' || sync.in_words(l.due_within) else 'by ' || to_char(l.due_by, 'HH24:MI') end),
    format('See `npx shelfdesk hand-off list%s` for what withholds it, and `npx shelfdesk status%1$s`.', sync.option_of(l.account_id)),
    l.due_at
  from (
    select s.account_id, s.due_within, s.due_by, last.run_id, last.issued_at, d.due_at
    from sync.hand_off_settings s
    -- The last local time due_by that has passed.
    cross join lateral (
      select p.day - case when p.day > p.local then interval '1 day' else interval '0' end as by_local
      from (select now() at time zone s.time_zone as local, date_trunc('day', now() at time zone s.time_zone) + s.due_by as day) p) b
    left join lateral (
      select h.run_id, h.started_at, h.issued_at from sync.hand_offs h
      where h.account_id = s.account_id and h.issued_at is not null and not exists (
        select from sync.hand_off_deliveries o where o.hand_off_id = h.id and o.delivered_at is null)
      order by h.id desc limit 1) last on true
    cross join lateral (
      select case when s.due_within is not null then greatest(last.issued_at, s.since) + s.due_within
        -- A hand-off of the day before that came late is not that of this day.
        when b.by_local at time zone s.time_zone > s.since
          and coalesce(last.started_at <= (b.by_local - interval '1 day') at time zone s.time_zone, true)
          then b.by_local at time zone s.time_zone end as due_at) d
    where d.due_at < now()) l
  union all
  select p.account_id, nullif(p.stream_key, ''), 'paused', 'info',
    format('%s was told to wait by %s%s.', coalesce(nullif(sync.name_of(p.stream_key), ''), 'The account'), p.paused_by, coalesce(': ' || p.reason, '')),
    format('Run `npx shelfdesk resume%s%s`.', coalesce(' ' || nullif(sync.name_of(p.stream_key), ''), ''), sync.option_of(p.account_id)),
    p.paused_at
  from sync.paused p
  union all
  select m.account_id, null, 'moved', 'info',
    format(case m.state when 'moved' then 'The account moved to %s.' else 'The account is moving to %s.' end, m.place),
    format(case m.state when 'moved' then 'Ask there. `npx shelfdesk account remove %s` takes its rows out here.'
      else 'Wait, or run `npx shelfdesk account move %s --to <url>` again, which resumes it.' end, m.account_id),
    coalesce(m.ended_at, m.began_at)
  from sync.moves m
  where m.state in ('leaving', 'moved')
  union all
  select p.account_id, coalesce(k.stream_key, 'helpdesk.tickets'), 'recommendation', 'info',
    format('Comparisons found of %s, more than once: %s.', sync.name_of(coalesce(k.stream_key, 'helpdesk.tickets')), string_agg(distinct p.kind, '; ')),
    string_agg(distinct p.remedy, ' '), max(p.last_at)
  from sync.recommendations p left join sync.streams k on k.stream_key = p.stream_key
  group by p.account_id, k.stream, k.stream_key)
-- The key of a whole source ends with the dot.
select f.account_id, nullif(split_part(f.stream_key, '.', 2), '') as stream, f.problem, f.severity, f.says, f.remedy, f.since,
  split_part(f.stream_key, '.', 1) as source, case when f.stream_key not like '%.' then f.stream_key end as stream_key
from found f
left join sync.streams k on k.stream_key = f.stream_key
where (f.problem in ('paused', 'alarms_undelivered', 'hand_off_undelivered') or not exists (
  select from sync.paused p
  where p.account_id = f.account_id
    and p.stream_key in ('', f.stream_key, case when f.problem = 'past_target' then k.source || '.' || k.follows end)))
  and (f.problem = 'moved' or not exists (
    select from sync.moves m where m.account_id = f.account_id and m.state in ('leaving', 'moved')));
comment on view sync.problems is
  'Current problems, one row per cause: the content of the page, the alarms, `doctor` and the health endpoints. Empty if everything is well. A paused stream shows only that it is paused, an account that moved only that.';
comment on column sync.problems.account_id is 'The account.';
comment on column sync.problems.stream is
  'The stream, the first one if one cause stops several of a source; null for the whole account or a whole source.';
comment on column sync.problems.problem is
  'Code of the problem; docs/reference/problems.md has each, with what to do.';
comment on column sync.problems.severity is
  'critical: work has stopped until a person acts, or a failure delays a stream beyond its target, or a night failed, or most of what is read is rejected; warning; info.';
comment on column sync.problems.says is 'Description in one sentence.';
comment on column sync.problems.since is 'Start of the problem, if known.';
comment on column sync.problems.source is 'The source: helpdesk or books; null for the whole account.';
comment on column sync.problems.stream_key is
  'Key of the stream: source.stream, as helpdesk.tickets; null for the whole account or a whole source.';
