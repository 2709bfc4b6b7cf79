/**
 * Reads the YAML (or JSON) file of SHELFDESK_CONFIG: several accounts with their settings. The file holds no secrets, so it
 * may be committed and shown. A secret is a reference: `{ env: NAME }` or `{ file: path }`.
 */
import { createRequire } from 'node:module';
import { dirname, resolve } from 'node:path';
import type { ParsedNode, YAMLMap } from 'yaml';
import { UsageError } from '../../errors.ts';
import { settings } from '../settings.ts';
import { readText } from './read-text.ts';

/** Raw settings of one account and their places, for error messages. */
export interface Given {
  readonly account: string;
  readonly values: Readonly<Record<string, string | undefined>>;
  /** Place of a setting: `the environment`, `line 7 of fleet.yml`. */
  whereIs(name: string): string;
  /** Whether the value came through a reference. Such a value may be a misplaced secret and is never shown. */
  isNamed(name: string): boolean;
  /** Place for a missing setting: `in the environment`. */
  readonly whereTo: string;
}

export interface Refused {
  readonly account: string;
  readonly error: UsageError;
}

/** Account names become parts of names in PostgreSQL, Redis and metrics. */
const accountName = /^[a-z0-9][a-z0-9_-]{0,62}$/;
const nameRule = 'Use up to 63 small letters, digits, - and _, starting with a letter or digit.';

type Found = Map<string, { value: string; isNamed: boolean; line: number }>;

/** A YAML file. Its nodes are read by these functions only. */
interface Yaml {
  readonly contents: unknown;
  /** `line 7 of fleet.yml` */
  at(line: number): string;
  isMapping(node: unknown): boolean;
  /** '' for an empty node; undefined for a mapping or a list. */
  textOf(node: unknown): string | undefined;
  /** Throws UsageError if the node is no mapping. `what` names it there. */
  entriesOf(node: unknown, what: string, line: number): [key: string, node: unknown, line: number][];
}

/** Throws UsageError if the file is not valid YAML. */
function openYaml(path: string): Yaml {
  // The package has 84 files and a tenth of the program's load time, so only an accounts file loads it.
  const yaml: typeof import('yaml') = createRequire(import.meta.url)('yaml');
  const { isAlias, isMap, isScalar, LineCounter, parseDocument } = yaml;
  const lines = new LineCounter();
  // All values are text, as in the environment: a number would round an id of 21 digits.
  const document = parseDocument(readText(path, 'SHELFDESK_CONFIG names'), {
    schema: 'failsafe',
    lineCounter: lines,
    prettyErrors: false,
  });
  const lineOf = (node: { range?: readonly number[] | null | undefined }) => lines.linePos(node.range?.[0] ?? 0).line;
  const at = (line: number) => `line ${line} of ${path}`;
  /** The parser's message may quote a secret, so only its code is shown. */
  const [first] = document.errors;
  if (first)
    throw new UsageError(
      `${at(lines.linePos(first.pos[0]).line)} is not valid YAML: ${first.code.toLowerCase().replaceAll('_', ' ')}`,
      `Correct the file. ${shape}`,
    );
  const resolved = (node: unknown) => (isAlias(node) ? node.resolve(document) : node);
  return {
    contents: document.contents,
    at,
    isMapping: node => isMap(resolved(node)),
    textOf(node) {
      const one = resolved(node) ?? null;
      if (one !== null && !isScalar(one)) return undefined;
      return String(one?.value ?? '');
    },
    entriesOf(node, what, line) {
      const map = resolved(node);
      if (!isMap(map)) throw new UsageError(`${what} (${at(line)}) is not a mapping`, shape);
      return (map as YAMLMap<ParsedNode, unknown>).items.map(({ key, value }) => {
        if (!isScalar(key)) throw new UsageError(`${what} (${at(lineOf(key))}) has a key that is not text`, shape);
        return [String(key.value), value, lineOf(key)];
      });
    },
  };
}

/** The accounts file while it is read, and what its references lead to. */
interface Reading extends Yaml {
  readonly path: string;
  /** The value of a variable of the environment. */
  readonly variable: (name: string) => string | undefined;
  /** Grows with each file that a setting refers to. */
  readonly files: string[];
}

/**
 * Reads the accounts, and refuses invalid ones without stopping the others. `files`: the accounts file and those that it refers to.
 * `variable` reads a variable of the environment. Throws UsageError if the file as a whole is invalid.
 */
export function readFleetFile(path: string, variable: (name: string) => string | undefined) {
  const reading: Reading = { ...openYaml(path), path, variable, files: [path] };
  const { contents, at, entriesOf, files } = reading;
  let defaults: Found = new Map();
  let accounts: ReturnType<typeof entriesOf> = [];
  if (contents === null) throw new UsageError(`${path} is empty`, shape);
  for (const [key, node, line] of entriesOf(contents, path, 1)) {
    if (key === 'defaults') defaults = settingsIn(reading, node, 'defaults', line);
    else if (key === 'accounts') accounts = entriesOf(node, 'accounts', line);
    else throw new UsageError(`${key} (${at(line)}) is neither defaults nor accounts`, shape);
  }
  if (accounts.length === 0) throw new UsageError(`${path} names no accounts`, shape);

  const given: Given[] = [];
  const refused: Refused[] = [];
  for (const [account, node, line] of accounts) {
    try {
      if (!accountName.test(account))
        throw new UsageError(`'${account}' (${at(line)}) is not a valid account name`, nameRule);
      const found = new Map([...defaults, ...settingsIn(reading, node, `account '${account}'`, line)]);
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

function settingsIn(reading: Reading, node: unknown, what: string, line: number): Found {
  const { at } = reading;
  const found: Found = new Map();
  for (const [name, value, line_] of reading.entriesOf(node, what, line)) {
    const setting = settings[name];
    if (setting === undefined) throw new UsageError(`${name} (${at(line_)}) is not a setting`, known);
    if (setting.ofProcess)
      throw new UsageError(
        `${name} (${at(line_)}) belongs to the whole process and cannot be set per account`,
        `Set ${name} in the environment.`,
      );
    found.set(name, { ...settingValue(reading, name, setting.onlyByReference === true, value, line_), line: line_ });
  }
  return found;
}

/** The value of a setting: a text, or what its reference leads to. */
function settingValue(
  reading: Reading,
  name: string,
  onlyByReference: boolean,
  node: unknown,
  line: number,
): { value: string; isNamed: boolean } {
  const { at } = reading;
  const text = reading.textOf(node);
  if (text === '' || (text !== undefined && !onlyByReference)) return { value: text, isNamed: false };
  if (text !== undefined)
    throw new UsageError(
      `${name} (${at(line)}) is a secret and must not be in the file`,
      `Use a reference: ${name}: { env: NAME } or ${name}: { file: path }. Replace the secret at the source, because the file exposed it.`,
    );
  const entries = reading.isMapping(node) ? reading.entriesOf(node, name, line) : [];
  const [[how, to, at_] = ['', undefined, line], ...more] = entries;
  const where = reading.textOf(to) ?? '';
  if (more.length > 0 || where === '' || (how !== 'env' && how !== 'file'))
    throw new UsageError(
      `${name} (${at(at_)}) is neither a value nor a reference`,
      `Write ${onlyByReference ? '' : `${name}: value, or `}${name}: { env: NAME } or ${name}: { file: path }.`,
    );
  if (how === 'env') {
    const value = reading.variable(where);
    if (value) return { value, isNamed: true };
    throw new UsageError(`${name} (${at(line)}) refers to ${where}, which is not set`, `Set ${where}.`);
  }
  const file = resolve(dirname(reading.path), where);
  reading.files.push(file);
  const value = readText(file, `${name} (${at(line)}) names`).trim();
  if (value === '')
    throw new UsageError(`${file} is empty, but ${name} (${at(line)}) refers to it`, 'Write the value into the file.');
  return { value, isNamed: true };
}

const shape =
  'The file needs `accounts:` with the settings of each account below its name; common settings go under `defaults:`.';
const known = 'README.md lists the settings, which are named like the variables.';
