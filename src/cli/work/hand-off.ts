/** `hand-off list | send | test`: the messages about complete loads, and their deliveries. */
import type { Command } from 'commander';
import { openAccount } from '../../app/account.ts';
import type { Config, HandOffConfig } from '../../app/config.ts';
import { systemClock } from '../../clock.ts';
import { openWays } from '../../engine/http/ways.ts';
import { keptDays } from '../../engine/runs/kept-days.ts';
import { command } from '../../engine/runs/pauses.ts';
import { exitCodes, ShelfdeskError, UsageError } from '../../errors.ts';
import { type HandOff, listHandOffs, noteTaken, readHandOff } from '../../ops/hand-offs/deliveries.ts';
import { deliver, type Deps as SendDeps, sendAll, type Way, waysOf } from '../../ops/hand-offs/send-hand-offs.ts';
import { parseNumber } from '../arguments.ts';
import { openChosen } from '../choose-account.ts';
import { type Act, type Deps, jsonOption, note } from '../command.ts';
import { printList } from '../output/terminal.ts';
import { warehouseOf } from '../warehouse.ts';

const shownRows = 20;

/** The result of sending over one channel. */
interface Outcome {
  readonly channel: string;
  readonly sent: number;
  /** Why it was not taken; null if it was. */
  readonly error: string | null;
}

export function addHandOff(program: Command, deps: Deps, act: Act): void {
  const handOff = program
    .command('hand-off')
    .summary('list and send messages that a load is complete')
    .description('hand-offs: signed messages that a load is complete');
  handOff
    .command('list')
    .description('list the last hand-offs, newest first, with their deliveries, or why a run has none')
    .option('--all', `all that are kept: ${keptDays} days`)
    .option(...jsonOption)
    .action(
      act(async (options: { all?: boolean; json?: boolean }) => {
        await using opened = await openChosen(deps);
        printList(await listHandOffs(opened.db, opened.account, options.all ? null : shownRows), options, {
          none: 'No hand-offs.',
          columns: ['run', 'kind', 'ended', 'complete through', 'deliveries', 'withheld'],
          row: one => [one.run, one.kind, one.ended, one.completeThrough, deliveriesOf(one), one.withheld],
        });
      }),
    );
  handOff
    .command('send')
    .description('send what was not taken yet, in order; or the hand-off of one run again')
    .addHelpText('after', note('A hand-off that is sent again has the same id, so that its receiver can drop it.'))
    .argument('[run]', 'number of a run in `hand-off list`', parseNumber('the number of a run'))
    .option(...jsonOption)
    .action(
      act(async (run: number | undefined, options: { json?: boolean }) => {
        const config = withHandOff(deps.config());
        return report(options, config, deps, async (given, ways) => {
          if (run === undefined) return each(ways, way => sendAll(given, way, true));
          const message = await readHandOff(given.pg, config.account, run);
          if (message === undefined)
            throw new ShelfdeskError(
              `run ${run} has no hand-off`,
              `See ${command(config.account, 'hand-off list')} for those that there are, and why a run has none.`,
            );
          return each(ways, async way => {
            const why = await deliver(given, way, message);
            if (why === undefined) await noteTaken(given.pg, way, run, new Date(given.clock.now()));
            return sentOnce(why);
          });
        });
      }),
    );
  handOff
    .command('test')
    .description('send a message of the type hand_off.test, to see whether the receiver takes it')
    .option(...jsonOption)
    .action(
      act(async (options: { json?: boolean }) => {
        const config = withHandOff(deps.config());
        return report(options, config, deps, (given, ways) => {
          const now = given.clock.now();
          const id = `handoff_test_${now}`;
          const body = { type: 'hand_off.test', id, timestamp: new Date(now).toISOString() };
          const message = { id, body: JSON.stringify({ ...body, data: { account: config.account } }) };
          return each(ways, async way => sentOnce(await deliver(given, way, message)));
        });
      }),
    );
}

/** Throws UsageError if no receiver is configured. */
function withHandOff(config: Config): Config & { handOff: HandOffConfig } {
  const { handOff } = config;
  if (handOff?.webhook !== undefined || handOff?.command !== undefined) return { ...config, handOff };
  throw new UsageError(
    `account '${config.account}' has no receiver of hand-offs`,
    'Set HANDOFF_WEBHOOK_URL and HANDOFF_SECRET, or HANDOFF_COMMAND.',
  );
}

/**
 * Sends, and prints the results. The command has a row in sync.workers, so that no worker sends the same message
 * concurrently.
 */
async function report(
  options: { json?: boolean },
  config: Config,
  deps: Deps,
  send: (given: SendDeps, ways: readonly Way[]) => Promise<Outcome[]>,
): Promise<number> {
  await using warehouse = await warehouseOf(config, deps.signal);
  await using account = await openAccount(config, warehouse, { signal: deps.signal, works: false, binds: false });
  const { pg, log } = account.ctx;
  await using connections = openWays(config.proxies);
  const given = { pg, log, clock: systemClock, ways: connections, signal: deps.signal };
  const outcomes = await send(given, waysOf({ ...config, worker: account.presence.id }));
  printList(outcomes, options, {
    columns: ['channel', 'sent', 'error'],
    row: ({ channel, sent, error }) => [channel, sent, error],
  });
  return outcomes.some(({ error }) => error !== null) ? exitCodes.failed : exitCodes.ok;
}

const sentOnce = (why: string | undefined) => (why === undefined ? { sent: 1 } : { sent: 0, why });

const each = (ways: readonly Way[], send: (way: Way) => Promise<{ sent: number; why?: string }>): Promise<Outcome[]> =>
  Promise.all(
    ways.map(async way => {
      const { sent, why = null } = await send(way);
      return { channel: way.channel, sent, error: why };
    }),
  );

const deliveriesOf = ({ deliveries }: HandOff) =>
  deliveries
    .map(({ channel, delivered, error }) => `${channel}: ${delivered ? 'taken' : (error ?? 'not sent yet')}`)
    .join('; ');
