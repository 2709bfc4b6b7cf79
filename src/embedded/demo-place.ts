/**
 * The place of the demo: `.shelfdesk/demo`, with a PostgreSQL server of its own and a state file. The file says how the
 * sandbox of the running demo is reached, so that other commands in the same folder work against it.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, realpathSync } from 'node:fs';
import { chmod, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { relocatedName, stagingName, temporaryFolders, unless } from './place.ts';

/** Name of the account that the demo mirrors. */
export const demoAccount = 'demo';

/** How a running demo is reached. */
export interface Running {
  readonly pid: number;
  /** Answers 200 to this token, which no other server knows. */
  readonly url: string;
  readonly token: string;
  /** Settings of the account, by name. */
  readonly settings: Readonly<Record<string, string>>;
}

export interface Demo {
  /** Holds `state.json` and `postgres`. */
  readonly folder: string;
  /** Undefined if the demo has ended. Its data stays. */
  readonly running: Running | undefined;
}

const stateOf = (demo: Pick<Demo, 'folder'>): string => join(demo.folder, 'state.json');
export const databaseOf = (demo: Pick<Demo, 'folder'>): string => join(demo.folder, 'postgres');

/** The place of the demo in this working folder, whether or not it was ever run. */
export const demoPlace = (folder: string): Demo => ({
  folder: join(resolve(folder), '.shelfdesk', 'demo'),
  running: undefined,
});

/** The demo of this working folder; undefined if none was run here, or it was removed. */
export async function findDemo(folder: string): Promise<Demo | undefined> {
  const demo = demoPlace(folder);
  const text = await readFile(stateOf(demo), 'utf8').catch(unless('ENOENT', 'ENOTDIR'));
  if (text === undefined) return undefined;
  const state = readState(text);
  return { ...demo, running: state && (await answers(state)) ? state : undefined };
}

function readState(text: string): Running | undefined {
  try {
    const state = JSON.parse(text) as Running;
    return typeof state.url === 'string' && typeof state.settings === 'object' ? state : undefined;
  } catch {
    return undefined;
  }
}

/** The process of the file may have died, and another program may have its port: only this demo knows the token. */
async function answers({ url, token }: Running): Promise<boolean> {
  const { get } = await import('node:http');
  return new Promise(done => {
    const asked = get(url, { headers: { Authorization: `Bearer ${token}` }, timeout: 5000 }, reply => {
      reply.resume();
      done(reply.statusCode === 200);
    });
    asked.on('timeout', () => asked.destroy());
    asked.on('error', () => done(false));
    asked.on('close', () => done(false));
  });
}

export const makeDemoToken = (): string => randomBytes(24).toString('base64url');

/** Only the user can read the file, because it has the tokens of the sandbox. */
export async function announceDemo(demo: Pick<Demo, 'folder'>, running: Running): Promise<void> {
  await mkdir(demo.folder, { recursive: true });
  const staging = stagingName(stateOf(demo));
  await writeFile(staging, JSON.stringify(running), { mode: 0o600 });
  await chmod(staging, 0o600);
  await rename(staging, stateOf(demo));
}

/** Whether an embedded server has data for this folder, there or in the temporary directory. */
export function hasEmbedded(folder: string): boolean {
  if (existsSync(join(folder, 'data'))) return true;
  if (!existsSync(dirname(folder))) return false;
  const name = relocatedName(join(realpathSync(dirname(folder)), basename(folder)));
  return temporaryFolders().some(one => existsSync(join(one, name, 'postgres', 'data')));
}
