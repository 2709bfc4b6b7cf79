/** Pauses: a paused stream or account is not read until people resume it. */

import { UsageError } from '../../errors.ts';
import { byKey, type Queryable } from '../database/pool.ts';
import { sql } from '../database/sql.ts';
import { nameOfKey, type StreamKey } from '../database/stream-key.ts';

export interface Paused {
  /** Null: the whole account. */
  readonly stream: StreamKey | null;
  readonly paused_at: Date;
  readonly paused_by: string;
  readonly reason: string | null;
}

/** The whole account first, then streams in the order of a full sync. */
export const pausedOf = (db: Queryable, account: string): Promise<Paused[]> =>
  byKey(db, 'paused').rows`
    select nullif(p.stream_key, '') as stream, p.paused_at, p.paused_by, p.reason
    from sync.paused p left join sync.streams k using (stream_key)
    where p.account_id = ${account} order by k.place nulls first`;

export const isPaused = (paused: readonly Paused[], key: StreamKey): boolean =>
  paused.some(({ stream }) => stream === null || stream === key);

/** The streams that are not paused. */
export async function notPaused(db: Queryable, account: string, streams: readonly StreamKey[]): Promise<StreamKey[]> {
  const paused = await pausedOf(db, account);
  return streams.filter(name => !isPaused(paused, name));
}

/** The streams that are not paused. Throws UsageError if all of them are. */
export async function unlessPaused(
  db: Queryable,
  account: string,
  streams: readonly StreamKey[],
): Promise<StreamKey[]> {
  const paused = await pausedOf(db, account);
  const some = streams.filter(name => !isPaused(paused, name));
  if (some.length > 0 || streams.length === 0) return some;
  const its = paused.find(({ stream }) => stream === null || streams.includes(stream))!;
  throw new UsageError(
    `${what(account, its.stream ?? '')} is paused, ${since(its)}`,
    `Run ${command(account, `resume ${nameOfKey(its.stream ?? '')}`.trim())} first.`,
  );
}

/** Throws UsageError if a stored field rule leaves out the stream whole. */
export async function unlessLeftOut(db: Queryable, account: string, stream: string): Promise<void> {
  if (stream === '') return;
  const { rows } = await db.query<{ rule: string }>(sql`
    select f.rule from sync.field_rules f join sync.streams k on k.stream_key = f.full_rule
    where f.account_id = ${account} and k.stream_key = sync.key_of(${stream})`);
  if (rows[0] === undefined) return;
  const { rule } = rows[0];
  throw new UsageError(
    `a field rule leaves out ${what(account, stream)}`,
    `To read it again, run ${command(account, `warehouse fields lift ${rule}`)} and take ${rule} out of FIELD_RULES.`,
  );
}

/** `since 2026-01-31T12:00Z by ada@desk (the desk moves)` */
export const since = ({ paused_at, paused_by, reason }: Paused): string =>
  `since ${minute(paused_at)} by ${paused_by}${reason === null ? '' : ` (${reason})`}`;

export const minute = (time: Date): string => `${time.toISOString().slice(0, 16)}Z`;

/** A stream, or the whole account. */
export const what = (account: string, stream: string): string =>
  stream === '' ? `account '${account}'` : nameOfKey(stream);

/** A command line for this account. */
export const command = (account: string, words: string): string =>
  `\`npx shelfdesk ${words}${account === 'default' ? '' : ` --account ${account}`}\``;
