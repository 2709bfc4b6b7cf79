/**
 * A billing service over HTTP, written from the guide's description of its interface: invoices with lines, ordered by their last change,
 * and the comments on each;
 * payments, ordered by their creation; clients; and a feed of deletions. Its pages are shorter than what is asked for, and its ids are beyond what a double holds.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { rawJson } from './crm-server.ts';

interface Line {
  id: string;
  text: string;
  amount: string;
}
interface Invoice {
  id: string;
  client_id: string;
  status: string;
  note: string | null;
  updatedAt: string;
  lines: Line[];
}
interface Comment {
  id: string;
  author: string;
  text: string;
}
interface Payment {
  id: string;
  invoice_id: string;
  amount: string;
  status: string;
  createdAt: string;
}
interface Client {
  id: string;
  name: string;
  email: string;
}

export interface Billing extends AsyncDisposable {
  readonly url: string;
  readonly key: string;
  readonly invoices: Map<string, Invoice>;
  /** By the id of their invoice. */
  readonly comments: Map<string, Comment[]>;
  readonly payments: Map<string, Payment>;
  readonly clients: Map<string, Client>;
  /** The paths and queries that were asked for, in their order. */
  readonly asked: URL[];
  /** Called before each reply. A number is the status of a refusal. */
  before: (url: URL) => number | undefined;
  /** Requests that are left for today. */
  left: number;
  delete(type: 'invoice' | 'client', id: string, at?: string): void;
}

/** No page is longer, whatever is asked for. */
const cap = 50;
const key = 'billing-key-of-a-test';

export async function startBilling(): Promise<Billing> {
  const deletions: object[] = [];
  const billing = {
    key,
    invoices: new Map<string, Invoice>(),
    comments: new Map<string, Comment[]>(),
    payments: new Map<string, Payment>(),
    clients: new Map<string, Client>(),
    asked: [] as URL[],
    before: (() => undefined) as Billing['before'],
    left: Number.POSITIVE_INFINITY,
    delete(type: 'invoice' | 'client', id: string, at = new Date().toISOString()) {
      billing[`${type}s`].delete(id);
      const id_of_event = rawJson(String(2n ** 60n + BigInt(deletions.length)));
      deletions.push({ id: id_of_event, type, of: rawJson(id), at });
    },
  };
  const shownInvoice = ({ id, client_id, lines, ...rest }: Invoice) => ({
    ...{ id: rawJson(id), client_id: rawJson(client_id), ...rest },
    lines: lines.map(({ id, text, amount }) => ({ id: rawJson(id), text, amount: rawJson(amount) })),
  });
  const server = createServer((request, response) => {
    const url = new URL(request.url!, 'http://billing');
    billing.asked.push(url);
    const reply = (status: number, body: unknown) => {
      const left = Number.isFinite(billing.left) ? { 'x-quota-left': String(Math.max(0, billing.left)) } : {};
      response.writeHead(status, { 'content-type': 'application/json', ...left });
      response.end(JSON.stringify(body));
    };
    if (request.headers['x-api-key'] !== key) return reply(401, { error: 'unauthorized' });
    if (--billing.left < 0) return reply(429, { error: 'quota' });
    const refused = billing.before(url);
    if (refused !== undefined) return reply(refused, {});
    const param = (name: string) => url.searchParams.get(name);
    const paged = (records: readonly unknown[]) => {
      const [offset, limit] = [Number(param('offset')), Math.min(cap, Number(param('limit')))];
      reply(200, { items: records.slice(offset, offset + limit) });
    };
    const since = (name: string) => Date.parse(param(name) ?? '1970-01-01');
    const ordered = <T extends { id: string }>(records: Iterable<T>, timeOf: (one: T) => number, from: number) =>
      [...records].filter(one => timeOf(one) >= from).sort((a, b) => timeOf(a) - timeOf(b) || (a.id < b.id ? -1 : 1));
    if (url.pathname === '/invoices') {
      const changed = (one: Invoice) => Date.parse(one.updatedAt);
      return paged(ordered(billing.invoices.values(), changed, since('updated_since')).map(shownInvoice));
    }
    if (url.pathname === '/payments') {
      const paid = (one: Payment) => Date.parse(one.createdAt);
      const numbers = ({ id, invoice_id, amount, ...rest }: Payment) => ({
        ...{ id: rawJson(id), invoice_id: rawJson(invoice_id), amount: rawJson(amount), ...rest },
      });
      return paged(ordered(billing.payments.values(), paid, since('created_since')).map(numbers));
    }
    const [, commented] = /^\/invoices\/(\d+)\/comments$/.exec(url.pathname) ?? [];
    if (commented !== undefined) {
      if (!billing.invoices.has(commented)) return reply(404, {});
      return paged((billing.comments.get(commented) ?? []).map(one => ({ ...one, id: rawJson(one.id) })));
    }
    const [, id] = /^\/invoices\/(\d+)$/.exec(url.pathname) ?? [];
    const found = billing.invoices.get(id ?? '');
    if (id !== undefined) return found ? reply(200, shownInvoice(found)) : reply(404, {});
    if (url.pathname === '/clients')
      return paged([...billing.clients.values()].map(one => ({ ...one, id: rawJson(one.id) })));
    if (url.pathname !== '/deletions') return reply(404, {});
    const after = BigInt(param('after') ?? -1n);
    const later = deletions.filter((_, n) => 2n ** 60n + BigInt(n) > after);
    reply(200, { items: later.slice(0, cap), more: later.length > cap });
  });
  await new Promise<void>(listening => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  return Object.assign(billing, {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise(closed => server.close(closed));
    },
  });
}
