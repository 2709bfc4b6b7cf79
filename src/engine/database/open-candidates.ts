/**
 * The deletion candidates of further sources. schema/views has the view of the candidates of its own tables. Where another source
 * declares such lists, the view gets them, at each migration after the views.
 */
import type pg from 'pg';
import type { RowFacts } from '../../sources/source.ts';
import type { Mirror } from './mirrors.ts';

/** SQL: as of when the source last showed the row. */
export const lastShown = ({ created: { checkedAt } }: RowFacts, row = 't.'): string =>
  checkedAt === undefined ? `${row}_observed_at` : `greatest(${row}_observed_at, ${row}${checkedAt})`;

/** A candidate is open while nothing has shown its row since the list lacked it. */
const branchOf = (key: string, facts: RowFacts): string => `when '${key}' then exists (
    select from ${key} t
    where t.account_id = s.account_id and t.id = s.record_id
      and not sync.is_settled(t._deleted_at, ${lastShown(facts)}, s.missing_since))`;

export async function openCandidates(client: pg.Client, sources: readonly Mirror[]): Promise<void> {
  const further = sources.filter(({ schema }) => schema !== undefined).flatMap(({ streams }) => streams);
  if (!further.some(({ rowFacts }) => rowFacts)) return;
  const { rows } = await client.query<{ sql: string }>(
    `select pg_get_viewdef('sync.open_deletion_candidates'::regclass) as sql`,
  );
  const { sql } = rows[0]!;
  // The login of a worker may have no right to change views, so nothing is written if the view is current.
  const branches = further.flatMap(({ key, rowFacts }) =>
    rowFacts && !sql.includes(`'${key}'`) ? [branchOf(key, rowFacts)] : [],
  );
  if (branches.length === 0) return;
  const end = sql.lastIndexOf('ELSE');
  await client.query(
    `create or replace view sync.open_deletion_candidates as ${sql.slice(0, end)} ${branches.join(' ')} ${sql.slice(end)}`,
  );
}
