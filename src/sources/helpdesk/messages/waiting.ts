/**
 * Selects the tickets whose messages are pending. A partial index on the tickets defines them, not a queue, so no
 * ticket can be lost. A ticket whose read failed has an open reject and waits until the reject is due.
 */
import type pg from 'pg';
import type { Writer } from '../../../engine/commit/page.ts';
import { isFarAhead } from '../../../engine/commit/rejects.ts';
import type { Client } from '../../../engine/database/pool.ts';
import { bury } from '../../../engine/deletions/bury.ts';
import { farFuture, type Ms } from '../../../engine/reading/reading.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import type { Scope } from '../../../engine/runs/ranges.ts';
import { tickets } from '../tickets.ts';

const waits = `t.account_id = $1 and (t._messages_as_of is null or t._messages_as_of < t.updated_at) and t._deleted_at is null`;

export interface Waiting {
  id: string;
  updatedMs: Ms;
  /**
   * Ids of labels and inboxes on the ticket whose names are unknown or old. Renames are silent changes, so names are
   * read again.
   */
  due: { labels: string[]; inbox: string[] };
}

export interface When {
  /**
   * Ticket changes after this time are not read yet. The ticket may change again in the same second and would cost
   * credits twice.
   */
  ripeMs: Ms;
  /** An update time after this is implausible. Such a ticket is read once, and its date never triggers another read. */
  futureMs: Ms;
  /**
   * Start of the run. A version that failed during this run is retried at the end of the run. A newer version is read.
   */
  startedMs: Ms;
  /** Names last shown before this time are due. */
  namesMs: Ms;
  /** This machine's clock. A failure that a clock far ahead noted puts off no retry, and a row that it wrote is no newer. */
  nowMs: Ms;
}

const due = `
    array(select l.id from helpdesk.labels l
      where l.account_id = t.account_id and l.id = any(t.label_ids) and (l._observed_at is null or l._observed_at < $6)) as labels,
    array(select i.id from helpdesk.inboxes i
      where i.account_id = t.account_id and i.id = t.inbox_id and (i._observed_at is null or i._observed_at < $6)) as inbox`;

const bounds = ({ fromMs, toMs }: Scope) => [
  fromMs === undefined ? '-infinity' : new Date(fromMs),
  toMs === undefined ? 'infinity' : new Date(toMs),
];

/** SQL; `now` is the parameter with this machine's clock. */
const notFailing = (now: string) => `not exists (
      select from sync.rejects r
      where r.account_id = t.account_id and r.stream_key = $4 and r.ask_id = t.id and r.cleared_at is null
        and r.next_try_at >= $5 and not ${isFarAhead('r.last_seen_at', now)}
        and (t._synced_at <= r.last_seen_at or ${isFarAhead('t._synced_at', now)})
      offset 0)`;

const updatedMs = 'extract(epoch from t.updated_at)::float8 * 1000 as updated_ms';

const valuesOf = (claim: Pick<Claim, 'account' | 'stream'>, when: When) => [
  claim.account,
  new Date(when.ripeMs),
  new Date(when.futureMs),
  claim.stream,
  new Date(when.startedMs),
];

interface Found {
  id: string;
  updated_ms: number;
  labels: string[];
  inbox: string[];
}

const waitingOf = ({ id, updated_ms, labels, inbox }: Found): Waiting => ({
  id,
  updatedMs: updated_ms,
  due: { labels, inbox },
});

/** SQL: changes since this time are read before older ones. One day before the account was first mirrored. */
const recentFrom = `coalesce((select a.mirrored_since - interval '1 day' from sync.accounts a where a.account_id = $1), '-infinity')`;
/**
 * Changes younger than this can still arrive within the freshness target. They are read oldest first, so that the last
 * of many is not late.
 */
const youngMs = 90_000;
const isOpen = `t.state in ('open', 'hold')`;

/**
 * The next pending tickets. Order: changes of the last 90 s, oldest first; recent changes; open or held tickets; all
 * others. The last three groups are read newest first.
 */
export async function nextWaiting(
  db: pg.Pool,
  claim: Pick<Claim, 'account' | 'stream'>,
  when: When,
  limit: number,
  scope: Scope = {},
): Promise<Waiting[]> {
  const { rows } = await db.query<Found>({
    name: 'next waiting',
    text: `with young as materialized (${waitingPart(0, 't.updated_at >= $10', 'asc')}),
        recent as materialized (${waitingPart(1, `t.updated_at < $10 and t.updated_at >= ${recentFrom}`)}),
        open as materialized (${waitingPart(2, `t.updated_at < least($10, ${recentFrom}) and ${isOpen}`)}),
        rest as (${waitingPart(
          3,
          `t.updated_at < ${recentFrom} and (${isOpen}) is not true
          and (select count(*) from young) + (select count(*) from recent) + (select count(*) from open) < $7`,
        )}),
        t as (
          select * from (select * from young union all select * from recent union all select * from open union all select * from rest) w
          order by rank, place limit $7)
      select t.id, ${updatedMs}, ${due}
      from t order by t.rank, t.place`,
    values: [
      ...valuesOf(claim, when),
      new Date(when.namesMs),
      limit,
      ...bounds(scope),
      new Date(when.ripeMs - youngMs),
      new Date(when.nowMs),
    ],
  });
  return rows.map(waitingOf);
}

/**
 * SQL for one priority group. Reads the partial index in order, so the cost depends on the limit and not on the
 * backlog.
 */
function waitingPart(rank: number, which: string, order: 'asc' | 'desc' = 'desc'): string {
  const epoch = 'extract(epoch from t.updated_at)';
  return `
          select ${rank} as rank, ${order === 'asc' ? epoch : `-${epoch}`} as place, t.account_id, t.id, t.updated_at, t._messages_as_of, t.label_ids, t.inbox_id
          from helpdesk.tickets t
          where ${waits} and ${which} and (t.updated_at <= $2 or (t.updated_at > $3 and t._messages_as_of is null)) and ${notFailing('$11')}
            and t.updated_at >= $8 and t.updated_at < $9
          order by t.updated_at ${order}
          limit $7`;
}

/**
 * SQL: for a run `r` that re-reads, the ids of all runs that re-read from the same moment on. They include `r`, the run
 * that it resumes, and the run that it joined.
 */
const besideAgain = `cross join lateral (
  select array(
    select o.id from sync.stored_runs o
    where r.again and o.account_id = r.account_id and o.kind = r.kind and o.again and o.again_before = r.again_before) as runs
  offset 0) a`;

/**
 * SQL: the messages were last read before that moment, and not by one of these runs. Of two concurrent replies, the one
 * stored last may have the earlier as_of.
 */
const notAgain = `t._messages_as_of < coalesce(r.again_before, 'infinity') and coalesce(t._messages_by <> all (a.runs), true)`;

/** The next tickets in the range of a re-reading backfill that it has not re-read yet. */
export async function nextAgain(db: pg.Pool, claim: Claim, when: When, limit: number): Promise<Waiting[]> {
  const { rows } = await db.query<Found>({
    name: 'next again',
    text: `select t.id, ${updatedMs}, ${due}
      from sync.stored_runs r ${besideAgain} join helpdesk.tickets t using (account_id)
      where r.id = $8 and t.account_id = $1 and t._deleted_at is null
        and t.updated_at >= coalesce(r.since, '-infinity') and t.updated_at < coalesce(r.until, $3) and t.updated_at <= $2
        and ${notAgain} and ${notFailing('$9')}
      order by t.updated_at desc
      limit $7`,
    values: [...valuesOf(claim, when), new Date(when.namesMs), limit, claim.run, new Date(when.nowMs)],
  });
  return rows.map(waitingOf);
}

function waitingValues({ account, stream }: Pick<Claim, 'account' | 'stream'>, when: When, scope: Scope): unknown[] {
  const [from, to] = bounds(scope);
  return [account, from, new Date(when.futureMs), stream, new Date(when.startedMs), to, new Date(when.nowMs)];
}

/**
 * Whether a ticket is pending, ripe or not. Ignores failing tickets, and tickets that are pending only due to an
 * implausible date.
 */
export async function anyWaiting(
  db: pg.Pool,
  claim: Pick<Claim, 'account' | 'stream'>,
  when: When,
  scope: Scope,
): Promise<boolean> {
  const { rows } = await db.query<{ any: boolean }>(
    `select exists (
       select from helpdesk.tickets t
       where ${waits} and (t.updated_at <= $3 or t._messages_as_of is null) and ${notFailing('$7')}
         and t.updated_at >= $2 and t.updated_at < $6) as any`,
    waitingValues(claim, when, scope),
  );
  return rows[0]!.any;
}

/** When the ticket with this id or number was last changed; undefined if the mirror has no such ticket. */
export async function changedAt(db: Pick<Client, 'query'>, account: string, name: string): Promise<Date | undefined> {
  const { rows } = await db.query<{ updated_at: Date }>(
    `select updated_at from helpdesk.tickets
     where account_id = $1 and (id = $2 or number = $3) and _deleted_at is null
     order by id = $2 desc, id limit 1`,
    [account, name, /^\d{1,15}$/.test(name) ? Number(name) : null],
  );
  return rows[0]?.updated_at;
}

/** Number of tickets that a run still has to read. */
export async function countLeft(db: Pick<Client, 'query'>, { run }: { run: number }): Promise<number> {
  const { rows } = await db.query<{ n: number }>(
    `select count(*) as n
     from sync.stored_runs r ${besideAgain} join helpdesk.tickets t using (account_id)
     where r.id = $1 and t._deleted_at is null
       and (r.since is null or t.updated_at >= r.since) and (r.until is null or t.updated_at < r.until)
       and (t._messages_as_of is null or t._messages_as_of < t.updated_at
         or (r.again and ${notAgain}))`,
    [run],
  );
  return rows[0]!.n;
}

const rankOf = (t: string) =>
  `case when ${t}.updated_at >= ${recentFrom} then 0 when ${t}.state in ('open', 'hold') then 1 else 2 end`;

/**
 * Position of a ticket among the pending tickets, in reading order; undefined if the ticket is not pending. The changes
 * of the last 90 s are counted newest first, because their order changes too fast.
 */
export async function placeInQueue(
  db: pg.Pool,
  account: string,
  id: string,
): Promise<{ place: number; of: number } | undefined> {
  const { rows } = await db.query<{ place: number; of: number }>(
    `select (
         select count(*) from helpdesk.tickets t
         where ${waits} and (${rankOf('t')}, me.updated_at) < (${rankOf('me')}, t.updated_at)) + 1 as place,
       (select count(*) from helpdesk.tickets t where ${waits}) as "of"
     from helpdesk.tickets me
     where me.account_id = $1 and me.id = $2 and exists (
       select from helpdesk.tickets t where ${waits} and t.id = me.id)`,
    [account, id],
  );
  return rows[0];
}

/**
 * Time of the earliest pending change, ripe or not; undefined if no ticket is pending. The query is cheap, because it
 * runs all the time.
 */
export async function firstWaiting(
  db: pg.Pool,
  claim: Pick<Claim, 'account' | 'stream'>,
  when: When,
  scope: Scope = {},
): Promise<Ms | undefined> {
  const { rows } = await db.query<{ updated_ms: number }>({
    name: 'first waiting',
    text: `select ${updatedMs} from helpdesk.tickets t
     where ${waits} and (t.updated_at <= $3 or t._messages_as_of is null) and ${notFailing('$7')}
       and t.updated_at >= $2 and t.updated_at < $6
     order by t.updated_at
     limit 1`,
    values: waitingValues(claim, when, scope),
  });
  return rows[0]?.updated_ms;
}

/** Whether the ticket that `firstWaiting` found may be read now. */
export const isRipe = (first: Ms | undefined, { ripeMs, futureMs }: When): boolean =>
  first !== undefined && (first <= ripeMs || first > futureMs);

/** Number of pending tickets. Ignores tickets that are pending only due to a date beyond `futureMs`. */
export async function countWaiting(
  db: pg.Pool,
  account: string,
  futureMs: Ms = farFuture,
  scope: Scope = {},
): Promise<number> {
  const { rows } = await db.query<{ n: number }>(
    `select count(*) as n from helpdesk.tickets t
     where ${waits} and (t._messages_as_of is null or t.updated_at <= $2) and t.updated_at >= $3 and t.updated_at < $4`,
    [account, new Date(futureMs), ...bounds(scope)],
  );
  return rows[0]!.n;
}

/**
 * Writes the tombstone of a ticket that the source deleted, confirmed by id. If the ticket returns, its messages become
 * pending again. `byMs`: time by which the ticket was deleted, allowing for the resolution of the source's clock. The
 * source may show a deletion one lookback late.
 */
export async function markTicketDeleted(
  client: Client,
  { account, run }: Pick<Writer, 'account' | 'run'>,
  id: string,
  asOfMs: Ms,
  now: Date,
  { byMs, lookbackMs }: { byMs: Ms; lookbackMs: number } = { byMs: asOfMs, lookbackMs: 0 },
): Promise<number> {
  return bury(client, { account, run }, tickets, [id], {
    goneMs: byMs,
    beforeMs: asOfMs + 1,
    nowMs: now.getTime(),
    lookbackMs,
  });
}

/** SQL: the name of this label or inbox is unknown, or was last shown before `$3`. */
const nameIsDue = (of: string) => `${of}.account_id = $1 and (${of}._observed_at is null or ${of}._observed_at < $3)`;

/**
 * For each name that is unknown or was last shown before `namesMs`: a ticket that mentions it. Excludes the tickets in
 * `except`.
 */
export async function ticketsForNames(
  db: pg.Pool,
  account: string,
  except: readonly string[],
  namesMs: Ms,
): Promise<{ id: string; due: { labels: string[]; inbox: string[] } }[]> {
  const { rows } = await db.query<{ id: string; labels: string[]; inbox: string[] }>(
    `with due as (
       select array(select l.id from helpdesk.labels l where ${nameIsDue('l')}) as labels,
         array(select i.id from helpdesk.inboxes i where ${nameIsDue('i')}) as inboxes)
     select m.id, array_agg(m.label_id) filter (where m.label_id is not null) as labels,
       array_agg(m.inbox_id) filter (where m.inbox_id is not null) as inbox
     from (
       select min(t.id) as id, u.label_id, u.inbox_id
       from due cross join helpdesk.tickets t
       cross join lateral (
         select l.label_id, null as inbox_id from unnest(t.label_ids) l (label_id) where l.label_id = any(due.labels)
         union all
         select null, t.inbox_id where t.inbox_id = any(due.inboxes)) u
       -- Without a name that is due, no ticket is read.
       where due.labels || due.inboxes <> '{}' and t.account_id = $1 and t._deleted_at is null and t.id <> all($2)
       group by u.label_id, u.inbox_id) m
     group by m.id`,
    [account, except, new Date(namesMs)],
  );
  return rows.map(row => ({ id: row.id, due: { labels: row.labels ?? [], inbox: row.inbox ?? [] } }));
}

export async function nameThem(
  client: Client,
  account: string,
  upsert: string,
  values: { text: string; asked: readonly string[]; at: { nowMs: Ms; asOfMs: Ms } },
): Promise<void> {
  const { text, asked, at } = values;
  await client.query(upsert, [text, account, new Date(at.nowMs), new Date(at.asOfMs), asked]);
}
