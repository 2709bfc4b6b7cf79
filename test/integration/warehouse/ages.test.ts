/** How old changes are when they are here: each one counted once, when it came, and only what changed after the mirror began. */
import { expect, test } from 'vitest';
import { forgetAges } from '../../../src/engine/commit/change-latency.ts';
import { addShelf, addVolumes, openCatalog } from '../../support/books.ts';
import { at, iso, message, type Scripted, scripted, ticket } from '../../support/scripted.ts';

const ages = async (s: Scripted) =>
  (
    await s.rows(
      `select stream, minute, latency_seconds, changes from sync.change_latencies order by minute, stream, latency_seconds`,
    )
  ).map(({ stream, minute, latency_seconds, changes }) => [
    stream,
    ((minute as Date).getTime() - at(0).getTime()) / 60_000,
    latency_seconds,
    Number(changes),
  ]);

test('a change of a ticket counts once, when it comes first; history, copies and what is not announced do not', async () => {
  await using s = await scripted();
  // As old as the mirror, or older.
  s.lists.tickets = [ticket('t2', { updated_at: iso(-50) }), ticket('t1')];
  s.goTo(10);
  await s.sync('tickets');
  expect(await ages(s)).toEqual([]);

  const changed = ticket('t1', { subject: 'changed', updated_at: iso(20) });
  s.lists.tickets = [ticket('t2', { updated_at: iso(-50) }), changed, ticket('t3', { updated_at: iso(25) })];
  s.goTo(30);
  await s.sync('tickets');
  const two = [
    ['tickets', 0, 5, 1],
    ['tickets', 0, 10, 1],
  ];
  expect(await ages(s)).toEqual(two);

  // The same page, an older copy, and another label without another time.
  s.goTo(40);
  await s.sync('tickets');
  s.lists.tickets = [ticket('t1'), ticket('t3', { updated_at: iso(25) })];
  await s.sync('tickets');
  s.lists.tickets = [{ ...changed, label_ids: ['l1'] }];
  await s.sync('tickets');
  expect(await ages(s)).toEqual(two);

  // In another minute, twice the same age; and one that is dated ahead by a slip.
  s.lists.tickets = [
    ticket('t1', { updated_at: iso(50) }),
    ticket('t4', { updated_at: iso(50) }),
    ticket('t5', { updated_at: iso(3600) }),
  ];
  s.goTo(65);
  await s.sync('tickets');
  expect(await ages(s)).toEqual([...two, ['tickets', 1, 15, 2]]);
});

test('a change of messages counts when all messages of its ticket are there', async () => {
  await using s = await scripted();
  const first = ticket('t1');
  const second = ticket('t2', { updated_at: iso(20) });
  s.lists.tickets = [first, second];
  s.details['/tickets/t1'] = { ...first, messages: [message('m1')] };
  s.details['/tickets/t2'] = 500;
  s.goTo(30);
  await s.sync('tickets');
  await s.sync('messages').catch(() => {});
  const ofMessages = async () => (await ages(s)).filter(([stream]) => stream === 'messages');
  expect(await ofMessages()).toEqual([]);

  s.details['/tickets/t2'] = { ...second, messages: [message('m2'), message('m3')] };
  s.goTo(7205);
  await s.sync('messages');
  // This clock jumps over every wait, also over those of the reader of fresh changes while this one is committed.
  const [[, , age, changes], ...others] = (await ofMessages()) as [[string, number, number, number]];
  expect([changes, others]).toEqual([1, []]);
  expect(age).toBeGreaterThanOrEqual(7185);
  expect(age).toBeLessThan(7185 + 300);

  // The ticket comes in a newer version with its messages: both are here.
  const newer = { ...second, updated_at: iso(7300) };
  s.lists.tickets = [ticket('t2', { updated_at: iso(7290) })];
  s.details['/tickets/t2'] = { ...newer, messages: [message('m2'), message('m3')] };
  s.goTo(7310);
  await s.sync('tickets');
  await s.sync('messages');
  const young = (await ages(s)).filter(([, , one]) => (one as number) < 7000);
  expect(young.slice(-3)).toEqual([
    ['messages', 121, 10, 1],
    ['tickets', 121, 10, 1],
    ['tickets', 121, 20, 1],
  ]);
  await s.sync('messages');
  expect(await ofMessages()).toHaveLength(2);
});

test('p50 and p95 are those of the list, by hand; and after five weeks it is forgotten', async () => {
  await using s = await scripted();
  // 20 changes: 1, 2, … 20 s old. Half of them are at most 10 s old, 19 of them at most 19 s.
  await s.rows(
    `insert into sync.change_latencies select 'default', 'tickets', $1::timestamptz + n % 3 * interval '1 minute', n, 1, 'helpdesk' from generate_series(1, 20) n`,
    at(0),
  );
  // Another account, another stream, and long ago.
  await s.rows(
    `insert into sync.change_latencies values ('a', 'tickets', $1, 500, 99, 'helpdesk'), ('default', 'messages', $1, 70, 1, 'helpdesk'), ('default', 'messages', $1, 30, 99, 'helpdesk'),
      ('default', 'tickets', $1::timestamptz - interval '36 days', 900, 99, 'helpdesk')`,
    at(0),
  );
  const [said] = await s.rows(
    `select extract(epoch from sync.change_latency('default', 'tickets', 50, $1))::int as p50, extract(epoch from sync.change_latency('default', 'tickets', 95, $1))::int as p95,
       extract(epoch from sync.change_latency('default', 'tickets', 100, $1))::int as worst, extract(epoch from sync.change_latency('default', 'messages', 99, $1))::int as messages,
       sync.change_latency('default', 'users', 95, $1) as none`,
    at(0),
  );
  expect(said).toEqual({ p50: 10, p95: 19, worst: 20, messages: 30, none: null });
  // The source's clock is an hour behind ours: what came within our last two hours is what came there before.
  const median = `select extract(epoch from sync.change_latency('default', 'tickets', 50, $1))::int as p50`;
  const later = new Date(at(0).getTime() + 3_600_000);
  expect(await s.rows(median, later)).toEqual([{ p50: null }]);
  await s.rows(
    `insert into sync.budget (account_id, source, state) values ('default', 'helpdesk', '{"clock": {"offsetMs": -3600000}}')
     on conflict (account_id, source) do update set state = excluded.state`,
  );
  expect(await s.rows(median, later)).toEqual([{ p50: 10 }]);
  await forgetAges(s.pool, 'default', new Date(at(0).getTime() - 35 * 86_400_000));
  expect(await s.rows('select from sync.change_latencies where latency_seconds = 900')).toEqual([]);
  expect(await s.rows('select from sync.change_latencies')).toHaveLength(23);
});

test('what is put on a shelf counts with its shelf and with its volume; what was there when it was first read does not', async () => {
  await using catalog = await openCatalog({ config: { library: false } });
  const { world } = catalog;
  addShelf(world, 'ada', 1, 2);
  catalog.pass();
  await catalog.sync();
  // The mirror is registered by our clock, and the catalog of the test has one of its own.
  await catalog.rows('update sync.accounts set mirrored_since = $1', [new Date(catalog.now())]);
  expect(await catalog.rows('select * from sync.change_latencies')).toEqual([]);
  catalog.pass();
  world.add('ada', 1, addVolumes(world, ['new'])[0]!);
  catalog.pass();
  await catalog.sync();
  const found = await catalog.rows('select stream, latency_seconds, changes from sync.change_latencies order by 1');
  expect(found).toEqual([
    { stream: 'shelves', latency_seconds: 3600, changes: 1 },
    { stream: 'volumes', latency_seconds: 3600, changes: 1 },
  ]);
});
