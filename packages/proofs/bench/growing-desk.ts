/**
 * A help desk whose history costs nothing to keep, for packages/proofs/bench/sections/growth.ts, in a process of its own: the ticket of each second
 * is made when it is asked for. Told to grow, it has more of them; asked, it tells when each page of the list was asked for, and how
 * long it was from one ticket in detail to the next.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export type Told = { url: string } | { pages: Page[] } | { detailMs: number };
export type Order = { grow: number } | { tell: 'pages' } | { tellAfterDetails: number };

export interface Page {
  /** Tickets before it. */
  readonly first: number;
  readonly atMs: number;
}

const perPage = 100;
/** The last second of a million is some hours ago. */
const beganMs = Math.floor(Date.now() / 1000) * 1000 - 12 * 86_400_000;
let tickets = 0;
let pages: Page[] = [];
let details = 0;
let detailsFromMs = 0;
let tellAfter = Number.POSITIVE_INFINITY;

/** Odd, so that no two tickets have the same id. */
const factor = 2_654_435_761;
const inverse = 244_002_641;
const idOf = (n: number): string => (Math.imul(n, factor) >>> 0).toString(16).padStart(8, '0');
const numberOf = (id: string): number => Math.imul(Number.parseInt(id, 16), inverse) >>> 0;
const timeOf = (n: number): string => `${new Date(beganMs + n * 1000).toISOString().slice(0, 19)}Z`;

const ticketOf = (n: number) => ({
  ...{ id: idOf(n), number: n + 1, customer_id: `c${n % 50_000}`, user_id: n % 4 === 0 ? null : `u${n % 12}` },
  ...{ inbox_id: `i${n % 6}`, label_ids: [`l${n % 25}`], state: n % 5 === 0 ? 'open' : 'closed', snoozed_until: null },
  subject: `Where is my order of volume ${n}, and when does it come?`,
  ...{ type: 'email', spam: false, trash: false, created_at: timeOf(n), updated_at: timeOf(n) },
  ...{ reply_to: 'somebody@example.org', reply_cc: null, summary: 'It was to come on Monday, and did not. '.repeat(4) },
});

const detailOf = (n: number) => ({
  ...ticketOf(n),
  labels: [{ id: `l${n % 25}`, name: `Label ${n % 25}` }],
  inbox: { id: `i${n % 6}`, name: `Inbox ${n % 6}` },
  messages: Array.from({ length: 3 }, (_, i) => ({
    ...{ id: `${idOf(n)}-${i}`, type: 'reply', direction: i % 2 === 0 ? 'in' : 'out', user_id: null },
    ...{
      from_name: 'Ada',
      from: 'ada@example.org',
      to: 'help@example.org',
      body: 'Dear all, where is it? '.repeat(40),
    },
    ...{ more_body: null, htmlized: false, created_at: timeOf(n), attachments: [] },
  })),
});

function listed(query: URLSearchParams): object[] {
  if (query.get('spam') === 'true' || query.get('trash') === 'true') return [];
  const sinceMs = Date.parse(query.get('since_updated_at') ?? '1970-01-01T00:00:00Z');
  const since = Math.max(0, Math.ceil((sinceMs - beganMs) / 1000));
  const first = since + (Number(query.get('page') ?? 1) - 1) * perPage;
  pages.push({ first, atMs: performance.now() });
  return Array.from({ length: Math.max(0, Math.min(perPage, tickets - first)) }, (_, i) => ticketOf(first + i));
}

function countDetail(): void {
  if (details === 0) detailsFromMs = performance.now();
  if (details === tellAfter)
    process.send!({ detailMs: (performance.now() - detailsFromMs) / tellAfter } satisfies Told);
  details++;
}

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url!, 'http://desk');
  const [, id] = /\/tickets\/(\w+)$/.exec(pathname) ?? [];
  const body = id === undefined ? listed(searchParams) : detailOf(numberOf(id));
  if (id !== undefined) countDetail();
  const rate = {
    'Rate-Limit-Limit': 1e9,
    'Rate-Limit-Remaining': 1e9 - 1,
    'Rate-Limit-Used': 1,
    'Rate-Limit-Reset': 60,
  };
  response.writeHead(200, { 'Content-Type': 'application/json', ...rate }).end(JSON.stringify(body));
});

process.on('message', (order: Order) => {
  if ('grow' in order) tickets = order.grow;
  else if ('tellAfterDetails' in order) [details, tellAfter] = [0, order.tellAfterDetails];
  else {
    process.send!({ pages } satisfies Told);
    pages = [];
  }
});
server.listen(0, '127.0.0.1', () => {
  process.send!({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v1` } satisfies Told);
});
