/**
 * The commands as people run them: real processes, a real sandbox, a real database. What is asserted is what a shell
 * sees: stdout, stderr and the exit code.
 */
import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdtemp, readdir, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseEnv, promisify } from 'node:util';
import pg from 'pg';
import { describe, expect, test } from 'vitest';
import { type Sandbox, type SandboxOptions, startSandbox } from '../../packages/sandbox/src/server.ts';
import { ask } from '../../src/cli/look/sql.ts';
import { type Finished, settingsFor, shelfdesk } from '../support/cli.ts';
import { long } from '../support/long.ts';
import { noSandboxLimits } from '../support/mirror.ts';
import { emptyDatabase, freshDatabase } from '../support/postgres.ts';

/**
 * A folder without an `.env`, in which user `postgres` may live. Its name is the one that the next run clears up. Where that
 * user cannot enter the project, the server of this folder lives in one whose name is made from its path.
 */
async function emptyFolder(): Promise<{ path: string } & AsyncDisposable> {
  const path = await realpath(await mkdtemp(join(tmpdir(), `shelfdesk-tests-${process.pid}-`)));
  await chmod(path, 0o755);
  const home = createHash('sha256')
    .update(join(path, '.shelfdesk', 'postgres'))
    .digest('hex')
    .slice(0, 12);
  return {
    path,
    async [Symbol.asyncDispose]() {
      await rm(join(await realpath(tmpdir()), `shelfdesk-${home}`), { recursive: true, force: true });
      await rm(path, { recursive: true });
    },
  };
}

interface Started extends AsyncDisposable {
  /** What is on stdout once it holds a JSON document, a line, or the address of the page. */
  said(what: 'json' | 'line' | 'page'): Promise<string>;
  /** Resolves as soon as these words are on stderr. */
  told(words: string): Promise<void>;
  interrupt(): Promise<Finished>;
  finished: Promise<Finished>;
}

/** Whatever the test does, no process is left behind. */
function start(args: readonly string[], env: Record<string, string>, folder: string): Started {
  const { process: child, finished } = shelfdesk(args, env, folder);
  const text = { stdout: '', stderr: '' };
  const until = (stream: 'stdout' | 'stderr', complete: (text: string) => boolean): Promise<string> =>
    new Promise((resolve, reject) => {
      const look = () => complete(text[stream]) && resolve(text[stream]);
      child[stream]!.on('data', look);
      look();
      finished.then(({ code, stderr }) => reject(new Error(`ended with ${code} before it said it: ${stderr}`)));
    });
  for (const stream of ['stdout', 'stderr'] as const) {
    child[stream]!.on('data', chunk => {
      text[stream] += chunk;
    });
  }
  return {
    finished,
    said: what => until('stdout', text => ({ json: /\n\}\n$/, line: /\n/, page: /Press Ctrl-C/ })[what].test(text)),
    told: async words => void (await until('stderr', text => text.includes(words))),
    interrupt: () => {
      child.kill('SIGINT');
      return finished;
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await finished;
    },
  };
}

/** Runs to its end. On a pipe nothing is ever coloured or rewritten. */
async function run(args: readonly string[], env: Record<string, string>, folder: string): Promise<Finished> {
  await using started = start(args, env, folder);
  const finished = await started.finished;
  expect(finished.stdout + finished.stderr).not.toContain('\x1b');
  return finished;
}

async function withSandbox(options: SandboxOptions): Promise<{ sandbox: Sandbox } & AsyncDisposable> {
  const sandbox = await startSandbox({ ...noSandboxLimits, ...options });
  return { sandbox, [Symbol.asyncDispose]: () => sandbox.close() };
}

const streams = ['users', 'customers', 'tickets', 'messages'];
const details = (sandbox: Sandbox) => sandbox.requests.filter(({ path }) => path.startsWith('/tickets/'));

// Most of the time goes by with processes that start: two at once are faster, and none knows of another.
describe.concurrent('commands', () => {
  test('demo --stay: a worker and the page run on, until Ctrl-C', long, async () => {
    await using folder = await emptyFolder();
    await using demo = start(['demo', '--stay'], {}, folder.path);
    await demo.told('completed: ');
    const [, page] = /The page: (\S+)/.exec(await demo.said('page'))!;
    expect(await (await fetch(page!)).text()).toContain('<title>demo: Shelfdesk</title>');
    const status = await run(['status'], {}, folder.path);
    expect(status.stdout).toMatch(/^tickets +fresh +\d+ \w+ \/ 5 min /m);
    expect(status.stdout.split('\n').filter(line => line.length > 80)).toEqual([]);
    expect(status.stderr).toContain('worker ');
    const [, number] = /npx shelfdesk why (\d+)/.exec(await demo.said('page'))!;
    const shell = (words: string) => run(words.split(' '), {}, folder.path);
    for (const words of [`why ${number}`, 'sync', `sync --ticket ${number}`, 'doctor'])
      expect((await shell(words)).code, words).toBe(0);
    // Things change meanwhile, also while they are compared.
    expect([0, 5]).toContain((await shell('verify --sample 1')).code);
    const [second, removal] = [await shell('demo'), await shell('demo --remove')];
    expect([second.code, second.stderr]).toEqual([
      2,
      expect.stringMatching(/a demo runs here already, as process \d+/),
    ]);
    expect([removal.code, removal.stderr]).toEqual([1, expect.stringMatching(/not removed: process \d+ runs it/)]);
    expect((await demo.interrupt()).code).toBe(0);
    const late = await shell('sync');
    expect([late.code, late.stderr]).toEqual([2, expect.stringContaining('`npx shelfdesk demo --stay` runs it again')]);
  });

  test('demo: ends by itself with 0, and leaves what it says', long, async () => {
    await using folder = await emptyFolder();
    const demo = await run(['demo'], {}, folder.path);
    expect(demo.code, demo.stderr).toBe(0);
    expect(demo.stderr).toContain('embedded PostgreSQL in ');
    expect(demo.stdout).toMatch(/^tickets +completed +\d+ +2000 /m);
    expect(demo.stdout).toContain('How far is the mirror complete?');
    expect(demo.stdout).toContain('The data stays. Next:\n  npx shelfdesk sql "');
    const [, query] = /npx shelfdesk sql "(.+)"/.exec(demo.stdout)!;
    const asked = await run(['sql', query!, '--json'], {}, folder.path);
    expect(JSON.parse(asked.stdout)).toHaveLength(5);
    const status = await run(['status'], {}, folder.path);
    expect(status.stdout).toMatch(/^tickets +fresh +\d+ \w+ \/ 5 min /m);
    expect(status.stdout.split('\n').filter(line => line.length > 80)).toEqual([]);
    expect(status.stderr).not.toContain('Nothing has been read yet');
    for (const words of ['status --account demo', 'query run labels --account demo', 'runs list --account demo'])
      expect(await run(words.split(' '), {}, folder.path), words).toMatchObject({ code: 0 });
    expect(await run(['status', '--account', 'nobody'], {}, folder.path)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("there is no account 'nobody'\nChoose with --account: demo."),
    });
    expect(asked.stderr).toContain('Warehouse: that of the demo, an embedded PostgreSQL in ');
    expect(await run(['demo', '--remove'], {}, folder.path)).toMatchObject({ code: 0, stdout: '' });
    expect(await readdir(join(folder.path, '.shelfdesk'))).toEqual([]);
  });

  test('from an empty database to an equal mirror: status, migrate, sync, sync again', async () => {
    await using db = await emptyDatabase();
    await using folder = await emptyFolder();
    await using world = await withSandbox({ tickets: 40, customers: 10 });
    const { sandbox } = world;
    const settings = settingsFor(db.url, sandbox);
    const shell = (...args: string[]) => run(args, settings, folder.path);

    const unmade = await shell('status');
    expect(unmade).toMatchObject({ code: 0, stdout: '' });
    expect(unmade.stderr).toContain('npx shelfdesk sync');

    const migrated = await shell('migrate');
    expect(migrated).toMatchObject({ code: 0, stderr: '' });
    expect(migrated.stdout).toMatch(/^applied 0001_tables\n(applied \d{4}_\w+\n)*applied schema\/views\n$/);
    const again = await shell('migrate', '--json');
    expect([again.code, JSON.parse(again.stdout), again.stderr]).toEqual([0, { applied: [] }, '']);

    const unread = await shell('status', '--json');
    expect(unread.stderr).toBe('');
    const { streams: unreadStreams, ...unreadRest } = JSON.parse(unread.stdout);
    expect(unreadStreams.map((one: { stream: string; state: string }) => [one.stream, one.state])).toEqual(
      ['users', 'customers', 'tickets', 'messages'].map(stream => [stream, 'never_synced']),
    );
    expect(unreadRest).toEqual({
      account: 'default',
      helpdesk: true,
      books: false,
      migrations: { missing: [], unknown: [] },
      workers: [],
      problems: [],
    });

    // One stream alone pays for itself alone.
    const tickets = await shell('sync', 'tickets', '--json');
    expect(tickets.code, tickets.stderr).toBe(0);
    expect(JSON.parse(tickets.stdout)).toMatchObject({
      state: 'completed',
      exitCode: 0,
      streams: [{ stream: 'tickets', inserted: 40, rejected: 0 }],
    });
    expect(tickets.stderr).toContain('✓ tickets');
    expect(details(sandbox)).toEqual([]);

    const half = await shell('status', '--json');
    const found = Object.fromEntries(JSON.parse(half.stdout).streams.map((s: { stream: string }) => [s.stream, s]));
    expect(Object.keys(found)).toEqual(streams);
    expect(found.tickets).toMatchObject({ waiting: 0, gaps: [], open_rejects: 0, last_state: 'completed' });
    expect(found.tickets.complete_through).toMatch(/^\d{4}-/);
    expect(found.messages).toMatchObject({ waiting: 40, last_run: null, last_state: null });
    expect(found.users).toMatchObject({ complete_through: null, last_state: null });

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
    await using folder = await emptyFolder();
    const script = await run(['completion', 'bash'], {}, folder.path);
    expect(script.code, script.stderr).toBe(0);
    const complete = async (...words: string[]) => {
      const typed = `COMP_WORDS=(shelfdesk ${words.map(word => `'${word}'`).join(' ')}); COMP_CWORD=${words.length}`;
      const { stdout } = await promisify(execFile)('bash', [
        '-c',
        `${script.stdout}\n${typed}; _shelfdesk; echo "\${COMPREPLY[@]}"`,
      ]);
      return stdout.trim();
    };
    expect(await complete('ru')).toBe('runs');
    expect(await complete('runs', '')).toBe('list show retry cancel');
    expect(await complete('runs', 'list', '--s')).toBe('--state');
    expect(await complete('sync', 'tickets', '--')).toBe('--ticket --json');
    for (const [shell, line] of [
      ['zsh', 'complete -F _shelfdesk shelfdesk'],
      ['fish', "complete -c shelfdesk -n '__fish_seen_subcommand_from runs' -a cancel"],
    ] as const)
      expect((await run(['completion', shell], {}, folder.path)).stdout).toContain(line);
    expect((await run(['completion', 'tcsh'], {}, folder.path)).code).toBe(2);
  });

  test('start says at once that requests fail, minutes before the run does', long, async () => {
    await using db = await freshDatabase();
    await using folder = await emptyFolder();
    const settings = { DATABASE_URL: db.url, HELPDESK_BASE_URL: 'http://127.0.0.1:9/api/v1', HELPDESK_TOKEN: 'x' };
    await using worker = start(['start'], settings, folder.path);
    await worker.told('! the help desk: retrying (connection refused), try ');
    const { code, stderr } = await worker.interrupt();
    expect(code).toBe(0);
    expect(stderr).not.toContain('ECONNREFUSED');
  });

  test('init: checks what is set, and writes .env for its owner alone; nothing where the source refuses', async () => {
    await using db = await freshDatabase();
    await using folder = await emptyFolder();
    await using world = await withSandbox({ tickets: 3, tokens: ["it's#secret"] });
    const { url } = world.sandbox;
    const init = (more: Record<string, string>) =>
      run(['init'], { DATABASE_URL: db.url, HELPDESK_BASE_URL: url, ...more }, folder.path);
    const file = join(folder.path, '.env');

    const untold = await init({});
    expect(untold).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('HELPDESK_TOKEN is not set, and there is no terminal'),
    });
    const refused = await init({ HELPDESK_TOKEN: 'wrong' });
    expect(refused).toMatchObject({ code: 4, stdout: '', stderr: expect.stringContaining('nothing was written') });
    await expect(stat(file)).rejects.toThrow('ENOENT');

    await writeFile(file, '# mine\nLOG_LEVEL=info\nHELPDESK_TOKEN=old\n', { mode: 0o644 });
    const before = world.sandbox.totals.credits;
    const done = await init({ HELPDESK_TOKEN: world.sandbox.token });
    expect(done.code, done.stderr).toBe(0);
    expect(world.sandbox.totals.credits - before).toBe(1);
    expect(done.stdout + done.stderr).not.toContain('secret');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const written = parseEnv(await readFile(file, 'utf8'));
    expect(written).toEqual({ LOG_LEVEL: 'info', HELPDESK_BASE_URL: url, HELPDESK_TOKEN: world.sandbox.token });
    expect(
      (await run(['sync', 'tickets'], { DATABASE_URL: db.url, HELPDESK_PERIOD_SECONDS: '1' }, folder.path)).code,
    ).toBe(0);
  });

  test('init at a terminal: a mistake is typed again, and the rest is kept', async context => {
    context.skip(process.platform !== 'linux', 'needs the `script` of util-linux for a terminal');
    await using db = await freshDatabase();
    await using folder = await emptyFolder();
    await using world = await withSandbox({ tickets: 3, tokens: ['hush-hush'] });
    const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
    const { PATH = '' } = process.env;
    const terminal = spawn('script', ['-qec', `"${process.execPath}" "${main}" init`, '/dev/null'], {
      cwd: folder.path,
      env: { PATH, TERM: 'xterm-256color', NO_COLOR: '1', DATABASE_URL: db.url },
    });
    let shown = '';
    terminal.stdout.on('data', part => {
      shown += part;
    });
    const when = async (prompt: string, typed: string) => {
      await expect.poll(() => shown, { timeout: 60_000 }).toContain(prompt);
      shown = '';
      terminal.stdin.write(`${typed}\n`);
    };
    const { host } = new URL(world.sandbox.url);
    await when('HELPDESK_BASE_URL: ', '127.0.0.1:1');
    await when('HELPDESK_BASE_URL [http://127.0.0.1:1/api/v1]: ', '');
    await when('HELPDESK_TOKEN: ', 'hush-hush');
    await expect.poll(() => shown, { timeout: 60_000 }).toContain('nobody listens at 127.0.0.1:1');
    await when('HELPDESK_BASE_URL [http://127.0.0.1:1/api/v1]: ', host);
    await when(`HELPDESK_BASE_URL [http://${host}/api/v1]: `, '');
    await when('HELPDESK_TOKEN [as before]: ', '');
    await once(terminal, 'exit');
    expect(shown).toContain('It answers, and shows');
    expect(shown).not.toContain('hush');
    const written = parseEnv(await readFile(join(folder.path, '.env'), 'utf8'));
    expect(written).toEqual({ HELPDESK_BASE_URL: world.sandbox.url, HELPDESK_TOKEN: 'hush-hush' });
  });

  test('sql: a table or JSON on stdout; refuses to write, a second statement, and says what is wrong', async () => {
    await using db = await freshDatabase();
    await using folder = await emptyFolder();
    const sql = (...args: string[]) => run(['sql', ...args], { DATABASE_URL: db.url }, folder.path);
    const query = `select 'ä' as letter, 7::bigint as n, null as nothing, timestamptz '2026-01-02T03:04:05Z' as at`;

    const listed = await sql(
      '--csv',
      `select 'a "b", c' as text, '' as empty, null as nothing, e'two\\nlines' as lines`,
    );
    expect([listed.code, listed.stdout]).toEqual([0, 'text,empty,nothing,lines\n"a ""b"", c","",,"two\nlines"\n']);
    expect((await sql('--csv', '--json', 'select 1')).code).toBe(2);
    const digits = `select 9007199254740993 as n, 1.10 as d, array[1.10] as list, '{"a":[1.10,12345678901234567890]}'::jsonb as j, array['7.0'::json] as js`;
    expect((await sql('--csv', digits)).stdout).toBe(
      'n,d,list,j,js\n9007199254740993,1.10,"[""1.10""]","{""a"":[1.10,12345678901234567890]}",[7.0]\n',
    );
    expect((await sql('--json', digits)).stdout.replaceAll(/\s/g, '')).toBe(
      '[{"n":9007199254740993,"d":"1.10","list":["1.10"],"j":{"a":[1.10,12345678901234567890]},"js":[7.0]}]',
    );

    const shown = await sql(query);
    expect(shown.code).toBe(0);
    expect(shown.stdout).toBe(
      [
        'letter  n  nothing  at',
        '──────  ─  ───────  ────────────────────',
        'ä       7           2026-01-02T03:04:05Z',
        '',
      ].join('\n'),
    );
    expect(shown.stderr).toBe('1 row\n');
    const json = await sql(query, '--json');
    expect([JSON.parse(json.stdout), json.stderr]).toEqual([
      [{ letter: 'ä', n: 7, nothing: null, at: '2026-01-02T03:04:05.000Z' }],
      '',
    ]);

    expect(await sql('select subjekt from helpdesk.tickets')).toMatchObject({
      ...{ code: 1, stdout: '' },
      stderr: expect.stringMatching(
        /^error: PostgreSQL says: column "subjekt" does not exist\nPerhaps you meant .*\n$/,
      ),
    });
    const mistyped = async (table: string) => (await sql(`select * from ${table}`)).stderr.split('\n')[1];
    expect(await mistyped('helpdesk.tickts')).toMatch(/^Perhaps you meant helpdesk\.tickets or /);
    expect(await mistyped('reply_turn')).toMatch(/^Perhaps you meant analytics\.reply_turns/);
    expect(await mistyped('zzzz')).toMatch(/^The tables are in the schemas helpdesk, books, analytics and sync/);
    // The same without a process of its own.
    expect((await ask({ pg: db.pool, url: db.url }, 'select id from tickets')).rows).toEqual([]);
    await expect(ask({ pg: db.pool, url: db.url }, `insert into sync.accounts values ('other')`)).rejects.toMatchObject(
      {
        message: expect.stringContaining('read-only transaction'),
        exitCode: 1,
      },
    );
    await expect(
      ask({ pg: db.pool, url: db.url }, `commit; insert into sync.accounts values ('other')`),
    ).rejects.toMatchObject({
      message: expect.stringContaining('multiple commands'),
      exitCode: 1,
    });
    expect((await db.pool.query('select * from sync.accounts')).rows).toEqual([]);
  });

  describe('exit codes', () => {
    test('1: a database that does not answer, named without its password', async () => {
      await using folder = await emptyFolder();
      const url = 'postgres://somebody:not-to-be-shown@127.0.0.1:1/warehouse';
      const failed = await run(['status', '--json'], { DATABASE_URL: url }, folder.path);
      expect(failed).toMatchObject({ code: 1, stdout: '' });
      expect(failed.stderr).toContain('ECONNREFUSED');
      expect(failed.stderr).toContain('Check DATABASE_URL');
      expect(failed.stderr).not.toContain('not-to-be-shown');
    });

    type Mistake = [what: string, args: string[], env: Record<string, string>, says: RegExp];
    const refused = async ([, args, env, says]: Mistake) => {
      await using folder = await emptyFolder();
      const finished = await run(args, env, folder.path);
      expect(finished).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(says) });
      expect(finished.stderr).not.toMatch(/hush-hush|\n {4}at /);
    };
    test.for<Mistake>([
      [
        'a stream that is not there',
        ['sync', 'tickts'],
        {},
        /no stream tickts\nDid you mean tickets\? Choose from: users, cu/,
      ],
      ['a command that is not there', ['snyc'], {}, /unknown command 'snyc'[\s\S]*--help/],
    ])('2: %s', refused);
    test.for<Mistake>([
      ['a help desk that is not configured', ['sync'], {}, /not configured\nSet HELPDESK_BASE_URL and HELPDESK_TOKEN/],
      ['an option that is not there', ['status', '--yaml'], {}, /unknown option '--yaml'[\s\S]*--help/],
      ['an argument too few', ['sql'], {}, /missing required argument 'query'/],
      ['a number that is none', ['sandbox', '--port', 'four'], {}, /It must be the number of a port, 0 to 65535/],
      ['no embedded server', ['db'], { DATABASE_URL: 'postgres://u:hush-hush@h/d' }, /DATABASE_URL is set/],
    ])('2: %s', long, refused);

    test('2: a wrong setting in .env, with the file that it stands in', async () => {
      await using folder = await emptyFolder();
      await writeFile(join(folder.path, '.env'), 'LOG_LEVEL=warn\nREDIS_URL=http://u:hush-hush@h\n');
      const { code, stderr } = await run(['status'], {}, folder.path);
      expect([code, stderr]).toEqual([2, expect.stringContaining(`Change it in ${join(folder.path, '.env')}.`)]);
      expect(stderr).not.toContain('hush-hush');
    });

    test('3: a record that stays unreadable is set aside, and all others are there', long, async () => {
      await using db = await freshDatabase();
      await using folder = await emptyFolder();
      const spoil = (record: { id: string }) => (record.id === odd ? { ...record, updated_at: 'yesterday' } : record);
      const edit = (json: unknown) => (Array.isArray(json) ? json.map(spoil) : spoil(json as { id: string }));
      await using world = await withSandbox({
        tickets: 12,
        fault: ({ path }) => (path.startsWith('/tickets') ? { kind: 'body', edit } : undefined),
      });
      const odd = [...world.sandbox.world.tickets.keys()][5]!;
      const settings = settingsFor(db.url, world.sandbox);

      const sync = await run(['sync', 'tickets', '--json'], settings, folder.path);
      expect(sync.code, sync.stderr).toBe(3);
      expect(JSON.parse(sync.stdout)).toMatchObject({ state: 'partial', exitCode: 3, streams: [{ inserted: 11 }] });
      const told = await run(['status'], settings, folder.path);
      expect(told.stderr).toContain('tickets: 1 × updated_at: not an ISO 8601 time, since ');
      const { rows } = await db.pool.query('select record_id, cleared_at from sync.rejects');
      expect(rows).toEqual([{ record_id: odd, cleared_at: null }]);
    });

    test('4: a token that the source refuses is not shown, and nothing else is tried', async () => {
      await using db = await freshDatabase();
      await using folder = await emptyFolder();
      await using world = await withSandbox({ tickets: 1 });
      const settings = { ...settingsFor(db.url, world.sandbox), HELPDESK_TOKEN: 'hush-hush' };
      const sync = await run(['sync'], settings, folder.path);
      expect(sync.code, sync.stderr).toBe(4);
      expect(sync.stderr).toContain('401');
      expect(sync.stderr).toContain('Set HELPDESK_TOKEN to a valid token');
      expect(sync.stdout + sync.stderr).not.toContain('hush-hush');
      expect(world.sandbox.requests).toHaveLength(1);
    });

    test(
      '130: Ctrl-C finishes the page in flight and says how to go on; the next sync pays nothing twice',
      long,
      async () => {
        await using db = await freshDatabase();
        await using folder = await emptyFolder();
        let interrupt = () => {};
        await using world = await withSandbox({ tickets: 60, before: (_request, n) => n === 30 && interrupt() });
        const settings = settingsFor(db.url, world.sandbox);
        await using first = start(['sync', '--json'], settings, folder.path);
        interrupt = () => void first.interrupt();
        const ended = await first.finished;
        expect(ended.code, ended.stderr).toBe(130);
        expect(JSON.parse(ended.stdout)).toMatchObject({ state: 'interrupted', exitCode: 130 });
        expect(ended.stderr).toContain('finishing the current page');
        expect(ended.stderr).toContain('Run the same command again to resume.');

        const second = await run(['sync'], settings, folder.path);
        expect(second.code, second.stderr).toBe(0);
        const paths = details(world.sandbox).map(({ path }) => path);
        expect(paths).toHaveLength(new Set(paths).size);
        expect(new Set(paths).size).toBe(60);
      },
    );
  });

  test(
    'sync beside a sync is worked on by that one, goes on when it leaves, and pays for no messages again',
    long,
    async () => {
      await using db = await freshDatabase();
      await using folder = await emptyFolder();
      let begun = () => {};
      const begins = new Promise<void>(resolve => {
        begun = resolve;
      });
      // At a request a second its messages last for longer than any machine takes to start the other one.
      const tickets = 120;
      await using world = await withSandbox({ tickets, before: (_request, n) => n === 5 && begun() });
      const settings = settingsFor(db.url, world.sandbox);
      await using slow = start(['sync'], { ...settings, HELPDESK_REQUESTS_PER_SECOND: '1' }, folder.path);
      await begins;
      await using other = start(['sync', '--json'], settings, folder.path);
      await other.told('Worker 1 on ');
      await other.told('messages waits for run 1');
      expect((await slow.interrupt()).code).toBe(130);
      const { code, stdout, stderr } = await other.finished;
      expect(code, stderr).toBe(0);
      expect(JSON.parse(stdout)).toMatchObject({ run: 2, state: 'completed' });
      const asked = world.sandbox.requests.map(({ path }) => path).filter(path => path.startsWith('/tickets/'));
      expect(asked).toHaveLength(tickets);
      expect(new Set(asked).size).toBe(tickets);
    },
  );

  test('sandbox: one JSON document, serves what it says, and Ctrl-C ends it with 0', async () => {
    await using folder = await emptyFolder();
    const args = ['sandbox', '--port', '0', '--tickets', '7', '--customers', '3', '--token', 'mine', '--json'];
    await using sandbox = start(args, {}, folder.path);
    const { url, ...rest } = JSON.parse(await sandbox.said('json'));
    expect(rest).toMatchObject({ token: 'mine', tickets: 7, customers: 3, books: { volumes: 300 } });
    const reply = await fetch(`${url}/tickets`, { headers: { authorization: 'Bearer mine' } });
    expect(await reply.json()).toHaveLength(7);

    const taken = await run(['sandbox', '--port', new URL(url).port], {}, folder.path);
    expect(taken).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('Choose another --port or --admin-port.'),
    });
    const elsewhere = await run(['sandbox', '--host', '192.0.2.1'], {}, folder.path); // For documents; nobody has it.
    expect(elsewhere).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('A --host must be') });

    const { code, stdout, stderr } = await sandbox.interrupt();
    expect([code, JSON.parse(stdout).url]).toEqual([0, url]);
    expect(stderr).toContain('1 request, 1 credit, 0 refused.');
  });

  test('db: others join the embedded server, and the last one out stops it', long, async () => {
    await using folder = await emptyFolder();
    await using one = start(['db', '--json'], {}, folder.path);
    const at = JSON.parse(await one.said('json'));
    await using two = start(['db'], {}, folder.path);
    expect(await two.said('line')).toBe(`${at.url}\n`);
    expect((await run(['sql', 'select 1 as one', '--json'], {}, folder.path)).stdout).toBe(
      '[\n  {\n    "one": 1\n  }\n]\n',
    );

    // There are no tables: it says so, lets go of the server, and ends.
    const untold = await run(['runs', 'list'], {}, folder.path);
    expect(untold).toMatchObject({ code: 1, stderr: expect.stringContaining('the tables are missing or outdated') });
    const asked = await run(['sql', 'select * from helpdesk.tickets'], {}, folder.path);
    expect(asked).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('The tables are missing: run `npx shelfdesk'),
    });

    expect((await one.interrupt()).code).toBe(0);
    const client = new pg.Client({ connectionString: at.url });
    await client.connect();
    expect((await client.query('select 2 as two')).rows).toEqual([{ two: 2 }]);
    await client.end();
    const left = await two.interrupt();
    expect([left.code, left.stderr]).toEqual([0, expect.stringContaining(`embedded PostgreSQL in ${at.folder}\n`)]);
    await expect(stat(join(at.folder, 'data', 'postmaster.pid'))).rejects.toThrow('ENOENT');
  });

  test('--help: on stdout, with 0; without a command on stderr, with 2', async () => {
    await using folder = await emptyFolder();
    const asked = await run(['--help'], {}, folder.path);
    expect(asked).toMatchObject({ code: 0, stderr: '' });
    expect(asked.stdout).toContain('Exit codes: 0 ok');
    const nothing = await run([], {}, folder.path);
    expect(nothing).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('Usage: shelfdesk') });
  });

  test('colour only on a terminal, and never with NO_COLOR', async context => {
    context.skip(process.platform !== 'linux', 'needs the `script` of util-linux for a terminal');
    const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
    const onTerminal = async (env: Record<string, string>): Promise<string> => {
      const command = `"${process.execPath}" "${main}" sync tickts; exit 0`;
      const { PATH = '' } = process.env;
      const options = { env: { PATH, TERM: 'xterm-256color', ...env } };
      return (await promisify(execFile)('script', ['-qec', command, '/dev/null'], options)).stdout;
    };
    expect(await onTerminal({})).toContain('\x1b[31merror:\x1b[39m there is no stream tickts');
    const plain = await onTerminal({ NO_COLOR: '1' });
    expect(plain).toContain('error: there is no stream tickts');
    expect(plain).not.toContain('\x1b');
  });
});
