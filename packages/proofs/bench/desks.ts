/**
 * Many help desks in one cheap process: each token is an account with limits of its own, counted as the sandbox counts them, and
 * all of them show the same world, which changes. What was answered before is answered again from memory, so that the source takes
 * little of the machine that is measured. Started by sections/fleet.ts.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Limits } from '../../sandbox/src/admission/limits.ts';
import { openServices } from '../../sandbox/src/services.ts';

export interface DesksOptions {
  readonly accounts: number;
  readonly tickets: number;
  /** Changes of the world a minute: each is one of every account. */
  readonly changes: number;
  readonly credits: number;
  readonly requestsPerSecond: number;
}
export interface DesksCounts {
  /** Since the start, by the place of the account. */
  readonly credits: readonly number[];
  readonly refused: number;
}

const MESSAGES = 5;
/** Characters of the bodies of a ticket's messages: 2 KB on average. */
const LENGTHS = [1000, 1500, 2000, 2500, 3000];

const { accounts, tickets, changes, ...limits } = JSON.parse(process.argv[2]!) as DesksOptions;
const services = openServices({
  ...{ tickets, customers: 50, activity: changes, books: { volumes: 1 }, credits: 1e9, requestsPerSecond: 1e6 },
});
const [token] = services.helpdesk.tokens;
const now = () => performance.now();
// Half of them count in fixed minutes of any phase, half in sliding ones.
const desks = Array.from({ length: accounts }, (_, i) => {
  const window = i % 2 === 0 ? ('fixed' as const) : ('sliding' as const);
  const start = now() - (60_000 * i) / accounts;
  return { limits: new Limits({ ...limits, periodSeconds: 60, window, start }), credits: 0 };
});
let refused = 0;
/** Of tickets in detail, by their request; those of a ticket that has changed are forgotten. */
const known = new Map<string, { text: Buffer; cost: number; updated: string }>();

function answer(url: string): { status: number; text: Buffer; cost: number; total?: string | undefined } {
  const id = /^\/api\/v1\/tickets\/([^/?]+)\?/.exec(url)?.[1];
  services.catchUp();
  const before = known.get(url);
  if (before && id && services.helpdesk.world.tickets.get(id)?.updated_at === before.updated) {
    return { status: 200, ...before };
  }
  const reply = services.handle({ method: 'GET', url, headers: { authorization: `Bearer ${token}` } });
  const cost = Number(reply.headers['Rate-Limit-Used']);
  const text = Buffer.from(id ? withLongMessages(reply.text) : reply.text);
  const updated = id && services.helpdesk.world.tickets.get(id)?.updated_at;
  if (updated) known.set(url, { text, cost, updated });
  return { status: reply.status, text, cost, total: reply.headers['Total-Count'] };
}

/** The ticket as it is, with as many messages as were asked for, and as long. */
function withLongMessages(text: string): string {
  const ticket = JSON.parse(text);
  if (!Array.isArray(ticket.messages) || ticket.messages.length === 0) return text;
  const messages = LENGTHS.slice(0, MESSAGES).map((length, n) => {
    const one = ticket.messages[n % ticket.messages.length];
    const body = String(one.body ?? 'Nothing was said. ');
    const long = body
      .repeat(Math.ceil(length / Math.max(1, body.length)))
      .slice(0, length)
      .toWellFormed();
    return { ...one, id: `${ticket.id}m${n}`, body: long, attachments: [] };
  });
  return JSON.stringify({ ...ticket, messages });
}

const server = createServer((request, response) => {
  const desk = desks[Number(/token-(\d+)$/.exec(request.headers.authorization ?? '')?.[1])];
  if (!desk) return void response.writeHead(401).end('{"message":"Unauthorized"}');
  const { status, text, cost, total } = answer(request.url!);
  const admitted = desk.limits.admit(cost, now());
  if (admitted) desk.credits += cost;
  else refused++;
  const { limit, remaining, reset } = desk.limits.budget(now(), admitted ? 0 : cost);
  response.writeHead(admitted ? status : 429, {
    'Content-Type': 'application/json',
    'Rate-Limit-Limit': limit,
    'Rate-Limit-Remaining': remaining,
    'Rate-Limit-Used': admitted ? cost : 0,
    'Rate-Limit-Reset': reset,
    ...(total !== undefined && { 'Total-Count': total }),
  });
  response.end(admitted ? text : '{"message":"Too Many Requests"}');
});
server.keepAliveTimeout = 120_000;
server.listen(0, '127.0.0.1');
await once(server, 'listening');
process.on('message', () => {
  process.send!({ credits: desks.map(({ credits }) => credits), refused } satisfies DesksCounts);
});
process.on('disconnect', () => process.exit());
process.send!(`http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v1`);
