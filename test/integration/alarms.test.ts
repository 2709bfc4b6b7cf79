/** What is wrong is told once when it begins and once when it ends: by a real webhook, whatever that answers. */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type AlarmConfig, readConfig } from '../../src/app/config.ts';
import type { Clock } from '../../src/clock.ts';
import { UsageError } from '../../src/errors.ts';
import { keepAlarms, lookAfterAlarms, toldOf } from '../../src/ops/alarms/send-alarms.ts';
import { eventually } from '../support/desk.ts';
import { freshDatabase, type TestDatabase } from '../support/postgres.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await freshDatabase();
});
afterAll(() => db?.drop());
const rows = async (sql: string, ...values: unknown[]) =>
  (await db.pool.query<Record<string, unknown>>(sql, values)).rows;

/** A webhook that answers as it is told: 200 unless told. */
async function openHook(answer: (to: ServerResponse, n: number) => void = to => void to.end()) {
  const told: Record<string, unknown>[] = [];
  const server = createServer((asked, to) => {
    let text = '';
    asked.on('data', part => {
      text += part;
    });
    asked.on('end', () => {
      told.push(JSON.parse(text));
      answer(to, told.length);
    });
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    told,
    url: new URL(`http://127.0.0.1:${port}/services/secret`),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise(resolve => server.close(resolve));
    },
  };
}

/** A clock of the test: `at` minutes. */
function clockAt() {
  const began = Date.UTC(2026, 0, 1);
  let minutes = 0;
  const clock: Clock = {
    now: () => began + minutes * 60_000,
    monotonic: () => minutes * 60_000,
    sleep: (_ms, signal) =>
      new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason), { once: true })),
  };
  return {
    clock,
    to: (at: number) => {
      minutes = at;
    },
    iso: (at: number) => new Date(began + at * 60_000).toISOString(),
  };
}

const log = pino({ level: 'silent' });
const logged: string[] = [];
const loud = pino({ level: 'debug' }, { write: line => void logged.push(line) });

const breakIt = (account: string) =>
  rows(
    `insert into sync.credit_minutes (account_id, minute, credit_limit, refused) values ($1, now(), 100, 3)`,
    account,
  );
const mendIt = (account: string) => rows('delete from sync.credit_minutes where account_id = $1', account);

async function opened(account: string, alarm: AlarmConfig | undefined, deps: { log?: typeof log } = {}) {
  await rows(`insert into sync.accounts (account_id, since) values ($1, '2020-01-01')`, account);
  const time = clockAt();
  const look = async (at: number) => {
    time.to(at);
    await lookAfterAlarms({ pg: db.pool, clock: time.clock, log, ...deps }, [{ account, alarm }]);
  };
  return { ...time, look };
}

test('once when it begins, once when it ends, with the remedy; what lasts no minute is not told', async () => {
  await using hook = await openHook();
  const { look, iso } = await opened('once', { url: hook.url, format: 'json' });
  await look(0);
  await breakIt('once');
  await look(1);
  await mendIt('once');
  await look(1.5);
  expect(await rows('select from sync.alarms')).toEqual([]);

  await breakIt('once');
  await look(2);
  expect(hook.told).toEqual([]);
  for (const at of [3, 4, 5]) await look(at);
  const begin = {
    alarm: expect.any(Number),
    account: 'once',
    problem: 'credits_refused',
    stream: null,
    state: 'begin',
    severity: 'warning',
    says: expect.stringContaining('3 requests were refused'),
    remedy: expect.stringContaining('HELPDESK_CREDITS'),
    since: iso(2),
    ended: null,
  };
  expect(hook.told).toEqual([begin]);

  // It flaps: gone for half a minute is not gone.
  await mendIt('once');
  await look(6);
  await breakIt('once');
  await look(6.5);
  await look(8);
  expect(hook.told).toHaveLength(1);

  await mendIt('once');
  for (const at of [9, 10, 11, 12]) await look(at);
  expect(hook.told).toEqual([begin, { ...begin, state: 'end', ended: iso(9) }]);
  expect(await rows('select begin_delivered_at, end_delivered_at, next_try_at from sync.alarms')).toEqual([
    { begin_delivered_at: new Date(iso(3)), end_delivered_at: new Date(iso(10)), next_try_at: null },
  ]);

  // Anew it is another one; and after five weeks the first is forgotten.
  await breakIt('once');
  for (const at of [20, 21, 22]) await look(at);
  expect(hook.told).toHaveLength(3);
  expect(hook.told[2]!.alarm).not.toBe(hook.told[0]!.alarm);
  await look(36 * 24 * 60);
  expect(await rows(`select from sync.alarms where account_id = 'once'`)).toHaveLength(1);
  await mendIt('once');
});

test('a stream that swings around its target is told once, and its end when it has kept it for ten minutes', async () => {
  await using hook = await openHook();
  const { look } = await opened('swings', { url: hook.url, format: 'json' });
  await rows(
    `insert into sync.coverage (account_id, source, stream, list, covered)
     values ('swings', 'helpdesk', 'tickets', 'default', tstzmultirange(tstzrange('2020-01-01', now() - interval '2 minutes')))`,
  );
  await rows(`update sync.accounts set mirrored_since = now() - interval '1 day' where account_id = 'swings'`);
  const promise = (target: string) =>
    rows(
      `insert into sync.targets (account_id, subject, target) values ('swings', 'helpdesk.tickets', $1::interval)
       on conflict (account_id, subject) do update set target = excluded.target`,
      target,
    );
  for (let at = 0; at < 30; at++) {
    await promise(Math.floor(at / 3) % 2 === 0 ? '1 min' : '1 h');
    await look(at);
  }
  expect(hook.told.map(({ problem, stream, state }) => [problem, stream, state])).toEqual([
    ['past_target', 'tickets', 'begin'],
  ]);
  await promise('1 h');
  // Another source has a stream of that name meanwhile.
  await rows(`insert into sync.streams (source, stream, place, one_reader) values ('crm', 'tickets', 99, false)`);
  for (const at of [30, 39, 41]) await look(at);
  await rows(`delete from sync.streams where source = 'crm'`);
  expect(hook.told.map(({ stream, state }) => [stream, state])).toEqual([
    ['tickets', 'begin'],
    ['helpdesk.tickets', 'end'],
  ]);
});

test("in Slack's format", async () => {
  await using hook = await openHook();
  const { look } = await opened('a<b', { url: hook.url, format: 'slack' });
  await breakIt('a<b');
  for (const at of [0, 1]) await look(at);
  await mendIt('a<b');
  for (const at of [2, 3]) await look(at);
  expect(hook.told.map(({ text, ...rest }) => [String(text).split('\n'), rest])).toEqual([
    [
      [
        ':large_yellow_circle: *a&lt;b: credits refused*',
        expect.stringContaining('3 requests were refused'),
        expect.stringContaining('HELPDESK_CREDITS'),
      ],
      {},
    ],
    [
      [
        ':large_green_circle: *a&lt;b: credits refused* has ended',
        expect.stringMatching(/^From 2026-01-01 00:00 UTC to 2026-01-01 00:02 UTC: /),
      ],
      {},
    ],
  ]);
});

test('what is not taken is tried again, ever more seldom, at most once an hour; what ended meanwhile is told all the same', async () => {
  let status = 500;
  await using hook = await openHook(to => void to.writeHead(status).end('no'));
  const { look, iso } = await opened('again', { url: hook.url, format: 'json' }, { log: loud });
  await breakIt('again');
  const tried: number[] = [];
  for (const at of [0, 1, 1.9, 2, 6, 7, 21, 22, 30, 32, 81, 82, 141, 142, 201]) {
    if (at === 30) await mendIt('again');
    const before = hook.told.length;
    await look(at);
    if (hook.told.length > before) tried.push(at);
  }
  // A minute, then 1, 5, 15, 60, 60 minutes later.
  expect(tried).toEqual([1, 2, 7, 22, 82, 142]);
  const problem = await rows(`select says from sync.problems where account_id = 'again'`);
  expect(problem).toEqual([{ says: 'The webhook does not take 1 alarm: it answered with 500.' }]);
  status = 204;
  await look(202);
  expect(hook.told.slice(6).map(({ state, ended }) => [state, ended])).toEqual([
    ['begin', null],
    ['end', iso(30)],
  ]);
  await look(203);
  expect(hook.told).toHaveLength(8);
  expect(await rows(`select from sync.problems where account_id = 'again'`)).toEqual([]);
  expect(logged.join()).toContain('it answered with 500');
  expect(logged.join()).not.toContain('secret');
});

test('a webhook that is not there, and none: nothing fails, and what ended untold is not told later', async () => {
  await using hook = await openHook();
  const gone = await openHook();
  await gone[Symbol.asyncDispose]();
  const time = await opened('gone', { url: gone.url, format: 'json' });
  await breakIt('gone');
  for (const at of [0, 1]) await time.look(at);
  expect(await rows(`select tries, last_error from sync.alarms where account_id = 'gone'`)).toEqual([
    { tries: 1, last_error: 'no answer (ECONNREFUSED)' },
  ]);
  const look = (at: number, alarm?: AlarmConfig) => {
    time.to(at);
    return lookAfterAlarms({ pg: db.pool, clock: time.clock, log }, [{ account: 'gone', alarm }]);
  };
  await look(2);
  expect(await rows(`select from sync.problems where problem = 'alarms_undelivered'`)).toEqual([]);
  await mendIt('gone');
  for (const at of [3, 5]) await look(at);
  await breakIt('gone');
  for (const at of [6, 8]) await look(at);
  for (const at of [9, 10]) await look(at, { url: hook.url, format: 'json' });
  // The one that lasts is told once there is somebody to tell.
  expect(hook.told.map(({ state, since }) => [state, since])).toEqual([['begin', time.iso(6)]]);
  await mendIt('gone');
});

test('two processes tell each word once; one whose webhook hangs stops no look at anything else', async () => {
  const held: ServerResponse[] = [];
  await using hanging = await openHook(to => void held.push(to));
  await using hook = await openHook();
  const { clock, to } = await opened('two', { url: hook.url, format: 'json' });
  await rows(`insert into sync.accounts (account_id, since) values ('hangs', '2020-01-01')`);
  await breakIt('two');
  await breakIt('hangs');
  const accounts = [
    { account: 'hangs', alarm: { url: hanging.url, format: 'json' as const } },
    { account: 'two', alarm: { url: hook.url, format: 'json' as const } },
  ];
  const lookTwice = () => [0, 1].map(() => lookAfterAlarms({ pg: db.pool, clock, log }, accounts));
  await Promise.all(lookTwice());
  to(1);
  const both = lookTwice();
  await eventually(() => expect([hook.told.length, held.length]).toEqual([1, 1]));
  // Nothing is held in the database meanwhile, and others work.
  await rows(`update sync.accounts set since = '2021-01-01' where account_id = 'hangs'`);
  await eventually(() => rows('do $$ begin lock table sync.alarms in access exclusive mode nowait; end $$'));
  held[0]!.end();
  await Promise.all(both);
  expect([hook.told.length, hanging.told.length]).toEqual([1, 1]);
  await mendIt('two');
  await mendIt('hangs');
});

test('who has wrong settings now is still looked after: by the webhook that he had, or the one that all have', async () => {
  const alarm = (name: string): AlarmConfig => ({ url: new URL(`https://hooks.example/${name}`), format: 'json' });
  const served = (account: string, its: AlarmConfig | undefined) => ({
    ...readConfig('/nowhere', {}),
    account,
    alarm: its,
  });
  const refused = ['cem', 'dan'].map(account => ({ account, error: new UsageError('it is gone', 'Put it there.') }));
  const had = new Map([['cem', alarm('cem')]]);
  const of = (...accounts: ReturnType<typeof served>[]) =>
    toldOf({ accounts, refused }, had).map(one => [one.account, one.alarm?.url.pathname]);
  expect(of(served('ada', alarm('all')), served('ben', alarm('all')))).toEqual([
    ['ada', '/all'],
    ['ben', '/all'],
    ['cem', '/cem'],
    ['dan', '/all'],
  ]);
  expect(of(served('ada', alarm('all')), served('ben', undefined)).slice(2)).toEqual([
    ['cem', '/cem'],
    ['dan', undefined],
  ]);
  expect(of().at(-1)).toEqual(['dan', undefined]);

  // Nobody serves him: that is told.
  await using hook = await openHook();
  await rows(
    `insert into sync.accounts (account_id, since, mirrored_since) values ('cem', '2020-01-01', '2020-01-02')`,
  );
  await rows(
    `insert into sync.targets (account_id, subject, target) values ('cem', 'nightly', '6 h'), ('cem', 'helpdesk.users', '1 h')`,
  );
  await rows(
    `insert into sync.coverage (account_id, source, stream, list, covered)
     values ('cem', 'helpdesk', 'users', 'default', tstzmultirange(tstzrange('2020-01-01', now() - interval '2 hours')))`,
  );
  await rows(
    `insert into sync.schedule_slots (account_id, schedule, slot, claimed_at, claimed_by) values ('cem', 'fresh', now(), now(), 0)`,
  );
  const { clock, to } = clockAt();
  const all = toldOf({ accounts: [], refused }, new Map([['cem', { url: hook.url, format: 'json' as const }]]));
  for (const at of [0, 1]) {
    to(at);
    await lookAfterAlarms({ pg: db.pool, clock, log }, all);
  }
  expect(hook.told).toMatchObject([{ account: 'cem', problem: 'no_worker', state: 'begin' }]);
});

/** A clock whose sleepers are woken by hand. */
function sleepyClock(clock: Clock) {
  const wakes: (() => void)[] = [];
  const sleepy: Clock = {
    ...clock,
    sleep: (_ms, signal) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted) reject(signal.reason);
        wakes.push(() => resolve());
        signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
      }),
  };
  return { wakes, sleepy };
}

test('one whose webhook takes its time keeps nobody else waiting, not even for the next look', async () => {
  const held: ServerResponse[] = [];
  await using slow = await openHook(to => void held.push(to));
  await using quick = await openHook();
  const { clock, to } = await opened('slow', undefined);
  await rows(`insert into sync.accounts (account_id, since) values ('quick', '2020-01-01')`);
  const { wakes, sleepy } = sleepyClock(clock);
  await breakIt('slow');
  const told = [
    { account: 'slow', alarm: { url: slow.url, format: 'json' as const } },
    { account: 'quick', alarm: { url: quick.url, format: 'json' as const } },
  ];
  await using _alarms = keepAlarms({ pg: db.pool, clock: sleepy, log }, () => told);
  const looked = (times: number) => eventually(() => expect(wakes).toHaveLength(times));
  await looked(1);
  to(1);
  wakes[0]!();
  await eventually(() => expect(held).toHaveLength(1));
  await breakIt('quick');
  await looked(2);
  to(2);
  wakes[1]!();
  await looked(3);
  to(3);
  wakes[2]!();
  await eventually(() => expect(quick.told).toHaveLength(1));
  // What is on its way is not told twice, and is taken in the end.
  expect(slow.told).toHaveLength(1);
  held[0]!.end();
  await eventually(async () =>
    expect(
      await rows(`select begin_delivered_at is not null as told from sync.alarms where account_id = 'slow'`),
    ).toEqual([{ told: true }]),
  );
  await mendIt('slow');
  await mendIt('quick');
});

test('alarms run in a loop of their own: it waits for a failing database, and shutdown does not wait for a webhook', async () => {
  await using hanging = await openHook(() => {});
  const { clock, to } = await opened('loop', undefined);
  await breakIt('loop');
  const alarm = { url: hanging.url, format: 'json' as const };
  await lookAfterAlarms({ pg: db.pool, clock, log }, [{ account: 'loop', alarm }]);
  to(1);
  const { wakes, sleepy } = sleepyClock(clock);
  let asked = 0;
  const alarms = keepAlarms({ pg: db.pool, clock: sleepy, log: loud }, () => {
    if (asked++ === 0) throw new Error('it broke');
    return [{ account: 'loop', alarm }];
  });
  await eventually(() => expect(wakes).toHaveLength(1));
  wakes[0]!();
  await eventually(() => expect(hanging.told).toHaveLength(1));
  await alarms[Symbol.asyncDispose]();
  expect(logged.join()).toContain('it broke');
  await mendIt('loop');
});
