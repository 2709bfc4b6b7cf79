/** The lake: whether its engine can be used, and how far it is. */
import { lakePackage } from '../../../lake/package.ts';
import { readLakeStatus } from '../../../lake/state.ts';
import type { Check } from '../doctor-context.ts';
import { fail, ok, skipped, warn } from './check.ts';

/** More than a day, so that a daily schedule is not late. */
const lateSeconds = 26 * 3600;

export const lakeChecks: readonly Check[] = [
  {
    name: 'lake',
    looks: 'whether the lake, if it is on, has files that can be reached, was exported within a day, and did not fail',
    needs: ['tables'],
    async run({ warehouse, fleetIfAny, signal }) {
      const { pg, url } = await warehouse();
      const status = await readLakeStatus(pg);
      if (status === undefined) return skipped('the lake is off');
      const { openLake, hasFiles } = await lakePackage();
      await using engine = await openLake(url, { ...fleetIfAny?.lake, path: status.path }, { signal, mode: 'none' });
      const found = await hasFiles(engine, status.path);
      if (status.state === 'failing')
        return fail(
          `the last export to the lake failed: ${status.last_error}`,
          '`npx shelfdesk lake export` tries it again; nothing is lost meanwhile.',
        );
      if (status.moment === null) return warn('the lake is empty', '`npx shelfdesk lake export` fills it.');
      if (!found)
        return fail(
          `the lake has no file at ${status.path}`,
          'Bring the files back, or begin anew: `npx shelfdesk lake off`, `lake on` and `lake export`.',
        );
      const at = status.moment.toISOString();
      if (status.behind_seconds! > lateSeconds)
        return warn(
          `the lake is as old as ${at}, with ${status.pending} changes pending`,
          'Run a worker, and look at SCHEDULE_LAKE; or `npx shelfdesk lake export`.',
        );
      return ok(`equal to the warehouse at ${at}`);
    },
  },
];
