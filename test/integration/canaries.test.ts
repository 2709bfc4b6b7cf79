/**
 * A source whose texts are all canaries, rules that keep none of them, and all that is done with them: a sync that is killed, others,
 * replays, a sweep, a verification with repair, a backfill, a worker with its audit, the page. No canary is anywhere afterwards (I24).
 */

import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { describeLongOnLake } from '../../packages/lake/test/support/lake.ts';
import { lakeBeside } from '../../packages/lake/test/support/lake-beside.ts';
import type { Sandbox } from '../../packages/sandbox/src/server.ts';
import { unless } from '../../src/embedded/place.ts';
import { makePool } from '../../src/engine/database/pool.ts';
import { around, canary, type Instead, proxyTo, rowsWith, spoiler } from '../support/canaries.ts';
import { settingsFor, shelfdesk } from '../support/cli.ts';
import { here, ran } from '../support/here.ts';
import { long } from '../support/long.ts';
import { openSandbox } from '../support/open-sandbox.ts';
import { type OwnServer, startOwnServer } from '../support/own-server.ts';
import { pgTool } from '../support/pg-tools.ts';
import { describeOnRedis } from '../support/redis.ts';

const rules =
  'tickets.* messages.* attachments.* customers.* contacts.* users.* labels.* inboxes.* shelves.* volumes.*';

/** PostgreSQL writes each statement and all its parameters into its own log as well. */
const tellsAll = { log_statement: 'all', log_parameter_max_length_on_error: '-1' };

interface Kept extends AsyncDisposable {
  readonly server: OwnServer;
  readonly pool: ReturnType<typeof makePool>;
  /** What the processes printed and logged, and the page showed. */
  readonly said: string[];
  readonly canaries: () => number;
}

/** Runs all that the head of this file names; with another queue, only a sync that is killed, the next one, and a worker. */
async function keepLess(queue?: Record<string, string>): Promise<Kept> {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startOwnServer({ settings: tellsAll }));
  const pool = makePool(server.url);
  stack.defer(() => pool.end());
  const sandbox = stack.use(
    await openSandbox({
      ...{ tickets: 40, customers: 12, seed: 7 },
      books: { requestsPerDay: 1_000_000, requestsPerSecond: 1_000_000, volumes: 40 },
    }),
  );
  const texts = spoiler();
  let replies = 0;
  let due: (() => void) | undefined;
  const proxy = stack.use(
    await proxyTo(new URL(sandbox.url), (text, path): string | Instead => {
      replies += 1;
      if (replies === 12) due?.();
      // The source quotes a record in an error, and shows some that cannot be read.
      if (replies % 17 === 5) return { status: 500, text: `{"message":"${canary} of ${path}"}` };
      const odd = texts.spoil(text);
      return replies % 5 === 0 ? odd.replace(/"id":"[^"]*"/, `"id":["${canary}"]`) : odd;
    }),
  );
  const through = (url: string) => url.replace(/:\d+\//, `:${proxy.port}/`);
  const env = {
    ...settingsFor(server.url, { url: through(sandbox.url), token: sandbox.token }),
    ...{ BOOKS_BASE_URL: through(sandbox.books.url), BOOKS_API_KEY: sandbox.books.key },
    ...{ BOOKS_ACCESS_TOKEN: sandbox.books.token, BOOKS_REQUESTS_PER_SECOND: '1000' },
    ...{ FIELD_RULES: rules, LOG_LEVEL: 'trace', SCHEDULE_FRESH: '* * * * * *', SCHEDULE_NIGHTLY: '' },
    ...{ AUDIT_TICKETS_PER_HOUR: '1000', BOOKS_AUDIT_VOLUMES_PER_HOUR: '1000' },
    ...queue,
  };
  const said: string[] = [];
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await ran(args, env);
    said.push(stdout, stderr);
    // What the source spoils leaves a run partial, a record different, and a check of the doctor failing.
    expect(args[0] === 'doctor' ? [0, 1] : [0, 3, 5], `${args.join(' ')}: ${stderr}`).toContain(code);
  };
  // Records that this database cannot take, for now.
  await pool.query(`
    create function public.refuse() returns trigger language plpgsql as $$ begin
      raise exception 'too much for %', new using errcode = '22023'; end $$;
    create trigger refuse before insert or update on helpdesk.customers for each row when (hashtext(new.id) % 3 = 0)
      execute function public.refuse()`);
  const killed = shelfdesk(['sync'], env);
  due = () => killed.process.kill('SIGKILL');
  const { signal, stdout, stderr } = await killed.finished;
  expect(signal).toBe('SIGKILL');
  said.push(stdout, stderr);
  await run('sync');
  await pool.query('drop trigger refuse on helpdesk.customers');
  if (queue === undefined) await goOn({ pool, run, sandbox });
  said.push(...(await work(env, pool)), ...(queue === undefined ? await pages(env) : []));
  expect((await pool.query('select from helpdesk.tickets')).rows).toHaveLength(40);
  const opened = stack.move();
  return {
    ...{ server, pool, said, canaries: () => texts.count },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

interface Work {
  readonly pool: Kept['pool'];
  readonly run: (...args: string[]) => Promise<void>;
  readonly sandbox: Sandbox;
}

/** All that is done with what a sync has stored. */
async function goOn({ pool, run, sandbox }: Work): Promise<void> {
  change(sandbox);
  await run('sync');
  const { rows: rejects } = await pool.query<{ id: string; replayable: boolean }>(
    'select id, replayable from sync.rejects where cleared_at is null order by id',
  );
  expect(rejects.length).toBeGreaterThan(0);
  await run('rejects', 'list', '--all');
  for (const { id } of rejects) await run('rejects', 'show', id);
  const replayable = rejects.filter(one => one.replayable).map(({ id }) => id);
  expect(replayable.length).toBeGreaterThan(0);
  await run('rejects', 'replay', ...replayable);
  await run('sweep');
  await pool.query(`update helpdesk.tickets set number = 0, _payload = _payload || '{"number": 0}'`);
  await run('verify', '--full', '--repair');
  expect((await pool.query('select from helpdesk.tickets where number = 0')).rows).toEqual([]);
  change(sandbox);
  await run('backfill', '--again');
  await run('fields', 'apply');
  await run('drift', 'list');
  await run('doctor');
  const { rows } = await pool.query<{ id: string }>('select id from helpdesk.tickets limit 1');
  await run('why', rows[0]!.id);
  const { rows: kinds } = await pool.query(
    `select distinct kind from sync.runs where state in ('completed', 'partial') order by 1`,
  );
  expect(kinds.map(({ kind }) => kind)).toEqual(expect.arrayContaining(['backfill', 'sweep', 'sync', 'verify']));
  expect((await pool.query('select from books.volumes')).rows.length).toBeGreaterThan(10);
}

function change({ world }: Sandbox): void {
  for (const { id } of [...world.tickets.values()].slice(0, 10)) world.touch(id);
}

/** A worker with its schedule, until its audit has looked at something. */
async function work(env: Record<string, string>, pool: Kept['pool']): Promise<string[]> {
  const latest = async () => (await pool.query('select max(checked_at)::text as at from sync.audit')).rows[0].at;
  const before = await latest();
  const worker = here(['start'], env);
  while ((await latest()) === before) await delay(100);
  const { code, stdout, stderr } = await worker.interrupt();
  expect(code, stderr).toBe(0);
  return [stdout, stderr];
}

/** All that can be reached from the first page. */
async function pages(env: Record<string, string>): Promise<string[]> {
  const web = here(['web', '--port', '0'], env);
  await web.says(/Web page: \S+/);
  const url = /Web page: (http:\S+)/.exec(web.stderr())![1]!;
  const shown: string[] = [];
  const found = new Set([url]);
  for (const one of found) {
    const reply = await fetch(one);
    const text = await reply.text();
    shown.push(text);
    for (const [, href] of text.matchAll(/(?:href|src|action)="([^"#]+)"/g)) {
      const next = new URL(href!.replaceAll('&amp;', '&'), one);
      if (next.origin === new URL(url).origin && found.size < 100) found.add(next.href);
    }
  }
  expect(found.size).toBeGreaterThan(5);
  const { stdout, stderr } = await web.interrupt();
  return [...shown, stdout, stderr];
}

/** Files of the server with this text: data, log of writes, and the log of all statements with their parameters. */
async function filesWith({ pool }: Kept, text: string): Promise<string[]> {
  const { rows } = await pool.query<{ data: string }>(`select current_setting('data_directory') as data`);
  const files = await readdir(dirname(rows[0]!.data), { recursive: true, withFileTypes: true });
  const found: string[] = [];
  for (const { parentPath, name } of files.filter(one => one.isFile())) {
    // Files of the server come and go.
    const bytes = await readFile(join(parentPath, name)).catch(unless('ENOENT'));
    const at = Math.max(bytes?.indexOf(text) ?? -1, bytes?.indexOf(text.toLowerCase()) ?? -1);
    if (at >= 0) found.push(`${name}: ${bytes!.subarray(Math.max(0, at - 100), at + 100).toString('latin1')}`);
  }
  return found;
}

async function findsNothing(kept: Kept): Promise<void> {
  expect(kept.canaries()).toBeGreaterThan(2000);
  expect(kept.said.join('\n').length).toBeGreaterThan(10_000);
  expect(around(kept.said.join('\n'), canary)).toBeUndefined();
  await kept.pool.query('checkpoint');
  await kept.pool.query('select pg_switch_wal()');
  await kept.pool.query('checkpoint');
  const { rows } = await kept.pool.query<{ id: string }>('select id from helpdesk.tickets limit 1');
  const [one] = rows;
  const withTicket = (await filesWith(kept, one!.id)).map(found => found.split(':')[0]);
  expect(withTicket).toContain('log');
  expect(withTicket.length).toBeGreaterThan(3);
  expect(await filesWith(kept, canary)).toEqual([]);
  expect(await rowsWith(kept.pool, canary)).toEqual([]);
}

describe('with the queue in PostgreSQL', long, async () => {
  let kept: Kept;
  beforeAll(async () => {
    kept = await keepLess();
  });
  afterAll(() => kept?.[Symbol.asyncDispose]());

  test('no canary is in a file of the server, a row, an output, a log or a page', () => findsNothing(kept));

  const tool = pgTool('pg_dump', tmpdir());
  test('none is in a dump', { skip: tool === undefined, meta: { lacksPgTools: tool === undefined } }, async () => {
    const [program, ...first] = tool!;
    const { stdout } = await promisify(execFile)(program!, [...first, kept.server.url], { maxBuffer: 2 ** 30 });
    expect(stdout).toContain('COPY helpdesk.tickets');
    expect(around(stdout, canary)).toBeUndefined();
  });

  await describeLongOnLake('with a lake', () => {
    test('none is in its files or its catalog', async () => {
      await using beside = await lakeBeside(kept.server.url);
      await beside.export();
      const text = await beside.everything();
      expect(text.length).toBeGreaterThan(10_000);
      expect(around(text, canary)).toBeUndefined();
    });
  });
});

describeOnRedis(
  'with the queue in Redis',
  ({ url }) => {
    test('no command to Redis has a canary in it', async () => {
      const redis = new Redis(url);
      const monitor = await new Redis(url).monitor();
      const commands: string[] = [];
      monitor.on('monitor', (_time: string, args: string[]) => void commands.push(args.join(' ')));
      try {
        await using kept = await keepLess({ REDIS_URL: url });
        expect(kept.canaries()).toBeGreaterThan(1000);
        // What was asked before this is there as well.
        const mark = `${canary} is over`;
        const over = new Promise<void>(done =>
          monitor.on('monitor', (_time: string, args: string[]) => args[1] === mark && done()),
        );
        await redis.echo(mark);
        await over;
        const { rows } = await kept.pool.query<{ queue: string }>('select queue from sync.accounts');
        const [{ queue } = { queue: '' }] = rows;
        expect(commands.filter(one => one.includes(queue)).length).toBeGreaterThan(100);
        expect(commands.filter(one => around(one, canary) && !one.includes(mark))).toEqual([]);
      } finally {
        monitor.disconnect();
        redis.disconnect();
      }
    });
  },
  { takesLong: true },
);
