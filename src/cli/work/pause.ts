/** `pause`: stops reading an account or some of its streams until `resume`, which undoes it. */

import type { Command } from 'commander';
import type pg from 'pg';
import { systemClock } from '../../clock.ts';
import { nameOfKey } from '../../engine/database/stream-key.ts';
import { pause, resume } from '../../engine/runs/operations.ts';
import { pausedOf } from '../../engine/runs/pauses.ts';
import { findStream, streamNames } from '../../sources/index.ts';
import { accountNames } from '../../status/accounts.ts';
import { chosenAccount } from '../choose-account.ts';
import { type Act, type Deps, jsonOption, note } from '../command.ts';
import { operator } from '../operator.ts';
import { print, printJson, say, table } from '../output/terminal.ts';
import { tablesOf } from '../warehouse.ts';

const streamsArgument = `some of: ${streamNames.join(', ')} (default: the whole account); an account name may come first`;

export function addPause(program: Command, deps: Deps, act: Act): void {
  program
    .command('pause')
    .summary('stop reading until `resume`')
    .description('pause the whole account or some streams until `resume`; running work stops within seconds')
    .addHelpText(
      'after',
      note(
        'Runs stay open. Commands skip paused streams, and are refused if all of their streams are paused. With several accounts the first name may be an account: pause acme tickets.',
      ),
    )
    .argument('[streams...]', streamsArgument)
    .option('--reason <text>', 'reason, shown to other people')
    .option(...jsonOption)
    .action(
      act(async (names: string[], { reason, json }: { reason?: string; json?: boolean }) => {
        await changePause(deps, names, { json }, async (db, target, now) => pause(db, { ...target, reason }, now));
        say('Running work stops after its current page, within seconds. Runs stay open and continue after a resume.');
      }),
    );
}

export function addResume(program: Command, deps: Deps, act: Act): void {
  program
    .command('resume')
    .summary('read again after a pause')
    .description('resume the whole account or some streams after a pause')
    .argument('[streams...]', streamsArgument)
    .option(...jsonOption)
    .action(
      act(async (names: string[], options: { json?: boolean }) => {
        await changePause(deps, names, options, resume);
      }),
    );
}

type PauseAction = typeof resume;

/** Pauses or resumes each named stream, or the whole account, and prints the resulting pauses. */
async function changePause(
  deps: Deps,
  names: string[],
  { json }: { json?: boolean | undefined },
  action: PauseAction,
): Promise<void> {
  const { fleet } = deps.asked();
  await using warehouse = await tablesOf(fleet, deps.signal);
  const known = [...fleet.accounts.map(({ account }) => account), ...(await accountNames(warehouse.pg))];
  const { account, streams } = await targetOf(deps, warehouse.pg, names, known);
  const now = new Date(systemClock.now());
  for (const stream of streams.length > 0 ? streams : [undefined])
    await action(warehouse.pg, { account, stream, who: operator() }, now);
  const paused = (await pausedOf(warehouse.pg, account)).map(one => ({
    ...one,
    stream: one.stream && nameOfKey(one.stream),
  }));
  if (json) printJson({ account, paused });
  else if (paused.length > 0)
    print(
      table(
        ['account', 'paused', 'since', 'by', 'reason'],
        paused.map(one => [account, one.stream ?? 'everything', one.paused_at, one.paused_by, one.reason]),
      ),
    );
  if (paused.length === 0) say(`Nothing of account '${account}' is paused.`);
}

/**
 * Account and streams of the arguments. In `pause acme tickets` the first word is an account. An account with missing or
 * invalid settings is accepted, because pausing it also silences its problems.
 */
async function targetOf(
  deps: Deps,
  db: pg.Pool,
  names: string[],
  known: readonly string[],
): Promise<{ account: string; streams: string[] }> {
  const [first, ...rest] = names;
  const { account: chosen } = deps.asked();
  const isAccount = first !== undefined && findStream(first) === undefined && known.includes(first);
  if (isAccount && (chosen === undefined || chosen === first)) return { account: first, streams: rest };
  return { account: chosen ?? (await chosenAccount(deps, db)).account, streams: names };
}
