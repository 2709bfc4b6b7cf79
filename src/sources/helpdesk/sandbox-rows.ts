/** Tells rows of the sandbox from those of a real help desk. */
import type pg from 'pg';

/** Every agent of the sandbox has an address of this domain, which no mail server can have. */
const domain = 'harbourlane.example';

/** Whether all users of the account are agents of the sandbox. False without a user. */
export async function isOfSandbox(db: pg.Pool, account: string): Promise<boolean> {
  const { rows } = await db.query<{ all: boolean | null }>(
    `select bool_and(email like '%@' || $2) as all from helpdesk.users where account_id = $1`,
    [account, domain],
  );
  return rows[0]!.all === true;
}
