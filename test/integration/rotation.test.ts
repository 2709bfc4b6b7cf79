/** The rotation of re-reading: edits and deletions that nothing announces are found by day, within a share of the credits. */
import { expect, test } from 'vitest';
import { auditStream } from '../../jobs/audit-stream.ts';
import { periodsOf, rotationOf } from '../../src/engine/deletions/rotation.ts';
import { openWaiting } from '../../src/engine/queue/reconcile.ts';
import { keepRereading } from '../../src/engine/queue/reread.ts';
import { planOfNow, plansFor } from '../../src/engine/queue/schedule.ts';
import { keepTargets } from '../../src/engine/runs/freshness-targets.ts';
import { openRun, withAccount } from '../../src/engine/runs/runs.ts';
import { type InProcess, inProcess } from '../support/in-process.ts';
import { keyOf } from '../support/keys.ts';

const minuteMs = 60_000;

test('together the readings cost the share, and a dear list is read less often', () => {
  const costs = [1, 100, 400];
  const perMs = 9 / minuteMs;
  const periods = periodsOf(costs, perMs);
  const rest = 9 - 1 / 15;
  expect(periods.map(ms => ms / minuteMs)).toEqual(
    [15, (10 * 30) / rest, (20 * 30) / rest].map(ms => expect.closeTo(ms, 6)),
  );
  expect(costs.reduce((sum, cost, n) => sum + cost / periods[n]!, 0)).toBeCloseTo(perMs, 9);
  expect(periodsOf([1, 1], 1000)).toEqual([15, 15].map(ms => ms * minuteMs));
  expect(periodsOf([], perMs)).toEqual([]);
});

/** A mirror whose source allows `credits` a minute. */
async function mirrored(credits: number, tickets: number): Promise<InProcess> {
  const s = await inProcess({ tickets, seed: 3, sweep: { ageMs: 7 * 86_400_000, mostDeleted: 0.2, share: 0.1 } });
  const limits = { credits, periodMs: minuteMs, requestsPerSecond: 100, reserve: 0 };
  const source = { ...s.ctx.sources.get('helpdesk')!, limits, audit: { perHour: 0 } };
  s.ctx = { ...s.ctx, sources: new Map([['helpdesk', source]]) };
  await s.sync();
  return s;
}

/** Runs what is open, and returns the credits and deletions of what was no audit. */
async function work(s: InProcess): Promise<{ credits: number; deleted: number }> {
  const waiting = await s.rows(
    `select run_id::int as run, t.stream, r.kind from sync.stored_run_streams t join sync.stored_runs r on r.id = t.run_id
     where t.state = 'waiting' order by run_id, t.stream`,
  );
  const sums = { credits: 0, deleted: 0 };
  for (const { run, stream, kind } of waiting as { run: number; stream: string; kind: string }[])
    if (kind === 'audit') await auditStream.run(s.ctx, { account: 'default', run, stream });
    else {
      const { credits, deleted } = await s.goOn(run, stream);
      sums.credits += credits;
      sums.deleted += deleted;
    }
  return sums;
}

/** What changed in silence, and until when the mirror shows it. */
class Silent {
  readonly #open: { at: number; table: string; where: string; id: string }[] = [];
  readonly seenMs: number[] = [];
  readonly #s: InProcess;
  constructor(s: InProcess) {
    this.#s = s;
  }

  /** `where`: SQL over rows of a table, of which the mirror then has one. */
  add(table: string, id: string, where: string): void {
    this.#open.push({ at: this.#s.nowMs, table, id, where: `select from ${table} where id = $1 and (${where})` });
  }

  async look(): Promise<void> {
    for (const one of [...this.#open]) {
      if ((await this.#s.rows(one.where, one.id)).length === 0) continue;
      this.seenMs.push(this.#s.nowMs - one.at);
      this.#open.splice(this.#open.indexOf(one), 1);
    }
  }

  /** The changes that the mirror says it knows, by the time of their stream, and does not show. */
  async untold(): Promise<unknown[]> {
    const said = await this.#s.rows(
      'select stream_key as stream, unchecked_since as at from sync.status where unchecked_since is not null',
    );
    const at = new Map(said.map(one => [one.stream, (one.at as Date).getTime()]));
    return this.#open.filter(one => one.at < (at.get(one.table) ?? Number.NEGATIVE_INFINITY));
  }

  longestMs(): number {
    return Math.max(...this.seenMs, ...this.#open.map(({ at }) => this.#s.nowMs - at));
  }
}

const nth = <T>(all: Iterable<T>, n: number): T => {
  const list = [...all];
  return list[n % list.length]!;
};

test('edits and deletions of every kind are found within the period of their list, for the share and what deletions cost', async () => {
  await using s = await mirrored(4, 400);
  const { world } = s;
  const rereading = keepRereading(s.ctx, 0);
  const rotation = await rotationOf(s.ctx, s.ctx.sources.get('helpdesk')!);
  const periods = Object.fromEntries(
    rotation.map(one => [`${one.stream} ${one.list}`, Math.round(one.everyMs / minuteMs)]),
  );
  expect(periods).toEqual({
    'helpdesk.users default': 17,
    'helpdesk.customers default': 25,
    'helpdesk.tickets default': 39,
    'helpdesk.tickets open': 17,
  });
  const begunMs = s.nowMs;
  const silent = new Silent(s);
  const cost = { credits: 0, deleted: 0 };
  for (let n = 0; n < 56; n++) {
    s.nowMs += 3 * minuteMs;
    if (n % 4 === 0) {
      const ticket = nth(world.tickets.values(), 7 * n);
      world.patchTicket(ticket.id, { subject: `Edited ${n}` }, { quiet: true });
      silent.add('helpdesk.tickets', ticket.id, `subject = 'Edited ${n}' or _deleted_at is not null`);
      const gone = nth(world.tickets.values(), 5 * n + 3);
      world.deleteTicket(gone.id);
      silent.add('helpdesk.tickets', gone.id, '_deleted_at is not null');
      const held = nth(world.tickets.values(), 3 * n + 1);
      world.patchTicket(held.id, { state: 'hold' }, { quiet: true });
      silent.add('helpdesk.tickets', held.id, `state = 'hold' or _deleted_at is not null`);
      const customer = nth(world.customers.values(), n);
      world.customers.patch(customer.id, { first_name: `Ada ${n}` });
      silent.add('helpdesk.customers', customer.id, `first_name = 'Ada ${n}' or _deleted_at is not null`);
      const left = nth(world.customers.values(), n + 1);
      world.customers.delete(left.id);
      silent.add('helpdesk.customers', left.id, '_deleted_at is not null');
      const user = nth(world.users.values(), n);
      Object.assign(user, { first_name: `Bo ${n}` });
      silent.add('helpdesk.users', user.id, `first_name ~ '^Bo' and substr(first_name, 4)::int >= ${n}`);
    }
    await rereading.look();
    const { credits, deleted } = await work(s);
    cost.credits += credits;
    cost.deleted += deleted;
    await silent.look();
    expect(await silent.untold()).toEqual([]);
  }
  expect(silent.seenMs.length).toBeGreaterThan(25);
  expect(silent.longestMs()).toBeLessThanOrEqual(45 * minuteMs);
  expect(cost.credits).toBeLessThanOrEqual(0.1 * 4 * ((s.nowMs - begunMs) / minuteMs) + 4 * cost.deleted);
  // Without deletions all of it is the share.
  let steady = 0;
  for (let n = 0; n < 56; n++) {
    s.nowMs += 3 * minuteMs;
    await rereading.look();
    steady += (await work(s)).credits;
  }
  expect(steady).toBeLessThanOrEqual(0.1 * 4 * 56 * 3);
});

test('closed tickets that changed lately are read more often than old ones, and one that left their list is not deleted', async () => {
  await using s = await mirrored(4, 1000);
  const { world } = s;
  // What the world made by itself is old.
  s.nowMs += 30 * 86_400_000;
  const old = [...world.tickets.values()].filter(({ state }) => state === 'closed');
  const closed = old.splice(0, 40);
  for (const { id } of closed) world.patchTicket(id, { state: 'closed', subject: 'Closed again' });
  await s.sync();
  const periodsOf = async () => {
    const rotation = await rotationOf(s.ctx, s.ctx.sources.get('helpdesk')!);
    return Object.fromEntries(
      rotation
        .filter(one => one.stream === 'helpdesk.tickets')
        .map(one => [one.list, Math.round(one.everyMs / minuteMs)]),
    );
  };
  expect(await periodsOf()).toEqual({ default: 85, open: 26, recent: 26 });
  const rereading = keepRereading(s.ctx, 0);
  const promised = () =>
    s.rows(`select subject, target::text from sync.targets where subject like 'reread %' order by 1`);
  await rereading.look();
  expect(await promised()).toEqual([
    { subject: 'reread helpdesk.customers', target: '06:00:00' },
    { subject: 'reread helpdesk.tickets', target: '06:00:00' },
  ]);
  await work(s);
  const pass = async (ms: number, silent?: Silent) => {
    for (const endMs = s.nowMs + ms; s.nowMs < endMs; ) {
      s.nowMs += 3 * minuteMs;
      await rereading.look();
      await work(s);
      await silent?.look();
      if (silent) expect(await silent.untold()).toEqual([]);
    }
  };
  s.asked.length = 0;
  await pass(120 * minuteMs);
  // A closed ticket that the list does not show, because it is old, is no candidate.
  const byId = s.asked.flatMap(
    ({ path, query }) => query.get('id')?.split(',') ?? /tickets\/(\w+)$/.exec(path)?.[1] ?? [],
  );
  expect(byId.filter(id => world.ticket(id).state === 'closed')).toEqual([]);
  const [lately, long] = [new Silent(s), new Silent(s)];
  const change = (silent: Silent, [edited, gone, opened]: typeof old) => {
    world.patchTicket(edited!.id, { subject: 'Edited' }, { quiet: true });
    silent.add('helpdesk.tickets', edited!.id, `subject = 'Edited'`);
    world.deleteTicket(gone!.id);
    silent.add('helpdesk.tickets', gone!.id, '_deleted_at is not null');
    world.patchTicket(opened!.id, { state: 'open' }, { quiet: true });
    silent.add('helpdesk.tickets', opened!.id, `state = 'open' and _deleted_at is null`);
  };
  for (let n = 0; n < 3; n++) {
    change(lately, closed.splice(0, 3));
    change(long, old.splice(0, 3));
    await pass(30 * minuteMs, lately);
  }
  expect(lately.seenMs.length).toBe(9);
  expect(lately.longestMs()).toBeLessThanOrEqual(30 * minuteMs);
  await long.look();
  expect(long.longestMs()).toBeGreaterThan(40 * minuteMs);
  // A young mirror, or one in which all changed lately, has no such list: it would be read twice.
  await s.pool.query(`update helpdesk.tickets set updated_at = now() where state = 'closed'`);
  expect(await periodsOf()).toEqual({ default: 70, open: 22 });
  // Three periods where they are long; the nights where nothing is read by day. Targets of the settings stay.
  const { sweep } = s.ctx;
  await keepTargets(s.pool, 'default', [{ subject: 'nightly', ms: 3_600_000 }]);
  const after = async (share: number) => {
    s.ctx = { ...s.ctx, sweep: { ...sweep, share } };
    await keepRereading(s.ctx, 0).look();
    expect(await s.rows(`select subject from sync.targets where subject = 'nightly'`)).toHaveLength(1);
    return (await promised()).map(({ target }) => target);
  };
  expect(await after(0.01)).toEqual(['22:15:00', '35:00:00']);
  expect(await after(0)).toEqual(['216:00:00', '216:00:00']);
});

test('what the lists leave of the share goes to messages, oldest first, and their bound is said', async () => {
  await using s = await mirrored(40, 60);
  const bound = async () =>
    (await s.rows(`select sync.unchecked_since('default', 'messages') as at`))[0]!.at as Date | null;
  expect(await bound()).toBe(null);
  const rereading = keepRereading(s.ctx, 0);
  const silent = new Silent(s);
  for (let n = 0; n < 24; n++) {
    s.nowMs += 10 * minuteMs;
    const ticket = nth(s.world.tickets.values(), 7 * n);
    const { id } = s.world.addNote(ticket.id, { body: 'A note that moves nothing' }, { quiet: true });
    silent.add('helpdesk.messages', id, 'true');
    await rereading.look();
    await openWaiting(s.ctx, 0);
    await work(s);
    await silent.look();
    expect(await silent.untold()).toEqual([]);
  }
  expect(silent.seenMs.length).toBeGreaterThan(8);
  expect(s.nowMs - (await bound())!.getTime()).toBeLessThan(150 * minuteMs);
});

test('the night reads nothing again that the day has read', async () => {
  await using s = await mirrored(4, 400);
  const rereading = keepRereading(s.ctx, 0);
  const ages = async () => {
    const rotation = await rotationOf(s.ctx, s.ctx.sources.get('helpdesk')!);
    return rotation.map(({ checkedMs, everyMs }) => (s.nowMs - checkedMs) / everyMs);
  };
  // The first reading of a list shows no deletion, so the sweep after it reads all.
  for (let n = 0; n < 20 || Math.max(...(await ages())) > 0.8; n++) {
    s.nowMs += 3 * minuteMs;
    await rereading.look();
    await work(s);
  }
  s.asked.length = 0;
  const night = () => s.run('sweep', ['customers', 'tickets']);
  expect(await night()).toMatchObject({ state: 'completed', credits: 0 });
  expect(s.asked).toEqual([]);
  // Nor does it open a run for what is due a little later: a run by day reads it then.
  const opens = async () =>
    (await planOfNow(s.ctx, plansFor(s.ctx.streams).find(({ schedule }) => schedule === 'nightly')!)).sweeps;
  while (Math.max(...(await ages())) < 0.92) s.nowMs += 1000;
  expect(await opens()).not.toContain('helpdesk.tickets');
  // What its last sweep has left open is asked again, or the night would be complete without it.
  await s.rows(
    `insert into sync.deletion_candidates (account_id, source, stream, record_id, missing_since, alive_at)
     values ('default', 'helpdesk', 'tickets', 't', now(), now())`,
  );
  expect(await opens()).toContain('helpdesk.tickets');
  await s.rows('delete from sync.deletion_candidates');
  const ended = (state: string) =>
    s.rows(
      `update sync.stored_run_streams t set state = '${state}' where (run_id, stream) = (
         select max(r.id), 'tickets' from sync.stored_runs r join sync.stored_run_streams o on o.run_id = r.id
         where r.kind = 'sweep' and o.stream = 'tickets')`,
    );
  await ended('failed');
  expect(await opens()).toContain('helpdesk.tickets');
  await ended('completed');
  // A list that is read less often than daily by day is read at night as well.
  const { sweep } = s.ctx;
  s.ctx = { ...s.ctx, sweep: { ...sweep, share: 0.001 } };
  expect(await opens()).toContain('helpdesk.tickets');
  s.ctx = { ...s.ctx, sweep };
  expect(await opens()).not.toContain('helpdesk.tickets');
  while ((await ages()).some(age => age < 1)) s.nowMs += minuteMs;
  expect(await opens()).toEqual(expect.arrayContaining(['helpdesk.customers', 'helpdesk.tickets']));
  // Without the day it reads open tickets each night.
  s.ctx = { ...s.ctx, sweep: { ...s.ctx.sweep, share: 0 } };
  s.nowMs += 24 * 60 * minuteMs;
  expect(await night()).toMatchObject({ state: 'completed' });
  expect(new Set(s.asked.map(({ query }) => query.get('state')))).toEqual(new Set(['open,hold']));
});

/** Opens what is due each five minutes for three hours; returns the numbers of the runs that it opened, by stream. */
async function threeHours(
  s: InProcess,
  end: (run: number, stream: string) => Promise<unknown>,
): Promise<Map<string, number>> {
  const opened = new Map<string, number>();
  for (let n = 0; n < 36; n++) {
    s.nowMs += 5 * minuteMs;
    // Each time by another worker: what rests is in the database.
    await keepRereading(s.ctx, 0).look();
    const waiting = await s.rows(
      `select run_id::int as run, stream from sync.stored_run_streams where state = 'waiting'`,
    );
    for (const { run, stream } of waiting as { run: number; stream: string }[]) {
      opened.set(stream, (opened.get(stream) ?? 0) + 1);
      await end(run, stream);
    }
  }
  return opened;
}

test('a stream rests for its period however its run ended; after a mass deletion, which a person must confirm, for a day', async () => {
  await using s = await mirrored(40, 60);
  const ends = {
    users: ['failed', 'the source is away'],
    customers: ['interrupted', null],
    tickets: ['failed', '30 of 60 tickets seem to have been deleted at the source'],
  };
  const opened = await threeHours(s, async (run, stream) => {
    const [state, error] = ends[stream as keyof typeof ends];
    const at = new Date(s.nowMs);
    await s.pool.query(
      'update sync.stored_run_streams set state = $2, finished_at = $3, error = $4 where run_id = $1',
      [run, state, at, error],
    );
    await s.pool.query('update sync.stored_runs set state = $2, finished_at = $3 where id = $1', [run, state, at]);
    return undefined;
  });
  expect(Object.fromEntries(opened)).toEqual({ users: 11, customers: 11, tickets: 1 });
});

test('a list that rests is not read with another list of its stream, and does not keep it from being read', async () => {
  await using s = await mirrored(4, 1000);
  const asked = { default: 0, open: 0 };
  s.before = (path, query) => {
    const isOther = query.get('sort') !== 'created_at' || query.has('spam') || query.has('trash');
    if (isOther || !path.endsWith('/tickets')) return undefined;
    const list = query.has('state') ? 'open' : 'default';
    asked[list]++;
    return list === 'default' ? 400 : undefined;
  };
  const rotation = await rotationOf(s.ctx, s.ctx.sources.get('helpdesk')!);
  const period = (list: string) =>
    rotation.find(one => one.stream === 'helpdesk.tickets' && one.list === list)!.everyMs / minuteMs;
  expect([period('open'), period('default')].map(Math.round)).toEqual([23, 75]);
  for (let n = 0; n < 72; n++) {
    s.nowMs += 5 * minuteMs;
    await keepRereading(s.ctx, 0).look();
    await work(s);
  }
  // Six hours have five of its periods and fifteen of the other list's. In its first period it is due, because it was never swept.
  expect(asked.default).toBeGreaterThan(3);
  expect(asked.default).toBeLessThanOrEqual(8);
  expect(asked.open).toBeGreaterThan(9);
  // The failure stays where it is seen, though the other list was read meanwhile, and a retry reads what rests.
  const swept = async (of: { retries?: number } = {}) => {
    const begun = { ...asked };
    const opens = { account: 'default', kind: 'sweep', streams: ['helpdesk.tickets'], opener: 0 } as const;
    await withAccount(s.pool, 'default', client => openRun(client, opens, new Date(s.nowMs)));
    const [{ run }] = (await s.rows(`select max(id)::int as run from sync.stored_runs`)) as [{ run: number }];
    await s.pool.query('update sync.stored_runs set retries = $2 where id = $1', [run, of.retries]);
    await work(s);
    const [{ state, error }] = (await s.rows(
      `select state, error from sync.stored_run_streams where run_id = ${run}`,
    )) as [{ state: string; error: string }];
    return { run, says: `${state}: ${error}`, asked: asked.default - begun.default };
  };
  s.nowMs += period('open') * minuteMs;
  const resting = await swept();
  expect(resting).toMatchObject({ says: expect.stringMatching(/^failed: .*400/), asked: 0 });
  expect(await swept({ retries: resting.run })).toMatchObject({ says: resting.says, asked: 1 });
});

test('many small readings mark no more as deleted in a day than one may', async () => {
  await using s = await mirrored(40, 300);
  const gone = [...s.world.tickets.keys()];
  let deleted = 0;
  await threeHours(s, async (run, stream) => {
    if (stream === 'tickets') for (const id of gone.splice(0, 12)) s.world.deleteTicket(id);
    const end = await s.goOn(run, stream);
    if (stream === 'tickets') deleted += end.deleted;
    return end;
  });
  expect(deleted).toBeGreaterThan(40);
  expect(deleted).toBeLessThanOrEqual(60);
});

test('a stream of which a person had many marked as deleted is swept as before', async () => {
  await using s = await mirrored(40, 100);
  const gone = [...s.world.tickets.keys()].slice(0, 40);
  for (const id of gone) s.world.deleteTicket(id);
  const again = { range: { since: null, until: null, again: true } };
  expect(await s.run('sweep', ['tickets'], again)).toMatchObject({ state: 'failed', deleted: 0 });
  const run = await s.open('sweep', ['tickets'], again);
  await s.pool.query('update sync.stored_runs set accept_deletions = true where id = $1', [run]);
  expect(await s.goOn(run, 'tickets')).toMatchObject({ state: 'completed', deleted: 40 });
  for (const id of [...s.world.tickets.keys()].slice(0, 5)) s.world.deleteTicket(id);
  expect(await s.run('sweep', ['tickets'], again)).toMatchObject({ state: 'completed', deleted: 5 });
  // More than a day may have: none is marked, and nothing else is wrong.
  for (const id of [...s.world.tickets.keys()].slice(0, 17)) s.world.deleteTicket(id);
  expect(await s.run('sweep', ['tickets'], again)).toMatchObject({ state: 'failed', deleted: 0 });
});

test('the bound of messages waits for tickets that wait, and is unknown while deletions of tickets are', async () => {
  await using s = await mirrored(40, 10);
  const bound = async () =>
    (await s.rows(`select sync.unchecked_since('default', 'messages') as at`))[0]!.at as Date | null;
  const audit = async () =>
    auditStream.run(s.ctx, { account: 'default', run: await s.open('audit', ['tickets']), stream: keyOf('tickets') });
  await audit();
  expect(await bound()).toBe(null);
  await s.run('sweep', ['tickets'], { range: { since: null, until: null, again: true } });
  s.nowMs += 10 * minuteMs;
  await s.pool.query(
    `update helpdesk.tickets set _messages_as_of = '2026-02-01', updated_at = '2026-02-02' where id = (select min(id) from helpdesk.tickets)`,
  );
  s.before = path => (/tickets\/\w+$/.test(path) ? 500 : undefined);
  await audit();
  expect(await bound()).toEqual(new Date(Date.parse('2026-02-01') - 120_000));
  // A ticket that comes back is read again: until then nothing of its messages is known.
  await s.pool.query(
    `update helpdesk.tickets set _messages_as_of = null, created_at = '2026-01-01' where id = (select max(id) from helpdesk.tickets)`,
  );
  expect(await bound()).toEqual(new Date('2026-01-01'));
});
