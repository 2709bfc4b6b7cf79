/**
 * Creates, inspects, starts and stops one PostgreSQL data folder. Any number of processes may do so concurrently, no
 * process is in charge, and each may be killed at any line. So no lock of ours guards anything: a folder is created as
 * a sibling and renamed into place, and PostgreSQL's own `postmaster.pid` and shared memory decide whether a second
 * server may start.
 */
import { randomBytes } from 'node:crypto';
import { lchown, link, mkdir, readFile, readlink, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ShelfdeskError } from '../errors.ts';
import { isRunning, type Outcome, type Place, putInPlace, run, stagingName, sweepStaging, unless } from './place.ts';

export type Settings = Record<string, string>;

/** `busy`: the server is starting or stopping; check again later. */
export type Server = { state: 'down' } | { state: 'busy' } | { state: 'ready'; port: number };

/** About two minutes, with pauses that grow to one second: longer than a recovery or a slow stop takes. */
export const maxLooks = 130;
export const pauseMs = (attempt: number): number => Math.min(1000, 20 * 1.5 ** attempt);

const dataOf = (place: Pick<Place, 'home'>): string => join(place.home, 'data');

/** Creates the data folder if missing. Two concurrent processes both create one, and the first rename wins. */
export async function ensureCluster(place: Place, settings: Settings): Promise<void> {
  refuseShellCharacters(place);
  const written = await readFile(join(dataOf(place), 'PG_VERSION'), 'utf8').catch(error => {
    if (error.code === 'EACCES') throw notOurs(place, error);
    unless('ENOENT')(error);
  });
  if (written === undefined) {
    await initialise(place, settings);
  } else if (written.trim() !== place.version.split('.')[0]) {
    throw new ShelfdeskError(
      `the database in ${place.home} was written by PostgreSQL ${written.trim()}, and this is ${place.version}`,
      'Move that folder away (its contents can be read again from the sources), or serve it with its own PostgreSQL and set DATABASE_URL.',
    );
  }
}

async function initialise(place: Place, settings: Settings): Promise<void> {
  const staging = stagingName(place.home);
  const password = join(staging, 'password');
  try {
    await mkdir(staging, { mode: 0o700 });
    await writeFile(password, randomBytes(24).toString('base64url'), { mode: 0o600 });
    if (place.account) for (const path of [staging, password]) await lchown(path, place.account.uid, place.account.gid);
    const made = await run(join(place.bin, 'initdb'), initdbArgs(staging, settings), place.account);
    if (made.code !== 0) throw failed(`the database in ${place.home} cannot be made`, made);
    await putInPlace(staging, place.home);
  } catch (error) {
    await rm(staging, { recursive: true, force: true });
    throw error;
  }
  // If another process was faster, the folder holds a cluster. Otherwise the folder has other content.
  await stat(join(dataOf(place), 'PG_VERSION')).catch(cause => {
    throw new ShelfdeskError(
      `${place.home} is not empty and holds no database of ours`,
      'Move what is in it elsewhere, or choose another folder.',
      { exitCode: undefined, cause },
    );
  });
}

const initdbArgs = (staging: string, settings: Settings): string[] => [
  `--pgdata=${join(staging, 'data')}`,
  '--username=shelfdesk',
  `--pwfile=${join(staging, 'password')}`,
  '--auth=scram-sha-256',
  '--encoding=UTF8',
  // Code point order with Unicode case mapping: the same on every machine, whatever its locales.
  '--locale=C',
  '--locale-provider=builtin',
  '--builtin-locale=C.UTF-8',
  '--no-instructions',
  ...(settings.fsync === 'off' ? ['--no-sync'] : []),
];

export async function readPassword(place: Place): Promise<string> {
  try {
    return await readFile(join(place.home, 'password'), 'utf8');
  } catch (error) {
    throw notOurs(place, error);
  }
}

const notOurs = (place: Place, cause: unknown): ShelfdeskError =>
  new ShelfdeskError(
    `the database in ${place.home} cannot be read: ${(cause as Error).message}`,
    'Run Shelfdesk as the user who made it, choose another folder, or set DATABASE_URL.',
    { exitCode: undefined, cause },
  );

/** Reads `postmaster.pid` and checks the process that it names. */
export async function look(place: Pick<Place, 'home'>): Promise<Server> {
  const { text, pid } = await pidFile(place);
  if (text === undefined || (pid !== undefined && !(await isPostmaster(pid, dataOf(place))))) return { state: 'down' };
  const lines = text.split('\n');
  const port = Number(lines[3]);
  return lines[7]?.trim() === 'ready' && port > 0 ? { state: 'ready', port } : { state: 'busy' };
}

/** No text: the file does not exist. No pid: PostgreSQL has created the file but not written it yet. */
// @internal Tests find the processes of a cluster that they started or kill.
export async function pidFile(place: Pick<Place, 'home'>): Promise<{ text?: string; pid?: number }> {
  const text = await readFile(join(dataOf(place), 'postmaster.pid'), 'utf8').catch(unless('ENOENT'));
  if (text === undefined) return {};
  const pid = Number.parseInt(text, 10);
  return pid > 0 ? { text, pid } : { text };
}

/**
 * Whether this process is the server of this folder. The process id alone does not tell: after a restart of the machine
 * or container, another process may have the id of a stale file.
 */
async function isPostmaster(pid: number, data: string): Promise<boolean> {
  if (!isRunning(pid)) return false;
  const state = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  // A zombie: it was killed, and the first process of the container does not collect orphans.
  if (state && /^\d+ \(.*\) [ZX]/s.test(state)) return false;
  const folder = await readlink(`/proc/${pid}/cwd`).catch(() => undefined);
  if (folder !== undefined) return folder === (await realpath(data));
  const { code, output } = await run('ps', ['-o', 'command=', '-p', String(pid)]);
  return code !== 0 || output.includes('postgres');
}

/**
 * Starts the server on a free port. A failure throws no exception, because another process may have started the server
 * meanwhile.
 */
export async function start(place: Place, settings: Settings): Promise<Outcome> {
  await sweepStaging(place.home);
  await removeStalePidFile(place);
  const log = join(place.home, 'log');
  const all: Settings = {
    // Sized for a machine with other work, but above PostgreSQL's defaults, which fit a very small one. A first load
    // writes much, and each first change of a page after a checkpoint logs the whole page.
    shared_buffers: '256MB',
    max_wal_size: '4GB',
    unix_socket_directories: '',
    ...settings,
    listen_addresses: '127.0.0.1',
    port: String(await freePort()),
  };
  const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
  const options = Object.entries(all).map(([name, value]) => `-c ${quote(`${name}=${value}`)}`);
  const args = ['start', '-w', '-t', '60', '-s', '-D', dataOf(place), '-l', log, '-o', options.join(' ')];
  const outcome = await run(join(place.bin, 'pg_ctl'), args, place.account);
  if (outcome.code === 0) return outcome;
  const said = await readFile(log, 'utf8').catch(() => '');
  return { code: outcome.code, output: [outcome.output, ...said.trimEnd().split('\n').slice(-6)].join('\n') };
}

/** PostgreSQL's programs pass these paths to a shell in double quotes. */
function refuseShellCharacters(place: Place): void {
  if (!/["$`\\\n]/.test(place.home + place.bin)) return;
  throw new ShelfdeskError(
    `PostgreSQL cannot run in ${place.home}: its path, or that of the binaries, has one of " $ \` \\ in it`,
    'Move the project to a folder without these characters, or set DATABASE_URL.',
  );
}

/**
 * PostgreSQL ignores a `postmaster.pid` of a dead process, but not one whose id belongs to another process now. This
 * function moves such a file away and checks it once more: if it belongs to a new server, the file goes back. No third
 * server can start meanwhile, because servers also find each other by shared memory.
 */
async function removeStalePidFile(place: Place): Promise<void> {
  const { text, pid } = await pidFile(place);
  if (!text || !pid || !isRunning(pid) || (await isPostmaster(pid, dataOf(place)))) return;
  const path = join(dataOf(place), 'postmaster.pid');
  const away = stagingName(path);
  await rename(path, away).catch(unless('ENOENT'));
  const moved = await readFile(away, 'utf8').catch(unless('ENOENT'));
  if (moved !== undefined && moved !== text) await link(away, path).catch(unless('EEXIST'));
  await rm(away, { force: true });
}

/** A port that is free now. If another program takes it first, the start fails and is retried. */
// @internal Tests start servers of their own.
export function freePort(): Promise<number> {
  return new Promise((done, fail) => {
    const server = createServer();
    server.on('error', fail);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => done(typeof address === 'object' && address ? address.port : 0));
    });
  });
}

/**
 * Stops the server and waits for its end. Does not wait through `pg_ctl`, because that waits for any server on the
 * folder, and another process may start a new one in between.
 */
export async function stop(place: Place): Promise<void> {
  const { pid } = await pidFile(place);
  if (pid === undefined) return;
  const args = ['stop', '-W', '-s', '-m', 'fast', '-D', dataOf(place)];
  const told = await run(join(place.bin, 'pg_ctl'), args, place.account);
  for (let attempt = 0; attempt < maxLooks; attempt++) {
    if ((await pidFile(place)).pid !== pid || !(await isPostmaster(pid, dataOf(place)))) return;
    await delay(pauseMs(attempt));
  }
  throw failed(`the PostgreSQL server in ${place.home} does not stop`, told);
}

export function failed(what: string, { code, output }: Outcome, cause?: unknown): ShelfdeskError {
  if (output.includes('No space left on device'))
    return new ShelfdeskError(
      `${what}: its disk is full`,
      'Free space on that disk, and run the same command again: nothing that was stored is lost.',
      { exitCode: undefined, cause },
    );
  // A shell exits with 126 or 127 if the program, or one of its libraries, cannot be loaded.
  const remedy =
    code === 126 || code === 127
      ? 'Its binaries do not run here; `npm rebuild` puts the links between their libraries right. Or set DATABASE_URL.'
      : 'Put right what it complains of and run the same command again, or set DATABASE_URL.';
  // The errors stand at the end of the output.
  const words = output.split('\n').slice(-8).join('\n');
  return new ShelfdeskError(`${what}: ${words}`, remedy, { exitCode: undefined, cause });
}
