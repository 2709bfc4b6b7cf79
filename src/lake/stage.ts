/**
 * The parts of an export that begins the lake. The export keeps its snapshot open. Any worker of the warehouse takes a part:
 * it joins the snapshot, and writes the rows of some accounts to files beside the lake. The export then reads the files.
 */
import { exitCodes, ShelfdeskError } from '../errors.ts';
import { openLake } from './duckdb.ts';
import { joinSnapshot, readColumns, rowsOf } from './export.ts';
import { literal } from './table.ts';
import type { LakeWork } from './work.ts';

/** Accounts in one part. */
const together = 10;
const lookMs = 1000;

export interface Part {
  readonly export: number;
  readonly part: number;
  readonly snapshot: string;
  readonly accounts: readonly string[];
}

const fileOf = (work: LakeWork, exported: number, part: number | '*', table: string): string =>
  `${work.place.path}/staged-${exported}-${part}-${table}.parquet`;

/** Has all accounts staged by the workers of the queue. Resolves when all parts are done. */
export async function stageAll(
  work: LakeWork,
  exported: number,
  snapshot: string,
  accounts: readonly string[],
): Promise<(table: string) => string> {
  const parts: Part[] = [];
  for (let i = 0; i < accounts.length; i += together)
    parts.push({ export: exported, part: parts.length, snapshot, accounts: accounts.slice(i, i + together) });
  await work.pg.query(
    `insert into sync.lake_parts (export_id, part, accounts)
     select $1, p.part, array(select jsonb_array_elements_text(p.accounts)) from jsonb_to_recordset($2::jsonb) p (part int, accounts jsonb)`,
    [exported, JSON.stringify(parts)],
  );
  for (;;) {
    const { rows } = await work.pg.query<{ part: number; error: string | null }>(
      'select part, error from sync.lake_parts where export_id = $1 and done_at is null',
      [exported],
    );
    const failed = rows.find(({ error }) => error !== null);
    if (failed !== undefined)
      throw new ShelfdeskError(
        `a part of the export failed: ${failed.error}`,
        'Run the export again: it begins anew.',
        exitCodes.failed,
      );
    if (rows.length === 0) return table => fileOf(work, exported, '*', table);
    // Again with each look: a worker that stops leaves its part. A job that waits or runs is not added twice.
    for (const { part } of rows) await work.queue.add('stage-lake', `stage-${exported}-${part}`, parts[part]!);
    work.show(`${parts.length - rows.length} of ${parts.length} parts are staged`);
    await work.clock.sleep(lookMs, work.signal);
  }
}

/** One part. A part whose export has ended is none any more. */
export async function runPart(work: LakeWork, { export: exported, part, snapshot, accounts }: Part): Promise<void> {
  const { rowCount } = await work.pg.query(
    `select from sync.lake_parts p join sync.lake_exports e on e.id = p.export_id
     where (p.export_id, p.part) = ($1, $2) and p.done_at is null and e.state = 'running'`,
    [exported, part],
  );
  if (rowCount === 0) return;
  const noted = (error: string | null) =>
    work.pg.query(
      `update sync.lake_parts set done_at = case when $3::text is null then clock_timestamp() end, error = $3 where (export_id, part) = ($1, $2)`,
      [exported, part, error],
    );
  try {
    const client = await work.pg.connect();
    const columns = await readColumns(client, work.tables).finally(() => client.release());
    await using lake = await openLake(work.url, work.place, { signal: work.signal, mode: 'none' });
    await lake.run('begin');
    await joinSnapshot(lake, snapshot);
    for (const table of work.tables) {
      if (table.unit === 'all') continue;
      const rows = rowsOf(table, columns.get(table.name)!, { accounts });
      const to = fileOf(work, exported, part, table.name);
      await lake.run(`copy (${rows}) to ${literal(to)} (format parquet, compression zstd)`);
    }
    await lake.run('rollback');
  } catch (error) {
    if (!work.signal.aborted) await noted(error instanceof Error ? error.message : String(error));
    throw error;
  }
  await noted(null);
}
