/** `account move --to postgres://…`: an account with all of its rows goes to another warehouse. */
import { openWarehouse, type Warehouse } from '../../app/context.ts';
import { systemClock } from '../../clock.ts';
import { addressOf, readDatabaseUrl } from '../../engine/database/session/connection-url.ts';
import { changeWarehouse, giveUpMove, lookAtMove, type Place } from '../../engine/runs/accounts/change-warehouse.ts';
import { rowsOf } from '../../engine/runs/accounts/remove-account.ts';
import { ShelfdeskError, UsageError } from '../../errors.ts';
import { amount, count, duration } from '../../words.ts';
import { servedOf } from '../choose-account.ts';
import type { Deps } from '../command.ts';
import { operator } from '../operator.ts';
import { showLine } from '../output/line.ts';
import { askToType, print, printJson, say, table } from '../output/terminal.ts';
import { tablesOf } from '../warehouse.ts';

interface Asked {
  readonly account: string;
  /** URL of the other warehouse. */
  readonly to: string;
  readonly yes: boolean;
  readonly json: boolean;
}

export const isDatabase = (to: string): boolean => /^postgres(ql)?:/i.test(to);

/** Its name without its login. */
function placeOf({ url, pg }: Pick<Warehouse, 'url' | 'pg'>): Place {
  const { host = 'localhost', port = 5432, database = '' } = addressOf(url);
  return { url, pg, name: `${host}:${port}/${database}` };
}

/** Its address stands in --to. */
function ofTo(error: unknown): never {
  if (!(error instanceof ShelfdeskError)) throw error;
  const [message, remedy] = [error.message, error.remedy].map(text => text.replaceAll('DATABASE_URL', '--to'));
  throw new ShelfdeskError(message!, remedy!, { exitCode: error.exitCode, cause: error.cause });
}

export async function moveWarehouse(deps: Deps, { account, to, yes, json }: Asked): Promise<void> {
  const { fleet } = deps.asked();
  const read = readDatabaseUrl(to);
  if ('wrong' in read) throw new UsageError(`--to ${read.wrong}`, 'Give it like DATABASE_URL.');
  await using here = await tablesOf(fleet, deps.signal);
  await using there = await openWarehouse({ databaseUrl: to, demo: undefined }, { signal: deps.signal }).catch(ofTo);
  const move = { account, who: operator(), from: placeOf(here), to: placeOf(there) };
  const state = await lookAtMove(move);
  const held = await heldIn(here, account);
  if (state === 'begun') say(`The move of account '${account}' to ${move.to.name} resumes.`);
  else if (!yes) await confirm(account, held, move.to.name, deps.signal);
  const line = showLine();
  const progress = progressOf(held, state === 'begun' ? await heldIn(there, account) : 0);
  const told = (name: string, rows: number | null) => line.show(progress(name, rows));
  const time = () => new Date(systemClock.now());
  const same = await changeWarehouse(move, { signal: deps.signal, told, time }).finally(line.end);
  const rows = same.map(one => one.rows).reduce((sum, n) => sum + n, 0);
  if (json) printJson({ account, to: move.to.name, rows, tables: same });
  else
    print(
      table(
        ['table', 'rows', 'digest'],
        same.map(one => [one.table, one.rows, one.digest]),
      ),
    );
  say(
    `Account '${account}' moved to ${move.to.name}: ${count(rows, 'row')} in ${count(same.length, 'table')}, equal there.`,
  );
  const isSet = servedOf(fleet).some(({ config, sources }) => config.account === account && sources.size > 0);
  say(
    `${isSet ? 'Take its settings out here, and give them' : 'Give its settings'} to the workers there. Readers and their rights are those of that warehouse.`,
  );
  say(`Its rows here are read-only from now on. To take them out: \`npx shelfdesk account remove ${account}\`.`);
}

const heldIn = async ({ pg }: Pick<Warehouse, 'pg'>, account: string): Promise<number> =>
  (await rowsOf(pg, account)).reduce((sum, { rows }) => sum + rows, 0);

/** Says how far a move is, of which so many of the rows had come before. */
// @internal Tests count on a clock of theirs.
export function progressOf(held: number, before: number, now = systemClock.monotonic) {
  const sinceMs = now();
  let came = 0;
  return (table: string, rows: number | null): string => {
    if (rows === null) return `${table} is compared`;
    came += rows;
    const seconds = Math.max(0.001, (now() - sinceMs) / 1000);
    const left = Math.max(0, held - before - came);
    const rate =
      came > 0 ? `, ${amount(Math.round(came / seconds))} a second, ${duration((left / came) * seconds)} left` : '';
    return `${amount(before + came)} of ${count(held, 'row')}${rate}: ${table}`;
  };
}

export async function giveUp(deps: Deps, account: string): Promise<void> {
  await using here = await tablesOf(deps.asked().fleet, deps.signal);
  const move = { account, who: operator(), from: placeOf(here) };
  const place = await giveUpMove(move, new Date(systemClock.now()));
  say(
    `Account '${account}' stays here. What came to ${place} is taken out there by \`npx shelfdesk account remove ${account}\`.`,
  );
}

async function confirm(account: string, rows: number, to: string, signal: AbortSignal): Promise<void> {
  const typed = await askToType(
    `${count(rows, 'row')} of account ${account} will move to ${to}. It is read-only until then. Type ${account} to confirm: `,
    signal,
  );
  if (typed === account) return;
  throw new UsageError(
    typed === undefined
      ? 'a move needs a confirmation, but there is no terminal'
      : 'nothing was moved: what was typed differs',
    'Add --yes to skip the confirmation.',
  );
}
