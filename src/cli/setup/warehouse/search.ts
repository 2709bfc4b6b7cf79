/** `warehouse search on | off | status`: the indexes that helpdesk.search_messages and its kin need. */
import type { Command } from 'commander';
import { type IndexState, type Making, readSearch, searchOff, searchOn } from '../../../analytics/search.ts';
import type { Warehouse } from '../../../app/context.ts';
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
  const add = (name: string, says: string, work: (warehouse: Warehouse) => Promise<void>) =>
    search
      .command(name)
      .description(says)
      .option(...jsonOption)
      .action(
        act(async (asked: Asked) => {
          await using warehouse = await tablesOf(deps.asked().fleet, deps.signal);
          await work(warehouse);
          told(await readSearch(warehouse.pg), asked);
        }),
      );

  add(
    'on',
    'make the indexes while the worker runs; Ctrl-C drops the one in work, the rest stays',
    ({ url, pg: db }) => {
      const progress = sayOnce();
      const show = ({ of, phase, share }: Making) =>
        progress(`${of}: ${phase}${share === undefined ? '' : `, ${percentOf(share)} %`}`);
      return searchOn({ url, db }, { signal: deps.signal, show });
    },
  );
  add('off', 'drop the indexes', searchOff);
  add('status', 'say which indexes there are, and their size', async () => {});
}

function told(all: readonly IndexState[], asked: Asked): void {
  printList(all, asked, {
    columns: ['search', 'state', 'MB'],
    row: ({ of, state, bytes }) => [of, state, Math.ceil(bytes / 1e6)],
  });
  if (!asked.json && all.some(({ state }) => state !== 'on'))
    say('`npx shelfdesk warehouse search on` makes what is missing.');
}
