/** Makes one column of one row of the mirror wrong, as a hand would, and says afterwards what is still wrong. */
import type pg from 'pg';

export interface Spoilable {
  readonly name: string;
  readonly type: string;
  readonly nullable: boolean;
}

/** The columns of a table, as the database tells them: but for those that it works out itself. */
export async function columnsOf(db: pg.Pool, table: string): Promise<Spoilable[]> {
  const [schema, name] = table.split('.');
  const { rows } = await db.query<Spoilable>(
    `select column_name as name, udt_name as type, is_nullable = 'YES' as nullable from information_schema.columns
     where table_schema = $1 and table_name = $2 and is_generated = 'NEVER' order by ordinal_position`,
    [schema, name],
  );
  return rows;
}

/** Another value of this type: longer ago, or ahead, where it is a time. */
const other: Readonly<Record<string, (column: string, table: string) => string>> = {
  // Each table has a text of its own: an inbox that a spoiled ticket names would stay, because the ticket's history names it.
  text: (column, table) => `coalesce(${column}, '') || ' spoiled in ${table}'`,
  _text: (column, table) => `coalesce(${column}, '{}') || '{spoiled in ${table}}'`,
  int4: column => `coalesce(${column}, 0) + 1000`,
  int8: column => `coalesce(${column}, 0) + 1000`,
  numeric: column => `coalesce(${column}, 0) + 1000`,
  bool: column => `${column} is not true`,
  timestamptz: column => `coalesce(${column}, now()) + interval '10 years'`,
  jsonb: column => `coalesce(${column}, '{}') || '{"spoiled": true}'`,
};

export interface Spoiled {
  /** The fields by which the spoiled columns are to be named. */
  readonly fields: readonly string[];
  /** Rows that are otherwise than before; but for when something was written. A row that a hand made has a tombstone. */
  left(): Promise<string[]>;
}

/** When something was written, and read: what is mended has been written anew. */
const written = [
  '_synced_at',
  '_observed_at',
  '_first_seen_at',
  '_checked_at',
  '_waits_since',
  '_messages_as_of',
  '_messages_by',
  '_listed_by',
  '_true_by',
  '_created_after',
  '_created_before',
];
const tombstones = ['_deleted_at', '_removed_at'];

/** Each column in another row. A row of another key is one that is missing, and one that is made up. */
export async function spoil(db: pg.Pool, table: string, columns: readonly Spoilable[]): Promise<Spoiled> {
  const { rows: keys } = await db.query<{ name: string }>(
    `select a.attname as name from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
     where i.indrelid = $1::regclass and i.indisprimary`,
    [table],
  );
  const tombstone = (await columnsOf(db, table)).find(({ name }) => tombstones.includes(name))?.name;
  const living = tombstone ? `${tombstone} is null` : 'true';
  const all = async () =>
    (
      await db.query<{ row: string }>(
        `select (to_jsonb(t) - $1::text[])::text as row from ${table} t where ${living} order by 1`,
        [written],
      )
    ).rows.map(({ row }) => row);
  const before = await all();
  const { rows: places } = await db.query<{ place: string }>(
    `select ctid::text as place from ${table} where ${living} order by random() limit $1`,
    [columns.length],
  );
  if (places.length < columns.length) throw new Error(`${table} has too few rows for its ${columns.length} columns`);
  for (const [n, { name, type }] of columns.entries())
    await db.query(`update ${table} set ${name} = ${other[type]!(name, table)} where ctid = $1::tid`, [
      places[n]!.place,
    ]);
  const fieldOf = ({ name }: Spoilable): string => {
    if (name === '_payload') return '_payload.spoiled';
    // A relation is one field of its record.
    if (tombstone === undefined) return table.replace(/^.*\./, '');
    return tombstones.includes(name) || keys.some(key => key.name === name) ? 'row' : name;
  };
  return {
    fields: columns.map(fieldOf),
    async left() {
      const after = await all();
      const [was, is] = [new Set(before), new Set(after)];
      const ahead: string[] = [];
      for (const { name } of columns.filter(one => written.includes(one.name))) {
        const { rows } = await db.query<{ row: string }>(
          `select ${name}::text as row from ${table} where ${living} and ${name} > now() + interval '5 years'`,
        );
        ahead.push(...rows.map(({ row }) => `${name} ${row}`));
      }
      return [...ahead, ...after.filter(row => !was.has(row)), ...before.filter(row => !is.has(row))];
    },
  };
}
