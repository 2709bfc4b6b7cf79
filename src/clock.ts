/**
 * Clock of the process. All code takes a clock as an argument, so that the same code runs in a simulation on virtual time.
 * Only this file reads the machine's clocks.
 */
import { setTimeout as delay } from 'node:timers/promises';

export interface Clock {
  /** Wall clock of this machine, in milliseconds since 1970. Times of the source use `as_of` in http/send instead. */
  now(): number;
  /** Monotonic clock in milliseconds, for durations. */
  monotonic(): number;
  /** Resolves after `ms`; rejects with the signal's reason as soon as it aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** A longer timer would end at once. */
const longestTimerMs = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: async (ms, signal) => {
    const untilMs = performance.now() + ms;
    try {
      // A timer counts from the last turn of the event loop, so it may end a little early.
      do
        await delay(
          Math.min(longestTimerMs, Math.ceil(untilMs - performance.now())),
          undefined,
          signal ? { signal } : {},
        );
      while (performance.now() < untilMs);
    } catch (error) {
      throw signal?.aborted ? signal.reason : error;
    }
  },
};
