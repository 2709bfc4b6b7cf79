/** Migrates the warehouse to the tables of this version and of its sources. */
import { type Migrated, migrate } from '../engine/database/migrate.ts';
import { sources } from '../sources/index.ts';

/** Names the tables that were not analysed; empty without one. */
export const leftOut = ({ busy = [] }: Migrated): string =>
  busy.length === 0
    ? ''
    : `Not analysed, because another session locks it: ${busy.join(', ')}. The next start does it.`;

export const migrateWarehouse = (url: string): Promise<Migrated> => migrate(url, undefined, sources);
