/**
 * Finds and repairs rows that no reply shows: live parts whose record is missing or deleted, and rows of a table that no list ever
 * showed.
 */
import type { Part } from '../../sources/source.ts';
import { commitWork } from '../commit/commit.ts';
import { keepChanges, rowsOf, shortName, type Table } from '../commit/merge.ts';
import type { Moment } from '../commit/page.ts';
import type { Client, Queryable } from '../database/pool.ts';
import { numbered, query, raw, sql } from '../database/sql.ts';
import type { StreamKey } from '../database/stream-key.ts';
import type { Ms } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import type { Look } from './compare-reply.ts';
import { type Finding, writeFindings } from './findings.ts';
import { isMissing } from './verifications.ts';

/** Parts, and the table of the records that they belong to. */
export interface Parts {
  readonly of: Pick<Table, 'name' | 'key'>;
  readonly parts: readonly Part[];
}

const keyOf = ({ key = ['id'] }: Pick<Table, 'key'>) => key;
const idOf = (table: Pick<Table, 'key'>) => keyOf(table).at(-1)!;

/** SQL: the id of the record, as sync.audit names it. A shelf has the id of its owner before its own. */
const recordOf = (names: readonly string[], row: string): string =>
  names.map(name => `${row}.${name}`).join(` || '/' || `);

/** The columns of a part that name its record. */
function parentOf({ key = [], parent }: Part): readonly string[] {
  return [...key.slice(0, Math.max(0, key.indexOf(parent))), parent];
}

/** SQL: `p` is the record of the part `o`. */
function isParent(part: Part, of: Parts['of']): string {
  const names = parentOf(part);
  const pairs = keyOf(of).map((name, i) => `p.${name} = o.${names[i]}`);
  return ['p.account_id = o.account_id', ...pairs].join(' and ');
}

const isLive = ({ tombstone = '_deleted_at' }: Part): string => `o.${tombstone} is null`;

/**
 * Ids of records that are missing here although they have live parts. Excludes records that this run has reported as
 * missing.
 */
export async function parentsLost(
  db: Queryable,
  { account, run }: Pick<Claim, 'account' | 'run'>,
  { of, parts }: Parts,
): Promise<string[]> {
  if (parts.length === 0) return [];
  const lost = parts.map(
    part => `select ${recordOf(parentOf(part), 'o')} as id from ${part.name} o
      where o.account_id = $1 and ${isLive(part)} and not exists (
        select from ${of.name} p where ${isParent(part, of)} and p._deleted_at is null)
      and not exists (
        select from sync.audit a
        where a.account_id = $1 and a.run_id = $2 and a.stream_key = '${of.name}'
          and a.record_id = ${recordOf(parentOf(part), 'o')} and ${isMissing('a')})`,
  );
  const { rows } = await db.query<{ id: string }>(`${lost.join('\nunion\n')} order by id`, [account, run]);
  return rows.map(({ id }) => id);
}

/** The live parts of a record that is missing, as a difference. Undefined if there are none. */
async function orphansOf(
  client: Client,
  account: string,
  { parts }: Parts,
  id: string,
): Promise<Pick<Finding, 'differences' | 'kind' | 'oursAsOf'> | undefined> {
  const found: [string, readonly [unknown, unknown]][] = [];
  for (const part of parts) {
    const { rows } = await client.query<{ id: string }>(sql`
      select o.${raw(idOf(part))} as id from ${raw(part.name)} o
      where o.account_id = ${account} and ${raw(recordOf(parentOf(part), 'o'))} = ${id} and ${raw(isLive(part))} order by 1`);
    if (rows.length > 0)
      found.push([`${shortName(part)}.row`, [Object.fromEntries(rows.map(row => [row.id, 'there'])), {}]]);
  }
  return found.length === 0 ? undefined : { differences: Object.fromEntries(found), kind: 'only here', oursAsOf: null };
}

/**
 * Removes the parts of a deleted record. Parts get the tombstone of their record; without a stored record they are deleted.
 * Returns their number.
 */
async function takeAway(
  client: Client,
  { account, run }: Pick<Claim, 'account' | 'run'>,
  { of, parts }: Parts,
  id: string,
  { nowMs, asOfMs }: { nowMs: Ms; asOfMs: Ms },
): Promise<number> {
  const now = new Date(nowMs);
  await client.query(numbered(`select ${keepChanges('$1', '$2', '$3')}`, now, new Date(asOfMs), run));
  let taken = 0;
  for (const part of parts) {
    const rows = raw(`${rowsOf(part)} o`);
    const which = sql`o.account_id = ${account} and ${raw(recordOf(parentOf(part), 'o'))} = ${id} and ${raw(isLive(part))}`;
    taken += await query(client).count`
      update ${rows} set ${raw(part.tombstone ?? '_deleted_at')} = p._deleted_at, _synced_at = ${now}
      from ${raw(of.name)} p where ${which} and ${raw(isParent(part, of))} and p._deleted_at is not null`;
    taken += await query(client).count`delete from ${rows} where ${which}`;
  }
  return taken;
}

/** Writes findings in the transaction that repairs them. `deleted`: the number of rows that the repair removed. */
const note = (
  { ctx, claim, random }: Look,
  asOfMs: Ms,
  work: (client: Client, at: Moment) => Promise<{ findings: readonly Finding[]; deleted: number }>,
): Promise<void> =>
  commitWork(ctx, claim, asOfMs, async (client, at) => {
    const { findings, deleted } = await work(client, at);
    await writeFindings(client, claim, findings, { ...at, random });
    return { counts: { deleted } };
  });

/** `as`: the stream that the parts are of. Removes them if the run repairs. A record that has come back keeps its parts. */
export const noteOrphans = (
  look: Look,
  orphans: Parts & { readonly as: StreamKey },
  id: string,
  asOfMs: Ms,
): Promise<void> =>
  note(look, asOfMs, async (client, at) => {
    const { claim, repair } = look;
    const { of } = orphans;
    // A worker that brings the record back waits for this transaction, or has brought its parts back too.
    const { rows } = await client.query<{ live: boolean }>(sql`
      select p._deleted_at is null as live from ${raw(of.name)} p
      where p.account_id = ${claim.account} and ${raw(recordOf(keyOf(of), 'p'))} = ${id} for no key update`);
    const found = rows[0]?.live ? undefined : await orphansOf(client, claim.account, orphans, id);
    if (found === undefined) return { findings: [], deleted: 0 };
    const deleted = repair ? await takeAway(client, claim, orphans, id, at) : 0;
    return { findings: [{ stream: orphans.as, record: id, ...found, repaired: deleted > 0 }], deleted };
  });

/**
 * Reports rows of a table that no list ever showed: only a manual edit can have made them. Deletes them if the run repairs. `isShown`: SQL
 * over `n`, a row; $1 is the account.
 */
export const noteMadeHere = (look: Look, table: StreamKey, isShown: string, asOfMs: Ms): Promise<void> =>
  note(look, asOfMs, async client => {
    const { claim, repair } = look;
    const which = sql`from ${raw(table)} n where n.account_id = ${claim.account} and not (${numbered(isShown, claim.account)})`;
    const told = raw('n.id as record, n._observed_at as "oursAsOf"');
    const { rows } = await client.query<Pick<Finding, 'record' | 'oursAsOf'>>(
      repair ? sql`delete ${which} returning ${told}` : sql`select ${told} ${which}`,
    );
    const of = { stream: table, kind: 'only here', differences: { row: ['there', null] }, repaired: repair } as const;
    return { findings: rows.map(row => ({ ...of, ...row })), deleted: repair ? rows.length : 0 };
  });
