/** The checks of `doctor` in their order: a check comes after those that it needs. */
import { sources } from '../../../sources/index.ts';
import type { Check } from '../doctor-context.ts';
import { databaseChecks } from './database.ts';
import { lakeChecks } from './lake.ts';
import { queueChecks } from './queue.ts';
import { readerChecks } from './readers.ts';
import { scheduleChecks } from './schedule.ts';
import { settingsChecks } from './settings.ts';
import { sourceChecks } from './sources.ts';
import { workChecks } from './work.ts';

export const checks: readonly Check[] = [
  ...settingsChecks,
  ...databaseChecks,
  ...readerChecks,
  ...lakeChecks,
  ...queueChecks,
  ...(await Promise.all(sources.map(source => source.checks?.() ?? []))).flat(),
  ...sourceChecks,
  ...workChecks,
  ...scheduleChecks,
];
