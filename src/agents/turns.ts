/** Lets a few agents be answered at the same time, and a few more wait. */
import { exitCodes, ShelfdeskError } from '../errors.ts';

const mostAtOnce = 3;
const mostWaiting = 20;

export type Turn = <T>(work: () => Promise<T>) => Promise<T>;

/** Throws ShelfdeskError if too many wait already. */
export function makeTurns(): Turn {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async work => {
    if (running < mostAtOnce) running += 1;
    else if (waiting.length >= mostWaiting)
      throw new ShelfdeskError('too many questions wait already', 'Ask again in a few seconds.', exitCodes.failed);
    // The one that ends leaves its place to the next one.
    else await new Promise<void>(resolve => waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running -= 1;
    }
  };
}
