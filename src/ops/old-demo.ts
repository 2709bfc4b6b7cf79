/** Finds a demo in a warehouse of real data: older versions put it there. */
import type pg from 'pg';
import { demoAccount } from '../embedded/demo-place.ts';
import { isOfSandbox } from '../sources/helpdesk/sandbox-rows.ts';

/**
 * A warning about the account of a demo in this warehouse, and the command that removes it; undefined if there is none.
 * A real account of the same name has other agents, so it is not taken for a demo.
 */
export async function oldDemo(db: pg.Pool): Promise<{ says: string; remedy: string } | undefined> {
  const { rows } = await db.query(
    `select from sync.sources where account_id = $1 having count(*) > 0 and bool_and(address ~ '^http://127\\.0\\.0\\.1:')`,
    [demoAccount],
  );
  if (rows.length === 0 || !(await isOfSandbox(db, demoAccount))) return undefined;
  return {
    says: `Account '${demoAccount}' is of a demo, and its rows count among yours.`,
    remedy: `Take them out: \`npx shelfdesk account remove ${demoAccount}\`.`,
  };
}
