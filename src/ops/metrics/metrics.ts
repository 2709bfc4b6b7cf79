/**
 * Metrics for Prometheus: a few queries per scrape, and BullMQ's own metrics. Base units; labels are names chosen by
 * people or known to the program, never ids.
 *
 * Gauges show the current state. Counters count what ended since this process began, so they restart with it, as
 * Prometheus expects. They lag a little, until no process writes into the counted minute any more.
 */
import type { Queue } from 'bullmq';
import type pg from 'pg';
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { lanes } from '../../engine/budget/ledger.ts';
import { accountNames } from '../../status/accounts.ts';
import { readProblems } from '../../status/problems.ts';
import { type Figures, readStreams } from '../../status/streams.ts';
import { liveWorkers } from '../../status/workers.ts';
import { exposed } from './bullmq-metrics.ts';
import { answer, type Watched } from './health.ts';

interface Family {
  readonly labels: readonly string[];
  /** Each row gives labels and values by column name. Null values are left out, and values of the same labels are added up. */
  readonly rows: string | ((db: pg.Pool) => Promise<readonly object[]>);
  readonly of: readonly { readonly name: string; readonly help: string; readonly value: string }[];
}

const seconds = (column: string) => `extract(epoch from ${column})::float8`;

const figures = [
  ...['behind_seconds', 'target_seconds', 'complete_through', 'waiting'],
  ...['gap_count', 'open_rejects', 'last_success_at'],
  ...['deletes_checked_at', 'unchecked_since', 'differ_at_most_percent', 'latency_p50_seconds', 'latency_p95_seconds'],
] as const satisfies (keyof Figures)[];

// @internal Tests hold them against the documents, the alerts and the dashboard.
export const gauges: readonly Family[] = [
  {
    labels: ['account', 'source', 'stream'],
    rows: async db => {
      const found = await readStreams(db, null, 'account', 'source', 'stream', ...figures);
      return found.map(one => ({ ...one, differ: one.differ_at_most_percent && one.differ_at_most_percent / 100 }));
    },
    of: [
      {
        name: 'shelfdesk_stream_behind_seconds',
        help: 'How far the newest part of the stream is behind; history that is still missing does not count.',
        value: 'behind_seconds',
      },
      { name: 'shelfdesk_stream_target_seconds', help: 'How far it may be behind.', value: 'target_seconds' },
      {
        name: 'shelfdesk_stream_complete_through_timestamp_seconds',
        help: 'Up to this time the stream is complete, history and all.',
        value: 'complete_through',
      },
      { name: 'shelfdesk_stream_waiting_records', help: 'Records that wait to be read by their id.', value: 'waiting' },
      { name: 'shelfdesk_stream_gaps', help: 'Unread ranges below the high-water mark.', value: 'gap_count' },
      { name: 'shelfdesk_stream_rejects', help: 'Records that could not be stored.', value: 'open_rejects' },
      {
        name: 'shelfdesk_stream_last_success_timestamp_seconds',
        help: 'When a run of the stream last completed.',
        value: 'last_success_at',
      },
      {
        name: 'shelfdesk_stream_deletes_checked_timestamp_seconds',
        help: 'Nothing that is shown had been deleted at the source before this time.',
        value: 'deletes_checked_at',
      },
      {
        name: 'shelfdesk_stream_unchecked_since_timestamp_seconds',
        help: 'Changes before this time are known, also those that the source does not announce.',
        value: 'unchecked_since',
      },
      {
        name: 'shelfdesk_stream_differ_at_most_ratio',
        help: 'At most this share of the records differs from the source, with 95 % confidence.',
        value: 'differ',
      },
      {
        name: 'shelfdesk_change_latency_p50_seconds',
        help: 'Half of the changes of the last hour were at most so old when they were here.',
        value: 'latency_p50_seconds',
      },
      {
        name: 'shelfdesk_change_latency_p95_seconds',
        help: '95 % of the changes of the last hour were at most so old when they were here.',
        value: 'latency_p95_seconds',
      },
    ],
  },
  {
    labels: ['account', 'source', 'stream', 'state'],
    rows: async db =>
      (await readStreams(db, null, 'account', 'source', 'stream', 'state')).map(one => ({ ...one, holds: 1 })),
    of: [{ name: 'shelfdesk_stream_state', help: '1 for the state that the stream is in.', value: 'holds' }],
  },
  {
    labels: [],
    rows: `select ${seconds('behind')} as behind, pending, (state = 'failing')::int as failing, usual_seconds as took from sync.lake_status`,
    of: [
      { name: 'shelfdesk_lake_behind_seconds', help: 'Time since the moment that the lake shows.', value: 'behind' },
      { name: 'shelfdesk_lake_pending', help: 'Notes of changes that the lake does not have yet.', value: 'pending' },
      { name: 'shelfdesk_lake_failing', help: '1 if the last export to the lake failed.', value: 'failing' },
      { name: 'shelfdesk_lake_export_seconds', help: 'Median time of the last ten exports.', value: 'took' },
    ],
  },
  {
    labels: ['account', 'problem', 'severity'],
    rows: async db => (await readProblems(db, null)).map(one => ({ ...one, n: 1 })),
    of: [{ name: 'shelfdesk_problems', help: 'Problems that hold now; sync.problems says more.', value: 'n' }],
  },
  {
    labels: ['account', 'source'],
    rows: `select distinct on (account_id, source) account_id as account, source, credit_limit, others
      from sync.credit_minutes where minute > $1::timestamptz - interval '1 hour'
      order by account_id, source, minute desc`,
    of: [
      {
        name: 'shelfdesk_credit_limit',
        help: 'Credits of a period that the source allows to all clients together.',
        value: 'credit_limit',
      },
      {
        name: 'shelfdesk_credits_used_by_others',
        help: 'The most credits of a period that others were seen to use, in the last minute with a request.',
        value: 'others',
      },
    ],
  },
  {
    labels: ['account', 'kind'],
    rows: `select account_id as account, kind, count(*) as open, ${seconds('$1::timestamptz - min(started_at)')} as age
      from sync.stored_runs where state = 'running' group by 1, 2`,
    of: [
      { name: 'shelfdesk_runs_open', help: 'Runs that have not ended.', value: 'open' },
      { name: 'shelfdesk_run_open_seconds', help: 'How long the oldest of them has been open.', value: 'age' },
    ],
  },
  {
    labels: ['account', 'kind'],
    rows: `select a.account_id as account, k.kind, ${seconds('r.finished_at - r.started_at')} as took,
        ${seconds('r.finished_at')} as finished_at
      from sync.accounts a cross join (values ('sync'), ('nightly'), ('fresh'), ('backfill'), ('sweep')) k (kind)
      cross join lateral (
        select started_at, finished_at from sync.stored_runs r
        where r.account_id = a.account_id and r.kind = k.kind and r.finished_at is not null
        order by r.id desc limit 1) r`,
    of: [
      { name: 'shelfdesk_last_run_duration_seconds', help: 'How long the last run of its kind took.', value: 'took' },
      { name: 'shelfdesk_last_run_finished_timestamp_seconds', help: 'When it ended.', value: 'finished_at' },
    ],
  },
  {
    labels: ['account'],
    rows: async db => {
      const none = (await accountNames(db)).map(account => ({ account, workers: 0 }));
      return [...none, ...(await liveWorkers(db, null)).map(({ account }) => ({ account, workers: 1 }))];
    },
    of: [{ name: 'shelfdesk_workers', help: 'Processes that live and take jobs of the account.', value: 'workers' }],
  },
  {
    labels: ['account'],
    rows: `select a.account_id as account,
        (select count(*) from sync.alarms m where m.account_id = a.account_id and m.ended_at is null) as alarms,
        (select count(*) from sync.open_deletion_candidates s where s.account_id = a.account_id) as deletion_candidates,
        (select count(*) from sync.drift d where d.account_id = a.account_id) as drift
      from sync.accounts a`,
    of: [
      { name: 'shelfdesk_alarms_open', help: 'Alarms that have begun and not ended.', value: 'alarms' },
      {
        name: 'shelfdesk_deletion_candidates',
        help: 'Deletion candidates: rows that a list should have shown and did not.',
        value: 'deletion_candidates',
      },
      {
        name: 'shelfdesk_drift_kinds',
        help: 'Ways in which the source differs from its documentation.',
        value: 'drift',
      },
    ],
  },
  {
    labels: [],
    rows: 'select pg_database_size(current_database()) as bytes',
    of: [{ name: 'shelfdesk_database_bytes', help: 'Size of the database.', value: 'bytes' }],
  },
];

/** $1 and $2: counts what ended after $1 and not after $2. */
// @internal As gauges.
export const counters: readonly Family[] = [
  {
    labels: ['account', 'source', 'lane'],
    rows: `select account_id as account, source, lane, sum(credits)::float8 as credits
      from sync.credit_minutes cross join lateral (
        values ${lanes.map(lane => `('${lane}', ${lane})`).join(', ')}) l (lane, credits)
      where minute + interval '1 minute' > $1 and minute + interval '1 minute' <= $2
      group by 1, 2, 3`,
    of: [{ name: 'shelfdesk_credits_total', help: 'Credits that we used.', value: 'credits' }],
  },
  {
    labels: ['account', 'source'],
    rows: `select account_id as account, source, sum(refused)::float8 as refused, sum(waited_ms)::float8 / 1000 as waited
      from sync.credit_minutes where minute + interval '1 minute' > $1 and minute + interval '1 minute' <= $2
      group by 1, 2`,
    of: [
      {
        name: 'shelfdesk_requests_refused_total',
        help: 'Requests that the source refused for want of credits (429).',
        value: 'refused',
      },
      { name: 'shelfdesk_credit_wait_seconds_total', help: 'Time that requests waited for credits.', value: 'waited' },
    ],
  },
  {
    labels: ['account', 'kind', 'state'],
    rows: `select account_id as account, kind, state, count(*) as runs from sync.stored_runs
      where finished_at > $1 and finished_at <= $2 group by 1, 2, 3`,
    of: [{ name: 'shelfdesk_runs_total', help: 'Runs that have ended.', value: 'runs' }],
  },
  {
    labels: ['account', 'source', 'stream', 'outcome'],
    rows: `select s.account_id as account, s.source, s.stream, outcome, sum(records)::float8 as records
      from sync.stored_runs r join sync.stored_run_streams s on s.run_id = r.id cross join lateral (
        values ('inserted', s.inserted), ('updated', s.updated), ('unchanged', s.unchanged), ('deleted', s.deleted),
          ('rejected', s.rejected), ('cleaned', s.cleaned)) o (outcome, records)
      where r.finished_at > $1 and r.finished_at <= $2
      group by 1, 2, 3, 4`,
    of: [
      {
        name: 'shelfdesk_records_total',
        help: 'Records of runs that have ended, by what became of them.',
        value: 'records',
      },
    ],
  },
  {
    labels: ['account', 'source', 'stream'],
    rows: `select account_id as account, source, stream, sum(changes)::float8 as changes,
        sum(changes * latency_seconds)::float8 as age
      from sync.change_latencies where minute + interval '1 minute' > $1 and minute + interval '1 minute' <= $2
      group by 1, 2, 3`,
    of: [
      { name: 'shelfdesk_changes_total', help: 'Changes that came after the mirror began.', value: 'changes' },
      {
        name: 'shelfdesk_change_latency_seconds_total',
        help: 'Sum of their ages when they were here; divided by their number, the mean.',
        value: 'age',
      },
    ],
  },
  {
    labels: ['account', 'action'],
    rows: `select account_id as account, action, count(*) as n from sync.operations
      where at > $1 and at <= $2 group by 1, 2`,
    of: [{ name: 'shelfdesk_operations_total', help: 'What people did by hand.', value: 'n' }],
  },
];

/** A minute is final after this time, because the slowest request has been answered. */
const settledMs = 120_000;

export interface Measured extends Watched {
  /** The queue of each account. `findQueues` adds later accounts. */
  readonly queues: ReadonlyMap<string, Pick<Queue, 'exportPrometheusMetrics'>>;
  readonly findQueues: () => Promise<void>;
  /** Accounts with invalid settings. */
  readonly refused: () => readonly string[];
}

export type Metrics = ReturnType<typeof makeMetrics>;

const refusals = ['wrong', 'wait'];

export function makeMetrics({ pg, clock, queues, findQueues, pingQueues, refused }: Measured, version: string) {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  new Gauge({ name: 'shelfdesk_info', help: 'The version that runs.', labelNames: ['version'], registers: [registry] })
    .labels(version)
    .set(1);
  const refusedNow = new Gauge({
    name: 'shelfdesk_accounts_refused',
    help: 'Accounts of the file whose settings are wrong, so that nobody works on them.',
    registers: [registry],
  });
  const queueAnswers = new Gauge({
    name: 'shelfdesk_queue_answers',
    help: "1 if the server of the queues answers; else BullMQ's own figures are left out.",
    registers: [registry],
  });
  const loginsRefused = new Counter({
    name: 'shelfdesk_logins_refused_total',
    help: 'Tokens that the page of this process refused: wrong ones, and those after too many wrong ones (wait).',
    labelNames: ['why'],
    registers: [registry],
  });
  // Creates the series at the first scrape, so that increases are visible.
  for (const why of refusals) loginsRefused.inc({ why }, 0);
  const counting = counters.map(family => ({
    family,
    metrics: family.of.map(one => newCounter(one, family, registry)),
  }));
  const showing = gauges.map(family => ({ family, metrics: family.of.map(one => newGauge(one, family, registry)) }));
  let countedMs = clock.now();
  let turn: Promise<unknown> = Promise.resolve();

  async function collect(): Promise<string> {
    for (const { family, metrics } of showing) {
      const rows = await ask(pg, family, [new Date(clock.now())]);
      for (const metric of metrics) metric.reset();
      each(family, rows, (i, labels, value) => metrics[i]!.inc(labels, value));
    }
    const untilMs = Math.max(countedMs, clock.now() - settledMs);
    const ended = await Promise.all(
      counting.map(({ family }) => ask(pg, family, [new Date(countedMs), new Date(untilMs)])),
    );
    countedMs = untilMs;
    counting.forEach(({ family, metrics }, n) => {
      each(family, ended[n]!, (i, labels, value) => metrics[i]!.inc(labels, value));
    });
    refusedNow.set(refused().length);
    await findQueues();
    const ofQueues = await askQueues();
    return (await registry.metrics()) + ofQueues;
  }

  /** Unavailable or slow queues do not delay the other metrics. */
  async function askQueues(): Promise<string> {
    const answers = (await answer({ clock }, 'the queue', pingQueues)) === 'ok';
    queueAnswers.set(answers ? 1 : 0);
    let told = '';
    if (answers)
      await answer({ clock }, 'the queue', async () => {
        told = await exposed(queues);
      });
    return told;
  }

  return {
    contentType: registry.contentType,
    loginRefused: (why: string) => loginsRefused.inc({ why }),
    /**
     * Prometheus text format. Rejects while the database is unavailable, so that the scrape fails. One scrape comes after the other, so
     * that nothing is counted twice.
     */
    text: (): Promise<string> => {
      const mine = turn.then(collect, collect);
      turn = mine.catch(() => {});
      return mine;
    },
  };
}

type Labels = Record<string, string>;

const newGauge = ({ name, help }: Family['of'][number], { labels }: Family, registry: Registry) =>
  new Gauge({ name, help, labelNames: [...labels], registers: [registry] });
const newCounter = ({ name, help }: Family['of'][number], { labels }: Family, registry: Registry) =>
  new Counter({ name, help, labelNames: [...labels], registers: [registry] });

/** Passes as many parameters as the query has. */
async function ask(db: pg.Pool, { rows }: Family, given: readonly Date[]): Promise<readonly object[]> {
  if (typeof rows !== 'string') return rows(db);
  const many = given.filter((_, i) => rows.includes(`$${i + 1}`));
  return (await db.query(rows, many)).rows;
}

function each(family: Family, rows: readonly object[], tell: (i: number, labels: Labels, value: number) => void): void {
  for (const row of rows as readonly Record<string, string | number | Date | null>[]) {
    const labels = Object.fromEntries(family.labels.map(label => [label, String(row[label])]));
    family.of.forEach(({ value }, i) => {
      const told = row[value];
      if (told !== null && told !== undefined)
        tell(i, labels, told instanceof Date ? told.getTime() / 1000 : Number(told));
    });
  }
}
