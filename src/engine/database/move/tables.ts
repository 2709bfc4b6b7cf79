/**
 * The tables that have rows of an account, as the catalog has them, and what becomes of each column in another warehouse: numbers that a
 * sequence of a warehouse gave get new ones, in order, wherever they stand.
 */
import pg from 'pg';
import { type CopiedTable, copiedTables } from '../backup/backup.ts';

/** These rows are of the warehouse: who works there, what its lake waits for, and the moves themselves. */
const ofWarehouse = ['sync.workers', 'sync.lake_pending', 'sync.moves'];
/** What keeps values of people out comes first, what makes the account known last. */
const [first, last] = [/^sync\.(field_rules|erased\w*|secret_\w+)$/, 'sync.accounts'];

const runs = 'sync.stored_runs';
/** Their columns have names of ours. Those of a record have the names of its service, but for some that begin with an underscore. */
const isOurs = (table: string): boolean => /^(sync|internal|analytics)\./.test(table);
/** Columns with numbers of runs. Some of these runs are forgotten, so no foreign key tells it. */
const ofRuns = ['run_id', 'carried_from', 'waits_for', 'retries', 'beside'];
/** As `_listed_by` and `_messages_by`, in tables of records. `_true_by` is a time. */
const runOfRecord = /^_\w+_by$/;
const isOfRuns = (table: string, column: string, type: string): boolean =>
  isOurs(table) ? ofRuns.includes(column) : runOfRecord.test(column) && /^bigint/.test(type);
/** Texts that may name a run. */
const tellRuns = ['outcome', 'skipped', 'error', 'note'];
/** No process of the former warehouse holds anything in the new one. */
const leftOut: Readonly<Record<string, string>> = {
  ...{ worker: 'null', job: 'null', held_by: 'null', opened_by: 'null' },
  claimed_by: '0',
};
/** Is given anew: warehouses may share a Redis. */
const queue = 'sync.accounts.queue';

export interface MovedColumn {
  /** Quoted where SQL needs it. */
  readonly name: string;
  readonly type: string;
  /** The table whose identity column gave these numbers. */
  readonly numberOf?: string;
}

export interface MovedTable {
  readonly name: string;
  readonly columns: readonly MovedColumn[];
  /** Columns of the key after account_id; empty if the key does not begin with it. */
  readonly key: readonly MovedColumn[];
  /** The sequence of its identity column. */
  readonly sequence: string | null;
}

interface Found {
  name: string;
  types: Record<string, string>;
  key: string[] | null;
  identity: string | null;
  sequence: string | null;
  refers: Record<string, string>;
}

/** In the order in which they are filled. */
export async function movedTables(client: pg.Client): Promise<MovedTable[]> {
  const { rows } = await client.query<Found>(
    `select format('%I.%I', n.nspname, c.relname) as name,
       (select jsonb_object_agg(quote_ident(a.attname), format_type(a.atttypid, a.atttypmod)) from pg_attribute a
         where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as types,
       (select array_agg(quote_ident(a.attname) order by k.place)
         from pg_constraint p, unnest(p.conkey) with ordinality k (attnum, place), pg_attribute a
         where p.conrelid = c.oid and p.contype = 'p' and (a.attrelid, a.attnum) = (c.oid, k.attnum)) as key,
       i.name as identity, pg_get_serial_sequence(format('%I.%I', n.nspname, c.relname), i.name) as sequence,
       (select coalesce(jsonb_object_agg(quote_ident(a.attname), format('%I.%I', m.nspname, f.relname)), '{}')
         from pg_constraint k join pg_attribute a on a.attrelid = c.oid and a.attnum = k.conkey[1]
         join pg_class f on f.oid = k.confrelid join pg_namespace m on m.oid = f.relnamespace
         where k.conrelid = c.oid and k.contype = 'f' and cardinality(k.conkey) = 1) as refers
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     left join lateral (
       select a.attname::text as name from pg_attribute a where a.attrelid = c.oid and a.attidentity <> '' and not a.attisdropped) i on true
     where c.relkind = 'r'
       and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'account_id' and not a.attisdropped)`,
  );
  const found = new Map(rows.map(one => [one.name, one]));
  const tables = (await copiedTables(client)).flatMap(one => {
    const facts = found.get(one.name);
    return facts === undefined || ofWarehouse.includes(one.name) ? [] : [movedTable(one, facts, found)];
  });
  const place = ({ name }: MovedTable) => (first.test(name) ? 0 : name === last ? 2 : 1);
  return tables.toSorted((a, b) => place(a) - place(b));
}

function movedTable({ name, columns }: CopiedTable, facts: Found, all: ReadonlyMap<string, Found>): MovedTable {
  const columnOf = (column: string): MovedColumn => {
    const type = facts.types[column]!;
    const given = column === facts.identity ? name : facts.refers[column];
    const numberOf = isOfRuns(name, column, type) ? runs : given;
    const isNumber = numberOf !== undefined && all.get(numberOf)?.sequence;
    return { name: column, type, ...(isNumber && { numberOf }) };
  };
  const [whose, ...key] = facts.key ?? [];
  return {
    ...{
      name,
      sequence: facts.sequence,
      columns: columns.filter(column => `${name}.${column}` !== queue).map(columnOf),
    },
    key: whose === 'account_id' ? key.map(columnOf) : [],
  };
}

/** By how much the numbers of each table with an identity column grow. */
export type Offsets = Readonly<Record<string, number>>;

/** SQL: the column as the new warehouse has it. */
export function sqlOf(table: string, { name, type, numberOf }: MovedColumn, offsets: Offsets): string {
  const instead = isOurs(table) ? leftOut[name] : undefined;
  if (instead !== undefined) return `${instead}::${type}`;
  const by = offsets[runs] ?? 0;
  const column = `t.${name}`;
  if (numberOf !== undefined) {
    const more = offsets[numberOf] ?? 0;
    if (!type.endsWith('[]')) return `${column} + ${more}`;
    return `array(select u.one + ${more} from unnest(${column}) with ordinality u (one, n) order by u.n)`;
  }
  if (isOurs(table) && type === 'text' && tellRuns.includes(name))
    return `regexp_replace(${column}, '\\mrun \\d+', 'run ' || (substring(${column} from '\\mrun (\\d+)')::bigint + ${by}))`.replace(
      /^(.*)$/,
      `case when ${column} ~ '\\mrun \\d+' then $1 else ${column} end`,
    );
  // The number of a run that a person canceled or tried again.
  if (table === 'sync.operations' && name === 'subject')
    return `case when t.action in ('cancel', 'retry') and ${column} ~ '^\\d+$' then (${column}::bigint + ${by})::text else ${column} end`;
  // Former values of columns with numbers of runs.
  if (table === 'sync.changes' && name === 'changes')
    return `case when ${column}::text ~ '"_\\w+_by"' then (
      select jsonb_object_agg(f.key, case when f.key ~ '^_\\w+_by$' and jsonb_typeof(f.value) = 'array' then (
        select coalesce(jsonb_agg(case jsonb_typeof(e.one) when 'number' then to_jsonb(e.one::bigint + ${by}) else e.one end order by e.n), '[]')
        from jsonb_array_elements(f.value) with ordinality e (one, n)) else f.value end)
      from jsonb_each(${column}) f) else ${column} end`;
  return column;
}

const literals = (values: readonly string[]) => values.map(value => pg.escapeLiteral(value)).join(', ');

/** SQL: the rows of an account in a table `t`, behind a key and up to another one. */
export function rowsWhere(
  { key }: MovedTable,
  account: string,
  { after, upTo }: { after?: readonly string[] | undefined; upTo?: readonly string[] | undefined } = {},
): string {
  const columns = key.map(({ name }) => `t.${name}`).join(', ');
  const bound = (values: readonly string[]) =>
    `row(${values.map((value, i) => `${literals([value])}::${key[i]!.type}`).join(', ')})`;
  return [
    `t.account_id = ${pg.escapeLiteral(account)}`,
    ...(after ? [`row(${columns}) > ${bound(after)}`] : []),
    ...(upTo ? [`row(${columns}) <= ${bound(upTo)}`] : []),
  ].join(' and ');
}

/** SQL: the last key of the next rows of this number; no row if fewer are left. */
export const boundOf = (
  table: MovedTable,
  account: string,
  after: readonly string[] | undefined,
  rows: number,
): string => {
  const columns = table.key.map(({ name }) => `t.${name}`);
  return `select array[${columns.map(one => `${one}::text`).join(', ')}] as key from ${table.name} t
    where ${rowsWhere(table, account, { after })} order by ${columns.join(', ')} offset ${rows - 1} limit 1`;
};

/** SQL: number and digest of the rows, whatever their order. SHA-256 is the same on every server. */
export const digestOf = (table: MovedTable, account: string, offsets: Offsets): string => `
  select count(*) as rows,
    coalesce(sum(('x' || encode(substr(sha256(convert_to(row(${table.columns
      .map(column => sqlOf(table.name, column, offsets))
      .join(', ')})::text, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint), 0)::text as digest
  from ${table.name} t where ${rowsWhere(table, account)}`;
