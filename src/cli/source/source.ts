/** `source …`: writes a source of one's own, and tries it. */
import type { Command } from 'commander';
import type { Act, Deps } from '../command.ts';
import { addNewSource } from './new.ts';
import { addTrySource } from './try.ts';

export function addSource(program: Command, deps: Deps, act: Act): void {
  const source = program
    .command('source')
    .summary('write a source of your own, and try it')
    .description('sources of your own, in the folder of SHELFDESK_SOURCES');
  for (const add of [addNewSource, addTrySource]) add(source, deps, act);
}
