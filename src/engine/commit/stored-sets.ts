/**
 * Sets of members that are stored just as a reply showed them. The same reply is then not sent to the database again.
 *
 * The proof of a set is a digest of what the reply showed, of how it is stored, and of the versions of the rows (`xmin`). PostgreSQL gives
 * a row another version whenever anything writes it: an erasure, field rules, a tombstone, a person. So no change of a row hides behind a
 * proof. Versions count anew in another server, so a proof also names the version of its own row: a copy of it, as of a restored dump or
 * an account that moved, proves nothing. A person who knows a text could tell by a proof that it was here, so an erasure, and a
 * new field rule, remove all proofs of their account.
 */
import { hash } from 'node:crypto';
import type { Client } from '../database/pool.ts';
import { sql } from '../database/sql.ts';
import type { StreamKey } from '../database/stream-key.ts';
import { type Declared, type Merge, rowsOf } from './merge.ts';

/** A set that was claimed, before its members were written. */
export interface ClaimedSet {
  readonly id: string;
  /** What its reply showed. */
  readonly digest: string;
  /** The versions of its rows. */
  readonly versions: readonly string[];
}

const tablesOf = ({ root, others }: Declared) => [root, ...others];

/** How members are stored. Another version of Shelfdesk may store the same reply otherwise. */
const ways = new WeakMap<Merge, string>();

/**
 * The digest of what a reply shows of a set. `parameters`: those of its merge, without the time of the reply. Undefined: a table of the
 * set cannot tell which of its rows are those of the record.
 */
export function digestOf(merge: Merge, text: string, parameters: readonly unknown[]): string | undefined {
  if (tablesOf(merge.declared).some(({ parent }) => parent === undefined)) return undefined;
  const way = ways.get(merge) ?? hash('sha256', merge.upsert);
  ways.set(merge, way);
  return hash('sha256', `${way} ${JSON.stringify(parameters)} ${text}`);
}

/** SQL: an array of the versions of all rows of a record's set, in the order of the indexes. `$1` is the account. */
export function versionsOf({ declared }: Pick<Merge, 'declared'>, id: string): string {
  const each = tablesOf(declared)
    .filter(({ parent }) => parent !== undefined)
    .map(
      table => `(
        select m.xmin::text from ${rowsOf(table)} m where m.account_id = $1 and m.${table.parent} >= ${id} and m.${table.parent} <= ${id}
        order by m.${table.parent})`,
    );
  return `array(${each.join(' union all ')})`;
}

/** SQL. `own`: the version of the row that holds the proof. */
const proofOf = (digest: string, versions: string, own: string): string =>
  `sha256((${digest} || ' ' || array_to_string(${versions}, ' ') || '; ' || ${own})::bytea)`;
const ownVersion = 'pg_current_xact_id()::xid::text';

/** SQL: the set is stored just as the reply of this digest showed it. */
export const isStored = (stream: StreamKey, id: string, digest: string, versions: string): string => `exists (
            select from internal.stored_sets s
            where s.account_id = $1 and s.stream_key = '${stream}' and s.record_id >= ${id} and s.record_id <= ${id}
              and s.proof = ${proofOf(digest, versions, 's.xmin::text')})`;

/**
 * Notes sets whose members this transaction has written as they came. A set is left out if it has a row that was not there when it was
 * claimed, and that this transaction has not written: the merge may not have compared it.
 */
export async function noteStored(
  client: Client,
  account: string,
  { key, merge }: { readonly key: StreamKey; readonly merge: Merge },
  sets: readonly ClaimedSet[],
): Promise<void> {
  await client.query({
    name: `note stored sets of ${key}`,
    text: `insert into internal.stored_sets as s (account_id, stream_key, record_id, proof)
      select $1, '${key}', a.id, ${proofOf('a.digest', 'v.versions', ownVersion)}
      from unnest($2::text[], $3::text[], $4::text[]) as a (id, digest, before)
      cross join lateral (select ${versionsOf(merge, 'a.id')} as versions) v
      where v.versions <@ (string_to_array(a.before, ' ') || ${ownVersion})
      on conflict (account_id, stream_key, record_id) do update set proof = excluded.proof`,
    values: [
      account,
      sets.map(({ id }) => id),
      sets.map(({ digest }) => digest),
      sets.map(({ versions }) => [...new Set(versions)].join(' ')),
    ],
  });
}

/** The set has changed, and is not stored just as a reply showed it. */
export async function forgetStored(client: Client, account: string, stream: StreamKey, id: string): Promise<void> {
  await client.query({
    name: 'forget stored set',
    text: 'delete from internal.stored_sets where account_id = $1 and stream_key = $2 and record_id = $3',
    values: [account, stream, id],
  });
}

/** Of all sets of an account, because somebody is erased there, or a rule takes a field out. */
export async function forgetAllStored(client: Client, account: string): Promise<void> {
  await client.query(sql`delete from internal.stored_sets where account_id = ${account}`);
}
