/** Posts messages to webhooks of the operator. */
import request from 'undici/lib/api/api-request.js';
import Agent from 'undici/lib/dispatcher/agent.js';
import { noAnswer } from '../engine/http/causes.ts';
import { proxyFor } from '../engine/http/proxies.ts';
import type { Ways } from '../engine/http/ways.ts';

/** Longest answer that is read, in bytes, so that the connection can be kept. Its content is ignored. */
const answerBytes = 16_384;

const direct = new Agent();

interface How {
  /** The longest wait. */
  readonly ms: number;
  readonly ways?: Ways;
  readonly signal?: AbortSignal;
}

/** Returns why it was not taken: never the address, which is a secret. */
export async function post(
  url: URL,
  { headers, body }: { headers: Record<string, string>; body: string },
  { ms, ways, signal }: How,
): Promise<string | undefined> {
  using limit = within(ms, signal);
  try {
    // A redirect is not followed: the message is for this address.
    const { origin, pathname, search } = url;
    const reply = await request.call(ways?.to(url) ?? direct, {
      ...{ origin, path: pathname + search, method: 'POST', headers, body, signal: limit.signal },
    });
    // The status has answered. A body that is long, slow or broken changes nothing.
    await reply.body.dump({ limit: answerBytes, signal: limit.signal }).catch(() => {});
    const isTaken = reply.statusCode >= 200 && reply.statusCode < 300;
    return isTaken ? undefined : `it answered with ${reply.statusCode}`;
  } catch (error) {
    if (limit.isOver()) return `no answer within ${ms / 1000} s`;
    return noAnswer(error, ways && proxyFor(url, ways.proxies));
  }
}

/** A signal that aborts after this time, or with the other one. */
export function within(ms: number, other: AbortSignal | undefined) {
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(), ms);
  return {
    signal: other ? AbortSignal.any([deadline.signal, other]) : deadline.signal,
    isOver: () => deadline.signal.aborted,
    [Symbol.dispose]: () => clearTimeout(timer),
  };
}
