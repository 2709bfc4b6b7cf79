/** Opens the warehouse for a command and prints the folder of an embedded server. */

import type pg from 'pg';
import { type Config, isDemo, typosIn } from '../app/config.ts';
import { embeddedFolder, openWarehouse, type Warehouse } from '../app/context.ts';
import { hasEmbedded } from '../embedded/demo-place.ts';
import { pendingMigrations } from '../engine/database/migrate.ts';
import { refuseUnfit } from '../engine/database/refusals.ts';
import { ShelfdeskError } from '../errors.ts';
import { OpenStack } from '../open-stack.ts';
import { sources } from '../sources/index.ts';
import { say, style } from './output/terminal.ts';

interface Teller {
  info(text: string): void;
  warn(text: string): void;
}

/** Throws ShelfdeskError if no mirror can be made in the database: an old server, another encoding, schemas of others. */
export async function warehouseOf(
  config: Pick<Config, 'databaseUrl' | 'demo'> & { accounts?: readonly unknown[] },
  signal: AbortSignal,
  tell: Teller = { info: say, warn: text => say(`${style('yellow', '!', process.stderr)} ${text}`) },
): Promise<Warehouse> {
  const typos = typosIn();
  if (typos !== '') tell.warn(typos);
  await using stack = new OpenStack();
  if (config.databaseUrl === undefined && !hasEmbedded(embeddedFolder(config)))
    tell.info('Making an embedded PostgreSQL for the warehouse, which takes some seconds …');
  const warehouse = stack.use(await openWarehouse(config, { signal }));
  const whose = isDemo(config) ? 'that of the demo, an ' : '';
  if (warehouse.folder) tell.info(`Warehouse: ${whose}embedded PostgreSQL in ${warehouse.folder}`);
  await refuseUnfit(warehouse.pg, sources);
  stack.move();
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
  );
}
