/** What a 4xx concerns: one record, one stream, or the whole source. */
import { expect, test } from 'vitest';
import { inProcess } from '../support/in-process.ts';

const statuses = [422, 400, 409, 410, 451, 418, 405];

/** The newest tickets of a help desk whose lists are stored. */
async function withTickets(tickets = 40) {
  const s = await inProcess({ tickets, customers: 10, seed: 31 });
  await s.sync(['users', 'customers', 'tickets']);
  const newest = [...s.world.tickets.values()]
    .sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1))
    .map(({ id }) => id);
  return Object.assign(s, { newest });
}

test('a ticket whose detail is refused for ever is a reject; the others are read, and none is deleted', async () => {
  await using s = await withTickets();
  const refused = s.newest.slice(0, statuses.length);
  const detail = /^\/tickets\/([^/]+)$/;
  const statusOf = (path: string) => statuses[refused.indexOf(detail.exec(path)?.[1] ?? '')];
  s.before = statusOf;
  const missing = `the messages of ${refused.length} tickets could not be read in full`;
  expect(await s.run('sync', ['messages'])).toMatchObject({ state: 'partial', error: missing });
  const stored = await s.rows(
    `select r.ask_id, r.reason, r.payload, t._deleted_at, t._messages_as_of from sync.rejects r
     join helpdesk.tickets t on t.id = r.ask_id where r.stream = 'messages' and r.cleared_at is null`,
  );
  expect(stored).toHaveLength(refused.length);
  for (const { ask_id, reason, ...row } of stored) {
    const said = `the source refuses this record (${statusOf(`/tickets/${ask_id}`)})`;
    expect(reason).toMatch(new RegExp(`^GET /tickets/${ask_id}.*: ${said.replace(/[()]/g, String.raw`\$&`)}$`));
    expect(row).toEqual({ payload: null, _deleted_at: null, _messages_as_of: null });
  }
  expect(await s.rows('select from helpdesk.tickets where _messages_as_of is null')).toHaveLength(refused.length);
  // Once in its turn, once at the end of the run, and perhaps once for a name that it mentions.
  for (const id of refused) expect(s.asked.filter(({ path }) => path === `/tickets/${id}`).length).toBeLessThan(4);
  await expect(s.rows(`select sync.require_complete('default', 'messages', $1)`, new Date(s.nowMs))).rejects.toThrow(
    /reject|not complete|complete/,
  );

  s.before = () => undefined;
  s.nowMs += 3_600_000;
  expect(await s.run('sync', ['messages'])).toMatchObject({ state: 'completed' });
  expect(await s.rows('select from sync.rejects where cleared_at is null')).toEqual([]);
});

test('a source that refuses every ticket has another address: that is said after a few', async () => {
  await using s = await withTickets();
  const details = () => s.asked.filter(({ path }) => /^\/tickets\/./.test(path)).length;
  const wrong = {
    state: 'failed',
    error: expect.stringContaining('422'),
    remedy: expect.stringContaining('HELPDESK_BASE_URL'),
  };
  s.before = path => (/^\/tickets\/./.test(path) ? 422 : undefined);
  expect(await s.run('sync', ['messages'])).toMatchObject(wrong);
  expect(details()).toBeLessThanOrEqual(16);

  // Where tickets were read before, three of them tell sooner.
  s.before = () => undefined;
  s.nowMs += 86_400_000;
  await s.sync(['tickets', 'messages']);
  for (const id of s.newest.slice(0, 12)) s.world.touch(id);
  s.nowMs += 3_600_000;
  await s.sync(['tickets']);
  s.before = path => (/^\/tickets\/./.test(path) ? 422 : undefined);
  const before = details();
  expect(await s.run('sync', ['messages'])).toMatchObject(wrong);
  expect(details() - before).toBeLessThanOrEqual(9);
});

test('an inbox that is refused is no wrong address, though the ticket that was read last is one of its own', async () => {
  await using s = await withTickets();
  await s.sync(['messages']);
  const [last] = await s.rows('select inbox_id from helpdesk.tickets order by _messages_as_of desc limit 1');
  const refused = s.newest.filter(id => s.world.tickets.get(id)!.inbox_id === last!.inbox_id);
  expect(refused.length).toBeLessThan(s.newest.length);
  const changed = refused.slice(0, -1);
  expect(changed.length).toBeGreaterThan(5);
  await s.rows(`update helpdesk.tickets set _messages_as_of = $2 where id = $1`, refused.at(-1), new Date(s.nowMs));
  for (const id of changed) s.world.touch(id);
  s.nowMs += 3_600_000;
  await s.sync(['tickets']);
  s.before = path => (refused.some(id => path === `/tickets/${id}`) ? 451 : undefined);
  expect(await s.run('sync', ['messages'])).toMatchObject({ state: 'partial' });
});

test('a 403 stops the stream of its list, and a 401 all waiting streams', async () => {
  await using s = await inProcess({ tickets: 5, customers: 5, seed: 32 });
  const streams = ['users', 'customers', 'tickets'];
  const states = async (status: number) => {
    s.before = path => (path === '/users' ? status : undefined);
    const run = await s.open('sync', streams);
    for (const stream of streams) await s.goOn(run, stream);
    return s.rows('select stream, state, exit_code from sync.run_streams where run_id = $1 order by stream', run);
  };
  expect(await states(403)).toEqual([
    { stream: 'customers', state: 'completed', exit_code: 0 },
    { stream: 'tickets', state: 'completed', exit_code: 0 },
    { stream: 'users', state: 'failed', exit_code: 4 },
  ]);
  expect(await states(401)).toEqual(streams.toSorted().map(stream => ({ stream, state: 'failed', exit_code: 4 })));
});

test('one 403 in HTML between two good replies is a passing fault', async () => {
  await using s = await inProcess({ tickets: 250, customers: 5, seed: 33 });
  let asked = 0;
  s.before = path =>
    path === '/tickets' && ++asked === 2
      ? { status: 403, text: '<html><body>Request blocked</body></html>' }
      : undefined;
  expect(await s.run('sync', ['tickets'])).toMatchObject({ state: 'completed', error: null });
  expect(await s.rows('select from helpdesk.tickets')).toHaveLength(250);
});
