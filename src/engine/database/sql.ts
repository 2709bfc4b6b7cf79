/** SQL with its values where they stand. A text becomes a parameter of the statement, and SQL only if it is `raw`. */
import type pg from 'pg';
import type { Queryable } from './pool.ts';

class Raw {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A part of a statement, such as the name of a table. No statement counts the places for values in it. */
export function raw(part: string | number): Raw {
  const text = String(part);
  if (/\$\d/.test(text)) throw new TypeError(`a place for a value in ${text}`);
  return new Raw(text);
}

type Parts = [texts: TemplateStringsArray, ...parts: readonly unknown[]];

/** A statement for `query` of a pool or a session. */
export function sql(...[texts, ...parts]: Parts): { text: string; values: unknown[] } {
  const values: unknown[] = [];
  const shown = parts.map(part => (part instanceof Raw ? part.text : `$${values.push(part)}`));
  return { text: String.raw({ raw: texts }, ...shown).trimStart(), values };
}

/** Asks for rows by a statement in the form of `sql`. */
export function query(db: Queryable) {
  const rows = async <R extends pg.QueryResultRow>(...parts: Parts): Promise<R[]> =>
    (await db.query<R>(sql(...parts))).rows;
  const values = async <T>(...parts: Parts): Promise<T[]> => (await rows(...parts)).map(row => Object.values(row)[0]);
  return {
    rows,
    /** The first row, of a statement that has one. */
    row: async <R extends pg.QueryResultRow>(...parts: Parts): Promise<R> => (await rows<R>(...parts))[0]!,
    first: async <R extends pg.QueryResultRow>(...parts: Parts): Promise<R | undefined> => (await rows<R>(...parts))[0],
    /** The first column of each row. */
    values,
    /** The first column of the first row, of a statement that has one. */
    value: async <T>(...parts: Parts): Promise<T> => (await values<T>(...parts))[0]!,
    /** The number of rows that the statement has changed. */
    count: async (...parts: Parts): Promise<number> => (await db.query(sql(...parts))).rowCount ?? 0,
  };
}
