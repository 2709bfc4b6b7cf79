/**
 * Views over the tables of several sources: deletion candidates, and records whose details wait. schema/views has them for its own
 * tables. What another source declares is added at each migration, after the views.
 */
import type pg from 'pg';
import type { RowFacts, Stream } from '../../sources/source.ts';
import type { Mirror } from './mirrors.ts';
import { query } from './sql.ts';

/** The columns that tell as of when, and by which run, a stream of details read those of a record. A tombstone clears them. */
export const readingOf = (details: string) => ({ asOf: `_${details}_as_of`, by: `_${details}_by` });

/** SQL: as of when the source last showed the row. */
export const lastShown = ({ created: { checkedAt } }: RowFacts, row = 't.'): string =>
  checkedAt === undefined ? `${row}_observed_at` : `greatest(${row}_observed_at, ${row}${checkedAt})`;

/** A candidate is open while nothing has shown its row since the list lacked it. */
const branchOf = (key: string, facts: RowFacts): string => `when '${key}' then exists (
    select from ${key} t
    where t.account_id = s.account_id and t.id = s.record_id
      and not sync.is_settled(t._deleted_at, ${lastShown(facts)}, s.missing_since))`;

/** Each record waits whose details were not read since it has changed. */
const waitingIn = ({ key, name, of }: Stream & { kind: 'detail' }): string => {
  const { version } = of.merge.declared.root;
  const { asOf } = readingOf(name);
  return ` union all select t.account_id, '${key}', t.id, t.${version} from ${of.key} t
    where (t.${asOf} is null or t.${asOf} < t.${version}) and t._deleted_at is null`;
};

export async function openCandidates(client: pg.Client, sources: readonly Mirror[]): Promise<void> {
  const further = sources.filter(({ schema }) => schema !== undefined).flatMap(({ streams }) => streams);
  await extend(
    client,
    'sync.open_deletion_candidates',
    further,
    ({ key, rowFacts }) => rowFacts && branchOf(key, rowFacts),
    'ELSE',
  );
  await extend(
    client,
    'sync.waiting_details',
    further,
    stream => (stream.kind === 'detail' ? waitingIn(stream) : undefined),
    ';',
  );
}

/** Adds to a view what it lacks of these streams, before the last `end`. */
async function extend(
  client: pg.Client,
  view: string,
  streams: readonly Stream[],
  sqlOf: (stream: Stream) => string | undefined,
  end: string,
): Promise<void> {
  const parts = streams
    .flatMap(stream => [[stream.key, sqlOf(stream)] as const])
    .filter(([, sql]) => sql !== undefined);
  if (parts.length === 0) return;
  const sql = await query(client).value<string>`select pg_get_viewdef(${view}::regclass)`;
  // The login of a worker may have no right to change views, so nothing is written if the view is current.
  const missing = parts.flatMap(([key, part]) => (sql.includes(`'${key}'`) ? [] : [part]));
  if (missing.length === 0) return;
  const at = sql.lastIndexOf(end);
  await client.query(`create or replace view ${view} as ${sql.slice(0, at)} ${missing.join(' ')} ${sql.slice(at)}`);
}
