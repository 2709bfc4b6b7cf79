/**
 * A warehouse in which the questions of docs/queries differ: two accounts that are complete up to different moments, inboxes
 * with calendars in several zones, spam, trash, deleted and reopened tickets, labels, targets, shelves, what it cost, and rows that miss another one.
 */
import { makeRng } from '../../packages/sandbox/src/random.ts';
import { startSandbox } from '../../packages/sandbox/src/server.ts';
import { recompute } from '../../src/analytics/calendars.ts';
import { demoWorld } from './demo-world.ts';
import type { InProcess } from './in-process.ts';
import { configFor, noSandboxLimits, syncOnce } from './mirror.ts';

const dayMs = 86_400_000;

export async function variedWorld(days: number): Promise<InProcess> {
  const here = await demoWorld(days);
  const rng = makeRng(3);
  for (let round = 0; round < 6; round++) {
    for (let i = 0; i < 25; i++) here.world.mutate(rng);
    here.nowMs += dayMs / 3;
    await here.sync();
  }
  await here.run('sweep', ['tickets']);
  const sandbox = await startSandbox({ tickets: 60, customers: 9, begin: Date.UTC(2026, 2, 6), ...noSandboxLimits });
  try {
    const config = configFor(here.url, sandbox, { account: 'umbra' });
    await syncOnce(config);
    for (let i = 0; i < 60; i++) sandbox.world.mutate(rng);
    await syncOnce(config);
  } finally {
    await sandbox.close();
  }
  // Each has a zone with other days, and umbra none of its own.
  await here.rows(`
    insert into analytics.calendars (name, time_zone) values ('coast', 'America/New_York'), ('far', 'Pacific/Auckland');
    insert into analytics.calendar_hours select 'coast', day, time '08:30', time '12:00' from generate_series(1, 6) day;
    insert into analytics.calendar_hours select 'coast', day, time '13:00', time '24:00' from generate_series(1, 3) day;
    insert into analytics.calendar_hours values ('far', 7, '00:00', '24:00');
    insert into internal.stored_calendar_assignments (account_id, inbox_id, calendar)
    select i.account_id, i.id, case i.account_id when 'umbra' then 'far' else 'coast' end
    from (select *, row_number() over (partition by account_id order by id) as n from helpdesk.inboxes) i where n = 1`);
  for (const account of ['default', 'umbra']) await recompute(here.pool, account);
  await here.rows(`
    insert into internal.stored_service_targets (account_id, inbox_id, label_id, metric, target_seconds)
    select 'default', null, null, metric, seconds from (values ('first_response', 14400), ('resolution', 259200)) t (metric, seconds)
    union all
    select account_id, inbox_id, null, 'resolution', 86400 from (
      select *, row_number() over (partition by account_id order by inbox_id) as n from analytics.inbox_zones) i where n in (1, 3)
    union all
    select account_id, null, id, 'first_response', 7200 + 3600 * n from (
      select *, row_number() over (partition by account_id order by id) as n from helpdesk.labels) l where n <= 3
    union all
    select account_id, inbox_id, label_ids[1], metric, 90000
    from (select distinct on (account_id) * from helpdesk.tickets where cardinality(label_ids) > 1 order by account_id, id) t
    cross join (values ('first_response'), ('resolution')) m (metric)
    on conflict do nothing`);
  // The third of those that were deleted comes back.
  await here.rows(`
    update helpdesk.tickets t set _deleted_after = t.updated_at + interval '1 hour', _deleted_at = t.updated_at + interval '60 hours'
    from (select *, row_number() over (partition by account_id order by updated_at desc) as n from helpdesk.tickets where state = 'open' and not spam and not trash) o
    where (o.account_id, o.id) = (t.account_id, t.id) and n <= 6`);
  await here.rows(`
    update helpdesk.tickets set _deleted_after = null, _deleted_at = null, user_id = null, updated_at = updated_at + interval '80 hours'
    where (account_id, id) in (select account_id, id from helpdesk.tickets where _deleted_at is not null order by updated_at limit 1)`);
  // One of which nobody knows when it was created.
  await here.rows(`
    update helpdesk.tickets set created_at = null, inbox_id = null
    where (account_id, id) in (select account_id, id from helpdesk.tickets where state = 'open' and _deleted_at is null and not spam and not trash order by id limit 1)`);
  await here.rows(`
    with one as (select distinct on (account_id) account_id, user_id from helpdesk.tickets where user_id is not null order by 1, 2),
      two as (select distinct on (account_id) account_id, customer_id from helpdesk.contacts order by 1, 2),
      three as (select distinct on (account_id) account_id, label_id from helpdesk.ticket_labels order by 1, 2),
      four as (select distinct on (account_id) account_id, volume_id from books.shelf_volumes order by 1, 2),
      user_gone as (delete from helpdesk.users u using one where u.account_id = one.account_id and u.id = one.user_id),
      customer_gone as (delete from helpdesk.customers c using two where c.account_id = two.account_id and c.id = two.customer_id),
      deleted as (
        update helpdesk.customers set _deleted_at = _synced_at where (account_id, id) in (select account_id, max(id) from helpdesk.customers group by 1)),
      attachment as (update helpdesk.attachments set message_id = 'none' where (account_id, id) in (select account_id, max(id) from helpdesk.attachments group by 1)),
      label_gone as (delete from helpdesk.labels l using three where l.account_id = three.account_id and l.id = three.label_id)
    delete from books.volumes v using four where v.account_id = four.account_id and v.id = four.volume_id`);
  return here;
}
