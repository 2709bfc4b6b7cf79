/**
 * Selects the tickets whose messages are pending. A partial index on the tickets defines them, not a queue, so no
 * ticket can be lost. A ticket whose read failed has an open reject and waits until the reject is due.
 */
import type pg from 'pg';
import { noteAges } from '../../../engine/commit/change-latency.ts';
import type { Moment, Writer } from '../../../engine/commit/commit.ts';
import { keepChanges, without } from '../../../engine/commit/merge.ts';
import type { Client } from '../../../engine/database/pool.ts';
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

const notFailing = `not exists (
      select from sync.rejects r
      where r.account_id = t.account_id and r.stream_key = $4 and r.ask_id = t.id and r.cleared_at is null
        and r.next_try_at >= $5 and t._synced_at <= r.last_seen_at
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
          where ${waits} and ${which} and (t.updated_at <= $2 or (t.updated_at > $3 and t._messages_as_of is null)) and ${notFailing}
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
        and ${notAgain} and ${notFailing}
      order by t.updated_at desc
      limit $7`,
    values: [...valuesOf(claim, when), new Date(when.namesMs), limit, claim.run],
  });
  return rows.map(waitingOf);
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
  const [from, to] = bounds(scope);
  const { rows } = await db.query<{ any: boolean }>(
    `select exists (
       select from helpdesk.tickets t
       where ${waits} and (t.updated_at <= $3 or t._messages_as_of is null) and ${notFailing}
         and t.updated_at >= $2 and t.updated_at < $6) as any`,
    [claim.account, from, new Date(when.futureMs), claim.stream, new Date(when.startedMs), to],
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
  const [from, to] = bounds(scope);
  const { rows } = await db.query<{ updated_ms: number }>({
    name: 'first waiting',
    text: `select ${updatedMs} from helpdesk.tickets t
     where ${waits} and (t.updated_at <= $3 or t._messages_as_of is null) and ${notFailing}
       and t.updated_at >= $2 and t.updated_at < $6
     order by t.updated_at
     limit 1`,
    values: [claim.account, from, new Date(when.futureMs), claim.stream, new Date(when.startedMs), to],
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

/** What a claim of messages asks of the stored ticket. */
export interface Claimed {
  readonly id: string;
  readonly updatedMs: Ms;
  readonly asOfMs: Ms;
  readonly isAhead?: boolean;
}

/**
 * Marks the messages of a ticket as read as of this reply, before the reply's messages are stored. Returns undefined if
 * the reply must not replace anything: an older ticket version, an older as_of, or a time before the tombstone.
 *
 * If the reply brings a pending change and `sourceMs` is known, the change latency is recorded.
 */
export async function claimMessages(
  client: Client,
  { account, run }: Pick<Writer, 'account' | 'run'>,
  ticket: Claimed,
  sourceMs?: Ms,
): Promise<ClaimedMessages | undefined> {
  const claim = () =>
    client.query<ClaimedMessages & { arrived: boolean }>({
      name: 'claim messages',
      // The row is found by its key under any plan (see sameKey), and then updated by its ctid. The lock prevents an
      // update from a stale row while another reply is being stored.
      text: `with before as (
          select t.ctid as place, t._messages_as_of, t._messages_by from helpdesk.tickets t
          where t.account_id = $1 and t.id >= $2 and t.id <= $2
          order by t.id limit 1 for no key update)
        update helpdesk.tickets t set _messages_as_of = $4, _messages_by = $5::bigint
        from before
        where t.ctid = before.place and ${mayClaim('$3', '$4', '$6::boolean')}
        returning ${claimedOf('$2', '$4')}`,
      values: [
        ...[account, ticket.id, new Date(ticket.updatedMs), new Date(ticket.asOfMs), run, ticket.isAhead ?? false],
      ],
    });
  let { rows } = await claim();
  // After a wait for the lock, only a second statement sees the other transaction's changes.
  if (rows.length === 0) ({ rows } = await claim());
  const [claimed] = rows;
  if (claimed?.arrived && sourceMs !== undefined)
    await noteAges(client, { account, stream: 'helpdesk.messages' }, [ticket.updatedMs], sourceMs);
  return claimed && { first: claimed.first, asOf: claimed.asOf, by: claimed.by };
}

/** A ticket that usually equals its stored row. `text`: JSON text of the ticket. */
export interface Same extends Claimed {
  readonly text: string;
}

/**
 * As `claimMessages`, for several tickets that equal their stored rows. The others are not claimed, and none is if people were
 * erased. `onlyFirst`: tickets whose messages were stored before are not claimed either.
 */
export async function claimSame<T extends Same>(
  client: Client,
  { account, run }: Pick<Writer, 'account' | 'run'>,
  shown: readonly T[],
  { nowMs, sourceMs }: Moment,
  { onlyFirst }: { onlyFirst: boolean },
): Promise<Map<T, ClaimedMessages>> {
  // In one order, so that two such statements do not wait for each other crosswise.
  const asked = shown.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const { rows } = await client.query<ClaimedMessages & { id: string; arrived: boolean }>({
    name: 'claim same messages',
    // Whether people were erased is asked first: an erasure takes its lock before those of rows, too.
    text: `with free as materialized (select not sync.any_erased($1) as so),
      asked as (
        select a.id, a.updated_at, a.as_of, a.is_ahead, a.text::jsonb as record, a.n
        from unnest($2::text[], $3::timestamptz[], $4::timestamptz[], $6::boolean[], $7::text[]) with ordinality as a (id, updated_at, as_of, is_ahead, text, n)
        where (select f.so from free f)),
      before as materialized (
        select t.*, a.* from (select * from asked order by n) a
        cross join lateral (
          select t.ctid as place, t._messages_as_of, t._messages_by from helpdesk.tickets t
          where t.account_id = $1 and t.id >= a.id and t.id <= a.id
          order by t.id limit 1 for no key update) t)
      update helpdesk.tickets t set _messages_as_of = before.as_of, _messages_by = $5::bigint
      from before
      where t.ctid = before.place and ${mayClaim('before.updated_at', 'before.as_of', 'before.is_ahead')}
        and t._payload = (select ${without(tickets.merge.declared.root.leftOut ?? [])} from (select before.record) s)
        and (not $9 or before._messages_as_of is null and ${noMessages('before.id')})
      returning t.id, ${claimedOf('before.id', 'before.as_of')}, ${keepChanges('$8', 'before.as_of', '$5')}`,
    values: [
      account,
      asked.map(({ id }) => id),
      asked.map(({ updatedMs }) => new Date(updatedMs)),
      asked.map(({ asOfMs }) => new Date(asOfMs)),
      run,
      asked.map(({ isAhead = false }) => isAhead),
      asked.map(({ text }) => text),
      new Date(nowMs),
      onlyFirst,
    ],
  });
  const claims = new Map(rows.map(({ id, ...claim }) => [id, claim]));
  const claimed = shown.filter(({ id }) => claims.has(id));
  const changedMs = claimed.filter(({ id }) => claims.get(id)!.arrived).map(({ updatedMs }) => updatedMs);
  if (changedMs.length > 0 && sourceMs !== undefined)
    await noteAges(client, { account, stream: 'helpdesk.messages' }, changedMs, sourceMs);
  return new Map(claimed.map(one => [one, claims.get(one.id)!]));
}

/** SQL over `t`: whether a reply may replace the messages of the ticket. */
const mayClaim = (
  updatedAt: string,
  asOf: string,
  isAhead: string,
) => `date_trunc('milliseconds', t.updated_at) <= ${updatedAt}
          -- The date of a ticket dated ahead of its reply proves nothing. The stored row must be the same version.
          and (not ${isAhead} or date_trunc('milliseconds', t.updated_at) = ${updatedAt})
          and (t._messages_as_of is null or t._messages_as_of <= ${asOf}) and t._deleted_at is null`;

/** SQL. A ticket that returned may still have messages from before its tombstone. */
const noMessages = (id: string) => `(
            select true from internal.messages m where m.account_id = $1 and m.ticket_id >= ${id} and m.ticket_id <= ${id}
            order by m.ticket_id, m.position limit 1) is null`;

/** SQL: ClaimedMessages, and whether the reply brings a pending change. */
const claimedOf = (id: string, asOf: string) => `before._messages_as_of as "asOf", before._messages_by as by,
          before._messages_as_of is null and ${noMessages(id)} as first,
          t.updated_at > (select mirrored_since from sync.accounts where account_id = $1)
            and t.updated_at <= ${asOf} and (before._messages_as_of is null or before._messages_as_of < t.updated_at) as arrived`;

/** The reading before the one that is claimed. */
export interface ClaimedMessages {
  /** No messages were stored before, so none can have vanished. */
  readonly first: boolean;
  readonly asOf: Date | null;
  readonly by: number | null;
}

/** Keeps the reading before this one in sync.changes. A reading that found nothing new is not kept. */
export async function keepReading(
  client: Client,
  { account, run }: Pick<Writer, 'account' | 'run'>,
  id: string,
  { asOf, by }: ClaimedMessages,
  { nowMs, asOfMs }: { nowMs: Ms; asOfMs: Ms },
): Promise<void> {
  if (asOf === null) return;
  await client.query({
    name: 'keep reading',
    text: `insert into sync.changes (account_id, table_name, record_id, seen_at, as_of, run_id, changes)
      values ($1, 'tickets', $2, $3, $4, $5, jsonb_build_object('_messages_as_of', jsonb_build_array($6::timestamptz, $4::timestamptz))
        || case when $7::bigint is distinct from $5::bigint then jsonb_build_object('_messages_by', jsonb_build_array($7::bigint, $5::bigint)) else '{}' end)`,
    values: [account, id, new Date(nowMs), new Date(asOfMs), run, asOf, by],
  });
}

/**
 * The as_of of a ticket's messages. Locks the ticket row: no other reply replaces the messages before the transaction
 * ends.
 */
export async function lockMessages(client: Client, account: string, id: string): Promise<Date | undefined> {
  const { rows } = await client.query<{ _messages_as_of: Date | null }>(
    'select _messages_as_of from helpdesk.tickets where account_id = $1 and id = $2 for no key update',
    [account, id],
  );
  return rows[0]?._messages_as_of ?? undefined;
}

/** Column with the time by which a record was created, for streams that have one. */
const createdBy: Record<string, string> = {
  'helpdesk.tickets': 'created_at',
  'helpdesk.customers': '_created_before',
};

/** Whether the record existed at this time: it was created by then, or shown by then. False without a row. */
export async function isOlder(
  db: Pick<Client, 'query'>,
  { account, stream }: Pick<Claim, 'account' | 'stream'>,
  id: string,
  ms: Ms,
): Promise<boolean> {
  const { rows } = await db.query<{ older: boolean }>(
    `select exists (
       select from ${stream}
       where account_id = $1 and id = $2 and least(${createdBy[stream] ?? '_observed_at'}, _observed_at) <= $3) as older`,
    [account, id, new Date(ms)],
  );
  return rows[0]!.older;
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
  const by = new Date(byMs);
  const { rowCount } = await client.query(
    `update helpdesk.tickets set _deleted_at = $3, _synced_at = $4,
       _deleted_after = least($3, greatest(_observed_at, _messages_as_of) - $6 * interval '1 millisecond'),
       _messages_as_of = null, _messages_by = null
     where account_id = $1 and id = $2 and _deleted_at is null and _observed_at <= $5
     returning ${keepChanges('$4', 'null', '$7')}`,
    [account, id, by, now, new Date(asOfMs), lookbackMs, run],
  );
  if (rowCount === 0) return 0;
  for (const table of ['internal.messages', 'helpdesk.attachments']) {
    await client.query(
      `update ${table} set _deleted_at = $3, _synced_at = $4
       where account_id = $1 and ticket_id = $2 and _deleted_at is null`,
      [account, id, by, now],
    );
  }
  return 1;
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
