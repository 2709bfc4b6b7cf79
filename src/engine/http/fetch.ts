/** Sends one HTTP request and returns the whole reply as text. send.ts decides what to send, and what a reply means. */
import sendRequest from 'undici/lib/api/api-request.js';
import { decodedBody, textOf, Undecodable } from './decoded.ts';
import { type TooLarge, withinCap } from './read-body.ts';
import type { Ways } from './ways.ts';

/** Time-out of a request, in all. If a process dies, the budget holds the credits of its request at least this long. */
export const timeoutMs = 30_000;

export interface RawReply {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  /** Empty if the body could not be decoded. */
  text: string;
  /** The same in UTF-8, as it came. */
  bytes?: Buffer | undefined;
  /** U+FFFD stands for bytes that are not UTF-8. */
  notUtf8?: true;
  undecoded?: Undecodable;
  /** The body was longer than the cap: `text` is empty. */
  tooLarge?: TooLarge;
}

/** Sends one GET; the simulation replaces it. Throws on resets and time-outs. Follows no redirect. */
export type Fetch = (url: URL, headers: Record<string, string>) => Promise<RawReply>;

/** Sends over these connections. No body is read further than `capBytes`, decoded. */
export function fetchOver(ways: Pick<Ways, 'to'>, capBytes: number): Fetch {
  return async (url, headers) => {
    const { origin, pathname, search } = url;
    // A timer that ends with the request: AbortSignal.timeout() would live on for half a minute after each reply,
    // thousands of timers in a fast first load.
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(new Error(`time-out after ${timeoutMs / 1000} s`)), timeoutMs);
    try {
      const reply = await sendRequest.call(ways.to(url), {
        ...{ origin, path: pathname + search, method: 'GET', headers },
        signal: deadline.signal,
      });
      const { statusCode: status, headers: said } = reply;
      const announced = Number(said['content-length']) || 0;
      const body = decodedBody(reply.body, String(said['content-encoding'] ?? ''));
      const read = await withinCap(body, { capBytes, announced }, textOf).catch(error => {
        // Where the status refuses, it says more than the body.
        if (error instanceof Undecodable) return { text: '', undecoded: error };
        throw error;
      });
      return { status, headers: said, ...read };
    } finally {
      clearTimeout(timer);
    }
  };
}
