/** `resume`: undoes a pause. */
import type { Command } from 'commander';
import { resume } from '../../engine/runs/operations.ts';
import { exitCodes } from '../../errors.ts';
import type { Act, Deps } from '../command.ts';
import { changePause, streamsArgument } from './pause.ts';

export function addResume(program: Command, deps: Deps, act: Act): void {
  program
    .command('resume')
    .summary('read again after a pause')
    .description('resume the whole account or some streams after a pause')
    .argument('[streams...]', streamsArgument)
    .option('--json', 'print one JSON document on stdout')
    .action(
      act(async (names: string[], options: { json?: boolean }) => {
        await changePause(deps, names, options, resume);
        return exitCodes.ok;
      }),
    );
}
