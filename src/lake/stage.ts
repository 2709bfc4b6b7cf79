/**
 * The parts of an export that begins the lake. The export keeps its snapshot open. Any worker of the warehouse takes a part:
 * it joins the snapshot, and writes the rows of some accounts to files beside the lake. The export then reads the files.
 */

import { sql } from '../engine/database/sql.ts';
import { messageOf, ShelfdeskError } from '../errors.ts';
import { lakePackage } from './package.ts';
import type { LakeTable } from './table.ts';
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

/** The files of a table that others have written. */
type Staged = (table: LakeTable) => readonly string[];

const fileOf = (work: LakeWork, name: string, table: string): string =>
  `${work.place.path}/staged-${name}-${table}.parquet`;

/** Has all accounts staged by the workers of the queue. Resolves when all parts are done. */
export async function stageAll(
  work: LakeWork,
  exported: number,
  snapshot: string,
  accounts: readonly string[],
): Promise<Staged> {
  const parts: Part[] = [];
  for (let i = 0; i < accounts.length; i += together)
    parts.push({ export: exported, part: parts.length, snapshot, accounts: accounts.slice(i, i + together) });
  await work.pg.query(sql`
    insert into sync.lake_parts (export_id, part, accounts)
    select ${exported}, p.part, array(select jsonb_array_elements_text(p.accounts))
      from jsonb_to_recordset(${JSON.stringify(parts)}::jsonb) p (part int, accounts jsonb)`);
  for (;;) {
    const { rows } = await work.pg.query<{ part: number; files: string | null; error: string | null }>(sql`
      select part, files, error from sync.lake_parts where export_id = ${exported} order by part`);
    const failed = rows.find(({ error }) => error !== null);
    if (failed !== undefined)
      throw new ShelfdeskError(`a part of the export failed: ${failed.error}`, 'Run the export again: it begins anew.');
    const open = rows.filter(({ files }) => files === null);
    if (open.length === 0) return table => rows.map(({ files }) => fileOf(work, files!, table.name));
    // Again with each look: a worker that stops leaves its part. A job that waits or runs is not added twice.
    for (const { part } of open) await work.queue.add('stage-lake', `stage-${exported}-${part}`, parts[part]!);
    work.show(`${parts.length - open.length} of ${parts.length} parts are staged`);
    await work.clock.sleep(lookMs, work.signal);
  }
}

/** One part. A part is dropped if its export has ended. */
export async function runPart(work: LakeWork, { export: exported, part, snapshot, accounts }: Part): Promise<void> {
  const isWanted = async () => {
    const { rowCount } = await work.pg.query(sql`
      select from sync.lake_parts p join sync.lake_exports e on e.id = p.export_id
      where (p.export_id, p.part) = (${exported}, ${part}) and p.files is null and e.state = 'running'`);
    return rowCount !== 0;
  };
  // Two workers may have the same part. The files of the first one count.
  const ended = ({ files = null, error = null }: { files?: string | null; error?: string | null }) =>
    work.pg.query(sql`
      update sync.lake_parts set done_at = case when ${files}::text is not null then clock_timestamp() end, files = ${files}, error = ${error}
      where (export_id, part) = (${exported}, ${part}) and files is null`);
  let files = '';
  try {
    if (!(await isWanted())) return;
    const { openLake, stagePart } = await lakePackage();
    await using lake = await openLake(work.url, work.place, { signal: work.signal, mode: 'none' });
    const [fresh] = await lake.rows<{ id: string }>('select uuid()::varchar as id');
    files = `${exported}-${part}-${fresh!.id}`;
    const to = { fileOf: (table: LakeTable) => fileOf(work, files, table.name), isWanted };
    if (!(await stagePart(lake, work.pg, work.tables, { snapshot, accounts }, to))) return;
  } catch (error) {
    if (!work.signal.aborted) await ended({ error: messageOf(error) });
    throw error;
  }
  await ended({ files });
}
