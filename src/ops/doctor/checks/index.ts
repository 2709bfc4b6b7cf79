/** The checks of `doctor` in their order: a check comes after those that it needs. */
import { sources } from '../../../sources/index.ts';
import type { Check, PlacedCheck } from '../doctor-context.ts';
import type { Area } from './check.ts';
import { databaseChecks } from './database.ts';
import { lakeChecks } from './lake.ts';
import { queueChecks } from './queue.ts';
import { readerChecks } from './readers.ts';
import { scheduleChecks } from './schedule.ts';
import { settingsChecks } from './settings.ts';
import { sourceChecks } from './sources.ts';
import { workChecks } from './work.ts';

const ofSources = await Promise.all(
  sources.map(async ({ checks }): Promise<Area<Check>[]> => {
    if (checks === undefined) return [];
    const { area, checks: its } = await checks();
    return [{ area, checks: its.map(check => ({ ...check, of: 'account' })) }];
  }),
);

const areas: readonly Area<Check>[] = [
  { area: 'settings', checks: settingsChecks },
  { area: 'database', checks: [...databaseChecks, ...readerChecks, ...lakeChecks] },
  { area: 'queue', checks: queueChecks },
  ...ofSources.flat(),
  { area: 'sources', checks: sourceChecks },
  { area: 'the work', checks: workChecks },
  { area: 'schedule', checks: scheduleChecks },
];

export const checks: readonly PlacedCheck[] = areas.flatMap(({ area, checks }) =>
  checks.map(check => ({ ...check, area })),
);
