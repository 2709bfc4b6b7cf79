/**
 * Sends what is due, in a loop of its own: a slow receiver delays no other work, and no other receiver. What goes to one receiver waits
 * for what is sent there.
 */
import type { Logger } from 'pino';
import type { Clock } from '../clock.ts';
import { makeBell } from '../engine/notifier.ts';
import { isAway } from '../errors.ts';

interface Sending<T> {
  /** What is sent, for the log: `alarms`. */
  readonly what: string;
  /** Interval of the looks at what is due. */
  readonly everyMs: number;
  /** After a delivery more may be due. */
  readonly looksAgain?: boolean;
  /** What is due, by receiver. Nothing is sent to one that `isBusy`. */
  due(isBusy: (receiver: string) => boolean): Promise<Iterable<readonly [string, T]>>;
  send(due: T, signal: AbortSignal): Promise<unknown>;
}

/** Until it is disposed of. Never throws. */
export function keepSending<T>(
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
  { what, everyMs, looksAgain = false, due, send }: Sending<T>,
) {
  const leaving = new AbortController();
  const { signal } = leaving;
  const bell = makeBell();
  const failed = (error: unknown) => {
    const reason = error instanceof Error ? error.message : String(error);
    if (!signal.aborted) log[isAway(error) ? 'debug' : 'error']({ reason }, `${what} could not be looked after`);
  };
  /** The running deliveries, by receiver. */
  const busy = new Map<string, Promise<void>>();
  const isBusy = (receiver: string) => busy.has(receiver);
  const sendTo = async (receiver: string, one: T) => {
    const isDone = await send(one, signal).then(() => true, failed);
    busy.delete(receiver);
    if (isDone && looksAgain) bell.ring();
  };
  const looking = (async () => {
    while (!signal.aborted) {
      const rung = bell.next();
      try {
        for (const [receiver, one] of await due(isBusy))
          if (!isBusy(receiver)) busy.set(receiver, sendTo(receiver, one));
      } catch (error) {
        failed(error);
      }
      await clock.sleep(everyMs, AbortSignal.any([signal, rung])).catch(() => {});
    }
    await Promise.all(busy.values());
  })();
  return {
    /** Something may be due. */
    ring: () => bell.ring(),
    async [Symbol.asyncDispose](): Promise<void> {
      leaving.abort();
      await looking;
    },
  };
}
