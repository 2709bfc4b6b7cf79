/**
 * Sends hand-offs to webhook and command: at least once, in order, with the same id each time. A delivery that fails is
 * retried, and the later ones of its account and channel wait for it. Runs in a loop of its own, so that a slow receiver
 * delays no other work.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import type pg from 'pg';
import type { Logger } from 'pino';
import { commandEnvironment, type HandOffConfig } from '../../app/config.ts';
import type { Clock } from '../../clock.ts';
import type { Ways } from '../../engine/http/ways.ts';
import { keepSending } from '../keep-sending.ts';
import { post, within } from '../webhook.ts';
import {
  type Delivery,
  dueLines,
  holderOf,
  type Line,
  noteDelivered,
  noteUndelivered,
  release,
  takeDelivery,
} from './deliveries.ts';
import { headersOf } from './message.ts';

/** Interval of the look for retries that are due, and for deliveries of a process that died. */
const everyMs = 15_000;
const usual = { webhookMs: 15_000, commandMs: 3_600_000 };
/** Time from SIGTERM to SIGKILL for a command that must end. */
const killMs = 5000;

export interface Deps {
  readonly pg: pg.Pool;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal?: AbortSignal;
  readonly ways?: Ways;
  /** Longest wait for a webhook, and for a command; tests set shorter ones. */
  readonly webhookMs?: number;
  readonly commandMs?: number;
}

/** An account that this process serves, as `worker` of sync.workers. */
export interface Subscriber {
  readonly account: string;
  readonly worker: number;
  readonly handOff: HandOffConfig | undefined;
}

/** A way of delivery that the settings of this process know. */
export interface Way extends Line {
  readonly to: HandOffConfig;
}

export const waysOf = ({ account, worker, handOff: to }: Subscriber): Way[] =>
  to === undefined
    ? []
    : [
        ...(to.webhook ? [{ account, worker, to, channel: 'webhook' }] : []),
        ...(to.command ? [{ account, worker, to, channel: 'command' }] : []),
      ];

/** Sends what is due until it is disposed of; calls `subscribers` for each look. Never throws. */
export const keepHandOffs = (deps: Deps, subscribers: () => readonly Subscriber[]) =>
  keepSending(deps, {
    // A run may have ended since the last take.
    ...{ what: 'hand-offs', everyMs, looksAgain: true },
    async due(isBusy) {
      const idle = subscribers()
        .flatMap(waysOf)
        .filter(way => !isBusy(keyOf(way)));
      const due = await dueLines(deps.pg, idle, new Date(deps.clock.now()));
      return due.map(way => [keyOf(way), way] as const);
    },
    send: (way, signal) => sendAll({ ...deps, signal }, way),
  });

const keyOf = ({ account, channel }: Line) => `${account} ${channel}`;

/** Sends what is due in each way, once. Another process that is sending is left alone. */
export async function sendHandOffs(deps: Deps, ways: readonly Way[]): Promise<void> {
  const due = await dueLines(deps.pg, ways, new Date(deps.clock.now()));
  const done = await Promise.allSettled(due.map(way => sendAll(deps, way)));
  for (const one of done) if (one.status === 'rejected') throw one.reason;
}

/**
 * Sends until nothing is due or a delivery fails. `early`: also what is not due yet. Returns the number of deliveries,
 * and why the next one was not taken.
 */
export async function sendAll(deps: Deps, way: Way, early = false): Promise<{ sent: number; why?: string }> {
  const now = () => new Date(deps.clock.now());
  for (let sent = 0; ; sent++) {
    if (deps.signal?.aborted) return { sent };
    const next = await takeDelivery(deps.pg, way, early ? null : now());
    if (next === undefined) {
      const holder = early ? await holderOf(deps.pg, way) : undefined;
      return holder === undefined ? { sent } : { sent, why: `worker ${holder} is sending it` };
    }
    const why = await deliver(deps, way, next);
    if (why === undefined) await noteDelivered(deps.pg, next, way.worker, now());
    else if (deps.signal?.aborted) await release(deps.pg, next, way.worker);
    else await noteUndelivered(deps.pg, next, way.worker, why, now());
    if (why === undefined) continue;
    if (!deps.signal?.aborted)
      deps.log.warn(
        { account: way.account, run: next.run, channel: way.channel, why },
        'a hand-off was not taken, it is tried again',
      );
    return { sent, why };
  }
}

/** Returns why it failed: never an address or a secret. */
export function deliver(
  deps: Deps,
  { channel, to }: Way,
  message: Pick<Delivery, 'id' | 'body'>,
): Promise<string | undefined> {
  if (channel !== 'webhook') return run(deps, to.command!, message);
  const { url, secret } = to.webhook!;
  const { id, body } = message;
  const headers = headersOf(secret, id, body, deps.clock.now());
  return post(url, { headers, body }, { ...deps, ms: deps.webhookMs ?? usual.webhookMs });
}

/** Runs the command in a process group of its own, so that all of it ends when its time is over. Its output goes to stderr. */
async function run(
  { signal, commandMs = usual.commandMs }: Deps,
  line: string,
  { id, body }: Pick<Delivery, 'id' | 'body'>,
): Promise<string | undefined> {
  using limit = within(commandMs, signal);
  const notStarted = (error: Error) => `it could not be started (${'code' in error ? error.code : error.message})`;
  let child: ChildProcess;
  try {
    const env = { ...commandEnvironment(), SHELFDESK_HAND_OFF: id };
    child = spawn(line, { shell: true, detached: true, stdio: ['pipe', 2, 2], env });
  } catch (error) {
    return notStarted(error as Error);
  }
  const ended = new Promise<string | undefined>(resolve => {
    child.on('error', error => resolve(notStarted(error)));
    child.on('exit', (code, killed) => {
      resolve(code === 0 ? undefined : killed === null ? `it ended with ${code}` : `it ended by ${killed}`);
    });
  });
  const kill = (how: NodeJS.Signals) => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, how);
    } catch {
      // The process has ended.
    }
  };
  let isStopped = false;
  const stop = () => {
    isStopped = true;
    kill('SIGTERM');
    setTimeout(kill, killMs, 'SIGKILL').unref();
  };
  limit.signal.addEventListener('abort', stop, { once: true });
  if (limit.signal.aborted) stop();
  // A command that does not read its input closes it.
  child.stdin?.on('error', () => {});
  child.stdin?.end(body);
  const why = await ended;
  // Later the number of its process group may be that of another one.
  limit.signal.removeEventListener('abort', stop);
  // A stopped command has failed, even with exit code 0.
  if (isStopped) return limit.isOver() ? `it did not end within ${commandMs / 60_000} min` : 'it was stopped';
  return why;
}
