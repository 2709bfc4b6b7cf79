/** Finds a demo in a warehouse of real data: older versions put it there. */
import type pg from 'pg';
import { demoAccount } from '../embedded/demo-place.ts';

/** Every agent of the sandbox has an address of this domain, which no mail server can have. */
const domain = 'harbourlane.example';

/**
 * The account of the demo in this warehouse; undefined if there is none. A real account of this name, even behind a tunnel,
 * has other agents.
 */
export async function oldDemo(db: pg.Pool): Promise<string | undefined> {
  const { rows } = await db.query(
    `select from sync.accounts a
     where a.account_id = $1
       and (select bool_and(s.address ~ '^http://127\\.0\\.0\\.1:') from sync.sources s where s.account_id = a.account_id)
       and (select bool_and(u.email like '%@' || $2) from helpdesk.users u where u.account_id = a.account_id)`,
    [demoAccount, domain],
  );
  return rows.length > 0 ? demoAccount : undefined;
}

/** What the demo does there, and the command that takes it out. */
export const oldDemoSays = (account: string) => ({
  says: `account '${account}' has the tickets of a demo, which count among yours`,
  remedy: `Take them out: \`npx shelfdesk account remove ${account}\`.`,
});
