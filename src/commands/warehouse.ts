/** The warehouse of a command, with a line that says where it is when it is the embedded one. */
import type { Config } from '../config.ts';
import { openWarehouse, type Warehouse } from '../context.ts';
import { say } from './terminal.ts';

export async function warehouseOf(config: Pick<Config, 'databaseUrl'>, signal: AbortSignal): Promise<Warehouse> {
  const warehouse = await openWarehouse(config, { signal });
  if (warehouse.folder) say(`Warehouse: embedded PostgreSQL in ${warehouse.folder}`);
  return warehouse;
}
