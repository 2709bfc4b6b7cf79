/** `schedule list`: due times of the next runs and the result of the last one. */

import type { Command } from 'commander';
import type pg from 'pg';
import type { Config } from '../../app/config.ts';
import { configuredSources } from '../../app/context.ts';
import { systemClock } from '../../clock.ts';
import { pendingMigrations } from '../../engine/database/migrate.ts';
import { nameOfKey } from '../../engine/database/stream-key.ts';
import { nextSlots, timetables } from '../../engine/queue/schedule.ts';
import { lastSlot } from '../../engine/runs/slots.ts';
import { streams, streamsOf } from '../../sources/index.ts';
import { chosenAccounts } from '../choose-account.ts';
import { type Act, type Deps, jsonOption } from '../command.ts';
import { print, printJson, say, table } from '../output/terminal.ts';
import { warehouseOf } from '../warehouse.ts';

const shown = 3;
const nothing =
  'Nothing is scheduled: SCHEDULE_FRESH and SCHEDULE_NIGHTLY are empty, or no source is configured for them.';

export type Scheduled = Awaited<ReturnType<typeof scheduleOf>>[number];

export function addSchedule(program: Command, deps: Deps, act: Act): void {
  const schedule = program
    .command('schedule')
    .summary('show the next slots and the last results')
    .description('schedule that `start` follows');
  schedule
    .command('list', { isDefault: true })
    .description('show the next slots of each account and the result of the last one')
    .option(...jsonOption)
    .action(
      act(async (options: { json?: boolean }) => {
        await using warehouse = await warehouseOf(deps.asked().fleet, deps.signal);
        const { missing } = await pendingMigrations(warehouse.pg);
        const db = missing.length > 0 ? undefined : warehouse.pg;
        const found: Scheduled[] = [];
        const { accounts, refused } = await chosenAccounts(deps, db);
        for (const config of accounts) found.push(...(await scheduleOf(db, config)));
        for (const { account, error } of refused) say(`! ${account}: ${error.message}. ${error.remedy}`);
        if (options.json) printJson(found);
        else if (found.length > 0) print(list(found));
        if (found.length === 0) say(nothing);
      }),
    );
}

/** Schedule of an account. Without migrated tables (`db` undefined) the last slots are null. */
export async function scheduleOf(db: pg.Pool | undefined, config: Config) {
  const { account, schedule: times } = config;
  const sources = configuredSources(config);
  // Without a configured source: the schedule of all streams, as a preview.
  const all = timetables(times, sources.size > 0 ? streamsOf(sources) : streams);
  return Promise.all(
    all.map(async timetable => {
      const { schedule, streams } = timetable.plan;
      const last = db && (await lastSlot(db, account, schedule, new Date(systemClock.now())));
      return {
        ...{ account, schedule, cron: timetable.expression, time_zone: times.timeZone },
        reads: streams.map(nameOfKey),
        next: nextSlots(timetable, shown, systemClock.now()),
        last: last?.slot ?? null,
        last_run: last?.run_id ?? null,
        last_skipped: last?.skipped ?? null,
      };
    }),
  );
}

function list(found: readonly Scheduled[]): string {
  const rows = found.map(({ account, schedule, cron, time_zone, reads, next, last, last_run, last_skipped }) => [
    ...[account, schedule, next[0] ?? 'never', last ?? 'never'],
    ...[last_run === null ? last_skipped : `run ${last_run}`, cron, time_zone, reads.join(', ')],
    ...Array.from({ length: shown - 1 }, (_, i) => next[i + 1]),
  ]);
  // A narrow terminal has no room for the last columns.
  return table(['account', 'schedule', 'next', 'last', 'gave', 'cron', 'time zone', 'reads', 'then', 'then'], rows);
}

/** One line for each schedule of an account, or one that says why none is due. */
export const scheduleLines = (found: readonly Scheduled[]): string[] =>
  found.length === 0
    ? [nothing]
    : found.map(
        ({ schedule, cron, time_zone, next }) =>
          `Schedule:  ${schedule.padEnd(8)} ${cron} (${time_zone}), next ${next[0]?.toISOString() ?? 'never'}`,
      );
