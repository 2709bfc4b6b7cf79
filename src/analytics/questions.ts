/** The prepared questions: each is an SQL file in docs/queries. */
import { readdir, readFile } from 'node:fs/promises';
import { UsageError } from '../errors.ts';
import { nearest } from '../words.ts';

const folder = new URL('../../docs/queries/', import.meta.url);

export interface Query {
  readonly name: string;
  /** First comment line of the file. */
  readonly question: string;
  /** Other comment lines before the statement. */
  readonly notes: readonly string[];
  /** Content of the file, including comments. */
  readonly sql: string;
}

/** Throws UsageError for an unknown name. */
export function findQuery(queries: readonly Query[], name: string): Query {
  const chosen = queries.find(one => one.name === name.replace(/\.sql$/, ''));
  if (chosen) return chosen;
  const near = nearest(
    name,
    queries.map(one => one.name),
  );
  throw new UsageError(
    `there is no query ${name}`,
    `${near === undefined ? '' : `Did you mean ${near}? `}See \`npx shelfdesk query list\`.`,
  );
}

export async function readQueries(): Promise<Query[]> {
  const files = (await readdir(folder)).filter(name => name.endsWith('.sql')).sort();
  return Promise.all(
    files.map(async file => {
      const sql = await readFile(new URL(file, folder), 'utf8');
      const [question = '', ...notes] = /^(?:-- .*\n)*/.exec(sql)![0].trim().split('\n');
      return { name: file.slice(0, -4), question: said(question), notes: notes.map(said), sql };
    }),
  );
}

const said = (line: string): string => line.replace(/^-- /, '');
