/** Snapshots: what is written can be read back, by the same server or another one, and by hand. */
import { expect, onTestFinished, test } from 'vitest';
import { SnapshotError, worldsOf } from '../src/admin/snapshot.ts';
import { type Sandbox, type SandboxOptions, startSandbox } from '../src/server.ts';
import { NOON } from './in-process.ts';

async function sandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const made = await startSandbox({ tickets: 40, books: { volumes: 6 }, now: () => NOON, adminPort: 0, ...options });
  onTestFinished(() => made.close());
  return made;
}

const admin = async (made: Sandbox, method: string, path: string, body?: object): Promise<string> => {
  const reply = await fetch(made.adminUrl + path, {
    method,
    ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  });
  expect(reply.status).toBe(200);
  return reply.text();
};
const snapshot = (made: Sandbox) => admin(made, 'GET', '/snapshot');
const lines = (text: string) => text.trim().split('\n').toSorted();

test('a world that is read from a snapshot has the same records, and goes on with other ids', async () => {
  const first = await sandbox();
  await admin(first, 'POST', '/changes', { count: 30 });
  const text = await snapshot(first);
  const second = await sandbox({ records: text, seed: 9 });
  expect(lines(await snapshot(second))).toEqual(lines(text));
  const list = async (made: Sandbox): Promise<{ id: string }[]> =>
    (
      await fetch(`${made.url}/tickets?per_page=100`, { headers: { authorization: `Bearer ${made.token}` } })
    ).json() as never;
  const ids = (tickets: { id: string }[]) => tickets.map(({ id }) => id).toSorted();
  expect(ids(await list(second))).toEqual(ids(await list(first)));
  const numbers = [...first.world.tickets.values()].map(({ number }) => number);
  const added = second.world.addTicket();
  expect(added.number).toBe(Math.max(...numbers) + 1);
  expect(first.world.tickets.has(added.id)).toBe(false);
});

test('a reset takes the services back to the start, or to what was kept', async () => {
  const made = await sandbox({ credits: 50 });
  const start = lines(await snapshot(made));
  const change = () => admin(made, 'POST', '/changes', { count: 20 });
  await change();
  made.takeCredits(50);
  made.rules.set([{ path: '/users', fault: { kind: 'status', status: 500 } }]);
  expect(lines(await snapshot(made))).not.toEqual(start);
  await admin(made, 'POST', '/reset');
  expect(lines(await snapshot(made))).toEqual(start);
  expect(made.rules.list()).toEqual([]);
  const users = await fetch(`${made.url}/users`, { headers: { authorization: `Bearer ${made.token}` } });
  expect(users.status).toBe(200);
  expect(made.requests).toHaveLength(1);

  await change();
  expect(JSON.parse(await admin(made, 'POST', '/snapshot'))).toMatchObject({ volumes: 6 });
  const kept = lines(await snapshot(made));
  await change();
  await admin(made, 'POST', '/reset');
  expect(lines(await snapshot(made))).toEqual(kept);
});

test('a snapshot can be written by hand: what is missing gets a default', () => {
  const text = `
    {"users": {"id": "ada"}}
    {"customers": {"id": "c", "contacts": [{"id": "k", "type": "email", "value": "a@b.example"}]}}
    {"messages": {"ticket_id": "t", "id": "m", "type": "note", "body": "hello", "created_at": "2026-01-02T03:04:05Z"}}
    {"tickets": {"id": "t", "customer_id": "c", "created_at": "2026-01-02T03:04:05Z"}}`;
  const { helpdesk, books } = worldsOf(text, { now: () => NOON });
  expect(books).toBeUndefined();
  expect(helpdesk!.ticket('t')).toMatchObject({ state: 'open', updated_at: '2026-01-02T03:04:05Z' });
  expect(helpdesk!.ticket('t').messages).toMatchObject([{ id: 'm', body: 'hello' }]);
});

test.each([
  ['{"tickets": {"id": "t"', 'line 1: it is not JSON'],
  ['{"users": {"id": "u"}}\n{"boxes": {"id": "b"}}', 'line 2: it has to be an object with one of inboxes, '],
  ['{"tickets": {"id": 7}}', 'line 1: tickets.id: '],
  ['{"users": {"id": "u"}}\n[1]', 'line 2: it has to be an object'],
  ['{"tickets": {"id": "t"}}\n{"tickets": {"id": "t"}}', 'tickets t: There is a ticket t already'],
  [
    '{"messages": {"ticket_id": "t", "id": "m", "type": "note", "created_at": "2026-01-02T03:04:05Z"}}',
    'messages of the ticket t, which is not in it',
  ],
])('a wrong line is named: %j', (text, says) => {
  expect(() => worldsOf(text, {})).toThrow(SnapshotError);
  expect(() => worldsOf(text, {})).toThrow(says);
});
