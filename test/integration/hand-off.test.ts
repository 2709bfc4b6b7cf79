/** Hand-offs: when a run has one, what it says, and that it arrives: by real receivers, whatever they answer. */
import { readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import { pino } from 'pino';
import { describe, expect, test, vi } from 'vitest';
import { startSandbox } from '../../packages/sandbox/src/server.ts';
import { type HandOffConfig, readConfig } from '../../src/app/config.ts';
import { addHandOff } from '../../src/cli/work/hand-off.ts';
import type { Clock } from '../../src/clock.ts';
import { transaction } from '../../src/engine/database/pool.ts';
import { finish, takeUp } from '../../src/engine/runs/claims.ts';
import { type HandOffSettings, keepHandOffSettings } from '../../src/engine/runs/hand-offs.ts';
import { wakeBackfills } from '../../src/engine/runs/ranges.ts';
import { forgetOld } from '../../src/engine/runs/slots.ts';
import { ClockMoved, Fatal, Spent } from '../../src/errors.ts';
import { keepHandOffs, sendHandOffs, waysOf } from '../../src/ops/hand-offs/send-hand-offs.ts';
import { settingsFor, shelfdesk } from '../support/cli.ts';
import { command } from '../support/command.ts';
import { eventually, openDesk } from '../support/desk.ts';
import { keyOf } from '../support/keys.ts';
import { long } from '../support/long.ts';
import { backfillOnce, configFor, noSandboxLimits, syncOnce } from '../support/mirror.ts';
import { openSandbox } from '../support/open-sandbox.ts';
import { freshDatabase } from '../support/postgres.ts';
import { handOffSecret, handOffTo, openReceiver } from '../support/receiver.ts';
import { at, iso, message, open, type Scripted, scripted, take, ticket } from '../support/scripted.ts';

const settings: HandOffSettings = {
  ...{ channels: ['webhook'], notify: null, runs: ['nightly', 'sync', 'backfill'], rejectsAllowed: 0 },
  ...{ dueWithinMs: null, dueBy: null, timeZone: 'UTC' },
};

describe('which run has one', () => {
  async function world(more: Partial<HandOffSettings> = {}): Promise<Scripted> {
    const s = await scripted({ lookbackMs: 1000 });
    await s.rows(`update sync.accounts set lookback = '1 s'`);
    await keepHandOffSettings(s.pool, 'default', { ...settings, ...more }, at(0), true);
    s.goTo(100);
    return s;
  }
  const handOffs = (s: Scripted) =>
    s.rows(
      `select h.run_id::int as run, h.kind, h.withheld, h.certificate #>> '{data,complete_through}' as through,
         (select count(*)::int from sync.hand_off_deliveries d where d.hand_off_id = h.id) as deliveries
       from sync.hand_offs h order by h.id`,
    );
  const t1 = ticket('t1');

  test('a complete sync, with all that it is complete in, and what random comparisons found', async () => {
    await using s = await world();
    s.lists.tickets = [t1];
    await s.rows(
      `insert into sync.audit (account_id, run_id, source, stream, record_id, checked_at, random)
       select 'default', 0, 'helpdesk', 'tickets', n, $1, true from generate_series(1, 300) n`,
      at(99),
    );
    await s.sync('tickets');
    const [row] = await s.rows('select certificate from sync.hand_offs');
    const rows = { seen: 1, inserted: 1, updated: 0, unchanged: 0, deleted: 0, rejected: 0 };
    expect(row!.certificate).toEqual({
      type: 'hand_off.complete',
      id: expect.stringMatching(new RegExp(`^handoff_[0-9a-f]{32}_1_${at(100).getTime()}$`)),
      timestamp: at(100).toISOString(),
      data: {
        ...{ account: 'default', run: 1, kind: 'sync', credits: expect.any(Number), rows },
        ...{ started_at: at(100).toISOString(), ended_at: at(100).toISOString() },
        complete_from: null,
        complete_through: at(98).toISOString(),
        streams: [
          {
            ...{
              stream: 'helpdesk.tickets',
              complete_from: null,
              complete_through: at(98).toISOString(),
              gaps: 0,
              open_rejects: 0,
            },
            ...{ deletions_checked_at: null, unchecked_since: null, differ_at_most_percent: expect.any(Number) },
            differ_as_of: at(99).toISOString(),
            ...{ rows, credits: expect.any(Number) },
          },
        ],
      },
    });
  });

  test('none with a gap, and the next one when the gap is read', async () => {
    await using s = await world();
    await s.sync('tickets');
    const [{ covered }] = (await s.rows(
      `select covered from sync.coverage where stream = 'tickets' and list = 'default'`,
    )) as [{ covered: string }];
    const cover = (what: string) =>
      s.rows(`update sync.coverage set covered = $1 where stream = 'tickets' and list = 'default'`, what);
    await s.rows(
      `update sync.coverage set covered = covered - tstzmultirange(tstzrange('${iso(50)}', '${iso(51)}'))
       where stream = 'tickets' and list = 'default'`,
    );
    s.goTo(200);
    await s.sync('tickets');
    await cover(covered);
    s.goTo(300);
    await s.sync('tickets');
    expect(await handOffs(s)).toEqual([
      { run: 1, kind: 'sync', withheld: null, through: at(98).toISOString(), deliveries: 1 },
      {
        ...{ run: 2, kind: 'sync', through: null, deliveries: 0 },
        withheld: expect.stringMatching(/^helpdesk.tickets is complete through 2026-01-01 00:00:50\+00, not through /),
      },
      { run: 3, kind: 'sync', withheld: null, through: at(298).toISOString(), deliveries: 1 },
    ]);
  });

  test('none where the coverage did not reach the start of the run', async () => {
    await using s = await world();
    await s.sync('tickets');
    // The run begins late, by its own account: what it reads is older than it.
    const run = await open(s.pool, ['tickets'], at(500));
    s.goTo(200);
    const claim = await take(s.pool, { account: 'default', run, stream: keyOf('tickets') }, at(500));
    await finish(s.pool, claim, at(501), { credits: 0 });
    expect((await handOffs(s)).at(-1)).toMatchObject({
      run: 2,
      deliveries: 0,
      withheld: expect.stringContaining('not through'),
    });
  });

  test('the start of a run counts by the clock of the source', async () => {
    await using s = await world();
    await s.sync('tickets');
    for (const [offsetMs, deliveries] of [
      [-600_000, 1],
      [-590_000, 0],
    ] as const) {
      await s.rows(
        `insert into sync.budget (account_id, source, state) values ('default', 'helpdesk', $1)
         on conflict (account_id, source) do update set state = excluded.state`,
        { clock: { offsetMs } },
      );
      const run = await open(s.pool, ['tickets'], at(702));
      const claim = await take(s.pool, { account: 'default', run, stream: keyOf('tickets') }, at(702));
      await finish(s.pool, claim, at(703), { credits: 0 });
      expect((await handOffs(s)).at(-1), String(offsetMs)).toMatchObject({ run, deliveries });
    }
  });

  test('runs that end at once: the order of the hand-offs is that of their commits', async () => {
    await using s = await world({ notify: 'load_done' });
    await s.sync('tickets');
    const listener = new pg.Client({ connectionString: s.url });
    await listener.connect();
    try {
      await listener.query('listen load_done');
      const heard: string[] = [];
      listener.on('notification', ({ payload }) => heard.push(payload!));
      const claims = [];
      for (let n = 0; n < 40; n++) {
        const run = await open(s.pool, ['tickets'], at(100));
        // Each of another process that has died since.
        const by = { worker: 1000 + n, job: 'job' };
        const up = await takeUp(s.pool, { account: 'default', run, stream: keyOf('tickets') }, by, () => at(100));
        if ('taken' in up) claims.push(up.taken);
      }
      await Promise.all(claims.map(claim => finish(s.pool, claim, at(101), { credits: 0 })));
      const ids = await s.rows(
        `select certificate ->> 'id' as id from sync.hand_offs where run_id > 1 order by hand_offs.id`,
      );
      expect(ids).toHaveLength(40);
      await eventually(() => expect(heard).toHaveLength(40));
      expect(heard).toEqual(ids.map(({ id }) => id));
    } finally {
      await listener.end();
    }
  });

  test('a night leaves out what is paused', async () => {
    await using s = await world();
    s.lists.tickets = [t1];
    await s.rows(
      `insert into sync.paused (account_id, source, stream, paused_at, paused_by) values ('default', 'helpdesk', 'messages', now(), 'ada')`,
    );
    await s.sync('tickets', { kind: 'nightly' });
    const [row] = await s.rows(`select certificate #> '{data,streams}' as streams from sync.hand_offs`);
    expect(row!.streams).toMatchObject([{ stream: 'helpdesk.tickets' }]);
  });

  test('rejects withhold it, unless so many are allowed', async () => {
    for (const rejectsAllowed of [0, 1]) {
      await using s = await world({ rejectsAllowed });
      s.lists.tickets = [t1];
      s.details['/tickets/t1'] = { ...t1, messages: [message('m1'), message('m2', { created_at: 'never' })] };
      await s.sync('tickets');
      await s.sync('messages');
      const [{ open: rejects }] = (await s.rows(
        'select count(*)::int as open from sync.rejects where cleared_at is null',
      )) as [{ open: number }];
      expect(rejects).toBe(1);
      const [, row] = await handOffs(s);
      expect(row, `allowed: ${rejectsAllowed}`).toMatchObject(
        rejectsAllowed === 0
          ? { deliveries: 0, withheld: expect.stringContaining('could not be stored') }
          : { deliveries: 1, withheld: null },
      );
    }
  });

  test('a night when its sweep is over and its details are stored, after what was complete before', async () => {
    await using s = await world();
    s.lists.tickets = [t1];
    s.details['/tickets/t1'] = { ...t1, messages: [message('m1')] };
    const sweep = await open(s.pool, ['tickets'], at(100), { kind: 'sweep' });
    await s.sync('tickets', { kind: 'nightly' });
    expect(await handOffs(s)).toEqual([
      { run: 2, kind: 'nightly', withheld: `its sweep, run ${sweep}, is not over`, through: null, deliveries: 0 },
    ]);
    await s.rows(`update sync.stored_runs set state = 'completed', finished_at = $2 where id = $1`, sweep, at(101));
    s.goTo(150);
    await s.sync('customers');
    const [night] = await handOffs(s);
    expect(night).toMatchObject({ run: 2, withheld: expect.stringMatching(/^helpdesk.messages is complete through/) });
    s.goTo(160);
    await s.sync('messages', { kind: 'hydrate' });
    // In the order in which they were complete.
    expect((await handOffs(s)).map(one => [one.run, one.kind, one.deliveries])).toEqual([
      [3, 'sync', 1],
      [2, 'nightly', 1],
    ]);
    const [row] = await s.rows(`select certificate -> 'data' as data from sync.hand_offs where kind = 'nightly'`);
    expect(row!.data).toMatchObject({
      streams: [{ stream: 'helpdesk.tickets' }, { stream: 'helpdesk.messages', rows: { inserted: 1 } }],
    });
    // Once.
    s.goTo(170);
    await s.sync('messages', { kind: 'hydrate' });
    expect(await handOffs(s)).toHaveLength(2);
  });

  /** Ends a stream of a run, as its worker does. */
  const end = async (s: Scripted, run: number, name: string, how: { error?: unknown; partial?: string } = {}) => {
    const claim = await take(s.pool, { account: 'default', run, stream: keyOf(name) }, at(200));
    await finish(s.pool, claim, at(201), { ...how, credits: 0 });
  };
  const range = { since: at(1), until: at(50), again: true };

  test('none for a backfill that is deferred or cut off, and one for its end', async () => {
    await using s = await world();
    await s.sync('tickets');
    s.goTo(200);
    const run = await open(s.pool, ['tickets'], at(200), { kind: 'backfill', range });
    await end(s, run, 'tickets', { error: new Spent(at(900)) });
    const withheld = expect.stringMatching(/^helpdesk.tickets was not read to the end: the quota of/);
    expect((await handOffs(s)).at(-1)).toMatchObject({ run, deliveries: 0, withheld });
    await transaction(s.pool, client => wakeBackfills(client, 'default', 0, at(1000)));
    await end(s, run, 'tickets');
    expect((await handOffs(s)).at(-1)).toMatchObject({ run, deliveries: 1, withheld: null });
    const cut = await open(s.pool, ['tickets'], at(200), { kind: 'backfill', range });
    await end(s, cut, 'tickets', { partial: new ClockMoved('+1 h').message });
    expect((await handOffs(s)).at(-1)).toMatchObject({ run: cut, withheld: expect.stringContaining('clock jumped') });
  });

  test('none for a backfill that did not bring its range', async () => {
    await using s = await world();
    await s.sync('tickets');
    await s.rows(`update sync.coverage set covered = covered * tstzmultirange(tstzrange(null, $1))`, at(40));
    s.goTo(200);
    const run = await open(s.pool, ['tickets'], at(200), { kind: 'backfill', range });
    await end(s, run, 'tickets');
    expect((await handOffs(s)).at(-1)).toMatchObject({
      run,
      withheld: expect.stringMatching(
        / is complete through 2026-01-01 00:00:40\+00, not through 2026-01-01 00:00:50\+00/,
      ),
    });
  });

  test('a night that was retried is one night, with its sweep', async () => {
    await using s = await world();
    for (const name of ['customers', 'tickets']) await s.sync(name);
    await s.rows('delete from sync.hand_offs');
    const night = await open(s.pool, ['customers', 'tickets'], at(90), { kind: 'nightly' });
    const sweep = await open(s.pool, ['customers'], at(90), { kind: 'sweep' });
    await end(s, night, 'customers');
    await end(s, night, 'tickets', { error: new Fatal('no', 'Nothing.') });
    expect(await handOffs(s)).toEqual([]);
    const retry = await open(s.pool, ['tickets'], at(95), { kind: 'nightly' });
    await s.rows('update sync.stored_runs set retries = $2 where id = $1', retry, night);
    await end(s, retry, 'tickets');
    expect(await handOffs(s)).toMatchObject([{ run: retry, withheld: `its sweep, run ${sweep}, is not over` }]);
    await end(s, sweep, 'customers');
    const [row] = await s.rows(`select certificate -> 'data' as data from sync.hand_offs`);
    expect(row!.data).toMatchObject({
      ...{ run: retry, started_at: at(90).toISOString() },
      streams: ['customers', 'tickets', 'messages'].map(name => ({ stream: `helpdesk.${name}` })),
    });
  });

  test('a sweep of another stream is not that of the night', async () => {
    await using s = await world();
    await s.sync('tickets');
    await s.rows('delete from sync.hand_offs');
    const night = await open(s.pool, ['tickets'], at(90), { kind: 'nightly' });
    const sweep = await open(s.pool, ['customers', 'tickets'], at(90), { kind: 'sweep' });
    await end(s, sweep, 'customers', { partial: 'some' });
    await end(s, sweep, 'tickets');
    await end(s, night, 'tickets');
    const withheld = `its sweep, run ${sweep}, ended partial`;
    expect(await handOffs(s)).toMatchObject([{ run: night, withheld }]);
    await end(s, await open(s.pool, ['tickets'], at(91), { kind: 'sweep' }), 'tickets');
    expect(await handOffs(s)).toMatchObject([{ run: night, withheld }]);
    await end(s, await open(s.pool, ['customers'], at(92), { kind: 'sweep' }), 'customers');
    expect(await handOffs(s)).toMatchObject([{ run: night, withheld: null }]);
  });

  test('a clock that was set back since hides no run', async () => {
    await using s = await world();
    await s.rows('update sync.hand_off_settings set since = $1', at(5000));
    await s.sync('tickets');
    const sweep = await open(s.pool, ['tickets'], at(100), { kind: 'sweep' });
    await s.sync('tickets', { kind: 'nightly' });
    await end(s, sweep, 'tickets');
    expect((await handOffs(s)).map(one => [one.kind, one.deliveries])).toEqual([
      ['sync', 1],
      ['nightly', 1],
    ]);
    expect(await s.rows('select distinct next_try_at::text as at from sync.hand_off_deliveries')).toEqual([
      { at: '-infinity' },
    ]);
  });

  test.each([
    ['table sync.hand_off_settings rename column', 'rejects_allowed'],
    ['function sync.why_incomplete rename', 'why_incomplete'],
  ])('a decision that failed is made again when the next run ends: alter %s', async (what, name) => {
    await using s = await world();
    const isColumn = what.startsWith('table');
    await s.rows(`alter ${what} ${isColumn ? name : ''} to gone`);
    await s.sync('tickets');
    expect(await s.rows('select state from sync.stored_runs')).toEqual([{ state: 'completed' }]);
    const withheld = expect.stringMatching(new RegExp(`^it could not be decided: .*${name}`));
    expect(await handOffs(s)).toMatchObject([{ run: 1, withheld }]);
    await s.rows(`alter ${what.replace(name, 'gone')} ${isColumn ? 'gone' : ''} to ${name}`);
    s.goTo(150);
    await s.sync('customers');
    expect((await handOffs(s)).map(one => [one.run, one.deliveries])).toEqual([
      [1, 1],
      [2, 1],
    ]);
  });

  test('none for a run that failed, for a kind that is not asked for, and without settings', async () => {
    await using s = await world({ runs: ['nightly'] });
    await s.sync('tickets');
    await keepHandOffSettings(s.pool, 'default', settings, at(0), true);
    s.lists.tickets = 'no JSON';
    await s.sync('tickets').catch(() => {});
    s.lists.tickets = [];
    await keepHandOffSettings(s.pool, 'default', undefined, at(0), true);
    await s.sync('tickets');
    expect(await handOffs(s)).toEqual([]);
  });

  test('it is written with the end of the run, or neither is', async () => {
    await using s = await world();
    await s.rows(
      `create function public.refuse() returns trigger language plpgsql as $$ begin raise exception 'not now'; end $$`,
    );
    await s.rows(`create constraint trigger refuse after insert on sync.hand_off_deliveries
      deferrable initially deferred for each row execute function public.refuse()`);
    await expect(s.sync('tickets')).rejects.toThrow('not now');
    expect(await s.rows('select state from sync.stored_runs')).toEqual([{ state: 'running' }]);
    expect(await handOffs(s)).toEqual([]);
  });

  test('to say that a large backlog is not complete costs no more than a small one', async () => {
    await using s = await world();
    await s.sync('tickets');
    const add = (from: number, to: number) =>
      s.rows(
        `insert into helpdesk.tickets (account_id, id, updated_at, _first_seen_at, _synced_at, _observed_at, _payload)
         select 'default', n, $1::timestamptz + n * interval '1 ms', now(), now(), now(), jsonb_build_object('n', repeat('x', 500))
         from generate_series($2::int, $3::int) n`,
        ...[at(10), from, to],
      );
    const blocks = async () => {
      const [row] = await s.rows(
        `explain (analyze, buffers, format json) select sync.why_incomplete('default', 'helpdesk.messages', '${iso(90)}')`,
      );
      const [{ Plan: plan }] = row!['QUERY PLAN'] as [{ Plan: Record<string, number> }];
      return plan['Shared Hit Blocks']! + plan['Shared Read Blocks']!;
    };
    await add(1, 10);
    expect(await s.rows(`select sync.why_incomplete('default', 'helpdesk.messages', $1) as why`, at(90))).toEqual([
      { why: expect.stringMatching(/^helpdesk.messages is complete through 2026-01-01 00:00:10/) },
    ]);
    await blocks();
    const few = await blocks();
    await add(11, 5000);
    await blocks();
    expect(await blocks()).toBeLessThan(few + 100);
  });

  test('settings: those of a worker, and without a live one those of the last command', async () => {
    await using s = await world();
    const kept = () => s.rows('select channels, notify, rejects_allowed, since from sync.hand_off_settings');
    const other = { ...settings, channels: ['command' as const], notify: 'done', rejectsAllowed: 9 };
    const first = { channels: ['webhook'], notify: null, rejects_allowed: 0, since: at(0) };
    await s.sync('tickets');
    await s.rows(
      `insert into sync.workers (id, account_id, works, host, pid, version, started_at) overriding system value
       values (77, 'default', true, 'h', 1, '1', now())`,
    );
    {
      await using _worker = await alive(s, 77);
      expect(await keepHandOffSettings(s.pool, 'default', other, at(9), false)).toBe(0);
      expect(await keepHandOffSettings(s.pool, 'default', undefined, at(9), false)).toBe(0);
      expect(await kept()).toEqual([first]);
    }
    await eventually(async () => expect(await keepHandOffSettings(s.pool, 'default', other, at(9), false)).toBe(1));
    expect(await kept()).toEqual([{ channels: ['command'], notify: 'done', rejects_allowed: 9, since: at(0) }]);
    expect(await s.rows('select from sync.hand_off_deliveries')).toEqual([]);
    await keepHandOffSettings(s.pool, 'default', undefined, at(9), false);
    expect(await kept()).toEqual([]);
    await keepHandOffSettings(s.pool, 'default', settings, at(0), true);
    expect(await kept()).toEqual([first]);
  });
});

test('a time zone that PostgreSQL does not know is refused when it is stored', async () => {
  await using db = await freshDatabase();
  const due = { ...settings, dueBy: '06:30', timeZone: 'Mars/Olympus' };
  await expect(keepHandOffSettings(db.pool, 'default', due, at(0), true)).rejects.toThrow(
    'PostgreSQL does not know the time zone Mars/Olympus',
  );
  await keepHandOffSettings(db.pool, 'default', { ...due, timeZone: 'Europe/Berlin' }, at(0), true);
  expect((await db.pool.query('select time_zone from sync.hand_off_settings')).rows).toEqual([
    { time_zone: 'Europe/Berlin' },
  ]);
});

/** Hand-offs of runs 1 to n that wait for their webhook, and a clock that the test moves. */
async function waiting(n: number, channels: readonly string[] = ['webhook']) {
  const db = await freshDatabase();
  let nowMs = Date.UTC(2026, 0, 1);
  const clock: Clock = {
    now: () => nowMs,
    monotonic: () => nowMs,
    // It ends with its signal only.
    sleep: async (_ms, signal) => {
      signal?.throwIfAborted();
      await new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason), { once: true }));
    },
  };
  const rows = async (sql: string, ...values: unknown[]) =>
    (await db.pool.query<Record<string, unknown>>(sql, values)).rows;
  await rows(`insert into sync.accounts (account_id) values ('acme')`);
  for (let run = 1; run <= n; run++)
    await rows(
      `with h as (
         insert into sync.hand_offs (account_id, run_id, kind, started_at, ended_at, issued_at, certificate)
         values ('acme', $1::int, 'sync', $2::timestamptz, $2, $2, jsonb_build_object('type', 'hand_off.complete', 'id', 'handoff_' || $1::int,
           'data', jsonb_build_object('run', $1::int, 'says', 'Zürich', 'complete_through', '2026-01-01T00:00:00Z'))) returning id)
       insert into sync.hand_off_deliveries (hand_off_id, account_id, channel, next_try_at)
       select h.id, 'acme', c, $2 from h, unnest($3::text[]) c`,
      run,
      new Date(nowMs),
      channels,
    );
  const logged: string[] = [];
  const loud = pino({ level: 'debug' }, { write: line => void logged.push(line) });
  return {
    ...{ db, rows, clock, logged, log: loud },
    pass: (seconds: number) => {
      nowMs += seconds * 1000;
    },
    /** One attempt as process `worker`. */
    send: (to: HandOffConfig, worker = 1, more: { webhookMs?: number; commandMs?: number } = {}) =>
      sendHandOffs({ pg: db.pool, clock, log: loud, ...more }, waysOf({ account: 'acme', worker, handOff: to })),
    state: () =>
      rows(
        `select hand_off_id::int as id, tries, delivered_at is not null as taken, last_error as error, held_by
         from sync.hand_off_deliveries order by 1`,
      ),
    [Symbol.asyncDispose]: () => db.drop(),
  };
}

/** The presence of a process, as sync.workers has it: a lock. */
async function alive(db: { url: string }, worker: number) {
  const client = new pg.Client({ connectionString: db.url });
  await client.connect();
  await client.query('select pg_advisory_lock($1::int, $2::int)', [0x53_48_53_57, worker]);
  return { [Symbol.asyncDispose]: () => client.end() };
}

describe('it arrives', () => {
  test('in order, each once, and signed', async () => {
    await using w = await waiting(3);
    await using receiver = await openReceiver();
    await w.send(handOffTo(receiver.url));
    await w.send(handOffTo(receiver.url));
    expect(receiver.got.map(({ message: { data } }) => data.run)).toEqual([1, 2, 3]);
    expect(receiver.forged).toEqual([]);
    expect(receiver.got[0]!.id).toBe('handoff_1');
    expect(receiver.got[0]!.message.data.says).toBe('Zürich');
    expect(await w.state()).toEqual([1, 2, 3].map(id => ({ id, tries: 0, taken: true, error: null, held_by: null })));
  });

  test('what is not taken is sent again with the same id and body, later and later; those behind it wait', async () => {
    await using w = await waiting(2);
    let status = 500;
    await using receiver = await openReceiver(to => void to.writeHead(status).end('I have taken it, truly'));
    const tried: number[] = [];
    let seconds = 0;
    for (const step of [0, 4, 1, 29, 1, 119, 1]) {
      w.pass(step);
      seconds += step;
      const before = receiver.got.length;
      await w.send(handOffTo(receiver.url));
      if (receiver.got.length > before) tried.push(seconds);
    }
    expect(tried).toEqual([0, 5, 35, 155]);
    expect(new Set(receiver.got.map(({ id, body }) => `${id} ${body}`)).size).toBe(1);
    expect(await w.state()).toMatchObject([
      { id: 1, tries: 4, taken: false, error: 'it answered with 500' },
      { id: 2, tries: 0, taken: false },
    ]);
    status = 202;
    w.pass(300);
    await w.send(handOffTo(receiver.url));
    expect(receiver.got.slice(4).map(({ id }) => id)).toEqual(['handoff_1', 'handoff_2']);
  });

  test('a redirect is not followed', async () => {
    await using w = await waiting(1);
    await using other = await openReceiver();
    for (const status of [301, 302, 303, 307, 308]) {
      await using receiver = await openReceiver(to => void to.writeHead(status, { location: other.url.href }).end());
      await w.send(handOffTo(receiver.url));
      expect(await w.state()).toMatchObject([{ taken: false, error: `it answered with ${status}` }]);
      w.pass(3600);
    }
    expect(other.got).toEqual([]);
  });

  test('no answer in time is none; an answer whose body never ends, breaks or lies about its length is one', async () => {
    await using w = await waiting(4);
    await using silent = await openReceiver(() => {});
    await w.send(handOffTo(silent.url), 1, { webhookMs: 50 });
    expect((await w.state())[0]).toMatchObject({ taken: false, error: expect.stringMatching(/^no answer within/) });
    w.pass(5);
    await using odd = await openReceiver((to, _, n) => {
      if (n === 1) to.writeHead(200).write('x');
      else if (n === 2) to.writeHead(200, { 'content-length': '999999999999' }).write('{');
      else if (n === 3) to.writeHead(200).end('x'.repeat(5_000_000));
      else to.writeHead(200, { 'content-length': '10' }).write('{', () => to.destroy());
    });
    await w.send(handOffTo(odd.url), 1, { webhookMs: 300 });
    expect(odd.got.map(({ id }) => id)).toEqual([1, 2, 3, 4].map(run => `handoff_${run}`));
    expect((await w.state()).map(({ taken }) => taken)).toEqual([true, true, true, true]);
  });

  test('neither a closed port, nor a broken connection, nor one that speaks no HTTP is an answer, and no address is told', async () => {
    await using w = await waiting(1);
    let url: URL;
    {
      await using gone = await openReceiver();
      url = gone.url;
    }
    await w.send(handOffTo(url));
    expect(await w.state()).toMatchObject([{ tries: 1, taken: false, error: 'no answer (ECONNREFUSED)' }]);
    w.pass(3600);
    await using receiver = await openReceiver(to => void to.destroy());
    await w.send(handOffTo(receiver.url));
    expect(await w.state()).toMatchObject([{ tries: 2, taken: false, error: expect.stringMatching(/^no answer \(/) }]);
    w.pass(3600);
    const rude = createTcpServer(socket => socket.end('SSH-2.0-hush\r\n'));
    await new Promise<void>(resolve => rude.listen(0, '127.0.0.1', resolve));
    await w.send(handOffTo(new URL(`http://127.0.0.1:${(rude.address() as AddressInfo).port}/hush`)));
    expect(await w.state()).toMatchObject([{ tries: 3, taken: false, error: expect.stringMatching(/^no answer \(/) }]);
    rude.close();
    expect(w.logged.join()).toContain('no answer (ECONNREFUSED)');
    for (const secret of ['hush', handOffSecret, '127.0.0.1']) expect(w.logged.join()).not.toContain(secret);
  });

  test('of many processes one sends it; what a dead one held another one sends', async () => {
    await using w = await waiting(20);
    await using receiver = await openReceiver();
    const crew = [11, 12, 13, 14];
    const living = await Promise.all(crew.map(worker => alive(w.db, worker)));
    await Promise.all(crew.map(worker => w.send(handOffTo(receiver.url), worker)));
    expect(receiver.got.map(({ message: { data } }) => data.run)).toEqual(Array.from({ length: 20 }, (_, i) => i + 1));
    await w.rows('update sync.hand_off_deliveries set delivered_at = null, held_by = 11 where hand_off_id = 20');
    await w.send(handOffTo(receiver.url), 12);
    expect(receiver.got).toHaveLength(20);
    for (const one of living) await one[Symbol.asyncDispose]();
    await eventually(async () => {
      await w.send(handOffTo(receiver.url), 12);
      expect(receiver.got).toHaveLength(21);
    });
    expect(receiver.got[20]!.id).toBe('handoff_20');
  });

  test('a worker that leaves gives back what nobody has answered', async () => {
    await using w = await waiting(1);
    let asked = () => {};
    const arrived = new Promise<void>(resolve => {
      asked = resolve;
    });
    await using receiver = await openReceiver(() => asked());
    {
      const subscriber = { account: 'acme', worker: 1, handOff: handOffTo(receiver.url) };
      await using _sending = keepHandOffs({ pg: w.db.pool, clock: w.clock, log: w.log }, () => [subscriber]);
      await arrived;
    }
    expect(await w.state()).toEqual([{ id: 1, tries: 0, taken: false, error: null, held_by: null }]);
  });

  test('the loop sends when it is rung, and a slow webhook delays no command', async () => {
    await using w = await waiting(0);
    await using silent = await openReceiver(() => {});
    await using folder = await temporary();
    const handOff = handOffTo(silent.url, { command: `cat >> ${join(folder.path, 'got')}` });
    await using sending = keepHandOffs({ pg: w.db.pool, clock: w.clock, log: w.log }, () => [
      { account: 'acme', worker: 1, handOff },
    ]);
    await w.rows(
      `with h as (insert into sync.hand_offs (account_id, run_id, kind, started_at, ended_at, issued_at, certificate)
         values ('acme', 1, 'sync', now(), now(), now(), '{"id": "handoff_1"}') returning id)
       insert into sync.hand_off_deliveries (hand_off_id, account_id, channel, next_try_at)
       select h.id, 'acme', c, '2026-01-01' from h, unnest('{webhook,command}'::text[]) c`,
    );
    sending.ring();
    await eventually(async () => expect(await readFile(join(folder.path, 'got'), 'utf8')).toBe('{"id": "handoff_1"}'));
    await eventually(() => expect(silent.got).toHaveLength(1));
  });

  test('a command has the certificate on stdin and no secret of ours; another exit code than 0 repeats it', async () => {
    await using w = await waiting(2, ['command']);
    await using folder = await temporary();
    const to = (line: string) => handOffTo(undefined, { command: line });
    process.env.HANDOFF_SECRET = handOffSecret;
    try {
      await w.send(to(`cd ${folder.path} && cat > body && env > env && exit 3`));
    } finally {
      delete process.env.HANDOFF_SECRET;
    }
    expect(await w.state()).toMatchObject([
      { tries: 1, taken: false, error: 'it ended with 3' },
      { tries: 0, taken: false },
    ]);
    expect(JSON.parse(await readFile(join(folder.path, 'body'), 'utf8'))).toMatchObject({ id: 'handoff_1' });
    const environment = await readFile(join(folder.path, 'env'), 'utf8');
    expect(environment).toContain('SHELFDESK_HAND_OFF=handoff_1\n');
    expect(environment).toContain('PATH=');
    expect(environment).not.toContain(handOffSecret);
    w.pass(5);
    // All of it ends when its time is over: also what it started. It has not taken it, whatever it ends with.
    await w.send(to(`trap 'exit 0' TERM; sleep 600 & wait`), 1, { commandMs: 300 });
    expect(await w.state()).toMatchObject([{ tries: 2, error: expect.stringMatching(/^it did not end within/) }, {}]);
    w.pass(30);
    await w.send(to('kill -9 $$'));
    expect(await w.state()).toMatchObject([{ tries: 3, error: 'it ended by SIGKILL' }, {}]);
    w.pass(120);
    // It reads nothing.
    await w.send(to('true'));
    expect((await w.state()).map(({ taken }) => taken)).toEqual([true, true]);
  });

  test('a worker that leaves ends no command of before', async () => {
    await using w = await waiting(1, ['command']);
    const killed = vi.spyOn(process, 'kill');
    try {
      const handOff = handOffTo(undefined, { command: 'true' });
      await using _sending = keepHandOffs({ pg: w.db.pool, clock: w.clock, log: w.log }, () => [
        { account: 'acme', worker: 1, handOff },
      ]);
      await eventually(async () => expect(await w.state()).toMatchObject([{ taken: true }]));
      await _sending[Symbol.asyncDispose]();
      expect(killed).not.toHaveBeenCalled();
    } finally {
      killed.mockRestore();
    }
  });

  test('a command that cannot be started is tried again', async () => {
    await using w = await waiting(1, ['command']);
    await w.send(handOffTo(undefined, { command: `true ${'x'.repeat(200_000)}` }));
    expect(await w.state()).toMatchObject([{ taken: false, tries: 1, error: 'it could not be started (E2BIG)' }]);
  });

  test('a time of the next attempt that only a wrong clock sets is not waited for', async () => {
    await using w = await waiting(1);
    await using receiver = await openReceiver();
    const next = (seconds: number) =>
      w.rows('update sync.hand_off_deliveries set next_try_at = $1', new Date(w.clock.now() + seconds * 1000));
    await next(3600);
    await w.send(handOffTo(receiver.url));
    expect(receiver.got).toHaveLength(0);
    await next(3601);
    await w.send(handOffTo(receiver.url));
    expect(receiver.got).toHaveLength(1);
  });
});

async function temporary() {
  const { mkdtemp, rm } = await import('node:fs/promises');
  const { tmpdir } = await import('node:os');
  const path = await mkdtemp(join(tmpdir(), `shelfdesk-tests-${process.pid}-`));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) };
}

describe('problems', () => {
  const problems = (w: Awaited<ReturnType<typeof waiting>>) =>
    w.rows(`select problem, severity, says, since from sync.problems where account_id = 'acme'`);

  test('a receiver that was down for a day is one, and its end is the delivery', async () => {
    await using w = await waiting(2);
    await using receiver = await openReceiver();
    await w.rows(`update sync.hand_offs set issued_at = now() - interval '23 hours'`);
    await w.rows(`update sync.hand_off_deliveries set last_error = 'it answered with 500', tries = 20`);
    expect(await problems(w)).toEqual([]);
    await w.rows(`update sync.hand_offs set issued_at = now() - interval '25 hours' where id = 1`);
    expect(await problems(w)).toMatchObject([
      {
        ...{ problem: 'hand_off_undelivered', severity: 'warning' },
        says: 'For more than a day the webhook did not take 2 hand-offs, the first of run 1: it answered with 500.',
      },
    ]);
    await w.rows(`update sync.hand_off_deliveries set last_error = null`);
    expect((await problems(w))[0]!.says).toContain('no process has sent it');
    await w.send(handOffTo(receiver.url));
    expect(receiver.got).toHaveLength(2);
    expect(await problems(w)).toEqual([]);
  });

  test('late by age: since the last one that was taken', async () => {
    await using w = await waiting(1);
    await w.rows(`insert into sync.hand_off_settings (account_id, channels, runs, due_within, since)
      values ('acme', '{webhook}', '{sync}', '26 hours', now() - interval '25 hours')`);
    await w.rows(`update sync.hand_offs set issued_at = now() - interval '2 hours'`);
    expect(await problems(w)).toEqual([]);
    await w.rows(`update sync.hand_off_settings set since = now() - interval '30 days'`);
    expect(await problems(w)).toMatchObject([
      { problem: 'hand_off_late', says: 'No hand-off was taken yet; the next one was due within 26 h.' },
    ]);
    await w.rows('update sync.hand_off_deliveries set delivered_at = now()');
    expect(await problems(w)).toEqual([]);
    await w.rows(`update sync.hand_offs set issued_at = now() - interval '27 hours'`);
    const [late] = await problems(w);
    expect(late!.says).toBe('The last hand-off is that of run 1, issued 27 h ago; the next one was due within 26 h.');
    const [due] = await w.rows(`select issued_at + interval '26 hours' as at from sync.hand_offs`);
    expect(late!.since).toEqual(due!.at);
  });

  test('late by time of day: a hand-off of the day before does not count, in any zone', async () => {
    await using w = await waiting(1, []);
    const { rows } = w;
    for (const zone of ['UTC', 'Pacific/Kiritimati', 'America/St_Johns']) {
      await rows(`delete from sync.hand_off_settings`);
      const due = async (offset: string) =>
        rows(
          `insert into sync.hand_off_settings (account_id, channels, runs, due_by, time_zone, since)
           values ('acme', '{}', '{sync}', (now() at time zone $1 + $2::interval)::time, $1, now() - interval '30 days')
           on conflict (account_id) do update set due_by = excluded.due_by`,
          zone,
          offset,
        );
      const handedOff = (before: string) =>
        rows('update sync.hand_offs set started_at = now() - $1::interval, issued_at = now()', before);
      // Due an hour ago: one that began 2 hours ago is of today, one that began 26 hours ago is not.
      await due('-1 hour');
      await handedOff('2 hours');
      expect(await problems(w), zone).toEqual([]);
      await handedOff('26 hours');
      expect(await problems(w), zone).toMatchObject([
        { problem: 'hand_off_late', says: expect.stringMatching(/due by \d\d:\d\d\.$/) },
      ]);
      // Due in an hour: the one that was due 23 hours ago counts.
      await due('1 hour');
      expect(await problems(w), zone).toEqual([]);
      await handedOff('48 hours');
      expect(await problems(w), zone).toHaveLength(1);
      // Not before the first due time.
      await rows(`update sync.hand_off_settings set since = now() - interval '10 hours'`);
      expect(await problems(w), zone).toEqual([]);
    }
  });
});

test('after five weeks it is forgotten, unless its receiver has not taken it', async () => {
  await using w = await waiting(2);
  await w.rows('update sync.hand_off_deliveries set delivered_at = next_try_at where hand_off_id = 1');
  const day = (n: number) => new Date(w.clock.now() + n * 24 * 3_600_000);
  await forgetOld(w.db.pool, 'acme', day(34));
  expect(await w.state()).toHaveLength(2);
  await forgetOld(w.db.pool, 'acme', day(36));
  expect(await w.state()).toMatchObject([{ id: 2 }]);
});

describe('as people run it', () => {
  test('sync of both sources tells webhook, command and notification of itself, and its secrets to nobody', async () => {
    await using db = await freshDatabase();
    await using receiver = await openReceiver((to, _, n) => void to.writeHead(n === 1 ? 500 : 204).end());
    await using folder = await temporary();
    const sandbox = await startSandbox({ ...noSandboxLimits, tickets: 5, books: { volumes: 1 } });
    const { books } = sandbox;
    const listener = new pg.Client({ connectionString: db.url });
    await listener.connect();
    const heard: (string | undefined)[] = [];
    listener.on('notification', ({ payload }) => heard.push(payload));
    try {
      await listener.query('listen load_done');
      const env = {
        ...{ ...settingsFor(db.url, sandbox), ...receiver.env, LOG_LEVEL: 'trace' },
        ...{ BOOKS_BASE_URL: books.url, BOOKS_API_KEY: books.key, BOOKS_USERS: [...books.world.users.keys()][0]! },
        HANDOFF_COMMAND: `cat >> ${join(folder.path, 'got')}`,
        HANDOFF_NOTIFY: 'load_done',
      };
      const first = await shelfdesk(['sync'], env).finished;
      expect(first.code, first.stderr).toBe(0);
      // However long the second takes, this is not due before it ends.
      const later = `update sync.hand_off_deliveries set next_try_at = now() + interval '30 minutes' where delivered_at is null`;
      expect((await db.pool.query(later)).rowCount).toBe(1);
      const config = readConfig('/nowhere', env);
      expect((await syncOnce(config, ['users'])).exitCode).toBe(0);
      // The first was refused: its retry is not due yet, and the second waits behind it.
      expect(receiver.got).toHaveLength(1);
      const list = await command(addHandOff, config, 'hand-off', 'list', '--json');
      expect(JSON.parse(list.stdout)).toMatchObject([
        { run: 2, kind: 'sync', withheld: null },
        {
          run: 1,
          deliveries: [
            { channel: 'command', error: null },
            { channel: 'notify' },
            { channel: 'webhook', tries: 1, delivered: null, error: 'it answered with 500' },
          ],
        },
      ]);
      const sent = await command(addHandOff, config, 'hand-off', 'send', '--json');
      expect(JSON.parse(sent.stdout)).toEqual([
        { channel: 'webhook', sent: 2, error: null },
        { channel: 'command', sent: 0, error: null },
      ]);
      expect(receiver.got.map(({ message: { data } }) => data.run)).toEqual([1, 1, 2]);
      expect(receiver.got[1]).toEqual(receiver.got[0]);
      const names = ['users', 'customers', 'tickets', 'messages'].map(name => `helpdesk.${name}`);
      expect(receiver.got[0]!.message.data.streams).toMatchObject(
        [...names, 'books.shelves', 'books.volumes'].map(stream => ({ stream, gaps: 0 })),
      );
      expect((await readFile(join(folder.path, 'got'), 'utf8')).match(/hand_off.complete/g)).toHaveLength(2);
      await eventually(() => expect(heard).toEqual([receiver.got[0]!.id, receiver.got[2]!.id]));
      for (const { stdout, stderr } of [first, list, sent])
        for (const secret of ['hush', handOffSecret]) expect(stdout + stderr).not.toContain(secret);
    } finally {
      await listener.end();
      await sandbox.close();
    }
  });

  test('a command with other settings sends nothing and sets nothing while a worker lives', async () => {
    await using receiver = await openReceiver();
    const handOff = handOffTo(undefined, { notify: 'load_done' });
    await using desk = await openDesk({ redisUrl: undefined, tickets: 2, settings: () => ({ handOff }) });
    await desk.worker({ reconciles: true });
    await desk.rows(
      `with h as (
         insert into sync.hand_offs (account_id, run_id, kind, started_at, ended_at, issued_at, certificate)
         values ('default', 0, 'sync', now(), now(), now(), '{"id": "handoff_0"}') returning id)
       insert into sync.hand_off_deliveries (hand_off_id, account_id, channel, next_try_at)
       select id, 'default', 'webhook', '-infinity' from h`,
    );
    const other = { ...desk.config, handOff: handOffTo(receiver.url) };
    expect((await syncOnce(other, ['users'])).exitCode).toBe(0);
    expect(receiver.got).toEqual([]);
    expect(await desk.rows('select channels, notify from sync.hand_off_settings')).toEqual([
      { channels: [], notify: 'load_done' },
    ]);
  });

  test('each backfill that was read to its end', long, async () => {
    await using db = await freshDatabase();
    await using sandbox = await openSandbox({ tickets: 5 });
    const config = configFor(db.url, sandbox, { handOff: handOffTo(new URL('http://127.0.0.1:1')) });
    const streams = ['users', 'customers', 'tickets', 'messages'];
    await backfillOnce(config, streams);
    await syncOnce(config);
    await backfillOnce(config, ['tickets'], { until: new Date('2024-01-01') });
    await backfillOnce(config, streams, { again: true });
    const { rows } = await db.pool.query('select kind, withheld from sync.hand_offs order by run_id');
    expect(rows).toEqual(['backfill', 'sync', 'backfill', 'backfill'].map(kind => ({ kind, withheld: null })));
  });

  test('an error of sending fails no sync', async () => {
    await using db = await freshDatabase();
    await using receiver = await openReceiver();
    await using sandbox = await openSandbox({ tickets: 1 });
    await db.pool.query('alter table sync.hand_off_deliveries rename column held_by to gone');
    const config = configFor(db.url, sandbox, { handOff: handOffTo(receiver.url) });
    expect((await syncOnce(config)).exitCode).toBe(0);
  });

  test(
    'a worker hands off what its runs have read, of each account to its own receiver, and one that never answers delays no other',
    long,
    async () => {
      await using db = await freshDatabase();
      await using folder = await temporary();
      await using silent = await openReceiver(() => {});
      await using receiver = await openReceiver();
      const sandboxes = [
        await startSandbox({ ...noSandboxLimits, tickets: 2 }),
        await startSandbox({ ...noSandboxLimits, tickets: 2 }),
      ];
      const file = join(folder.path, 'accounts.yml');
      const account = (name: string, n: number) =>
        `  ${name}:\n    HELPDESK_BASE_URL: ${sandboxes[n]!.url}\n    HELPDESK_TOKEN: { env: TOKEN }\n    HANDOFF_WEBHOOK_URL: { env: HOOK_${n} }\n`;
      const { HELPDESK_BASE_URL: _, HELPDESK_TOKEN: token, ...limits } = settingsFor(db.url, sandboxes[0]!);
      const hooks = { HOOK_0: silent.url.href, HOOK_1: receiver.url.href, SECRET: handOffSecret };
      await writeFile(
        file,
        `defaults:\n  HELPDESK_CREDITS: 1000000000\n  HELPDESK_REQUESTS_PER_SECOND: 1000000\n  SCHEDULE_NIGHTLY: '* * * * * *'\n  SCHEDULE_FRESH: ''\n  HANDOFF_SECRET: { env: SECRET }\naccounts:\n${account('mute', 0)}${account('heard', 1)}`,
      );
      const worker = shelfdesk(['start'], { ...limits, ...hooks, TOKEN: token, SHELFDESK_CONFIG: file });
      try {
        await eventually(() => {
          expect(silent.got).toHaveLength(1);
          expect(receiver.got.length).toBeGreaterThan(1);
        });
        expect(silent.got[0]!.message.data.account).toBe('mute');
        expect(receiver.got[0]!.message.data).toMatchObject({
          kind: 'nightly',
          streams: ['users', 'customers', 'tickets', 'messages'].map(name => ({ stream: `helpdesk.${name}`, gaps: 0 })),
        });
        expect(new Set(receiver.got.map(({ message: { data } }) => data.account))).toEqual(new Set(['heard']));
        worker.process.kill('SIGTERM');
        expect((await worker.finished).code).toBe(0);
        const left = await db.pool.query(`select from sync.hand_off_deliveries where held_by is not null`);
        expect(left.rows).toEqual([]);
      } finally {
        worker.process.kill('SIGKILL');
        await worker.finished;
        for (const one of sandboxes) await one.close();
      }
    },
  );

  test('send again, and test', async () => {
    await using db = await freshDatabase();
    let status = 204;
    await using receiver = await openReceiver(to => void to.writeHead(status).end());
    await using sandbox = await openSandbox({ tickets: 1 });
    const config = configFor(db.url, sandbox, { redisUrl: undefined, handOff: handOffTo(receiver.url) });
    expect((await syncOnce(config, ['users'])).exitCode).toBe(0);
    const run = (...args: string[]) => command(addHandOff, config, 'hand-off', ...args);
    expect(await run('send', '1', '--json')).toMatchObject({ code: 0 });
    expect(receiver.got[1]).toEqual(receiver.got[0]);
    expect(await run('send', '2')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('run 2 has no hand-off'),
    });
    expect(await run('test', '--json')).toMatchObject({ code: 0 });
    expect(receiver.got[2]!.message).toMatchObject({ type: 'hand_off.test', data: { account: 'default' } });
    // What another process sends is said, and what is sent again need not wait.
    await db.pool.query('update sync.hand_off_deliveries set delivered_at = null, held_by = 77');
    {
      await using _worker = await alive(db, 77);
      const held = await run('send', '--json');
      expect(held).toMatchObject({ code: 1 });
      expect(JSON.parse(held.stdout)).toEqual([{ channel: 'webhook', sent: 0, error: 'worker 77 is sending it' }]);
    }
    expect(await run('send', '1')).toMatchObject({ code: 0 });
    const { rows: open } = await db.pool.query('select from sync.hand_off_deliveries where delivered_at is null');
    expect(open).toEqual([]);
    status = 503;
    const refused = await run('test');
    expect(refused).toMatchObject({ code: 1, stdout: expect.stringContaining('it answered with 503') });
    expect(await run('list')).toMatchObject({ code: 0, stdout: expect.stringContaining('webhook: taken') });
    const nobody = await command(addHandOff, configFor(db.url, sandbox), 'hand-off', 'test');
    expect(nobody).toMatchObject({ code: 2, stderr: expect.stringContaining('no receiver') });
  });
});
