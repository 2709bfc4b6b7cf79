/** `start` as processes of their own, killed at random, and which requests were paid for more than once. */

import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import type { World } from '../../packages/sandbox/src/helpdesk/world/world.ts';
import { pick, type Rng } from '../../packages/sandbox/src/random.ts';
import type { SeenRequest } from '../../packages/sandbox/src/server.ts';
import { mostTogether } from '../../src/engine/load/commit-queue.ts';
import { type Finished, shelfdesk } from './cli.ts';

/** A crash costs these replies at most: those that are committed, those that wait, and the one that is asked for. */
export const inFlight = 2 * mostTogether + 1;

export interface WorkerProcess {
  /** Its number in sync.workers, once it is at work. */
  readonly id: Promise<number>;
  readonly finished: Promise<Finished>;
  kill(signal: NodeJS.Signals): void;
}

export function startWorker(env: Record<string, string>): WorkerProcess {
  const { process, finished } = shelfdesk(['start'], env);
  const id = new Promise<number>((resolve, reject) => {
    let said = '';
    process.stderr!.on('data', chunk => {
      said += chunk;
      const number = /^Worker (\d+) is running/m.exec(said)?.[1];
      if (number) resolve(Number(number));
    });
    finished.then(({ code, stderr }) => reject(new Error(`start ended with ${code} before it worked: ${stderr}`)));
  });
  id.catch(() => {}); // Whoever needs it hears of it; one that is killed early is no news.
  return { id, finished, kill: signal => process.kill(signal) };
}

/** From the signal until the sandbox has seen the last request of the killed process. */
export interface Kill {
  readonly atMs: number;
  readonly overMs: number;
}

/** Kills a random worker now and then, and starts another one immediately. */
export async function killAtRandom(
  workers: WorkerProcess[],
  start: () => WorkerProcess,
  { everyMs, forMs, rng }: { everyMs: number; forMs: number; rng: Rng },
): Promise<Kill[]> {
  const kills: Kill[] = [];
  for (const until = Date.now() + forMs; Date.now() + everyMs <= until; ) {
    await delay(everyMs);
    const victim = pick(rng, workers);
    const atMs = Date.now();
    victim.kill('SIGKILL');
    await victim.finished;
    // The sandbox lives in this process: after some turns of its loop it has read what the dead process sent.
    for (let turn = 0; turn < 10; turn++) await setImmediate();
    kills.push({ atMs, overMs: Date.now() });
    workers[workers.indexOf(victim)] = start();
  }
  return kills;
}

export interface Asked {
  readonly atMs: number;
  readonly path: string;
  readonly query: string;
  /** Of a ticket that was asked for by id: which version of it the reply showed, and of when that is. */
  readonly version?: number;
  readonly updatedMs?: number;
}

/** For the sandbox's `before`. */
export function askedOf({ path, query, at }: SeenRequest, world: World): Asked {
  const ticket = world.tickets.get(/^\/tickets\/(.+)$/.exec(path)?.[1] ?? '');
  const shown = ticket && { version: ticket.touched, updatedMs: Date.parse(ticket.updated_at) };
  return { atMs: at, path, query: query.toString(), ...shown };
}

export interface Again {
  readonly what: string;
  readonly firstMs: number;
  readonly againMs: number;
  /** A kill lies between the two. */
  readonly afterKill: boolean;
  readonly kind:
    | 'ticket'
    /** It was asked for within the seconds of its change, when no reply can be known to be later than the change. */
    | 'unripe ticket'
    /** For the name of a label or an inbox, which ride along with a ticket. */
    | 'name'
    | 'page'
    /** SPEC I8: a tie of tickets with one update time is read by pages, there and back, and after a kill anew. */
    | 'tie'
    /** SPEC I8: the search for the end of a long list of customers. */
    | 'search';
}

/** What every run reads again: the lookback of two minutes, and a minute for a pause. */
const topMs = 180_000;

/**
 * What was asked twice although nothing had changed: a ticket in the same version, a page of a list below its top. The
 * top of a list is read again and again by the schedule.
 */
export function askedAgain(asked: readonly Asked[], kills: readonly Kill[]): Again[] {
  const first = new Map<string, Asked>();
  /** Lists of tickets that more than page 1 was asked of. */
  const ties = new Set<string>();
  const again: Again[] = [];
  for (const one of asked) {
    const since = /since_(?:updated|created)_at=([^&]+)/.exec(one.query)?.[1];
    if (since !== undefined && Date.parse(decodeURIComponent(since)) > one.atMs - topMs) continue;
    const what = one.version === undefined ? `${one.path}?${one.query}` : `${one.path} ${one.version}`;
    const list = one.path === '/tickets' && one.query.replace(/\bpage=\d+/, '');
    if (list && !/\bpage=1\b/.test(one.query)) ties.add(list);
    const before = first.get(what);
    if (before !== undefined) {
      const afterKill = kills.some(({ atMs, overMs }) => before.atMs <= overMs && atMs <= one.atMs);
      const kind = list && ties.has(list) ? 'tie' : kindOf(before, one);
      again.push({ what, firstMs: before.atMs, againMs: one.atMs, afterKill, kind });
    }
    first.set(what, one);
  }
  return again;
}

function kindOf(before: Asked, one: Asked): Again['kind'] {
  if (one.version === undefined) return /^page=1&per_page=0|count=true/.test(one.query) ? 'search' : 'page';
  if (/embed=[^&]*(labels|inbox)/.test(one.query)) return 'name';
  // A reply is true as of its Date, a second's grain and a second before.
  return Math.floor(before.atMs / 1000) * 1000 - 2000 < before.updatedMs! ? 'unripe ticket' : 'ticket';
}
