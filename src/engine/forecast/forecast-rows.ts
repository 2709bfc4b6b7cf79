/** What the warehouse knows of the work that lies ahead, and where forecasts are kept. */
import type pg from 'pg';
import { shownIn } from '../../sources/helpdesk/verify/stored.ts';
import type { Ms, Range as Part } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import type { Range, RunKind } from '../runs/runs.ts';

type Key = Pick<Claim, 'account' | 'stream'>;

export interface Foreseen {
  readonly requests: number;
  readonly credits: number;
  readonly seconds: number;
  readonly streams: Readonly<Record<string, { requests: number; credits: number; seconds: number }>>;
  /** Used beforehand, to count what there is. */
  readonly counted_with_credits: number;
  readonly assumptions: readonly string[];
}

/** What was asked for, but for its kind. Keys and streams in one order. */
export type AskedFor = Readonly<Record<string, unknown>>;

/** An answer of `plan` counts for a run of the same question for so long. */
const planMs = 3_600_000;

export async function keepPlan(
  db: pg.Pool,
  account: string,
  { kind, question, forecast }: { kind: RunKind; question: AskedFor; forecast: Foreseen },
  now: Date,
): Promise<void> {
  await db.query(
    `insert into sync.plans (account_id, kind, question, made_at, forecast) values ($1, $2, $3, $4, $5)
     on conflict (account_id, kind, question) do update set made_at = excluded.made_at, forecast = excluded.forecast`,
    [account, kind, question, now, forecast],
  );
}

export async function freshPlan(
  db: pg.Pool,
  account: string,
  { kind, question }: { kind: RunKind; question: AskedFor },
  now: Date,
): Promise<Foreseen | undefined> {
  const { rows } = await db.query<{ forecast: Foreseen }>(
    'delete from sync.plans where account_id = $1 and kind = $2 and question = $3 and made_at > $4 returning forecast',
    [account, kind, question, new Date(now.getTime() - planMs)],
  );
  return rows[0]?.forecast;
}

/** A run that is gone on with keeps what it was expected to take. */
export async function keepForecast(db: pg.Pool, run: number, forecast: Foreseen): Promise<void> {
  await db.query('update sync.stored_runs set forecast = $2 where id = $1 and forecast is null', [run, forecast]);
}

export async function forecastOf(db: pg.Pool, run: number): Promise<Foreseen | undefined> {
  const { rows } = await db.query<{ forecast: Foreseen | null }>(
    'select forecast from sync.stored_runs where id = $1',
    [run],
  );
  return rows[0]?.forecast ?? undefined;
}

// --- what the source takes ---------------------------------------------------------------------------------------------

/** How long a request took cachedFleet, and from its reply to the next one, on average; undefined where none was made. */
export async function paceOf(
  db: pg.Pool,
  { account, source }: { account: string; source: string },
  since: Date,
): Promise<{ latencyMs: number | undefined; storeMs: number | undefined }> {
  const { rows } = await db.query<{ took: number | null; between: number | null }>(
    `select sum(took_ms)::float8 / nullif(sum(requests), 0) as took, sum(between_ms)::float8 / nullif(sum(followed), 0) as between
     from (
       select took_ms, requests, followed, between_ms from sync.credit_minutes
       where account_id = $1 and source = $2 and minute >= $3 and requests > 0 order by minute desc limit 60) cachedFleet`,
    [account, source, since],
  );
  return { latencyMs: rows[0]!.took ?? undefined, storeMs: rows[0]!.between ?? undefined };
}

/** The ledger as it stands, and the clock that it goes by. */
export async function budgetOf(
  db: pg.Pool,
  { account, source }: { account: string; source: string },
): Promise<object | undefined> {
  const { rows } = await db.query<{ state: object }>(
    'select state from sync.budget where account_id = $1 and source = $2',
    [account, source],
  );
  return rows[0]?.state;
}

/** How long it took from the end of a stream to the beginning of the next one of its run, cachedFleet, on average. */
export async function betweenStreamsMs(db: pg.Pool, account: string, since: Date): Promise<number | undefined> {
  const { rows } = await db.query<{ ms: number | null }>(
    `select extract(epoch from avg(gap))::float8 * 1000 as ms from (
       select s.started_at - lag(s.finished_at) over (partition by s.run_id, k.source order by k.place) as gap
       from sync.stored_run_streams s join sync.streams k using (stream_key)
       where s.account_id = $1 and s.started_at >= $2 and s.carried_from is null
       order by s.started_at desc limit 60) gaps
     where gap between interval '0' and interval '2 s'`,
    [account, since],
  );
  return rows[0]!.ms ?? undefined;
}

/**
 * What streams of runs that a command has opened took cachedFleet beyond their requests: seen where there were only a few.
 * The first one of a process takes longer, so it is not the middle one that counts.
 */
export async function beginningMs(
  db: pg.Pool,
  account: string,
  { since, perCreditMs }: { since: Date; perCreditMs: number },
): Promise<number> {
  const { rows } = await db.query<{ ms: number | null }>(
    `select percentile_cont(0.25) within group (
         order by extract(epoch from s.finished_at - s.started_at)::float8 * 1000 - s.credits * $3::float8) as ms
     from sync.stored_run_streams s join sync.stored_runs r on r.id = s.run_id
     where s.account_id = $1 and s.started_at >= $2 and s.state = 'completed' and s.carried_from is null and s.credits <= 5
       and s.finished_at - s.started_at < interval '5 s' and r.kind in ('sync', 'backfill', 'sweep', 'verify')`,
    [account, since, perCreditMs],
  );
  return Math.max(0, Math.round(rows[0]!.ms ?? 0));
}

/** Runs that are at work on the same account: they use credits of their own. */
export async function runsAtWork(db: pg.Pool, account: string): Promise<number[]> {
  const { rows } = await db.query<{ id: number }>(
    `select id from sync.runs where account_id = $1 and state = 'running' order by id`,
    [account],
  );
  return rows.map(({ id }) => id);
}

// --- what is here ------------------------------------------------------------------------------------------------------

/** Times of our tickets as a list would show them, in their order: for a reading without a request. */
export async function timesOfOurs(
  db: Pick<pg.Pool, 'query'>,
  account: string,
  list: string,
  { by, sinceMs, updatedMs = 0 }: { by: 'created_at' | 'updated_at'; sinceMs: Ms; updatedMs?: Ms },
): Promise<Float64Array> {
  const { rows } = await db.query<{ times: number[] | null }>(
    `select array_agg(extract(epoch from t.${by})::float8 * 1000 order by t.${by}) as times from helpdesk.tickets t
     where t.account_id = $1 and t._deleted_at is null and t.${by} >= $3 and t.updated_at >= $4 and ${shownIn('$2::text')}`,
    [account, list, new Date(sinceMs), new Date(updatedMs)],
  );
  return Float64Array.from(rows[0]!.times ?? []);
}

/** The holes that a backfill of this range would find in a list, the newest first. */
export async function holesIn(
  db: pg.Pool,
  { account, stream }: Key,
  list: string,
  { since, until, again }: Range,
  { fromTheBeginning, now }: { fromTheBeginning: boolean; now: Date },
): Promise<Part[]> {
  const { rows } = await db.query<Part>(
    `with asked as (
       select case when $6 then '{}' else c.covered end as covered,
         coalesce($5, case when not $6 then upper(c.covered) end, $8) as until,
         coalesce($4, case when $7 then '1970-01-01T00:00:00Z' else a.since end) as since
       from sync.coverage c join sync.accounts a using (account_id)
       where (c.account_id, c.stream_key, c.list) = ($1, $2, $3) and not c.redundant)
     select extract(epoch from lower(hole))::float8 * 1000 as "from", extract(epoch from upper(hole))::float8 * 1000 as "to"
     from asked, unnest(case when since < until then tstzmultirange(tstzrange(since, until)) else '{}' end - covered) hole
     order by hole desc`,
    [account, stream, list, since, until, again, fromTheBeginning, now],
  );
  return rows;
}

/** How many of these tickets, as they were shown, have their messages here: nobody asks for them again. */
export async function countRead(
  db: pg.Pool,
  account: string,
  tickets: readonly { id: string; updatedMs: Ms }[],
): Promise<{ read: number; known: number }> {
  const { rows } = await db.query<{ read: number; known: number }>(
    `select count(*) filter (where date_trunc('second', t.updated_at) >= date_trunc('second', w.at) and t._messages_as_of >= t.updated_at) as read,
       count(*) filter (where t._messages_as_of is null or t._messages_as_of < t.updated_at) as known
     from unnest($2::text[], $3::timestamptz[]) w (id, at) join helpdesk.tickets t on t.account_id = $1 and t.id = w.id`,
    [account, tickets.map(({ id }) => id), tickets.map(({ updatedMs }) => new Date(updatedMs))],
  );
  return rows[0]!;
}

/** Labels and inboxes whose names are known and not due for another look. */
export async function namesKnown(
  db: pg.Pool,
  account: string,
  sinceMs: Ms,
): Promise<{ labels: Set<string>; inbox: Set<string> }> {
  const { rows } = await db.query<{ labels: string[]; inbox: string[] }>(
    `select array(select id from helpdesk.labels where account_id = $1 and _observed_at >= $2) as labels,
       array(select id from helpdesk.inboxes where account_id = $1 and _observed_at >= $2) as inbox`,
    [account, new Date(sinceMs)],
  );
  return { labels: new Set(rows[0]!.labels), inbox: new Set(rows[0]!.inbox) };
}

/** Tickets that a backfill which reads messages again reads in any case. */
export async function countAgain(
  db: pg.Pool,
  account: string,
  { since, until }: Pick<Range, 'since' | 'until'>,
): Promise<number> {
  const { rows } = await db.query<{ n: number }>(
    `select count(*) as n from helpdesk.tickets t
     where t.account_id = $1 and t._deleted_at is null and t._messages_as_of >= t.updated_at
       and t.updated_at >= coalesce($2::timestamptz, '-infinity') and t.updated_at < coalesce($3::timestamptz, 'infinity')`,
    [account, since, until],
  );
  return rows[0]!.n;
}

/** The same of all that is here since then, where a page does not show them all. */
export async function countReadSince(
  db: pg.Pool,
  account: string,
  sinceMs: Ms,
): Promise<{ read: number; known: number }> {
  const { rows } = await db.query<{ read: number; known: number }>(
    `select count(*) filter (where t._messages_as_of >= t.updated_at) as read,
       count(*) filter (where t._messages_as_of is null or t._messages_as_of < t.updated_at) as known
     from helpdesk.tickets t where t.account_id = $1 and t._deleted_at is null and t.updated_at >= $2`,
    [account, new Date(sinceMs)],
  );
  return rows[0]!;
}

/** Of customers we know between which times they came; of those of a first load nothing. */
const cameAt: Record<string, { table: string; at: string; known: string }> = {
  'helpdesk.customers': {
    table: 'customers',
    at: '_created_before',
    known: `_created_before - _created_after < interval '2 days'`,
  },
  'helpdesk.created': { table: 'tickets', at: 'created_at', known: 'true' },
  'helpdesk.tickets': { table: 'tickets', at: 'updated_at', known: 'true' },
};

/** How many came in the week before this time: for what came since, where counting costs more than reading. */
export async function cameBefore(db: pg.Pool, { account, stream }: Key, ms: Ms): Promise<{ perMs: number }> {
  const { table, at, known } = cameAt[stream]!;
  const { rows } = await db.query<{ n: number; ms: number }>(
    `select count(*) as n,
       extract(epoch from greatest($2::timestamptz - coalesce(min(${at}), $2), interval '1 day'))::float8 * 1000 as ms
     from helpdesk.${table} t
     where account_id = $1 and ${at} >= $2::timestamptz - interval '7 days' and ${at} < $2 and ${known}`,
    [account, new Date(ms)],
  );
  const { n, ms: span } = rows[0]!;
  return { perMs: n / span };
}

/** What sweeps ask for by id besides what is missing: open suspects, tombstones, tickets without a time of creation. */
export async function toBeAsked(
  db: pg.Pool,
  { account, stream }: Key,
  { now, ageMs }: { now: Date; ageMs: number },
): Promise<{ suspects: number; buried: number; undated: number; recent: number; live: number }> {
  const table = stream === 'helpdesk.customers' ? 'customers' : 'tickets';
  const undated = table === 'tickets' ? 'count(*) filter (where t._deleted_at is null and t.created_at is null)' : '0';
  const { rows } = await db.query<{ suspects: number; buried: number; undated: number; recent: number; live: number }>(
    `select (select count(*) from sync.open_deletion_candidates o where (o.account_id, o.stream_key) = ($1, $2)) as suspects,
       count(*) filter (where t._deleted_at is not null and t._synced_at >= coalesce((
         select max(p.started_at) from sync.stored_runs p join sync.stored_run_streams s on s.run_id = p.id
         where p.account_id = $1 and p.kind = 'sweep' and s.stream_key = $2 and s.state = 'completed'), $3)
         - $4 * interval '1 millisecond') as buried,
       ${undated} as undated,
       count(*) filter (where t._deleted_at is null and t._observed_at > $3::timestamptz - interval '1 hour') as recent,
       count(*) filter (where t._deleted_at is null) as live
     from helpdesk.${table} t where t.account_id = $1`,
    [account, stream, now, ageMs],
  );
  return rows[0]!;
}
