/**
 * Sources that answer fewer records than they are asked for, though others follow: with a cap on their pages, or with
 * records taken out of a page after it was cut, even all of a page.
 */
import { expect, test } from 'vitest';
import { between, makeRng, pick } from '../../packages/sandbox/src/random.ts';
import type { Finding } from '../../src/ops/doctor/checks/check.ts';
import { sourceChecks } from '../../src/ops/doctor/checks/sources.ts';
import { type InProcess, inProcess } from '../support/in-process.ts';
import { amount } from '../support/long.ts';
import { configFor, differences, unannounced } from '../support/mirror.ts';

const both = ['customers', 'tickets'];
const all = ['users', ...both, 'messages'];
const again = { range: { since: null, until: null, again: true } };
/** Takes hidden records out of the lists of a source. Returns the ids of all that belongs to them. */
function hide(s: InProcess, secret: ReadonlySet<string>): Set<string> {
  s.reword = (text, path) => {
    if (!['/tickets', '/customers', '/users'].includes(path)) return text;
    return JSON.stringify((JSON.parse(text) as { id: string }[]).filter(({ id }) => !secret.has(id)));
  };
  const { tickets, customers } = s.world;
  const hidden = new Set(secret);
  for (const { id, messages } of tickets.values())
    if (secret.has(id)) for (const one of messages) for (const it of [one, ...one.attachments]) hidden.add(it.id);
  for (const id of customers.keys())
    if (secret.has(id)) for (const contact of s.world.customer(id).contacts) hidden.add(contact.id);
  return hidden;
}

/** What the mirror lacks or has wrong, but for what the source hides. Names ride along with tickets. */
const wrong = async (s: InProcess, hidden = new Set<string>()): Promise<string[]> =>
  (await differences(s.pool, s.world)).filter(
    what => hidden.size === 0 || (!/^(labels|inboxes) /.test(what) && !hidden.has(what.split(/[ :]/)[1]!)),
  );

/** The first two differ in the cap, and in what lists show. */
const seeds = [3, 0, 1, 2, 4, 5].slice(0, amount(6, 2, 1));

test.each(seeds)('a cap on pages loses nothing: seed %d', async seed => {
  const rng = makeRng(seed);
  const isListed = seed % 4 < 2;
  await using s = await inProcess({
    ...{ seed, tickets: 60, customers: 45, paging: { perPage: 10, depth: 200 } },
    ...{ pageCap: [3, 7][seed % 2]!, spamListed: isListed, trashListed: isListed },
  });
  for (let i = 0; i < 12; i++) s.world.addUser({ first_name: `u${i}` });
  const tied = Math.floor(s.nowMs / 1000) * 1000 - 900_000;
  for (const id of [...s.world.tickets.keys()].slice(10, 25)) s.world.touch(id, tied);
  await s.sync(all);
  for (let round = 0; round < 5; round++) {
    s.nowMs += 600_000;
    await s.sync(all);
    expect(await wrong(s)).toEqual([]);
    for (let n = between(rng, 0, 30); n > 0; n--) s.world.mutate(rng, unannounced);
  }
  s.world.deleteTicket(pick(rng, [...s.world.tickets.keys()]));
  s.nowMs += 600_000;
  await s.sync(all);
  await s.run('sweep', both, again);
  expect(await wrong(s)).toEqual([]);
});

test.each(seeds)('records that are taken out of pages cost no other record: seed %d', async seed => {
  const rng = makeRng(seed);
  await using s = await inProcess({
    ...{ seed, tickets: 90, customers: 60, paging: { perPage: 10, depth: 400 } },
    ...{ spamListed: true, trashListed: true },
  });
  // A third of all, and a run of them that fills pages.
  const secret = new Set<string>();
  const hideSome = (ids: readonly string[], from: number) => {
    for (const id of ids.slice(from, from + 25)) secret.add(id);
    for (const id of ids) if (rng() < 0.3) secret.add(id);
  };
  const byUpdate = [...s.world.tickets.values()].sort((a, b) => a.updated_at.localeCompare(b.updated_at));
  hideSome(
    byUpdate.map(({ id }) => id),
    between(rng, 0, 60),
  );
  hideSome([...s.world.customers.keys()], between(rng, 0, 40));
  const secretTickets = [...secret].filter(id => s.world.tickets.has(id));
  hide(s, secret);
  await s.sync(all);
  for (let round = 0; round < 5; round++) {
    const hidden = hide(s, secret);
    s.nowMs += 600_000;
    await s.sync(all);
    expect(await wrong(s, hidden)).toEqual([]);
    for (let n = between(rng, 0, 25); n > 0; n--) s.world.touch(pick(rng, secretTickets), s.nowMs);
    for (let n = between(rng, 0, 5); n > 0; n--)
      s.world.addMessage(pick(rng, [...s.world.tickets.keys()]), { body: 'x' });
  }
});

const doctorOf = async (s: InProcess): Promise<Finding> => {
  const check = sourceChecks.find(({ name }) => name === 'pages of the help desk')!;
  const config = configFor(s.url, { url: 'https://desk.example/api/v1', token: 'none' });
  const context = { account: 'default', config, warehouse: async () => ({ pg: s.pool }) };
  return (await check.run(context as never)) as Finding;
};

const hourMs = 3_600_000;
const asks = (s: InProcess, from: number) => s.asked.slice(from).map(({ path, query }) => `${path}?${query}`);

test('a quiet sync costs a credit for each list, and once a day one more', async () => {
  await using s = await inProcess({ tickets: 60, customers: 45, spamListed: false, trashListed: false });
  await s.sync(all);
  for (let round = 0; round < 3; round++) {
    s.nowMs += 600_000;
    const before = s.asked.length;
    await s.sync(all);
    expect((await doctorOf(s)).says).toBe('pages are as long as they are asked to be, as far as runs have seen');
    expect(s.asked.slice(before).map(({ path }) => path)).toEqual([
      '/users',
      '/customers',
      ...['/tickets', '/tickets', '/tickets'],
    ]);
  }
  s.nowMs += 24 * hourMs;
  const before = s.asked.length;
  await s.sync(both);
  await s.sync(both);
  const looks = asks(s, before).filter(one => one.includes('sort=-updated_at'));
  expect(looks).toHaveLength(1);
  expect(s.asked.slice(before)).toHaveLength(9);
});

test('a cap that comes later is found within a day, and what was claimed since is read again', async () => {
  await using s = await inProcess({ tickets: 90, customers: 45, paging: { perPage: 20, depth: 400 } });
  await s.sync(all);
  Object.assign(s.services.helpdesk.readings, { pageCap: 10 });
  s.nowMs += 600_000;
  const ids = [...s.world.tickets.keys()].slice(0, 17);
  for (const id of ids) s.world.addMessage(id, { body: 'x' });
  s.nowMs += 600_000;
  await s.sync(all);
  expect(await wrong(s)).not.toEqual([]);
  s.nowMs += 24 * hourMs;
  await s.sync(all);
  expect(await wrong(s)).toEqual([]);
  const { rows } = await s.pool.query('select distinct page_size from sync.coverage where page_size is not null');
  expect(rows).toEqual([{ page_size: 10 }]);
  expect((await doctorOf(s)).says).toContain('tickets: 10 records a page');
});
