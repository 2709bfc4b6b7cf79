/** The one loop that retries work while the database, Redis or the network is away. */
import { isAway } from '../errors.ts';

/**
 * Tries `work` until it succeeds, or fails for a reason that does not pass. Between two tries `pause` reports the
 * reason and waits. An error of `pause` ends the loop.
 */
export async function untilBack<T>(
  work: () => Promise<T>,
  pause: (error: Error, tries: number) => Promise<void>,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (!isAway(error)) throw error;
      await pause(error, tries);
    }
  }
}
