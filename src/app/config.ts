/**
 * The only reader of the environment. An `.env` file in the working folder is read where there is one; what the environment
 * says goes before it. What can be set stands in settings.ts; the file with many accounts is read in fleet-file.ts.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { z } from 'zod';
import type { SweepConfig } from '../engine/context.ts';
import { UsageError } from '../errors.ts';
import { type SourceConfig, sources } from '../sources/index.ts';
import { type Given, type Refused, readFleetFile } from './accounts-file.ts';
import type { ValuesOf } from './setting-types.ts';
import { type ownSettings, settings } from './settings.ts';

/** Without one of these an account has no source. */
const addresses = sources.map(({ address }) => address);

/** All accounts of this process, and what is set for all of them. */
export interface Fleet {
  databaseUrl: string | undefined;
  redisUrl: string | undefined;
  logLevel: string;
  web: WebConfig;
  /** In the order of the file, `default` first. Without a file: this one alone, whether or not a source is configured. */
  accounts: readonly Config[];
  /** Of the file: those that cannot be opened, each with its reason. */
  refused: readonly Refused[];
  /** What the file of SHELFDESK_CONFIG and those that it names are called; none without it. */
  files: readonly string[];
}

/** The page. */
export interface WebConfig {
  /** Undefined: only the command that is for nothing else serves it. */
  port: number | undefined;
  host: string;
  /** Who shows it is an operator. */
  token: string | undefined;
  /** Who shows it may look. */
  viewerToken: string | undefined;
}

/** One account. Each source adds its part. */
export interface Config extends SourceConfig {
  /** The operator's name for the account that these settings describe. */
  account: string;
  databaseUrl: string | undefined;
  redisUrl: string | undefined;
  sweep: SweepConfig;
  schedule: Times;
  promises: Promises;
  /** Undefined: nobody is told of problems. */
  alarm: AlarmConfig | undefined;
  logLevel: string;
}

export interface Promises {
  /** How far each stream may be behind, by its name, and whether somebody has set it. */
  targets: Readonly<Record<string, { ms: number; isSet: boolean }>>;
  /** How long the run of a night may take. */
  nightlyMs: number;
}

export interface AlarmConfig {
  url: URL;
  format: 'json' | 'slack';
}

/** Cron expressions; an empty one is switched off. */
export interface Times {
  fresh: string;
  nightly: string;
  timeZone: string;
}

type Environment = Record<string, string | undefined>;

/** The account `default`, of the plain variables. Throws UsageError: which setting, from where, what to do. A value is shown only where it is no secret. */
export function readConfig(folder = process.cwd(), environment: Environment = process.env): Config {
  return configOf(environmentOf(folder, environment));
}

/** An account of which nothing is set here but `values`: else holds what holds where nothing is said. */
export function withoutSettings(account: string, values: Readonly<Record<string, string>> = {}): Config {
  const plain = ofProcess(environmentOf(process.cwd(), process.env));
  return configOf({ ...plain, account, values: { ...plain.values, ...values } });
}

/** Throws UsageError as `readConfig` does, for what concerns all accounts; what concerns one of a file stands in `refused`. */
export function readFleet(folder = process.cwd(), environment: Environment = process.env): Fleet {
  const plain = environmentOf(folder, environment);
  const {
    DATABASE_URL: databaseUrl,
    REDIS_URL: redisUrl,
    LOG_LEVEL: logLevel,
    SHELFDESK_CONFIG,
    ...ofPage
  } = valuesOf(ofProcess(plain));
  const web: WebConfig = {
    port: ofPage.SHELFDESK_WEB_PORT,
    host: ofPage.SHELFDESK_WEB_HOST,
    token: ofPage.SHELFDESK_WEB_TOKEN,
    viewerToken: ofPage.SHELFDESK_WEB_VIEWER_TOKEN,
  };
  const common = { databaseUrl, redisUrl, logLevel, web };
  if (SHELFDESK_CONFIG === undefined) return { ...common, accounts: [configOf(plain)], refused: [], files: [] };
  const variables = {
    ...readEnvFile(folder),
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
      demandSource(config, given);
      demandApart(config, accounts, given);
      accounts.push(config);
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      refused.push({ account: given.account, error });
    }
  }
  return { ...common, accounts, refused, files: file.files };
}

/** The account of this name; without one the only one, or `default`. Throws UsageError if it is not there, or refused. */
export function chooseAccount({ accounts, refused }: Fleet, name?: string): Config {
  const names = [...accounts, ...refused].map(({ account }) => account);
  const wanted = name ?? (names.length === 1 ? names[0]! : 'default');
  const wrong = refused.find(({ account }) => account === wanted);
  const chosen = accounts.find(({ account }) => account === wanted);
  if (chosen !== undefined) return chosen;
  if (wrong !== undefined) throw wrong.error;
  throw new UsageError(
    name === undefined ? 'there are several accounts, and none of them is named' : `there is no account '${name}'`,
    `Choose with --account: ${names.join(', ')}.`,
  );
}

/** The fleet, or of it the account of this name alone. Throws UsageError if it is not there. */
export function oneAccount(fleet: Fleet, name?: string): Fleet {
  if (name === undefined) return fleet;
  const is = (one: { account: string }) => one.account === name;
  if (!fleet.refused.some(is)) chooseAccount(fleet, name);
  return { ...fleet, accounts: fleet.accounts.filter(is), refused: fleet.refused.filter(is) };
}

function environmentOf(folder: string, environment: Environment): Given {
  const file = readEnvFile(folder);
  const values = Object.fromEntries(
    Object.entries(settings).map(([name, setting]) => {
      const value = environment[name] || file[name];
      const said = environment[name] ?? file[name];
      return [name, 'emptyIsValue' in setting ? said : value || undefined] as const;
    }),
  );
  const isOfEnvironment = (name: string) => environment[name] !== undefined && values[name] === environment[name];
  return {
    account: 'default',
    values,
    whereIs: name => (isOfEnvironment(name) ? 'the environment' : join(folder, '.env')),
    isNamed: () => false,
    whereTo: `in the environment or in ${join(folder, '.env')}`,
  };
}

/** What no account of a file has of its own. */
const isOfProcess = (name: string) => !('inFile' in settings[name]!);
const ofProcess = (given: Given): Given => ({
  ...given,
  values: Object.fromEntries(Object.entries(given.values).filter(([name]) => isOfProcess(name))),
});

/** An account of the file with what is of the process. As in the environment, an empty value is none. */
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

function demandSource(config: Config, { account, whereTo }: Given): void {
  if (sources.some(source => source.connect(config) !== undefined)) return;
  throw new UsageError(
    `account '${account}' has no source`,
    `Set ${sources.map(source => source.requires).join(', or ')}, ${whereTo}.`,
  );
}

/** Two accounts with one address and one token would spend one budget twice. A key may be shared: people split its quota. */
function demandApart(config: Config, others: readonly Config[], { account, whereTo }: Given): void {
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

type Values = ValuesOf<typeof ownSettings> & Readonly<Record<string, unknown>>;

/** What `doctor` looks at. */
export interface SettingsLook {
  /** All that is wrong with the plain variables, where `readConfig` throws the first. */
  readonly wrong: readonly UsageError[];
  /** Where database and queue are; undefined if that is among what is wrong. */
  readonly servers: Pick<Fleet, 'databaseUrl' | 'redisUrl'> | undefined;
  /** `.env` of the folder, if there is one. */
  readonly file: string | undefined;
  /** Names in it that are no settings; a file of accounts may refer to them. */
  readonly unknown: readonly string[];
  /** Values that must not be seen: to be searched for, never to be shown. */
  readonly secrets: readonly string[];
}

export function lookAtSettings(folder = process.cwd(), environment: Environment = process.env): SettingsLook {
  const plain = environmentOf(folder, environment);
  const file = join(folder, '.env');
  const secrets = Object.entries(settings).filter(([, setting]) => 'secret' in setting);
  const { wrong, value } = settle(plain);
  const { DATABASE_URL: databaseUrl, REDIS_URL: redisUrl } = value;
  return {
    wrong,
    servers: wrong.some(({ message }) => /^(DATABASE|REDIS)_URL /.test(message))
      ? undefined
      : { databaseUrl, redisUrl },
    file: existsSync(file) ? file : undefined,
    unknown: Object.keys(readEnvFile(folder)).filter(name => !Object.hasOwn(settings, name)),
    secrets: secrets.flatMap(([name]) => plain.values[name] ?? []),
  };
}

function valuesOf(given: Given): Values {
  const { value, wrong } = settle(given);
  if (wrong.length > 0) throw wrong[0]!;
  return value;
}

/** The value of each setting, its default in place of one that is wrong, and everything that is wrong. */
function settle(given: Given): { value: Values; wrong: readonly UsageError[] } {
  const shape = z.object(Object.fromEntries(Object.entries(settings).map(([name, { schema }]) => [name, schema])));
  const parsed = shape.safeParse(given.values);
  if (parsed.success) return { value: parsed.data as Values, wrong: contradictions(parsed.data as Values, given) };
  const issues = new Map<string, string>();
  for (const { path, message } of parsed.error.issues)
    if (!issues.has(String(path[0]))) issues.set(String(path[0]), message);
  const wrong = [...issues].map(([name, message]) => wrongSetting(name, message, given));
  const fine = Object.entries(given.values).filter(([name]) => !issues.has(name));
  const value = shape.parse(Object.fromEntries(fine)) as Values;
  // What another one misses is there, if it is one of the wrong ones.
  const others = contradictions(value, given).filter(
    ({ message }) => ![...issues.keys()].some(one => message.includes(one)),
  );
  return { value, wrong: [...wrong, ...others] };
}

/** Settings that are right each by itself, and not together. */
function contradictions(value: Values, given: Given): UsageError[] {
  const found = sources.flatMap(source => source.contradictions(value, given));
  if (value.SHELFDESK_WEB_TOKEN !== undefined && value.SHELFDESK_WEB_TOKEN === value.SHELFDESK_WEB_VIEWER_TOKEN) {
    found.push(
      new UsageError(
        'SHELFDESK_WEB_TOKEN and SHELFDESK_WEB_VIEWER_TOKEN are the same, so that every viewer would be an operator',
        'Give the viewers a token of their own.',
      ),
    );
  }
  return found;
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
    sweep: { ageMs: value.SWEEP_AGE_DAYS * dayMs, mostDeleted: value.SWEEP_MOST_DELETED_PERCENT / 100 },
    schedule: {
      fresh: value.SCHEDULE_FRESH,
      nightly: value.SCHEDULE_NIGHTLY,
      timeZone: value.SCHEDULE_TIME_ZONE,
    },
    promises: { targets: value.FRESHNESS_TARGETS, nightlyMs: value.NIGHTLY_WITHIN_HOURS * hourMs },
    alarm: value.ALARM_WEBHOOK_URL && { url: value.ALARM_WEBHOOK_URL, format: value.ALARM_FORMAT },
    logLevel: value.LOG_LEVEL,
  };
}

const dayMs = 24 * 3_600_000;
const hourMs = 3_600_000;

function wrongSetting(name: string, message: string, given: Given): UsageError {
  const setting = settings[name]!;
  const remedy = `Change it in ${given.whereIs(name)}. ${setting.says}`;
  if (setting.secret) return new UsageError(`${name} ${lowerFirst(message)}`, remedy);
  // Nor is what the message has of it: two references may have been mixed up.
  if (given.isNamed(name))
    return new UsageError(`${name} cannot be what it is to come from, which is not shown`, remedy);
  return new UsageError(`${name} ${lowerFirst(message)} (it is "${given.values[name]}")`, remedy);
}

const lowerFirst = (text: string) => text.charAt(0).toLowerCase() + text.slice(1);

/** Whether this process was started by `npx`: through a shell that does not pass signals on. */
export const startedByNpx = (): boolean => process.env.npm_command === 'exec';

function readEnvFile(folder: string): Record<string, string | undefined> {
  const file = join(folder, '.env');
  if (!existsSync(file)) return {};
  return parseEnv(readFileSync(file, 'utf8'));
}
