/** Finds values that partition a tie of tickets: types, users and inboxes. */
import type pg from 'pg';
import { query } from '../../engine/database/sql.ts';
import type { Cuts } from '../../engine/reading/reading.ts';
import type { Claim } from '../../engine/runs/claims.ts';

/**
 * Values that partition tickets. `types`: the types in the specification. Unknown types that were recorded as drift are
 * added.
 */
export async function knownCuts(
  db: Pick<pg.ClientBase, 'query'>,
  { account, stream }: Pick<Claim, 'account' | 'stream'>,
  types: readonly string[],
): Promise<Cuts> {
  // Tickets may still belong to deleted users. The recursive query finds their ids with one index lookup per user.
  return query(db).row<{ types: string[]; users: string[]; inboxes: string[] }>`
    with recursive assigned (id) as (
      select min(user_id) from helpdesk.tickets where account_id = ${account}
      union all
      select (select min(user_id) from helpdesk.tickets t where t.account_id = ${account} and t.user_id > a.id)
      from assigned a where a.id is not null)
    select
      array(select unnest(${types}::text[])
        union select value from sync.drift
        where account_id = ${account} and stream_key = ${stream} and kind = 'unknown_value' and path = 'type') as types,
      array(select id from helpdesk.users where account_id = ${account}
        union select id from assigned where id is not null
        union select 'null') as users,
      array(select id from helpdesk.inboxes where account_id = ${account}) as inboxes`;
}
