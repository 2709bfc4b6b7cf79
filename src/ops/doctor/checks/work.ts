/**
 * Checks of runs and processes. One check prints the open problems of the view sync.problems, which the page and the alarms read
 * as well. The other checks find what the view cannot know.
 */

import { listRejects, type StoredReject } from '../../../engine/commit/rejects.ts';
import { replay } from '../../../engine/load/replay.ts';
import { command } from '../../../engine/runs/pauses.ts';
import { endAbandonedRuns } from '../../../engine/runs/runs.ts';
import { streams } from '../../../sources/index.ts';
import { readProblems } from '../../../status/problems.ts';
import { liveProcesses } from '../../../status/workers.ts';
import { count } from '../../../words.ts';
import type { Check } from '../doctor-context.ts';
import { driftKinds, knownAccounts, openRuns } from '../doctor-state.ts';
import { fail, ok, warn } from './check.ts';

const hourMs = 3_600_000;
/** A first load takes 37 hours for 100,000 tickets. */
const longMs = 72 * hourMs;
const newMs = 7 * 24 * hourMs;

/**
 * The rejects that a newer version or a changed database can store now. Rejects of one stream with one reason have one
 * cause, so one of them is tried, without storing it. A source that has changed its interface is not replayed.
 */
async function thatHelp(deps: Parameters<typeof replay>[0], all: readonly StoredReject[]): Promise<StoredReject[]> {
  const found: StoredReject[] = [];
  const alike = Map.groupBy(all, ({ stream, reason }) => `${stream} ${reason.replaceAll(/\.\d+(?=[.:])/g, '[]')}`);
  for (const some of alike.values())
    if ((await replay(deps, streams, some.at(-1)!.id, { onlyTry: true })) === undefined) found.push(...some);
  return found;
}

export const workChecks: readonly Check[] = [
  {
    name: 'accounts',
    looks: 'accounts of the warehouse that were read in the last week and have no settings',
    needs: ['settings', 'tables'],
    async run({ warehouse, fleetIfAny, clock }) {
      const named = new Set(fleetIfAny!.accounts.map(({ account }) => account));
      const since = new Date(clock.now() - newMs);
      const known = await knownAccounts((await warehouse()).pg, since);
      const others = known.filter(({ account }) => !named.has(account));
      if (others.length === 0) return ok(`${count(named.size, 'account')}, as the settings say`);
      return warn(
        `the warehouse has ${others.map(({ account }) => account).join(', ')} as well, which nobody here reads any more`,
        'Nothing to do if another machine does, or --account left it out; else put it back into the file of SHELFDESK_CONFIG.',
      );
    },
  },
  {
    name: 'versions',
    looks: 'versions of all live processes',
    needs: ['tables'],
    async run({ warehouse, version }) {
      const living = await liveProcesses((await warehouse()).pg, null);
      const others = living.filter(one => one.version !== version);
      const processes = new Set(living.map(({ host, pid }) => `${host} ${pid}`)).size;
      if (others.length === 0) return ok(`${count(processes, 'process lives', 'processes live')}, of this version`);
      const told = [...new Set(others.map(one => `${one.version} on ${one.host}, process ${one.pid}`))];
      return warn(
        `this is ${version}, and others are ${told.join('; ')}`,
        'Upgrade all of them: stop each with SIGTERM and start it anew; its work is handed over.',
      );
    },
  },
  {
    name: 'runs',
    of: 'account',
    looks: 'open runs that no live process can continue, or that are days old',
    needs: ['tables'],
    async run(context) {
      const { pg } = await context.warehouse();
      const open = await openRuns(pg, context.account);
      const stuck = open.filter(run => run.stuck).map(({ id }) => id);
      const long = open.filter(
        run => !run.stuck && !run.paused && context.clock.now() - run.started_at.getTime() > longMs,
      );
      const found = long.map(({ id, kind, started_at }) =>
        warn(
          `run ${id} (${kind}) began at ${started_at.toISOString().slice(0, 16)}Z and is still open`,
          `See what it does by ${command(context.account, `runs show ${id}`)}; ${command(context.account, `runs cancel ${id}`)} ends it, and loses nothing that it has read.`,
        ),
      );
      if (stuck.length > 0)
        found.push(
          warn(
            `run ${stuck.join(', ')} ${stuck.length > 1 ? 'are' : 'is'} open, and no living process continues ${stuck.length > 1 ? 'them' : 'it'}`,
            'Run `npx shelfdesk start`: it continues open runs. `npx shelfdesk doctor --fix` ends them instead.',
            {
              says: 'write down that it was interrupted',
              async do() {
                await endAbandonedRuns(pg, context.account, new Date(context.clock.now()));
                return `run ${stuck.join(', ')} ended as interrupted; what was read stays`;
              },
            },
          ),
        );
      return found.length > 0 ? found : ok(`${open.length} open, none stuck`);
    },
  },
  {
    name: 'drift',
    of: 'account',
    looks: 'new kinds of drift in the last seven days',
    needs: ['tables'],
    async run({ warehouse, account, clock }) {
      const { pg } = await warehouse();
      const known = await driftKinds(pg, account, new Date(clock.now() - newMs));
      const found = known.filter(({ isNew }) => isNew);
      if (known.length === 0) return ok('none: the source is as it is documented');
      // Drift of a first load existed before the mirror, so it is no change of the source.
      if (found.length === 0)
        return ok(
          `${count(known.length, 'kind')}, none of them new: older than seven days, or met by the first load (${command(account, 'rejects drift')})`,
        );
      const shown = found
        .slice(0, 5)
        .map(({ stream, kind, path }) => `${stream} ${path || '(record)'}: ${kind.replaceAll('_', ' ')}`);
      return warn(
        `the source differs in a new way: ${shown.join('; ')}${found.length > shown.length ? '; …' : ''}`,
        `See ${command(account, 'rejects drift')}. Everything is kept in \`_payload\`; a newer Shelfdesk may know it.`,
      );
    },
  },
  {
    name: 'replayable rejects',
    of: 'account',
    looks: 'rejects whose stored payload can be replayed without a request',
    needs: ['tables'],
    async run(context) {
      const { pg } = await context.warehouse();
      const { account, clock } = context;
      const stored = (await listRejects(pg, account)).filter(
        ({ payload, as_of }) => payload !== null && as_of !== null,
      );
      const found = await thatHelp({ pg, account, clock }, stored);
      if (found.length === 0) return ok('none');
      return warn(
        `${count(found.length, 'rejected record')} can be replayed from the stored payload`,
        'Run `npx shelfdesk doctor --fix`. A record that is rejected again stays in the list of rejects.',
        {
          says: `replay ${count(found.length, 'rejected record')} without a request`,
          async do() {
            const deps = { pg, account, clock };
            let stored = 0;
            for (const { id } of found) if ((await replay(deps, streams, id)) === undefined) stored++;
            return `stored ${stored} of ${count(found.length, 'rejected record')}`;
          },
        },
      );
    },
  },
  {
    name: 'open problems',
    of: 'account',
    looks: 'rows of sync.problems, each with its remedy',
    needs: ['tables'],
    async run({ warehouse, account, config }) {
      // An ended demo has no worker, and needs none.
      const all = await readProblems((await warehouse()).pg, [account]);
      const found = config.demo && !config.demo.running ? all.filter(({ problem }) => problem !== 'no_worker') : all;
      if (found.length > 0)
        return found.map(({ severity, says, remedy }) => (severity === 'critical' ? fail : warn)(says, remedy));
      if (config.alarm !== undefined) return ok('none');
      return ok('none; ALARM_WEBHOOK_URL is not set, so Shelfdesk sends no alarms');
    },
  },
];
