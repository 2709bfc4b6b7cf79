/** The schedule: any number of replicas, and one run for a slot (slots.ts, schedule.ts, `start`, `schedule list`). */

import { describe, expect, test } from 'vitest';
import { readConfig, type Times } from '../../src/app/config.ts';
import { addSchedule, type Scheduled } from '../../src/cli/work/schedule.ts';
import { keepSchedule, plansFor } from '../../src/engine/queue/schedule.ts';
import { nameAccount } from '../../src/engine/runs/accounts/accounts.ts';
import { claimSlot, forgetOld, type Plan } from '../../src/engine/runs/slots.ts';
import { streams, streamsOf } from '../../src/sources/index.ts';
import { command } from '../support/command.ts';
import { keysOf } from '../support/keys.ts';
import { emptyDatabase, freshDatabase } from '../support/postgres.ts';
import { at, open, type Scripted, scripted } from '../support/scripted.ts';
import { boundTo } from '../support/sources.ts';

const secondMs = 1000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

const [nightly, fresh] = plansFor(streamsOf(new Set(['helpdesk']))) as [Plan, Plan];
const plans = { nightly, fresh };

const claim = (source: Pick<Scripted, 'pool'>, plan: Plan, n: number, opener = 1) =>
  claimSlot(source.pool, 'default', plan, { slot: at(n), opener, now: at(n) });

const endAll = (source: Pick<Scripted, 'rows'>) =>
  source.rows(`with streams as (update sync.stored_run_streams set state = 'completed' where state = 'waiting')
               update sync.stored_runs set state = 'completed', finished_at = started_at where state = 'running'`);

const slotsOf = (source: Pick<Scripted, 'rows'>) =>
  source.rows('select schedule, slot, run_id, skipped from sync.schedule_slots order by slot, schedule desc');

/** But for those that read messages, which follow from what waits. */
const runsOf = (source: Pick<Scripted, 'rows'>) =>
  source.rows(`select kind, again, array_agg(stream order by stream) as streams
               from sync.stored_runs r join sync.stored_run_streams s on s.run_id = r.id
               where kind <> 'hydrate' group by r.id order by r.id`);

describe('claimSlot', () => {
  test('of any number of claims of one slot one opens a run', async () => {
    await using source = await scripted();
    const opened: number[] = [];
    for (const n of [0, 60, 120]) {
      const answers = await Promise.all(Array.from({ length: 25 }, (_, i) => claim(source, fresh, n, i)));
      const runs = answers.flatMap(answer => (answer && 'run' in answer ? [answer.run] : []));
      expect([runs.length, answers.filter(answer => answer === undefined).length]).toEqual([1, 24]);
      opened.push(...runs);
      await endAll(source);
    }
    expect(await slotsOf(source)).toEqual(
      opened.map((run, i) => ({ schedule: 'fresh', slot: at(i * 60), run_id: run, skipped: null })),
    );
    expect(await runsOf(source)).toEqual(
      opened.map(() => ({ kind: 'fresh', again: false, streams: ['customers', 'tickets'] })),
    );
  });

  test('another account has slots of its own', async () => {
    await using source = await scripted();
    await nameAccount(source.pool, 'other', boundTo({ helpdesk: new URL('https://other.example/api/v1') }));
    await claim(source, fresh, 60);
    expect(await claimSlot(source.pool, 'other', fresh, { slot: at(0), opener: 1, now: at(60) })).toMatchObject({
      run: expect.any(Number),
    });
  });

  test('an open run that reads the same is a reason to skip: a night for both, a fresh one for the fresh alone', async () => {
    await using source = await scripted();
    for (const [schedule, kind, skipped] of [
      ['fresh', 'sync', true],
      ['fresh', 'fresh', true],
      ['fresh', 'nightly', true],
      ['fresh', 'hydrate', false],
      ['fresh', 'backfill', false],
      ['nightly', 'nightly', true],
      ['nightly', 'fresh', false],
      ['nightly', 'sync', false],
      ['nightly', 'backfill', false],
    ] as const) {
      const which = `${schedule} beside ${kind}`;
      await source.rows('delete from sync.schedule_slots');
      await endAll(source);
      const run = await open(source.pool, ['customers', 'tickets'], at(0), { kind });
      const answer = await claim(source, plans[schedule], 60);
      expect(answer, which).toEqual(skipped ? { skipped: `run ${run} is open` } : { run: run + 1 });
      const slot = { schedule, slot: at(60), run_id: skipped ? null : run + 1 };
      expect(await slotsOf(source), which).toEqual([{ ...slot, skipped: skipped ? `run ${run} is open` : null }]);
      await endAll(source);
      expect(await claim(source, plans[schedule], 61), which).toMatchObject({ run: expect.any(Number) });
    }
  });

  test('a nightly run of both sources is in the way of the next until it has read the last stream of each', async () => {
    await using source = await scripted();
    const [both] = plansFor(streams);
    expect(both).toMatchObject({ schedule: 'nightly', streams: keysOf(['users', 'customers', 'tickets', 'shelves']) });
    for (const [left, blocks] of [
      [['tickets'], true],
      [['shelves'], true],
      [['users', 'customers', 'tickets'], true],
      [['users', 'customers'], false],
      [[], false],
    ] as const) {
      await source.rows('delete from sync.schedule_slots');
      await endAll(source);
      const { run } = (await claim(source, both!, 0)) as { run: number };
      await source.rows(
        `update sync.stored_run_streams s set state = 'completed' from sync.stored_runs r
         where r.id = s.run_id and r.kind = 'nightly' and s.stream <> all($1)`,
        left,
      );
      const next = blocks ? { skipped: `run ${run} is open` } : { run: expect.any(Number) };
      expect(await claim(source, both!, 60), String(left)).toEqual(next);
    }
  });

  test('an open run that has read the top already is no reason to skip', async () => {
    await using source = await scripted();
    await open(source.pool, ['customers', 'tickets', 'messages'], at(0), { kind: 'sync' });
    expect(await claim(source, fresh, 60)).toMatchObject({ skipped: expect.any(String) });
    await source.rows(`update sync.stored_run_streams set state = 'completed' where stream = 'tickets'`);
    expect(await claim(source, fresh, 120)).toMatchObject({ run: expect.any(Number) });
  });
});

describe('forgetOld', () => {
  test('removes slots, and runs that nobody asked for, after 35 days, and nothing else', async () => {
    await using source = await scripted();
    await nameAccount(source.pool, 'other', boundTo({ helpdesk: new URL('https://other.example/api/v1') }));
    const now = 100 * 24 * 3600;
    const kept = now - 35 * 24 * 3600;
    const old = kept - 1;
    for (const account of ['default', 'other'])
      for (const schedule of ['fresh', 'nightly'])
        for (const n of [old, kept])
          await source.rows('insert into sync.schedule_slots values ($1, $2, $3, $3, 1)', account, schedule, at(n));
    for (const account of ['default', 'other'])
      for (const kind of ['sync', 'fresh', 'nightly', 'hydrate', 'backfill', 'sweep', 'audit'] as const)
        for (const finished of [at(old), at(kept), null]) {
          const run = await open(source.pool, ['tickets'], at(old), { account, kind });
          await source.rows('update sync.stored_runs set finished_at = $2 where id = $1', run, finished);
        }
    const slots = `select account_id || ' ' || schedule || ' ' || (slot < $1)::text as one from sync.schedule_slots`;
    const runs = `select account_id || ' ' || kind || ' ' || coalesce((finished_at < $1)::text, 'open') as one
                  from sync.stored_runs r
                  where exists (select from sync.stored_run_streams s where s.run_id = r.id)`;
    const all = async () =>
      (await source.rows(`${slots} union all ${runs} order by one`, at(kept))).map(({ one }) => one);
    const before = await all();
    expect(before).toHaveLength(8 + 42);

    await forgetOld(source.pool, 'default', at(now));
    const gone = ['fresh true', 'nightly true', 'fresh true', 'hydrate true', 'audit true', 'sweep true'].map(
      one => `default ${one}`,
    );
    const after = await all();
    expect(after).toHaveLength(before.length - gone.length);
    expect([...after, ...gone].sort()).toEqual([...before].sort());
    expect(
      await source.rows(
        `select account_id, kind from sync.stored_runs where finished_at < $1 and account_id = 'default'
                              order by kind`,
        at(kept),
      ),
    ).toMatchObject([{ kind: 'backfill' }, { kind: 'nightly' }, { kind: 'sync' }]);
    expect(
      await source.rows('select from sync.stored_run_streams where run_id not in (select id from sync.stored_runs)'),
    ).toEqual([]);
  });
});

describe('keepSchedule on a clock of the test', () => {
  const off: Times = { fresh: '', nightly: '', timeZone: 'UTC' };
  const keep = (source: Scripted, times: Partial<Times>, opener = 1) =>
    keepSchedule(source.ctx, { ...off, ...times }, opener, () => {});

  test('a day without anybody: the night is caught up once, as the last of several', async () => {
    await using source = await scripted();
    const day = 24 * 3600;
    await claim(source, nightly, 2 * 3600);
    await endAll(source);
    source.goTo(4 * day + 3600);
    await using one = keep(source, { nightly: '0 2 * * *' }, 1);
    await using other = keep(source, { nightly: '0 2 * * *' }, 2);
    expect((await Promise.all([one.look(), other.look()])).filter(Boolean)).toHaveLength(1);
    await endAll(source);
    expect([await one.look(), await other.look()]).toEqual([false, false]);
    await using restarted = keep(source, { nightly: '0 2 * * *' }, 3);
    expect(await restarted.look()).toBe(false);
    expect((await slotsOf(source)).map(({ slot }) => slot)).toEqual([at(2 * 3600), at(3 * day + 2 * 3600)]);
    source.goTo(4 * day + 2 * 3600);
    expect([await other.look(), await one.look(), await restarted.look()]).toEqual([true, false, false]);
  });

  test('where both are due, the night goes first, and reads what is fresh', async () => {
    await using source = await scripted();
    source.goTo(0);
    await using schedule = keep(source, { fresh: '* * * * *', nightly: '0 0 * * *' });
    expect(await schedule.look()).toBe(true);
    const [first, second] = await slotsOf(source);
    expect(first).toMatchObject({ schedule: 'nightly', run_id: expect.any(Number) });
    expect(second).toMatchObject({ schedule: 'fresh', run_id: null, skipped: `run ${first!.run_id} is open` });
  });

  test('a claim that fails is made again', async () => {
    await using source = await scripted();
    source.goTo(0);
    await using schedule = keep(source, { fresh: '* * * * *' });
    await source.rows('alter table sync.schedule_slots rename claimed_at to away');
    await expect(schedule.look()).rejects.toThrow('claimed_at');
    await source.rows('alter table sync.schedule_slots rename away to claimed_at');
    expect(await schedule.look()).toBe(true);
  });

  test('nothing is opened where both are off', async () => {
    await using source = await scripted();
    await using schedule = keep(source, {});
    expect(await schedule.look()).toBe(false);
    expect([await slotsOf(source), await runsOf(source)]).toEqual([[], []]);
  });
});

describe('schedule list', () => {
  const list = async (env: Record<string, string>, ...options: string[]) => {
    const config = readConfig('/nowhere', env);
    const { code, stdout, stderr } = await command(addSchedule, config, 'schedule', 'list', ...options);
    expect(code, stderr).toBe(0);
    return { stdout, stderr };
  };

  test('the next slots, and what became of the last one', async () => {
    await using db = await freshDatabase();
    const env = {
      DATABASE_URL: db.url,
      SCHEDULE_FRESH: '15 * * * * *',
      SCHEDULE_NIGHTLY: '30 3 * * *',
      SCHEDULE_TIME_ZONE: 'Asia/Kolkata',
    };
    await db.pool.query(
      `insert into sync.schedule_slots values
         ('default', 'fresh', '2026-01-01T00:00:15Z', '2026-01-01T00:00:15Z', 1, 41, null),
         ('default', 'fresh', '2026-01-01T00:01:15Z', '2026-01-01T00:01:15Z', 1, 42, null),
         ('default', 'nightly', '2025-12-31T22:00:00Z', '2025-12-31T22:00:00Z', 1, null, 'run 40 is open'),
         ('other', 'nightly', '2026-01-02T22:00:00Z', '2026-01-02T22:00:00Z', 1, 43, null)`,
    );
    const before = Date.now();
    const found: Scheduled[] = JSON.parse((await list(env, '--json')).stdout);
    expect(found).toEqual([
      {
        account: 'default',
        schedule: 'nightly',
        cron: '30 3 * * *',
        time_zone: 'Asia/Kolkata',
        reads: ['users', 'customers', 'tickets', 'shelves'],
        next: Array(3).fill(expect.stringMatching(/T22:00:00\.000Z$/)),
        last: '2025-12-31T22:00:00.000Z',
        last_run: null,
        last_skipped: 'run 40 is open',
      },
      {
        account: 'default',
        schedule: 'fresh',
        cron: '15 * * * * *',
        time_zone: 'Asia/Kolkata',
        reads: ['customers', 'tickets'],
        next: Array(3).fill(expect.stringMatching(/:15\.000Z$/)),
        last: '2026-01-01T00:01:15.000Z',
        last_run: 42,
        last_skipped: null,
      },
    ]);
    for (const [i, stepMs] of [dayMs, minuteMs].entries()) {
      const [first, second, third] = found[i]!.next.map(next => new Date(next).getTime());
      expect(first).toBeGreaterThan(before);
      expect(first! - stepMs).toBeLessThanOrEqual(Date.now());
      expect([second! - first!, third! - second!]).toEqual([stepMs, stepMs]);
    }

    const lines = (await list(env)).stdout.trimEnd().split('\n');
    expect(lines[0]).toMatch(/^account +schedule +next +last +gave +cron +time zone +reads +then +then$/);
    expect(lines[2]).toMatch(
      /^default +nightly +\S+T22:00:00Z +2025-12-31T22:00:00Z +run 40 is open +30 3 \* \* \* +Asia\/Kolkata +users, customers, tickets, shelves( +\S+T22:00:00Z){2}$/,
    );
    expect(lines[3]).toMatch(
      /^default +fresh +\S+:15Z +2026-01-01T00:01:15Z +run 42 +15 \* \* \* \* \* .*( +\S+:15Z){2}$/,
    );
    expect(lines).toHaveLength(4);
  });

  test('with the catalog alone: the night, and nothing but its shelves', async () => {
    await using db = await freshDatabase();
    const books = { BOOKS_BASE_URL: 'http://127.0.0.1:1/books/v1', BOOKS_USERS: 'ada' };
    const found: Scheduled[] = JSON.parse((await list({ DATABASE_URL: db.url, ...books }, '--json')).stdout);
    expect(found.map(({ schedule, reads }) => [schedule, reads])).toEqual([['nightly', ['shelves']]]);
  });

  test('before anything was taken, and before there are tables; what is off is not in it', async () => {
    await using db = await emptyDatabase();
    const [nightly, ...more]: Scheduled[] = JSON.parse(
      (await list({ DATABASE_URL: db.url, SCHEDULE_FRESH: '' }, '--json')).stdout,
    );
    expect(more).toEqual([]);
    expect(nightly).toMatchObject({ schedule: 'nightly', cron: '0 2 * * *', last: null, last_run: null });
    expect(nightly!.next).toHaveLength(3);
    const { stdout } = await list({ DATABASE_URL: db.url, SCHEDULE_NIGHTLY: '' });
    expect(stdout).toMatch(/^default +fresh +\S+Z +never /m);
    expect(stdout).not.toContain('nightly');
  });

  test('off', async () => {
    await using db = await freshDatabase();
    const env = { DATABASE_URL: db.url, SCHEDULE_FRESH: '', SCHEDULE_NIGHTLY: '' };
    const said =
      'Nothing is scheduled: SCHEDULE_FRESH and SCHEDULE_NIGHTLY are empty, or no source is configured for them.\n';
    expect(await list(env)).toEqual({ stdout: '', stderr: said });
    expect(await list(env, '--json')).toEqual({ stdout: '[]\n', stderr: said });
  });
});
