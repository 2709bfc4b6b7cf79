/** `query list`, `query run <name>`: prepared questions, each an SQL file in docs/queries. */
import { readdir, readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { exitCodes, UsageError } from '../../errors.ts';
import { count } from '../../words.ts';
import type { Act, Deps } from '../command.ts';
import { print, printJson, say, style, table } from '../output/terminal.ts';
import { requireTables, warehouseOf } from '../warehouse.ts';
import { askAccounts } from './sql.ts';

const folder = new URL('../../../docs/queries/', import.meta.url);

export interface Query {
  readonly name: string;
  /** First comment line of the file. */
  readonly question: string;
  /** Other comment lines before the statement. */
  readonly notes: readonly string[];
  /** Content of the file, including comments. */
  readonly sql: string;
}

export function addQuery(program: Command, deps: Deps, act: Act): void {
  const query = program
    .command('query')
    .summary('run prepared questions')
    .description('prepared questions to the warehouse, ready to run or copy');
  query
    .command('list')
    .description('list the prepared questions with their names')
    .option('--json', 'print one JSON document on stdout')
    .action(
      act(async (options: { json?: boolean }) => {
        const queries = await readQueries();
        if (options.json) printJson(queries);
        else {
          print(
            table(
              ['name', 'question'],
              queries.map(({ name, question }) => [name, question]),
              120,
            ),
          );
          say(
            'npx shelfdesk query run <name> answers one; docs/reference/questions.md shows all of them with an answer.',
          );
        }
        return exitCodes.ok;
      }),
    );
  query
    .command('run')
    .description('run a prepared question for each account, or for --account; read-only')
    .argument('<name>', 'name in `query list`')
    .option('--json', 'print one JSON document on stdout')
    .action(
      act(async (name: string, options: { json?: boolean }) => {
        const chosen = choose(await readQueries(), name);
        const { fleet, account } = deps.asked();
        await using warehouse = await warehouseOf(fleet, deps.signal);
        await requireTables(warehouse.pg);
        const { fields, rows } = await askAccounts(warehouse, chosen.sql, account);
        const names = fields.map(field => field.name);
        if (options.json) printJson(rows.map(row => Object.fromEntries(names.map((column, i) => [column, row[i]]))));
        else {
          say(style('bold', chosen.question, process.stderr));
          for (const note of chosen.notes) say(note);
          print(table(names, rows));
          say(count(rows.length, 'row'));
        }
        return exitCodes.ok;
      }),
    );
}

function choose(queries: readonly Query[], name: string): Query {
  const chosen = queries.find(one => one.name === name.replace(/\.sql$/, ''));
  if (chosen) return chosen;
  throw new UsageError(`there is no query ${name}`, 'See `npx shelfdesk query list`.');
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
