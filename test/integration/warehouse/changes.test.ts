/** sync.changes: what a row was before it changed, written with the change; nothing for what is new or unchanged. */
import { expect, test, vi } from 'vitest';
import type { Batch } from '../../../src/engine/commit/page.ts';
import { writeBatch } from '../../../src/engine/commit/rows.ts';
import { transaction } from '../../../src/engine/database/pool.ts';
import { markTicketDeleted } from '../../../src/sources/helpdesk/messages/waiting.ts';
import { tickets } from '../../../src/sources/helpdesk/tickets.ts';
import { at, iso, message, type Scripted, scripted, second, ticket } from '../../support/scripted.ts';

const kept = (s: Scripted) =>
  s.rows(
    `select table_name, record_id, parent_id, seen_at, as_of, run_id, changes from sync.changes where account_id = 'default' order by run_id, table_name, record_id`,
  );
const clear = (s: Scripted) => s.rows('delete from sync.changes');
const by = (s: Scripted) =>
  s.rows('select id, _listed_by, _messages_as_of, _messages_by from helpdesk.tickets order by id');

const contact = (id: string, value: string) => ({ id, type: 'email', value });
const customer = (contacts: unknown[]) => ({ id: 'c1', first_name: 'Ada', last_name: '', summary: null, contacts });

test('old and new values, field by field, of everything that changed; nothing for a first load, nor read again', async () => {
  await using s = await scripted();
  const show = (more: object, messages: unknown[]) => {
    const record = ticket('t1', { inbox_id: null, ...more });
    s.lists.tickets = [ticket('t2', { inbox_id: null }), record];
    s.details['/tickets/t1'] = { ...record, messages };
    s.details['/tickets/t2'] = { ...ticket('t2', { inbox_id: null }), messages: [] };
  };
  /** Four runs, from this second on. */
  const readAll = async (n: number) => {
    for (const [i, name] of ['users', 'customers', 'tickets', 'messages'].entries()) {
      s.goTo(n + 10 * i);
      await s.sync(name);
    }
  };
  s.lists.users = [{ id: 'u1', first_name: 'Eve', last_name: null, email: null }];
  s.lists.customers = [customer([contact('k1', 'a'), contact('k2', 'b')])];
  show({ label_ids: ['l1'] }, [message('m1'), message('m2', { type: 'note' }), message('m3')]);
  s.details['/tickets/t1'] = { ...(s.details['/tickets/t1'] as object), labels: [{ id: 'l1', name: 'L' }] };
  await readAll(100);
  await readAll(200);
  expect(await kept(s)).toEqual([]);
  expect(await by(s)).toEqual([
    { id: 't1', _listed_by: 3, _messages_as_of: at(129), _messages_by: 4 },
    { id: 't2', _listed_by: 3, _messages_as_of: at(129), _messages_by: 4 },
  ]);

  s.lists.users = [{ id: 'u1', first_name: 'Eve', last_name: null, email: 'eve@example.org' }];
  s.lists.customers = [customer([contact('k1', 'A')])];
  show({ updated_at: iso(299), label_ids: ['l1', 'l2'], subject: '', mood: { at: 1 } }, [
    message('m1', { body: 'edited', from: 'eve@example.org' }),
    message('m3'),
  ]);
  await readAll(300);
  const removed = Object.entries(message('m2', { type: 'note', position: 2, ticket_id: 't1' }))
    .filter(([name, value]) => value !== null && !['attachments', 'from', 'to', 'created_at'].includes(name))
    .map(([name, value]) => [name, [value, null]]);
  const of = (run_id: number, table_name: string, record_id: string, parent_id: string | null, changes: object) => ({
    ...{ run_id, table_name, record_id, parent_id, changes },
    ...{ seen_at: at(300 + 10 * (run_id - 9)), as_of: at(299 + 10 * (run_id - 9)) },
  });
  const payloads = [[contact('k1', 'a'), contact('k2', 'b')], [contact('k1', 'A')]];
  expect(await kept(s)).toEqual([
    of(9, 'users', 'u1', null, { email: [null, 'eve@example.org'] }),
    of(10, 'contacts', 'k1', 'c1', { value: ['a', 'A'] }),
    of(10, 'contacts', 'k2', 'c1', {
      ...{ id: ['k2', null], customer_id: ['c1', null], type: ['email', null], value: ['b', null] },
    }),
    of(10, 'customers', 'c1', null, { contacts: payloads }),
    of(11, 'tickets', 't1', null, {
      updated_at: ['2026-01-01T00:00:00+00:00', '2026-01-01T00:04:59+00:00'],
      ...{ label_ids: [['l1'], ['l1', 'l2']], subject: ['Tea', ''], mood: [null, { at: 1 }] },
    }),
    of(12, 'messages', 'm1', 't1', {
      ...{ body: ['body of m1', 'edited'], from_address: ['ada@example.org', 'eve@example.org'] },
    }),
    of(12, 'messages', 'm2', 't1', {
      ...Object.fromEntries(removed),
      created_at: ['2026-01-01T00:00:00+00:00', null],
      ...{ from_address: ['ada@example.org', null], to_address: ['help@example.org', null] },
    }),
    of(12, 'messages', 'm3', 't1', { position: [3, 2] }),
    of(12, 'tickets', 't1', null, {
      ...{ _messages_as_of: ['2026-01-01T00:02:09+00:00', '2026-01-01T00:05:29+00:00'], _messages_by: [4, 12] },
    }),
  ]);
  expect(await by(s)).toMatchObject([
    { id: 't1', _listed_by: 3, _messages_by: 12 },
    { id: 't2', _messages_by: 4 },
  ]);

  // Only the spelling of a time; then a ticket that was gone and comes back, with its message.
  await clear(s);
  show({ updated_at: '2026-01-01T00:04:59.000Z', label_ids: ['l1', 'l2'], subject: '', mood: { at: 1 } }, [
    message('m1'),
  ]);
  s.goTo(400);
  await s.sync('tickets');
  expect(await kept(s)).toEqual([expect.objectContaining({ record_id: 't1', run_id: 13, changes: {} })]);
  await clear(s);
  await transaction(s.pool, client =>
    markTicketDeleted(client, { account: 'default', run: 99 }, 't1', second(401), at(402)),
  );
  const gone = [null, '2026-01-01T00:06:41+00:00'];
  const deleted = { run_id: 99, seen_at: at(402), as_of: at(401) };
  expect(await kept(s)).toEqual([
    ...['m1', 'm3'].map(id => ({
      ...{ ...deleted, table_name: 'messages', record_id: id, parent_id: 't1' },
      changes: { _deleted_at: gone },
    })),
    {
      ...{ ...deleted, table_name: 'tickets', record_id: 't1', parent_id: null },
      changes: {
        _deleted_at: gone,
        _deleted_after: [null, '2026-01-01T00:06:39+00:00'],
        _messages_as_of: ['2026-01-01T00:05:29+00:00', null],
        _messages_by: [12, null],
      },
    },
  ]);
  await clear(s);
  s.goTo(410);
  await s.sync('tickets');
  expect((await kept(s)).map(({ changes }) => changes)).toEqual([
    { _deleted_at: ['2026-01-01T00:06:41+00:00', null], _deleted_after: [expect.any(String), null] },
  ]);
  // The reading that follows is a first one: of the messages that were gone with the ticket the old state is kept.
  s.goTo(420);
  await s.sync('messages');
  expect((await kept(s)).map(({ record_id, changes }) => [record_id, changes])).toContainEqual([
    'm1',
    expect.objectContaining({ _deleted_at: ['2026-01-01T00:06:41+00:00', null] }),
  ]);
});

test('of two concurrent writes of a ticket, the second one records the change from the row of the first', async () => {
  await using s = await scripted();
  const write = (subject: string, updated: number, hold: () => Promise<void> = async () => {}) => {
    const text = JSON.stringify([ticket('t1', { subject, updated_at: iso(updated) })]);
    const batch: Batch = {
      merge: tickets.merge,
      filter: tickets.personal,
      records: [{ place: 0, id: 't1' }],
      text: () => text,
      record: () => text,
      parameters: () => [],
    };
    return transaction(s.pool, async client => {
      const at = { nowMs: second(updated), asOfMs: second(updated) };
      await writeBatch({ client, claim: { account: 'default', run: updated }, at, care: 'as it came' }, batch);
      await hold();
    });
  };
  await write('one', 1);
  const first = Promise.withResolvers<void>();
  const holding = Promise.withResolvers<void>();
  const two = write('two', 2, () => {
    holding.resolve();
    return first.promise;
  });
  await holding.promise;
  const three = write('three', 3);
  await vi.waitFor(async () => {
    expect(
      await s.rows(`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`),
    ).toHaveLength(1);
  }, 10_000);
  first.resolve();
  await Promise.all([two, three]);
  expect((await kept(s)).map(({ run_id, changes }) => [run_id, (changes as { subject: unknown }).subject])).toEqual([
    [2, ['one', 'two']],
    [3, ['two', 'three']],
  ]);
});

test('of every other table too: attachments, names, shelves, volumes; not where something stands, nor what was only a list', async () => {
  await using s = await scripted();
  const own = `now(), now(), now()`;
  await s.rows(`insert into helpdesk.attachments (account_id, id, message_id, ticket_id, name, _first_seen_at, _synced_at, _observed_at, _payload)
    values ('default', 'a1', 'm1', 't1', 'tea.pdf', ${own}, '{"id": "a1", "name": "tea.pdf"}')`);
  for (const table of ['labels', 'inboxes'])
    await s.rows(`insert into helpdesk.${table} (account_id, id, name, _first_seen_at, _synced_at, _payload)
      values ('default', 'new', null, now(), now(), null), ('default', 'old', 'Tea', now(), now(), '{"id": "old", "name": "Tea"}')`);
  await s.rows(`insert into books.shelves (account_id, owner_id, id, title, _first_seen_at, _synced_at, _observed_at, _payload)
    values ('default', 'ada', '1', 'Read', ${own}, '{"title": "Read"}')`);
  await s.rows(`insert into books.volumes (account_id, id, title, _detail, _first_seen_at, _synced_at, _observed_at, _payload)
    values ('default', 'full', 'One', 'full', ${own}, '{"n": 1}'), ('default', 'listed', 'One', 'list', ${own}, '{"n": 1}')`);
  await s.rows(`insert into books.shelf_volumes (account_id, owner_id, shelf_id, volume_id, position, _first_seen_at, _synced_at, _observed_at, _payload)
    values ('default', 'ada', '1', 'full', 1, ${own}, '{"n": 1}')`);
  await transaction(s.pool, async client => {
    const merge = { seen_at: iso(10), as_of: iso(9), run: 5 };
    await client.query(`select set_config('shelfdesk.merge', $1, true)`, [JSON.stringify(merge)]);
    await client.query(
      `update helpdesk.attachments set name = 'coffee.pdf', _payload = '{"id": "a1", "name": "coffee.pdf"}'`,
    );
    await client.query('delete from helpdesk.attachments');
    for (const table of ['labels', 'inboxes'])
      await client.query(
        `update helpdesk.${table} set name = 'Coffee', _payload = jsonb_build_object('id', id, 'name', 'Coffee')`,
      );
    await client.query(`update books.shelves set title = 'Unread', _payload = '{"title": "Unread"}'`);
    await client.query(`update books.volumes set title = 'Two', thumbnail = 'x', _payload = '{"n": 2}'`);
    await client.query(`update books.volumes set _checked_at = now(), _waits_since = now()`);
    await client.query(`update books.shelf_volumes set position = 0`);
    await client.query(`update books.shelf_volumes set position = 1, _payload = '{"n": 2}'`);
  });
  const found = await s.rows('select table_name, record_id, parent_id, changes from sync.changes order by id');
  const of = (table_name: string, record_id: string, parent_id: string | null, changes: object) => ({
    table_name,
    record_id,
    parent_id,
    changes,
  });
  expect(found).toEqual([
    of('attachments', 'a1', 't1', { name: ['tea.pdf', 'coffee.pdf'] }),
    of('attachments', 'a1', 't1', {
      id: ['a1', null],
      message_id: ['m1', null],
      ticket_id: ['t1', null],
      name: ['coffee.pdf', null],
    }),
    of('labels', 'old', null, { name: ['Tea', 'Coffee'] }),
    of('inboxes', 'old', null, { name: ['Tea', 'Coffee'] }),
    of('shelves', '1', 'ada', { title: ['Read', 'Unread'] }),
    of('volumes', 'full', null, { title: ['One', 'Two'], n: [1, 2] }),
    of('shelf_volumes', 'full', 'ada/1', { n: [1, 2] }),
  ]);
});
