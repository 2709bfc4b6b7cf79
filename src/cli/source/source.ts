/** `source …`: writes a source of one's own, tries it, and tests it. */
import type { Command } from 'commander';
import type { Act, Deps } from '../command.ts';
import { addNewSource } from './new.ts';
import { addTestSource } from './test.ts';
import { addTrySource } from './try.ts';

export function addSource(program: Command, deps: Deps, act: Act): void {
  const source = program
    .command('source')
    .summary('write a source of your own, try it and test it')
    .description('sources of your own, in the folder of SHELFDESK_SOURCES');
  for (const add of [addNewSource, addTrySource, addTestSource]) add(source, deps, act);
}
