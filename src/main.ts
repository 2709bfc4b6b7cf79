#!/usr/bin/env -S node --max-semi-space-size=8
/**
 * Starts the program with the code that an earlier start compiled: half of the time of a short command is compiling.
 * The code is kept beside the packages, because write access there is write access to the program.
 *
 * The flag keeps the heap small: a page becomes garbage as soon as it is stored. A smaller heap would make garbage collection a large
 * part of a load. An account that is opened for work has `keepHeapSmall` too; commands that open none, such as `backup` and `web`, have the flag alone.
 */
import module from 'node:module';
import { fileURLToPath } from 'node:url';
import { version } from './node-version.ts';

module.enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/shelfdesk', import.meta.url)));
try {
  if (['--version', '-V'].includes(process.argv[2]!)) (await import('./cli/output/terminal.ts')).print(version);
  else await import('./program.ts');
} catch (error) {
  // A source is declared in a way that cannot be: its declaration is read before the program begins.
  const { message, remedy, exitCode } = error as { message: string; remedy?: string; exitCode?: number };
  if (exitCode === undefined) throw error;
  const { say } = await import('./cli/output/terminal.ts');
  say(`error: ${message}\n${remedy}`);
  process.exitCode = exitCode;
}
