/** What probes and Prometheus are told: each thing that is watched is broken once, and said. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { systemClock } from '../../src/clock.ts';
import { makePool } from '../../src/engine/database/pool.ts';
import type { OpenQueue, Queues } from '../../src/engine/queue/job-queue.ts';
import { openQueues } from '../../src/engine/queue/queue.ts';
import { merged } from '../../src/ops/metrics/bullmq-metrics.ts';
import { healthz, livez, readyz } from '../../src/ops/metrics/health.ts';
import { counters, gauges, type Measured, makeMetrics } from '../../src/ops/metrics/metrics.ts';
import { emptyDatabase, freshDatabase, type TestDatabase } from '../support/postgres.ts';
import { describeOnRedis } from '../support/redis.ts';
import { wayTo } from '../support/way.ts';

let db: TestDatabase;
let server: Queues;
const queues = new Map<string, OpenQueue['bull']>();
const opened = new AsyncDisposableStack();
beforeAll(async () => {
  db = opened.use(await freshDatabase());
  server = opened.use(await openQueues({ redisUrl: undefined, databaseUrl: db.url }));
  const queue = opened.use(server.open('probed'));
  queues.set('acme', queue.bull);
  await queue.add('nothing', 'one', {});
  await db.pool.query(`insert into sync.accounts (account_id, since, mirrored_since) values
    ('acme', '2020-01-01', now() - interval '1 day'), ('bolt', '2020-01-01', now() - interval '1 day')`);
  await db.pool.query(`insert into sync.coverage (account_id, source, stream, list, covered)
    select a, 'helpdesk', s, 'default', tstzmultirange(tstzrange('2020-01-01', now() - interval '2 minutes'))
    from unnest('{acme,bolt}'::text[]) a, unnest('{users,customers,tickets}'::text[]) s`);
  await db.pool.query(
    `insert into sync.targets (account_id, subject, target) values ('acme', 'helpdesk.tickets', '5 min'), ('bolt', 'helpdesk.tickets', '5 min')`,
  );
});
afterAll(() => opened.disposeAsync());

const watched = (more: Partial<Measured> = {}): Measured => ({
  ...{ pg: db.pool, clock: systemClock, queues, findQueues: async () => {}, pingQueues: () => server.ping() },
  refused: () => [],
  ...more,
});
const away = () => Promise.reject(new Error('gone'));
const never = () => new Promise<never>(() => {});
/** Nobody's retryOutages lasts. */
const hasty = { ...systemClock, sleep: async () => {} };
function patientOnce(): typeof systemClock {
  let asked = 0;
  return {
    ...systemClock,
    sleep: (ms, signal) => (asked++ === 0 ? systemClock.sleep(ms, signal) : Promise.resolve()),
  };
}

describe('ready', () => {
  test('where database, tables and queue are; alive whatever is', async () => {
    expect(livez().status).toBe(200);
    expect(await readyz(watched())).toEqual({
      status: 200,
      body: { status: 'ok', checks: { database: 'ok', migrations: 'ok', queue: 'ok' } },
    });
  });

  test('not without the database, whose address it does not tell', async () => {
    const pool = makePool('postgres://someone:secret@127.0.0.1:1/nowhere');
    const { status, body } = await readyz(watched({ pg: pool }));
    await pool.end();
    expect(status).toBe(503);
    expect(body.checks).toMatchObject({ database: expect.stringMatching(/^the database does not answer: /) });
    expect(JSON.stringify(body)).not.toContain('secret');
    expect((await healthz(watched({ pg: pool }))).status).toBe(503);
  });

  test('not before the tables are there, nor with those of a newer program', async () => {
    await using empty = await emptyDatabase();
    const missing = await readyz(watched({ pg: empty.pool }));
    expect(missing).toMatchObject({ status: 503, body: { checks: { migrations: expect.stringMatching(/migrate/) } } });
    await using newer = await freshDatabase();
    await newer.pool.query(`insert into sync.migrations (name, run_on) values ('9999_from_the_future', now())`);
    const unknown = await readyz(watched({ pg: newer.pool }));
    expect(unknown).toMatchObject({
      status: 503,
      body: { checks: { migrations: expect.stringMatching(/9999.*upgrade/) } },
    });
  });

  test('not without the queue, and not with a queue that never answers, even before the first account', async () => {
    const queues = new Map();
    expect(await readyz(watched({ queues, pingQueues: away }))).toMatchObject({
      status: 503,
      body: { checks: { database: 'ok', queue: 'the queue does not answer: gone' } },
    });
    expect(await readyz(watched({ queues, pingQueues: never, clock: hasty }))).toMatchObject({
      status: 503,
      body: { checks: { queue: expect.stringMatching(/within 2 s/) } },
    });
  });

  describeOnRedis('on Redis', redis => {
    test('not while it is away', async () => {
      await using way = await wayTo(redis.url);
      await using onRedis = await openQueues({ redisUrl: way.url, databaseUrl: db.url });
      const ready = async () => (await readyz(watched({ pingQueues: () => onRedis.ping() }))).body.checks;
      expect(await ready()).toMatchObject({ queue: 'ok' });
      await way.close();
      expect(await ready()).toMatchObject({
        database: 'ok',
        queue: expect.stringMatching(/^the queue does not answer/),
      });
      await way.open();
    });
  });
});

describe('healthy', () => {
  test('while what was promised is kept; else it says what is broken, for its account alone', async () => {
    expect(await healthz(watched())).toMatchObject({ status: 200, body: { status: 'ok', broken: [] } });
    await db.pool.query(`update sync.coverage set covered = tstzmultirange(tstzrange('2020-01-01', now() - interval '20 minutes'))
      where account_id = 'bolt' and stream = 'tickets'`);
    const { status, body } = await healthz(watched());
    expect(status).toBe(503);
    expect(body.broken).toEqual([
      {
        account: 'bolt',
        stream: 'tickets',
        problem: 'past_target',
        says: expect.stringContaining('behind'),
        remedy: expect.stringContaining('npx shelfdesk'),
        since: expect.any(Date),
      },
    ]);
    expect((await healthz(watched(), 'acme')).status).toBe(200);
    expect((await healthz(watched(), 'bolt')).status).toBe(503);
    await db.pool.query(`update sync.coverage set covered = tstzmultirange(tstzrange('2020-01-01', now() - interval '2 minutes'))
      where account_id = 'bolt' and stream = 'tickets'`);
    expect((await healthz(watched())).status).toBe(200);
  });

  test('not an account of which nothing is here', async () => {
    expect(await healthz(watched(), 'acne')).toMatchObject({ status: 404, body: { status: 'unknown' } });
  });

  test('not while something critical holds', async () => {
    await db.pool.query(`insert into sync.schedule_slots (account_id, schedule, slot, claimed_at, claimed_by)
      values ('acme', 'fresh', now(), now(), 1)`);
    // Nobody works: that is broken once something waits longer than was promised.
    expect((await healthz(watched())).status).toBe(200);
    const ended = (ago: string) =>
      db.pool.query(
        `update sync.coverage set covered = tstzmultirange(tstzrange('2020-01-01', now() - $1::interval))
         where account_id = 'acme' and stream = 'tickets'`,
        [ago],
      );
    await ended('20 minutes');
    const { status, body } = await healthz(watched());
    await ended('2 minutes');
    await db.pool.query('delete from sync.schedule_slots');
    expect(status).toBe(503);
    expect(body.broken).toMatchObject([{ account: 'acme', stream: null, problem: 'no_worker' }]);
  });
});

/** Samples by name and labels, as Prometheus reads them. */
function samplesOf(text: string): Map<string, number> {
  return new Map(
    text
      .split('\n')
      .filter(line => line !== '' && !line.startsWith('#'))
      .map(line => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  );
}

const families = [...gauges, ...counters];
const ours = families.flatMap(({ of }) => of.map(({ name }) => name));

describe('metrics', () => {
  test('say what SQL says, and count what has ended once', async () => {
    let nowMs = Date.now();
    const clock = { ...systemClock, now: () => nowMs };
    const metrics = makeMetrics(watched({ clock }), '1.2.3');
    const minute = (ms: number) => new Date(Math.floor(ms / 60_000) * 60_000);
    await db.pool.query(
      `insert into sync.credit_minutes (account_id, source, minute, credit_limit, fresh, backfill, others, waited_ms, refused)
       values ('acme', 'helpdesk', $1, 100, 30, 50, 7, 1500, 2)`,
      [minute(nowMs)],
    );
    await db.pool.query(
      `with r as (
         insert into sync.stored_runs (account_id, kind, state, started_at, finished_at)
         values ('acme', 'fresh', 'completed', $1::timestamptz - interval '5 s', $1) returning id)
       insert into sync.stored_run_streams (run_id, account_id, source, stream, state, inserted, updated, finished_at)
       select id, 'acme', 'helpdesk', 'tickets', 'completed', 3, 4, $1 from r`,
      [new Date(nowMs + 1000)],
    );
    await db.pool.query(
      `insert into sync.change_latencies (account_id, source, stream, minute, latency_seconds, changes) values
      ('acme', 'helpdesk', 'tickets', $1, 10, 3), ('acme', 'helpdesk', 'tickets', $1, 40, 1)`,
      [minute(nowMs)],
    );
    const before = samplesOf(await metrics.text());
    expect(before.get('shelfdesk_info{version="1.2.3"}')).toBe(1);
    expect(before.get('shelfdesk_stream_target_seconds{account="acme",source="helpdesk",stream="tickets"}')).toBe(300);
    expect(
      before.get('shelfdesk_stream_behind_seconds{account="bolt",source="helpdesk",stream="tickets"}'),
    ).toBeGreaterThanOrEqual(120);
    expect(
      before.get('shelfdesk_stream_state{account="bolt",source="helpdesk",stream="tickets",state="never_synced"}'),
    ).toBe(1);
    expect(before.get('shelfdesk_workers{account="acme"}')).toBe(0);
    const through = before.get(
      'shelfdesk_stream_complete_through_timestamp_seconds{account="acme",source="helpdesk",stream="tickets"}',
    )!;
    expect(Math.abs(through - Date.now() / 1000)).toBeLessThan(600);
    expect(before.get('shelfdesk_credit_limit{account="acme",source="helpdesk"}')).toBe(100);
    expect(before.get('shelfdesk_credits_used_by_others{account="acme",source="helpdesk"}')).toBe(7);
    expect(before.get('shelfdesk_change_latency_p50_seconds{account="acme",source="helpdesk",stream="tickets"}')).toBe(
      10,
    );
    expect(before.get('shelfdesk_change_latency_p95_seconds{account="acme",source="helpdesk",stream="tickets"}')).toBe(
      40,
    );
    expect(before.get('shelfdesk_last_run_duration_seconds{account="acme",kind="fresh"}')).toBe(5);
    expect(before.get('bullmq_job_count{state="waiting", account="acme"}')).toBe(1);
    // Its minute is not over, and what has not ended is not counted.
    const credits = 'shelfdesk_credits_total{account="acme",source="helpdesk",lane="backfill"}';
    expect(before.get(credits)).toBeUndefined();

    nowMs += 4 * 60_000;
    const after = samplesOf(await metrics.text());
    expect(after.get(credits)).toBe(50);
    expect(after.get('shelfdesk_requests_refused_total{account="acme",source="helpdesk"}')).toBe(2);
    expect(after.get('shelfdesk_credit_wait_seconds_total{account="acme",source="helpdesk"}')).toBe(1.5);
    expect(after.get('shelfdesk_runs_total{account="acme",kind="fresh",state="completed"}')).toBe(1);
    expect(
      after.get('shelfdesk_records_total{account="acme",source="helpdesk",stream="tickets",outcome="updated"}'),
    ).toBe(4);
    expect(after.get('shelfdesk_changes_total{account="acme",source="helpdesk",stream="tickets"}')).toBe(4);
    expect(after.get('shelfdesk_change_latency_seconds_total{account="acme",source="helpdesk",stream="tickets"}')).toBe(
      70,
    );

    nowMs += 60_000;
    const [one, two] = await Promise.all([metrics.text(), metrics.text()]);
    for (const text of [one, two]) expect(samplesOf(text).get(credits)).toBe(50);
  });

  test('of the queue are left out while it does not answer, and of accounts that come later they are there', async () => {
    const late = new Map<string, OpenQueue['bull']>();
    const findQueues = async () => void late.set('acme', queues.get('acme')!);
    const textOf = (more: Partial<Measured>) => makeMetrics(watched({ queues: late, findQueues, ...more }), '1').text();
    const there = samplesOf(await textOf({}));
    expect(there.get('bullmq_job_count{state="waiting", account="acme"}')).toBe(1);
    expect(there.get('shelfdesk_queue_answers')).toBe(1);
    expect(samplesOf(await textOf({ refused: () => ['dan'] })).get('shelfdesk_accounts_refused')).toBe(1);
    const silent = new Map([['acme', { exportPrometheusMetrics: never }]]);
    for (const [more, answers] of [
      [{ pingQueues: away }, 0],
      [{ pingQueues: never, clock: hasty }, 0],
      [{ queues: silent, findQueues: async () => {}, clock: patientOnce() }, 1],
    ] as const) {
      const text = samplesOf(await textOf(more));
      expect(text.get('shelfdesk_stream_target_seconds{account="acme",source="helpdesk",stream="tickets"}')).toBe(300);
      expect(text.get('shelfdesk_queue_answers')).toBe(answers);
      expect([...text.keys()].join()).not.toContain('bullmq');
    }
  });

  test('are at least twenty of our own, in base units, without ids in their labels', () => {
    expect(new Set(ours).size).toBe(ours.length);
    expect(ours.length).toBeGreaterThanOrEqual(20);
    for (const name of ours) expect(name).toMatch(/^shelfdesk_[a-z0-9_]+$/);
    for (const name of ours) expect(name).not.toMatch(/_(ms|minutes|hours|days|percent|kb|mb)(_|$)/);
    for (const { of } of counters) for (const { name } of of) expect(name).toMatch(/_total$/);
    for (const { of } of gauges) for (const { name } of of) expect(name).not.toMatch(/_total$/);
    const labels = new Set(families.flatMap(family => family.labels));
    expect([...labels].sort()).toEqual(
      ['account', 'action', 'kind', 'lane', 'outcome', 'problem', 'severity', 'source', 'state', 'stream'].sort(),
    );
  });

  test('of several queues stand together, each explained once', () => {
    const text = (account: string, n: number) =>
      `# HELP m Words\n# TYPE m gauge\nm{queue="shelfdesk-1f", state="active", account="${account}"} ${n}\n`;
    expect(merged([text('a', 1), text('b', 2)])).toBe(
      '# HELP m Words\n# TYPE m gauge\nm{state="active", account="a"} 1\nm{state="active", account="b"} 2\n',
    );
  });

  test('the dashboard and the alert rules ask for nothing that is not there', async () => {
    const text = await makeMetrics(watched(), '1').text();
    const bullmq = [...text.matchAll(/^# TYPE (bullmq_\w+)/gm)].map(([, name]) => name!);
    const known = new Set([
      ...ours,
      'shelfdesk_info',
      'shelfdesk_queue_answers',
      'shelfdesk_accounts_refused',
      'shelfdesk_logins_refused_total',
      ...bullmq,
    ]);
    const read = (name: string) => readFileSync(new URL(`../../docs/monitoring/${name}`, import.meta.url), 'utf8');
    const panels: { targets: { expr: string }[] }[] = JSON.parse(read('grafana-dashboard.json')).panels;
    const rules: { expr: string; annotations: { summary: string; remedy: string } }[] = parse(read('alerts.yml'))
      .groups[0].rules;
    const asked = [...panels.flatMap(({ targets }) => targets), ...rules].map(({ expr }) => expr);
    expect(asked.length).toBeGreaterThan(25);
    for (const expression of asked) {
      const names = expression.match(/\b(shelfdesk|bullmq)_\w+/g) ?? [];
      expect(names.length, expression).toBeGreaterThan(0);
      for (const name of names) expect(known, expression).toContain(name);
    }
    const labels = new Set([...families.flatMap(family => family.labels), 'state']);
    for (const expression of asked) {
      const used = [...expression.matchAll(/(?:\{|,)\s*(\w+)\s*(?:=~?|!=|!~)\s*"/g)].map(([, label]) => label!);
      for (const label of used) expect(labels, expression).toContain(label);
      // Two sources may have a stream of one name.
      for (const [grouped] of expression.matchAll(/by \([^)]*\bstream\b[^)]*\)/g)) expect(grouped).toContain('source');
    }
    for (const { annotations } of rules) expect(annotations.remedy).not.toBe('');
    const problems = [...asked.join(' ').matchAll(/problem=~?"([^"]+)"/g)].flatMap(([, names]) => names!.split('|'));
    const codes = readFileSync(new URL('../../docs/reference/problems.md', import.meta.url), 'utf8');
    for (const code of problems) expect(codes).toContain(`\`${code}\``);
  });
});
