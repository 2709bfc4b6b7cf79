/** `query list`, `query run <name>`: prepared questions, each an SQL file in docs/queries. */
import type { Command } from 'commander';
import { findQuery, readQueries } from '../../analytics/questions.ts';
import type { Fleet } from '../../app/config.ts';
import type { Warehouse } from '../../app/context.ts';
import { UsageError } from '../../errors.ts';
import { lakePackage } from '../../lake/package.ts';
import { readLake, readLakeStatus } from '../../lake/state.ts';
import { type Named, objectsOf, together } from '../../privacy/ask.ts';
import { count } from '../../words.ts';
import { type Act, type Deps, jsonOption } from '../command.ts';
import { print, printJson, say, style, table } from '../output/terminal.ts';
import { tablesOf } from '../warehouse.ts';
import { required } from '../work/lake.ts';
import { askAccounts } from './sql.ts';

export function addQuery(program: Command, deps: Deps, act: Act): void {
  const query = program
    .command('query')
    .summary('run prepared questions')
    .description('prepared questions to the warehouse, ready to run or copy');
  query
    .command('list')
    .description('list the prepared questions with their names')
    .option(...jsonOption)
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
      }),
    );
  query
    .command('run')
    .description('run a prepared question for each account, or for --account; read-only')
    .argument('<name>', 'name in `query list`')
    .option(...jsonOption)
    .option('--lake', 'ask the lake instead of the warehouse')
    .action(
      act(async (name: string, options: { json?: boolean; lake?: boolean }) => {
        const chosen = findQuery(await readQueries(), name);
        const { fleet, account } = deps.asked();
        await using warehouse = await tablesOf(fleet, deps.signal);
        const ask = options.lake ? askTheLake : askTheWarehouse;
        const { names, rows, moment } = await ask({ warehouse, fleet, signal: deps.signal }, chosen.sql, account);
        if (options.json) printJson(objectsOf({ names, rows }));
        else {
          say(style('bold', chosen.question, process.stderr));
          for (const note of chosen.notes) say(note);
          print(table(names, rows));
          say(count(rows.length, 'row') + (moment ? `, of the lake as of ${moment.toISOString()}` : ''));
        }
      }),
    );
}

interface Place {
  readonly warehouse: Warehouse;
  readonly fleet: Fleet;
  readonly signal: AbortSignal;
}

interface Answer extends Named {
  /** The lake is equal to the warehouse at this moment. */
  readonly moment?: Date;
}

async function askTheWarehouse({ warehouse }: Place, sql: string, account: string | undefined): Promise<Answer> {
  return askAccounts(warehouse, sql, account);
}

async function askTheLake(
  { warehouse, fleet, signal }: Place,
  sql: string,
  account: string | undefined,
): Promise<Answer> {
  const { pg, url } = warehouse;
  const { path } = required(await readLake(pg));
  const { moment } = (await readLakeStatus(pg))!;
  if (moment === null) throw new UsageError('the lake is empty', 'Fill it with `npx shelfdesk lake export`.');
  const { openForQuestions, askLake } = await lakePackage();
  await using lake = await openForQuestions(url, { ...fleet.lake, path }, signal);
  return { ...together(await askLake(lake, sql, account)), moment };
}
