/**
 * Reads the configuration from the environment and from `.env` in the working folder. The
 * environment overrides `.env`. settings.ts defines the settings; accounts-file.ts reads a file with several accounts.
 */
import { createHmac } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { type Demo, demoAccount, findDemo, hasEmbedded } from '../embedded/demo-place.ts';
import type { SweepConfig } from '../engine/context.ts';
import type { Proxies } from '../engine/http/proxies.ts';
import { UsageError } from '../errors.ts';
import type { LakePlace } from '../lake/table.ts';
import type { Limits } from '../privacy/bounded.ts';
import type { FieldRules } from '../privacy/fields/field-rules.ts';
import { kinds, type SourceConfig, sources } from '../sources/index.ts';
import { choiceOf, nearest } from '../words.ts';
import { contradictions } from './contradictions.ts';
import { type Environment, machine } from './environment.ts';
import { type Given, type Refused, readFleetFile } from './files/accounts-file.ts';
import { readEnvFile } from './files/env-file.ts';
import { settings, type Values } from './settings.ts';

/** Names of the address settings. An account without any of them has no source. */
const addresses = sources.map(({ address }) => address);

/** All accounts of this process and their common settings. */
export interface Fleet {
  /** Undefined: these are real settings. */
  demo?: Demo | undefined;
  databaseUrl: string | undefined;
  redisUrl: string | undefined;
  logLevel: string;
  proxies: Proxies;
  web: WebConfig;
  lake: LakeConfig;
  agents: AgentsConfig;
  /** In the order of the file, `default` first. Without a file: only `default`, even if no source is configured. */
  accounts: readonly Config[];
  /** Accounts of the file with invalid settings, each with its error. */
  refused: readonly Refused[];
  /** Paths of the SHELFDESK_CONFIG file and of the files it refers to; empty without one. */
  files: readonly string[];
  /** What lets people in, of all accounts; never show it. */
  secrets: readonly string[];
}

export interface WebConfig {
  /** Undefined: only the command `web` serves the page. */
  port: number | undefined;
  host: string;
  /** Token with operator access. */
  token: string | undefined;
  /** Token with read-only access. */
  viewerToken: string | undefined;
}

/** Access to the lake, and the schedule of its exports. sync.lake has its place. */
interface LakeConfig extends Omit<LakePlace, 'path'> {
  /** Cron expression in UTC; empty: never. */
  readonly schedule: string;
}

/** How agents are answered. */
interface AgentsConfig {
  /** What the web server offers agents at /mcp. The command `mcp` has an option of its own. */
  page: 'off' | 'masked' | 'unmasked';
  limits: Limits;
}

/** Configuration of one account. Each source adds its part. */
export interface Config extends SourceConfig {
  /** Name of the account, chosen by the operator. */
  account: string;
  /** Undefined: these are real settings. */
  demo?: Demo | undefined;
  databaseUrl: string | undefined;
  redisUrl: string | undefined;
  proxies: Proxies;
  sweep: SweepConfig;
  /** Undefined: every field is kept. */
  fieldRules: FieldRules | undefined;
  schedule: Times;
  promises: {
    /** Highest lag of each stream by its name, and whether it differs from the default. */
    targets: Readonly<Record<string, { ms: number; isSet: boolean }>>;
    /** Longest time from the due time to the end of the nightly run. */
    nightlyMs: number;
  };
  /** Undefined: no alarms are sent. */
  alarm: AlarmConfig | undefined;
  /** Undefined: no hand-offs are sent. */
  handOff: HandOffConfig | undefined;
  /** Largest reply of a source in bytes. Reading ends there. */
  replyBytes: number;
  logLevel: string;
}

export interface AlarmConfig {
  url: URL;
  format: 'json' | 'slack';
}

export interface HandOffConfig {
  webhook: { url: URL; secret: string } | undefined;
  /** Command line for a shell. */
  command: string | undefined;
  /** Channel of pg_notify. */
  notify: string | undefined;
  /** Kinds of runs. */
  runs: readonly string[];
  rejectsAllowed: number;
  due: { by: string } | { withinMs: number } | undefined;
}

/** Cron expressions; an empty one switches its schedule off. */
export interface Times {
  fresh: string;
  nightly: string;
  timeZone: string;
}

/** Account `default` from the plain variables. Throws UsageError with the setting and its place; secrets are never shown. */
// @internal Tests read settings of a folder and an environment of their own.
export function readConfig(folder = process.cwd(), environment: Environment = machine()): Config {
  return configOf(environmentOf(folder, environment));
}

/** Like readConfig, with these values instead of the ones that are set. */
export const readConfigWith = (values: Readonly<Record<string, string>>): Config =>
  readConfig(process.cwd(), { ...machine(), ...values });

/** The value of one setting, from the environment or from `.env`. */
export const valueSet = (name: string): string | undefined => environmentOf(process.cwd(), machine()).values[name];

/** Account that has only the settings in `values`; all others have their defaults. */
export function withoutSettings(account: string, values: Readonly<Record<string, string>> = {}): Config {
  const plain = ofProcess(environmentOf(process.cwd(), machine()));
  return configOf({ ...plain, account, values: { ...plain.values, ...values } });
}

/** Whether these are the settings of the demo. For code that must not treat the demo as real data. */
export const isDemo = ({ demo }: Pick<Fleet, 'demo'>): boolean => demo !== undefined;

/** Settings by which a source or a warehouse is set up. */
const real = [
  'DATABASE_URL',
  'SHELFDESK_CONFIG',
  ...sources.flatMap(({ requires }) => requires.match(/\b[A-Z]+(?:_[A-Z]+)+\b/g) ?? []),
];

/** Whether settings or an embedded warehouse of real data are in this folder. */
export async function isSetUp(folder = process.cwd(), environment: Environment = machine()): Promise<boolean> {
  if (real.some(name => environment[name]) || existsSync(join(folder, '.env'))) return true;
  const embedded = join(folder, '.shelfdesk', 'postgres');
  if (!hasEmbedded(embedded)) return false;
  const { holdsRows } = await import('../embedded/postgres.ts');
  return holdsRows(embedded);
}

/**
 * The demo of the folder, where nothing real is set up, or `named` asks for its account. Undefined: the real settings
 * count.
 */
export async function demoInstead(
  named?: string,
  folder = process.cwd(),
  environment: Environment = machine(),
): Promise<Demo | undefined> {
  const demo = await findDemo(folder);
  if (demo === undefined || (named !== demoAccount && (await isSetUp(folder, environment)))) return undefined;
  return demo;
}

/** The settings of the demo. While it runs, they name its sandbox. */
function fleetOf(demo: Demo, plain: Given): Fleet {
  const { DATABASE_URL: _database, REDIS_URL: _redis, SHELFDESK_CONFIG: _file, ...values } = ofProcess(plain).values;
  const given = { ...plain, account: demoAccount, values: { ...values, ...demo.running?.settings } };
  const common = commonOf(valuesOf(ofProcess(given)));
  return {
    ...common,
    demo,
    accounts: [{ ...configOf(given), demo }],
    refused: [],
    files: [],
    secrets: credentialsIn(given),
  };
}

/** Throws UsageError for settings of the process. An error in one account of a file goes to `refused`. */
export function readFleet(folder = process.cwd(), environment: Environment = machine(), demo?: Demo): Fleet {
  const plain = environmentOf(folder, environment);
  if (demo !== undefined) return fleetOf(demo, plain);
  const values = valuesOf(ofProcess(plain));
  const { SHELFDESK_CONFIG } = values;
  const common = commonOf(values);
  if (SHELFDESK_CONFIG === undefined)
    return { ...common, accounts: [configOf(plain)], refused: [], files: [], secrets: credentialsIn(plain) };
  const variables = {
    ...fileOf(folder),
    ...Object.fromEntries(Object.entries(environment).filter(([, value]) => value)),
  };
  const file = readFleetFile(resolve(folder, SHELFDESK_CONFIG), name => variables[name]);
  const hasPlain = addresses.some(name => plain.values[name] !== undefined);
  const accounts: Config[] = [];
  const refused = [...file.refused];
  for (const given of hasPlain ? [plain, ...file.accounts] : file.accounts) {
    try {
      if (given !== plain && hasPlain && given.account === plain.account) throw twoDefaults(given);
      const config = configOf(given === plain ? plain : withProcess(given, plain));
      requireSourceSettings(config, given);
      requireDistinctSource(config, accounts, given);
      accounts.push(config);
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      refused.push({ account: given.account, error });
    }
  }
  const secrets = [plain, ...file.accounts].flatMap(credentialsIn);
  return { ...common, accounts, refused, files: file.files, secrets };
}

const credentialsIn = ({ values }: Given): string[] =>
  Object.entries(values).flatMap(([name, value]) => (settings[name]!.onlyByReference && value ? [value] : []));

function commonOf(values: Values): Omit<Fleet, 'accounts' | 'refused' | 'files' | 'secrets'> {
  const { DATABASE_URL: databaseUrl, REDIS_URL: redisUrl, LOG_LEVEL: logLevel, ...ofPage } = values;
  const web: WebConfig = {
    port: ofPage.SHELFDESK_WEB_PORT,
    host: ofPage.SHELFDESK_WEB_HOST,
    token: ofPage.SHELFDESK_WEB_TOKEN,
    viewerToken: ofPage.SHELFDESK_WEB_VIEWER_TOKEN,
  };
  const lake: LakeConfig = {
    endpoint: ofPage.LAKE_S3_ENDPOINT,
    region: ofPage.LAKE_S3_REGION,
    keyId: ofPage.LAKE_S3_KEY_ID,
    secret: ofPage.LAKE_S3_SECRET,
    extensions: ofPage.LAKE_EXTENSIONS,
    schedule: ofPage.SCHEDULE_LAKE,
  };
  const agents: AgentsConfig = {
    page: ofPage.SHELFDESK_MCP,
    limits: {
      ms: ofPage.SHELFDESK_MCP_SECONDS * 1000,
      rows: ofPage.SHELFDESK_MCP_ROWS,
      bytes: ofPage.SHELFDESK_MCP_KILOBYTES * 1000,
    },
  };
  return { databaseUrl, redisUrl, logLevel, proxies: proxiesOf(ofPage), web, lake, agents };
}

/** Account `name`; without a name the only account, or `default`. Throws UsageError if it is unknown or refused. */
export function chooseAccount({ accounts, refused }: Fleet, name?: string): Config {
  const names = [...accounts, ...refused].map(({ account }) => account);
  const wanted = name ?? (names.length === 1 ? names[0]! : 'default');
  const wrong = refused.find(({ account }) => account === wanted);
  const chosen = accounts.find(({ account }) => account === wanted);
  if (chosen !== undefined) return chosen;
  if (wrong !== undefined) throw wrong.error;
  throw new UsageError(
    name === undefined ? 'several accounts exist and none was chosen' : `there is no account '${name}'`,
    choiceOf(name ?? '', names, 'Choose with --account'),
  );
}

/** The fleet, reduced to account `name` if given. Throws UsageError if the account is unknown. */
export function oneAccount(fleet: Fleet, name?: string): Fleet {
  if (name === undefined) return fleet;
  const is = (one: { account: string }) => one.account === name;
  if (!fleet.refused.some(is)) chooseAccount(fleet, name);
  return { ...fleet, accounts: fleet.accounts.filter(is), refused: fleet.refused.filter(is) };
}

function environmentOf(folder: string, environment: Environment, file: Environment = fileOf(folder)): Given {
  const values = Object.fromEntries(
    Object.entries(settings).map(([name, setting]) => {
      const small = setting.ofMachine ? name.toLowerCase() : name;
      const value = environment[name] || environment[small] || file[name] || file[small];
      const said = environment[name] ?? file[name];
      return [name, 'emptyIsValue' in setting ? said : value || undefined] as const;
    }),
  );
  const isOfEnvironment = (name: string) =>
    [name, name.toLowerCase()].some(one => environment[one] !== undefined && values[name] === environment[one]);
  return {
    account: 'default',
    values,
    whereIs: name => (isOfEnvironment(name) ? 'the environment' : join(folder, '.env')),
    isNamed: () => false,
    whereTo: `in the environment or in ${join(folder, '.env')}`,
  };
}

/** Settings of the process cannot be set per account. */
const isOfProcess = (name: string) => settings[name]!.ofProcess === true;
const ofProcess = (given: Given): Given => ({
  ...given,
  values: Object.fromEntries(Object.entries(given.values).filter(([name]) => isOfProcess(name))),
});

/** Adds the settings of the process to an account of the file. An empty value counts as unset, as in the environment. */
function withProcess(given: Given, plain: Given): Given {
  const own = Object.entries(given.values).map(([name, value]) => [
    name,
    'emptyIsValue' in settings[name]! ? value : value || undefined,
  ]);
  const { values } = ofProcess(plain);
  return { ...given, values: { ...values, ...Object.fromEntries(own) } };
}

const twoDefaults = ({ whereTo }: Given) =>
  new UsageError(
    "the plain variables are the account 'default' already",
    `Unset ${addresses.join(' and ')}, or give another name ${whereTo}.`,
  );

function requireSourceSettings(config: Config, { account, whereTo }: Given): void {
  if (sources.some(source => source.connect(config) !== undefined)) return;
  throw new UsageError(
    `account '${account}' has no source`,
    `Set ${sources.map(source => source.requires).join(', or ')}, ${whereTo}.`,
  );
}

/** Two accounts with one address and one token would spend one budget twice. A key may be shared: people split its quota. */
function requireDistinctSource(config: Config, others: readonly Config[], { account, whereTo }: Given): void {
  for (const source of sources) {
    const identity = source.identityOf(config);
    const other = identity && others.find(one => source.identityOf(one) === identity);
    if (!other) continue;
    throw new UsageError(
      `account '${account}' has the address and the token of account '${other.account}', so that both would spend the same ${source.unit === 'credit' ? 'credits' : 'quota'}`,
      `Take one of them away, or give it a source of its own, ${whereTo}.`,
    );
  }
}

/** State of the settings for `doctor`. */
export interface SettingsLook {
  /** All errors in the plain variables; `readConfig` throws only the first. */
  readonly wrong: readonly UsageError[];
  /** Addresses of database and queue; undefined if one of them is invalid. */
  readonly servers: Pick<Fleet, 'databaseUrl' | 'redisUrl'> | undefined;
  /** Path of `.env` in the folder, if the file exists. */
  readonly file: string | undefined;
  /** Names in `.env` that are not settings; an accounts file may refer to them. */
  readonly unknown: readonly string[];
  /** Secret values, to search for in files and logs; never show them. */
  readonly secrets: readonly string[];
}

export function lookAtSettings(folder = process.cwd(), environment: Environment = machine()): SettingsLook {
  const unreadable: UsageError[] = [];
  let written: Environment = {};
  try {
    written = fileOf(folder);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    unreadable.push(error);
  }
  const plain = environmentOf(folder, environment, written);
  const file = join(folder, '.env');
  const secrets = Object.entries(settings).filter(([, setting]) => 'secret' in setting);
  const { wrong, value } = settle(plain);
  const { DATABASE_URL: databaseUrl, REDIS_URL: redisUrl } = value;
  return {
    wrong: [...unreadable, ...wrong],
    servers:
      unreadable.length > 0 || wrong.some(({ message }) => /^(DATABASE|REDIS)_URL /.test(message))
        ? undefined
        : { databaseUrl, redisUrl },
    file: existsSync(file) ? file : undefined,
    unknown: Object.keys(written).filter(name => !isSetting(name)),
    // Many proxies have no password, and other programs name them.
    secrets: secrets
      .flatMap(([name, { ofMachine }]) => (ofMachine && !plain.values[name]?.includes('@') ? [] : plain.values[name]))
      .filter(value => value !== undefined),
  };
}

function valuesOf(given: Given): Values {
  const { value, wrong } = settle(given);
  if (wrong.length > 0) throw wrong[0]!;
  return value;
}

const shape = z.object(Object.fromEntries(Object.entries(settings).map(([name, { schema }]) => [name, schema])));
/** To compile a check takes longer than to run it a few times. */
const checkedOnce = { jitless: true };

/** Values of all settings and all errors. An invalid setting gets its default. */
function settle(given: Given): { value: Values; wrong: readonly UsageError[] } {
  const parsed = shape.safeParse(given.values, checkedOnce);
  if (parsed.success) return { value: parsed.data as Values, wrong: contradictions(parsed.data as Values, given) };
  const issues = new Map<string, string>();
  for (const { path, message } of parsed.error.issues)
    if (!issues.has(String(path[0]))) issues.set(String(path[0]), message);
  const wrong = [...issues].map(([name, message]) => wrongSetting(name, message, given));
  const fine = Object.entries(given.values).filter(([name]) => !issues.has(name));
  const value = shape.parse(Object.fromEntries(fine), checkedOnce) as Values;
  // Rules between settings apply only if all settings involved are valid.
  const others = contradictions(value, given).filter(
    ({ message }) => ![...issues.keys()].some(one => message.includes(one)),
  );
  return { value, wrong: [...wrong, ...others] };
}

function configOf(given: Given): Config {
  const value = valuesOf(given);
  const { account } = given;
  const parts = sources.map(source => source.configure(value, given));
  return {
    ...(Object.assign({}, ...parts) as SourceConfig),
    account,
    databaseUrl: value.DATABASE_URL,
    redisUrl: value.REDIS_URL,
    proxies: proxiesOf(value),
    sweep: {
      ageMs: value.SWEEP_AGE_DAYS * dayMs,
      mostDeleted: value.SWEEP_MOST_DELETED_PERCENT / 100,
      share: value.SWEEP_SHARE_PERCENT / 100,
    },
    schedule: {
      fresh: value.SCHEDULE_FRESH,
      nightly: value.SCHEDULE_NIGHTLY,
      timeZone: value.SCHEDULE_TIME_ZONE,
    },
    promises: { targets: value.FRESHNESS_TARGETS, nightlyMs: value.NIGHTLY_WITHIN_HOURS * hourMs },
    fieldRules: fieldRulesOf(account, value),
    alarm: value.ALARM_WEBHOOK_URL && { url: value.ALARM_WEBHOOK_URL, format: value.ALARM_FORMAT },
    handOff: handOffOf(value),
    replyBytes: value.SHELFDESK_REPLY_MEGABYTES * 1_000_000,
    logLevel: value.LOG_LEVEL,
  };
}

const proxiesOf = ({
  HTTP_PROXY: http,
  HTTPS_PROXY: https,
  NO_PROXY: none,
}: Pick<Values, 'HTTP_PROXY' | 'HTTPS_PROXY' | 'NO_PROXY'>): Proxies => ({ http, https, none });

/** Undefined if nobody is to be told, and no time is set. */
function handOffOf(value: Values): HandOffConfig | undefined {
  const { HANDOFF_WEBHOOK_URL: url, HANDOFF_SECRET: secret = '', HANDOFF_DUE: due } = value;
  const [command, notify] = [value.HANDOFF_COMMAND || undefined, value.HANDOFF_NOTIFY];
  if ([url, command, notify, due].every(one => one === undefined)) return undefined;
  return {
    webhook: url && { url, secret },
    ...{ command, notify, due },
    ...{ runs: value.HANDOFF_RUNS, rejectsAllowed: value.HANDOFF_REJECTS_ALLOWED },
  };
}

/** Undefined without rules. The key of the hashes is another one for each account. */
function fieldRulesOf(account: string, { FIELD_RULES: rules, FIELD_RULES_KEY: key }: Values): FieldRules | undefined {
  if (rules.length === 0) return undefined;
  return {
    kinds,
    rules,
    key: createHmac('sha256', key ?? '')
      .update(account)
      .digest('hex'),
  };
}

const dayMs = 24 * 3_600_000;
const hourMs = 3_600_000;

function wrongSetting(name: string, message: string, given: Given): UsageError {
  const setting = settings[name]!;
  const remedy = `Change it in ${given.whereIs(name)}. ${setting.says}`;
  if (setting.secret) return new UsageError(`${name} ${lowerFirst(message)}`, remedy);
  // A referenced value may be a secret of another setting, if two references were swapped: show nothing of it.
  if (given.isNamed(name))
    return new UsageError(`${name} has an invalid value (hidden, because it is a reference)`, remedy);
  return new UsageError(`${name} ${lowerFirst(message)} (it is "${given.values[name]}")`, remedy);
}

const lowerFirst = (text: string) => text.charAt(0).toLowerCase() + text.slice(1);

/** The environment for a command of the operator: without the settings, because some are secrets. */
export const commandEnvironment = (): Environment =>
  Object.fromEntries(
    Object.entries(machine()).filter(([name]) => !Object.hasOwn(settings, name) || settings[name]!.ofMachine),
  );

/** Whether `npx` started this process. Its shell does not forward signals. */
export const startedByNpx = (): boolean => machine().npm_command === 'exec';

const isSetting = (name: string): boolean =>
  Object.hasOwn(settings, name) || settings[name.toUpperCase()]?.ofMachine === true;

const fileOf = (folder: string) => readEnvFile(join(folder, '.env'), isSetting);

/** The setting that a name with a typo may mean. */
export const meantBy = (name: string): string | undefined => nearest(name, Object.keys(settings));

/** Says which names in `.env` may be misspelt settings; empty without one. An accounts file gives names of its own. */
export function typosIn(folder = process.cwd(), environment: Environment = machine()): string {
  const written = fileOf(folder);
  const isSet = (name: string) => environment[name] !== undefined || written[name] !== undefined;
  if (isSet('SHELFDESK_CONFIG')) return '';
  return Object.keys(written)
    .filter(name => !isSetting(name))
    .flatMap(name => {
      const meant = meantBy(name);
      return meant === undefined || isSet(meant) ? [] : `.env sets ${name}, which is no setting: is it ${meant}?`;
    })
    .join(' ');
}
