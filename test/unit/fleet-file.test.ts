/** The file with many accounts: what is taken, and what is refused with which words. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import { chooseAccount, type Fleet, oneAccount, readConfig, readFleet } from '../../src/app/config.ts';
import { settings } from '../../src/app/settings.ts';
import { exitCodes, UsageError } from '../../src/errors.ts';

/** A folder with `fleet.yml`, and with files of secrets. */
async function folderWith(fleet: string, others: Record<string, string> = {}): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'shelfdesk-fleet-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const [name, text] of Object.entries({ 'fleet.yml': fleet, ...others }))
    await writeFile(join(folder, name), text);
  return folder;
}

const named = { SHELFDESK_CONFIG: 'fleet.yml' };

async function read(text: string, environment: Record<string, string> = {}, others = {}): Promise<Fleet> {
  return readFleet(await folderWith(text, others), { ...named, TOKEN: 'hush-hush', ...environment });
}

function thrown(action: () => unknown): UsageError {
  try {
    action();
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    expect(inspect(error, { depth: 9 })).not.toContain('hush-hush');
    return error as UsageError;
  }
  throw new Error('it was accepted');
}

const refusalOf = async (text: string, environment: Record<string, string> = {}) => {
  const folder = await folderWith(text);
  return { folder, ...pick(thrown(() => readFleet(folder, { ...named, TOKEN: 'hush-hush', ...environment }))) };
};
const pick = ({ message, remedy, exitCode }: UsageError) => ({ message, remedy, exitCode });

const desk = (name: string) => `
    HELPDESK_BASE_URL: https://${name}.example/api/v1
    HELPDESK_TOKEN: { env: TOKEN }`;

describe('what is taken', () => {
  test('the value of a reference under the wrong setting is not shown', async () => {
    const text = `accounts:
  acme:
    HELPDESK_BASE_URL: https://acme.example/api/v1
    HELPDESK_TOKEN: { env: OTHER }
    HELPDESK_CREDITS: { env: TOKEN }
  bolt:${desk('bolt')}
    FRESHNESS_TARGETS: { env: TOKEN }`;
    const { refused } = await read(text, { OTHER: '100' });
    expect(refused.map(({ account }) => account)).toEqual(['acme', 'bolt']);
    for (const { error } of refused) {
      expect(error.message).toMatch(/^[A-Z_]+ has an invalid value \(hidden, because it is a reference\)$/);
      expect(inspect(error, { depth: 9 })).not.toContain('hush-hush');
    }
  });

  test('accounts in their order, with what they have in common, and secrets from where they are', async () => {
    const fleet = await read(
      `defaults: { HELPDESK_RESERVE: 20, SCHEDULE_FRESH: '' }
accounts:
  bolt:
    HELPDESK_BASE_URL: https://bolt.example/api/v1
    HELPDESK_TOKEN: { file: bolt-token }
    HELPDESK_RESERVE: 5
  acme:${desk('acme')}
    HELPDESK_SINCE: 2024-01-01
    BOOKS_BASE_URL: https://books.example/books/v1
    BOOKS_USERS: 115082923654732712345
    BOOKS_LIBRARY: false
`,
      { DATABASE_URL: 'postgres://db.example/warehouse', LOG_LEVEL: 'error' },
      { 'bolt-token': 'bolt-secret\n' },
    );
    const [bolt, acme] = fleet.accounts;
    expect(fleet.accounts.map(({ account }) => account)).toEqual(['bolt', 'acme']);
    expect(fleet).toMatchObject({
      databaseUrl: 'postgres://db.example/warehouse',
      redisUrl: undefined,
      logLevel: 'error',
    });
    expect(bolt!.helpdesk).toEqual({ baseUrl: new URL('https://bolt.example/api/v1'), token: 'bolt-secret' });
    expect([bolt!.limits.reserve, acme!.limits.reserve]).toEqual([5, 20]);
    expect(acme!.helpdesk!.token).toBe('hush-hush');
    expect(acme!.sinceMs).toBe(Date.UTC(2024, 0, 1));
    // As a number it would be another one.
    expect(acme!.books!.users).toEqual(['115082923654732712345']);
    expect(acme!.schedule).toEqual({ fresh: '', nightly: '0 2 * * *', timeZone: 'UTC' });
    expect([acme!.databaseUrl, acme!.logLevel]).toEqual([fleet.databaseUrl, 'error']);
    expect(fleet.refused).toEqual([]);
    expect(fleet.files.map(path => path.replace(/^.*\//, ''))).toEqual(['fleet.yml', 'bolt-token']);
  });

  test('JSON, and what YAML may say twice', async () => {
    const json = {
      accounts: { acme: { HELPDESK_BASE_URL: 'https://a.example/api/v1', HELPDESK_TOKEN: { env: 'TOKEN' } } },
    };
    expect((await read(JSON.stringify(json))).accounts[0]!.helpdesk!.token).toBe('hush-hush');
    const twice = `accounts:
  a: { HELPDESK_BASE_URL: https://a.example/api/v1, HELPDESK_TOKEN: &it { env: TOKEN } }
  b: { HELPDESK_BASE_URL: https://b.example/api/v1, HELPDESK_TOKEN: *it }`;
    expect((await read(twice)).accounts.map(({ helpdesk }) => helpdesk!.token)).toEqual(['hush-hush', 'hush-hush']);
  });

  test('without a file, the one account of the plain variables, configured or not', () => {
    const nowhere = join(tmpdir(), 'shelfdesk-fleet-nowhere');
    expect(readFleet(nowhere, {}).accounts).toEqual([readConfig(nowhere, {})]);
    expect(readFleet(nowhere, {})).toMatchObject({ refused: [], files: [] });
    expect(thrown(() => readFleet(nowhere, { LOG_LEVEL: 'loud' })).message).toContain('LOG_LEVEL');
  });

  test('the plain variables are the account default, if they name a source, and nobody else has them', async () => {
    const plain = { HELPDESK_CREDITS: '400', HELPDESK_TOKEN: 'plain', SCHEDULE_NIGHTLY: '' };
    const without = await read(
      `accounts: { acme: {${desk('acme').replaceAll('\n', ' ').replace(' HELPDESK_T', ', HELPDESK_T')} } }`,
      plain,
    );
    expect(without.accounts.map(({ account }) => account)).toEqual(['acme']);
    const both = await read(`accounts:\n  acme:${desk('acme')}`, {
      ...plain,
      HELPDESK_BASE_URL: 'https://d.example/api/v1',
    });
    const [first, acme] = both.accounts;
    expect(first).toMatchObject({ account: 'default', helpdesk: { token: 'plain' }, limits: { credits: 400 } });
    expect(acme).toMatchObject({ account: 'acme', limits: { credits: 100 }, schedule: { nightly: '0 2 * * *' } });
  });

  test('variables also from .env, and an empty one is none', async () => {
    const text = `accounts:\n  acme:${desk('acme')}`;
    const folder = await folderWith(text, { '.env': 'TOKEN=from-env-file\nSHELFDESK_CONFIG=fleet.yml\n' });
    expect(readFleet(folder, { TOKEN: '' }).accounts[0]!.helpdesk!.token).toBe('from-env-file');
  });
});

describe('what is wrong with the file stops all: what, where, what to do', () => {
  test.for<[text: string, message: string, remedy: string]>([
    [
      'accounts:\n  acme:\n\tHELPDESK_TOKEN: hush-hush\n',
      'line 3 of FILE is not valid YAML: tab as indent',
      'Correct the file.',
    ],
    [
      'accounts:\n  a: {}\n  a: { HELPDESK_TOKEN: hush-hush }\n',
      'line 3 of FILE is not valid YAML: duplicate key',
      'Correct the file',
    ],
    ['accounts: { a: { HELPDESK_TOKEN: hush-hush }', 'of FILE is not valid YAML', 'Correct the file.'],
    ['', 'FILE is empty', 'The file needs `accounts:`'],
    ['- hush-hush\n', 'FILE (line 1 of FILE) is not a mapping', 'The file needs `accounts:`'],
    ['accounts:\n', 'accounts (line 1 of FILE) is not a mapping', 'The file needs `accounts:`'],
    ['accounts: {}\n', 'FILE names no accounts', 'The file needs `accounts:`'],
    [
      'acme: { HELPDESK_TOKEN: hush-hush }\n',
      'acme (line 1 of FILE) is neither defaults nor accounts',
      'The file needs',
    ],
    [
      'defaults:\n  HELPDESK_TOKN: hush-hush\naccounts: { a: {} }\n',
      'HELPDESK_TOKN (line 2 of FILE) is not a setting',
      'README',
    ],
  ])('%j', async ([text, message, remedy]) => {
    const error = await refusalOf(text);
    expect(error.message).toContain(message.replaceAll('FILE', join(error.folder, 'fleet.yml')));
    expect(error.remedy).toContain(remedy);
    expect(error.exitCode).toBe(exitCodes.usage);
  });

  test('a file that is not there, and a wrong setting of the whole process', async () => {
    const folder = await folderWith('accounts: { a: {} }');
    const error = thrown(() => readFleet(folder, { SHELFDESK_CONFIG: 'other.yml' }));
    expect(error.message).toBe(`SHELFDESK_CONFIG names ${join(folder, 'other.yml')}, which cannot be read (ENOENT)`);
    expect(thrown(() => readFleet(folder, { ...named, REDIS_URL: 'hush-hush' })).message).toMatch(/^REDIS_URL must be/);
  });
});

describe('what is wrong with one account stops this one alone', () => {
  test.for<[account: string, message: string, remedy: string]>([
    ['Acme: {}', "'Acme' (line 3 of FILE) is not a valid account name", 'small letters'],
    [`${'a'.repeat(64)}: {}`, 'is not a valid account name', 'Use up to 63 small letters'],
    ['x:', "account 'x' (line 3 of FILE) is not a mapping", 'settings of each account below its name'],
    ['x: {}', "account 'x' has no source", "for account 'x' (line 3 of FILE)"],
    ['x:\n    HELPDESK_TOKEN: hush-hush', 'HELPDESK_TOKEN (line 4 of FILE) is a secret', '{ env: NAME }'],
    ['x: { BOOKS_API_KEY: [hush-hush] }', 'BOOKS_API_KEY (line 3 of FILE) is neither', '{ file: path }'],
    ['x: { HELPDESK_TOKEN: { variable: hush-hush } }', 'HELPDESK_TOKEN (line 3 of FILE) is neither', '{ env: NAME }'],
    ['x: { HELPDESK_TOKEN: { env: TOKEN, file: y } }', 'HELPDESK_TOKEN (line 3 of FILE) is neither', '{ env: NAME }'],
    ['x: { HELPDESK_TOKEN: { env: NOBODY } }', 'refers to NOBODY, which is not set', 'Set NOBODY.'],
    ['x: { HELPDESK_TOKEN: { file: nothing } }', 'nothing, which cannot be read (ENOENT)', 'Name an existing file'],
    ['x: { HELPDESK_TOKEN: { file: empty } }', 'empty is empty, but HELPDESK_TOKEN', 'Write the value into the file.'],
    ['x: { HELPDESK_COLOUR: blue }', 'HELPDESK_COLOUR (line 3 of FILE) is not a setting', 'README.md'],
    [
      'x: { DATABASE_URL: hush-hush }',
      'DATABASE_URL (line 3 of FILE) belongs to the whole process',
      'in the environment',
    ],
    [
      'x: { SHELFDESK_CONFIG: other.yml }',
      'SHELFDESK_CONFIG (line 3 of FILE) belongs to the whole process',
      'in the env',
    ],
    ['x:\n    HELPDESK_CREDITS: many', 'HELPDESK_CREDITS must be a whole number', 'Change it in line 4 of FILE.'],
    ['x: { HELPDESK_TOKEN: { env: TOKEN } }', 'HELPDESK_BASE_URL is not set', "for account 'x' (line 3 of FILE)"],
    [
      'x: { HELPDESK_BASE_URL: https://good.example/api/v1/, HELPDESK_TOKEN: { env: TOKEN } }',
      "account 'x' has the address and the token of account 'good'",
      'Take one of them away',
    ],
  ])('%s', async ([account, message, remedy]) => {
    const folder = await folderWith(
      `accounts:\n  good: { HELPDESK_BASE_URL: https://good.example/api/v1, HELPDESK_TOKEN: { env: TOKEN } }\n  ${account}\n`,
      { empty: ' \n' },
    );
    const fleet = readFleet(folder, { ...named, TOKEN: 'hush-hush' });
    expect(fleet.accounts.map(({ account }) => account)).toEqual(['good']);
    const [{ account: name, error }] = fleet.refused as [Fleet['refused'][number]];
    expect(account.startsWith(`${name}:`)).toBe(true);
    const path = join(folder, 'fleet.yml');
    expect(error.message).toContain(message.replaceAll('FILE', path));
    expect(error.remedy).toContain(remedy.replaceAll('FILE', path));
    expect(inspect(error, { depth: 9 })).not.toContain('hush-hush');
    expect(thrown(() => chooseAccount(fleet, name))).toBe(error);
  });

  test('the account default twice, and one library under two names', async () => {
    const fleet = await read(`accounts:\n  default:${desk('other')}`, {
      HELPDESK_BASE_URL: 'https://d.example/api/v1',
      HELPDESK_TOKEN: 'plain',
    });
    expect(fleet.refused.map(({ error }) => error.message)).toEqual([
      expect.stringContaining("are the account 'default'"),
    ]);
    const books = '{ BOOKS_BASE_URL: https://b.example/books/v1, BOOKS_ACCESS_TOKEN: { env: TOKEN } }';
    const twice = await read(`accounts:\n  a: ${books}\n  b: ${books}\n`);
    expect(twice.refused.map(({ error }) => error.message)).toEqual([expect.stringContaining('spend the same quota')]);
    const shared = (user: string) =>
      `{ BOOKS_BASE_URL: https://b.example/books/v1, BOOKS_API_KEY: { env: TOKEN }, BOOKS_USERS: ${user} }`;
    expect((await read(`accounts:\n  a: ${shared('ada')}\n  b: ${shared('ben')}\n`)).refused).toEqual([]);
  });
});

describe('which account a command works on', () => {
  const three = `accounts:\n  a:${desk('a')}\n  b:${desk('b')}\n  c: {}\n`;
  const plain = { HELPDESK_BASE_URL: 'https://d.example/api/v1', HELPDESK_TOKEN: 'plain' };

  test('the one that is named, the only one, or default', async () => {
    expect(chooseAccount(await read(three), 'b').account).toBe('b');
    expect(chooseAccount(await read(`accounts:\n  a:${desk('a')}`)).account).toBe('a');
    expect(chooseAccount(await read(three, plain)).account).toBe('default');
  });

  test('else it is said which there are', async () => {
    const fleet = await read(three);
    expect(pick(thrown(() => chooseAccount(fleet)))).toEqual({
      message: 'several accounts exist and none was chosen',
      remedy: 'Choose with --account: a, b, c.',
      exitCode: exitCodes.usage,
    });
    for (const choose of [chooseAccount, oneAccount])
      expect(thrown(() => choose(fleet, 'z')).message).toBe("there is no account 'z'");
  });

  test('of the fleet it leaves this one alone, also where it is refused', async () => {
    const fleet = await read(three);
    const left = ({ accounts, refused }: Fleet) => [accounts, refused].map(list => list.map(({ account }) => account));
    expect(left(oneAccount(fleet))).toEqual([['a', 'b'], ['c']]);
    expect(left(oneAccount(fleet, 'b'))).toEqual([['b'], []]);
    expect(left(oneAccount(fleet, 'c'))).toEqual([[], ['c']]);
  });
});

test('what lets people in is a reference in the file, and what is of the process is not in it', () => {
  const of = (kind: 'onlyByReference' | 'ofProcess') => Object.keys(settings).filter(name => settings[name]![kind]);
  expect(of('onlyByReference')).toEqual([
    'HELPDESK_TOKEN',
    'BOOKS_API_KEY',
    'BOOKS_ACCESS_TOKEN',
    'BOOKS_CLIENT_SECRET',
    'BOOKS_REFRESH_TOKEN',
    'FIELD_RULES_KEY',
    'ALARM_WEBHOOK_URL',
    'HANDOFF_WEBHOOK_URL',
    'HANDOFF_SECRET',
  ]);
  expect(of('ofProcess').filter(name => !/^(SHELFDESK|ALARM|LAKE)_/.test(name))).toEqual([
    'DATABASE_URL',
    'REDIS_URL',
    'HTTPS_PROXY',
    'HTTP_PROXY',
    'NO_PROXY',
    'SCHEDULE_LAKE',
    'LOG_LEVEL',
  ]);
});
