/** Migrates the warehouse to the tables of this version and of its sources. */
import { type Migrated, migrate } from '../engine/database/migrate.ts';
import { sources } from '../sources/index.ts';

export const migrateWarehouse = (url: string): Promise<Migrated> => migrate(url, undefined, sources);
