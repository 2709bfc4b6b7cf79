/** A warehouse with accounts in every state that the page tells of, and the page over it. */
import type { Queue } from 'bullmq';
import { pino } from 'pino';
import { configuredSources } from '../../src/app/context.ts';
import { systemClock } from '../../src/clock.ts';
import { makePool } from '../../src/engine/database/pool.ts';
import { makeApp, type Site, servePage } from '../../src/ops/page/server.ts';
import { configFor } from './mirror.ts';
import { freshDatabase } from './postgres.ts';
import { bePresent } from './present.ts';

export const operatorToken = 'operators-hush-hush';
export const viewerToken = 'viewers-hush-hush';
export const tokens = { host: '127.0.0.1', token: operatorToken, viewerToken };
export const noTokens = { host: '127.0.0.1', token: undefined, viewerToken: undefined };

/** A name that is markup, and one that is written from right to left. */
export const markup = '<script>alert(1)</script>&"';
export const rightToLeft = 'חשבון אחד';

/** Names of the accounts are what they are about. */
const accounts = ['fresh', 'waits', 'stale', 'failing', 'gaps', 'rejects', 'paused', 'begun', markup, rightToLeft];

export interface PageWorld extends AsyncDisposable {
  readonly url: string;
  readonly pool: ReturnType<typeof makePool>;
  rows<T = Record<string, unknown>>(sql: string, ...values: unknown[]): Promise<T[]>;
  site(more?: Partial<Site>): Site;
  /** Without a socket. */
  app(web: Site['web'], more?: Partial<Site>): Promise<Awaited<ReturnType<typeof makeApp>>['app']>;
  /** With one; its address. */
  serve(web: Site['web'], more?: Partial<Site>): Promise<string>;
}

export async function pageWorld(): Promise<PageWorld> {
  const db = await freshDatabase();
  const stack = new AsyncDisposableStack();
  stack.defer(() => db.drop());
  const pool = makePool(db.url);
  stack.defer(() => pool.end());
  for (const name of accounts) await seed(pool, name);
  // Somebody is at work on it, so that what is asked for has who takes it.
  const me = { account: 'fresh', works: true, host: 'here', pid: 1, version: '1.2.3' };
  stack.use(await bePresent(db.url, me, systemClock));
  const config = {
    ...configFor(db.url, { url: 'http://127.0.0.1:1/api/v1', token: 'x' }),
    limits: { credits: 100, periodMs: 60_000, requestsPerSecond: 6, reserve: 10 },
    schedule: { fresh: '* * * * *', nightly: '0 2 * * *', timeZone: 'UTC' },
  };
  const site = (more: Partial<Site> = {}): Site => ({
    ...{ pg: pool, clock: systemClock, log: pino({ level: 'silent' }), version: '1.2.3', web: noTokens },
    accounts: () => accounts.map(account => ({ config: { ...config, account }, sources: configuredSources(config) })),
    queues: new Map<string, Queue>(),
    ...{ findQueues: async () => {}, pingQueues: async () => {}, refused: () => [] },
    ...more,
  });
  return {
    ...{ url: db.url, pool, site },
    rows: async <T>(sql: string, ...values: unknown[]) => (await pool.query(sql, values)).rows as T[],
    async app(web, more = {}) {
      const { app, close } = await makeApp(site({ ...more, web }));
      stack.defer(close);
      return app;
    },
    async serve(web, more = {}) {
      const page = stack.use(await servePage(site({ ...more, web }), 0));
      return page.url;
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

async function seed(pool: ReturnType<typeof makePool>, name: string): Promise<void> {
  const run = (sql: string, ...values: unknown[]) => pool.query(sql, [name, ...values]);
  await run(
    `insert into sync.accounts (account_id, since, mirrored_since) values ($1, '2020-01-01', now() - interval '10 days')`,
  );
  if (name === 'begun') return;
  await run(
    `insert into sync.coverage (account_id, source, stream, list, covered)
     select $1, 'helpdesk', s, 'default', tstzmultirange(tstzrange('2020-01-01', now() - $2::interval))
     from unnest('{users,customers,tickets}'::text[]) s`,
    name === 'stale' ? '20 minutes' : '2 minutes',
  );
  await run(
    `insert into sync.targets (account_id, subject, target)
     select $1, 'helpdesk.' || s, '5 min' from unnest('{users,customers,tickets,messages}'::text[]) s`,
  );
  const failed = name === 'failing';
  await run(
    `with r as (
       insert into sync.stored_runs (account_id, kind, state, started_at, finished_at)
       values ($1, 'sync', $2, now() - interval '7 minutes', now() - interval '4 minutes') returning id)
     insert into sync.stored_run_streams
       (run_id, account_id, source, stream, state, token, worker, job, seen, inserted, updated, credits, error, remedy, exit_code, started_at, finished_at)
     select id, $1, 'helpdesk', s, $2, 2, 7, 'run-1-helpdesk.' || s || '-1', 1200, 1100, 90, 1234, $3, $4, $5, now() - interval '7 minutes', now() - interval '4 minutes'
     from r, unnest('{users,customers,tickets,messages}'::text[]) s`,
    failed ? 'failed' : 'completed',
    failed ? `GET /tickets: 500 ${markup} ${rightToLeft}` : null,
    failed ? 'Run `npx shelfdesk sync` again.' : null,
    failed ? 1 : 0,
  );
  await run(
    `insert into sync.credit_minutes (account_id, source, minute, credit_limit, interactive, fresh, backfill, sweep, others, refused)
     select $1, 'helpdesk', date_trunc('minute', now()) - n * interval '1 minute', 100, n, 20, 30 - n % 5, 3, 11, (n % 13 = 12)::int
     from generate_series(1, 25) n`,
  );
  if (name === 'waits') await tickets(pool, name, 212);
  if (name === 'gaps')
    await run(
      `update sync.coverage set covered = covered - tstzmultirange(tstzrange('2021-05-01', '2021-06-01'), tstzrange('2022-05-01', '2022-06-01'))
       where account_id = $1 and stream = 'tickets'`,
    );
  if (name === 'paused') await serviceTargets(pool, name);
  if (name === 'rejects')
    await run(
      `insert into sync.rejects (account_id, source, stream, key, reason, replayable, first_seen_at, last_seen_at)
       select $1, 'helpdesk', 'customers', n, 'it does not parse', false, now() - interval '1 day', now() from generate_series(1, 3) n`,
    );
  if (name === 'paused')
    await run(
      `insert into sync.paused (account_id, source, stream, paused_at, paused_by, reason) values ($1, '', '', now() - interval '1 hour', 'ada at desk', $2)`,
      markup,
    );
}

/** Within four hours of the clock and within a day; tickets of the last 44 hours, of which some are closed within half an hour, and one before it was seen. */
async function serviceTargets(pool: ReturnType<typeof makePool>, account: string): Promise<void> {
  await pool.query(
    `insert into internal.stored_service_targets (account_id, metric, target_seconds)
     values ($1, 'first_response', 4 * 3600), ($1, 'resolution', 24 * 3600)`,
    [account],
  );
  await pool.query(
    `insert into helpdesk.tickets (account_id, id, state, created_at, updated_at, _messages_as_of, _first_seen_at, _synced_at, _observed_at, _payload)
     select $1, 't' || n, case when n = 12 then 'closed' else 'open' end, t, t + interval '20 minutes', now(), now(), now(), t + interval '21 minutes', '{}'
     from generate_series(1, 12) n, lateral (select now() - n * interval '4 hours' as t) c`,
    [account],
  );
  await pool.query(
    `update helpdesk.tickets set state = 'closed', updated_at = created_at + interval '30 minutes', _observed_at = created_at + interval '31 minutes'
     where account_id = $1 and id in ('t4', 't8')`,
    [account],
  );
}

/** That wait for their messages, all changed while the mirror was read already. */
export async function tickets(pool: ReturnType<typeof makePool>, account: string, many: number): Promise<void> {
  await pool.query(
    `insert into helpdesk.tickets (account_id, id, updated_at, _first_seen_at, _synced_at, _observed_at, _payload)
     select $1, 't' || n, now() - interval '3 minutes', now(), now(), now(), '{}' from generate_series(1, $2::int) n`,
    [account, many],
  );
}
