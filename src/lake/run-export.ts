/** One export with its row in sync.lake_exports, and what follows it: rights of readers, and tidying once a day. */
import { mkdir } from 'node:fs/promises';
import type { Client } from '../engine/database/pool.ts';
import { catalogSchema, isBucket, openLake } from './duckdb.ts';
import { type Exported, exportTo } from './export.ts';
import { stageAll } from './stage.ts';
import { alone } from './state.ts';
import { tidy } from './tidy.ts';
import type { LakeWork } from './work.ts';

const tidyMs = 20 * 3_600_000;
/** Rows that sync.lake_exports keeps. */
const kept = 1000;

export interface Done extends Exported {
  readonly id: number;
}

/** Throws ShelfdeskError if another export is running. */
export async function runExport(work: LakeWork): Promise<Done> {
  if (!isBucket(work.place.path)) await mkdir(work.place.path, { recursive: true });
  return alone(work.url, async client => {
    const now = () => new Date(work.clock.now());
    // Nobody else works on the lake, so these are dead.
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
      await using lake = await openLake(work.url, work.place, { signal: work.signal });
      const done = await exportTo(lake, client, work.tables, {
        views: work.views,
        show: table => work.show(table),
        stage: (snapshot, accounts) => stageAll(work, id, snapshot, accounts),
      });
      // What was staged, and what a dead export has staged.
      if (done.staged) await lake.run(`call ducklake_delete_orphaned_files('lake', cleanup_all => true)`);
      await allowReaders(client, work.state.personal);
      const tidiedMs = work.state.tidiedAt?.getTime() ?? 0;
      if (work.clock.now() - tidiedMs >= tidyMs) {
        work.show('tidying');
        await tidy(lake, work.state.keepDays);
        await client.query('update sync.lake set tidied_at = $1', [now()]);
      }
      await client.query(
        `update sync.lake_exports set state = 'done', finished_at = $2, moment = $3, snapshot_id = $4, units = $5, inserted = $6,
           deleted = $7, files_cleared = $8 where id = $1`,
        [id, now(), done.moment, done.snapshot ?? null, done.units, done.inserted, done.deleted, done.filesCleared],
      );
      await client.query(`delete from sync.lake_exports where id <= $1`, [id - kept]);
      return { ...done, id };
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      await client
        .query(`update sync.lake_exports set state = 'failed', finished_at = $2, error = $3 where id = $1`, [
          id,
          now(),
          why,
        ])
        .catch(() => {});
      throw error;
    }
  });
}

/** Files know no accounts and no masks: only who may see all of the lake may read its catalog. */
async function allowReaders(client: Client, personal: boolean): Promise<void> {
  const { rows } = await client.query<{ role: string }>(
    `select quote_ident(r.role_name) as role from sync.readers r join pg_roles p on p.rolname = r.role_name
     where r.accounts is null and (r.pii or not $1) and not coalesce(has_schema_privilege(r.role_name, $2, 'usage'), false)`,
    [personal, catalogSchema],
  );
  for (const { role } of rows) {
    await client.query(`grant usage on schema ${catalogSchema} to ${role}`);
    await client.query(`grant select on all tables in schema ${catalogSchema} to ${role}`);
  }
}
