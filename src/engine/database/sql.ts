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

class Statement {
  readonly text: string;
  readonly values: unknown[];

  constructor(text: string, values: unknown[]) {
    this.text = text;
    this.values = values;
  }
}

function shown(part: unknown, values: unknown[]): string {
  if (part instanceof Raw) return part.text;
  if (part instanceof Statement) return part.text.replace(/\$(\d+)/g, (_, n) => shown(part.values[n - 1], values));
  return `$${values.push(part)}`;
}

/** A statement for `query` of a pool or a session, or a part of one with values of its own. */
export function sql(...[texts, ...parts]: Parts): Statement {
  const values: unknown[] = [];
  const text = String.raw({ raw: texts }, ...parts.map(part => shown(part, values)));
  return new Statement(text.trimStart(), values);
}

/** A part whose text counts the places for its values: SQL that a declaration has. */
export const numbered = (text: string, ...values: unknown[]): Statement => new Statement(text, values);

/** Asks for rows by a statement in the form of `sql`. A session keeps the plan of one with a name: its text is always the same. */
export function query(db: Queryable, name?: string) {
  const ask = <R extends pg.QueryResultRow>(parts: Parts): Promise<pg.QueryResult<R>> =>
    db.query<R>(name === undefined ? sql(...parts) : { name, ...sql(...parts) });
  const rows = async <R extends pg.QueryResultRow>(...parts: Parts): Promise<R[]> => (await ask<R>(parts)).rows;
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
    count: async (...parts: Parts): Promise<number> => (await ask(parts)).rowCount ?? 0,
  };
}
