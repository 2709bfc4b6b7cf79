/** `.env` and the other files that people write: read as meant, or refused with the line and the reason. */
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { lookAtSettings, readConfig, readFleet, typosIn } from '../../src/app/config.ts';
import { requireSource } from '../../src/app/context.ts';
import { parseEnvText } from '../../src/app/files/env-file.ts';
import { exitCodes, UsageError } from '../../src/errors.ts';

async function folderWith(files: Record<string, string | Buffer>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'shelfdesk-env-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return folder;
}

function refusal(action: () => unknown, folder: string): string {
  try {
    action();
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    const { message, remedy, exitCode } = error as UsageError;
    expect([exitCode, remedy]).toEqual([exitCodes.usage, expect.stringMatching(/\w/)]);
    expect(message + remedy).not.toContain('hush');
    return message.replaceAll(folder, '');
  }
  throw new Error('it was accepted');
}

const credits = 'HELPDESK_CREDITS=77\nLOG_LEVEL=warn\n';
const utf16 = (text: string) => Buffer.from(`\ufeff${text}`, 'utf16le');

describe('a file in another form', () => {
  test.each<[name: string, content: string | Buffer]>([
    ['with a byte order mark', `\ufeff${credits}`],
    ['with line ends of Windows', credits.replaceAll('\n', '\r\n')],
    ['with line ends of old', credits.replaceAll('\n', '\r')],
    ['without an end', credits.trimEnd()],
  ])('%s is read as it was meant', async (_, content) => {
    const { limits, logLevel } = readConfig(await folderWith({ '.env': content }), {});
    expect([limits.credits, logLevel]).toEqual([77, 'warn']);
  });

  test.each<[content: Buffer, message: string]>([
    [utf16(credits), '/.env is UTF-16, not UTF-8'],
    [utf16(credits).swap16(), '/.env is UTF-16, not UTF-8'],
    [Buffer.from(credits, 'utf16le'), 'line 1 of /.env has a NUL byte: it is no UTF-8 text'],
    [Buffer.from(`${credits}A=\0\n`), 'line 3 of /.env has a NUL byte: it is no UTF-8 text'],
    [Buffer.from(`${credits}# für uns\nB=hush\n`, 'latin1'), 'line 3 of /.env is no UTF-8 text'],
    [Buffer.from(`${credits}\ufeffA=hush\n`), 'line 3 of /.env is not NAME=value'],
  ])('%# is refused', async (content, message) => {
    const folder = await folderWith({ '.env': content });
    expect(refusal(() => readConfig(folder, {}), folder)).toBe(message);
  });

  test('the accounts file, and a file with a secret', async () => {
    const fleet =
      'accounts:\n  acme:\n    HELPDESK_BASE_URL: https://desk.example/api/v1\n    HELPDESK_TOKEN: { file: token }\n';
    const read = (folder: string) => () => readFleet(folder, { SHELFDESK_CONFIG: 'fleet.yml' });
    const marked = await folderWith({ 'fleet.yml': `\ufeff${fleet}`, token: '\ufeffhush-hush\r\n' });
    expect(read(marked)().accounts[0]!.helpdesk!.token).toBe('hush-hush');
    const wide = await folderWith({ 'fleet.yml': utf16(fleet) });
    expect(refusal(read(wide), wide)).toBe('/fleet.yml is UTF-16, not UTF-8');
    const secret = await folderWith({ 'fleet.yml': fleet, token: utf16('hush-hush') });
    expect(read(secret)().refused.map(({ error }) => error.message.replace(secret, ''))).toEqual([
      '/token is UTF-16, not UTF-8',
    ]);
  });

  test('a folder in place of the file, and a link to nothing', async () => {
    const folder = await folderWith({});
    expect(readConfig(folder, {}).logLevel).toBe(readConfig(folder, { LOG_LEVEL: '' }).logLevel);
    await symlink('not-there', join(folder, '.env'));
    expect(refusal(() => readConfig(folder, {}), folder)).toBe('/.env cannot be read (ENOENT)');
    await rm(join(folder, '.env'));
    await mkdir(join(folder, '.env'));
    expect(refusal(() => readConfig(folder, {}), folder)).toBe('/.env is a folder, not a file');
  });
});

describe('a line', () => {
  test.each<[text: string, message: string]>([
    ['LOG_LEVEL=info\nHELPDESK_TOKEN hush\n', 'line 2 of .env is not NAME=value'],
    ['HELPDESK_TOKEN: hush\n', 'line 1 of .env is not NAME=value'],
    ['\u00a0HELPDESK_TOKEN=hush\n', 'line 1 of .env is not NAME=value'],
    ['HELPDESK_TOKEN="hush\nLOG_LEVEL=info\n', 'line 1 of .env opens a quote for HELPDESK_TOKEN that nothing closes'],
    [
      '#\nHELPDESK_TOKEN="hush\nLOG_LEVEL=info\nA="hush"\n',
      'line 2 of .env opens a quote for HELPDESK_TOKEN that ends after LOG_LEVEL',
    ],
    ['A="hu"sh"\n', 'line 1 of .env opens a quote for A that ends before the value does'],
    ['A=1\n\nexport A=hush\n', 'line 3 of .env sets A again: line 1 sets it too'],
    ['A=hush#hush\n', 'line 1 of .env has a # in the value of A, which begins a comment there'],
    ['A=#hush\n', 'line 1 of .env has a # in the value of A, which begins a comment there'],
    ['A=“hush”\n', 'line 1 of .env opens the value of A with a typographic quote, which is no quote here'],
  ])('%j is refused', (text, message) => {
    expect(refusal(() => parseEnvText(text, '.env', name => name === 'LOG_LEVEL'), '')).toBe(message);
  });

  test('whatever is not refused is read as Node reads it', () => {
    const piece = fc.constantFrom('A', 'B', '=', '"', "'", '`', '#', ' ', '\n', '\\n', 'export ', 'x', '\t', '.', 'é');
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 14 }), pieces => {
        const text = pieces.join('');
        let read: Record<string, string>;
        try {
          read = parseEnvText(text, '.env', () => false);
        } catch (error) {
          if (error instanceof UsageError) return;
          throw error;
        }
        // Node takes a comment behind a tab for a name, and keeps `export` where a last line ends with its equals sign.
        const names = Object.entries(parseEnv(text)).filter(([name]) => !name.startsWith('#'));
        expect(read).toEqual(Object.fromEntries(names.map(([name, value]) => [name.replace(/^export\s+/, ''), value])));
      }),
      {
        numRuns: 3000,
        examples: [
          [['A', '=', '\n', '\t', '#', '=']],
          [['export ', 'A', '=']],
          [['export ', ' ', 'A', '=']],
          [['A', '=', '"', '\\n', '\n', '"', ' ', '#', '\n', 'export ', 'B', ' ', '=', ' ', 'x', ' ']],
        ],
      },
    );
  });

  test('the example is read', async () => {
    const example = (await readFile(new URL('../../.env.example', import.meta.url), 'utf8')).replaceAll(
      /^#(?=[A-Z0-9_]+=)/gm,
      '',
    );
    expect(parseEnvText(example, '.env.example', () => true)).toEqual({ ...parseEnv(example) });
  });
});

test('doctor names a file that cannot be read, and opens no other database in its place', async () => {
  const folder = await folderWith({ '.env': utf16('DATABASE_URL=postgres://db.example/warehouse\n') });
  const look = lookAtSettings(folder, {});
  expect([look.wrong.map(({ message }) => message), look.servers]).toEqual([
    [`${join(folder, '.env')} is UTF-16, not UTF-8`],
    undefined,
  ]);
});

test('a misspelt setting is named, with the one that it may mean', async () => {
  const said = async (text: string, environment = {}) => typosIn(await folderWith({ '.env': text }), environment);
  expect(await said('HELPDESK_TOKN=hush\nDATABASE_UR=hush\nPGPASSWORD=hush\n')).toBe(
    '.env sets HELPDESK_TOKN, which is no setting: is it HELPDESK_TOKEN? .env sets DATABASE_UR, which is no setting: is it DATABASE_URL?',
  );
  const folder = await folderWith({ '.env': 'HELPDESK_TOKN=hush\n' });
  vi.spyOn(process, 'cwd').mockReturnValue(folder);
  onTestFinished(() => void vi.restoreAllMocks());
  expect(() => requireSource(readConfig(folder, {}))).toThrow(
    expect.objectContaining({ remedy: expect.stringContaining('.env sets HELPDESK_TOKN, which is no setting') }),
  );
  // Another program may have such a name, and an accounts file gives its own.
  expect(await said('HELPDESK_TOKEN=hush\nHELPDESK_TOKEN2=hush\n')).toBe('');
  expect(await said('HELPDESK_TOKEN2=hush\n', { SHELFDESK_CONFIG: 'fleet.yml' })).toBe('');
});
