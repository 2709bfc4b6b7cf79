/**
 * Deliveries of hand-offs as rows: which is next, and who sends it. The oldest open delivery of an account and channel is
 * sent first, and by one process only. A process that dies loses its hold, because its lock in sync.workers ends.
 */
import type pg from 'pg';
import { query, raw, sql } from '../../engine/database/sql.ts';
import { retryMs } from './message.ts';

export interface Delivery {
  readonly handOff: number;
  readonly account: string;
  readonly run: number;
  readonly channel: string;
  /** Id of the message. */
  readonly id: string;
  /** The certificate as JSON. */
  readonly body: string;
  /** Number of failed attempts. */
  readonly tries: number;
}

/** A channel of an account through which a process may send. `worker`: the number of the process in sync.workers. */
export interface Line {
  readonly account: string;
  readonly channel: string;
  readonly worker: number;
}

const head = raw(`
  select o.hand_off_id from sync.hand_off_deliveries o
  where (o.account_id, o.channel) = (l.account_id, l.channel) and o.delivered_at is null order by o.hand_off_id limit 1`);
const isFree = raw(`(d.held_by is null or d.held_by = l.worker or not sync.is_alive(d.held_by))`);

/** The delivery is due. A retry is at most an hour ahead, so a later time comes from a wrong clock. */
const isDue = (now: Date) => sql`(d.next_try_at <= ${now} or d.next_try_at > ${now}::timestamptz + interval '1 hour')`;

/** The lines whose next delivery is due and not held by another live process. */
export async function dueLines<T extends Line>(db: pg.Pool, lines: readonly T[], now: Date): Promise<T[]> {
  if (lines.length === 0) return [];
  const places = await query(db).values<number>`
    select (l.place - 1)::int as place
    from unnest(${lines.map(({ account }) => account)}::text[], ${lines.map(({ channel }) => channel)}::text[],
      ${lines.map(({ worker }) => worker)}::int[]) with ordinality l (account_id, channel, worker, place)
    cross join lateral (${head}) h
    join sync.hand_off_deliveries d on (d.hand_off_id, d.channel) = (h.hand_off_id, l.channel)
    where ${isDue(now)} and ${isFree}
    order by l.place`;
  return places.map(place => lines[place]!);
}

const rowOf = ({ account, channel, worker }: Line) =>
  sql`(select ${account}::text as account_id, ${channel}::text as channel, ${worker}::int as worker) l`;

/** Takes the next delivery of a line. `now` null: although it is not due yet. */
export const takeDelivery = (db: pg.Pool, line: Line, now: Date | null): Promise<Delivery | undefined> =>
  query(db).first`
    update sync.hand_off_deliveries d set held_by = l.worker
    from ${rowOf(line)}
    cross join lateral (${head}) h
    join sync.hand_offs c on c.id = h.hand_off_id
    where (d.hand_off_id, d.channel) = (h.hand_off_id, l.channel) and d.delivered_at is null
      and ${now === null ? raw('true') : isDue(now)} and ${isFree}
    returning d.hand_off_id as "handOff", d.account_id as account, c.run_id as run, d.channel,
      c.certificate ->> 'id' as id, c.certificate::text as body, d.tries`;

/** The other live process that holds the next delivery of a line. */
export const holderOf = (db: pg.Pool, line: Line): Promise<number | undefined> =>
  query(db).value`
    select d.held_by as holder from ${rowOf(line)}
    cross join lateral (${head}) h
    join sync.hand_off_deliveries d on (d.hand_off_id, d.channel) = (h.hand_off_id, l.channel)
    where not ${isFree}`;

/** The delivery, unless another process holds it now. */
const heldBy = ({ handOff, channel }: Delivery, worker: number) =>
  sql`(hand_off_id, channel) = (${handOff}, ${channel}) and held_by = ${worker} and delivered_at is null`;

export async function noteDelivered(db: pg.Pool, delivery: Delivery, worker: number, now: Date) {
  await db.query(sql`
    update sync.hand_off_deliveries set delivered_at = ${now}, held_by = null, last_error = null where ${heldBy(delivery, worker)}`);
}

export async function noteUndelivered(
  db: pg.Pool,
  delivery: Delivery,
  worker: number,
  why: string,
  now: Date,
): Promise<void> {
  const next = new Date(now.getTime() + retryMs(delivery.tries + 1));
  await db.query(sql`
    update sync.hand_off_deliveries set tries = tries + 1, held_by = null, last_error = ${why}, next_try_at = ${next}
    where ${heldBy(delivery, worker)}`);
}

/** The hand-off of a run was sent again, and taken. */
export async function noteTaken(db: pg.Pool, { account, channel }: Line, run: number, now: Date): Promise<void> {
  await db.query(sql`
    update sync.hand_off_deliveries d set delivered_at = ${now}, held_by = null, last_error = null
    from sync.hand_offs h
    where h.id = d.hand_off_id and (h.account_id, h.run_id, d.channel) = (${account}, ${run}, ${channel}) and d.delivered_at is null`);
}

/** Gives a delivery back that was not attempted to its end. */
export async function release(db: pg.Pool, delivery: Delivery, worker: number): Promise<void> {
  await db.query(sql`update sync.hand_off_deliveries set held_by = null where ${heldBy(delivery, worker)}`);
}

/** A run with its certificate and deliveries, or with the reason why it has none. */
export interface HandOff {
  readonly run: number;
  readonly kind: string;
  readonly ended: Date;
  readonly issued: Date | null;
  readonly withheld: string | null;
  readonly completeThrough: Date | null;
  readonly deliveries: readonly { channel: string; delivered: string | null; tries: number; error: string | null }[];
}

/** The newest first. `limit` null: all. */
export const listHandOffs = (db: pg.Pool, account: string, limit: number | null): Promise<HandOff[]> =>
  query(db).rows`
    select h.run_id as run, h.kind, h.ended_at as ended, h.issued_at as issued, h.withheld,
      (h.certificate #>> '{data,complete_through}')::timestamptz as "completeThrough",
      (select coalesce(jsonb_agg(jsonb_build_object('channel', d.channel, 'delivered', d.delivered_at, 'tries', d.tries,
          'error', d.last_error) order by d.channel), '[]')
       from sync.hand_off_deliveries d where d.hand_off_id = h.id) as deliveries
    from sync.hand_offs h where h.account_id = ${account} order by coalesce(h.issued_at, h.ended_at) desc, h.id desc limit ${limit}`;

/** The message of a run; undefined if it has none. */
export const readHandOff = (
  db: pg.Pool,
  account: string,
  run: number,
): Promise<Pick<Delivery, 'id' | 'body'> | undefined> =>
  query(db).first`
    select certificate ->> 'id' as id, certificate::text as body from sync.hand_offs
    where account_id = ${account} and run_id = ${run} and certificate is not null`;
