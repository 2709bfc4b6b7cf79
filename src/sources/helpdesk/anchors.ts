/**
 * Where a sync's request for the newest records should reach back to (see ends.ts): to a few records from before the wanted
 * range. A few, because an update takes a ticket out of that place.
 */
import type { Client } from '../../engine/database/pool.ts';
import { type Anchor, floorSecond, type Ms, type Page, secondMs } from '../../engine/reading/reading.ts';
import type { Claim } from '../../engine/runs/claims.ts';

type Db = Pick<Client, 'query'>;
type Account = Pick<Claim, 'account'>;

const few = 5;
/** Rows among which these few are looked for. A list of spam may have none for years. */
const mostRows = 500;

interface Stored {
  /** Of the oldest of the few; null without one. */
  readonly since_ms: Ms | null;
  /** There are rows of the wanted range. */
  readonly wanted: boolean;
}

const anchored = ({ since_ms, wanted }: Stored, fromMs: Ms): Anchor => ({
  since: Math.max(0, floorSecond(since_ms ?? fromMs) - secondMs),
  isStored: since_ms !== null || wanted,
});

/** The default list may hide spam, trash, archived and snoozed tickets. */
const listed: Readonly<Record<string, string>> = {
  default: `spam is not true and trash is not true and coalesce(state, '') not in ('archived', 'snoozed')`,
  spam: 'spam',
  trash: 'trash',
};

export async function anchorOfTickets(db: Db, { account }: Account, list: string, fromMs: Ms): Promise<Anchor> {
  const { rows } = await db.query<Stored>(
    `select extract(epoch from min(updated_at))::float8 * 1000 as since_ms, exists (
       select from helpdesk.tickets where account_id = $1 and updated_at >= $2 and _deleted_at is null and ${listed[list]}) as wanted
     from (
       select updated_at from (
         select updated_at, spam, trash, state from helpdesk.tickets
         where account_id = $1 and updated_at < $2 and _deleted_at is null order by updated_at desc limit ${mostRows}) t
       where ${listed[list]} order by updated_at desc limit ${few}) t`,
    [account, new Date(floorSecond(fromMs))],
  );
  return anchored(rows[0]!, fromMs);
}

/** The tickets among these that were last updated before this time, as the mirror has them. */
export async function oldTickets(db: Db, { account }: Account, shown: Page['rows'], fromMs: Ms): Promise<Set<string>> {
  const before = shown.filter(({ time }) => time < floorSecond(fromMs));
  const { rows } = await db.query<{ id: string }>(
    `select t.id from unnest($2::text[], $3::timestamptz[]) s (id, at)
     join helpdesk.tickets t on (t.account_id, t.id, t.updated_at) = ($1, s.id, s.at) where t._deleted_at is null`,
    [account, before.map(({ id }) => id), before.map(({ time }) => new Date(time))],
  );
  return new Set(rows.map(({ id }) => id));
}

/** The bounds of a customer who was read by a long walk are too wide to tell a place in the list. */
const narrow = `interval '2 days'`;

export async function anchorOfCustomers(db: Db, { account }: Account, _list: string, fromMs: Ms): Promise<Anchor> {
  const { rows } = await db.query<Stored>(
    `select extract(epoch from min(_created_after))::float8 * 1000 as since_ms, exists (
       select from helpdesk.customers
       where account_id = $1 and _created_after >= $2::timestamptz - interval '1 second' and _deleted_at is null) as wanted
     from (
       select _created_after from (
         select _created_after, _created_before from helpdesk.customers
         where account_id = $1 and _deleted_at is null order by _created_after desc limit ${mostRows}) c
       where _created_before <= $2 and _created_before - _created_after < ${narrow} order by _created_after desc limit ${few}) c`,
    [account, new Date(floorSecond(fromMs))],
  );
  return anchored(rows[0]!, fromMs);
}

/** The customers among these who were created before this time, for certain. */
export async function oldCustomers(
  db: Db,
  { account }: Account,
  shown: Page['rows'],
  fromMs: Ms,
): Promise<Set<string>> {
  const { rows } = await db.query<{ id: string }>(
    `select id from helpdesk.customers where account_id = $1 and id = any($2) and _created_before <= $3`,
    [account, shown.map(({ id }) => id), new Date(floorSecond(fromMs))],
  );
  return new Set(rows.map(({ id }) => id));
}
