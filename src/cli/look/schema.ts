/** `schema dictionary`, `erd`, `dbt`: what the tables of the warehouse mean, for people, diagrams and dbt. */
import { type Command, Option } from 'commander';
import { readCatalog, type Schema } from '../../analytics/catalog.ts';
import { dbtSources } from '../../analytics/dbt.ts';
import { dictionary } from '../../analytics/dictionary.ts';
import { type Diagram, diagrams, mermaid } from '../../analytics/erd.ts';
import { streams } from '../../sources/index.ts';
import type { Act, Deps } from '../command.ts';
import { print } from '../output/terminal.ts';
import { tablesOf } from '../warehouse.ts';

export function addSchema(program: Command, deps: Deps, act: Act): void {
  const schema = program
    .command('schema')
    .summary('describe the tables and their relations')
    .description('documentation of the tables and their relations');
  const show = async (draw: (schemas: Schema[]) => string) => {
    await using warehouse = await tablesOf(deps.asked().fleet, deps.signal);
    print(draw(await readCatalog(warehouse.pg)).trimEnd());
  };
  schema
    .command('dictionary')
    .description('every table, view, column and function with its description, as Markdown')
    .action(act(() => show(dictionary)));
  schema
    .command('erd')
    .description('entity-relationship diagram of the tables, as Mermaid')
    .addOption(
      new Option('--of <part>', 'mirrored tables, or the star schema for BI tools')
        .choices(Object.keys(diagrams))
        .default('mirror'),
    )
    .action(act((options: { of: Diagram }) => show(schemas => mermaid(schemas, options.of))));
  schema
    .command('dbt')
    .description('dbt sources for the tables, with descriptions, freshness and tests, as YAML')
    .action(act(() => show(schemas => dbtSources(schemas, streams))));
}
