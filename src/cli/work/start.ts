/** `start`: a worker and the schedule of all accounts, until SIGTERM. Any number of them may run, on any number of machines. */
import type { Command } from 'commander';
import { type Ground, openGround } from '../../app/account.ts';
import type { Config, Fleet } from '../../app/config.ts';
import { requireSource } from '../../app/context.ts';
import { type Served, serve } from '../../app/serve.ts';
import { systemClock } from '../../clock.ts';
import { connectionsOf } from '../../engine/database/pool.ts';
import { untilBack } from '../../engine/outage.ts';
import { awaySaid, exitCodes, Interrupted, ShelfdeskError } from '../../errors.ts';
import { keepAlarms, toldOf } from '../../ops/alarms/send-alarms.ts';
import { count } from '../../words.ts';
import type { Act, Deps } from '../command.ts';
import { say, style } from '../output/terminal.ts';
import { warehouseOf } from '../warehouse.ts';
import { scheduleOf, showSchedule } from './schedule.ts';

/** How often the file of the accounts is read again, and those are tried again that could not be served. On SIGHUP: at once. */
const settleMs = 60_000;
/** So many names fit on a line. */
const shownNames = 10;

export function addStart(program: Command, deps: Deps, act: Act): void {
  program
    .command('start')
    .description('run a worker and the schedule until SIGTERM or Ctrl-C; several workers may run concurrently')
    .action(
      act(async () => {
        // From the first moment on, and also where there is no file: else a reload would end it without a word.
        using asked = onHangUp();
        const fleet = deps.fleet();
        const [alone] = fleet.files.length === 0 ? fleet.accounts : [];
        if (alone !== undefined) requireSource(alone);
        const patient = patience(deps.signal);
        try {
          await using warehouse = await patient(() => warehouseOf(fleet, deps.signal));
          await using ground = await patient(() => openGround(fleet, warehouse));
          await using _page = await patient(() => pageOf(fleet, ground, deps.fleet, program.version()!));
          if (alone === undefined) await serveFleet(fleet, ground, deps, { asked, patient });
          else await serveAlone(alone, ground, deps, patient);
        } catch (error) {
          // While it waited. At work it ends by itself.
          if (!(error instanceof Interrupted)) throw error;
        }
        return exitCodes.ok;
      }),
    );
}

/** How often it is tried again what a worker needs to begin. */
const awayMs = 1000;

type Patient = <T>(work: () => Promise<T>) => Promise<T>;

/** A worker that begins while the database or Redis is away waits for it, as one at work does, and says each cause once. */
function patience(signal: AbortSignal): Patient {
  let said = '';
  const pause = async (error: Error) => {
    const why = awaySaid(error, 'the warehouse');
    // In brackets is what was tried, or which file was to grow; before it, what was asked.
    const cause = why.replace(/ \(.*$/s, '').replace(/^.*?(?=cannot be used|does not answer)/, '');
    if (cause !== said) say(`${style('yellow', '!', process.stderr)} ${why}; waiting for it`);
    said = cause;
    await systemClock.sleep(awayMs, signal);
  };
  return work => untilBack(work, pause);
}

/** Where a port is set. That another one serves it here already stops nobody from working. */
async function pageOf({ web }: Fleet, ground: Ground, fleet: () => Fleet, version: string) {
  if (web.port === undefined) return undefined;
  const [{ openPage, whoMay }, { PortTaken }] = await Promise.all([
    import('../look/web.ts'),
    import('../../ops/page/server.ts'),
  ]);
  try {
    const page = await openPage(ground, { web, port: web.port, version, fleet });
    say(`The page: ${page.url} (${whoMay(web)}).`);
    return page;
  } catch (error) {
    if (!(error instanceof PortTaken)) throw error;
    say(`${style('yellow', '!', process.stderr)} ${error.message}: this process works without it.`);
    return undefined;
  }
}

async function serveAlone(config: Config, ground: Ground, { jobs, signal }: Deps, patient: Patient): Promise<void> {
  await using served = await patient(() => serve(ground, config, { jobs, signal, beside: 1 }));
  await using _alarms = keepAlarms(alarmsOn(ground), () => [config]);
  say(`Worker ${served.worker} is at work on account '${config.account}', until Ctrl-C.`);
  showSchedule(await patient(() => scheduleOf(ground.warehouse.pg, config)));
  await Promise.race([aborted(signal), served.failed]);
  say(handingOver);
}

/** What is wrong with one account stops no other one: it is told, and tried again. */
async function serveFleet(
  first: Fleet,
  ground: Ground,
  { jobs, signal, fleet }: Deps,
  { asked, patient }: { asked: HangUp; patient: Patient },
): Promise<void> {
  const served = new Map<string, { given: string; serving: Served }>();
  let known = first;
  const alarms = new Map<string, Config['alarm']>();
  const told = new Map<string, string>();
  await using stack = new AsyncDisposableStack();
  stack.defer(async () => {
    await Promise.all([...served.values()].map(({ serving }) => serving[Symbol.asyncDispose]()));
  });

  const tell = (account: string, error: unknown) => {
    const said = wordsFor(error);
    if (said !== told.get(account)) say(`${style('yellow', `! ${account}:`, process.stderr)} ${said}`);
    told.set(account, said);
    if (!(error instanceof ShelfdeskError)) ground.log.error({ account, err: error }, 'an account cannot be served');
  };
  const leave = async (account: string) => {
    const left = served.get(account);
    served.delete(account);
    await left?.serving[Symbol.asyncDispose]();
  };
  const take = async (config: Config, beside: number) => {
    const { account } = config;
    const given = JSON.stringify(config);
    if (served.get(account)?.given === given) return;
    await leave(account);
    try {
      const serving = await patient(() => serve(ground, config, { jobs, signal, beside }));
      served.set(account, { given, serving });
      if (told.delete(account)) say(`${style('green', `✓ ${account}:`, process.stderr)} is served now`);
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
    ground.warehouse.pg.options.max = connectionsOf(accounts.length);
    const wanted = new Set(accounts.map(({ account }) => account));
    for (const account of served.keys()) if (!wanted.has(account)) await leave(account);
    for (const config of accounts) {
      if (signal.aborted) return;
      await take(config, accounts.length);
    }
  };

  await settle(first);
  if (served.size === 0 && !signal.aborted)
    throw new ShelfdeskError('none of the accounts can be served', 'What is wrong with each is said above.');
  say(
    `At work on ${namesOf([...served.keys()])}, until Ctrl-C. \`npx shelfdesk schedule list\` shows their schedules.`,
  );
  stack.use(keepAlarms(alarmsOn(ground), () => toldOf(known, alarms)));
  while (!signal.aborted) {
    await systemClock.sleep(settleMs, AbortSignal.any([signal, asked.signal()])).catch(() => {});
    asked.answer();
    if (signal.aborted) break;
    try {
      await settle(fleet());
    } catch (error) {
      // The file is being written, or is wrong now: those that are served go on as they are.
      tell('SHELFDESK_CONFIG', error);
    }
  }
  say(handingOver);
}

interface HangUp extends Disposable {
  /** Aborts when somebody has asked since the last answer. */
  signal(): AbortSignal;
  answer(): void;
}

/** Who closes a terminal means the end, and not that. */
function onHangUp(): HangUp {
  let waking = new AbortController();
  const wake = () => waking.abort();
  if (!process.stderr.isTTY) process.on('SIGHUP', wake);
  return {
    signal: () => waking.signal,
    answer() {
      waking = new AbortController();
    },
    [Symbol.dispose]: () => void process.off('SIGHUP', wake),
  };
}

const alarmsOn = ({ warehouse, log }: Ground) => ({ pg: warehouse.pg, clock: systemClock, log });

const handingOver = 'Handing over at the next page…';

function wordsFor(error: unknown): string {
  if (error instanceof ShelfdeskError) return `${error.message}. ${error.remedy}`;
  const message = error instanceof Error ? error.message : String(error);
  return `${message} (a bug; it is tried again, and the log has more)`;
}

function namesOf(accounts: readonly string[]): string {
  const names = accounts.slice(0, shownNames).join(', ');
  const more = accounts.length > shownNames ? ` and ${accounts.length - shownNames} more` : '';
  return `${count(accounts.length, 'account')} (${names}${more})`;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
