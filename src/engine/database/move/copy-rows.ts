/**
 * Copies the rows of an account from one warehouse to another, a table after the other, large ones in parts. Each part is one
 * transaction with the note of how far it is, so a copy that dies resumes with the next part.
 */
import type pg from 'pg';
import { copyIn, copyOut } from '../backup/copy.ts';
import { sql } from '../sql.ts';
import { boundOf, digestOf, type MovedTable, type Offsets, rowsWhere, sqlOf } from './tables.ts';

/** Rows of a part. */
const partRows = 20_000;
const chunkBytes = 64 * 1024;

/** How far the rows have come in: sync.moves.progress. */
export interface Progress {
  readonly offsets: Offsets;
  /** Tables of which some or all rows are in. `after`: the key of the last one. */
  readonly tables: Record<string, { after?: readonly string[]; done?: true }>;
}

export interface Both {
  readonly from: pg.Client;
  readonly to: pg.Client;
  readonly account: string;
}

/** The next free numbers of the new warehouse. Another session that takes a number meanwhile waits for this transaction. */
export async function reserveNumbers({ from, to }: Both, tables: readonly MovedTable[]): Promise<Offsets> {
  const offsets: Record<string, number> = {};
  for (const { name, sequence } of tables) {
    if (sequence === null) continue;
    const lastOf = async (client: pg.Client) =>
      (await client.query<{ n: number }>(`select case when is_called then last_value else 0 end as n from ${sequence}`))
        .rows[0]!.n;
    await to.query(`alter sequence ${sequence} cache 1`);
    const [given, taken] = [await lastOf(from), await lastOf(to)];
    if (given > 0) await to.query(sql`select setval(${sequence}, ${taken + given})`);
    offsets[name] = taken;
  }
  return offsets;
}

/** `noted` is called within the transaction of each part, `told` after it. */
export async function copyRows(
  both: Both,
  table: MovedTable,
  progress: Progress,
  { noted, told, signal }: { noted: () => Promise<void>; told: (rows: number) => void; signal: AbortSignal },
): Promise<void> {
  const { from, to, account } = both;
  const { name, columns } = table;
  if (progress.tables[name] === undefined) await to.query(`delete from ${name} t where ${rowsWhere(table, account)}`);
  while (!progress.tables[name]?.done) {
    signal.throwIfAborted();
    const after = progress.tables[name]?.after;
    const { rows: bounds } =
      table.key.length === 0
        ? { rows: [] }
        : await from.query<{ key: string[] }>(boundOf(table, account, after, partRows));
    const upTo = bounds[0]?.key;
    const values = columns.map(column => sqlOf(name, column, progress.offsets)).join(', ');
    const select = `select ${values} from ${name} t where ${rowsWhere(table, account, { after, upTo })}`;
    await to.query('begin');
    const rows = await copyIn(
      to,
      `copy ${name} (${columns.map(column => column.name).join(', ')}) from stdin`,
      together(copyOut(from, `copy (${select}) to stdout`), signal),
    );
    progress.tables[name] = upTo === undefined ? { done: true } : { after: upTo };
    await noted();
    await to.query('commit');
    told(rows);
  }
}

/** Rows as larger chunks: each one is a message to the server. */
async function* together(rows: AsyncIterable<Buffer>, signal: AbortSignal): AsyncGenerator<Buffer> {
  let [held, bytes]: [Buffer[], number] = [[], 0];
  for await (const row of rows) {
    held.push(row);
    bytes += row.length;
    if (bytes < chunkBytes) continue;
    signal.throwIfAborted();
    yield Buffer.concat(held);
    [held, bytes] = [[], 0];
  }
  yield Buffer.concat(held);
}

export interface Same {
  readonly table: string;
  readonly rows: number;
  readonly digest: string;
}

/** Counts and digests of a table in both warehouses. */
export async function compareRows(
  { from, to, account }: Both,
  table: MovedTable,
  offsets: Offsets,
): Promise<{ here: Same; there: Same }> {
  const [here, there] = await Promise.all([
    from.query<Omit<Same, 'table'>>(digestOf(table, account, offsets)),
    to.query<Omit<Same, 'table'>>(digestOf(table, account, {})),
  ]);
  return { here: { table: table.name, ...here.rows[0]! }, there: { table: table.name, ...there.rows[0]! } };
}
