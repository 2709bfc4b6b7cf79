/** Requests and replies of both services without sockets, and the request log. */
import type { ClientName, Outcome } from '../admission/clients.ts';

export interface Asked {
  method: string;
  /** Path and query, as in the request line. */
  url: string;
  /** Names in lower case. */
  headers: Record<string, string | string[] | undefined>;
  /** Whether the connection is HTTPS. */
  secure?: boolean;
  /** Raw bytes; may be absent for a client without access. */
  body?: Buffer;
  /** Whether the body exceeds the service's limit; `body` is then absent. */
  tooLong?: boolean;
}

export interface Reply {
  status: number;
  headers: Record<string, string>;
  text: string;
  /** Set by faults: where the connection breaks, and the delay of the reply. */
  broken?: 'before' | 'headers' | 'half';
  delay_ms?: number;
  /** Whether a fault has set or dropped Date; a delay then leaves Date alone. */
  dated?: boolean;
}

export interface SeenRequest {
  method: string;
  /** Below the base address, for example '/tickets/ab12'. */
  path: string;
  query: URLSearchParams;
  /** Credits used, or requests of the day in the catalog. */
  cost: number;
  at: number;
  client?: ClientName;
  outcome?: Outcome;
  /** Status of the answer, before faults and envelopes. */
  status?: number;
  /** Ids of the fault rules that applied. */
  rules?: string[];
}

/** Scheme and host of links and `Location`, from the client's own Host header. */
export function originOf({ headers, secure = false }: Asked, host: string): string {
  return `${secure ? 'https' : 'http'}://${headers.host ?? host}`;
}

/** Splits a URL into path and query. A path below `base` loses the base and is decoded; another path stays unchanged. */
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

/** Longest path and query in the log, in characters. */
const LONGEST_NOTE = 500;

/** Appends to the log, which keeps at least the last 100,000 requests. Old ones go 10,000 at a time, since each removal moves the rest. */
export function keep(requests: SeenRequest[], seen: SeenRequest): void {
  if (requests.push(noted(seen)) > KEPT_REQUESTS + 10_000) requests.splice(0, 10_000);
}

/** The request with bounded path and query. Both are copies: slices would keep the original text in memory. */
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

/** The first `most` characters as a copy: a slice would keep the whole text in memory. */
export function cut(text: string, most: number): string {
  return Buffer.from(text.slice(0, most), 'utf16le').toString('utf16le');
}
