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
  /** As it came; cut where it was longer than any service takes. */
  body?: Buffer;
}

export interface Reply {
  status: number;
  headers: Record<string, string>;
  text: string;
  /** Only on purpose: where the connection breaks, and how long the reply lies about before it is sent. */
  broken?: 'before' | 'headers' | 'half';
  delay_ms?: number;
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

/** Writes a request down; of many the last 100,000 stay. Older ones go by the thousand, for that moves all others. */
export function keep(requests: SeenRequest[], seen: SeenRequest): void {
  if (requests.push(seen) > KEPT_REQUESTS + 10_000) requests.splice(0, 10_000);
}
