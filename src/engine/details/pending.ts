/**
 * Selects the records whose members are pending. A partial index on the records defines them, not a queue, so no
 * record can be lost. A record whose read failed has an open reject and waits until the reject is due.
 */
import { isFarAhead } from '../commit/rejects.ts';
import type { Queryable } from '../database/pool.ts';
import { query, raw } from '../database/sql.ts';
import { farFuture, type Ms } from '../reading/reading.ts';
import type { Scope } from '../runs/ranges.ts';
import { type Detail, idsOf, isDue, rowsOfParent, type Wanted } from './detail-rows.ts';

/** Changes younger than this are fresh. Older changes have lower priority. */
export const freshMs = 3_600_000;
/** Names are read again after a week, because renames are silent changes. */
export const namesMs = 7 * 24 * 3_600_000;

export interface When {
  /**
   * Changes of records after this time are not read yet. The record may change again in the same second and would cost
   * credits twice.
   */
  ripeMs: Ms;
  /** An update time after this is implausible. Such a record is read once, and its date never triggers another read. */
  futureMs: Ms;
  /**
   * Start of the run. A version that failed during this run is retried at the end of the run. A newer version is read.
   */
  startedMs: Ms;
  /** Names last shown before this time are due. */
  namesMs: Ms;
  /** Complete members that were last read before this time are read again. */
  agedMs?: Ms | undefined;
  /** This machine's clock. A failure that a clock far ahead noted puts off no retry, and a row that it wrote is no newer. */
  nowMs: Ms;
}

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

/** SQL: changes since this time are read before older ones. One day before the account was first mirrored. */
const recentFrom = `coalesce((select a.mirrored_since - interval '1 day' from sync.accounts a where a.account_id = $1), '-infinity')`;
/**
 * Changes younger than this can still arrive within the freshness target. They are read oldest first, so that the last
 * of many is not late.
 */
const youngMs = 90_000;
/** Records that are asked for to tell a source that refuses all from records that it refuses. */
const mostKnown = 3;

/**
 * SQL: for a run `r` that re-reads, the ids of all runs that re-read from the same moment on. They include `r`, the run
 * that it resumes, and the run that it joined.
 */
const besideAgain = `cross join lateral (
  select array(
    select o.id from sync.stored_runs o
    where r.again and o.account_id = r.account_id and o.kind = r.kind and o.again and o.again_before = r.again_before) as runs
  offset 0) a`;

/** The pending records of a stream of an account. */
export class Pending {
  readonly #db: Queryable;
  readonly #account: string;
  readonly #stream: Detail;
  readonly #table: string;
  /** SQL: the time of the last change. */
  readonly #at: string;
  /** SQL: as of when the members were read. */
  readonly #asOf: string;
  /** SQL: the members are pending. */
  readonly #waits: string;
  /** SQL: the record goes before others that did not change lately. */
  readonly #first: string;
  /**
   * SQL: the members were last read before that moment, and not by one of these runs. Of two concurrent replies, the one
   * stored last may have the earlier as_of.
   */
  readonly #notAgain: string;

  constructor(db: Queryable, account: string, stream: Detail) {
    const { table, version, asOf, by } = rowsOfParent(stream);
    this.#db = db;
    this.#account = account;
    this.#stream = stream;
    this.#table = table;
    this.#at = `t.${version}`;
    this.#asOf = `t.${asOf}`;
    this.#waits = `t.account_id = $1 and (t.${asOf} is null or t.${asOf} < t.${version}) and t._deleted_at is null`;
    this.#first = stream.first ?? 'false';
    this.#notAgain = `t.${asOf} < coalesce(r.again_before, 'infinity') and coalesce(t.${by} <> all (a.runs), true)`;
  }

  /**
   * The next pending records. Order: changes of the last 90 s, oldest first; recent changes; those that the stream puts
   * first; all others. The last three groups are read newest first.
   */
  async next(when: When, limit: number, scope: Scope = {}): Promise<Wanted[]> {
    const at = this.#at;
    return this.#found(
      'next',
      `with young as materialized (${this.#part(0, `${at} >= $10`, 'asc')}),
        recent as materialized (${this.#part(1, `${at} < $10 and ${at} >= ${recentFrom}`)}),
        first as materialized (${this.#part(2, `${at} < least($10, ${recentFrom}) and ${this.#first}`)}),
        rest as (${this.#part(
          3,
          `${at} < ${recentFrom} and (${this.#first}) is not true
          and (select count(*) from young) + (select count(*) from recent) + (select count(*) from first) < $7`,
        )}),
        t as (
          select * from (select * from young union all select * from recent union all select * from first union all select * from rest) w
          order by rank, place limit $7)
      select t.id, ${this.#dueNames()}
      from t order by t.rank, t.place`,
      [...this.#values(when, limit), ...bounds(scope), new Date(when.ripeMs - youngMs), new Date(when.nowMs)],
    );
  }

  /**
   * SQL for one priority group. Reads the partial index in order, so the cost depends on the limit and not on the
   * backlog.
   */
  #part(rank: number, which: string, order: 'asc' | 'desc' = 'desc'): string {
    const at = this.#at;
    const epoch = `extract(epoch from ${at})`;
    const mentions = this.#stream.names.map(({ ids }) => `, t.${ids}`).join('');
    return `
          select ${rank} as rank, ${order === 'asc' ? epoch : `-${epoch}`} as place, t.account_id, t.id${mentions}
          from ${this.#table} t
          where ${this.#waits} and ${which} and (${at} <= $2 or (${at} > $3 and ${this.#asOf} is null)) and ${notFailing('$11')}
            and ${at} >= $8 and ${at} < $9
          order by ${at} ${order}
          limit $7`;
  }

  /** The next records in the range of a re-reading backfill that it has not re-read yet. */
  again(run: number, when: When, limit: number): Promise<Wanted[]> {
    const at = this.#at;
    return this.#found(
      'next again',
      `select t.id, ${this.#dueNames()}
      from sync.stored_runs r ${besideAgain} join ${this.#table} t using (account_id)
      where r.id = $8 and t.account_id = $1 and t._deleted_at is null
        and ${at} >= coalesce(r.since, '-infinity') and ${at} < coalesce(r.until, $3) and ${at} <= $2
        and ${this.#notAgain} and ${notFailing('$9')}
      order by ${at} desc
      limit $7`,
      [...this.#values(when, limit), run, new Date(when.nowMs)],
    );
  }

  /** Records whose members are complete, and were last read before this time, the longest ago first. */
  async aged(
    { agedMs, startedMs, nowMs }: Pick<When, 'agedMs' | 'startedMs' | 'nowMs'>,
    limit: number,
  ): Promise<Wanted[]> {
    if (agedMs === undefined) return [];
    return this.#found(
      'aged',
      `select t.id from ${this.#table} t
      where t.account_id = $1 and t._deleted_at is null and ${this.#asOf} >= ${this.#at} and ${this.#asOf} < $2 and ${notFailing('$6')}
      order by ${this.#asOf}, t.id
      limit $3`,
      [this.#account, new Date(agedMs), limit, this.#stream.key, new Date(startedMs), new Date(nowMs)],
    );
  }

  async #found(what: string, text: string, values: unknown[]): Promise<Wanted[]> {
    const { key } = this.#stream;
    const { rows } = await this.#db.query<Wanted>({ name: `${what} of ${key}`, text, values });
    return rows;
  }

  /** SQL: the names that are due of those that the record mentions, as JSON. */
  #dueNames(): string {
    const each = this.#stream.names.map(
      name => `'${name.embed}', to_jsonb(array(select n.id from ${name.table} n
        where n.account_id = t.account_id and n.id = any(${idsOf(name)}) and ${isDue('$6')}))`,
    );
    // The parameter has a type even if nobody has names.
    return `case when $6::timestamptz is not null then jsonb_build_object(${each.join(', ')}) end as due`;
  }

  #values(when: When, limit: number): unknown[] {
    const { ripeMs, futureMs, startedMs, namesMs } = when;
    const [ripe, future, started, names] = [ripeMs, futureMs, startedMs, namesMs].map(ms => new Date(ms));
    return [this.#account, ripe, future, this.#stream.key, started, names, limit];
  }

  /** SQL: a pending record, ripe or not, that is not failing and is not pending only due to an implausible date. */
  #any(): string {
    return `from ${this.#table} t
     where ${this.#waits} and (${this.#at} <= $3 or ${this.#asOf} is null) and ${notFailing('$7')}
       and ${this.#at} >= $2 and ${this.#at} < $6`;
  }

  #anyValues({ futureMs, startedMs, nowMs }: When, scope: Scope): unknown[] {
    const [from, to] = bounds(scope);
    const [future, started, now] = [futureMs, startedMs, nowMs].map(ms => new Date(ms));
    return [this.#account, from, future, this.#stream.key, started, to, now];
  }

  /** Whether a record is pending, ripe or not. Ignores failing records, and those that are pending only due to an implausible date. */
  async any(when: When, scope: Scope): Promise<boolean> {
    const text = `select exists (select ${this.#any()}) as any`;
    const { rows } = await this.#db.query<{ any: boolean }>(text, this.#anyValues(when, scope));
    return rows[0]!.any;
  }

  /**
   * Time of the earliest such change; undefined if no record is pending. The query is cheap, because it runs all the
   * time.
   */
  async first(when: When, scope: Scope = {}): Promise<Ms | undefined> {
    const { rows } = await this.#db.query<{ updated_ms: number }>({
      name: `first of ${this.#stream.key}`,
      text: `select extract(epoch from ${this.#at})::float8 * 1000 as updated_ms ${this.#any()} order by ${this.#at} limit 1`,
      values: this.#anyValues(when, scope),
    });
    return rows[0]?.updated_ms;
  }

  /** Number of pending records. Ignores records that are pending only due to a date beyond `futureMs`. */
  async count(futureMs: Ms = farFuture, scope: Scope = {}): Promise<number> {
    const { rows } = await this.#db.query<{ n: number }>(
      `select count(*) as n from ${this.#table} t
       where ${this.#waits} and (${this.#asOf} is null or ${this.#at} <= $2) and ${this.#at} >= $3 and ${this.#at} < $4`,
      [this.#account, new Date(futureMs), ...bounds(scope)],
    );
    return rows[0]!.n;
  }

  /** Number of records that a run still has to read. */
  async left(run: number): Promise<number> {
    return query(this.#db).value<number>`
      select count(*) as n
      from sync.stored_runs r ${raw(besideAgain)} join ${raw(this.#table)} t using (account_id)
      where r.id = ${run} and t._deleted_at is null
        and (r.since is null or ${raw(this.#at)} >= r.since) and (r.until is null or ${raw(this.#at)} < r.until)
        and (${raw(this.#asOf)} is null or ${raw(this.#asOf)} < ${raw(this.#at)} or (r.again and ${raw(this.#notAgain)}))`;
  }

  /** The records whose members were read last, of each group one before others, and that were not refused since. */
  async known(): Promise<Wanted[]> {
    const { rows } = await this.#db.query<Wanted>(
      `select id from (
         select t.id, ${this.#asOf} as at, row_number() over (partition by ${this.#stream.group ?? 'null'} order by ${this.#asOf} desc) as place
         from ${this.#table} t
         where t.account_id = $1 and ${this.#asOf} is not null and t._deleted_at is null and not exists (
           select from sync.rejects r
           where (r.account_id, r.stream_key, r.ask_id) = ($1, $2, t.id) and r.cleared_at is null)) k
       order by place, at desc limit ${mostKnown}`,
      [this.#account, this.#stream.key],
    );
    return rows;
  }

  /**
   * Position of a record among the pending ones, in reading order; undefined if it is not pending. The changes of the
   * last 90 s are counted newest first, because their order changes too fast.
   */
  async place(id: string): Promise<{ place: number; of: number } | undefined> {
    const { rows } = await this.#db.query<{ place: number; of: number }>(
      `with waiting as (
         select t.id, ${this.#at} as at, case when ${this.#at} >= ${recentFrom} then 0 when ${this.#first} then 1 else 2 end as rank
         from ${this.#table} t where ${this.#waits})
       select (select count(*) from waiting w where (w.rank, me.at) < (me.rank, w.at)) + 1 as place, (select count(*) from waiting) as "of"
       from waiting me where me.id = $2`,
      [this.#account, id],
    );
    return rows[0];
  }
}

/** Whether the record that `first` found may be read now. */
export const isRipe = (first: Ms | undefined, { ripeMs, futureMs }: When): boolean =>
  first !== undefined && (first <= ripeMs || first > futureMs);
