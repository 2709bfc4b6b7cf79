/** The page answers agents at /mcp: with its tokens, masked for viewers, each request by itself. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { agentOverHttp } from '../support/agent.ts';
import { type Here, here } from '../support/here.ts';
import { operatorToken, viewerToken } from '../support/page.ts';
import { freshDatabase, type TestDatabase } from '../support/postgres.ts';

const secret = 'hush-hush-secret';
let db: TestDatabase;
let guarded: string;
let open: string;
let closed: string;
const pages: Here[] = [];

/** The address of a page. */
async function serve(env: Record<string, string>): Promise<string> {
  const page = here(['web', '--port', '0'], { DATABASE_URL: db.url, ...env });
  pages.push(page);
  await page.says(/http:\S+\//);
  return /http:\S+\//.exec(page.stderr())![0];
}

beforeAll(async () => {
  db = await freshDatabase();
  await db.pool.query(`
    insert into sync.accounts (account_id) values ('acme');
    insert into helpdesk.tickets (account_id, id, number, subject, state, created_at, updated_at, _first_seen_at, _synced_at, _observed_at, _payload)
    values ('acme', 't1', 1, '${secret}', 'open', now(), now(), now(), now(), now(), '{}')`);
  const tokens = { SHELFDESK_WEB_TOKEN: operatorToken, SHELFDESK_WEB_VIEWER_TOKEN: viewerToken };
  [guarded, open, closed] = await Promise.all([
    serve({ ...tokens, SHELFDESK_MCP: 'unmasked' }),
    serve({ SHELFDESK_MCP: 'masked', SHELFDESK_MCP_SECONDS: '300' }),
    serve({}),
  ]);
});
afterAll(async () => {
  await Promise.all(pages.map(page => page.interrupt()));
  await db?.drop();
});

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const subjects = { sql: 'select subject from tickets' };

test('an operator sees texts where the setting says so, a viewer and a masked page never', async () => {
  const [operator, viewer, everybody] = [
    agentOverHttp(guarded, bearer(operatorToken)),
    agentOverHttp(guarded, bearer(viewerToken)),
    agentOverHttp(open),
  ];
  expect((await operator.tool('ask_sql', subjects)).data).toEqual([{ subject: secret }]);
  for (const masked of [viewer, everybody]) {
    const told = await masked.tool('ask_sql', subjects);
    expect(told).toMatchObject({ isError: false, about: { rows: 1, masked: true } });
    for (const { text } of [
      told,
      await masked.tool('why', { ticket: 't1' }),
      await masked.tool('ask_sql', { sql: 'select subject from helpdesk.tickets' }),
    ])
      expect(text).not.toContain(secret);
  }
});

test('who has no token, or another page, is let in nowhere; where it is off, there is nothing', async () => {
  const list = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} });
  expect(await agentOverHttp(guarded).status('POST', list)).toBe(401);
  expect(await agentOverHttp(guarded, bearer('wrong-wrong-wrong-wrong')).status('POST', list)).toBe(401);
  expect(await agentOverHttp(guarded, bearer(viewerToken)).status('POST', list)).toBe(200);
  expect(await agentOverHttp(open).status('POST', list, { origin: 'https://elsewhere.example' })).toBe(403);
  expect(await agentOverHttp(open).status('POST', list, { 'x-forwarded-for': '1.2.3.4' })).toBe(421);
  expect(await agentOverHttp(open).status('POST', list)).toBe(200);
  expect(await agentOverHttp(closed).status('POST', list)).toBe(404);
});

test('no session is kept, and a large body is not read', async () => {
  const agent = agentOverHttp(open);
  const { result } = await agent.call('initialize', {
    ...{ protocolVersion: '2025-06-18', capabilities: {} },
    clientInfo: { name: 'a test', version: '1' },
  });
  expect(result!.instructions).toContain('countable_tickets');
  for (const method of ['GET', 'DELETE']) expect(await agent.status(method)).toBe(405);
  expect(await agent.status('POST', JSON.stringify({ x: 'x'.repeat(200_000) }))).toBe(413);
  expect(await agent.status('POST', 'no json')).toBe(400);
});

const sessions = async (query = '%') =>
  (
    await db.pool.query(
      `select from pg_stat_activity
       where datname = current_database() and usename like 'shelfdesk\\_agent\\_%' and query like $1`,
      [query],
    )
  ).rowCount;
const readers = async () => (await db.pool.query('select role_name from sync.readers')).rows;

/** Asks what takes a minute. Resolves when it runs. */
async function askLong(url: string, signal?: AbortSignal): Promise<void> {
  const body = JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
    params: { name: 'ask_sql', arguments: { sql: 'select pg_sleep(60)' } },
  });
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  void fetch(`${url}mcp`, { method: 'POST', headers, body, ...(signal && { signal }) }).catch(() => {});
  await expect.poll(() => sessions('fetch %'), { timeout: 30_000 }).toBe(1);
}

test('a client that vanishes leaves no session and no login', async () => {
  const gone = new AbortController();
  await askLong(open, gone.signal);
  gone.abort();
  await expect.poll(() => sessions(), { timeout: 30_000 }).toBe(0);
  await expect.poll(readers, { timeout: 30_000 }).toEqual([]);
});

test('a page that ends during a question leaves no login behind', async () => {
  const url = await serve({ SHELFDESK_MCP: 'masked', SHELFDESK_MCP_SECONDS: '300' });
  await askLong(url);
  await pages.at(-1)!.interrupt();
  expect(await readers()).toEqual([]);
  expect(await sessions()).toBe(0);
});
