/** Selects the stored rows of a list that a verification reads. */

import type { ListStream, Row, RowFacts } from '../../sources/source.ts';
import { readingOf } from '../database/open-candidates.ts';
import type { Queryable } from '../database/pool.ts';
import { numbered, query, raw, sql } from '../database/sql.ts';
import type { StreamKey } from '../database/stream-key.ts';
import { createdAt, partsOf, shownIn } from '../deletions/row-facts.ts';
import { storableIds } from '../json-text.ts';
import type { Ms, Range } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { type Standing, standingIn } from './findings.ts';

type List = ListStream<Row>;

/** The column that grows with each change of a record, if the list has one. */
export const versionOf = ({ merge }: Pick<List, 'merge'>): string | undefined => merge.declared.root.version;

/** Time in ms when the record was last changed, as it shows it; NaN if it does not. */
export const timeIn = (stream: List, record: Row): Ms =>
  versionOf(stream) === undefined ? (stream.changedAt?.(record) ?? Number.NaN) : stream.orderedBy(record);

/** State of the stored rows with these ids. `lock`: locks the rows until the transaction ends. `details`: the stream that is compared. */
export function standingOf(
  client: Queryable,
  account: string,
  stream: Pick<List, 'key' | 'merge' | 'rowFacts'>,
  ids: readonly string[],
  { details, ...at }: { askedMs: Ms; asOfMs: Ms; lock: boolean; details?: string },
): Promise<Map<string, Standing>> {
  const asOf = details === undefined ? 'null' : `t.${readingOf(details).asOf}`;
  const version = versionOf(stream);
  const rows = {
    table: stream.key,
    ...(version !== undefined && {
      updatedAt: `t.${version}`,
      hasMessages: `${asOf} >= t.${version} and ${asOf} <= $4`,
    }),
    ...(stream.rowFacts && { deletedSince: 't._deleted_after' }),
  };
  return standingIn(client, account, rows, ids, at);
}

/** Ids among these that still have parts stored. The records themselves are missing here. */
export async function leftBehind(
  client: Queryable,
  account: string,
  stream: List,
  ids: readonly string[],
): Promise<Set<string>> {
  const parts = partsOf(stream);
  if (parts.length === 0) return new Set();
  const isThere = raw(
    parts
      .map(
        ({ name, parent }) => `exists (select from ${name} m where m.account_id = a.account_id and m.${parent} = w.id)`,
      )
      .join(' or '),
  );
  const left = await query(client).values<string>`
    select w.id from unnest(${ids}::text[]) w (id), (select ${account}::text as account_id) a where ${isThere}`;
  return new Set(left);
}

/**
 * Ids of records that the mirror claims to have in these versions. Their changes lie in the synced range of the list
 * that shows them, or before the account's start.
 */
export async function knownOf(
  db: Queryable,
  account: string,
  stream: List,
  records: readonly Row[],
): Promise<Set<string>> {
  const own = stream.lists.filter(({ flag }) => flag !== undefined);
  const columns = own.map((_, i) => `, $${4 + i}::boolean[]`).join('');
  const { rows } = await db.query<{ id: string }>(
    `select t.id
     from (
       select w.*, a.account_id, a.since from sync.accounts a,
         unnest($2::text[], $3::timestamptz[]${columns}) w (id, at${own.map(({ flag }) => `, ${flag}`).join('')})
       where a.account_id = $1) t
     where t.at < t.since or exists (
       select from sync.coverage k
       where k.account_id = $1 and k.stream_key = '${stream.key}' and not k.redundant and k.covered @> t.at and ${shownIn(stream, 'k.list')})`,
    [
      account,
      records.map(({ id }) => id),
      records.map(record => new Date(timeIn(stream, record))),
      ...own.map(({ shows }) => records.map(record => shows?.(record) === true)),
    ],
  );
  return new Set(rows.map(({ id }) => id));
}

/** Numbers of live rows of a list that were created before this second, and within it. */
export async function countCreated(
  db: Queryable,
  account: string,
  stream: List,
  facts: RowFacts,
  { list, beforeMs }: { list: string; beforeMs: Ms },
): Promise<{ before: number; within: number }> {
  const [at, before] = [raw(createdAt(facts)), new Date(beforeMs)];
  return query(db).row`
    select count(*) filter (where ${at} < ${before}) as before,
      count(*) filter (where ${at} >= ${before} and ${at} < ${before}::timestamptz + interval '1 second') as within
    from ${raw(stream.key)} t
    where t.account_id = ${account} and t._deleted_at is null and ${numbered(shownIn(stream, '$1::text'), list)}`;
}

export const countLive = (db: Queryable, account: string, stream: StreamKey): Promise<number> =>
  query(db).value`
    select count(*) as n from ${raw(stream)} where account_id = ${account} and _deleted_at is null`;

/**
 * Ids of stored rows of a list that were created in this range and that the list did not show. `range` undefined: rows
 * without a creation time.
 */
export async function unshownRows(
  db: Queryable,
  account: string,
  stream: List,
  facts: RowFacts,
  { list, range, shown, sinceMs }: { list: string; range: Range | undefined; shown: readonly string[]; sinceMs: Ms },
): Promise<string[]> {
  const at = raw(createdAt(facts));
  const within = range ? sql`${at} >= ${new Date(range.from)} and ${at} < ${new Date(range.to)}` : sql`${at} is null`;
  const version = versionOf(stream);
  const since = version === undefined ? raw('true') : sql`t.${raw(version)} >= ${new Date(sinceMs)}`;
  return query(db).values`
    select t.id from ${raw(stream.key)} t
    where t.account_id = ${account} and t._deleted_at is null and ${within} and ${since}
      and ${numbered(shownIn(stream, '$1::text'), list)} and t.id <> all(${storableIds(shown)})
    order by t.id`;
}

/**
 * The next ids after `after` of rows whose tombstone is older than the run. Excludes rows that the run has already
 * reported as shown by a list.
 */
export const deletedAfter = (
  db: Queryable,
  { account, run, stream }: Pick<Claim, 'account' | 'run' | 'stream'>,
  after: string,
  limit: number,
): Promise<string[]> =>
  query(db).values`
    select t.id from ${raw(stream)} t
    where t.account_id = ${account} and t._deleted_at is not null and t.id > ${after}
      and t._synced_at < (select r.started_at from sync.stored_runs r where r.id = ${run})
      and not exists (
        select from sync.audit a
        where (a.account_id, a.run_id, a.stream_key) = (${account}, ${run}, ${stream}) and a.record_id = t.id)
    order by t.id limit ${limit}`;
