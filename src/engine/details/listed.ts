/**
 * Selects the records of a stream that is read by id: those that a list showed as new or changed, and after a maximum age all that
 * have a place in a list. The selection derives from the rows themselves. A record that could not be read has an open reject.
 */
import type { Row } from '../../sources/source.ts';
import type { Queryable } from '../database/pool.ts';
import { raw, sql } from '../database/sql.ts';
import type { Ms } from '../reading/reading.ts';
import type { ById, Wanted } from './detail-rows.ts';

/** A row of the table. Its `since` is text with microseconds. */
type Found = Pick<Required<Wanted>, 'id' | 'since'>;

export interface Which {
  /** Records last read before this time, by the source's clock, are read again. */
  readonly beforeMs: Ms;
  /** Records that failed after this time are skipped. */
  readonly startedMs: Ms;
  readonly except?: readonly string[];
}

export class Listed {
  readonly #db: Queryable;
  readonly #account: string;
  readonly #stream: ById;

  constructor(db: Queryable, account: string, stream: ById) {
    this.#db = db;
    this.#account = account;
    this.#stream = stream;
  }

  async #find(sql: string, ...values: unknown[]): Promise<Found[]> {
    const { key, rows: of } = this.#stream;
    const text = `select t.id, t.${of.waitsSince}::text as since from ${key} t ${sql}`;
    const { rows } = await this.#db.query<Found>(text, [this.#account, ...values]);
    return rows;
  }

  /**
   * Order: records that wait, by the order of the stream; then the longest unread; then failed ones. Records without a
   * place are left out.
   */
  next({ beforeMs, startedMs, except = [] }: Which, limit: number): Promise<Found[]> {
    const { key, rows } = this.#stream;
    const { waitsSince, checkedAt, places, order } = rows;
    return this.#find(
      `join lateral (${places} limit 1) place on true
     cross join lateral (
       select max(next_try_at) as next_try_at from sync.rejects r
       where r.account_id = t.account_id and r.stream_key = $4 and r.ask_id = t.id and r.cleared_at is null) r
     where t.account_id = $1 and (t.${waitsSince} is not null or t.${checkedAt} < $2) and t.id <> all($3)
       and (r.next_try_at < $5 or r.next_try_at is null)
     order by r.next_try_at is not null, t.${waitsSince} is null, case when t.${waitsSince} is null then t.${checkedAt} end,
       ${order}, t.id
     limit $6`,
      ...[new Date(beforeMs), except, key, new Date(startedMs), limit],
    );
  }

  /** Failed records whose retry is due, the longest due first, if they still have a place. */
  retries(now: Date): Promise<Found[]> {
    const { key, rows } = this.#stream;
    return this.#find(
      `join sync.rejects r on (r.account_id, r.ask_id) = (t.account_id, t.id)
     where t.account_id = $1 and r.stream_key = $2 and r.cleared_at is null and r.next_try_at <= $3 and exists (${rows.places})
     group by t.account_id, t.id
     order by min(r.next_try_at)`,
      ...[key, now],
    );
  }

  /** The record that was read last and that has not failed since. */
  known(): Promise<Found[]> {
    const { key, rows } = this.#stream;
    return this.#find(
      `where t.account_id = $1 and t.${rows.checkedAt} is not null and not exists (
       select from sync.rejects r
       where r.account_id = t.account_id and r.stream_key = $2 and r.ask_id = t.id and r.cleared_at is null)
     order by t.${rows.checkedAt} desc limit 1`,
      key,
    );
  }

  /** Number of records that wait. A run reads all of them, so it does not depend on the run. */
  async count(): Promise<number> {
    const { waitsSince, places } = this.#stream.rows;
    return this.#number(`count(*)`, `t.${waitsSince} is not null and exists (${places})`) as Promise<number>;
  }

  /** Last reading of any record, by the source's clock. */
  async lastChecked(): Promise<Ms> {
    const { checkedAt } = this.#stream.rows;
    return (await this.#number(`extract(epoch from max(t.${checkedAt}))::float8 * 1000`)) ?? 0;
  }

  /**
   * Start of the change latency of a record that is about to be stored. Undefined for records that were there when the
   * mirror began, and for routine re-reads.
   */
  changedMs(id: Row['id']): Promise<Ms | undefined> {
    const { waitsSince, checkedAt, shownAt } = this.#stream.rows;
    const changed = `case when t.${checkedAt} is null then ${shownAt} else t.${waitsSince} end`;
    return this.#number(
      `extract(epoch from ${changed})::float8 * 1000`,
      `t.id = $2 and t.${waitsSince} > (select mirrored_since from sync.accounts where account_id = $1)`,
      id,
    );
  }

  async #number(what: string, where = 'true', ...values: unknown[]): Promise<number | undefined> {
    const { rows } = await this.#db.query<{ n: number | null }>(
      `select ${what} as n from ${this.#stream.key} t where t.account_id = $1 and ${where}`,
      [this.#account, ...values],
    );
    return rows[0]?.n ?? undefined;
  }

  /** Notes a reading. A newer change in a list makes the record pending again. */
  async note({ id, since = null }: Wanted, asOfMs: Ms): Promise<void> {
    const { waitsSince, checkedAt, read } = this.#stream.rows;
    await this.#db.query(sql`
      update ${raw(this.#stream.key)} set ${raw(read)}, ${raw(checkedAt)} = ${new Date(asOfMs)},
        ${raw(waitsSince)} = case when ${raw(waitsSince)}::text is distinct from ${since} then ${raw(waitsSince)} end
      where account_id = ${this.#account} and id = ${id}`);
  }
}
