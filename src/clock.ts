/**
 * Time comes in as an argument everywhere, so that the same code runs in a simulation on a virtual clock.
 * This file is the only one that reads the machine's clocks.
 */
import { setTimeout as delay } from 'node:timers/promises';

export interface Clock {
  /** Wall clock of this machine, in milliseconds since 1970. Never used to judge the source: see `as_of` in http/send. */
  now(): number;
  /** A clock that only goes forward, in milliseconds, for durations. */
  monotonic(): number;
  /** Resolves after `ms`; rejects with the signal's reason as soon as it aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: async (ms, signal) => {
    try {
      await delay(ms, undefined, signal ? { signal } : {});
    } catch (error) {
      throw signal?.aborted ? signal.reason : error;
    }
  },
};
