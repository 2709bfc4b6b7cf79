/** `init`: asks for the settings that a source needs, checks them with one request, and writes them to `.env`. */

import { existsSync } from 'node:fs';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { openAccount } from '../../app/account.ts';
import { type Config, readConfigWith, valueSet } from '../../app/config.ts';
import { configuredSources, type Warehouse } from '../../app/context.ts';
import { readText } from '../../app/files/read-text.ts';
import { completeAddress } from '../../app/setting-types.ts';
import { settings } from '../../app/settings.ts';
import { command } from '../../engine/runs/pauses.ts';
import { ShelfdeskError, UsageError } from '../../errors.ts';
import { OpenStack } from '../../open-stack.ts';
import { sources } from '../../sources/index.ts';
import type { Source } from '../../sources/source.ts';
import { count } from '../../words.ts';
import { type Act, type Deps, note } from '../command.ts';
import { askToType, print, say, style } from '../output/terminal.ts';
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
        const values = await askUntilRight(source, deps.signal);
        await addTo(path, values);
        print(
          `Wrote ${Object.keys(values).join(' and ')} to ${path}.\nNext: ${command('default', 'plan')}, then \`npx shelfdesk start\`.`,
        );
      }),
    );
}

/** The settings that `requires` names, in its order. */
const neededBy = ({ requires }: Source): string[] => requires.match(/\b[A-Z]+(?:_[A-Z]+)+\b/g) ?? [];

/** Asks for what is not set, until the source answers. At a terminal a mistake is typed again, with the rest kept. */
async function askUntilRight(source: Source, signal: AbortSignal): Promise<Record<string, string>> {
  const set: Record<string, string> = {};
  const typed: Record<string, string> = {};
  const toAsk: string[] = [];
  for (const name of neededBy(source)) {
    const value = valueSet(name);
    if (value === undefined) toAsk.push(name);
    else set[name] = value;
  }
  await using stack = new OpenStack();
  let warehouse: Warehouse | undefined;
  for (;;) {
    for (const name of toAsk) typed[name] = await askFor(name, typed[name], signal);
    try {
      const config = readConfigWith({ ...set, ...typed });
      warehouse ??= stack.use(await warehouseOf(config, signal));
      await check(source, config, warehouse, signal);
      return { ...set, ...typed };
    } catch (error) {
      if (!(error instanceof ShelfdeskError)) throw error;
      const isTyped = Object.keys(typed).length > 0 && warehouse !== undefined;
      const isWrong = error instanceof UsageError && toAsk.some(name => error.message.startsWith(name));
      if (signal.aborted || !(isTyped || isWrong))
        throw new ShelfdeskError(`${error.message}; nothing was written`, error.remedy, {
          exitCode: error.exitCode,
          cause: error,
        });
      say(`${style('red', '✗', process.stderr)} ${error.message}`);
      say(`  ${isWrong ? 'Type it again.' : error.remedy}`);
      say('Enter keeps what was typed; Ctrl-C ends, and nothing is written.');
    }
  }
}

/** `before`: what was typed the last time. An address is completed, and the whole one is shown before it is asked. */
async function askFor(name: string, before: string | undefined, signal: AbortSignal): Promise<string> {
  const { says, onlyByReference: hidden = false, end } = settings[name]!;
  const kept = before === undefined ? '' : ` [${hidden ? 'as before' : before}]`;
  const typed = await askToType(`${before === undefined ? `${says}\n` : ''}${name}${kept}: `, signal, { hidden });
  const given = typed === '' ? before : typed;
  if (given === undefined)
    throw new UsageError(
      `${name} is not set${typed === undefined ? ', and there is no terminal to ask at' : ''}`,
      `Set it in the environment or in .env, or run \`npx shelfdesk init\` at a terminal.`,
    );
  const whole = end === undefined ? given : completeAddress(given, end);
  if (whole === given) return given;
  return (await askToType(`${name} [${whole}]: `, signal)) || whole;
}

/** Asks for one page of the first list. The request goes through the budget, as every request does. */
async function check(source: Source, config: Config, warehouse: Warehouse, signal: AbortSignal): Promise<void> {
  await using account = await openAccount(config, warehouse, { signal, works: false, binds: false });
  const open = account.ctx.sources.get(source.name);
  const list = source.streams.find(({ kind }) => kind === 'list');
  if (open === undefined || list?.kind !== 'list') return;
  const { host } = configuredSources(config).get(source.name)!.baseUrl;
  say(`Asking ${host} for a page of ${list.name}, which costs ${count(1, source.unit)}…`);
  const request = list.request(list.lists[0].name, { page: 1, perPage: list.paging.perPage });
  const { arrived } = await open.send(request, { lane: 'interactive', signal, tries: 1 });
  say(`It answers, and shows ${count(arrived, 'record')} of ${list.name}.`);
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
