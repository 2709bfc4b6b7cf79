/** One export with its row in sync.lake_exports, and tidying once a day. */
import type { Client } from '../engine/database/pool.ts';
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
    await client.query(
      `update sync.lake_exports set state = 'failed', finished_at = $1, error = 'the process died' where state = 'running'`,
      [now()],
    );
    const { rows } = await client.query<{ id: number }>(
      `insert into sync.lake_exports (started_at, state) values ($1, 'running') returning id::int`,
      [now()],
    );
    const { id } = rows[0]!;
    try {
      const { makeFolder, openLake, exportTo } = await lakePackage();
      await makeFolder(work.place);
      await using lake = await openLake(work.url, work.place, { signal: work.signal });
      const done = await exportTo(lake, client, work.tables, {
        show: table => work.show(table),
        stage: (snapshot, accounts) => stageAll(work, id, snapshot, accounts),
      });
      await client.query(
        `update sync.lake_exports set moment = $2, snapshot_id = $3, units = $4, inserted = $5, deleted = $6, files_cleared = $7
         where id = $1`,
        [id, done.moment, done.snapshot ?? null, done.units, done.inserted, done.deleted, done.filesCleared],
      );
      // Removes the staged parts of this export, and those of dead exports.
      if (done.staged) await lake.run(`call ducklake_delete_orphaned_files('lake', cleanup_all => true)`);
      await tidyIfDue(work, lake, client, now());
      await client.query(`update sync.lake_exports set state = 'done', finished_at = $2 where id = $1`, [id, now()]);
      await client.query(`delete from sync.lake_exports where id <= $1`, [id - kept]);
      return { ...done, id };
    } catch (error) {
      await client
        .query(`update sync.lake_exports set state = 'failed', finished_at = $2, error = $3 where id = $1`, [
          id,
          now(),
          messageOf(error),
        ])
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
  await client.query('update sync.lake set tidied_at = $1', [now]);
}
