/**
 * Reads a request and its body from the socket, with bounded memory. A body whose Content-Length is too long is not read.
 * A body without access is read and dropped. All other bodies in progress share one limit. After an early answer the
 * rest of the body is still drained: closing a connection with unread data resets it, and the client loses the answer.
 */
import type { IncomingMessage } from 'node:http';
import { finished } from 'node:stream/promises';
import type { Asked } from './request-reply.ts';

/** How much of the body the answer needs. */
export interface Wanted {
  /** Longest body in bytes. */
  most: number;
  /** Whether to keep the body; otherwise it is read and dropped. */
  kept: boolean;
}

/** Bytes of bodies in progress over all connections, and their limit. */
export class Underway {
  readonly most: number;
  bytes = 0;

  constructor(most: number) {
    this.most = most;
  }
}

/** The request without its body. */
export function headOf(request: IncomingMessage, secure: boolean): Asked {
  const { method = 'GET', url = '/', headers } = request;
  const whole = /^https?:\/\/([^/?#]*)(.*)$/i.exec(url);
  if (whole === null) return { method, url, headers, secure };
  // Absolute form, as sent to proxies: its host overrides the Host header (RFC 9112, 3.2.2).
  const [, host = '', rest = ''] = whole;
  return { method, url: rest.startsWith('/') ? rest : `/${rest}`, headers: { ...headers, host }, secure };
}

/**
 * The request with its body, or with `tooLong`. 'gone': the client broke off. 'no room': the bodies in progress have
 * reached their common limit.
 */
export async function received(
  request: IncomingMessage,
  head: Asked,
  { most, kept }: Wanted,
  underway: Underway,
): Promise<Asked | 'gone' | 'no room'> {
  if (Number(request.headers['content-length'] ?? 0) > most) return { ...head, tooLong: true };
  const chunks: Buffer[] = [];
  let length = 0;
  let held = 0;
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      length += chunk.length;
      if (length > most) return { ...head, tooLong: true };
      if (!kept) continue;
      if (underway.bytes + chunk.length > underway.most) return 'no room';
      chunks.push(chunk);
      held += chunk.length;
      underway.bytes += chunk.length;
    }
    return { ...head, body: Buffer.concat(chunks) };
  } catch {
    return 'gone';
  } finally {
    underway.bytes -= held;
  }
}

const LONGEST_REST_MS = 10_000;

/** Drains the rest of the body, for at most ten seconds. */
export async function restOf(request: IncomingMessage): Promise<void> {
  request.resume();
  await finished(request, { writable: false, signal: AbortSignal.timeout(LONGEST_REST_MS) }).catch(() => {});
}
