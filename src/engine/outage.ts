/** The one loop in which something is tried again because the database, Redis or the way to them is away. */
import { isAway } from '../errors.ts';

/**
 * Tries `work` until it is done, or fails for a reason that does not pass. Between two tries `pause` says why, and waits; what
 * it throws ends the trying.
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
