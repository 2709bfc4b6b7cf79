/** What `verify` was asked for, how far it has come, and what is here for it to compare. */

import type pg from 'pg';
import { keepChanges } from '../commit/merge.ts';
import { type Client, transaction } from '../database/pool.ts';
import { type StreamKey, sourceAndStream } from '../database/stream-key.ts';
import { storableIds } from '../json-text.ts';
import type { Ms, Range } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { reopen } from '../runs/ranges.ts';
import { lockAccount, type NewRun, openRun, type RunState } from '../runs/runs.ts';

type Queryable = Pick<pg.ClientBase, 'query'>;

export interface Asked {
  /** So many tickets and customers, chosen at random; null: everything. */
  readonly sample: number | null;
  readonly repair: boolean;
}

/** What it takes. */
export interface Forecast {
  readonly credits: number;
  readonly seconds: number;
}

/** What was compared longer ago than this is compared again. */
const goesOnMs = 24 * 3_600_000;

/** One of everything that was interrupted, or failed, cachedFleet is gone on with: it may take days. */
export async function openVerification(
  db: pg.Pool,
  { asked, forecast, ...run }: Omit<NewRun, 'kind'> & { asked: Asked; forecast: Forecast },
  now: Date,
): Promise<{ run: number; resumed: boolean; forecast: Forecast; left: number }> {
  return transaction(db, async client => {
    await lockAccount(client, run.account);
    const { rows } = await client.query<{ id: number; state: RunState; sleeps: boolean; left: number } & Forecast>(
      `select r.id, r.state, exists (
         select from sync.stored_run_streams s where s.run_id = r.id and s.sleeps_until is not null) as sleeps, v.credits, v.seconds, greatest(0, v.credits - (
         select sum(s.credits) from sync.stored_run_streams s where s.run_id = r.id))::bigint as left
       from sync.stored_runs r join sync.verifications v on v.run_id = r.id
       where r.account_id = $1 and r.kind = 'verify' and v.sample is not distinct from $2 and v.repair = $3
         and (select array_agg(stream_key order by stream_key) from sync.stored_run_streams where run_id = r.id)
           = (select array_agg(w order by w) from unnest($5::text[]) w)
         and (r.state = 'running' or r.finished_at > $4)
       order by r.id desc limit 1`,
      [run.account, asked.sample, asked.repair, new Date(now.getTime() - goesOnMs), run.streams],
    );
    const [same] = rows;
    const goesOn = asked.sample === null ? ['running', 'interrupted', 'failed'] : ['running'];
    if (same !== undefined && (goesOn.includes(same.state) || (same.sleeps && asked.sample === null))) {
      if (same.state !== 'running') await reopen(client, same.id, run.opener);
      const { credits, seconds, left } = same;
      return { run: same.id, resumed: true, forecast: { credits, seconds }, left };
    }
    const id = await openRun(client, { ...run, kind: 'verify' }, now);
    await client.query(
      `insert into sync.verifications (run_id, account_id, sample, repair, credits, seconds) values ($1, $2, $3, $4, $5, $6)`,
      [id, run.account, asked.sample, asked.repair, forecast.credits, Math.ceil(forecast.seconds)],
    );
    return { run: id, resumed: false, forecast, left: forecast.credits };
  });
}

export async function askedOf(db: Queryable, run: number): Promise<Asked> {
  const { rows } = await db.query<Asked>('select sample, repair from sync.verifications where run_id = $1', [run]);
  return rows[0]!;
}

/** The place where a list of the run stands; undefined if it has not been counted yet. */
export async function placeOf(
  db: Queryable,
  { run, stream }: Pick<Claim, 'run' | 'stream'>,
  list: string,
): Promise<{ place: string | null } | undefined> {
  const { rows } = await db.query<{ place: string | null }>(
    'select place from sync.verified_lists where (run_id, stream_key, list) = ($1, $2, $3)',
    [run, stream, list],
  );
  return rows[0];
}

export async function movePlace(
  client: Queryable,
  { run, account, stream }: Pick<Claim, 'account' | 'run' | 'stream'>,
  list: string,
  place: string,
): Promise<void> {
  await client.query({
    name: 'move place',
    text: `insert into sync.verified_lists as l (run_id, account_id, source, stream, list, place) values ($1, $2, ${sourceAndStream('$3')}, $4, $5)
      on conflict (run_id, stream_key, list) do update set place = excluded.place`,
    values: [run, account, stream, list, place],
  });
}

export interface Counted {
  readonly stream: string;
  readonly list: string;
  readonly ours: number | null;
  readonly theirs_least: number | null;
  readonly theirs_most: number | null;
}

export async function noteCounts(db: Queryable, claim: Claim, counted: Omit<Counted, 'stream'>): Promise<void> {
  await db.query(
    `insert into sync.verified_lists (run_id, account_id, source, stream, list, ours, theirs_least, theirs_most)
     values ($1, $2, ${sourceAndStream('$3')}, $4, $5, $6, $7) on conflict do nothing`,
    [claim.run, claim.account, claim.stream, counted.list, counted.ours, counted.theirs_least, counted.theirs_most],
  );
}

export async function readCounts(db: Queryable, run: number): Promise<Counted[]> {
  const { rows } = await db.query<Counted>(
    `select l.stream, l.list, l.ours, l.theirs_least, l.theirs_most
     from sync.verified_lists l join sync.streams k using (stream_key)
     where l.run_id = $1 and l.ours is not null order by k.place, l.list`,
    [run],
  );
  return rows;
}

export interface Found {
  stream: string;
  record: string;
  kind: string;
  differences: Record<string, [ours: unknown, theirs: unknown]>;
  repaired_at: Date | null;
}

/** SQL over a row of sync.audit: the source shows it, and here it is not, or has a tombstone. */
export const isMissing = (audit: string) => `${audit}.kind ~ '(missing here|came back)'`;

/** What a run found to differ: the first so many, and how many in all. */
export async function readFindings(
  db: Queryable,
  run: number,
  limit: number,
): Promise<{ found: Found[]; total: number; repaired: number; missing: Record<string, number> }> {
  const { rows } = await db.query<Found>(
    `select a.stream, a.record_id as record, a.kind, a.differences, a.repaired_at
     from sync.audit a where a.run_id = $1 and a.differences is not null order by a.id limit $2`,
    [run, limit],
  );
  const { rows: totals } = await db.query<{ stream: string; n: number; repaired: number; missing: number }>(
    `select stream, count(*) as n, count(repaired_at) as repaired, count(*) filter (where ${isMissing('a')}) as missing
     from sync.audit a where run_id = $1 and differences is not null group by stream`,
    [run],
  );
  return {
    found: rows,
    total: totals.reduce((sum, { n }) => sum + n, 0),
    repaired: totals.reduce((sum, { repaired }) => sum + repaired, 0),
    missing: Object.fromEntries(totals.map(({ stream, missing }) => [stream, missing])),
  };
}

// --- what is here ------------------------------------------------------------------------------------------------------

/** SQL over `t`: tickets that this list would show, where spam and trash have lists of their own or not. */
export const shownIn = (list: string) => `case ${list}
    when 'spam' then coalesce(t.spam, false)
    when 'trash' then coalesce(t.trash, false)
    else not exists (
      select from sync.coverage c
      where c.account_id = t.account_id and c.stream_key = 'helpdesk.tickets' and not c.redundant
        and (c.list = 'spam' and t.spam or c.list = 'trash' and t.trash)) end`;

/**
 * Of these tickets those that changed within what has been read of the list that shows them, or before anything is wanted:
 * what the mirror claims to have.
 */
export async function knownOf<T extends { id: string }>(
  db: Queryable,
  account: string,
  records: readonly T[],
  updated: (record: T) => Ms,
): Promise<Set<string>> {
  const is = (field: 'spam' | 'trash') => records.map(record => (record as { [field]?: unknown })[field] === true);
  const { rows } = await db.query<{ id: string }>(
    `select t.id
     from (
       select w.*, a.account_id, a.since from sync.accounts a,
         unnest($2::text[], $3::timestamptz[], $4::boolean[], $5::boolean[]) w (id, at, spam, trash)
       where a.account_id = $1) t
     where t.at < t.since or exists (
       select from sync.coverage k
       where k.account_id = $1 and k.stream_key = 'helpdesk.tickets' and not k.redundant and k.covered @> t.at and ${shownIn('k.list')})`,
    [account, records.map(({ id }) => id), records.map(one => new Date(updated(one))), is('spam'), is('trash')],
  );
  return new Set(rows.map(({ id }) => id));
}

/** Records of these that are open rejects. */
export async function setAside(
  db: Queryable,
  { account, stream }: Pick<Claim, 'account' | 'stream'>,
  ids: readonly string[],
): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const { rows } = await db.query<{ id: string }>(
    `select record_id as id from sync.rejects
     where account_id = $1 and stream_key = $2 and record_id = any($3) and cleared_at is null`,
    [account, stream, ids],
  );
  return new Set(rows.map(({ id }) => id));
}

/** Live tickets of a list that were created before this second, and within it. */
export async function countTickets(
  db: Queryable,
  account: string,
  list: string,
  beforeMs: Ms,
): Promise<{ before: number; within: number }> {
  const { rows } = await db.query<{ before: number; within: number }>(
    `select count(*) filter (where t.created_at < $3) as before,
       count(*) filter (where t.created_at >= $3 and t.created_at < $3::timestamptz + interval '1 second') as within
     from helpdesk.tickets t where t.account_id = $1 and t._deleted_at is null and ${shownIn('$2::text')}`,
    [account, list, new Date(beforeMs)],
  );
  return rows[0]!;
}

export async function countLive(
  db: Queryable,
  account: string,
  table: 'tickets' | 'customers' | 'users',
): Promise<number> {
  const { rows } = await db.query<{ n: number }>(
    `select count(*) as n from helpdesk.${table} where account_id = $1 and _deleted_at is null`,
    [account],
  );
  return rows[0]!.n;
}

/** Tickets of a list that were created in this range and were not shown; `range` undefined: those without a time. */
export async function unshownTickets(
  db: Queryable,
  account: string,
  list: string,
  { range, shown, sinceMs }: { range: Range | undefined; shown: readonly string[]; sinceMs: Ms },
): Promise<string[]> {
  const within = range ? 't.created_at >= $3 and t.created_at < $4' : 't.created_at is null and $3 < $4::timestamptz';
  const { rows } = await db.query<{ id: string }>(
    `select t.id from helpdesk.tickets t
     where t.account_id = $1 and t._deleted_at is null and ${within} and t.updated_at >= $5
       and ${shownIn('$2::text')} and t.id <> all($6)
     order by t.id`,
    [account, list, new Date(range?.from ?? 0), new Date(range?.to ?? 1), new Date(sinceMs), storableIds(shown)],
  );
  return rows.map(({ id }) => id);
}

/** Tickets by their ids, from behind `after` on: but for those that came during the run, and that it has not missed. */
export async function ticketsAfter(
  db: Queryable,
  { account, run }: Pick<Claim, 'account' | 'run'>,
  after: string,
  limit: number,
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select t.id from helpdesk.tickets t
     where t.account_id = $1 and t._deleted_at is null and t.id > $3
       and (t._first_seen_at < (select r.started_at from sync.stored_runs r where r.id = $2) or exists (
         select from sync.audit a where (a.account_id, a.run_id, a.stream_key, a.record_id) = ($1, $2, 'helpdesk.tickets', t.id)))
     order by t.id limit $4`,
    [account, run, after, limit],
  );
  return rows.map(({ id }) => id);
}

/** Live rows by their ids, from behind `after` on. */
export async function idsAfter(
  db: Queryable,
  account: string,
  table: 'customers' | 'users',
  after: string,
  limit: number,
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select id from helpdesk.${table} where account_id = $1 and _deleted_at is null and id > $2 order by id limit $3`,
    [account, after, limit],
  );
  return rows.map(({ id }) => id);
}

/** Rows with a tombstone from before the run, by their ids: but for those that a list has shown to it. */
export async function buriedAfter(
  db: Queryable,
  { account, run, stream }: Pick<Claim, 'account' | 'run' | 'stream'>,
  after: string,
  limit: number,
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select t.id from ${stream} t
     where t.account_id = $1 and t._deleted_at is not null and t.id > $4
       and t._synced_at < (select r.started_at from sync.stored_runs r where r.id = $2)
       and not exists (
         select from sync.audit a where (a.account_id, a.run_id, a.stream_key, a.record_id) = ($1, $2, $3, t.id))
     order by t.id limit $5`,
    [account, run, stream, after, limit],
  );
  return rows.map(({ id }) => id);
}

export async function countBuried(db: Queryable, account: string, table: 'tickets' | 'customers'): Promise<number> {
  const { rows } = await db.query<{ n: number }>(
    `select count(*) as n from helpdesk.${table} where account_id = $1 and _deleted_at is not null`,
    [account],
  );
  return rows[0]!.n;
}

/** Ranges of a stream that have not been read, and where the first of them begins. */
export async function holesOf(
  db: Queryable,
  account: string,
  stream: StreamKey,
): Promise<{ holes: number; from: Date | null }> {
  const { rows } = await db.query<{ holes: number; from: Date | null }>(
    `select count(*) as holes, min(gap_from) as "from" from sync.gaps where account_id = $1 and stream_key = $2`,
    [account, stream],
  );
  return rows[0]!;
}

/** For each label and each inbox that is in use the ticket that tells its name: which names ride along with which ticket. */
export async function ticketsForAllNames(db: Queryable, account: string): Promise<Map<string, ('labels' | 'inbox')[]>> {
  const { rows } = await db.query<{ id: string; embeds: ('labels' | 'inbox')[] }>(
    `select id, array_agg(distinct embed) as embeds from (
       select min(t.id) as id, 'labels' as embed
       from helpdesk.tickets t, unnest(t.label_ids) l (id)
       where t.account_id = $1 and t._deleted_at is null group by l.id
       union all
       select min(t.id), 'inbox' from helpdesk.tickets t
       where t.account_id = $1 and t._deleted_at is null and t.inbox_id is not null group by t.inbox_id) named
     group by id`,
    [account],
  );
  return new Map(rows.map(({ id, embeds }) => [id, embeds]));
}

// --- what hangs on nothing ---------------------------------------------------------------------------------------------

const hanging = {
  customers: [{ table: 'contacts', parent: 'customer_id', of: 'customers' }],
  messages: [
    { table: 'messages', parent: 'ticket_id', of: 'tickets' },
    { table: 'attachments', parent: 'ticket_id', of: 'tickets' },
    { table: 'ticket_labels', parent: 'ticket_id', of: 'tickets' },
  ],
} as const;

/** SQL over `p`, the record, and `o`, what hangs on it and is not gone with it. */
const lives = (table: string) => (table === 'ticket_labels' ? 'true' : 'o._deleted_at is null');

/** Records that are not here and that this run has not missed, though something hangs on them. */
export async function parentsLost(
  db: Queryable,
  { account, run }: Pick<Claim, 'account' | 'run'>,
  stream: keyof typeof hanging,
): Promise<string[]> {
  const parts = hanging[stream].map(
    ({ table, parent, of }) => `select o.${parent} as id from helpdesk.${table} o
      where o.account_id = $1 and ${lives(table)} and not exists (
        select from helpdesk.${of} p where p.account_id = o.account_id and p.id = o.${parent} and p._deleted_at is null)
      and not exists (
        select from sync.audit a
        where a.account_id = $1 and a.run_id = $2 and a.stream_key = 'helpdesk.${of}' and a.record_id = o.${parent} and ${isMissing('a')})`,
  );
  const { rows } = await db.query<{ id: string }>(`${parts.join('\nunion\n')} order by id`, [account, run]);
  return rows.map(({ id }) => id);
}

/** What hangs on this record and is not gone. */
export async function hangingOn(
  client: Client,
  account: string,
  stream: keyof typeof hanging,
  id: string,
): Promise<{ table: string; ids: string[] }[]> {
  const found: { table: string; ids: string[] }[] = [];
  for (const { table, parent } of hanging[stream]) {
    const key = table === 'ticket_labels' ? 'label_id' : 'id';
    const { rows } = await client.query<{ id: string }>(
      `select o.${key} as id from helpdesk.${table} o
       where o.account_id = $1 and o.${parent} = $2 and ${lives(table)} order by 1`,
      [account, id],
    );
    if (rows.length > 0) found.push({ table, ids: rows.map(row => row.id) });
  }
  return found;
}

/** What hangs on a record that the source has no more gets its tombstone; where it has none, it goes. Answers how many. */
export async function takeAway(
  client: Client,
  { account, run }: Pick<Claim, 'account' | 'run'>,
  stream: keyof typeof hanging,
  id: string,
  { nowMs, asOfMs }: { nowMs: Ms; asOfMs: Ms },
): Promise<number> {
  const now = new Date(nowMs);
  await client.query(`select ${keepChanges('$1', '$2', '$3')}`, [now, new Date(asOfMs), run]);
  let taken = 0;
  for (const { table, parent, of } of hanging[stream]) {
    const which = `o.account_id = $1 and o.${parent} = $2`;
    if (table !== 'ticket_labels') {
      const { rowCount } = await client.query(
        `update helpdesk.${table} o set _deleted_at = p._deleted_at, _synced_at = $3
         from helpdesk.${of} p
         where ${which} and o._deleted_at is null and p.account_id = $1 and p.id = $2 and p._deleted_at is not null`,
        [account, id, now],
      );
      taken += rowCount ?? 0;
    }
    const { rowCount } = await client.query(`delete from helpdesk.${table} o where ${which} and ${lives(table)}`, [
      account,
      id,
    ]);
    taken += rowCount ?? 0;
  }
  return taken;
}
