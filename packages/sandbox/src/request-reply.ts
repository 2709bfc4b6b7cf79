/** What goes into a service and what comes out of it, without a socket, and the log of it: the same for both services. */
import type { ClientName, Outcome } from './clients.ts';

export interface Asked {
  method: string;
  /** Path and query, as in the request line. */
  url: string;
  /** Names in lower case. */
  headers: Record<string, string | string[] | undefined>;
  /** Whether it came over HTTPS. */
  secure?: boolean;
  /** As it came; of somebody without access it may be left away. */
  body?: Buffer;
  /** Whether there was a body that is longer than the service takes; it is left away. */
  tooLong?: boolean;
}

export interface Reply {
  status: number;
  headers: Record<string, string>;
  text: string;
  /** Only on purpose: where the connection breaks, and how long the reply lies about before it is sent. */
  broken?: 'before' | 'headers' | 'half';
  delay_ms?: number;
  /** Its Date, or that it has none, is on purpose, and no concern of a delay. */
  dated?: boolean;
}

export interface SeenRequest {
  method: string;
  /** Below the base address, for example '/tickets/ab12'. */
  path: string;
  query: URLSearchParams;
  /** What it used of what is limited: credits, or requests of the day. */
  cost: number;
  at: number;
  client?: ClientName;
  outcome?: Outcome;
  /** Of the answer, before anything went wrong with it on purpose or an envelope hid it. */
  status?: number;
  /** The ids of the rules by which something went wrong with it. */
  rules?: string[];
}

/** What stands before the path in links and in `Location`: what the client itself has asked. */
export function originOf({ headers, secure = false }: Asked, host: string): string {
  return `${secure ? 'https' : 'http'}://${headers.host ?? host}`;
}

/** A path below the base address keeps only what is below it; any other stays as it is, and leads nowhere. */
export function takeApart(url: string, base: string): { path: string; query: URLSearchParams; below: boolean } {
  const [path = '', ...query] = url.split('?');
  const below = path.startsWith(`${base}/`);
  return { path: below ? decoded(path.slice(base.length)) : path, query: new URLSearchParams(query.join('?')), below };
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

const KEPT_REQUESTS = 100_000;

/** Of what strangers send. */
const LONGEST_NOTE = 500;

/** Writes a request down; of many the last 100,000 stay. Older ones go ten thousand at a time, for that moves all others. */
export function keep(requests: SeenRequest[], seen: SeenRequest): void {
  if (requests.push(noted(seen)) > KEPT_REQUESTS + 10_000) requests.splice(0, 10_000);
}

/**
 * With a path and a query of as many characters as anybody has use for. All of them are copies: those of a query that is
 * short now may have been cut from a long line of nothing but ampersands.
 */
function noted(seen: SeenRequest): SeenRequest {
  return { ...seen, path: cut(seen.path, LONGEST_NOTE), query: cutQuery(seen.query) };
}

function cutQuery(query: URLSearchParams): URLSearchParams {
  const kept: [name: string, value: string][] = [];
  let room = LONGEST_NOTE;
  for (const [name, value] of query) {
    if (room <= 0) break;
    kept.push([cut(name, room), cut(value, Math.max(0, room - name.length))]);
    room -= name.length + value.length + 2;
  }
  return new URLSearchParams(kept);
}

/** A copy: a slice would hold on to the whole text that it is of. */
export function cut(text: string, most: number): string {
  return Buffer.from(text.slice(0, most), 'utf16le').toString('utf16le');
}
