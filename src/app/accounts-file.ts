/**
 * The file of SHELFDESK_CONFIG: many accounts, each with the settings that would else be variables. It may be shown to
 * people and kept with the code, since what is secret stands elsewhere and is only named in it: `{ env: NAME }` or
 * `{ file: path }`. JSON will do as well: it is YAML.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, resolve } from 'node:path';
import type { ParsedNode, YAMLMap } from 'yaml';
import { UsageError } from '../errors.ts';
import { settings } from './settings.ts';

/** What is set for one account, and where, for those who have to change it. */
export interface Given {
  readonly account: string;
  readonly values: Readonly<Record<string, string | undefined>>;
  /** Of one that is set: `the environment`, `line 7 of fleet.yml`. */
  whereIs(name: string): string;
  /** Its value stands elsewhere, and may be a secret that stands at the wrong name. */
  isNamed(name: string): boolean;
  /** Where one that is missing would be set: `in the environment`. */
  readonly whereTo: string;
}

export interface FleetFile {
  readonly accounts: readonly Given[];
  /** What is wrong with one account stops no other one. */
  readonly refused: readonly Refused[];
  /** All that was read: the file itself, and those that it names. */
  readonly files: readonly string[];
}

export interface Refused {
  readonly account: string;
  readonly error: UsageError;
}

/** Also a part of names that PostgreSQL, Redis and metrics are given. */
const accountName = /^[a-z0-9][a-z0-9_-]{0,62}$/;
const nameRule = 'Use small letters, digits, - and _, beginning with a letter or digit, 63 at most.';

type Found = Map<string, { value: string; isNamed: boolean; line: number }>;

/** `variable` answers what the environment has. Throws UsageError where the file as a whole cannot be read. */
export function readFleetFile(path: string, variable: (name: string) => string | undefined): FleetFile {
  // 84 files, which take as long to load as a tenth of the program: nobody waits for them who has no such file.
  const yaml: typeof import('yaml') = createRequire(import.meta.url)('yaml');
  const { isAlias, isMap, isScalar, LineCounter, parseDocument } = yaml;
  const files = [path];
  const lines = new LineCounter();
  // Everything is text, as in the environment: an id of 21 digits would be another one as a number.
  const document = parseDocument(textOf(path, 'SHELFDESK_CONFIG'), {
    schema: 'failsafe',
    lineCounter: lines,
    prettyErrors: false,
  });
  const lineOf = (node: { range?: readonly number[] | null | undefined }) => lines.linePos(node.range?.[0] ?? 0).line;
  const at = (line: number) => `line ${line} of ${path}`;
  /** Of a message of the parser only its code: it may show what stands there. */
  const [first] = document.errors;
  if (first)
    throw new UsageError(
      `${at(lines.linePos(first.pos[0]).line)} is no YAML: ${first.code.toLowerCase().replaceAll('_', ' ')}`,
      `Mend it there. ${shape}`,
    );

  const mapIn = (node: unknown, what: string, line: number): [key: string, node: unknown, line: number][] => {
    const map = isAlias(node) ? node.resolve(document) : node;
    if (!isMap(map)) throw new UsageError(`${what} (${at(line)}) is no mapping`, shape);
    return (map as YAMLMap<ParsedNode, unknown>).items.map(({ key, value }) => {
      if (!isScalar(key)) throw new UsageError(`${what} (${at(lineOf(key))}) has a key that is no word`, shape);
      return [String(key.value), value, lineOf(key)];
    });
  };

  const settingsIn = (node: unknown, what: string, line: number): Found => {
    const found: Found = new Map();
    for (const [name, value, line_] of mapIn(node, what, line)) {
      const setting = settings[name as keyof typeof settings] as { inFile?: 'plain' | 'reference' } | undefined;
      if (setting === undefined) throw new UsageError(`${name} (${at(line_)}) is no setting`, known);
      if (setting.inFile === undefined)
        throw new UsageError(
          `${name} (${at(line_)}) belongs to the whole process, and no account has one of its own`,
          `Set ${name} in the environment.`,
        );
      found.set(name, { ...textIn(name, setting.inFile, value, line_), line: line_ });
    }
    return found;
  };

  const textIn = (
    name: string,
    kind: 'plain' | 'reference',
    given: unknown,
    line: number,
  ): { value: string; isNamed: boolean } => {
    const node = isAlias(given) ? given.resolve(document) : given;
    if (node === null || isScalar(node)) {
      const text = isScalar(node) ? String(node.value ?? '') : '';
      if (kind === 'plain' || text === '') return { value: text, isNamed: false };
      throw new UsageError(
        `${name} (${at(line)}) is a secret, and stands in the file`,
        `Write where it is instead: ${name}: { env: NAME } or ${name}: { file: path }. Who could read the file knows it: change it at the source.`,
      );
    }
    const [[how, what, at_], ...more] = isMap(node)
      ? (mapIn(node, name, line) as [[string, unknown, number], ...unknown[]])
      : [['', undefined, line] as const];
    const where = isScalar(what) ? String(what.value) : '';
    if (more.length > 0 || where === '' || (how !== 'env' && how !== 'file'))
      throw new UsageError(
        `${name} (${at(at_)}) is neither a value nor a reference`,
        `Write ${kind === 'plain' ? `${name}: value, or ` : ''}${name}: { env: NAME } or ${name}: { file: path }.`,
      );
    if (how === 'env') {
      const value = variable(where);
      if (value) return { value, isNamed: true };
      throw new UsageError(`${name} (${at(line)}) is to come from ${where}, which is not set`, `Set ${where}.`);
    }
    const file = resolve(dirname(path), where);
    files.push(file);
    const value = textOf(file, `${name} (${at(line)})`).trim();
    if (value === '')
      throw new UsageError(`${file} is empty, and ${name} (${at(line)}) is to come from it`, 'Fill it.');
    return { value, isNamed: true };
  };

  let defaults: Found = new Map();
  let accounts: ReturnType<typeof mapIn> = [];
  if (document.contents === null) throw new UsageError(`${path} is empty`, shape);
  for (const [key, node, line] of mapIn(document.contents, path, 1)) {
    if (key === 'defaults') defaults = settingsIn(node, 'defaults', line);
    else if (key === 'accounts') accounts = mapIn(node, 'accounts', line);
    else throw new UsageError(`${key} (${at(line)}) is neither defaults nor accounts`, shape);
  }
  if (accounts.length === 0) throw new UsageError(`${path} names no accounts`, shape);

  const given: Given[] = [];
  const refused: Refused[] = [];
  for (const [account, node, line] of accounts) {
    try {
      if (!accountName.test(account))
        throw new UsageError(`'${account}' (${at(line)}) is no name of an account`, nameRule);
      const found = new Map([...defaults, ...settingsIn(node, `account '${account}'`, line)]);
      given.push({
        account,
        values: Object.fromEntries([...found].map(([name, { value }]) => [name, value])),
        whereIs: name => at(found.get(name)?.line ?? line),
        isNamed: name => found.get(name)?.isNamed === true,
        whereTo: `for account '${account}' (${at(line)})`,
      });
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      refused.push({ account, error });
    }
  }
  return { accounts: given, refused, files };
}

const shape =
  'It holds `accounts:`, and below each name its settings; what all have in common stands under `defaults:`.';
const known = 'README.md lists the settings. Their names are those of the variables.';

function textOf(path: string, what: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new UsageError(
      `${what} names ${path}, which cannot be read${code ? ` (${code})` : ''}`,
      'Name a file that is there, and let the user that Shelfdesk runs as read it.',
    );
  }
}
