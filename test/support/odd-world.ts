/**
 * Two accounts made by SQL, through the triggers, with everything that a count could get wrong: spam, trash, deletions, reopenings,
 * tickets and messages without what others have, and inboxes in time zones far apart.
 */
import type pg from 'pg';

const own = '_first_seen_at, _synced_at, _observed_at, _payload';

export async function fillOddWorld(db: pg.Pool, tickets = 240): Promise<void> {
  await db.query(`
    insert into sync.accounts (account_id, mirrored_since) values ('acme', '2026-01-01'), ('umbra', '2026-01-01');
    insert into analytics.calendars (name, time_zone) values ('berlin', 'Europe/Berlin'), ('auckland', 'Pacific/Auckland'), ('honolulu', 'Pacific/Honolulu');
    insert into analytics.calendar_hours (calendar, weekday, opens, closes)
      select name, day, time '09:00', time '17:00' from analytics.calendars, generate_series(1, 5) day;
    insert into internal.stored_calendar_assignments (account_id, inbox_id, calendar)
      values ('acme', null, 'berlin'), ('acme', 'i1', 'auckland'), ('acme', 'i2', 'honolulu'), ('umbra', 'i1', 'auckland');
    insert into internal.stored_service_targets (account_id, inbox_id, label_id, metric, target_seconds)
      values ('acme', null, null, 'resolution', 100000), ('acme', null, null, 'first_response', 7200), ('acme', null, 'l1', 'resolution', 50000),
        ('umbra', null, null, 'resolution', 100000), ('umbra', null, null, 'first_response', 7200);
    insert into helpdesk.inboxes (account_id, id, name, _first_seen_at, _synced_at)
      select a.account_id, 'i' || n, case when n <> 3 then 'Inbox ' || n end, '2026-01-01', '2026-01-01' from sync.accounts a, generate_series(1, 3) n;
    insert into helpdesk.labels (account_id, id, name, _first_seen_at, _synced_at)
      select a.account_id, 'l' || n, case when n <> 2 then 'Label ' || n end, '2026-01-01', '2026-01-01' from sync.accounts a, generate_series(0, 2) n;
    insert into helpdesk.users (account_id, id, ${own})
      select a.account_id, 'u' || n, '2026-01-01', '2026-01-01', '2026-01-01', '{}' from sync.accounts a, generate_series(1, 2) n;
    update helpdesk.users set _deleted_at = '2026-03-01' where id = 'u2';
    insert into helpdesk.customers (account_id, id, _created_after, _created_before, _checked_at, ${own})
      select a.account_id, 'c' || n, case when n % 2 = 0 then timestamptz '2026-01-01' else '1970-01-01' end, '2026-02-01', '2026-02-01', '2026-02-01', '2026-02-01', '2026-02-01', '{}'
      from sync.accounts a, generate_series(0, 9) n;
    update helpdesk.customers set _deleted_at = '2026-03-01' where id = 'c4'`);
  await db.query(
    `create temp table odd as
      select a.account_id, n, 't' || n as id, timestamptz '2026-03-01T00:30Z' + n * interval '11 hours' as at
      from sync.accounts a cross join generate_series(1, case a.account_id when 'acme' then ${tickets} else ${tickets / 2} end) n;
    insert into helpdesk.tickets (account_id, id, number, customer_id, user_id, inbox_id, label_ids, state, type, spam, trash, created_at, updated_at, _messages_as_of, _true_by, ${own})
      select account_id, id, nullif(n % 29, 0) + n, 'c' || nullif(n % 12, 5), 'u' || nullif(n % 4, 0), 'i' || nullif(n % 4, 0),
        case n % 5 when 0 then null when 1 then array['l0', 'l1', 'l0'] when 2 then array['l2', null] else array['l' || n % 3] end,
        (array['open', 'hold', 'snoozed', 'closed', 'archived', null])[1 + n % 6], (array['email', 'chat', null])[1 + n % 3],
        case when n % 7 = 0 then true when n % 11 <> 0 then false end, case when n % 13 = 0 then true when n % 9 <> 0 then false end,
        case when n % 23 <> 0 then at end, at + interval '1 hour', case when n % 8 <> 0 then at + interval '2 hours' end, at + interval '90 minutes', at, at, at, '{}'
      from odd;
    -- Bursts, replies, notes and automatic replies; in some tickets the team writes first.
    insert into internal.messages (account_id, id, ticket_id, position, type, direction, user_id, created_at, ${own})
      select account_id, id || '-' || k, id, k, case when (n + k) % 6 = 5 then 'note' when (n + k) % 17 = 0 then 'chat' else 'reply' end,
        case when (n + k) % 6 = 5 then null when (n + k) % 3 = 1 then 'out' else 'in' end,
        case when (n + k) % 3 <> 0 and (n + k) % 7 <> 0 then 'u' || 1 + n % 3 end,
        case when (n * k) % 31 <> 30 then at + k * interval '25 minutes' + (n % 50) * interval '1 hour' end, at, at, at, '{}'
      from odd cross join generate_series(1, 6) k where k <= n % 7;
    insert into sync.rejects (account_id, source, stream, key, ask_id, reason, replayable, first_seen_at, last_seen_at)
      select account_id, 'helpdesk', 'messages', id || '-9', id, 'odd', false, at, at from odd where n % 37 = 0;
    update helpdesk.tickets t set state = case when t.state in ('closed', 'archived') then 'open' else 'closed' end, user_id = 'u1',
        updated_at = t.updated_at + interval '5 days', _observed_at = t.updated_at + interval '5 days', _true_by = t.updated_at + interval '5 days 1 minute'
      from odd o where (o.account_id, o.id) = (t.account_id, t.id) and o.n % 3 = 0;
    update helpdesk.tickets t set state = case when o.n % 2 = 0 then 'archived' else 'open' end, inbox_id = 'i2',
        updated_at = t.updated_at + interval '5 days', _observed_at = t.updated_at + interval '5 days', _true_by = t.updated_at + interval '5 days 1 minute'
      from odd o where (o.account_id, o.id) = (t.account_id, t.id) and o.n % 9 = 0;
    update helpdesk.tickets t set _deleted_at = t.updated_at + interval '4 days', _deleted_after = t.updated_at + interval '2 days'
      from odd o where (o.account_id, o.id) = (t.account_id, t.id) and o.n % 17 = 0;
    drop table odd;
    -- A shelf without a title, with one volume that has gone and one that came before the first reading.
    insert into books.shelves (account_id, owner_id, id, ${own}) values ('acme', 'ada', '3', '2026-03-01', '2026-03-01', '2026-03-01', '{}');
    insert into books.volumes (account_id, id, ${own}) values ('acme', 'v1', '2026-03-01', '2026-03-01', '2026-03-01', '{}');
    insert into books.shelf_volumes (account_id, owner_id, shelf_id, volume_id, position, _removed_at, ${own})
      values ('acme', 'ada', '3', 'v1', 0, null, '2026-03-01', '2026-03-01', '2026-03-01', '{}'),
        ('acme', 'ada', '3', 'v2', 1, '2026-03-08', '2026-03-03', '2026-03-08', '2026-03-08', '{}');
    insert into books.shelf_volume_history (account_id, owner_id, shelf_id, volume_id, position, valid_from, valid_to, change_after)
      values ('acme', 'ada', '3', 'v1', 0, '2026-03-01', null, null),
        ('acme', 'ada', '3', 'v2', 1, '2026-03-03', '2026-03-08', '2026-03-02'),
        ('acme', 'ada', '3', 'v2', null, '2026-03-08', null, '2026-03-06')`,
  );
}
