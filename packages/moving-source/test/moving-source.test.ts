/**
 * The benchmark of sources that move, without any package of Python: the server, the naive script and the judge, on a database of
 * the test. A loss that is planted is seen, and a copy that lacks nothing is judged complete.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, type TestContext, test } from 'vitest';
import { emptyDatabase } from '../../../test/support/postgres.ts';

const folder = fileURLToPath(new URL('..', import.meta.url));
const script = join(folder, 'tools/script');
const run = promisify(execFile);

interface Judged {
  tickets: Record<'true' | 'lost' | 'stale' | 'phantom' | 'doubled' | 'living_deleted', number>;
  messages: { lost: number };
  customers: { lost: number };
  complete: boolean;
  phases: { name: string; credits: number; least: number; refused: number }[];
}

interface Server extends AsyncDisposable {
  readonly source: string;
  readonly token: string;
  readonly post: <Reply = unknown>(verb: string, body?: object) => Promise<Reply>;
}

/** Skips the test where there is no Python: CI has one. */
async function needPython(context: TestContext): Promise<void> {
  if (await run('python3', ['--version']).catch(() => false)) return;
  context.task.meta.lacksPython = true;
  context.skip('there is no python3');
}

async function startServer(context: TestContext): Promise<Server> {
  await needPython(context);
  const child: ChildProcess = spawn('python3', [join(folder, 'server.py')], { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  const { source, control, token } = JSON.parse((await lines.next()).value!) as Record<string, string>;
  return {
    ...{ source: source!, token: token! },
    async post(verb, body = {}) {
      const reply = await fetch(`${control}/${verb}`, { method: 'POST', body: JSON.stringify(body) });
      const text = await reply.text();
      if (!reply.ok) throw new Error(text);
      return JSON.parse(text);
    },
    async [Symbol.asyncDispose]() {
      const ended = new Promise(resolve => child.once('exit', resolve));
      child.kill();
      await ended;
    },
  };
}

const tables = () => readFile(join(script, 'tables.sql'), 'utf8');

async function mirror(server: Server, warehouse: string, walk: string, phase = 'first'): Promise<void> {
  await server.post('drive', { phase });
  const state = mkdtempSync(join(tmpdir(), 'moving-source-'));
  const env = { ...process.env, SOURCE_URL: server.source, SOURCE_TOKEN: server.token, WAREHOUSE: warehouse };
  await run('python3', ['mirror.py', phase], { cwd: script, env: { ...env, STATE: state, WALK: walk, LOOKBACK: '4' } });
  rmSync(state, { recursive: true });
  await server.post('drive', { phase: 'idle' });
}

const world = { tickets: 330, customers: 120 };
/** Credits are no hindrance, and a ticket changes after each answer: the speed of the machine does not matter. */
const pace = {
  changes_per_second: 0,
  changes_per_request: 1,
  credits: 1e6,
  period_seconds: 2,
  requests_per_second: 1e6,
};

test('a copy of a world that stands still is complete, for as many credits as it takes', async context => {
  await using server = await startServer(context);
  await using db = await emptyDatabase();
  await server.post('start', { world, seed: 1, pace });
  await mirror(server, db.url, 'pages');
  const judged = await server.post<Judged>('judge', { warehouse: db.url, tables: await tables() });
  expect(judged).toMatchObject({ complete: true, tickets: { true: 330, lost: 0 }, messages: { lost: 0 } });
  // The last page is empty: the script asks for it, for each of its lists.
  expect(judged.phases).toMatchObject([
    { name: 'first', credits: 1 + 2 + 4 + 2 * 330 + 2, least: 1 + 2 + 4 + 2 * 330, refused: 0 },
  ]);
});

test('what a tool leaves out, keeps, changes and doubles is counted, one by one', async context => {
  await using server = await startServer(context);
  await using db = await emptyDatabase();
  await server.post('start', { world, seed: 2, pace });
  await mirror(server, db.url, 'pages');
  const judge = async () => server.post<Judged>('judge', { warehouse: db.url, tables: await tables() });
  expect((await judge()).complete).toBe(true);
  await db.pool.query(`alter table desk.tickets drop constraint tickets_pkey`);
  await db.pool.query(`insert into desk.tickets select * from desk.tickets order by id limit 3`);
  await db.pool.query(
    `update desk.tickets set doc = doc || '{"state":"archived"}' where id = (select max(id) from desk.tickets)`,
  );
  await db.pool.query(
    `delete from desk.tickets where id in (select id from desk.tickets order by id offset 100 limit 7)`,
  );
  await db.pool.query(`insert into desk.tickets values ('no-such', '{"id":"no-such","messages":[]}')`);
  const { tickets, complete } = await judge();
  expect(tickets).toMatchObject({ lost: 7, living_deleted: 7, stale: 1, phantom: 1, doubled: 3 });
  expect(complete).toBe(false);
});

test('the naive walk loses rows while the world moves, and the judge sees it', async context => {
  await using server = await startServer(context);
  await using db = await emptyDatabase();
  await server.post('start', { world: { ...world, changes: { update: 1 } }, seed: 3, pace });
  await server.post('drive', { move: true });
  await mirror(server, db.url, 'pages');
  await server.post('stop');
  await mirror(server, db.url, 'pages', 'again');
  const judged = await server.post<Judged>('judge', { warehouse: db.url, tables: await tables() });
  expect(judged.complete).toBe(false);
  expect(judged.tickets.lost).toBeGreaterThan(0);
});

test('what the specification leaves open is a word of the world', async context => {
  await using server = await startServer(context);
  const ask = async (query: string, words: object) => {
    await server.post('start', { world: { ...world, ...words }, seed: 5, pace });
    const headers = { authorization: `Bearer ${server.token}` };
    const first = await fetch(`${server.source}/tickets?sort=updated_at&per_page=100`, { headers });
    const [{ updated_at: since }] = (await first.json()) as [{ updated_at: string }];
    const reply = await fetch(`${server.source}/tickets?sort=updated_at&per_page=100&${query}${since}`, { headers });
    return { status: reply.status, records: reply.ok ? ((await reply.json()) as unknown[]).length : undefined };
  };
  expect(await ask('page=4&since_updated_at=', { since: 'inclusive' })).toEqual({ status: 200, records: 30 });
  expect(await ask('page=4&since_updated_at=', { since: 'exclusive' })).toEqual({ status: 200, records: 29 });
  expect(await ask('page=3&since_updated_at=', { depth: 200, beyond: 'empty' })).toEqual({ status: 200, records: 0 });
  expect(await ask('page=3&since_updated_at=', { depth: 200, beyond: '422' })).toMatchObject({ status: 422 });
});

test('the table is made of the results', async context => {
  await needPython(context);
  const { stdout } = await run('python3', ['bench.py', 'table', '--print'], { cwd: folder });
  expect(await readFile(join(folder, 'results/README.md'), 'utf8')).toBe(stdout);
});

test('beyond its credits a request is refused, and the headers say until when', async context => {
  await using server = await startServer(context);
  await server.post('start', { world, seed: 4, pace: { ...pace, credits: 3, period_seconds: 1000 } });
  const get = (path: string) =>
    fetch(`${server.source}/${path}`, { headers: { authorization: `Bearer ${server.token}` } });
  const answers = [await get('users'), await get('tickets?count=true&per_page=500'), await get('users')];
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
  expect(answers.map(({ headers }) => headers.get('rate-limit-remaining'))).toEqual(['2', '0', '0']);
  expect(answers.map(({ headers }) => headers.get('rate-limit-used'))).toEqual(['1', '2', '0']);
  expect(Number(answers[2]!.headers.get('rate-limit-reset'))).toBeGreaterThan(900);
  expect(answers[1]!.headers.get('total-count')).toBe('330');
  expect(await answers[1]!.json()).toHaveLength(100);
  expect((await fetch(`${server.source}/users`)).status).toBe(401);
});
