/** A small CRM over HTTP, with contacts and deals that a test changes. Written from the guide's description of its interface. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

interface Contact {
  id: string;
  name?: string | null;
  email?: string | null;
  phone?: string | null;
  updated_at: string;
}

interface Deal {
  id: string;
  contact_id?: string | null;
  title?: string | null;
  stage?: string | null;
  amount?: number | null;
  updated_at: string;
}

export interface Crm extends AsyncDisposable {
  readonly url: string;
  readonly token: string;
  readonly contacts: Map<string, Contact>;
  /** Contacts that no list shows, though they exist. */
  readonly hidden: Map<string, Contact>;
  readonly deals: Map<string, Deal>;
  /** The paths that were asked for, in their order. */
  readonly asked: string[];
  /** Called before each reply. A number is the status of a refusal, a text the body instead. */
  before: (path: string, cursor: string | null) => number | string | undefined;
  /** Requests an hour; beyond it 429. */
  limit: number;
}

/** The id of a record whose number no double holds: neighbours would be the same one. */
export const largeId = (id: string): string => String(2n ** 53n + 1n + BigInt(id.slice(1)));
export const rawJson = (text: string): unknown => (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(text);

/**
 * `GET /contacts/ID` and `GET /contacts`, `GET /deals`: `{"data": [records by id], "next_cursor": "id of the last one"}`,
 * `limit` to 100. `other`: pages by `offset`, `{"result": {"rows": [records], "offset": n, "total": n}}`; ids are numbers that
 * no double holds; the key is in `x-api-key`; a request beyond the limit is refused once, with 503 and the time to wait.
 */
export async function startCrm({ other = false } = {}): Promise<Crm> {
  const token = 'crm-token-of-a-test';
  const crm = {
    token,
    contacts: new Map<string, Contact>(),
    hidden: new Map<string, Contact>(),
    deals: new Map<string, Deal>(),
    asked: [] as string[],
    before: (() => undefined) as Crm['before'],
    limit: Number.POSITIVE_INFINITY,
  };
  let used = 0;
  const shownId = (id: string) => (other ? largeId(id) : id);
  const shown = (one: { id: string }) => (other ? { ...one, id: rawJson(shownId(one.id)) } : one);
  const server = createServer((request, response) => {
    const url = new URL(request.url!, 'http://crm');
    const reply = (status: number, body: unknown, headers: Record<string, string> = {}) => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
    };
    crm.asked.push(url.pathname + url.search);
    const isLetIn = other
      ? request.headers['x-api-key'] === token
      : request.headers.authorization === `Bearer ${token}`;
    if (!isLetIn) return reply(401, { error: 'unauthorized' });
    if (++used > crm.limit) {
      if (!other) return reply(429, { error: 'limit' }, { 'retry-after': '120' });
      crm.limit = Number.POSITIVE_INFINITY;
      return reply(503, { wait_ms: 50 });
    }
    const cursor = url.searchParams.get('cursor');
    const instead = crm.before(url.pathname, cursor);
    if (instead !== undefined)
      return reply(typeof instead === 'number' ? instead : 200, typeof instead === 'number' ? {} : instead);
    const [, one] = /^\/contacts\/(.+)$/.exec(url.pathname) ?? [];
    if (one !== undefined) {
      const isIt = ({ id }: { id: string }) => shownId(id) === decodeURIComponent(one);
      const found = [...crm.contacts.values(), ...crm.hidden.values()].find(isIt);
      return reply(found ? 200 : 404, found ? shown(found) : { error: 'not found' });
    }
    const all = { '/contacts': crm.contacts, '/deals': crm.deals }[url.pathname] as
      | Map<string, { id: string }>
      | undefined;
    if (all === undefined) return reply(404, { error: 'not found' });
    const limit = Math.min(100, Number(url.searchParams.get('limit') ?? 20));
    const sorted = [...all.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
    const offset = Number(url.searchParams.get('offset'));
    if (other) {
      const rows = sorted.slice(offset, offset + limit).map(shown);
      return reply(200, { result: { rows, offset, total: sorted.length } });
    }
    const left = sorted.filter(({ id }) => cursor === null || id > cursor);
    const data = left.slice(0, limit);
    reply(200, { data, ...(left.length > limit && { next_cursor: data.at(-1)!.id }) });
  });
  await new Promise<void>(listening => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  return Object.assign(crm, {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise(closed => server.close(closed));
    },
  });
}
