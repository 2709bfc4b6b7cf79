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

type Counts = Record<'true' | 'lost' | 'stale' | 'phantom' | 'doubled' | 'living_deleted', number>;

interface Judged {
  tickets: Counts;
  messages: Counts;
  customers: Counts;
  says?: { lost_in_spite: number };
  seen: Record<'edit' | 'customer' | 'silent' | 'delete', { changes: number; seen: number; p95: number | null }>;
  complete: boolean;
  phases: { name: string; credits: number; least: number; refused: number; other_refused: number }[];
}

interface Server extends AsyncDisposable {
  readonly source: string;
  readonly control: string;
  readonly token: string;
  readonly post: <Reply = unknown>(verb: string, body?: object) => Promise<Reply>;
}

/** Skips the test where there is no Python: CI has one. */
async function needPython(context: TestContext): Promise<void> {
  if (await run('python3', ['--version']).catch(() => false)) return;
  context.task.meta.lacksPython = true;
  context.skip('there is no python3');
}

async function startServer(context: TestContext, file = 'server.py'): Promise<Server> {
  await needPython(context);
  const env = { ...process.env, SANDBOX: `${process.execPath} ${join(folder, '../sandbox/src/main.ts')}` };
  const child: ChildProcess = spawn('python3', [join(folder, file)], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  const { source, control, token } = JSON.parse((await lines.next()).value!) as Record<string, string>;
  return {
    ...{ source: source!, control: control!, token: token! },
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

interface Rows {
  tickets: { id: string; state?: string; updated_at: string }[];
  messages: { id: string; ticket_id: string; body?: string }[];
  customers: { id: string; first_name?: string }[];
  complete?: { complete: boolean; through: string | null }[];
}

/** A copy of the whole world, read as a tool reads it while nothing moves. */
async function copyOf(server: Server): Promise<Rows> {
  const get = async <T>(path: string): Promise<T> =>
    (await (
      await fetch(`${server.source}/${path}`, { headers: { authorization: `Bearer ${server.token}` } })
    ).json()) as T;
  const rows: Rows = { tickets: [], messages: [], customers: [] };
  for (let page = 1; ; page++) {
    const found = await get<Rows['tickets']>(`tickets?per_page=100&page=${page}`);
    if (found.length === 0) break;
    rows.tickets.push(...found);
    for (const { id } of found) {
      const { messages } = await get<{ messages: { id: string }[] }>(`tickets/${id}?embed=messages`);
      rows.messages.push(...messages.map(message => ({ ...message, ticket_id: id })));
    }
  }
  rows.customers = await get('customers?per_page=100');
  return rows;
}

const none = { lost: 0, stale: 0, phantom: 0, doubled: 0, living_deleted: 0 };
const tiny = { world: { tickets: 130, customers: 20 }, pace };

test.for(['tickets', 'messages', 'customers'] as const)(
  'each mistake among %s is found, and no other',
  async (name, context) => {
    await using server = await startServer(context);
    await server.post('start', { ...tiny, seed: 6 });
    const rows = await copyOf(server);
    const judge = async (changed: object[]) =>
      (await server.post<Judged>('judge', { rows: { ...rows, [name]: changed } }))[name];
    const all: object[] = rows[name];
    expect(await judge(all.slice(1))).toMatchObject({ ...none, lost: 1 });
    expect(await judge(all)).toMatchObject(none);
    const field = { tickets: 'state', messages: 'body', customers: 'first_name' }[name];
    expect(await judge([{ ...all[0], [field]: 'another' }, ...all.slice(1)])).toMatchObject({ ...none, stale: 1 });
    expect(await judge([...all, { ...all[0], id: 'no-such' }])).toMatchObject({ ...none, phantom: 1 });
    expect(await judge([...all, all[0]!])).toMatchObject({ ...none, doubled: 1 });
    expect(await judge(all.slice(2))).toMatchObject({ ...none, lost: 2, living_deleted: 2 });
  },
);

test('a claim of completeness is held to the truth, up to its time', async context => {
  await using server = await startServer(context);
  await server.post('start', { ...tiny, seed: 7 });
  const rows = await copyOf(server);
  const [newest] = rows.tickets.toSorted((a, b) => b.updated_at.localeCompare(a.updated_at));
  const says = async (through: string | null, complete = true) => {
    const tickets = rows.tickets.filter(ticket => ticket !== newest);
    const judged = await server.post<Judged>('judge', {
      rows: { ...rows, tickets, complete: [{ complete, through }] },
    });
    return judged.says!.lost_in_spite;
  };
  const at = Date.parse(newest!.updated_at);
  expect(await says(null)).toBe(1);
  expect(await says(new Date(at + 1000).toISOString())).toBe(1);
  expect(await says(new Date(at + 1000).toISOString(), false)).toBe(1);
  expect(await says(newest!.updated_at)).toBe(0);
  expect(await says(null, false)).toBe(0);
  expect(await says('2000-01-01T00:00:00Z')).toBe(0);
});

test('a change counts as seen once the copy shows it, or a later one', async context => {
  await using server = await startServer(context);
  await server.post('start', { ...tiny, world: { ...tiny.world, late_share: 0 }, seed: 8 });
  const before = await copyOf(server);
  await server.post('drive', { watch: true });
  await server.post('drive', { changes: { message: 3, delete: 2, silent: 4, customer_edit: 2 } });
  const seen = async (rows: Rows) => {
    const { equal } = await server.post<{ equal: boolean }>('look', { rows });
    const judged = await server.post<Judged>('judge', { rows });
    return { equal, ...Object.fromEntries(Object.entries(judged.seen).map(([kind, count]) => [kind, count.seen])) };
  };
  expect(await seen(before)).toEqual({ equal: false, edit: 0, customer: 0, silent: 0, delete: 0 });
  const after = await copyOf(server);
  expect(await seen({ ...after, messages: before.messages })).toMatchObject({ equal: false, edit: 0, delete: 2 });
  expect(await seen(after)).toMatchObject({ equal: true, customer: 2, delete: 2 });
  const { seen: counts } = await server.post<Judged>('judge', { rows: after });
  for (const { changes, seen } of Object.values(counts)) expect(seen).toBe(changes);
});

test('short pages, a clock that is behind, and another client of the account are words of world and pace', async context => {
  await using server = await startServer(context);
  const headers = { authorization: `Bearer ${server.token}` };
  const begin = (words: object, more = {}) =>
    server.post('start', { world: { ...tiny.world, ...words }, seed: 9, pace: { ...pace, ...more } });
  await begin({ page_cap: 40 });
  const lengths = [];
  for (const page of [1, 2, 3, 4, 5]) {
    const reply = await fetch(`${server.source}/tickets?per_page=100&page=${page}`, { headers });
    lengths.push(((await reply.json()) as unknown[]).length);
  }
  expect(lengths).toEqual([40, 40, 40, 10, 0]);

  await begin({ stamps_behind: 3600, late_share: 0 });
  await server.post('drive', { changes: { create: 1 } });
  const reply = await fetch(`${server.source}/tickets?per_page=1`, { headers });
  const [{ created_at }] = (await reply.json()) as [{ created_at: string }];
  const behind = (Date.parse(reply.headers.get('date')!) - Date.parse(created_at)) / 1000;
  expect(Math.abs(behind - 3600)).toBeLessThan(300);

  await begin({}, { credits: 10, period_seconds: 1000, other: 0.4 });
  await server.post('drive', { phase: 'first' });
  for (let n = 0; n < 10; n++) await fetch(`${server.source}/users`, { headers });
  const { phases } = (await (await fetch(server.control)).json()) as Judged;
  // Whatever the moment: of ten credits the other client gets its four, or is refused what is spent already.
  expect(phases[0]!.credits + 4 - phases[0]!.other_refused).toBeLessThanOrEqual(10);
});

test('the sandbox is a second server behind the same control port', async context => {
  await using server = await startServer(context, 'second/sandbox.py');
  await using db = await emptyDatabase();
  const started = await server.post<{ source: string }>('start', {
    world: { tickets: 60, customers: 20 },
    seed: 1,
    pace,
  });
  await mirror({ ...server, source: started.source }, db.url, 'pages');
  const judge = async () => server.post<Judged>('judge', { warehouse: db.url, tables: await tables() });
  expect(await judge()).toMatchObject({
    complete: true,
    tickets: { true: 60, lost: 0 },
    phases: [{ name: 'first', refused: 0 }],
  });
  await db.pool.query('delete from desk.tickets where id = (select max(id) from desk.tickets)');
  expect((await judge()).tickets).toMatchObject({ lost: 1, living_deleted: 1 });
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

test('a cell shows the median of the seeds, with a half where it is one', async context => {
  await needPython(context);
  const cells = 'spread([0, 12]), spread([2, 1]), spread([4, 4]), spread([1.36, 1.38]), spread([None])';
  const { stdout } = await run('python3', ['-c', `from table import spread; print(${cells}, sep="|")`], {
    cwd: folder,
  });
  expect(stdout.trim().split('|')).toEqual(['6 (0–12)', '1.5 (1–2)', '4', '1.37 (1.36–1.38)', '–']);
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
