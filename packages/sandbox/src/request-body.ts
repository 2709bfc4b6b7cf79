/**
 * A request from its socket, with its body. Bodies are what strangers can fill a machine with: one that says that it is
 * too long is not waited for, one of somebody who has no access is read and forgotten, and what is underway for all
 * others together has a limit too. Whoever is answered before the end of the body is listened to for a while yet, for a
 * connection that is closed while data comes in takes back the answer that was sent.
 */
import type { IncomingMessage } from 'node:http';
import { finished } from 'node:stream/promises';
import type { Asked } from './request-reply.ts';

/** What of its body a request needs to be answered. */
export interface Wanted {
  most: number;
  /** Whether it is looked at, if it is not longer. */
  kept: boolean;
}

/** Of bodies that are on their way, over all connections. */
export class Underway {
  readonly most: number;
  bytes = 0;

  constructor(most: number) {
    this.most = most;
  }
}

/** The request as it came, without a body as yet. */
export function headOf(request: IncomingMessage, secure: boolean): Asked {
  const { method = 'GET', url = '/', headers } = request;
  const whole = /^https?:\/\/([^/?#]*)(.*)$/i.exec(url);
  if (whole === null) return { method, url, headers, secure };
  // As to a proxy, which any server takes, with a host that counts more than the header (RFC 9112, 3.2.2).
  const [, host = '', rest = ''] = whole;
  return { method, url: rest.startsWith('/') ? rest : `/${rest}`, headers: { ...headers, host }, secure };
}

/**
 * With the body, or with `tooLong` instead. 'gone': it broke off, so it is nobody's request. 'no room': too much is
 * underway already.
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

/** Takes what still comes of a body that nobody wants, until its end, or that of patience. */
export async function restOf(request: IncomingMessage): Promise<void> {
  request.resume();
  await finished(request, { writable: false, signal: AbortSignal.timeout(LONGEST_REST_MS) }).catch(() => {});
}
