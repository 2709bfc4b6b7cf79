/** `warehouse search on | off | status`: the indexes that helpdesk.search_messages and its kin need. */
import type { Command } from 'commander';
import { type IndexState, readSearch, searchOff, searchOn } from '../../../analytics/search.ts';
import { type Act, type Deps, jsonOption } from '../../command.ts';
import { percentOf } from '../../output/frame.ts';
import { print, printJson, say, table } from '../../output/terminal.ts';
import { tablesOf } from '../../warehouse.ts';

export function addSearch(program: Command, deps: Deps, act: Act): void {
  const search = program
    .command('search')
    .summary('make or drop the indexes of search')
    .description(
      'make or drop the indexes that search in messages, subjects and addresses needs; they cost time and disk for each message',
    );
  const open = () => tablesOf(deps.asked().fleet, deps.signal);
  type Asked = { json?: boolean };

  search
    .command('on')
    .description('make the indexes while the worker runs; Ctrl-C drops the one in work, the rest stays')
    .option(...jsonOption)
    .action(
      act(async ({ json }: Asked) => {
        await using warehouse = await open();
        let last = '';
        await searchOn(
          { url: warehouse.url, db: warehouse.pg },
          {
            signal: deps.signal,
            show: ({ of, phase, share }) => {
              const line = `${of}: ${phase}${share === undefined ? '' : `, ${percentOf(share)} %`}`;
              if (line !== last) say(line);
              last = line;
            },
          },
        );
        told(await readSearch(warehouse.pg), json);
      }),
    );
  search
    .command('off')
    .description('drop the indexes')
    .option(...jsonOption)
    .action(
      act(async ({ json }: Asked) => {
        await using warehouse = await open();
        await searchOff(warehouse);
        told(await readSearch(warehouse.pg), json);
      }),
    );
  search
    .command('status')
    .description('say which indexes there are, and their size')
    .option(...jsonOption)
    .action(
      act(async ({ json }: Asked) => {
        await using warehouse = await open();
        told(await readSearch(warehouse.pg), json);
      }),
    );
}

function told(all: readonly IndexState[], json: boolean | undefined): void {
  if (json) printJson(all);
  else {
    print(
      table(
        ['search', 'state', 'MB'],
        all.map(({ of, state, bytes }) => [of, state, Math.ceil(bytes / 1e6)]),
      ),
    );
    if (all.some(({ state }) => state !== 'on')) say('`npx shelfdesk warehouse search on` makes what is missing.');
  }
}
