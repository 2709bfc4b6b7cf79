/** One export with its row in sync.lake_exports, and tidying once a day. */
import type { Client } from '../engine/database/pool.ts';
import { query, sql } from '../engine/database/sql.ts';
import { messageOf } from '../errors.ts';
import { type Exported, type Lake, lakePackage } from './package.ts';
import { stageAll } from './stage.ts';
import { alone, readLake } from './state.ts';
import type { LakeWork } from './work.ts';

const tidyMs = 20 * 3_600_000;
/** Rows that sync.lake_exports keeps. */
const kept = 1000;

export interface Done extends Exported {
  readonly id: number;
}

/** Throws ShelfdeskError if another export is running. */
export async function runExport(work: LakeWork): Promise<Done> {
  return alone(work.url, async client => {
    const now = () => new Date(work.clock.now());
    // No other process works on the lake, so these exports are dead.
    await client.query(sql`
      update sync.lake_exports set state = 'failed', finished_at = ${now()}, error = 'the process died' where state = 'running'`);
    const { id } = await query(client).row<{ id: number }>`
      insert into sync.lake_exports (started_at, state) values (${now()}, 'running') returning id::int`;
    try {
      const { makeFolder, openLake, exportTo } = await lakePackage();
      await makeFolder(work.place);
      await using lake = await openLake(work.url, work.place, { signal: work.signal });
      const done = await exportTo(lake, client, work.tables, {
        show: table => work.show(table),
        stage: (snapshot, accounts) => stageAll(work, id, snapshot, accounts),
      });
      await client.query(sql`
        update sync.lake_exports
          set moment = ${done.moment}, snapshot_id = ${done.snapshot ?? null}, units = ${done.units}, inserted = ${done.inserted},
          deleted = ${done.deleted}, files_cleared = ${done.filesCleared}
        where id = ${id}`);
      // Removes the staged parts of this export, and those of dead exports.
      if (done.staged) await lake.run(`call ducklake_delete_orphaned_files('lake', cleanup_all => true)`);
      await tidyIfDue(work, lake, client, now());
      await client.query(sql`update sync.lake_exports set state = 'done', finished_at = ${now()} where id = ${id}`);
      await client.query(sql`delete from sync.lake_exports where id <= ${id - kept}`);
      return { ...done, id };
    } catch (error) {
      await client
        .query(sql`
          update sync.lake_exports set state = 'failed', finished_at = ${now()}, error = ${messageOf(error)} where id = ${id}`)
        .catch(() => {});
      throw error;
    }
  });
}

async function tidyIfDue(work: LakeWork, lake: Lake, client: Client, now: Date): Promise<void> {
  const { keepDays, tidiedAt } = (await readLake(client))!;
  if (now.getTime() - tidiedAt.getTime() < tidyMs) return;
  work.show('tidying');
  const { tidy, hideBounds } = await lakePackage();
  await tidy(lake, keepDays);
  await hideBounds(client, work.tables);
  await client.query(sql`update sync.lake set tidied_at = ${now}`);
}
