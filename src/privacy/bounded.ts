/**
 * Answers of a bounded size. A cursor takes one query and nothing else, and gives a few rows at a time, so that the rest of a
 * huge answer is never made. A single huge row ends the connection before it is here.
 */
import type pg from 'pg';
import { type Client, streamOf } from '../engine/database/pool.ts';
import { UsageError } from '../errors.ts';
import { type Answer, runAsked, statementOf, type Value } from './ask.ts';

export interface Limits {
  /** Longest time of the whole question. */
  readonly ms: number;
  readonly rows: number;
  /** Size of the rows as JSON. */
  readonly bytes: number;
}

const rowsAtOnce = 50;
/** Rows that are fetched at once may exceed the limit together, and the plan of a query comes on top. */
const wireBytes = (limit: number) => 4 * limit + 8_000_000;

/** One limit for all answers of a question, which may be one for each account. */
export function makeBounded({ rows: mostRows, bytes: mostBytes }: Pick<Limits, 'rows' | 'bytes'>) {
  const left = { rows: mostRows, bytes: mostBytes };
  let cut: 'rows' | 'bytes' | null = null;
  /** Counts a row. False: the row exceeds the limit and is cut. */
  const taken = (row: Value[], bytesOfNames: number): boolean => {
    const bytes = Buffer.byteLength(JSON.stringify(row)) + bytesOfNames;
    if (left.rows === 0) cut = 'rows';
    else if (bytes > left.bytes) cut = 'bytes';
    if (cut !== null) return false;
    left.rows -= 1;
    left.bytes -= bytes;
    return true;
  };
  return {
    /** The limit that ended the answer before its end; null for a whole answer. */
    cut: () => cut,
    async answer(client: Client, query: string): Promise<Answer> {
      if (cut !== null) return { fields: [], rows: [] };
      await runAsked(client, `declare asked no scroll cursor for ${query}`);
      const rows: Value[][] = [];
      for (;;) {
        const got = await client.query<Value[]>(statementOf(`fetch ${rowsAtOnce} from asked`));
        // Each row is shown with the names of its columns.
        const bytesOfNames = Buffer.byteLength(got.fields.map(({ name }) => `"${name}":`).join(''));
        for (const row of got.rows) if (taken(row, bytesOfNames)) rows.push(row);
        if (cut === null && got.rows.length > 0) continue;
        await client.query('close asked');
        return { fields: got.fields, rows };
      }
    },
  };
}

/** Works on a session that ends once it has received far more than `most` bytes. */
export async function receivingAtMost<T>(client: pg.Client, most: number, work: () => Promise<T>): Promise<T> {
  const stream = streamOf(client);
  let left = wireBytes(most);
  stream.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) stream.destroy();
  });
  try {
    return await work();
  } catch (error) {
    throw left < 0 ? tooLarge(most) : error;
  }
}

const tooLarge = (most: number) =>
  new UsageError(
    `a row of the answer is larger than the limit of ${most} bytes`,
    'Ask for fewer columns, or for a part of a long text: left(column, 200).',
  );
