/** The program with all its commands. Without more they do nothing. */
import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import type { Act, AddCommand, Deps } from '../../src/cli/command.ts';

const folder = fileURLToPath(new URL('../../src/cli', import.meta.url));

export async function program(
  made = new Command('shelfdesk'),
  deps = {} as Deps,
  act = (() => () => {}) as unknown as Act,
): Promise<Command> {
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    // Parts of `warehouse` and `source` are made by them.
    const group = join(dirname(name), `${basename(dirname(name))}.ts`);
    if (!name.endsWith('.ts') || (existsSync(join(folder, group)) && name !== group)) continue;
    const exported = (await import(join(folder, name))) as Record<string, unknown>;
    for (const [key, add] of Object.entries(exported)) {
      if (/^add[A-Z]/.test(key)) (add as AddCommand)(made, deps, act);
    }
  }
  return made;
}

/** Every command that does something, by its whole name: `schedule list`, not `schedule`; but `db` and `db backup`. */
export const leaves = (command: Command, name: string[] = []): { name: string; command: Command }[] =>
  command.commands.flatMap(one => {
    const path = [...name, one.name()];
    const acts = one.commands.length === 0 || ('_actionHandler' in one && one._actionHandler != null);
    return [...(acts ? [{ name: path.join(' '), command: one }] : []), ...leaves(one, path)];
  });
