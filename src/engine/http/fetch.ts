/** Sends one HTTP request and returns the whole reply as text. send.ts decides what to send, and what a reply means. */
import sendRequest from 'undici/lib/api/api-request.js';
import Agent from 'undici/lib/dispatcher/agent.js';
import { type TooLarge, textOf, withinCap } from './read-body.ts';

/** Time-out of a request, in all. If a process dies, the budget holds the credits of its request at least this long. */
export const timeoutMs = 30_000;

export interface RawReply {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
  /** The body was longer than the cap: `text` is empty. */
  tooLarge?: TooLarge;
}

/** Sends one request without a body; the simulation replaces it. Throws on resets and time-outs. Follows no redirect. */
export type Fetch = (url: URL, headers: Record<string, string>, method: 'GET' | 'POST') => Promise<RawReply>;

/** Sends over at most four connections to each host. No body is read further than `capBytes`. */
export function openFetch(capBytes: number): { fetch: Fetch } & AsyncDisposable {
  const agent = new Agent({ connections: 4 });
  const fetch: Fetch = async ({ origin, pathname, search }, headers, method) => {
    // A timer that ends with the request: AbortSignal.timeout() would live on for half a minute after each reply,
    // thousands of timers in a fast first load.
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(new Error(`time-out after ${timeoutMs / 1000} s`)), timeoutMs);
    try {
      const reply = await sendRequest.call(agent, {
        ...{ origin, path: pathname + search, method, headers },
        signal: deadline.signal,
      });
      const announced = Number(reply.headers['content-length']) || 0;
      const body = await withinCap(reply.body, { capBytes, announced }, textOf);
      return { status: reply.statusCode, headers: reply.headers, ...body };
    } finally {
      clearTimeout(timer);
    }
  };
  return { fetch, [Symbol.asyncDispose]: () => agent.close() };
}
