/** The SQL that the export of a table is made of. */
import type { LakeTable } from '../../../src/lake/table.ts';

export interface LakeColumn {
  readonly name: string;
  /** The type in PostgreSQL: `timestamptz`, `_text`. */
  readonly type: string;
}

/** Types of PostgreSQL, the type in the lake, and how a value gets there. */
const types: Readonly<Record<string, { lake: string; sql?: (column: string) => string }>> = {
  text: { lake: 'VARCHAR' },
  _text: { lake: 'VARCHAR[]' },
  timestamptz: { lake: 'TIMESTAMP WITH TIME ZONE' },
  date: { lake: 'DATE' },
  // Spark refuses the type time.
  time: { lake: 'VARCHAR', sql: column => `${column}::text` },
  bool: { lake: 'BOOLEAN' },
  int2: { lake: 'INTEGER' },
  int4: { lake: 'INTEGER' },
  int8: { lake: 'BIGINT' },
  float8: { lake: 'DOUBLE' },
  numeric: { lake: 'DOUBLE', sql: column => `${column}::float8` },
  // What a declared number is here: see exactType. Where neither fits, it is text.
  numeric_6: { lake: 'DECIMAL(38,6)', sql: column => `${column}::numeric(38, 6)` },
  numeric_18: { lake: 'DECIMAL(38,18)', sql: column => `${column}::numeric(38, 18)` },
  jsonb: { lake: 'JSON', sql: column => `${column}::text` },
};
const asText = { lake: 'VARCHAR', sql: (column: string) => `${column}::text` };
export const lakeType = ({ type }: LakeColumn): string => (types[type] ?? asText).lake;

/** SQL for PostgreSQL: a type that keeps each digit of the numbers in this column. */
export const exactType = (column: string): string => `case
  when coalesce(max(scale(${column})), 0) <= 6 and coalesce(max(abs(${column})), 0) < 1e32 then 'numeric_6'
  when max(scale(${column})) <= 18 and max(abs(${column})) < 1e20 then 'numeric_18' else 'digits' end`;

export const name = (identifier: string): string => `"${identifier.replaceAll('"', '""')}"`;
export const literal = (value: string): string => `'${value.replaceAll("'", "''")}'`;
const array = (values: readonly string[]): string => `array[${values.map(literal).join(', ')}]::text[]`;

/** `lake.safe.messages` */
export const inLake = (table: LakeTable): string => `lake.${table.name}`;
export const accountOf = (table: LakeTable): string => name(table.account ?? 'account_id');

/** The id of a row's record, with the name of the table before each column. */
export const idIn = (table: LakeTable, as = ''): string => table.id!(as === '' ? '' : `${as}.`);

/** The column by which rows are sorted, behind the account. */
export const monthColumn = '_month';

/** Which rows of the warehouse are exported: all of these accounts, or these records of theirs. Everything without accounts. */
export interface Scope {
  readonly accounts?: readonly string[];
  readonly ids?: readonly string[];
  /** SQL of a further condition. */
  readonly among?: string;
  /** With the month of each row, and in the order of the lake. */
  readonly ordered?: boolean;
}

/** As internal.lake_month has it, for rows whose ticket is not here. */
export const noMonth = `date '1970-01-01'`;

/**
 * SQL for PostgreSQL. The values are constants, because a view with a security barrier takes no values from a join:
 * PostgreSQL would compute the whole view. Rows of other pairs of account and id may be among them.
 */
export function selection(
  table: LakeTable,
  columns: readonly LakeColumn[],
  { accounts, ids, among: further, ordered = false }: Scope,
): string {
  const listed = columns.map(({ name: column, type }) => {
    const quoted = `r.${name(column)}`;
    const sql = types[type] ?? asText;
    return sql.sql === undefined ? quoted : `${sql.sql(quoted)} as ${name(column)}`;
  });
  const among = (column: string, values: readonly string[]) =>
    values.length === 1 ? `${column} = ${literal(values[0]!)}` : `${column} = any (${array(values)})`;
  const where = [
    ...(accounts === undefined ? [] : [among(`r.${accountOf(table)}`, accounts)]),
    ...(ids === undefined ? [] : [among(idIn(table, 'r'), ids)]),
    ...(further === undefined ? [] : [further]),
  ];
  let from = `${table.name} r`;
  if (ordered && table.byMonth) {
    listed.push(`coalesce(u.month, ${noMonth}) as ${monthColumn}`);
    from += ` left join internal.lake_months u on u.account_id = r.${accountOf(table)} and u.id = ${idIn(table, 'r')}`;
  }
  const by = ordered ? order(table) : [];
  return [
    `select ${listed.join(', ')} from ${from}`,
    ...(where.length > 0 ? [`where ${where.join(' and ')}`] : []),
    ...(by.length > 0 ? [`order by ${by.join(', ')}`] : []),
  ].join(' ');
}

export const creation = (table: LakeTable, columns: readonly LakeColumn[]): string => {
  const listed = columns.map(column => `${name(column.name)} ${lakeType(column)}`);
  if (table.byMonth) listed.push(`${monthColumn} DATE`);
  return `create table ${inLake(table)} (${listed.join(', ')})`;
};

/** The order of rows, so that a change finds its rows in few files. */
export const order = (table: LakeTable): string[] => [
  ...(table.account === null ? [] : [accountOf(table)]),
  ...(table.byMonth ? [monthColumn] : []),
];
