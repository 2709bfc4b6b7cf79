/**
 * The way to the help desk: a request arrives a while after it was sent, is answered by the sandbox in process, and its
 * reply comes back later still. The data is read first and the Date written afterwards, with the world moving on between.
 * What was sent arrives also when its sender is dead by then.
 */

import type { Fetch, RawReply } from '../../../src/engine/http/fetch.ts';
import { BooksService } from '../../sandbox/src/books/service.ts';
import { between, type Rng } from '../../sandbox/src/random.ts';
import type { Services } from '../../sandbox/src/services.ts';
import { type Actor, actor, type Scheduler } from './scheduler.ts';

/** A request and what was answered, for whoever checks. */
export interface Exchange {
  readonly by: Actor;
  readonly path: string;
  readonly status: number;
  readonly sentMs: number;
  readonly arrivedMs: number;
  /** When its sender had the reply; undefined where it never came. */
  readonly repliedMs: number | undefined;
  readonly headers: Readonly<Record<string, string>>;
}

export interface NetworkOptions {
  readonly scheduler: Scheduler;
  readonly services: Services;
  readonly rng: Rng;
  /** Of a hundred requests so many take seconds. */
  readonly slow: number;
  /** How far the clock that writes `Date` is ahead of the help desk's. */
  readonly edge: () => number;
  readonly arrived: (exchange: Exchange) => void;
}

const timeoutMs = 30_000;
const net = actor('net');

export function networkOf({ scheduler, services, rng, slow, edge, arrived }: NetworkOptions): (by: Actor) => Fetch {
  const someMs = () => (rng() * 100 < slow ? between(rng, 1000, 12_000) : between(rng, 1, 120));
  return by => (url, headers) =>
    new Promise<RawReply>((resolve, reject) => {
      const sentMs = scheduler.nowMs;
      const [there, writing, back] = [someMs(), between(rng, 0, 40), someMs()];
      const asked = { method: 'GET', url: url.pathname + url.search, headers: { ...headers, host: url.host } };
      const shown = `GET ${decodeURIComponent(asked.url)}`;
      scheduler.note(`${by.name} sends ${shown}`);
      scheduler.at(sentMs + there, net, `arrives: ${shown}`, () => {
        const { status, headers: said, text, broken, delay_ms = 0, dated } = services.handle(asked);
        const writtenMs = scheduler.nowMs + writing + delay_ms;
        const takesMs = writtenMs + back - sentMs;
        const late = takesMs > timeoutMs;
        const repliedMs = broken || late ? undefined : writtenMs + back;
        const isCatalog = BooksService.takes(asked.url);
        const { world } = isCatalog ? services.books : services.helpdesk;
        arrived({ by, path: asked.url, status, sentMs, arrivedMs: scheduler.nowMs, repliedMs, headers: said });
        scheduler.at(writtenMs, net, 'written', () => {
          if (said.Date !== undefined && !dated)
            said.Date = new Date(world.clock.now() + (isCatalog ? 0 : edge())).toUTCString();
        });
        const lower = Object.fromEntries(Object.entries(said).map(([name, value]) => [name.toLowerCase(), value]));
        const reply = () => {
          if (late) return reject(new Error(`time-out after ${timeoutMs / 1000} s`));
          if (broken) return reject(Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' }));
          if (said.Date !== undefined) lower.date = said.Date;
          resolve({ status, headers: lower, text });
        };
        const what = late ? 'timed out' : broken ? 'reset' : `${status}, ${text.length} characters`;
        scheduler.at(sentMs + Math.min(takesMs, timeoutMs), by, `${by.name} has the reply: ${what}`, reply);
      });
    });
}
