/** `init`: asks for the settings that a source needs, checks them with one request, and writes them to `.env`. */
import { existsSync } from 'node:fs';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { openAccount } from '../../app/account.ts';
import { readConfigWith, valueSet } from '../../app/config.ts';
import { readText } from '../../app/files/read-text.ts';
import { settings } from '../../app/settings.ts';
import { command } from '../../engine/runs/pauses.ts';
import { exitCodes, ShelfdeskError, UsageError } from '../../errors.ts';
import { sources } from '../../sources/index.ts';
import type { Source } from '../../sources/source.ts';
import { count } from '../../words.ts';
import { type Act, type Deps, note } from '../command.ts';
import { askToType, print, say } from '../output/terminal.ts';
import { warehouseOf } from '../warehouse.ts';

const names = sources.map(({ name }) => name);

export function addInit(program: Command, deps: Deps, act: Act): void {
  program
    .command('init')
    .summary('connect a source and write `.env`')
    .description('ask for the address and the token of a source, check them with one request, and write them to `.env`')
    .addHelpText(
      'after',
      note(
        'Values that are set already are not asked for. What you type as a token is not shown. Only you can read `.env`. If the source refuses, nothing is written.',
      ),
    )
    .argument('[source]', `one of: ${names.join(', ')}`, names[0])
    .action(
      act(async (name: string) => {
        const source = sources.find(one => one.name === name);
        if (source === undefined)
          throw new UsageError(`there is no source ${name}`, `Choose from: ${names.join(', ')}.`);
        const path = join(process.cwd(), '.env');
        const values: Record<string, string> = {};
        for (const setting of neededBy(source))
          values[setting] = valueSet(setting) ?? (await askFor(setting, deps.signal));
        await check(source, values, deps.signal);
        await addTo(path, values);
        print(
          `Wrote ${Object.keys(values).join(' and ')} to ${path}.\nNext: ${command('default', 'plan')}, then \`npx shelfdesk start\`.`,
        );
        return exitCodes.ok;
      }),
    );
}

/** The settings that `requires` names, in its order. */
const neededBy = ({ requires }: Source): string[] => requires.match(/\b[A-Z]+(?:_[A-Z]+)+\b/g) ?? [];

async function askFor(name: string, signal: AbortSignal): Promise<string> {
  const { says, inFile } = settings[name as keyof typeof settings] as { says: string; inFile?: string };
  const typed = await askToType(`${says}\n${name}: `, signal, { hidden: inFile === 'reference' });
  if (typed === undefined || typed === '')
    throw new UsageError(
      `${name} is not set${typed === undefined ? ', and there is no terminal to ask at' : ''}`,
      `Set it in the environment or in .env, or run \`npx shelfdesk init\` at a terminal.`,
    );
  return typed;
}

/** Asks for one page of the first list. The request goes through the budget, as every request does. */
async function check(source: Source, values: Record<string, string>, signal: AbortSignal): Promise<void> {
  const config = readConfigWith(values);
  await using warehouse = await warehouseOf(config, signal);
  await using account = await openAccount(config, warehouse, { signal, works: false, binds: false });
  const open = account.ctx.sources.get(source.name);
  const list = source.streams.find(({ kind }) => kind === 'list');
  if (open === undefined || list?.kind !== 'list') return;
  say(`Checking ${source.label} with one request, for ${count(1, source.unit)}…`);
  const request = list.request(list.lists[0].name, { page: 1, perPage: list.paging.perPage });
  try {
    const { arrived } = await open.send(request, { lane: 'interactive', signal, tries: 1 });
    say(`It answers, and shows ${count(arrived, 'record')} of ${list.name}.`);
  } catch (error) {
    if (!(error instanceof ShelfdeskError)) throw error;
    throw new ShelfdeskError(`${error.message}; nothing was written`, error.remedy, error.exitCode, error);
  }
}

/** Keeps what the file holds, and replaces these settings. */
async function addTo(path: string, values: Record<string, string>): Promise<void> {
  const before = existsSync(path) ? readText(path) : '';
  const isReplaced = (line: string) =>
    Object.keys(values).some(name => new RegExp(`^\\s*(export\\s+)?${name}\\s*=`).test(line));
  const others = before.split('\n').filter(line => !isReplaced(line));
  const kept = others.join('\n').trimEnd();
  const lines = Object.entries(values).map(([name, value]) => `${name}=${quoted(value)}`);
  await writeFile(path, `${kept === '' ? '' : `${kept}\n`}${lines.join('\n')}\n`, { mode: 0o600 });
  // An existing file keeps its mode.
  await chmod(path, 0o600);
}

/** Quotes a value that `.env` would read in another way. */
function quoted(value: string): string {
  if (/^[\w:/.,@+=-]*$/.test(value)) return value;
  const quote = ["'", '"', '`'].find(one => !value.includes(one));
  if (quote === undefined)
    throw new UsageError('a value has all three kinds of quotes in it', 'Set it in the environment.');
  return `${quote}${value}${quote}`;
}
