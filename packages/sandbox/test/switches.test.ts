import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { afterAll, describe, expect, test, vi } from 'vitest';
import type { Act, Deps } from '../../../src/cli/command.ts';
import { addSandbox } from '../../../src/cli/setup/sandbox.ts';
import { Rules } from '../src/admission/rules.ts';
import type { Setting, Status } from '../src/page/status.ts';
import { defaultOf, readWord, SWITCHES, type Switch, settled, wordFor } from '../src/switches.ts';

const rows: readonly Switch[] = Object.values(SWITCHES).flat();

/** A word that is not the default of a switch. */
function otherWord(row: Switch): string {
  if ('values' in row) return Object.keys(row.values).find(word => word !== row.default)!;
  return 'of' in row ? row.of.join(',') : String(Math.max(row.least ?? 1, 7));
}

/** The command in this process, until it says that it serves; then `look` at it, and Ctrl-C. */
async function sandbox(
  args: string[],
  look: (printed: { url: string; admin_url?: string }) => Promise<void> = async () => {},
) {
  const controller = new AbortController();
  const looked = Promise.withResolvers<void>();
  let printed = '';
  const stdout = vi.spyOn(process.stdout, 'write').mockImplementation(text => {
    printed += text;
    return true;
  });
  const stderr = vi.spyOn(process.stderr, 'write').mockImplementation(text => {
    if (String(text).includes('Ctrl-C ends')) {
      // Behind this line the command begins to wait.
      queueMicrotask(() =>
        look(JSON.parse(printed))
          .then(looked.resolve, looked.reject)
          .finally(() => controller.abort()),
      );
    }
    return true;
  });
  const program = new Command().exitOverride();
  const act: Act =
    action =>
    async (...given) =>
      void (await action(...given));
  addSandbox(program, { signal: controller.signal } as Deps, act);
  try {
    await program.parseAsync(['sandbox', '--port', '0', '--tickets', '3', '--json', ...args], { from: 'user' });
    await looked.promise;
  } finally {
    stdout.mockRestore();
    stderr.mockRestore();
  }
}

const json = async (url: string): Promise<unknown> => (await fetch(url)).json();

describe('the table', () => {
  test.each(rows.map(row => [row.flag, row] as const))(
    '%s has a default among its values, and words for them',
    (_, row) => {
      if ('values' in row) expect(Object.keys(row.values)).toContain(row.default);
      expect(readWord(row, wordFor(row, defaultOf(row)))).toEqual(defaultOf(row));
      expect(readWord(row, otherWord(row))).not.toEqual(defaultOf(row));
      expect(() => readWord(row, 'perhaps')).toThrow(/^It must be /);
      expect(row.says).toMatch(/^[a-z`][^.]*[^.]$/);
    },
  );

  test('has each option of a service once, and each flag once', () => {
    for (const half of Object.values(SWITCHES)) {
      expect(new Set(half.map(({ name }) => name)).size).toBe(half.length);
    }
    expect(new Set(rows.map(({ flag }) => flag)).size).toBe(rows.length);
  });

  test('settles what is not given by default, and keeps what is', () => {
    const given = settled('helpdesk', { sinceInclusive: false, credits: 0 });
    expect(given).toMatchObject({ sinceInclusive: false, credits: 0, spamListed: true, depth: 10_000, quietly: [] });
  });
});

describe('the command line', () => {
  test('every switch reaches its service', async () => {
    const words = new Map(rows.map(row => [row.flag, otherWord(row)]));
    await sandbox([...words].flat(), async ({ url }) => {
      const { helpdesk, books } = (await json(new URL('/status.json', url).href)) as Status;
      const shown = [...helpdesk.settings, ...books.settings].map(({ flag, value }: Setting) => [flag, value]);
      expect(shown).toEqual([...words]);
    });
  });

  test('rules, tokens and the admin port', async () => {
    const rules = [{ id: 'down', path: '/users', fault: { kind: 'status', status: 503 } }];
    writeFileSync(join(folder, 'rules.json'), JSON.stringify(rules));
    const args = ['--faults', join(folder, 'rules.json'), '--token', 'a', '--token', 'b', '--blocked-token', 'c'];
    await sandbox([...args, '--admin-port', '0', '--customers', '5'], async ({ url, admin_url }) => {
      const as = async (token: string) => {
        const reply = await fetch(`${url}/users`, { headers: { authorization: `Bearer ${token}` } });
        return reply.status;
      };
      expect([await as('a'), await as('b'), await as('c'), await as('d')]).toEqual([503, 503, 403, 401]);
      expect(await json(`${admin_url}/faults`)).toMatchObject([{ rule: rules[0], fired: 2 }]);
    });
  });

  test('the clock begins when it is told to', async () => {
    await sandbox(['--begin', '2020-02-29T23:00:00+01:00', '--admin-port', '0'], async ({ url, admin_url }) => {
      expect((await fetch(url)).headers.get('date')).toMatch(/^Sat, 29 Feb 2020 22:00:/);
      const tickets = await (await fetch(`${admin_url}/truth/tickets`)).text();
      expect(tickets).toMatch(/"updated_at":"20(1[6-9]|20)-/);
      expect(tickets).not.toMatch(/"updated_at":"202[1-9]-/);
    });
  });

  const npmrc = new URL('../../../.npmrc', import.meta.url).pathname;
  const list = new URL('../../../package.json', import.meta.url).pathname;

  test.each<[args: string[], says: string]>([
    [['--since', 'perhaps'], 'It must be one of inclusive, exclusive.'],
    [['--quiet', 'note,mail'], 'It must be some of reply, note, labels,'],
    [['--period', '0'], 'It must be a whole number of seconds, 1 or more.'],
    [['--total-count-cap', 'many'], 'It must be a whole number of records, 0 or more or "unlimited".'],
    [['--naughty', '2'], 'It must be a share between 0 and 1'],
    ...['now', '2024-05-01', '2024-05-01T12:00:00', '2024-02-30T12:00:00Z', '1979-12-31T23:59:59Z'].map(
      (time): [string[], string] => [['--begin', time], 'It must be a time from 1980 on, with its zone'],
    ),
    [['--faults', '/not/there.json'], '--faults /not/there.json cannot be read: ENOENT'],
    [['--faults', npmrc], 'It is not JSON'],
    [['--faults', list], 'They have to be a list'],
    ...['--token', '--blocked-token', '--books-key', '--books-token'].map((flag): [string[], string] => [
      [flag, ''],
      'It must be one or more printable ASCII characters, without spaces.',
    ]),
    [['--token', 'a', '--token', 'b', '--blocked-token', 'b'], 'The token b is both accepted and blocked'],
    [['--token', 'sandbox-blocked-token'], 'The token sandbox-blocked-token is both accepted and blocked'],
    [['--blocked-token', 'sandbox-token'], 'The token sandbox-token is both accepted and blocked'],
    [['--port', '65536'], 'It must be the number of a port, 0 to 65535.'],
    [['--admin-port', '-1'], 'It must be the number of a port, 0 to 65535.'],
    [['--host', '203.0.113.1'], 'the sandbox does not start: '],
    [['--cert', '/not/there.pem'], 'HTTPS needs both a certificate and its key'],
    [['--cert', list, '--key', list], `--cert ${list} and --key ${list}: `],
  ])('%o is wrong usage', async (args, says) => {
    await expect(sandbox(args)).rejects.toMatchObject({
      message: expect.stringContaining(says),
      exitCode: expect.any(Number),
    });
  });
});

test('only an address that cannot be had is blamed on the options', async () => {
  await sandbox([], async ({ url }) => {
    const taken = [new URL(url).port, '--admin-port', '0'];
    await expect(sandbox(['--port', ...taken])).rejects.toMatchObject({
      message: expect.stringContaining('EADDRINUSE'),
      remedy: expect.stringContaining('Choose another --port'),
      exitCode: 2,
    });
  });
  const mistake = new RangeError('a mistake');
  const failing = vi.spyOn(Rules.prototype, 'watch').mockImplementationOnce(() => {
    throw mistake;
  });
  await expect(sandbox([])).rejects.toBe(mistake);
  failing.mockRestore();
});

const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-switches-'));
afterAll(() => rmSync(folder, { recursive: true }));
