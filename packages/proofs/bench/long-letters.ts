/**
 * A help desk whose messages have 3 KB, for the bench: the sandbox writes as people do, a tenth as much. A process of its own,
 * that has all replies ready, so that they cost it little while they are read. Prints its address.
 *
 *   node packages/proofs/bench/long-letters.ts <tickets>
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const tickets = Number(process.argv[2]);
const messagesEach = 5;
const letters = 3000;
const vocabulary = 4000;
const createdMs = (n: number) => Date.UTC(2026, 0, 1) + n * 60_000;
const iso = (ms: number) => `${new Date(ms).toISOString().slice(0, 19)}Z`;

// Numbers that look like chance, the same each time (Park and Miller).
let last = 1;
const chance = (): number => {
  last = (last * 48_271) % 2_147_483_647;
  return last / 2_147_483_647;
};
const words = Array.from({ length: vocabulary }, (_, i) =>
  ((i * 2_654_435_761) >>> 0).toString(36).slice(0, 3 + (i % 6)),
);

/** A few words come often, most seldom. */
function bodyOf(): string {
  let text = '';
  while (text.length < letters) text += `${words[Math.floor(chance() ** 2 * words.length)]} `;
  return text;
}

const messageOf = (ticket: number, n: number) => ({
  id: `m${ticket}-${n}`,
  type: n === 3 ? 'note' : 'reply',
  ...(n !== 3 && {
    direction: n % 2 === 0 ? 'in' : 'out',
    from: 'ada@example.org',
    to: 'help@example.org',
    more_body: null,
  }),
  user_id: n % 2 === 0 ? null : `u${ticket % 12}`,
  from_name: 'Ada',
  body: bodyOf(),
  htmlized: false,
  created_at: iso(createdMs(ticket) + n * 5000),
  attachments:
    n === 0 && ticket % 5 === 0
      ? [{ id: `a${ticket}`, name: 'receipt.pdf', type: 'application/pdf', size: 48_213 }]
      : [],
});

const ticketOf = (n: number) => ({
  id: `t${n}`,
  number: n,
  customer_id: `c${n % 1000}`,
  user_id: `u${n % 12}`,
  inbox_id: `i${n % 6}`,
  label_ids: [`l${n % 25}`],
  state: 'closed',
  snoozed_until: null,
  subject: `Where is my order of volume ${n}?`,
  type: 'email',
  spam: false,
  trash: false,
  created_at: iso(createdMs(n)),
  updated_at: iso(createdMs(n) + 30_000),
  reply_to: 'ada@example.org',
  reply_cc: null,
  summary: null,
});

const all = Array.from({ length: tickets }, (_, n) => ticketOf(n));
const inDetail = new Map(
  all.map((ticket, n) => {
    const messages = Array.from({ length: messagesEach }, (_, i) => messageOf(n, i));
    const names = {
      labels: ticket.label_ids.map(id => ({ id, name: id })),
      inbox: { id: ticket.inbox_id, name: ticket.inbox_id },
    };
    return [ticket.id, Buffer.from(JSON.stringify({ ...ticket, messages, ...names }))];
  }),
);

/** Their order of creation is that of their changes. */
function listed(query: URLSearchParams): string {
  if (query.has('spam') || query.has('trash')) return '[]';
  const since = query.get('since_updated_at') ?? query.get('since_created_at') ?? '';
  const perPage = Number(query.get('per_page') ?? 100);
  const from = (Number(query.get('page') ?? 1) - 1) * perPage;
  return JSON.stringify(all.filter(ticket => ticket.updated_at >= since).slice(from, from + perPage));
}

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url!, 'http://localhost');
  const [, , , stream, id] = pathname.split('/');
  const body = id !== undefined ? inDetail.get(id) : stream === 'tickets' ? listed(searchParams) : '[]';
  response.writeHead(body === undefined ? 404 : 200, { 'content-type': 'application/json' });
  response.end(body);
});
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  console.log(JSON.stringify({ url: `http://127.0.0.1:${port}/api/v1`, token: 'none' }));
});
