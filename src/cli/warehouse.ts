/** Opens the warehouse for a command and prints the folder of an embedded server. */

import type pg from 'pg';
import { type Config, isDemo } from '../app/config.ts';
import { openWarehouse, type Warehouse } from '../app/context.ts';
import { pendingMigrations } from '../engine/database/migrate.ts';
import { exitCodes, ShelfdeskError } from '../errors.ts';
import { OpenStack } from '../open-stack.ts';
import { say } from './output/terminal.ts';

export async function warehouseOf(
  config: Pick<Config, 'databaseUrl' | 'demo'> & { accounts?: readonly unknown[] },
  signal: AbortSignal,
): Promise<Warehouse> {
  const warehouse = await openWarehouse(config, { signal });
  const whose = isDemo(config) ? 'that of the demo, an ' : '';
  if (warehouse.folder) say(`Warehouse: ${whose}embedded PostgreSQL in ${warehouse.folder}`);
  return warehouse;
}

/** Opens the warehouse and checks its tables. It is closed on an error; otherwise the process would not exit. */
export async function tablesOf(...asked: Parameters<typeof warehouseOf>): Promise<Warehouse> {
  await using stack = new OpenStack();
  const warehouse = stack.use(await warehouseOf(...asked));
  await requireTables(warehouse.pg);
  stack.move();
  return warehouse;
}

/** Throws ShelfdeskError if migrations are pending. For read-only commands, which do not migrate. */
export async function requireTables(db: pg.Pool): Promise<void> {
  const { missing } = await pendingMigrations(db);
  if (missing.length === 0) return;
  throw new ShelfdeskError(
    'the tables are missing or outdated',
    'Run `npx shelfdesk sync` or `npx shelfdesk migrate`.',
    exitCodes.failed,
  );
}
