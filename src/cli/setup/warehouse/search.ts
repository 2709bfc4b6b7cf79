/** `warehouse search on | off | status`: the indexes that helpdesk.search_messages and its kin need. */
import type { Command } from 'commander';
import { type IndexState, readSearch, searchOff, searchOn } from '../../../analytics/search.ts';
import { type Act, type Deps, jsonOption } from '../../command.ts';
import { percentOf } from '../../output/frame.ts';
import { printList, say, sayOnce } from '../../output/terminal.ts';
import { tablesOf } from '../../warehouse.ts';

interface Asked {
  json?: boolean;
}

export function addSearch(program: Command, deps: Deps, act: Act): void {
  const search = program
    .command('search')
    .summary('make or drop the indexes of search')
    .description(
      'make or drop the indexes that search in messages, subjects and addresses needs; they cost time and disk for each message',
    );
  const open = () => tablesOf(deps.asked().fleet, deps.signal);

  search
    .command('on')
    .description('make the indexes while the worker runs; Ctrl-C drops the one in work, the rest stays')
    .option(...jsonOption)
    .action(
      act(async (asked: Asked) => {
        await using warehouse = await open();
        const progress = sayOnce();
        await searchOn(
          { url: warehouse.url, db: warehouse.pg },
          {
            signal: deps.signal,
            show: ({ of, phase, share }) =>
              progress(`${of}: ${phase}${share === undefined ? '' : `, ${percentOf(share)} %`}`),
          },
        );
        told(await readSearch(warehouse.pg), asked);
      }),
    );
  search
    .command('off')
    .description('drop the indexes')
    .option(...jsonOption)
    .action(
      act(async (asked: Asked) => {
        await using warehouse = await open();
        await searchOff(warehouse);
        told(await readSearch(warehouse.pg), asked);
      }),
    );
  search
    .command('status')
    .description('say which indexes there are, and their size')
    .option(...jsonOption)
    .action(
      act(async (asked: Asked) => {
        await using warehouse = await open();
        told(await readSearch(warehouse.pg), asked);
      }),
    );
}

function told(all: readonly IndexState[], asked: Asked): void {
  printList(all, asked, {
    columns: ['search', 'state', 'MB'],
    row: ({ of, state, bytes }) => [of, state, Math.ceil(bytes / 1e6)],
  });
  if (!asked.json && all.some(({ state }) => state !== 'on'))
    say('`npx shelfdesk warehouse search on` makes what is missing.');
}
