/**
 * Limits the questions of agents: a few are answered concurrently, and a few more wait. Each one ends within the time
 * limit.
 */
import { ShelfdeskError } from '../errors.ts';

const mostAtOnce = 3;
const mostWaiting = 20;
/** Time for the work around a query: its login is created and dropped, and completeness is read. */
const besidesMs = 2000;

/** `ms`: the longest time of a question. */
export function makeTurns(ms: number) {
  let taken = 0;
  const waiting: (() => void)[] = [];
  const running = new Set<Promise<unknown>>();
  const ended = new AbortController();

  const enter = async (signal: AbortSignal): Promise<void> => {
    signal.throwIfAborted();
    if (taken < mostAtOnce) taken += 1;
    else if (waiting.length >= mostWaiting)
      throw new ShelfdeskError('too many questions wait already', 'Ask again in a few seconds.');
    else
      await new Promise<void>((resolve, reject) => {
        const next = () => {
          signal.removeEventListener('abort', leave);
          resolve();
        };
        const leave = () => {
          waiting.splice(waiting.indexOf(next), 1);
          reject(signal.reason);
        };
        waiting.push(next);
        signal.addEventListener('abort', leave, { once: true });
      });
  };
  // The one that ends leaves its place to the next one.
  const leave = () => {
    const next = waiting.shift();
    if (next) next();
    else taken -= 1;
  };

  return {
    /**
     * Works in its turn. Throws ShelfdeskError at the limit of time, if the client is gone, or if too many wait already. `signal`
     * of `work` aborts then. The turn lasts until the work ends.
     */
    async take<T>(client: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
      const until = new AbortController();
      const { signal } = until;
      const stop = () => until.abort(nobodyWaits());
      const either = AbortSignal.any([client, ended.signal]);
      if (either.aborted) stop();
      either.addEventListener('abort', stop, { once: true });
      let timer: NodeJS.Timeout | undefined;
      try {
        await enter(signal);
        timer = setTimeout(() => until.abort(tooLong(ms)), ms + besidesMs);
        const done = begun(signal, work).finally(leave);
        running.add(done);
        done.catch(() => {}).finally(() => running.delete(done));
        return await unlessAborted(signal, done);
      } finally {
        clearTimeout(timer);
        either.removeEventListener('abort', stop);
      }
    },
    /** Aborts all, and resolves when their work has ended. */
    async close(): Promise<void> {
      ended.abort();
      await Promise.allSettled(running);
    },
  };
}

async function begun<T>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  return work(signal);
}

/** Throws the reason of the abort as soon as it comes. */
export async function unlessAborted<T>(signal: AbortSignal, done: Promise<T>): Promise<T> {
  let stop: (() => void) | undefined;
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([done, aborted]);
  } finally {
    signal.removeEventListener('abort', stop!);
  }
}

export const tooLong = (ms: number) =>
  new ShelfdeskError(
    `the question ran longer than ${ms / 1000} s and was ended`,
    'Ask about fewer rows, a shorter time or one account, or read a prepared view of analytics.',
  );

const nobodyWaits = () => new ShelfdeskError('nobody waits for the answer', 'Ask again.');
