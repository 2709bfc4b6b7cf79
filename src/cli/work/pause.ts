/** `pause`: nothing of an account, or of some of its streams, is read until people say that it may go on. */

import type { Command } from 'commander';
import type pg from 'pg';
import { systemClock } from '../../clock.ts';
import { nameOfKey } from '../../engine/database/stream-key.ts';
import { pause, type resume } from '../../engine/runs/operations.ts';
import { pausedOf } from '../../engine/runs/pauses.ts';
import { exitCodes } from '../../errors.ts';
import { accountNames } from '../../ops/page/overview.ts';
import { findStream, streamNames } from '../../sources/index.ts';
import { chosenAccount } from '../choose-account.ts';
import type { Act, Deps } from '../command.ts';
import { operator } from '../operator.ts';
import { print, printJson, say, table } from '../output/terminal.ts';
import { requireTables, warehouseOf } from '../warehouse.ts';

export const words = `some of: ${streamNames.join(', ')} (default: the whole account); an account name may come first`;

export function addPause(program: Command, deps: Deps, act: Act): void {
  program
    .command('pause')
    .description('pause the whole account or some streams until `resume`; running work stops within seconds')
    .argument('[streams...]', words)
    .option('--reason <text>', 'reason, shown to other people')
    .option('--json', 'print one JSON document on stdout')
    .action(
      act(async (names: string[], { reason, json }: { reason?: string; json?: boolean }) => {
        await change(deps, names, { json }, async (db, target, now) => pause(db, { ...target, reason }, now));
        say(
          'What is at work stops at its next page, within seconds. Its runs stay open, and go on when it is resumed.',
        );
        return exitCodes.ok;
      }),
    );
}

type Deed = typeof resume;

/** Does it to each stream, or to the whole account, and prints what is paused then. */
export async function change(
  deps: Deps,
  names: string[],
  { json }: { json?: boolean | undefined },
  deed: Deed,
): Promise<void> {
  const { fleet } = deps.asked();
  await using warehouse = await warehouseOf(fleet, deps.signal);
  await requireTables(warehouse.pg);
  const known = [...fleet.accounts.map(({ account }) => account), ...(await accountNames(warehouse.pg))];
  const { account, streams } = await targetOf(deps, warehouse.pg, names, known);
  const now = new Date(systemClock.now());
  for (const stream of streams.length > 0 ? streams : [undefined])
    await deed(warehouse.pg, { account, stream, who: operator() }, now);
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
 * `pause acme tickets`: a first word that is no stream may be an account. Also one that has no settings any more, or wrong
 * ones: nobody works on it, and it is to rest, not to be a problem.
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
