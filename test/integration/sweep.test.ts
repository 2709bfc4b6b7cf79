/**
 * Sweeps of a whole help desk: what nothing announces is found, exactly, whatever goes wrong on the way; and nothing gets a
 * tombstone that is there, nor is anything said to be checked that was not.
 */

import { expect, test } from 'vitest';
import type { FaultRule } from '../../packages/sandbox/src/admission/rules.ts';
import { openSweep } from '../../src/engine/deletions/swept-ranges.ts';
import { readProgress } from '../../src/engine/runs/runs.ts';
import { Interrupted } from '../../src/errors.ts';
import { readStatus } from '../../src/status/streams.ts';
import { type InProcess, inProcess } from '../support/in-process.ts';
import { keysOf } from '../support/keys.ts';
import { long } from '../support/long.ts';
import { differences } from '../support/mirror.ts';
import { sourcesOf } from '../support/sources.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const both = ['customers', 'tickets'];
const again = { range: { since: null, until: null, again: true } };
const paging = { perPage: 10, depth: 100 };
const oneById = /^\/(tickets|customers)\/(.+)$/;

interface Tombstone {
  id: string;
  after: Date;
  at: Date;
}

const tombstones = async (s: InProcess, table: string) =>
  (await s.rows(
    `select id, _deleted_after as after, _deleted_at as at from helpdesk.${table} where _deleted_at is not null order by id`,
  )) as unknown as Tombstone[];
const checked = async (s: InProcess, stream = 'tickets') =>
  (await s.rows(`select sync.deletes_checked_at('default', $1) as at`, stream))[0]!.at as Date | null;
const ticketChecked = async (s: InProcess, id: string) =>
  (await s.rows(`select sync.ticket_checked_at('default', $1) as at`, id))[0]!.at as Date | null;
const suspects = async (s: InProcess) =>
  s.rows('select record_id as id, gone_at, attempts, error from sync.open_deletion_candidates order by 1');
const deletedOf = (all: readonly Tombstone[]) => all.map(({ id }) => id);
const asc = (ids: Iterable<string>) => [...ids].sort((a, b) => (a < b ? -1 : 1));

/** A fifth of all requests fails, in one way or another. */
const fifth: FaultRule[] = [
  { share: 0.05, seed: 1, fault: { kind: 'status', status: 503 } },
  { share: 0.05, seed: 2, fault: { kind: 'reset', after: 'half' } },
  { share: 0.05, seed: 3, fault: { kind: 'truncate' } },
  { share: 0.05, seed: 4, fault: { kind: 'html' } },
];

test('what nothing announces is found, though lists hide much, with a fifth of the requests failing', async () => {
  const hidden = ['archived', 'snoozed'];
  const unlisted = { spamListed: false, trashListed: false, archivedListed: false, snoozedListed: false };
  await using s = await inProcess({ ...unlisted, sinceInclusive: false, tickets: 64, customers: 60, seed: 11, paging });
  const { world } = s;
  const ids = [...world.tickets.keys()];
  // What no list ever showed cannot be read; the mirror has the rest, also what is hidden since.
  for (const id of ids)
    if (hidden.includes(world.ticket(id).state)) world.patchTicket(id, { state: 'closed', snoozed_until: null });
  await s.sync();
  expect(await differences(s.pool, world)).toEqual([]);
  expect([await checked(s), await checked(s, 'customers'), await ticketChecked(s, ids[0]!)]).toMatchObject([
    null,
    null,
    expect.any(Date),
  ]);

  s.nowMs += dayMs;
  const quiet = { quiet: true };
  const [label] = world.labels.keys();
  for (const id of ids.slice(0, 4)) world.patchTicket(id, { label_ids: [label!] }, quiet);
  for (const id of ids.slice(4, 7)) world.patchTicket(id, { state: 'closed' }, quiet);
  for (const id of ids.slice(7, 12)) world.patchTicket(id, { spam: true, trash: false }, quiet);
  for (const id of ids.slice(12, 16)) world.patchTicket(id, { trash: true, spam: false }, quiet);
  for (const id of ids.slice(16, 24)) world.archive(id, quiet);
  // It comes with a past of its own, and no list of changes shows it.
  const imported = world.addTicket({
    created_at: '2024-05-05T05:05:05Z',
    updated_at: '2024-05-05T05:05:05Z',
    subject: 'Imported',
  });
  const people = [...world.customers.keys()];
  world.customers.patch(people[1]!, { first_name: 'Renamed' });
  const someone = [...world.customers.values()].find(({ contacts }) => contacts.length > 0)!;
  world.customers.removeContact(someone.id, someone.contacts[0]!.id);
  const deletedMs = s.nowMs;
  const goneTickets = ids.slice(24, 38);
  const goneCustomers = people.slice(-9);
  for (const id of goneTickets) world.deleteTicket(id);
  for (const id of goneCustomers) world.customers.delete(id);

  s.rules.set(fifth);
  const swept = await s.run('sweep', both, again);
  s.rules.clear();
  expect(swept).toMatchObject({ state: 'completed', exit_code: 0, inserted: 1 });
  // It shows how far it is: of the rows that are here.
  expect(
    await s.rows(
      `select t.stream, t.expected from sync.stored_run_streams t join sync.stored_runs r on r.id = t.run_id where r.kind = 'sweep' order by 1`,
    ),
  ).toEqual([
    { stream: 'customers', expected: people.length },
    { stream: 'tickets', expected: ids.length },
  ]);
  await s.run('hydrate', ['messages']);
  expect(await differences(s.pool, world)).toEqual([]);
  expect((await s.rows('select id from helpdesk.tickets where id = $1', imported.id)).length).toBe(1);
  for (const [table, gone] of [
    ['tickets', goneTickets],
    ['customers', goneCustomers],
  ] as const) {
    const deleted = await tombstones(s, table);
    expect(deletedOf(deleted)).toEqual(asc(gone));
    const kept = `select record_id as id from sync.changes
        where table_name = $1 and changes ? '_deleted_at' and run_id is not null and as_of = (changes -> '_deleted_at' ->> 1)::timestamptz order by 1`;
    expect(deletedOf((await s.rows(kept, table)) as never)).toEqual(asc(gone));
    for (const { after, at } of deleted) {
      expect(after.getTime()).toBeLessThan(deletedMs);
      expect(at.getTime()).toBeGreaterThanOrEqual(deletedMs);
    }
    // All that was deleted before it has its tombstone; and it is no later than the sweep.
    const at = (await checked(s, table))!.getTime();
    expect(at).toBeGreaterThan(deletedMs - 10 * 60_000);
    expect(at).toBeLessThan(s.nowMs);
  }
  expect(await suspects(s)).toEqual([]);
  expect(await ticketChecked(s, goneTickets[0]!)).toBeNull();
  expect((await ticketChecked(s, ids[0]!))!.getTime()).toBeGreaterThan(deletedMs - 10 * 60_000);
  expect(
    await s.rows(`select count(*) from helpdesk.contacts k join helpdesk.customers c on (c.account_id, c.id) = (k.account_id, k.customer_id)
    where c._deleted_at is not null and k._deleted_at is null`),
  ).toEqual([{ count: 0 }]);

  // A second sweep finds nothing, and asks for nobody but those that lists hide, and once more for the dead.
  s.asked.length = 0;
  expect(await s.run('sweep', both, again)).toMatchObject({
    state: 'completed',
    inserted: 0,
    updated: 0,
    deleted: 0,
  });
  const hiddenNow = [...world.tickets.values()].filter(({ state }) => hidden.includes(state)).length;
  expect(s.asked.filter(({ path }) => oneById.test(path)).length).toBe(
    hiddenNow + goneTickets.length + goneCustomers.length,
  );

  // Younger than a week, nothing is due but what is new; open tickets are looked at daily.
  s.nowMs += dayMs;
  const open = ids[40]!;
  world.patchTicket(open, { state: 'open', spam: false, trash: false });
  await s.sync(['tickets']);
  s.nowMs += hourMs;
  world.patchTicket(open, { state: 'closed' }, quiet);
  s.asked.length = 0;
  expect(await s.run('sweep', both)).toMatchObject({ state: 'completed', updated: 1 });
  expect(s.asked.filter(({ query }) => query.get('sort') === 'created_at' && !query.has('state')).length).toBeLessThan(
    4,
  );
  expect(await differences(s.pool, world)).toEqual([]);
  s.asked.length = 0;
  await s.run('sweep', both);
  expect(s.asked.filter(({ query }) => query.has('state'))).toEqual([]);
  s.nowMs += 8 * dayMs;
  expect(await s.run('sweep', both)).toMatchObject({ seen: expect.toSatisfy((n: number) => n >= 50) });
});

test('only a 404 for the id is a deletion; a ticket that comes back loses its tombstone', long, async () => {
  await using s = await inProcess({ tickets: 60, customers: 40, seed: 12, paging, archivedListed: false });
  const { world } = s;
  for (const { id, state } of world.tickets.values())
    if (state === 'archived') world.patchTicket(id, { state: 'closed' });
  await s.sync();
  await s.run('sweep', both, again);
  s.nowMs += dayMs;
  const before = await checked(s);
  const ids = [...world.tickets.keys()].slice(10, 16);
  const kept = ids.map(id => ({ ...world.ticket(id), messages: [...world.ticket(id).messages] }));
  for (const id of ids) world.deleteTicket(id);
  const customer = [...world.customers.values()].at(-1)!;
  world.customers.delete(customer.id);

  // A proxy that knows nothing of them: a 404 that is not the API's.
  s.before = path => (oneById.test(path) ? { status: 404, text: '<html><h1>Not found</h1></html>' } : undefined);
  expect(await s.run('sweep', ['tickets'], again)).toMatchObject({ state: 'partial', deleted: 0 });
  expect(await tombstones(s, 'tickets')).toEqual([]);
  s.nowMs += hourMs;

  // One answers with each of them, one with another ticket, and one without saying when.
  const other = [...world.tickets.keys()].at(-1)!;
  const answers = [403, 429, 500, `/tickets/${other}`, 400, undefined];
  s.before = path => {
    const at = ids.indexOf(oneById.exec(path)?.[2] ?? '');
    return at < 0 ? undefined : answers[at];
  };
  s.rules.set([{ path: `/tickets/${ids[5]}`, fault: { kind: 'headers', drop: ['Date'] } }]);
  const vain = await s.run('sweep', ['tickets'], again);
  expect(vain).toMatchObject({ state: 'partial', exit_code: 3, deleted: 0 });
  expect(await tombstones(s, 'tickets')).toEqual([]);
  // What is suspected was last there when it was last shown.
  expect((await checked(s))!.getTime()).toBeLessThanOrEqual(before!.getTime());
  expect((await ticketChecked(s, ids[0]!))!.getTime()).toBeLessThanOrEqual(before!.getTime());
  expect((await suspects(s)).map(({ gone_at }) => gone_at)).toEqual(Array(6).fill(null));
  // Five in a row that tell nothing are no matter of records: the last one was not asked any more.
  // It is the first of the next sweep: the same five hold up nobody.
  expect((await suspects(s)).map(({ attempts }) => attempts).sort()).toEqual([1, 1, 2, 2, 2, 2]);

  // Refused altogether, nothing is deleted either, and the run says so.
  s.before = path => (oneById.test(path) ? 401 : undefined);
  expect(await s.run('sweep', ['tickets'], again)).toMatchObject({ state: 'failed', exit_code: 4, deleted: 0 });
  expect(await tombstones(s, 'tickets')).toEqual([]);

  // Shown again before anybody asked: no suspect any more.
  const [first, ...rest] = kept;
  world.addTicket(first!);
  s.before = () => undefined;
  s.rules.clear();
  const gone = ids.slice(1);
  expect(await s.run('sweep', both, again)).toMatchObject({ state: 'completed' });
  expect(deletedOf(await tombstones(s, 'tickets'))).toEqual(asc(gone));
  expect(deletedOf(await tombstones(s, 'customers'))).toEqual([customer.id]);
  expect((await checked(s))!.getTime()).toBeGreaterThan(before!.getTime() + hourMs);
  const ofThem = (table: string) =>
    s.rows(`select distinct _deleted_at is null as there from helpdesk.${table} where ticket_id = any($1)`, gone);
  expect(await ofThem('messages')).toEqual([{ there: false }]);

  // It comes back as it was a year ago, and so does the customer: messages and contacts with them.
  s.nowMs += hourMs;
  for (const ticket of rest) world.addTicket({ ...ticket, updated_at: ticket.created_at });
  // One that no list shows.
  const unlisted = rest[0]!.id;
  world.archive(unlisted, { quiet: true });
  world.customers.add(customer);
  expect(await s.run('sweep', both, again)).toMatchObject({ state: 'completed', inserted: 0, deleted: 0 });
  expect([...(await tombstones(s, 'tickets')), ...(await tombstones(s, 'customers'))]).toEqual([]);
  expect(await s.rows('select 1 from helpdesk.tickets where _deleted_after is not null')).toEqual([]);
  await s.run('hydrate', ['messages']);
  expect(await differences(s.pool, world)).toEqual([]);

  // What was there a moment ago is asked for twice: a copy that is behind may not know it yet.
  s.nowMs += hourMs / 2;
  world.archive(first!.id, { quiet: true });
  const times: string[] = [];
  s.before = path => (path === `/tickets/${first!.id}` && times.push(path) === 1 ? 404 : undefined);
  expect(await s.run('sweep', ['tickets'], again)).toMatchObject({ state: 'completed', updated: 1 });
  expect([times.length, await tombstones(s, 'tickets')]).toEqual([2, []]);

  // Nor one that does not know yet who has just come.
  s.nowMs += hourMs;
  const behind = { kind: 'lag', seconds: 110 } as const;
  s.rules.set([{ path: '/nowhere', fault: behind }]);
  const fresh = world.customers.add({ first_name: 'Fresh' });
  await s.sync(['customers']);
  s.nowMs += 80_000;
  s.rules.set([{ fault: behind }]);
  s.asked.length = 0;
  expect(await s.run('sweep', ['customers'], again)).toMatchObject({ state: 'completed', deleted: 0 });
  expect(s.asked.filter(({ path }) => path === `/customers/${fresh.id}`).map(({ status }) => status)).toEqual([
    404, 200,
  ]);
  expect(await tombstones(s, 'customers')).toEqual([]);

  // Dead for a week, it is asked for once more; nobody asks later.
  const nightly = () => s.run('sweep', ['tickets']);
  const archived = world.ticket(unlisted);
  const revoked = { ...archived, messages: [...archived.messages] };
  s.rules.clear();
  s.nowMs += dayMs;
  world.deleteTicket(unlisted);
  await s.run('sweep', both, again);
  expect(deletedOf(await tombstones(s, 'tickets'))).toEqual([unlisted]);
  world.addTicket(revoked);
  s.nowMs += dayMs;
  await nightly();
  expect(deletedOf(await tombstones(s, 'tickets'))).toEqual([unlisted]);
  s.nowMs += 6 * dayMs + hourMs;
  s.before = path => (path === `/tickets/${unlisted}` ? 403 : undefined);
  expect(await nightly()).toMatchObject({ state: 'partial' });
  s.before = () => undefined;
  s.nowMs += dayMs;
  expect(await nightly()).toMatchObject({ state: 'completed', updated: 1 });
  expect(await tombstones(s, 'tickets')).toEqual([]);
});

test('an interrupted sweep marks nothing beyond what it has proven, and goes on there', async () => {
  await using s = await inProcess({ tickets: 120, customers: 70, seed: 13, paging });
  const { world, ctx } = s;
  const lists = ['users', ...both];
  await s.sync(lists);
  s.nowMs += dayMs;
  const byCreation = [...world.tickets.values()].sort((a, b) => (a.created_at < b.created_at ? -1 : 1));
  const gone = byCreation.filter((_, i) => i % 10 === 5).map(({ id }) => id);
  for (const id of gone) world.deleteTicket(id);
  const left = [...world.customers.keys()].filter((_, i) => i % 12 === 3);
  for (const id of left) world.customers.delete(id);

  const opened = await s.open('sweep', both, again);
  const asked: string[] = [];
  for (const stream of both)
    for (let steps = 2, state = 'waiting'; state === 'waiting'; steps += 1) {
      const stopped = new AbortController();
      let requests = 0;
      s.before = (path, query) => {
        asked.push(`${path}?${query}`);
        if (++requests === steps) stopped.abort(new Interrupted());
        return undefined;
      };
      s.ctx = { ...ctx, signal: stopped.signal };
      ({ state } = await s.goOn(opened, stream));
      expect(state).toBeOneOf(['waiting', 'completed']);
      if (state === 'completed') break;
      // Nobody was asked for by id yet; and nobody is suspected of whom nothing was proven.
      const tops = await s.rows(
        `select coalesce(max(upper(created)), '-infinity') as top from sync.swept where stream = 'tickets'`,
      );
      const early = await s.rows(
        `select 1 from sync.deletion_candidates s join helpdesk.tickets t on t.id = s.record_id where s.stream = 'tickets' and t.created_at >= $1`,
        tops[0]!.top,
      );
      expect(early).toEqual([]);
      if (!asked.some(one => oneById.test(one.split('?')[0]!))) {
        expect([...(await tombstones(s, 'tickets')), ...(await tombstones(s, 'customers'))]).toEqual([]);
        expect(await checked(s, stream)).toSatisfy(
          (at: Date | null) => at === null || at.getTime() < s.nowMs - 23 * hourMs,
        );
      }
    }
  s.ctx = ctx;
  s.before = () => undefined;
  expect(deletedOf(await tombstones(s, 'tickets'))).toEqual(asc(gone));
  expect(deletedOf(await tombstones(s, 'customers'))).toEqual(asc(left));
  // What was committed is not read again: no more is asked twice than what an interruption cut off.
  const lists_asked = asked.filter(one => one.startsWith('/tickets?'));
  expect(lists_asked.length - new Set(lists_asked).size).toBeLessThan(8);
});

test(
  'rows of a page that was read long before a sweep, and committed after it, are suspects; a list that becomes redundant is swept anew',
  long,
  async () => {
    await using s = await inProcess({ tickets: 40, customers: 10, seed: 15, paging });
    const { world, ctx } = s;
    for (const { id } of world.tickets.values()) world.patchTicket(id, { spam: false, trash: false }, { quiet: true });
    await s.sync(['tickets']);
    s.nowMs += dayMs;
    const { id } = world.addTicket({ created_at: '2024-05-05T05:05:05Z', updated_at: s.nowMs - hourMs } as never);
    const open = ctx.sources.get('helpdesk')!;
    const { send } = open;
    let deletedMs = Number.NaN;
    const suspended = async (...asked: Parameters<typeof send>) => {
      const reply = await send(...asked);
      if (!Number.isNaN(deletedMs) || !reply.text.includes(id)) return reply;
      deletedMs = s.nowMs;
      world.deleteTicket(id);
      s.nowMs += hourMs;
      s.ctx = ctx;
      await s.run('sweep', ['tickets'], again);
      expect((await checked(s))!.getTime()).toBeGreaterThan(deletedMs);
      return reply;
    };
    s.ctx = { ...ctx, sources: sourcesOf({ ...open, send: Object.assign(suspended, send) as typeof send }) };
    await s.run('sync', ['tickets']);
    expect(await s.rows('select _deleted_at from helpdesk.tickets where id = $1', id)).toEqual([{ _deleted_at: null }]);
    expect((await checked(s))!.getTime()).toBeLessThanOrEqual(deletedMs);
    await s.run('sweep', ['tickets'], again);
    expect(deletedOf(await tombstones(s, 'tickets'))).toEqual([id]);

    // The first spam that the default list shows: from now on it speaks for spam as well, but has not done so yet.
    s.nowMs += hourMs;
    const lists = () => s.rows('select list from sync.swept group by 1 order by 1');
    expect((await lists()).map(({ list }) => list)).toEqual(['default', 'spam', 'trash']);
    world.setSpam([...world.tickets.keys()][20]!, true);
    await s.sync(['tickets']);
    expect(await lists()).toEqual([{ list: 'spam' }, { list: 'trash' }]);
    expect(await checked(s)).toBeNull();
    world.setTrash([...world.tickets.keys()][30]!, true, { quiet: true });
    await s.run('sweep', ['tickets'], again);
    expect(await checked(s)).toEqual(expect.any(Date));
    expect(await s.rows(`select list from sync.coverage where redundant and stream = 'tickets' order by 1`)).toEqual([
      { list: 'spam' },
      { list: 'trash' },
    ]);

    // The last one of a page goes before the next page, which begins with it, is asked for.
    const tenth = [...world.tickets.values()].sort((a, b) => (a.created_at < b.created_at ? -1 : 1))[
      paging.perPage - 1
    ]!.id;
    let requests = 0;
    s.between = () => {
      if (++requests !== 2) return;
      s.nowMs += hourMs;
      world.deleteTicket(tenth);
      s.nowMs += hourMs;
    };
    await s.run('sweep', ['tickets'], again);
    expect(deletedOf(await tombstones(s, 'tickets'))).toEqual(asc([id, tenth]));
  },
);

test('a large part gone at once is believed only when somebody says so', async () => {
  await using s = await inProcess({ tickets: 110, customers: 30, seed: 14, paging });
  const { world } = s;
  await s.sync(['customers', 'tickets']);
  s.nowMs += dayMs;
  const gone = [...world.tickets.keys()].slice(20, 60);
  const few = [...world.customers.keys()].slice(0, 15);
  for (const id of gone) world.deleteTicket(id);
  for (const id of few) world.customers.delete(id);

  const ask = (acceptDeletions: boolean) =>
    openSweep(s.pool, { account: 'default', streams: keysOf(both), opener: 0, acceptDeletions }, new Date(s.nowMs));
  const { run, resumed } = await ask(false);
  expect(resumed).toBe(false);
  const begun = new Date(s.nowMs);
  // So few rows are no mass, whatever their share.
  expect(await s.goOn(run, 'customers')).toMatchObject({ state: 'completed' });
  expect(deletedOf(await tombstones(s, 'customers'))).toEqual(asc(few));
  const stopped = await s.goOn(run, 'tickets');
  expect(stopped).toMatchObject({
    state: 'failed',
    exit_code: 1,
    error: expect.stringMatching(
      /^\d\d of 110 tickets and perhaps more seem to have been deleted at the source; none was marked/,
    ),
    remedy: expect.stringContaining('npx shelfdesk sweep tickets --accept-deletions'),
  });
  expect(await tombstones(s, 'tickets')).toEqual([]);
  expect((await suspects(s)).length).toBe(40);
  const seems = async () => {
    const all = await readStatus(s.pool, ['default']);
    return all.find(({ stream }) => stream === 'tickets')!.unconfirmed_deletions;
  };
  expect(await seems()).toBeGreaterThan(22);

  // Asked again, it does not read again, and stops again; some that were said to be gone are there by now.
  world.addTicket({ id: gone[0]!, created_at: '2025-01-01T00:00:00Z' });
  s.asked.length = 0;
  expect(await ask(false)).toEqual({ run, resumed: true, begun });
  expect(await s.goOn(run, 'tickets')).toMatchObject({ state: 'failed' });
  // But for what is new.
  expect(s.asked.filter(({ query }) => query.has('sort')).length).toBeLessThan(4);
  // After a day a sweep is begun anew, unless it is the answer to what was found.
  s.nowMs += dayMs;
  expect(await ask(true)).toEqual({ run, resumed: true, begun });
  expect(await s.goOn(run, 'tickets')).toMatchObject({ state: 'completed' });
  expect(deletedOf(await tombstones(s, 'tickets'))).toEqual(asc(gone.slice(1)));
  expect(await seems()).toBe(0);

  // Found and believed within minutes, each is asked for twice in all, and no more.
  const more = [...world.tickets.keys()].slice(5, 35);
  for (const id of more) world.deleteTicket(id);
  await s.run('backfill', ['tickets'], again);
  const second = await ask(false);
  expect(second.resumed).toBe(false);
  s.asked.length = 0;
  expect(await s.goOn(second.run, 'customers')).toMatchObject({ state: 'completed' });
  expect(await s.goOn(second.run, 'tickets')).toMatchObject({ state: 'failed' });
  s.nowMs += 3 * 60_000;
  expect(await ask(true)).toMatchObject({ run: second.run });
  expect(await s.goOn(second.run, 'tickets')).toMatchObject({ state: 'completed' });
  const times = (id: string) => s.asked.filter(({ path }) => path === `/tickets/${id}`).length;
  expect(Math.max(...more.map(times))).toBe(2);
  expect(deletedOf(await tombstones(s, 'tickets'))).toEqual(asc([...gone.slice(1), ...more]));

  // One that was stopped longer ago is no answer to who asks now.
  const left = await s.open('sweep', both, again);
  await s.rows(
    `update sync.stored_runs set state = 'interrupted', finished_at = $2 where id = $1`,
    left,
    new Date(s.nowMs),
  );
  expect(await ask(false)).toMatchObject({ run: left, resumed: true });
  await s.rows(
    `update sync.stored_runs set state = 'interrupted', finished_at = $2 where id = $1`,
    left,
    new Date(s.nowMs),
  );
  s.nowMs += hourMs + 1;
  expect((await ask(false)).resumed).toBe(false);
});

test('whoever has an older ticket is not waited for; a wait is told, and may be broken off', long, async () => {
  await using s = await inProcess({ tickets: 30, customers: 12, seed: 18, paging });
  const { world, ctx } = s;
  await s.sync(['customers', 'tickets']);
  s.nowMs += 70_000;
  const known = [...world.tickets.values()][3]!.customer_id!;
  world.customers.delete(known);
  const beforeMs = s.nowMs;
  expect(await s.run('sweep', ['customers'], again)).toMatchObject({ state: 'completed', deleted: 1 });
  expect(s.nowMs - beforeMs).toBeLessThan(10_000);

  const stranger = world.customers.add({ first_name: 'Stranger' }).id;
  await s.sync(['customers']);
  s.nowMs += 70_000;
  world.customers.delete(stranger);
  const run = await s.open('sweep', ['customers'], again);
  const note = async () => (await readProgress(s.pool, run)).streams[0]!.note;
  let told: string | null = null;
  const sleep = async () => {
    told = await note();
    throw new Interrupted();
  };
  s.ctx = { ...ctx, clock: { ...ctx.clock, sleep } };
  expect(await s.goOn(run, 'customers')).toMatchObject({ state: 'waiting', note: null });
  expect(told).toMatch(/^some deletion candidates .* fetched once more in \d\d s\. The run may be stopped: /);
  expect(deletedOf(await tombstones(s, 'customers'))).toEqual([known]);
  s.ctx = ctx;
  expect(await s.goOn(run, 'customers')).toMatchObject({ state: 'completed' });
  expect(deletedOf(await tombstones(s, 'customers'))).toEqual(asc([known, stranger]));
});

test('what came unreadable is not said to be as it is here', async () => {
  await using s = await inProcess({ tickets: 20, customers: 12, seed: 19, paging });
  const { world } = s;
  await s.sync(both);
  s.nowMs += dayMs;
  const [ticket] = world.tickets.keys();
  const [customer] = world.customers.keys();
  s.rules.set([
    { fault: { kind: 'set', id: ticket!, field: 'number', value: 'none' } },
    { fault: { kind: 'set', id: customer!, field: 'first_name', value: 5 } },
  ]);
  const known = async () => [
    await ticketChecked(s, ticket!),
    (await s.rows('select _checked_at as at from helpdesk.customers where id = $1', customer))[0]!.at,
  ];
  const before = await known();
  expect(await s.run('sweep', both, again)).toMatchObject({ state: 'partial', deleted: 0 });
  expect(await known()).toEqual(before);
  s.rules.clear();
  s.nowMs += hourMs;
  await s.run('sweep', both, again);
  expect((await known()).filter(at => (at as Date).getTime() < s.nowMs - hourMs)).toEqual([]);
});

test(
  'tombstones come as soon as they are certain; what was gone long ago, or is shown since, is asked for anew',
  long,
  async () => {
    const sweep = { ageMs: 7 * dayMs, mostDeleted: 1 };
    await using s = await inProcess({ tickets: 130, customers: 5, seed: 17, paging, sweep });
    const { world, ctx } = s;
    await s.sync(['tickets']);
    s.nowMs += dayMs;
    const gone = [...world.tickets.keys()].slice(10, 120);
    const kept = new Map(gone.map(id => [id, { ...world.ticket(id), messages: [] }]));
    for (const id of gone) world.deleteTicket(id);

    const stopped = new AbortController();
    s.ctx = { ...ctx, signal: stopped.signal };
    let asked = 0;
    s.before = path => {
      if (oneById.test(path) && ++asked === 104) stopped.abort(new Interrupted());
      return undefined;
    };
    const run = await s.open('sweep', ['tickets'], again);
    expect(await s.goOn(run, 'tickets')).toMatchObject({ state: 'waiting', deleted: 100 });
    s.ctx = ctx;
    s.before = () => undefined;
    const noted = (await suspects(s)).filter(({ gone_at }) => gone_at !== null).map(({ id }) => id as string);
    expect(noted.length).toBe(4);

    // One is back, and a list shows it unchanged; another one comes back while nobody goes on with the sweep.
    world.addTicket(kept.get(noted[0]!)!);
    await s.run('backfill', ['tickets'], again);
    expect(deletedOf((await suspects(s)) as never)).not.toContain(noted[0]);
    s.nowMs += 5 * dayMs;
    world.addTicket(kept.get(noted[1]!)!);
    expect(await s.goOn(run, 'tickets')).toMatchObject({ state: 'completed' });
    expect(deletedOf(await tombstones(s, 'tickets'))).toEqual(asc(gone.filter(id => !noted.slice(0, 2).includes(id))));
  },
);

test('where the mirror begins later, a sweep neither brings what is not wanted nor misses what is', long, async () => {
  const sinceMs = Date.UTC(2026, 1, 1);
  await using s = await inProcess({ tickets: 50, customers: 10, seed: 16, paging, sinceMs });
  const { world } = s;
  const ids = [...world.tickets.keys()];
  ids.forEach((id, i) => {
    world.touch(id, sinceMs + (i - 25) * hourMs);
  });
  await s.sync(['tickets']);
  s.nowMs += dayMs;
  for (const id of [ids[3]!, ids[25]!, ids[40]!]) world.deleteTicket(id);
  expect(await s.run('sweep', ['tickets'], again)).toMatchObject({ state: 'completed', inserted: 0 });
  expect(deletedOf(await tombstones(s, 'tickets'))).toEqual(asc([ids[25]!, ids[40]!]));
  expect(await s.rows('select count(*) from helpdesk.tickets')).toEqual([{ count: 25 }]);
  expect(await checked(s)).toEqual(expect.any(Date));

  // The mirror begins later than it did: what is here from before is asked for all the same.
  await s.rows(`update sync.accounts set since = $1`, new Date(sinceMs + 10 * hourMs));
  s.nowMs += dayMs;
  const deletedMs = s.nowMs;
  world.deleteTicket(ids[30]!);
  world.patchTicket(ids[31]!, { state: 'closed', subject: 'Edited' }, { quiet: true });
  expect(await s.run('sweep', ['tickets'], again)).toMatchObject({ state: 'completed', inserted: 0 });
  expect(deletedOf(await tombstones(s, 'tickets'))).toEqual(asc([ids[25]!, ids[30]!, ids[40]!]));
  expect((await checked(s))!.getTime()).toBeGreaterThan(deletedMs - 10 * 60_000);
  expect(await s.rows('select subject from helpdesk.tickets where id = $1', ids[31]!)).toEqual([{ subject: 'Edited' }]);
});
