/**
 * An account with rows in every table that has accounts, and all of its rows as text. Numbers of sequences begin far apart, so that each
 * number in a row, a text or a JSON says which sequence gave it.
 */
import type pg from 'pg';
import { expect } from 'vitest';

/** Every table with an account, by the catalog. */
export async function accountTables(db: pg.Pool): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    `select format('%I.%I', c.table_schema, c.table_name) as name
     from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
     where c.column_name = 'account_id' and t.table_type = 'BASE TABLE' order by 1`,
  );
  return rows.map(({ name }) => name);
}

export interface Sequence {
  readonly table: string;
  readonly sequence: string;
}

/** The sequences of identity columns of these tables, by table. */
export async function sequencesOf(db: pg.Pool): Promise<Sequence[]> {
  const { rows } = await db.query<Sequence>(
    `select a.attrelid::regclass::text as table, pg_get_serial_sequence(a.attrelid::regclass::text, a.attname) as sequence
     from pg_attribute a where a.attidentity <> '' and exists (
       select from pg_attribute k where k.attrelid = a.attrelid and k.attname = 'account_id') order by 1`,
  );
  return rows;
}

const million = 1_000_000;
/** The first number of each sequence, 71 million for the first one. */
export const beginningOf = (index: number): number => (71 + index) * million + 1;

export async function spreadNumbers(db: pg.Pool): Promise<void> {
  for (const [i, { sequence }] of (await sequencesOf(db)).entries())
    await db.query('select setval($1, $2, false)', [sequence, beginningOf(i)]);
}

/** What a column without a rule may have. */
const ofType: Readonly<Record<string, string>> = {
  text: `'x'`,
  'text[]': `'{x}'`,
  boolean: 'true',
  integer: '1',
  smallint: '1',
  bigint: '1',
  'double precision': '1.5',
  numeric: '1.50',
  date: `'2026-01-02'`,
  jsonb: `'{"a": [1, null]}'`,
  json: `'{"b": 1, "a": 2}'`,
  bytea: `'\\xff00'`,
  interval: `'2 days'`,
  uuid: 'gen_random_uuid()',
  xid8: 'pg_current_xact_id()',
  tstzrange: `'[2026-01-02,2026-01-03)'`,
  tstzmultirange: `'{[2026-01-02,2026-01-03)}'`,
  'timestamp with time zone': `'2026-01-02 03:04:05.678901+00'`,
  'time without time zone': `'09:30'`,
  'bigint[]': '(select array_agg(id) from sync.stored_runs where account_id = $1)',
};
const run = '(select max(id) from sync.stored_runs where account_id = $1)';
const worker = '(select last_value::int from sync.workers_id_seq)';
/** Columns whose values a constraint, or the number of something, decides. */
const ofColumn: Readonly<Record<string, string>> = {
  ...{ run_id: run, carried_from: run, waits_for: run, retries: run, _listed_by: run, _messages_by: run },
  ...{ worker, held_by: worker, opened_by: worker, claimed_by: worker },
  hand_off_id: '(select max(id) from sync.hand_offs where account_id = $1)',
  source: `'helpdesk'`,
  stream: `'tickets'`,
  calendar: `'office'`,
  metric: `'resolution'`,
  position: '1',
  valid_to: `'2026-02-02'`,
  change_after: `'2026-01-01'`,
  'sync.hand_offs.withheld': 'null',
  'sync.operations.action': `'cancel'`,
  'sync.operations.subject': `${run}::text`,
};

/** Columns that may be empty in any row: they get a number. */
const numbers = 'run_id carried_from waits_for retries beside _listed_by _messages_by worker held_by opened_by'.split(
  ' ',
);

/** A row in each table that has none of the account, and a number of a run or a process in each column that may have one. A table with a constraint that this does not know fails. */
export async function fillTables(db: pg.Pool, account: string, but: readonly string[]): Promise<void> {
  const tables = (await accountTables(db)).filter(name => !but.includes(name));
  // Some refer to others.
  const last = ['sync.hand_off_deliveries'];
  for (const name of [...tables.filter(one => !last.includes(one)), ...last]) {
    const { rowCount } = await db.query(`select from ${name} where account_id = $1 limit 1`, [account]);
    const { rows } = await db.query<{ column: string; type: string }>(
      `select quote_ident(attname) as column, format_type(atttypid, null) as type from pg_attribute
       where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = '' and attidentity = '' and attname <> 'account_id'`,
      [name],
    );
    if (rowCount === 1) {
      for (const { column, type } of rows.filter(one => numbers.includes(one.column)))
        await db.query(
          `update ${name} set ${column} = ${ofColumn[column] ?? ofType[type]} where account_id = $1 and coalesce(${column}::text, '{}') = '{}'`,
          [account],
        );
      continue;
    }
    const values = rows.map(({ column, type }) => ofColumn[`${name}.${column}`] ?? ofColumn[column] ?? ofType[type]);
    expect(values, `a value for each column of ${name}`).not.toContain(undefined);
    await db.query(
      `insert into ${name} (account_id, ${rows.map(one => one.column).join(', ')}) select $1::text, ${values.join(', ')}`,
      [account],
    );
  }
}

/** All rows of the account, as text, by table. */
export async function dump(
  db: pg.Pool,
  account: string,
  but: readonly string[] = [],
): Promise<Record<string, readonly string[]>> {
  const all: Record<string, readonly string[]> = {};
  for (const name of (await accountTables(db)).filter(one => !but.includes(one))) {
    const { rows } = await db.query<{ row: string }>(
      `select to_jsonb(t)::text as row from ${name} t where account_id = $1 order by 1`,
      [account],
    );
    if (rows.length > 0) all[name] = rows.map(({ row }) => row);
  }
  return all;
}
