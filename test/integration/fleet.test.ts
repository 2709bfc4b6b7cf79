/** Many accounts in the processes of `start`: real ones, on both queues. */
import { rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { SandboxOptions } from '../../packages/sandbox/src/server.ts';
import { systemClock } from '../../src/clock.ts';
import { attend } from '../../src/engine/runs/workers.ts';
import { liveWorkers } from '../../src/status/workers.ts';
import { type Fleet, openFleet } from '../support/fleet.ts';
import { ran } from '../support/here.ts';
import { long } from '../support/long.ts';
import { differences, noSandboxLimits } from '../support/mirror.ts';
import { freshDatabase } from '../support/postgres.ts';
import { describeOnRedis } from '../support/redis.ts';
import { wayTo } from '../support/way.ts';

const eventually = (look: () => Promise<unknown>) => vi.waitFor(look, { timeout: 100_000, interval: 200 });

/** The night is caught up at once, and reads everything; then each second the top. */
const times = { SCHEDULE_FRESH: '* * * * * *', SCHEDULE_NIGHTLY: '0 2 * * *' };
/** What the client keeps to, less than the sandbox allows. */
const unlimited = {
  HELPDESK_CREDITS: String(noSandboxLimits.credits),
  HELPDESK_REQUESTS_PER_SECOND: String(noSandboxLimits.requestsPerSecond),
};

async function given(
  names: readonly string[],
  options: {
    world?: (name: string) => SandboxOptions;
    settings?: (name: string) => Record<string, string>;
    env?: Record<string, string>;
  },
  act: (all: {
    pool: import('pg').Pool;
    url: string;
    fleet: Fleet;
    equal: (name: string) => Promise<void>;
  }) => Promise<void>,
): Promise<void> {
  await using db = await freshDatabase();
  await using stack = new AsyncDisposableStack();
  const fleet = await openFleet(stack, names, {
    env: { DATABASE_URL: db.url, ...options.env },
    world: name => ({ ...noSandboxLimits, tickets: 20, seed: name.charCodeAt(0), ...options.world?.(name) }),
    settings: name => ({ ...unlimited, ...options.settings?.(name) }),
    defaults: times,
  });
  const equal = async (name: string) => {
    const { world } = fleet.sandboxes.get(name)!;
    await eventually(async () => expect(await differences(db.pool, world, name)).toEqual([]));
  };
  await act({ pool: db.pool, url: db.url, fleet, equal });
}

test('one process serves all accounts; an account that fails stops no other, and is served as soon as possible', async () => {
  const other = createServer();
  await new Promise<void>(resolve => other.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void other.close());
  const taken = String((other.address() as AddressInfo).port);
  await given(['ada', 'ben', 'cem'], { env: { SHELFDESK_WEB_PORT: taken } }, async ({ pool, fleet, equal }) => {
    const { url, token } = fleet.sandboxes.get('cem')!;
    rmSync(join(fleet.folder, 'cem-token'));
    // Another account had this name, of another source.
    await pool.query(
      `insert into sync.sources (account_id, source, address) values ('ben', 'helpdesk', 'https://elsewhere.example/api/v1')`,
    );
    const process = fleet.start();
    await process.begun;
    expect(process.told()).toMatch(/^! cem: HELPDESK_TOKEN \(line 1 of .*\) names .*cem-token, which cannot be read/m);
    expect(process.told()).toMatch(
      /^! ben: this warehouse holds account 'ben' of elsewhere.example, and HELPDESK_BASE_URL/m,
    );
    expect(process.told()).toMatch(/^Running for 1 account \(ada\)\. Press Ctrl-C to stop\./m);
    expect(process.told()).not.toContain(token);
    await equal('ada');

    await pool.query('update sync.sources set address = $1 where account_id = $2', [
      fleet.sandboxes.get('ben')!.url,
      'ben',
    ]);
    writeFileSync(join(fleet.folder, 'cem-token'), token);
    process.kill('SIGHUP');
    await Promise.all([equal('ben'), equal('cem')]);
    expect(process.told()).toMatch(/^✓ cem: is running now/m);
    expect(process.told()).toMatch(/^\S+ ✓ cem: run \d+, nightly: completed/m);

    // What only looks shows all of them, or the one that is named.
    const shown = (...args: string[]) => ran(args, fleet.env, fleet.folder);
    const [all, one, health, schedule] = await Promise.all([
      shown('status', '--json'),
      shown('status', '--json', '--account', 'ben'),
      shown('status', '--check'),
      shown('schedule', 'list', '--json'),
    ]);
    const { accounts, workers, streams } = JSON.parse(all.stdout);
    expect(accounts).toContainEqual({ account: 'cem', helpdesk: true, books: false });
    const names = (rows: { account: string }[]) => [...new Set(rows.map(({ account }) => account))];
    for (const rows of [accounts, workers, streams, JSON.parse(schedule.stdout)])
      expect(names(rows).sort()).toEqual(['ada', 'ben', 'cem']);
    expect(JSON.parse(one.stdout)).toMatchObject({ account: 'ben', helpdesk: true, workers: [{ account: 'ben' }] });
    expect((await shown('status', '--account', 'ben')).stderr).toContain(
      `does not serve the page: port ${taken} of 127.0.0.1 is in use by another program.`,
    );
    expect(names(JSON.parse(one.stdout).streams)).toEqual(['ben']);
    expect([health.code, health.stdout]).toEqual([0, expect.stringContaining('healthy: 3 accounts on ')]);

    // A file that cannot be read changes nothing; one that lacks an account ends what it has.
    writeFileSync(join(fleet.folder, 'fleet.yml'), 'accounts: [');
    process.kill('SIGHUP');
    await eventually(async () =>
      expect(process.told()).toMatch(/^! SHELFDESK_CONFIG: line 1 of .* is not valid YAML/m),
    );
    expect(await liveWorkers(pool, ['cem'])).toHaveLength(1);
    const { cem: _, ...others } = fleet.settings;
    fleet.write({
      ...others,
      dan: {
        HELPDESK_BASE_URL: url.replace('127.0.0.1', 'localhost'),
        HELPDESK_TOKEN: { file: 'cem-token' },
        ...unlimited,
      },
    });
    process.kill('SIGHUP');
    await eventually(async () => {
      expect(await liveWorkers(pool, ['dan'])).toHaveLength(1);
      expect(await liveWorkers(pool, ['cem'])).toEqual([]);
    });
    // Its promises are as they were: that it is to rest, it can be told all the same.
    const problems = `select problem from sync.problems where account_id = 'cem' and problem in ('no_worker', 'paused')`;
    expect((await pool.query(problems)).rows).toEqual([{ problem: 'no_worker' }]);
    for (const words of [
      ['pause', 'cem'],
      ['resume', 'cem'],
      ['pause', '--account', 'cem'],
    ])
      expect(await shown(...words)).toMatchObject({ code: 0 });
    expect((await pool.query(problems)).rows).toEqual([{ problem: 'paused' }]);
    process.kill('SIGTERM');
    expect((await process.finished).code).toBe(0);
    expect((await pool.query('select id from sync.workers')).rows).toEqual([]);
  });
});

test('none that can be served is an error, and commands say which there are', long, async () => {
  await given(['ada', 'ben'], {}, async ({ fleet }) => {
    for (const name of ['ada', 'ben']) rmSync(join(fleet.folder, `${name}-token`));
    const { code, stderr } = await ran(['start'], fleet.env, fleet.folder);
    expect([code, stderr]).toEqual([1, expect.stringContaining('error: no account could be started')]);
    const sync = await ran(['sync'], fleet.env, fleet.folder);
    expect([sync.code, sync.stderr]).toEqual([2, expect.stringContaining('Choose with --account: ada, ben.')]);
    const named = await ran(['sync', '--account', 'ada'], fleet.env, fleet.folder);
    expect([named.code, named.stderr]).toEqual([2, expect.stringContaining('ada-token, which cannot be read')]);
  });
});

test('a session that is lost and made again is there for all accounts again, but for those that have left', async () => {
  await using db = await freshDatabase();
  await using way = await wayTo(db.url);
  const me = (account: string) => ({ account, works: true, host: 'here', pid: 1, version: '0' });
  const hasty = { ...systemClock, sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 20, signal) };
  await using attendance = await attend(way.url, hasty);
  const [ada, ben, cem] = [
    await attendance.enter(me('ada')),
    await attendance.enter(me('ben')),
    await attendance.enter(me('cem')),
  ];
  const alive = async () =>
    (await db.pool.query<{ id: number }>('select id from sync.workers where sync.is_alive(id) order by id')).rows.map(
      ({ id }) => id,
    );
  const sessions = `select count(*)::int as n from pg_stat_activity where datname = current_database() and application_name = 'shelfdesk: presence'`;
  expect(await alive()).toEqual([ada.id, ben.id, cem.id]);
  expect((await db.pool.query(sessions)).rows).toEqual([{ n: 1 }]);
  await way.close();
  await eventually(async () => expect(await alive()).toEqual([]));
  // The server knows it first.
  await eventually(async () => expect([ada, ben].map(one => one.seesAll())).toEqual([false, false]));
  await expect(attendance.enter(me('dan'))).rejects.toThrow('Connection terminated');
  await cem[Symbol.asyncDispose]();
  // Somebody comes, and takes them for dead.
  await using other = await attend(db.url, systemClock);
  const another = await other.enter(me('ada'));
  await way.open();
  await eventually(async () => expect(await alive()).toEqual([ada.id, ben.id, another.id]));
  expect((await liveWorkers(db.pool, ['ada'])).map(({ id }) => id)).toEqual([ada.id, another.id]);
  const dan = await attendance.enter(me('dan'));
  expect(await alive()).toEqual([ada.id, ben.id, another.id, dan.id]);
  await ada[Symbol.asyncDispose]();
  expect(await alive()).toEqual([ben.id, another.id, dan.id]);
});

describeOnRedis(
  'a fleet, with the queue in Redis',
  ({ url: REDIS_URL }) => {
    test('two processes, one killed: the other one goes on with all accounts, within the budget of each, and the large one holds up nobody', async () => {
      // The large one has so few credits that its first load goes on after all is over.
      const limits = (name: string) => ({
        credits: name === 'big' ? 60 : 400,
        requestsPerSecond: 400,
        periodSeconds: 5,
      });
      await given(
        ['big', 'ada', 'ben'],
        {
          env: { REDIS_URL },
          world: name => ({ ...limits(name), tickets: name === 'big' ? 2000 : 20 }),
          settings: name => ({
            HELPDESK_CREDITS: String(limits(name).credits),
            HELPDESK_PERIOD_SECONDS: '5',
            HELPDESK_REQUESTS_PER_SECOND: '400',
          }),
        },
        async ({ pool, fleet, equal }) => {
          const processes = [fleet.start(), fleet.start()];
          await Promise.all(processes.map(({ begun }) => begun));
          await eventually(async () => {
            const { rows } = await pool.query(
              `select count(distinct w.pid)::int as processes from sync.stored_run_streams s join sync.workers w on w.id = s.worker`,
            );
            expect(rows).toEqual([{ processes: 2 }]);
          });
          processes[0]!.kill('SIGKILL');
          await processes[0]!.finished;
          const [ada, ben] = ['ada', 'ben'].map(name => fleet.sandboxes.get(name)!.world);
          ada!.addTicket({ subject: 'Behind the kill' });
          ben!.addMessage(ben!.byUpdated.at(0)!.id, { body: 'Behind the kill' });
          await Promise.all([equal('ada'), equal('ben')]);
          const waits = `select count(*)::int as n from helpdesk.tickets where account_id = 'big' and _messages_as_of is null`;
          await eventually(async () => expect((await pool.query(waits)).rows[0].n).toBeGreaterThan(0));
          // What the dead one had in hand of it is the other one's.
          await eventually(async () => {
            const { rows } = await pool.query(
              `select distinct w.pid from sync.stored_run_streams s join sync.workers w on w.id = s.worker
             where s.account_id = 'big' and s.state = 'running' and sync.is_alive(s.worker)`,
            );
            expect(rows).toEqual([{ pid: processes[1]!.pid }]);
          });
          processes[1]!.kill('SIGTERM');
          expect((await processes[1]!.finished).code).toBe(0);
          for (const [name, { totals }] of fleet.sandboxes) expect([name, totals.refused]).toEqual([name, 0]);
        },
      );
    });
  },
  { takesLong: true },
);
