/** Reports values that were removed from the warehouse and are still in the files of the lake. */
import type pg from 'pg';
import { exitCodes } from '../errors.ts';
import { lakeInstall, lakePackage } from '../lake/package.ts';
import { readLakeStatus } from '../lake/state.ts';
import { say } from './output/terminal.ts';

/**
 * If the lake is on, says how its files lose the values. `usually`: the sentence where this machine can export.
 * Elsewhere the removal is unfinished, and the exit code is `partial`.
 */
export async function tellLakeLeft(db: Pick<pg.Pool, 'query'>, usually: string): Promise<number> {
  if ((await readLakeStatus(db)) === undefined) return exitCodes.ok;
  const reason = await lakePackage().then(
    () => undefined,
    (error: Error) => error.message,
  );
  if (reason === undefined) {
    say(usually);
    return exitCodes.ok;
  }
  say(
    `Not done yet: the files of the lake have it until an export, and ${reason}. ${lakeInstall} Then run \`npx shelfdesk lake export\`. Or run \`npx shelfdesk lake off\`, and delete the files.`,
  );
  return exitCodes.partial;
}
