/** The warehouse of a command, with a line that says where it is when it is the embedded one. */

import type pg from 'pg';
import type { Config } from '../app/config.ts';
import { openWarehouse, type Warehouse } from '../app/context.ts';
import { pendingMigrations } from '../engine/database/migrate.ts';
import { exitCodes, ShelfdeskError } from '../errors.ts';
import { say } from './output/terminal.ts';

export async function warehouseOf(
  config: Pick<Config, 'databaseUrl'> & { accounts?: readonly unknown[] },
  signal: AbortSignal,
): Promise<Warehouse> {
  const warehouse = await openWarehouse(config, { signal });
  if (warehouse.folder) say(`Warehouse: embedded PostgreSQL in ${warehouse.folder}`);
  return warehouse;
}

/** The same, released at once where tables are missing: else a command that has said so would never end. */
export async function tablesOf(...asked: Parameters<typeof warehouseOf>): Promise<Warehouse> {
  await using stack = new AsyncDisposableStack();
  const warehouse = stack.use(await warehouseOf(...asked));
  await requireTables(warehouse.pg);
  stack.move();
  return warehouse;
}

/** For commands that only look. */
export async function requireTables(db: pg.Pool): Promise<void> {
  const { missing } = await pendingMigrations(db);
  if (missing.length === 0) return;
  throw new ShelfdeskError(
    'the tables are not there yet, or old',
    'Run `npx shelfdesk sync` or `npx shelfdesk migrate`.',
    exitCodes.failed,
  );
}
