/**
 * The commands as people run them: what is asserted is what a shell sees, stdout, stderr and the exit code, with a real sandbox and a
 * real database. What concerns the process itself is seen of a process.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseEnv, promisify } from 'node:util';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, type TestContext, test, vi } from 'vitest';
import type { Sandbox, SandboxOptions } from '../../packages/sandbox/src/server.ts';
import { settingsFor, shelfdesk } from '../support/cli.ts';
import { someFolder } from '../support/examined.ts';
import { removeServer } from '../support/global.ts';
import { here, ran } from '../support/here.ts';
import { long } from '../support/long.ts';
import { openSandbox } from '../support/open-sandbox.ts';
import { emptyDatabase, freshDatabase } from '../support/postgres.ts';

/** How many tickets the help desk of a demo has, where fewer will do. */
const few = vi.hoisted(() => ({ tickets: undefined as number | undefined }));
vi.mock('@shelfdesk/sandbox', async load => {
  const real = await load<typeof import('@shelfdesk/sandbox')>();
  const startSandbox: typeof real.startSandbox = options =>
    real.startSandbox({ ...options, ...(few.tickets !== undefined && { tickets: few.tickets }) });
  return { ...real, startSandbox };
});

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

async function withSandbox(options: SandboxOptions): Promise<Sandbox> {
  const sandbox = await openSandbox(options);
  onTestFinished(() => sandbox.close());
  return sandbox;
}

/** A folder in which user `postgres` may live. Its name is the one that the next test run clears up. */
async function serverFolder(atEnd: (undo: () => Promise<void>) => void): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `shelfdesk-tests-${process.pid}-`));
  await chmod(folder, 0o755);
  atEnd(async () => {
    for (const name of ['postgres', 'demo']) await removeServer(join(folder, '.shelfdesk', name)).catch(() => {});
    await rm(folder, { recursive: true });
  });
  return folder;
}

const streams = ['users', 'customers', 'tickets', 'messages'];
const details = (sandbox: Sandbox) => sandbox.requests.filter(({ path }) => path.startsWith('/tickets/'));

/** What the README shows of the demo: statements, and their answers. */
async function shownOfDemo(): Promise<[statement: string, answer: string][]> {
  const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8');
  const asked = [
    ...readme.matchAll(/^\$ npx shelfdesk sql "(.+)"\n([\s\S]*?)^```$/gm),
    ...readme.matchAll(/^```sql\n([\s\S]*?)^```\n\n```text\n([\s\S]*?)^```$/gm),
  ];
  return asked.map(([, statement, answer]) => [statement!, answer!]);
}

/** Times are those of the day, and so is a median of minutes. */
const masked = (text: string): string =>
  text
    .replaceAll(/\d{4}-\d\d-\d\d[ T][\d:.]+(\+00|Z)/g, 'TIME')
    .replaceAll(/\b\d+\.\d\b/g, 'N')
    .trimEnd();

// A machine that is busy with others takes minutes for its 2,000 tickets.
describe('demo', { ...long, timeout: 900_000 }, () => {
  const stack = new AsyncDisposableStack();
  let folder: string;
  beforeAll(async () => {
    folder = await serverFolder(undo => stack.defer(undo));
  });
  afterAll(() => stack.disposeAsync());
  const shell = (...args: string[]) => ran(args, {}, folder);

  test('ends by itself, and leaves what it says and the README shows', async () => {
    const ended = await shell('demo');
    expect(ended.code, ended.stderr).toBe(0);
    expect(ended.stderr).toContain('embedded PostgreSQL in ');
    expect(ended.stdout).toMatch(/^tickets +completed +\d+ +2000 /m);
    expect(ended.stdout).toContain('How far is the mirror complete?');
    const [, query] = /The data stays\. Next:\n {2}npx shelfdesk sql "(.+)"/.exec(ended.stdout)!;
    const asked = await shell('sql', query!, '--json');
    expect(JSON.parse(asked.stdout)).toHaveLength(5);
    expect(asked.stderr).toContain('Warehouse: that of the demo, an embedded PostgreSQL in ');
    const shown = await shownOfDemo();
    expect(shown).toHaveLength(3);
    for (const [statement, answer] of shown) {
      const { stdout, stderr } = await shell('sql', statement);
      const [error = ''] = /^error: [\s\S]*/m.exec(stderr) ?? [];
      expect(masked(stdout + error), statement).toBe(masked(answer));
    }
    const status = await shell('status', '--account', 'demo');
    expect(status.stdout).toMatch(/^tickets +fresh +\d+ \w+ \/ 5 min /m);
    expect(status.stdout.split('\n').filter(line => line.length > 80)).toEqual([]);
    expect(await shell('status', '--account', 'nobody')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("there is no account 'nobody'\nChoose with --account: demo."),
    });
  });

  test('with --stay a worker and the page run on, until Ctrl-C; then it can be removed', async () => {
    few.tickets = 60;
    onTestFinished(() => {
      few.tickets = undefined;
    });
    const demo = here(['demo', '--stay'], {}, folder);
    await demo.says(/Press Ctrl-C/);
    const [, page] = /The page: (\S+)/.exec(demo.stdout())!;
    expect(await (await fetch(page!)).text()).toContain('<title>demo: Shelfdesk</title>');
    expect((await shell('status')).stderr).toContain('worker ');
    const [, number] = /npx shelfdesk why (\d+)/.exec(demo.stdout())!;
    for (const args of [
      ['why', number!],
      ['sync', '--ticket', number!],
    ])
      expect(await shell(...args)).toMatchObject({ code: 0 });
    const refused = async (code: number, says: RegExp, ...args: string[]) =>
      expect(await shell(...args)).toMatchObject({ code, stderr: expect.stringMatching(says) });
    await refused(2, /a demo runs here already, as process \d+/, 'demo');
    await refused(1, /not removed: process \d+ runs it/, 'demo', '--remove');
    expect((await demo.interrupt()).code).toBe(0);
    await refused(2, /`npx shelfdesk demo --stay` runs it again/, 'sync');
    expect(await shell('demo', '--remove')).toMatchObject({ code: 0, stdout: '' });
    expect(await readdir(join(folder, '.shelfdesk'))).toEqual([]);
  });
});

test('from an empty database to an equal mirror: status, migrate, sync, sync again', async () => {
  await using db = await emptyDatabase();
  const sandbox = await withSandbox({ tickets: 40, customers: 10 });
  const settings = settingsFor(db.url, sandbox);
  const shell = (...args: string[]) => ran(args, settings);

  const unmade = await shell('status');
  expect(unmade).toMatchObject({ code: 0, stdout: '', stderr: expect.stringContaining('npx shelfdesk sync') });
  const migrated = await shell('migrate');
  expect(migrated).toMatchObject({ code: 0, stderr: '' });
  expect(migrated.stdout).toMatch(/^applied 0001_tables\n(applied \d{4}_\w+\n)*applied schema\/views\n$/);
  const again = await shell('migrate', '--json');
  expect([again.code, JSON.parse(again.stdout), again.stderr]).toEqual([0, { applied: [] }, '']);

  const unread = await shell('status', '--json');
  expect(unread.stderr).toBe('');
  expect(JSON.parse(unread.stdout)).toEqual({
    ...{ account: 'default', helpdesk: true, books: false, migrations: { missing: [], unknown: [] } },
    ...{ workers: [], problems: [] },
    streams: streams.map(stream => expect.objectContaining({ stream, state: 'never_synced' })),
  });

  // One stream alone pays for itself alone.
  const tickets = await shell('sync', 'tickets', '--json');
  expect(tickets.code, tickets.stderr).toBe(0);
  expect(JSON.parse(tickets.stdout)).toMatchObject({
    ...{ state: 'completed', exitCode: 0 },
    streams: [{ stream: 'tickets', inserted: 40, rejected: 0 }],
  });
  expect(tickets.stderr).toContain('✓ tickets');
  expect(details(sandbox)).toEqual([]);
  const half = JSON.parse((await shell('status', '--json')).stdout);
  expect(half.streams).toMatchObject([
    { stream: 'users', complete_through: null, last_state: null },
    { stream: 'customers' },
    {
      waiting: 0,
      gaps: [],
      open_rejects: 0,
      last_state: 'completed',
      complete_through: expect.stringMatching(/^\d{4}-/),
    },
    { stream: 'messages', waiting: 40, last_run: null, last_state: null },
  ]);

  const all = await shell('sync');
  expect(all.code, all.stderr).toBe(0);
  expect(all.stdout.split('\n').map(line => line.split(' ')[0])).toEqual(['stream', '─────────', ...streams, '']);
  expect(all.stderr).toContain('Run 2: completed, ');
  expect(new Set(details(sandbox).map(({ path }) => path)).size).toBe(40);
  const full = await shell('status', '--wide');
  const said = 'The book catalog is not configured (BOOKS_BASE_URL, and BOOKS_USERS or a token).\n';
  expect(full).toMatchObject({ code: 0, stderr: said });
  expect(full.stdout.split('\n')).toHaveLength(2 + streams.length + 1);
  for (const stream of streams) expect(full.stdout).toMatch(new RegExp(`^default +${stream} .* completed$`, 'm'));
});

test('completion: bash completes commands, what follows them, and options; for other shells a script comes as well', async () => {
  const script = await ran(['completion', 'bash'], {});
  const complete = async (...words: string[]) => {
    const typed = `COMP_WORDS=(shelfdesk ${words.map(word => `'${word}'`).join(' ')}); COMP_CWORD=${words.length}`;
    const asked = `${script.stdout}\n${typed}; _shelfdesk; echo "\${COMPREPLY[@]}"`;
    return (await promisify(execFile)('bash', ['-c', asked])).stdout.trim();
  };
  expect(await complete('ru')).toBe('runs');
  expect(await complete('runs', '')).toBe('list show retry cancel');
  expect(await complete('runs', 'list', '--s')).toBe('--state');
  expect(await complete('sync', 'tickets', '--')).toBe('--ticket --json');
  for (const [shell, line] of [
    ['zsh', 'complete -F _shelfdesk shelfdesk'],
    ['fish', "complete -c shelfdesk -n '__fish_seen_subcommand_from runs' -a cancel"],
  ] as const)
    expect((await ran(['completion', shell], {})).stdout).toContain(line);
  expect((await ran(['completion', 'tcsh'], {})).code).toBe(2);
});

test('start says at once that requests fail, minutes before the run does', async () => {
  await using db = await freshDatabase();
  const worker = here(['start'], settingsFor(db.url, { url: 'http://127.0.0.1:9/api/v1', token: 'x' }));
  await worker.says(/! the help desk: retrying \(connection refused\), try /);
  expect((await worker.interrupt()).code).toBe(0);
  expect(worker.stderr()).not.toContain('ECONNREFUSED');
});

test('init: checks what is set, and writes .env for its owner alone; nothing where the source refuses', async () => {
  await using db = await freshDatabase();
  await using folder = await someFolder();
  const { url, token, totals } = await withSandbox({ tickets: 3, tokens: ["it's#secret"] });
  const init = (more: Record<string, string>) =>
    ran(['init'], { DATABASE_URL: db.url, HELPDESK_BASE_URL: url, ...more }, folder.path);
  const file = join(folder.path, '.env');
  for (const [more, code, says] of [
    [{}, 2, 'HELPDESK_TOKEN is not set, and there is no terminal'],
    [{ HELPDESK_TOKEN: 'wrong' }, 4, 'nothing was written'],
  ] as const)
    expect(await init(more)).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(says) });
  await expect(stat(file)).rejects.toThrow('ENOENT');

  await writeFile(file, '# mine\nLOG_LEVEL=info\nHELPDESK_TOKEN=old\n', { mode: 0o644 });
  const before = totals.credits;
  const done = await init({ HELPDESK_TOKEN: token });
  expect(done.code, done.stderr).toBe(0);
  expect(totals.credits - before).toBe(1);
  expect(done.stdout + done.stderr).not.toContain('secret');
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  const written = parseEnv(await readFile(file, 'utf8'));
  expect(written).toEqual({ LOG_LEVEL: 'info', HELPDESK_BASE_URL: url, HELPDESK_TOKEN: token });
  const env = { DATABASE_URL: db.url, HELPDESK_PERIOD_SECONDS: '1' };
  expect((await ran(['sync', 'tickets'], env, folder.path)).code).toBe(0);
});

test('sql: a table, JSON or CSV on stdout, with each digit; a mistake is told with what may be meant', async () => {
  await using db = await freshDatabase();
  const sql = (...args: string[]) => ran(['sql', ...args], { DATABASE_URL: db.url });
  const listed = `select 'a "b", c' as text, '' as empty, null as nothing, e'two\\nlines' as lines`;
  const digits = `select 9007199254740993 as n, 1.10 as d, array[1.10] as list, '{"a":[1.10,12345678901234567890]}'::jsonb as j, array['7.0'::json] as js`;
  const typed = `select 'ä' as letter, 7::bigint as n, null as nothing, timestamptz '2026-01-02T03:04:05Z' as at`;
  for (const [statement, format, stdout, stderr] of [
    [listed, '--csv', 'text,empty,nothing,lines\n"a ""b"", c","",,"two\nlines"\n', ''],
    [
      digits,
      '--csv',
      'n,d,list,j,js\n9007199254740993,1.10,"[""1.10""]","{""a"":[1.10,12345678901234567890]}",[7.0]\n',
      '',
    ],
    [
      typed,
      '',
      'letter  n  nothing  at\n──────  ─  ───────  ────────────────────\nä       7           2026-01-02T03:04:05Z\n',
      '1 row\n',
    ],
  ] as const)
    expect(await sql(statement, ...(format ? [format] : []))).toEqual({ code: 0, stdout, stderr });
  expect((await sql('--json', digits)).stdout.replaceAll(/\s/g, '')).toBe(
    '[{"n":9007199254740993,"d":"1.10","list":["1.10"],"j":{"a":[1.10,12345678901234567890]},"js":[7.0]}]',
  );
  expect(JSON.parse((await sql(typed, '--json')).stdout)).toEqual([
    { letter: 'ä', n: 7, nothing: null, at: '2026-01-02T03:04:05.000Z' },
  ]);
  expect((await sql('--csv', '--json', 'select 1')).code).toBe(2);

  for (const [statement, says] of [
    ['select subjekt from helpdesk.tickets', /^error: .*: column "subjekt" does not exist\nPerhaps you meant .*\n$/],
    ['select * from helpdesk.tickts', /\nPerhaps you meant helpdesk\.tickets or /],
    ['select * from reply_turn', /\nPerhaps you meant analytics\.reply_turns/],
    ['select * from zzzz', /\nThe tables are in the schemas helpdesk, books, analytics and sync/],
  ] as const)
    expect(await sql(statement)).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(says) });
});

describe('exit codes', () => {
  type Mistake = [what: string, code: number, args: string[], env: Record<string, string>, says: RegExp];
  test.for<Mistake>([
    [
      'a database that does not answer',
      1,
      ['status', '--json'],
      { DATABASE_URL: 'postgres://somebody:hush-hush@127.0.0.1:1/warehouse' },
      /ECONNREFUSED[\s\S]*Check DATABASE_URL/,
    ],
    ['no such stream', 2, ['sync', 'tickts'], {}, /no stream tickts\nDid you mean tickets\? Choose from: users, cu/],
    ['no help desk', 2, ['sync'], {}, /not configured\nSet HELPDESK_BASE_URL and HELPDESK_TOKEN/],
    ['no such option', 2, ['status', '--yaml'], {}, /unknown option '--yaml'/],
    ['an argument too few', 2, ['sql'], {}, /missing required argument 'query'/],
    ['no number', 2, ['sandbox', '--port', 'four'], {}, /It must be the number of a port, 0 to 65535/],
    ['no embedded server', 2, ['db'], { DATABASE_URL: 'postgres://u:hush-hush@h/d' }, /DATABASE_URL is set/],
  ])('%s: %i', async ([, code, args, env, says]) => {
    await using folder = await someFolder();
    const ended = await ran(args, env, folder.path);
    expect(ended).toMatchObject({ code, stdout: '', stderr: expect.stringMatching(says) });
    expect(ended.stderr).not.toMatch(/hush-hush|\n {4}at /);
  });

  test('3: a record that stays unreadable is set aside, and all others are there', async () => {
    await using db = await freshDatabase();
    const spoil = (record: { id: string }) => (record.id === odd ? { ...record, updated_at: 'yesterday' } : record);
    const edit = (json: unknown) => (Array.isArray(json) ? json.map(spoil) : spoil(json as { id: string }));
    const fault: SandboxOptions['fault'] = ({ path }) =>
      path.startsWith('/tickets') ? { kind: 'body', edit } : undefined;
    const sandbox = await withSandbox({ tickets: 12, fault });
    const odd = [...sandbox.world.tickets.keys()][5]!;
    const settings = settingsFor(db.url, sandbox);
    const sync = await ran(['sync', 'tickets', '--json'], settings);
    expect(sync.code, sync.stderr).toBe(3);
    expect(JSON.parse(sync.stdout)).toMatchObject({ state: 'partial', exitCode: 3, streams: [{ inserted: 11 }] });
    const told = await ran(['status'], settings);
    expect(told.stderr).toContain('tickets: 1 × updated_at: not an ISO 8601 time, since ');
    const { rows } = await db.pool.query('select record_id, cleared_at from sync.rejects');
    expect(rows).toEqual([{ record_id: odd, cleared_at: null }]);
  });
});

test('sandbox: one JSON document, serves what it says, and Ctrl-C ends it with 0', async () => {
  const args = ['sandbox', '--port', '0', '--tickets', '7', '--customers', '3', '--token', 'mine', '--json'];
  const sandbox = here(args, {});
  await sandbox.says(/\n\}\n/);
  const { url, ...rest } = JSON.parse(sandbox.stdout());
  expect(rest).toMatchObject({ token: 'mine', tickets: 7, customers: 3, books: { volumes: 300 } });
  const reply = await fetch(`${url}/tickets`, { headers: { authorization: 'Bearer mine' } });
  expect(await reply.json()).toHaveLength(7);
  for (const [option, value, says] of [
    ['--port', new URL(url).port, 'Choose another --port or --admin-port.'],
    ['--host', '192.0.2.1', 'A --host must be'], // For documents; nobody has it.
  ] as const)
    expect(await ran(['sandbox', option, value], {})).toMatchObject({
      ...{ code: 2, stdout: '' },
      stderr: expect.stringContaining(says),
    });
  expect(await sandbox.interrupt()).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('1 request, 1 credit, 0 refused.'),
  });
});

test('db: others join the embedded server, and the last one out stops it', long, async () => {
  const folder = await serverFolder(onTestFinished);
  const one = here(['db', '--json'], {}, folder);
  await one.says(/\n\}\n/);
  const at = JSON.parse(one.stdout());
  const two = here(['db'], {}, folder);
  await two.says(/^postgres:.*\n/m);
  expect(two.stdout()).toBe(`${at.url}\n`);
  const sql = (statement: string) => ran(['sql', statement, '--json'], {}, folder);
  expect((await sql('select 1 as one')).stdout).toBe('[\n  {\n    "one": 1\n  }\n]\n');
  // There are no tables: it says so, lets go of the server, and ends.
  for (const [untold, says] of [
    [ran(['runs', 'list'], {}, folder), 'the tables are missing or outdated'],
    [sql('select * from helpdesk.tickets'), 'The tables are missing: run `npx shelfdesk'],
  ] as const)
    expect(await untold).toMatchObject({ code: 1, stderr: expect.stringContaining(says) });

  expect((await one.interrupt()).code).toBe(0);
  const client = new pg.Client({ connectionString: at.url });
  await client.connect();
  expect((await client.query('select 2 as two')).rows).toEqual([{ two: 2 }]);
  await client.end();
  const left = await two.interrupt();
  expect([left.code, left.stderr]).toEqual([0, expect.stringContaining(`embedded PostgreSQL in ${at.folder}\n`)]);
  await expect(stat(join(at.folder, 'data', 'postmaster.pid'))).rejects.toThrow('ENOENT');
});

describe('as a process', () => {
  test('help is on stdout, with 0; what is no command and what is wrong in .env are on stderr, with 2', async () => {
    await using folder = await someFolder();
    await writeFile(join(folder.path, '.env'), 'LOG_LEVEL=warn\nREDIS_URL=http://u:hush-hush@h\n');
    const [asked, nothing, unknown, wrong] = await Promise.all(
      [['--help'], [], ['snyc'], ['status']].map(args => shelfdesk(args, {}, folder.path).finished),
    );
    expect(asked).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining('Exit codes: 0 ok') });
    for (const [ended, says] of [
      [nothing, /Usage: shelfdesk/],
      [unknown, /unknown command 'snyc'[\s\S]*--help/],
      [wrong, new RegExp(`Change it in ${join(folder.path, '.env')}\\.`)],
    ] as const) {
      expect(ended).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(says) });
      // On a pipe nothing is ever coloured or rewritten.
      for (const hidden of ['hush-hush', '\x1b']) expect(ended!.stderr).not.toContain(hidden);
    }
  });

  const needsTerminal = (context: TestContext) =>
    context.skip(process.platform !== 'linux', 'needs the `script` of util-linux for a terminal');
  const atTerminal = (command: string, env: Record<string, string>, cwd = tmpdir()) =>
    spawn('script', ['-qec', `"${process.execPath}" "${main}" ${command}`, '/dev/null'], {
      ...{ cwd, env: { PATH: process.env.PATH, TERM: 'xterm-256color', ...env } },
    });

  test('at a terminal: init has a mistake typed again, and keeps the rest', async context => {
    needsTerminal(context);
    await using db = await freshDatabase();
    await using folder = await someFolder();
    const sandbox = await withSandbox({ tickets: 3, tokens: ['hush-hush'] });
    const init = atTerminal('init', { NO_COLOR: '1', DATABASE_URL: db.url }, folder.path);
    let shown = '';
    let all = '';
    init.stdout.on('data', part => {
      shown += part;
      all += part;
    });
    const { host } = new URL(sandbox.url);
    for (const [prompt, typed] of [
      ['HELPDESK_BASE_URL: ', '127.0.0.1:1'],
      ['HELPDESK_BASE_URL [http://127.0.0.1:1/api/v1]: ', ''],
      ['HELPDESK_TOKEN: ', 'hush-hush'],
      ['nobody listens at 127.0.0.1:1', undefined],
      ['HELPDESK_BASE_URL [http://127.0.0.1:1/api/v1]: ', host],
      [`HELPDESK_BASE_URL [http://${host}/api/v1]: `, ''],
      ['HELPDESK_TOKEN [as before]: ', ''],
    ] as const) {
      await expect.poll(() => shown, { timeout: 60_000 }).toContain(prompt);
      if (typed === undefined) continue;
      shown = '';
      init.stdin.write(`${typed}\n`);
    }
    await once(init, 'exit');
    expect(shown).toContain('It answers, and shows');
    expect(shown).not.toContain('hush');
    expect(all).toContain('✗');
    expect(all).not.toContain('\x1b[31m');
    const written = parseEnv(await readFile(join(folder.path, '.env'), 'utf8'));
    expect(written).toEqual({ HELPDESK_BASE_URL: sandbox.url, HELPDESK_TOKEN: 'hush-hush' });
  });

  test('at a terminal there is colour', async context => {
    needsTerminal(context);
    const sync = atTerminal('sync tickts', {});
    let shown = '';
    sync.stdout.on('data', part => {
      shown += part;
    });
    await once(sync, 'close');
    expect(shown).toContain('\x1b[31merror:\x1b[39m there is no stream tickts');
  });
});
