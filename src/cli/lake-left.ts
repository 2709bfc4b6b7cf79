/** What was taken out of the warehouse, and the files of the lake still have. */
import type pg from 'pg';
import { exitCodes } from '../errors.ts';
import { lakeInstall, lakePackage } from '../lake/package.ts';
import { readLakeStatus } from '../lake/state.ts';
import { say } from './output/terminal.ts';

/**
 * Says how the lake, if it is on, loses it: `usually` is said where the next export can be made. Elsewhere the work is not done,
 * as the exit code tells as well.
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
