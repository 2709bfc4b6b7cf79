import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { watch } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { findPlace, type Place } from '../../src/embedded/place.ts';
import { type Embedded, holdsRows, joinEmbedded } from '../../src/embedded/postgres.ts';
import { removeServer } from '../support/global.ts';
import { long } from '../support/long.ts';

const settings = { fsync: 'off' };

/**
 * A folder for a server, removed at the end together with whatever still runs there. Its parent bears the name that the
 * next test run looks for, should this one be killed.
 */
async function serverFolder(
  mode = 0o755,
  atEnd: (undo: () => Promise<void>) => void = onTestFinished,
): Promise<string> {
  const parent = await mkdtemp(join(tmpdir(), `shelfdesk-tests-${process.pid}-`));
  await chmod(parent, mode);
  const folder = join(parent, 'postgres');
  atEnd(async () => {
    await removeServer(folder);
    await rm(parent, { recursive: true });
  });
  return folder;
}

/** Is this project in a folder that only root can enter? Then no test has its data where it was asked for. */
async function isClosed(): Promise<boolean> {
  if (process.geteuid?.() !== 0) return false;
  for (let folder = import.meta.dirname; folder !== dirname(folder); folder = dirname(folder)) {
    if (!((await stat(folder)).mode & 0o001)) return true;
  }
  return false;
}

/** All that may lie beside the data: the binaries, where user postgres cannot get at those of the project. */
const allBeside = (folder: string, { home, version }: Place): string[] =>
  home === folder ? ['postgres'] : [`binaries-${version}`, 'postgres'];

/** Another process that joins, says so, and leaves when its input ends. */
interface Other {
  child: ChildProcess;
  joined: Promise<Omit<Embedded, 'release'>>;
  leave(): Promise<void>;
  kill(): Promise<void>;
}

function otherProcess(folder: string): Other {
  const module = new URL('../../src/embedded/postgres.ts', import.meta.url);
  const program = `
    import { once } from 'node:events';
    import { joinEmbedded } from '${module}';
    const { release, ...joined } = await joinEmbedded(${JSON.stringify({ folder, settings })});
    console.log(JSON.stringify(joined));
    await once(process.stdin.resume(), 'end');
    await release();`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const line = once(createInterface(child.stdout), 'line').then(([text]) => JSON.parse(text));
  const joined = Promise.race([line, exited.then(([code]) => Promise.reject(new Error(`exited with ${code}`)))]);
  joined.catch(() => {}); // Not everybody waits for it.
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  return {
    child,
    joined,
    leave: async () => {
      child.stdin.end();
      expect(await exited).toEqual([0, null]);
    },
    kill: async () => {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  // A server that is killed resets the connection, sometimes once more after the statement has failed.
  client.on('error', () => {});
  await client.connect();
  return (await client.query(sql).finally(() => client.end())).rows;
}

/** PostgreSQL sees that a process was killed when its connection ends, which is soon, but not at once. */
const holders = (url: string) =>
  query(
    url,
    "select count(*)::int as n from pg_locks where locktype = 'advisory' and mode = 'ShareLock' and granted",
  ).then(
    rows => rows[0]!.n,
    () => 0,
  );

const pidFile = (at: { dataFolder: string }) => join(at.dataFolder, 'data', 'postmaster.pid');
const postmaster = async (at: { dataFolder: string }) => Number.parseInt(await readFile(pidFile(at), 'utf8'), 10);
const runs = async (at: { dataFolder: string }) =>
  stat(pidFile(at)).then(
    () => true,
    () => false,
  );

function appearance(folder: string, prefix: string): Promise<void> {
  return new Promise(done => {
    const watcher = watch(folder, (_, name) => {
      if (name?.startsWith(prefix)) done();
    });
    onTestFinished(() => watcher.close());
  });
}

describe('a folder in which a server was before', () => {
  const stack = new AsyncDisposableStack();
  let folder: string;
  beforeAll(async () => {
    folder = await serverFolder(0o755, undo => stack.defer(undo));
  });
  afterAll(() => stack.disposeAsync());

  test('the first one starts the server, the others join it, the last one stops it', async () => {
    const first = otherProcess(folder);
    const { url, dataFolder } = await first.joined;
    expect(await first.joined).toEqual({
      url: expect.stringMatching(/^postgres:\/\/shelfdesk:[\w-]{32}@127\.0\.0\.1:\d+\/shelfdesk$/),
      dataFolder: (await isClosed()) ? expect.stringMatching(/\/shelfdesk-[0-9a-f]{12}\/postgres$/) : folder,
      started: true,
    });
    expect(await runs({ dataFolder })).toBe(true);
    const other = otherProcess(folder);
    expect(await other.joined).toEqual({ url, dataFolder, started: false });

    await first.leave();
    expect(await query(url, 'select current_database() as name')).toEqual([{ name: 'shelfdesk' }]);
    await other.leave();
    expect(await runs({ dataFolder })).toBe(false);
  });

  test('the database is UTF-8, in code point order, in UTC, with checksums, for this machine only', async () => {
    const embedded = await joinEmbedded({ folder, settings: { ...settings, application_name: "it's; $HOME" } });
    const rows = await query(
      embedded.url,
      `select pg_encoding_to_char(encoding) as encoding, datlocprovider, datlocale, upper('ä') as upper,
       current_setting('timezone') as timezone, current_setting('data_checksums') as checksums,
       current_setting('listen_addresses') as listen, current_setting('unix_socket_directories') as sockets,
       current_setting('fsync') as fsync, current_setting('application_name') as odd
     from pg_database where datname = current_database()`,
    );
    expect(rows).toEqual([
      {
        encoding: 'UTF8',
        datlocprovider: 'b',
        datlocale: 'C.UTF-8',
        upper: 'Ä',
        timezone: 'UTC',
        checksums: 'on',
        listen: '127.0.0.1',
        sockets: '',
        fsync: 'off',
        odd: "it's; $HOME",
      },
    ]);
    const wrong = embedded.url.replace(/:[\w-]{32}@/, ':guessed@');
    await expect(query(wrong, 'select')).rejects.toThrow('password authentication failed');
    expect((await stat(join(embedded.dataFolder, 'password'))).mode & 0o777).toBe(0o600);
    await embedded.release();
  });

  test('the server outlives a starter that is killed; who comes next joins it', async () => {
    const starter = otherProcess(folder);
    const { url } = await starter.joined;
    await query(url, 'create table kept as select 1 as one');
    await starter.kill();

    const next = await joinEmbedded({ folder, settings });
    expect({ url: next.url, started: next.started }).toEqual({ url, started: false });
    expect(await query(next.url, 'select one from kept')).toEqual([{ one: 1 }]);
    await expect.poll(() => holders(next.url)).toBe(1);
    await next.release();
    expect(await runs(next)).toBe(false);
  });

  test('when everything is killed, the server too, the next one starts it again', long, async () => {
    const starter = otherProcess(folder);
    const before = await starter.joined;
    await query(before.url, 'create table kept_too as select 1 as one');
    await starter.kill();
    process.kill(await postmaster(before), 'SIGKILL');

    const next = await joinEmbedded({ folder, settings });
    expect(next.started).toBe(true);
    expect(await query(next.url, 'select one from kept_too')).toEqual([{ one: 1 }]);
    await next.release();
  });

  test('a number in postmaster.pid that now belongs to another process does not hold up the start', long, async () => {
    const embedded = await joinEmbedded({ folder, settings });
    const left = await readFile(pidFile(embedded), 'utf8');
    await embedded.release();
    const { uid, gid } = await stat(embedded.dataFolder);
    const bystander = spawn('sleep', ['600'], { uid, gid });
    onTestFinished(() => {
      bystander.kill('SIGKILL');
    });
    await once(bystander, 'spawn');
    await writeFile(pidFile(embedded), left.replace(/^\d+/, String(bystander.pid)));

    const again = await joinEmbedded({ folder, settings });
    expect(again.started).toBe(true);
    expect(bystander.kill()).toBe(true);
    await again.release();
  });

  test('many come, go and are killed at the same time; whoever joins has a server', long, async () => {
    const comeAndGo = async (killed: boolean) => {
      for (let round = 0; round < 3; round++) {
        const { url, release } = await joinEmbedded({ folder, settings });
        expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }]);
        await release();
        if (!killed) continue;
        const other = otherProcess(folder);
        await other.joined; // Killed before, it could leave a start behind that ends after this test.
        await other.kill();
      }
    };
    const ends = await Promise.allSettled([false, false, false, true, true].map(comeAndGo));
    expect(ends.filter(({ status }) => status === 'rejected')).toEqual([]);
    const last = await joinEmbedded({ folder, settings });
    await expect.poll(() => holders(last.url)).toBe(1);
    await last.release();
    expect(await runs(last)).toBe(false);
  });

  test('after the crash of a backend everybody holds the server again', long, async () => {
    const staying = await joinEmbedded({ folder, settings });
    const [backend] = await query(
      staying.url,
      `select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()`,
    );
    process.kill(Number(backend!.pid), 'SIGKILL');
    await expect.poll(() => holders(staying.url), { timeout: 60_000 }).toBe(1);

    const passing = await joinEmbedded({ folder, settings });
    await passing.release();
    expect(await runs(staying)).toBe(true);
    await staying.release();
    expect(await runs(staying)).toBe(false);
  });

  test('the loss of the server ends nobody; leaving afterwards is quiet', async () => {
    const embedded = await joinEmbedded({ folder, settings });
    process.kill(await postmaster(embedded), 'SIGKILL');
    await expect.poll(() => query(embedded.url, 'select').catch(error => error.code)).toBe('ECONNREFUSED');
    await embedded.release();
    // The system keeps the shared memory of a server that was killed, until the next one on the folder gives it back.
    const next = await joinEmbedded({ folder, settings });
    expect(next.started).toBe(true);
    await next.release();
  });

  test('leaving twice is leaving once', long, async () => {
    const [one, two] = [await joinEmbedded({ folder, settings }), await joinEmbedded({ folder, settings })];
    await Promise.all([one.release(), one.release()]);
    await one.release();
    expect(await runs(two)).toBe(true);
    await two.release();
    expect(await runs(two)).toBe(false);
  });

  test('a setting that PostgreSQL does not know is reported in its own words', async () => {
    await expect(joinEmbedded({ folder, settings: { ...settings, no_such_setting: '1' } })).rejects.toThrow(
      'unrecognized configuration parameter "no_such_setting"',
    );
  });

  test(
    'a server that was made by looking, or by init, holds no warehouse; one that something was read into does',
    long,
    async () => {
      const server = await joinEmbedded({ folder, settings });
      expect(await holdsRows(folder)).toBe(false);
      const client = new pg.Client({ connectionString: server.url });
      await client.connect();
      await client.query('create schema sync; create table sync.sources (account_id text)');
      expect(await holdsRows(folder)).toBe(false);
      await client.query("insert into sync.sources values ('default')");
      await client.end();
      expect(await holdsRows(folder)).toBe(true);
      await server.release();
      expect(await holdsRows(folder)).toBe(true);
    },
  );
});

test('concurrent starts in an empty folder use one server, and leave nothing else', long, async () => {
  const folder = await serverFolder();
  const starters = Array.from({ length: 4 }, () => otherProcess(folder));
  const joined = await Promise.all(starters.map(starter => starter.joined));
  expect(new Set(joined.map(({ url }) => url)).size).toBe(1);
  const place = await findPlace(folder);
  expect(joined[0]!.dataFolder).toBe(place.home);
  expect((await readdir(dirname(place.home))).sort()).toEqual(allBeside(folder, place));
  await Promise.all(starters.map(starter => starter.leave()));
  expect(await runs(joined[0]!)).toBe(false);
});

test('a starter that is killed half way leaves nothing half-made, and its remains are removed', long, async () => {
  const folder = await serverFolder();
  const place = await findPlace(folder);
  const appeared = appearance(dirname(place.home), 'postgres.new-');
  const starter = otherProcess(folder);
  await appeared;
  await starter.kill();

  const next = await joinEmbedded({ folder, settings });
  expect(next).toMatchObject({ started: true, dataFolder: place.home });
  expect((await readdir(dirname(place.home))).sort()).toEqual(allBeside(folder, place));
  await next.release();
});

test(
  'under a folder that user postgres cannot enter, everything lives in one that it owns; a starter that is killed while it copies the binaries leaves nothing half-made',
  long,
  async context => {
    context.skip(process.geteuid?.() !== 0, 'only for root does PostgreSQL run as another user');
    const folder = await serverFolder(0o700);
    const place = await findPlace(folder);
    await rm(dirname(place.bin), { recursive: true });
    const appeared = appearance(dirname(place.home), 'binaries-');
    const starter = otherProcess(folder);
    await appeared;
    await starter.kill();

    const one = await joinEmbedded({ folder, settings });
    expect(one).toMatchObject({ started: true, dataFolder: place.home });
    expect((await readdir(dirname(place.home))).sort()).toEqual(allBeside(folder, place));
    expect(one.dataFolder).toMatch(/\/shelfdesk-[0-9a-f]{12}\/postgres$/);
    const { mode, uid } = await stat(dirname(one.dataFolder));
    expect([mode & 0o777, uid === 0]).toEqual([0o700, false]);
    const two = await joinEmbedded({ folder, settings });
    expect({ url: two.url, started: two.started }).toEqual({ url: one.url, started: false });
    await one.release();
    expect(await query(two.url, 'select 1 as one')).toEqual([{ one: 1 }]);
    await two.release();
    expect(await runs(two)).toBe(false);
  },
);

test('an interruption leaves no server behind', async () => {
  const folder = await serverFolder();
  const interruption = new AbortController();
  const joining = joinEmbedded({ folder, settings, signal: interruption.signal });
  interruption.abort(new Error('enough'));
  await expect(joining).rejects.toThrow('enough');
  expect(await runs({ dataFolder: (await findPlace(folder)).home })).toBe(false);
});

test('a folder with other content is refused and stays unchanged', async () => {
  const folder = await serverFolder();
  const { home } = await findPlace(folder);
  await mkdir(home);
  await writeFile(join(home, 'thesis.txt'), 'the only copy');
  await expect(joinEmbedded({ folder, settings })).rejects.toMatchObject({
    message: `${home} is not empty and holds no database of ours`,
    remedy: 'Move what is in it elsewhere, or choose another folder.',
  });
  expect(await readdir(home)).toEqual(['thesis.txt']);
  expect(await readFile(join(home, 'thesis.txt'), 'utf8')).toBe('the only copy');
});

test('a machine without binaries is told what to do', async () => {
  const folder = await serverFolder();
  const arch = Object.getOwnPropertyDescriptor(process, 'arch')!;
  onTestFinished(() => {
    Object.defineProperty(process, 'arch', arch);
  });
  Object.defineProperty(process, 'arch', { ...arch, value: 'riscv64' });
  await expect(joinEmbedded({ folder, settings })).rejects.toMatchObject({
    message: expect.stringContaining(`no PostgreSQL binaries for ${process.platform}-riscv64`),
    remedy: expect.stringContaining('Set DATABASE_URL'),
  });
});

test('a folder that cannot be made is reported, not its system call', async () => {
  const folder = await serverFolder();
  await writeFile(folder, 'a file');
  await expect(joinEmbedded({ folder: join(folder, 'inside', 'postgres'), settings })).rejects.toMatchObject({
    message: expect.stringContaining(`the folder ${join(folder, 'inside')} for the embedded PostgreSQL cannot be made`),
    remedy: expect.stringContaining('Set DATABASE_URL'),
  });
  const { home } = await findPlace(folder);
  await writeFile(home, 'a file');
  await expect(joinEmbedded({ folder, settings })).rejects.toMatchObject({
    message: expect.stringMatching(`PostgreSQL cannot be set up in ${folder}: .*${home}`),
    remedy: expect.stringContaining('set DATABASE_URL'),
  });
});
