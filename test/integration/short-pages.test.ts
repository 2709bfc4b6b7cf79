/**
 * Sources that answer fewer records than they are asked for, though others follow: with a cap on their pages, or with
 * records taken out of a page after it was cut, even all of a page.
 */
import { expect, test } from 'vitest';
import { between, makeRng, pick } from '../../packages/sandbox/src/random.ts';
import { type InProcess, inProcess } from '../support/in-process.ts';
import { differences } from '../support/mirror.ts';

const both = ['customers', 'tickets'];
const all = ['users', ...both, 'messages'];
const again = { range: { since: null, until: null, again: true } };

/** Takes hidden records out of the lists of a source. Returns what belongs to them. */
function hide(s: InProcess, isHidden: (id: string) => boolean): Set<string> {
  s.reword = (text, path) => {
    if (!['/tickets', '/customers', '/users'].includes(path)) return text;
    return JSON.stringify((JSON.parse(text) as { id: string }[]).filter(({ id }) => !isHidden(id)));
  };
  const { tickets, customers } = s.world;
  const ids = [...[...tickets.values()].filter(({ id }) => isHidden(id))].flatMap(({ id, messages }) => [
    id,
    ...messages.flatMap(one => [one.id, ...one.attachments.map(attachment => attachment.id)]),
  ]);
  const contacts = [...customers.keys()].filter(isHidden).flatMap(id => [id, ...s.world.customer(id).contacts.map(c => c.id)]);
  return new Set([...ids, ...contacts]);
}

/** What the mirror lacks or has wrong, but for what the source hides. */
async function wrong(s: InProcess, hidden = new Set<string>()): Promise<string[]> {
  return (await differences(s.pool, s.world)).filter(what => !/^(labels|inboxes) /.test(what) && !hidden.has(what.split(/[ :]/)[1]!));
}

const places = [...Array(process.env.CI ? 6 : 2).keys()].map(seed => ({ seed, cap: [3, 7][seed % 2]! }));

test.each(places)('a cap of $cap records a page loses nothing: seed $seed', async ({ seed, cap }) => {
  const rng = makeRng(seed);
  const options = { seed, tickets: 60, customers: 45, paging: { perPage: 10, depth: 200 } };
  await using s = await inProcess({ ...options, pageCap: cap, spamListed: seed % 4 < 2, trashListed: seed % 4 < 2 });
  for (let i = 0; i < 12; i++) s.world.addUser({ first_name: `u${i}` });
  const one = Math.floor(s.nowMs / 1000) * 1000 - 900_000;
  for (const id of [...s.world.tickets.keys()].slice(10, 25)) s.world.touch(id, one);
  await s.sync(all);
  s.nowMs += 600_000;
  await s.sync(all);
  expect(await wrong(s)).toEqual([]);
  for (let round = 0; round < 4; round++) {
    for (let n = between(rng, 0, 30); n > 0; n--) s.world.mutate(rng, ['edit of a customer', 'contact added', 'contact removed', 'rename of a label', 'rename of an inbox', 'deletion']);
    s.nowMs += 600_000;
    await s.sync(all);
    expect(await wrong(s)).toEqual([]);
  }
  s.world.deleteTicket(pick(rng, [...s.world.tickets.keys()]));
  s.nowMs += 600_000;
  await s.run('sweep', both, again);
  expect(await wrong(s)).toEqual([]);
});

test.each(places)('records that are taken out of pages cost no other record: seed $seed', async ({ seed }) => {
  const rng = makeRng(seed);
  const options = { seed, tickets: 90, customers: 60, paging: { perPage: 10, depth: 400 } };
  await using s = await inProcess({ ...options, spamListed: true, trashListed: true });
  // A third of all, and a run of them that fills pages.
  const secret = new Set<string>();
  const hideSome = (ids: readonly string[], from: number, many: number) => {
    for (const id of ids.slice(from, from + many)) secret.add(id);
    for (const id of ids) if (rng() < 0.3) secret.add(id);
  };
  hideSome([...s.world.tickets.values()].sort((a, b) => a.updated_at.localeCompare(b.updated_at)).map(({ id }) => id), between(rng, 0, 60), 25);
  hideSome([...s.world.customers.keys()], between(rng, 0, 40), 25);
  let hidden = hide(s, id => secret.has(id));
  await s.sync(all);
  s.nowMs += 600_000;
  await s.sync(all);
  expect(await wrong(s, hidden)).toEqual([]);
  for (let round = 0; round < 4; round++) {
    for (let n = between(rng, 0, 25); n > 0; n--) s.world.touch(pick(rng, [...secret].filter(id => s.world.tickets.has(id))), s.nowMs);
    for (let n = between(rng, 0, 5); n > 0; n--) s.world.addMessage(pick(rng, [...s.world.tickets.keys()]), { body: 'x' });
    hidden = hide(s, id => secret.has(id));
    s.nowMs += 600_000;
    await s.sync(all);
    expect(await wrong(s, hidden)).toEqual([]);
  }
});
