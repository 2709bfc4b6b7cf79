/** `rejects drift`: where the source differs from its documentation. */
import type { Command } from 'commander';
import { listDrift } from '../../engine/commit/rejects.ts';
import { openChosen } from '../choose-account.ts';
import { type Act, type Deps, jsonOption } from '../command.ts';
import { printList } from '../output/terminal.ts';

/** `rejects` is the command that it becomes a part of. */
export function driftIn(rejects: Command, deps: Deps, act: Act): void {
  rejects
    .command('drift')
    .summary('list differences from the documentation')
    .description('list unknown fields, unknown values and wrong types, each with its count and a sample record')
    .option(...jsonOption)
    .action(
      act(async (options: { json?: boolean }) => {
        await using opened = await openChosen(deps);
        const found = await listDrift(opened.db, opened.account);
        const columns = ['stream', 'kind', 'path', 'value', 'seen', 'first', 'last', 'sample'];
        printList(found, options, { columns, row: Object.values, none: 'No differences.' });
      }),
    );
}
