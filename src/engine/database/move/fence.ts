/**
 * Makes the rows of accounts that move read-only for everybody, by triggers that sync.moves decides. A trigger waits for the open
 * transactions that write its table, so once all are made nothing of an account is still being written.
 */
import { createHash } from 'node:crypto';
import pg from 'pg';
import { openCopying } from '../backup/backup.ts';
import { sql } from '../sql.ts';
import { movedTables } from './tables.ts';

/** 'SHMV': one process at a time makes the triggers, and each makes them for all accounts. */
export const moveLock = 0x53_48_4d_56;
/** Others wait for the table behind a trigger that waits. */
const patience = '10s';

const triggers = [
  ['account_moved', 'insert or update', 'new'],
  ['account_moved_delete', 'delete', 'old'],
] as const;

/** Makes the triggers that sync.moves asks for, and drops the others. An account that arrives is kept from being named alone. */
export async function settleFences(url: string): Promise<void> {
  await using session = await openCopying(url, 'shelfdesk: moves');
  const { client } = session;
  await client.query(sql`select pg_advisory_lock(${moveLock})`);
  await client.query(`set lock_timeout = '${patience}'`);
  const { rows } = await client.query<{ left: string; known: string }>(
    `select jsonb_object_agg(account_id, '') filter (where state in ('leaving', 'moved'))::text as left,
       jsonb_object_agg(account_id, '') filter (where state <> 'arrived')::text as known from sync.moves`,
  );
  const { rows: made } = await client.query<{ name: string; trigger: string; mark: string }>(
    `select format('%I.%I', n.nspname, c.relname) as name, g.tgname as trigger,
       convert_from(substr(g.tgargs, 1, length(g.tgargs) - 1), 'UTF8') as mark
     from pg_trigger g join pg_class c on c.oid = g.tgrelid join pg_namespace n on n.oid = c.relnamespace
     where g.tgfoid = 'sync.refuse_moved'::regproc`,
  );
  const marks = new Map(made.map(one => [`${one.name} ${one.trigger}`, one.mark]));
  for (const { name } of await movedTables(client)) {
    const accounts = (name === 'sync.accounts' ? rows[0]?.known : rows[0]?.left) ?? undefined;
    const mark = accounts && createHash('sha256').update(accounts).digest('hex').slice(0, 16);
    for (const [trigger, events, row] of triggers) {
      if (marks.get(`${name} ${trigger}`) === mark) continue;
      const create = `create or replace trigger ${trigger} before ${events} on ${name} for each row
        when (${pg.escapeLiteral(accounts ?? '')}::jsonb ? ${row}.account_id) execute function sync.refuse_moved('${mark}')`;
      await client.query(accounts ? create : `drop trigger ${trigger} on ${name}`);
    }
  }
}
