/** `start`: runs a worker and the schedule of all accounts until SIGTERM. Several processes and machines may run it concurrently. */

import type { Command } from 'commander';
import type { Logger } from 'pino';
import { type Ground, openGround } from '../../app/account.ts';
import type { Config, Fleet } from '../../app/config.ts';
import { requireSource } from '../../app/context.ts';
import { keepRounds, type Served, serve } from '../../app/serve.ts';
import { systemClock } from '../../clock.ts';
import { workConnections } from '../../engine/database/pool.ts';
import { untilBack } from '../../engine/outage.ts';
import {
  describeOutage,
  exitCodes,
  Interrupted,
  isBack,
  machineRefusal,
  orReason,
  ShelfdeskError,
} from '../../errors.ts';
import { OpenStack } from '../../open-stack.ts';
import { keepAlarms, toldOf } from '../../ops/alarms/send-alarms.ts';
import { keepHandOffs } from '../../ops/hand-offs/send-hand-offs.ts';
import { lakeTables } from '../../sources/index.ts';
import { count } from '../../words.ts';
import { type Act, aborted, type Deps, note } from '../command.ts';
import { openVoice } from '../output/voice.ts';
import { warehouseOf } from '../warehouse.ts';
import { reporterOf } from './report-runs.ts';
import { scheduleLines, scheduleOf } from './schedule.ts';
import { showWork } from './show-work.ts';

/** Interval at which the accounts file is re-read and failed accounts are retried. SIGHUP does it immediately. */
const settleMs = 60_000;
/** Most account names in a message. */
const shownNames = 10;

export function addStart(program: Command, deps: Deps, act: Act): void {
  program
    .command('start')
    .summary('run a worker and the schedule')
    .description('run a worker and the schedule until SIGTERM or Ctrl-C; several workers may run concurrently')
    .addHelpText(
      'after',
      note(
        'Creates the tables first. Any number of workers may run, on any number of machines. They share the work and the credits. On SIGTERM or Ctrl-C a worker hands over at the next page.',
      ),
    )
    .action(
      act(async () => {
        // Register first, and also without a file: the default action of SIGHUP would end the process silently.
        using asked = watchHangUp();
        const fleet = deps.fleet();
        const [alone] = fleet.files.length === 0 ? fleet.accounts : [];
        if (alone !== undefined) requireSource(alone);
        const log = openVoice(fleet);
        const patient = retryOutages(deps.signal, log);
        try {
          await using warehouse = await patient(() => warehouseOf(fleet, deps.signal, log));
          await using ground = await patient(() => openGround(fleet, warehouse, log));
          await using page = await patient(() => pageOf(fleet, ground, deps.fleet, program.version()!));
          await using _lake = await lakeOn(fleet, ground, deps);
          const withPage = page === undefined ? ground : { ...ground, page };
          if (alone === undefined) await serveFleet(fleet, withPage, deps, { asked, patient });
          else await serveAlone(alone, withPage, deps, patient);
        } catch (error) {
          // Interrupted while waiting for a server. A running worker stops without an error.
          if (!(orReason(error, deps.signal) instanceof Interrupted)) throw error;
        }
        return exitCodes.ok;
      }),
    );
}

/** Retry interval while the database or Redis is unavailable at the start. */
const awayMs = 1000;

type Patient = <T>(work: () => Promise<T>) => Promise<T>;

/** Retries the start of a worker while the database or Redis is unavailable. Reports each cause once. */
function retryOutages(signal: AbortSignal, log: Logger): Patient {
  let said = '';
  const pause = async (error: Error) => {
    const why = describeOutage(error, 'the warehouse');
    // Strip the changing parts, which are details in brackets and the service name, to compare causes.
    const cause = why.replace(/ \(.*$/s, '').replace(/^.*?(?=cannot be used|does not answer)/, '');
    if (cause !== said) log.warn(`${why}; waiting for it`);
    said = cause;
    await systemClock.sleep(awayMs, signal);
  };
  return async work => {
    let away: Error | undefined;
    const done = await untilBack(work, error => {
      away = error;
      return pause(error);
    });
    if (away !== undefined) log.info(isBack(away, 'the warehouse'));
    said = '';
    return done;
  };
}

/** Serves the page if a port is set. A taken port is a problem in sync.problems: the worker runs without the page. */
async function pageOf(
  { web }: Fleet,
  ground: Ground,
  fleet: () => Fleet,
  version: string,
): Promise<(NonNullable<Ground['page']> & AsyncDisposable) | undefined> {
  if (web.port === undefined) return undefined;
  const [{ openPage, pageAccess }, { PortTaken }] = await Promise.all([
    import('../look/web.ts'),
    import('../../ops/page/server.ts'),
  ]);
  try {
    const page = await openPage(ground, { web, port: web.port, version, fleet });
    ground.log.info(`Web page: ${page.url} (${pageAccess(web)}).`);
    return page;
  } catch (error) {
    if (!(error instanceof PortTaken)) throw error;
    ground.log.warn(`${error.message}. This process continues without the page.`);
    return { error: error.message, [Symbol.asyncDispose]: async () => {} };
  }
}

async function lakeOn({ lake }: Fleet, { warehouse, queues, log }: Ground, { lakeJobs, signal }: Deps) {
  const { keepLake } = await import('../../lake/work.ts');
  return keepLake(
    {
      ...{ url: warehouse.url, pg: warehouse.pg, queues, log, reach: lake },
      ...{ tables: lakeTables, jobs: lakeJobs, clock: systemClock, signal },
    },
    lake.schedule,
  );
}

async function serveAlone(config: Config, ground: Ground, { jobs, signal }: Deps, patient: Patient): Promise<void> {
  let ring = () => {};
  await using rounds = keepRounds(ground, signal, reportOn(ground, { several: false, after: () => ring() }));
  await using served = await patient(() => serve(rounds, config, jobs));
  await using handOffs = keepHandOffs(tellersOn(ground), () => [{ ...config, worker: served.worker }]);
  ring = handOffs.ring;
  await using _alarms = keepAlarms(tellersOn(ground), () => [config]);
  ground.log.info(`Worker ${served.worker} is running for account '${config.account}'. Press Ctrl-C to stop.`);
  for (const line of scheduleLines(await patient(() => scheduleOf(ground.warehouse.pg, config)))) ground.log.info(line);
  await using _shown = showWork(ground, rounds, new Map([[config.account, config]]));
  await Promise.race([aborted(signal), served.failed, rounds.failed]);
  ground.log.info(handingOver);
}

/** Runs all accounts of the file. An account that fails is reported and retried; the others continue. */
async function serveFleet(
  first: Fleet,
  ground: Ground,
  { jobs, signal, fleet }: Deps,
  { asked, patient }: { asked: HangUp; patient: Patient },
): Promise<void> {
  const served = new Map<string, { given: string; config: Config; serving: Served }>();
  let known = first;
  const alarms = new Map<string, Config['alarm']>();
  const told = new Map<string, string>();
  await using stack = new OpenStack();
  let ring = () => {};
  const rounds = stack.use(keepRounds(ground, signal, reportOn(ground, { several: true, after: () => ring() })));
  stack.defer(async () => {
    await Promise.all([...served.values()].map(({ serving }) => serving[Symbol.asyncDispose]()));
  });

  const tell = (account: string, error: unknown) => {
    const said = errorText(error);
    if (said !== told.get(account)) ground.log.warn(`${account}: ${said}`);
    told.set(account, said);
    if (!(error instanceof ShelfdeskError)) ground.log.error({ account, err: error }, 'account cannot be started');
  };
  const leave = async (account: string) => {
    const left = served.get(account);
    served.delete(account);
    await left?.serving[Symbol.asyncDispose]();
  };
  const take = async (config: Config) => {
    const { account } = config;
    const given = JSON.stringify(config);
    if (served.get(account)?.given === given) return;
    await leave(account);
    try {
      const serving = await patient(() => serve(rounds, config, jobs));
      served.set(account, { given, config, serving });
      if (told.delete(account)) ground.log.info(`✓ ${account}: is running now`);
      serving.failed.catch(async error => {
        tell(account, error);
        if (served.get(account)?.serving === serving) await leave(account);
      });
    } catch (error) {
      if (error instanceof Interrupted) return;
      tell(account, error);
    }
  };
  const settle = async (now: Fleet) => {
    known = now;
    const { accounts, refused } = now;
    for (const { account, error } of refused) tell(account, error);
    for (const { account, alarm } of accounts) alarms.set(account, alarm);
    ground.warehouse.pg.options.max = workConnections(accounts.length);
    const wanted = new Set(accounts.map(({ account }) => account));
    for (const account of served.keys()) if (!wanted.has(account)) await leave(account);
    for (const config of accounts) {
      if (signal.aborted) return;
      await take(config);
    }
  };

  await settle(first);
  if (served.size === 0 && !signal.aborted)
    throw new ShelfdeskError('no account could be started', 'See the messages above and fix each account.');
  ground.log.info(
    `Running for ${namesOf([...served.keys()])}. Press Ctrl-C to stop. See the schedules with \`npx shelfdesk schedule\`.`,
  );
  const configs = new Map<string, Config>();
  for (const [account, { config }] of served) configs.set(account, config);
  stack.use(showWork(ground, rounds, configs));
  stack.use(keepAlarms(tellersOn(ground), () => toldOf(known, alarms)));
  const subscribers = () => [...served.values()].map(({ config, serving }) => ({ ...config, worker: serving.worker }));
  ring = stack.use(keepHandOffs(tellersOn(ground), subscribers)).ring;
  while (!signal.aborted) {
    const pause = systemClock.sleep(settleMs, AbortSignal.any([signal, asked.signal()])).catch(() => {});
    await Promise.race([pause, rounds.failed]);
    asked.answer();
    if (signal.aborted) break;
    try {
      await settle(fleet());
    } catch (error) {
      // The file is invalid or half-written: running accounts continue unchanged.
      tell('SHELFDESK_CONFIG', error);
    }
  }
  ground.log.info(handingOver);
}

type HangUp = ReturnType<typeof watchHangUp>;

/** Listens to SIGHUP, except at a terminal: there SIGHUP means that the terminal was closed. */
function watchHangUp() {
  let waking = new AbortController();
  const wake = () => waking.abort();
  if (!process.stderr.isTTY) process.on('SIGHUP', wake);
  return {
    /** Aborts on a SIGHUP since the last `answer`. */
    signal: () => waking.signal,
    answer(): void {
      waking = new AbortController();
    },
    [Symbol.dispose]: (): void => void process.off('SIGHUP', wake),
  };
}

function reportOn(ground: Ground, { several, after }: { several: boolean; after: () => void }) {
  const report = reporterOf({ ...ground, pg: ground.warehouse.pg, clock: systemClock, several });
  return async (members: Parameters<typeof report>[0]): Promise<void> => {
    await report(members);
    after();
  };
}

const tellersOn = ({ warehouse, log, ways }: Ground) => ({ pg: warehouse.pg, clock: systemClock, log, ways });

const handingOver = 'Stopping after the current page…';

function errorText(thrown: unknown): string {
  const error = machineRefusal(thrown) ?? thrown;
  if (error instanceof ShelfdeskError) return `${error.message}. ${error.remedy}`;
  const message = error instanceof Error ? error.message : String(error);
  return `${message} (a bug; the worker retries, and the log has details)`;
}

function namesOf(accounts: readonly string[]): string {
  const names = accounts.slice(0, shownNames).join(', ');
  const more = accounts.length > shownNames ? ` and ${accounts.length - shownNames} more` : '';
  return `${count(accounts.length, 'account')} (${names}${more})`;
}
