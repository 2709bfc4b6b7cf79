/**
 * The deletion candidates of further sources. schema/views has the view of the candidates of its own tables. Where another source
 * declares such lists, the view is made again with them, at each migration after the views.
 */
import type pg from 'pg';
import type { RowFacts } from '../../sources/source.ts';
import { checksumOf } from './checksums.ts';
import type { Mirror } from './mirrors.ts';

/** SQL: as of when the source last showed the row. */
export function lastShown({ created, detailsAsOf }: RowFacts, row = 't.'): string {
  const column = 'before' in created ? created.checkedAt : detailsAsOf;
  return column === undefined ? `${row}_observed_at` : `greatest(${row}_observed_at, ${row}${column})`;
}

/** A candidate is open while nothing has shown its row since the list lacked it. */
const branchOf = (key: string, facts: RowFacts): string => `when '${key}' then exists (
    select from ${key} t
    where t.account_id = s.account_id and t.id = s.record_id
      and not sync.is_settled(t._deleted_at, ${lastShown(facts)}, s.missing_since))`;

export async function openCandidates(client: pg.Client, sources: readonly Mirror[]): Promise<void> {
  const branches = sources.flatMap(({ streams, schema }) =>
    streams.flatMap(({ key, rowFacts }) =>
      rowFacts ? [{ sql: branchOf(key, rowFacts), isFurther: schema !== undefined }] : [],
    ),
  );
  if (!branches.some(({ isFurther }) => isFurther)) return;
  const view = `create or replace view sync.open_deletion_candidates as
select s.account_id, s.stream, s.record_id, s.missing_since, s.alive_at, s.gone_at, s.gone_since, s.attempts, s.error, s.run_id,
  s.source, s.stream_key
from sync.deletion_candidates s
where case s.stream_key
  ${branches.map(({ sql }) => sql).join('\n  ')}
  end`;
  const checksum = checksumOf(view);
  // The login of a worker may have no right to change views, so nothing is written if the view is current. The note of
  // its state goes when the views are made again.
  const { rows } = await client.query(
    `select from sync.source_files where (source, name, checksum) = ('sync', 'open_deletion_candidates', $1)`,
    [checksum],
  );
  if (rows.length > 0) return;
  await client.query(view);
  await client.query(
    `insert into sync.source_files as f (source, name, checksum) values ('sync', 'open_deletion_candidates', $1)
     on conflict (source, name) do update set checksum = excluded.checksum`,
    [checksum],
  );
}
