/** What `verify` was asked for, how far it has come, and what is here for it to compare. */
import type pg from 'pg';
import type { Ms, Range } from '../reading/reading.ts';
import type { Claim } from './claims.ts';
import { type Client, transaction } from './pool.ts';
import { reopen } from './ranges.ts';
import { lockAccount, type NewRun, openRun, type RunState } from './runs.ts';

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

/** One of everything that was interrupted, or failed, lately is gone on with: it may take days. */
export async function openVerification(
  db: pg.Pool,
  { asked, forecast, ...run }: Omit<NewRun, 'kind'> & { asked: Asked; forecast: Forecast },
  now: Date,
): Promise<{ run: number; resumed: boolean }> {
  return transaction(db, async client => {
    await lockAccount(client, run.account);
    const { rows } = await client.query<{ id: number; state: RunState }>(
      `select r.id, r.state from sync.stored_runs r join sync.verifications v on v.run_id = r.id
       where r.account_id = $1 and r.kind = 'verify' and v.sample is not distinct from $2 and v.repair = $3
         and (r.state = 'running' or r.finished_at > $4)
       order by r.id desc limit 1`,
      [run.account, asked.sample, asked.repair, new Date(now.getTime() - goesOnMs)],
    );
    const [same] = rows;
    const goesOn = asked.sample === null ? ['running', 'interrupted', 'failed'] : ['running'];
    if (same !== undefined && goesOn.includes(same.state)) {
      if (same.state !== 'running') await reopen(client, same.id, run.opener);
      return { run: same.id, resumed: true };
    }
    const id = await openRun(client, { ...run, kind: 'verify' }, now);
    await client.query(
      `insert into sync.verifications (run_id, account_id, sample, repair, credits, seconds) values ($1, $2, $3, $4, $5, $6)`,
      [id, run.account, asked.sample, asked.repair, forecast.credits, Math.ceil(forecast.seconds)],
    );
    return { run: id, resumed: false };
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
    'select place from sync.verified_lists where (run_id, stream, list) = ($1, $2, $3)',
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
    text: `insert into sync.verified_lists as l (run_id, account_id, stream, list, place) values ($1, $2, $3, $4, $5)
      on conflict (run_id, stream, list) do update set place = excluded.place`,
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
    `insert into sync.verified_lists (run_id, account_id, stream, list, ours, theirs_least, theirs_most)
     values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing`,
    [claim.run, claim.account, claim.stream, counted.list, counted.ours, counted.theirs_least, counted.theirs_most],
  );
}

export async function readCounts(db: Queryable, run: number): Promise<Counted[]> {
  const { rows } = await db.query<Counted>(
    `select l.stream, l.list, l.ours, l.theirs_least, l.theirs_most
     from sync.verified_lists l join sync.streams k using (stream)
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

/** What a run found to differ: the first so many, and how many in all. */
export async function readFindings(
  db: Queryable,
  run: number,
  limit: number,
): Promise<{ found: Found[]; total: number; missing: Record<string, number> }> {
  const { rows } = await db.query<Found>(
    `select a.stream, a.record_id as record, a.kind, a.differences, a.repaired_at
     from sync.audit a where a.run_id = $1 and a.differences is not null order by a.id limit $2`,
    [run, limit],
  );
  const { rows: totals } = await db.query<{ stream: string; n: number; missing: number }>(
    `select stream, count(*) as n, count(*) filter (where kind = 'missing here') as missing
     from sync.audit where run_id = $1 and differences is not null group by stream`,
    [run],
  );
  return {
    found: rows,
    total: totals.reduce((sum, { n }) => sum + n, 0),
    missing: Object.fromEntries(totals.map(({ stream, missing }) => [stream, missing])),
  };
}

// --- what is here ------------------------------------------------------------------------------------------------------

/** SQL over `t`: tickets that this list would show, where spam and trash have lists of their own or not. */
const shownIn = (list: string) => `case ${list}
    when 'spam' then coalesce(t.spam, false)
    when 'trash' then coalesce(t.trash, false)
    else not exists (
      select from sync.coverage c
      where c.account_id = t.account_id and c.stream = 'tickets' and not c.redundant
        and (c.list = 'spam' and t.spam or c.list = 'trash' and t.trash)) end`;

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
    [account, list, new Date(range?.from ?? 0), new Date(range?.to ?? 1), new Date(sinceMs), shown],
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
         select from sync.audit a where (a.account_id, a.run_id, a.stream, a.record_id) = ($1, $2, 'tickets', t.id)))
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

/** Our tickets as the list would show them in the order of creation: for a reading without a request. */
export async function pageOfOurs(
  db: Queryable,
  account: string,
  list: string,
  { sinceMs, updatedMs, page, perPage }: { sinceMs: Ms; updatedMs: Ms; page: number; perPage: number },
): Promise<{ id: string; time: Ms }[]> {
  const { rows } = await db.query<{ id: string; time: Ms }>(
    `select t.id, extract(epoch from t.created_at)::float8 * 1000 as time from helpdesk.tickets t
     where t.account_id = $1 and t._deleted_at is null and t.created_at >= $3 and t.updated_at >= $4 and ${shownIn('$2::text')}
     order by t.created_at, t.id limit $5 offset $6`,
    [account, list, new Date(sinceMs), new Date(updatedMs), perPage, (page - 1) * perPage],
  );
  return rows;
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

/** Rows that hang on a record that is not here and that this run has not missed, by that record; with `remove` they are taken away. */
export async function orphans(
  client: Client,
  { account, run }: Pick<Claim, 'account' | 'run'>,
  stream: keyof typeof hanging,
  remove: boolean,
): Promise<{ table: string; parent: string; ids: string[] }[]> {
  const found: { table: string; parent: string; ids: string[] }[] = [];
  for (const { table, parent, of } of hanging[stream]) {
    const id = table === 'ticket_labels' ? 'label_id' : 'id';
    const live = table === 'ticket_labels' ? '' : 'and o._deleted_at is null';
    const lost = `o.account_id = $1 ${live} and not exists (
      select from helpdesk.${of} p where p.account_id = o.account_id and p.id = o.${parent} and p._deleted_at is null)
      and not exists (
        select from sync.audit a
        where a.account_id = $1 and a.run_id = $2 and a.stream = '${of}' and a.record_id = o.${parent} and a.kind like '%missing here%')`;
    const { rows } = await client.query<{ parent: string; ids: string[] }>(
      `select o.${parent} as parent, array_agg(o.${id} order by o.${id}) as ids from helpdesk.${table} o
       where ${lost} group by o.${parent} order by o.${parent}`,
      [account, run],
    );
    found.push(...rows.map(row => ({ table, ...row })));
    if (remove && rows.length > 0) await client.query(`delete from helpdesk.${table} o where ${lost}`, [account, run]);
  }
  return found;
}
