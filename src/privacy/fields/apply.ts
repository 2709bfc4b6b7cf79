/**
 * Applies field rules to what the warehouse holds: rows, their old values, rejects, samples of drift and comparisons. In small
 * transactions, so that workers continue. It can be broken off and given again: what follows the rules already stays.
 */
import type pg from 'pg';
import type { Column } from '../../engine/commit/merge.ts';
import { rowsOf, shortName, without } from '../../engine/commit/merge.ts';
import { type Client, transaction } from '../../engine/database/pool.ts';
import {
  applyRules,
  concernsKind,
  type FieldRules,
  isRuled,
  ruledValue,
  rulesFor,
  type Stored,
} from '../../engine/http/field-rules.ts';
import { fieldsOf, objectOf } from '../../engine/json-text.ts';
import type { DetailStream, Row, Stream } from '../../sources/source.ts';

/** Rows of a transaction. */
const batchSize = 500;
/** The reason of a reject whose payload followed no rule. */
const taken = 'its payload held fields that a rule leaves out';

interface Kept {
  readonly kind: string;
  readonly table: Stored;
  /** The stream whose records are members of others, and which derives a column of them. */
  readonly detail?: DetailStream<Row, Row>;
}

export interface Applying {
  readonly of: string;
  readonly seen: number;
  readonly changed: number;
}

/** The tables that hold records that a rule concerns, or payloads with such records in them. */
export function tablesOf(of: FieldRules, streams: readonly Stream[]): Kept[] {
  const merged = streams.flatMap((stream): Kept[] => {
    const { root, others } = stream.merge.declared;
    return [root, ...others].map(table => ({
      ...{ kind: shortName(table), table },
      ...(table === root && stream.kind === 'detail' && { detail: stream }),
    }));
  });
  const further = Object.entries(of.kinds).flatMap(([kind, { tables = [] }]) => tables.map(table => ({ kind, table })));
  return [...merged, ...further].filter(({ kind, table: { leftOut = [] } }) => {
    const within = Object.entries(of.kinds[kind]?.within ?? {}).filter(([field]) => !leftOut.includes(field));
    return rulesFor(of, kind).length > 0 || within.some(([, inner]) => concernsKind(of, inner));
  });
}

/** `told` hears of each batch. */
export async function applyToStored(
  db: pg.Pool,
  account: string,
  rules: FieldRules,
  {
    streams,
    signal,
    now,
    told,
  }: {
    streams: readonly Stream[];
    signal: AbortSignal;
    now: Date;
    told: (one: Applying) => void;
  },
): Promise<Readonly<Record<string, number>>> {
  const of = { ...rules, isAgain: true };
  const tables = tablesOf(of, streams);
  const keys = streams
    .filter(stream => tables.some(({ kind }) => kindsOf(stream).includes(kind)))
    .map(({ key }) => key);
  const counts: Record<string, number> = {};
  const add = (name: string, changed: number) => {
    counts[name] = (counts[name] ?? 0) + changed;
  };
  // A reject that is replayed meanwhile would bring back what its row has lost.
  add('rejects', await rewriteRejects(db, account, of, streams));
  for (const one of tables) {
    const { name } = one.table;
    let [seen, changed] = [0, 0];
    for (let after: readonly string[] | undefined = []; after !== undefined; ) {
      signal.throwIfAborted();
      const from: readonly string[] = after;
      const batch = await erasing(db, client => rewriteRows(client, account, of, one, from, now));
      seen += batch.seen;
      changed += batch.changed;
      after = batch.last;
      told({ of: name, seen, changed });
    }
    add(name, changed);
  }
  for (const [kind, { histories = [] }] of Object.entries(of.kinds))
    for (const { table, columns } of histories) {
      const ruled = columns.filter(column => isRuled(of, kind, column));
      if (ruled.length === 0) continue;
      const { rowCount } = await erasing(db, client =>
        client.query(
          `update ${table} set ${ruled.map(column => `${column} = null`).join(', ')}
           where account_id = $1 and num_nonnulls(${ruled.join(', ')}) > 0`,
          [account],
        ),
      );
      add(table, rowCount ?? 0);
    }
  for (let after: number | undefined = 0; after !== undefined; ) {
    signal.throwIfAborted();
    const from: number = after;
    const batch = await erasing(db, client => rewriteChanges(client, account, of, tables, from));
    add('changes', batch.changed);
    after = batch.last;
  }
  await erasing(db, async client => {
    const drift = await client.query('delete from sync.drift where account_id = $1 and stream_key = any ($2)', [
      account,
      keys,
    ]);
    add('drift', drift.rowCount ?? 0);
    const audit = await client.query(
      `update sync.audit a set differences = (
         select coalesce(jsonb_object_agg(d.key, '["left out", "left out"]'::jsonb), '{}') from jsonb_each(a.differences) d)
       where a.account_id = $1 and a.stream_key = any ($2) and a.differences <> '{}'
         and exists (select from jsonb_each(a.differences) d where d.value <> '["left out", "left out"]')`,
      [account, keys],
    );
    add('comparisons', audit.rowCount ?? 0);
    await client.query(
      'update sync.field_rules set applied_at = $3 where account_id = $1 and rule = any ($2) and applied_at is null',
      [account, of.rules.map(({ written }) => written), now],
    );
  });
  return counts;
}

const kindsOf = ({ merge: { declared } }: Stream) => [declared.root, ...declared.others].map(shortName);

/** As an erasure: nothing of it is a change of the source, and the lake takes the old values out of its files. */
const erasing = <T>(db: pg.Pool, work: (client: Client) => Promise<T>): Promise<T> =>
  transaction(db, async client => {
    await client.query(`select set_config('shelfdesk.erasing', 'on', true), set_config('shelfdesk.merge', '', true)`);
    return work(client);
  });

const fieldOf = ({ name, field, within }: Column) => field ?? within ?? name;
/** Whether the SQL of a column reads a field of the record. */
const readsRecord = ({ sql }: Column) => sql.includes('record');
const isDerived = ({ sql }: Column) => /\$\d/.test(sql);

async function rewriteRows(
  client: Client,
  account: string,
  of: FieldRules,
  { kind, table, detail }: Kept,
  after: readonly string[],
  now: Date,
): Promise<{ seen: number; changed: number; last: readonly string[] | undefined }> {
  const key = table.key ?? ['id'];
  const apart = table.columns.filter(one => one.apart && readsRecord(one) && !isDerived(one));
  const record = apart.map(one => `'${fieldOf(one)}', t.${one.name}`).join(', ');
  const from = after.length > 0 ? `and (${key.join(', ')}) > (${key.map((_, i) => `$${i + 2}`).join(', ')})` : '';
  const { rows } = await client.query<{ place: string; key: string[]; record: string }>(
    `select t.ctid::text as place, array[${key.map(name => `t.${name}`).join(', ')}] as key,
       (t._payload${record && ` || jsonb_strip_nulls(jsonb_build_object(${record}))`})::text as record
     from ${rowsOf(table)} t where t.account_id = $1 ${from}
     order by ${key.map(name => `t.${name}`).join(', ')} limit ${batchSize} for update`,
    [account, ...after],
  );
  const changed = rows.flatMap(row => {
    const record = applyRules(of, kind, row.record);
    return record === row.record || same(record, row.record) ? [] : [{ place: row.place, record }];
  });
  if (changed.length > 0) {
    const values = await Promise.all(changed.map(({ record }) => derivedOf(detail, record)));
    const columns = table.columns.filter(
      one => readsRecord(one) && !key.includes(one.name) && (!isDerived(one) || detail !== undefined),
    );
    // The only parameter of a merge that its columns read from a record is what the stream derives.
    const sqlOf = ({ sql }: Column) => sql.replaceAll('$7', '$3');
    await client.query(
      `update ${rowsOf(table)} t set ${columns.map(({ name }) => `${name} = r.${name}, `).join('')}_payload = r._payload, _synced_at = $4
       from (select e.place, ${columns.map(one => `${sqlOf(one)} as ${one.name}, `).join('')}${without(table.leftOut ?? [])} as _payload
         from unnest($1::tid[], $2::jsonb[]) with ordinality as e (place, record, n)) r
       where t.ctid = r.place and $3::text[] is not null`,
      [changed.map(({ place }) => place), changed.map(({ record }) => record), values, now],
    );
  }
  return { seen: rows.length, changed: changed.length, last: rows.length < batchSize ? undefined : rows.at(-1)!.key };
}

/** PostgreSQL writes JSON with other spaces than we do. */
const same = (one: string, other: string) => JSON.stringify(JSON.parse(one)) === JSON.stringify(JSON.parse(other));

async function derivedOf(detail: Kept['detail'], record: string): Promise<string | null> {
  if (detail?.derive === undefined) return null;
  const { value } = await detail.derive(JSON.parse(record));
  return typeof value === 'string' ? value : null;
}

/** A value that a rule concerns only in part is left out. */
async function rewriteChanges(
  client: Client,
  account: string,
  of: FieldRules,
  tables: readonly Kept[],
  after: number,
): Promise<{ changed: number; last: number | undefined }> {
  const named = new Map(tables.map(one => [shortName(one.table), one]));
  const { rows } = await client.query<{ id: number; name: string; changes: string }>(
    `select id::float8 as id, table_name as name, changes::text from sync.changes
     where account_id = $1 and id > $2 and table_name = any ($3) order by id limit ${batchSize}`,
    [account, after, [...named.keys()]],
  );
  const changed = rows.flatMap(({ id, name, changes }) => {
    const { kind, table } = named.get(name)!;
    const left = [...fieldsOf(changes)].flatMap(([column, values]): [string, string][] => {
      const one = table.columns.find(({ name }) => name === column);
      if (one && isDerived(one)) return readsRuled(of, kind, one) ? [] : [[column, values]];
      const ruled = ruledValue(of, kind, one ? fieldOf(one) : column, values);
      return ruled === undefined ? [] : [[column, ruled]];
    });
    const text = objectOf(left);
    return same(text, changes) ? [] : [{ id, text }];
  });
  await client.query(
    `update sync.changes c set changes = r.changes from unnest($1::bigint[], $2::jsonb[]) r (id, changes) where c.id = r.id`,
    [changed.map(({ id }) => id), changed.map(({ text }) => text)],
  );
  return { changed: changed.length, last: rows.length < batchSize ? undefined : rows.at(-1)!.id };
}

const readsRuled = (of: FieldRules, kind: string, { sql }: Column) =>
  [...sql.matchAll(/'([A-Za-z_]+)'/g)].some(([, field]) => isRuled(of, kind, field!));

async function rewriteRejects(
  db: pg.Pool,
  account: string,
  of: FieldRules,
  streams: readonly Stream[],
): Promise<number> {
  let changed = 0;
  for (const stream of streams) {
    const kinds = stream.kind === 'detail' ? [stream.of.name, stream.name] : [stream.name];
    changed += await erasing(db, async client => {
      const { rows } = await client.query<{ id: number; payload: string }>(
        `select id::float8 as id, payload from sync.rejects
         where account_id = $1 and stream_key = $2 and payload is not null for update`,
        [account, stream.key],
      );
      const ruled = rows.flatMap(({ id, payload }) => {
        const text = kinds.reduce<string | undefined>((one, kind) => one && ruledText(of, kind, one), payload);
        return text !== undefined && same(text, payload) ? [] : [{ id, text: text ?? null }];
      });
      await client.query(
        `update sync.rejects j set payload = r.payload, reason = $3, replayable = j.replayable and r.payload is not null
         from unnest($1::bigint[], $2::text[]) r (id, payload) where j.id = r.id`,
        [ruled.map(({ id }) => id), ruled.map(({ text }) => text), taken],
      );
      return ruled.length;
    });
  }
  return changed;
}

/** Undefined: what is no JSON may hold anything. */
function ruledText(of: FieldRules, kind: string, text: string): string | undefined {
  if (of.kinds[kind] === undefined) return text;
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  return applyRules(of, kind, text);
}
