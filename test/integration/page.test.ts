/** The page by HTTP: its figures are those of SQL, and who may not look or press, cannot. The browser's part: page-browser.test.ts. */
import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { addWeb } from '../../src/cli/look/web.ts';
import { systemClock } from '../../src/clock.ts';
import { cookieName, mostTries, sessionMs } from '../../src/ops/page/auth.ts';
import { creditBuckets } from '../../src/ops/page/credits.ts';
import { pathOf } from '../../src/ops/page/render/fleet.ts';
import { amount, escaped, lasting } from '../../src/ops/page/render/html.ts';
import { demandSafe } from '../../src/ops/page/server.ts';
import { shelfdesk } from '../support/cli.ts';
import { command } from '../support/command.ts';
import { long } from '../support/long.ts';
import {
  markup,
  noTokens,
  operatorToken,
  type PageWorld,
  pageWorld,
  rightToLeft,
  tokens,
  viewerToken,
} from '../support/page.ts';

let world: PageWorld;
let open: FastifyInstance;
let guarded: FastifyInstance;
beforeAll(async () => {
  world = await pageWorld();
  open = await world.app(noTokens);
  guarded = await world.app(tokens);
});
afterAll(() => world?.[Symbol.asyncDispose]());

const here = { host: '127.0.0.1:8090' };
const get = (url: string, headers: Record<string, string> = {}, app = open) =>
  app.inject({ method: 'GET', url, headers: { ...here, ...headers } });
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const form = (fields: Record<string, string>) => new URLSearchParams(fields).toString();
const asForm = { 'content-type': 'application/x-www-form-urlencoded' };

function post(url: string, fields: Record<string, string>, headers: Record<string, string> = {}, app = open) {
  return app.inject({ method: 'POST', url, headers: { ...here, ...asForm, ...headers }, payload: form(fields) });
}

const csrfOf = (page: string) => /name="csrf" value="([^"]*)"/.exec(page)?.[1] ?? '';
const textOf = (page: string) =>
  page
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll('\u00a0', ' ')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');

/** The figures of each card, as the page writes them: of a time, its exact value. */
function cardsOf(page: string): Record<string, Record<string, string>> {
  const cards = [...page.matchAll(/<article class="card" data-key="(\w+)"[\s\S]*?<\/article>/g)];
  return Object.fromEntries(
    cards.map(([card, stream]) => {
      const figures = [...card.matchAll(/<dt>(.*?)<\/dt><dd>([\s\S]*?)<\/dd>/g)].map(([, name, value]) => [
        name!,
        /datetime="([^"]*)"/.exec(value!)?.[1] ?? textOf(value!),
      ]);
      const state = /class="badge is-(\w+)"/.exec(card)![1]!;
      return [stream!, { state, ...Object.fromEntries(figures) }];
    }),
  );
}

const operations = () =>
  world.rows<{ account_id: string; who: string; action: string; subject: string; outcome: string }>(
    'select account_id, who, action, subject, outcome from sync.operations order by id',
  );
const lastOperation = async () => (await operations()).at(-1);

/** The cookie of a session, and what its forms send along. */
async function session(token: string, app = guarded) {
  const reply = await post('/login', { token }, {}, app);
  const cookie = String(reply.headers['set-cookie']).split(';')[0]!;
  return { reply, cookie, csrf: csrfOf((await get('/accounts/fresh', { cookie }, app)).body) };
}

interface StreamRow {
  stream: string;
  state: string;
  complete_from: Date | null;
  complete_through: Date | null;
  behind: number;
  target: number;
  waiting: number;
  gaps: number;
  open_rejects: number;
}

test('a login that is refused is logged without its token, and counted; one that is right is neither', async () => {
  const lines: Record<string, unknown>[] = [];
  const log = pino({ level: 'debug' }, { write: line => void lines.push(JSON.parse(line)) });
  const app = await world.app(tokens, { log });
  const counted = async (why: string) => {
    const { body } = await get('/metrics', { authorization: `Bearer ${tokens.token}` }, app);
    return Number(new RegExp(`^shelfdesk_logins_refused_total\\{why="${why}"\\} (\\d+)$`, 'm').exec(body)?.[1]);
  };
  expect([await counted('wrong'), await counted('wait')]).toEqual([0, 0]);
  expect((await post('/login', { token: 'guessed-by-hand' }, {}, app)).statusCode).toBe(401);
  expect((await get('/', { authorization: 'Bearer guessed-by-program' }, app)).statusCode).toBe(401);
  expect((await get('/livez', { authorization: 'Bearer guessed-at-an-open-door' }, app)).statusCode).toBe(200);
  for (let tries = 3; tries < mostTries; tries++) await post('/login', { token: 'guessed-by-hand' }, {}, app);
  expect((await post('/login', { token: 'guessed-by-hand' }, {}, app)).statusCode).toBe(429);
  expect((await post('/login', { token: tokens.token }, {}, app)).statusCode).toBe(303);
  expect([await counted('wrong'), await counted('wait')]).toEqual([mostTries, 1]);
  const refusals = lines.filter(({ msg }) => msg === 'a login of the page was refused');
  expect(refusals).toHaveLength(mostTries + 1);
  expect(refusals[0]).toMatchObject({ level: 40, address: '127.0.0.1', by: 'form', why: 'wrong' });
  expect(refusals[1]).toMatchObject({ level: 40, by: 'bearer', why: 'wrong' });
  expect(refusals.at(-1)).toMatchObject({ level: 20, why: 'wait' });
  expect(JSON.stringify(lines)).not.toMatch(/guessed|at-an-open-door/);
  expect(JSON.stringify(lines)).not.toContain(tokens.token);
});

describe('the figures are those of SQL', () => {
  test.for(['fresh', 'waits', 'stale', 'failing', 'gaps', 'rejects', 'paused', 'begun', markup, rightToLeft])(
    'of %s: each stream',
    async account => {
      const page = (await get(pathOf(account))).body;
      const rows = await world.rows<StreamRow>(
        `select stream, state, complete_from, complete_through, extract(epoch from behind)::float8 as behind,
           extract(epoch from target)::float8 as target, waiting, gaps, open_rejects
         from sync.status join sync.streams using (stream) where account_id = $1 order by place`,
        account,
      );
      const expected = rows.map(row => [
        row.stream,
        {
          state: row.state,
          'complete from': row.complete_from!.toISOString(),
          'complete through': row.complete_through?.toISOString() ?? 'never read',
          behind: `${lasting(row.behind)} of ${lasting(row.target)}`.replaceAll('\u00a0', ' '),
          backlog: expect.stringMatching(new RegExp(`^${amount(row.waiting)}\\b`)),
          gaps: amount(row.gaps),
          ...(row.open_rejects > 0 && { rejected: amount(row.open_rejects) }),
        },
      ]);
      expect(cardsOf(page)).toEqual(Object.fromEntries(expected));
      expect(rows.length).toBe(account === 'begun' ? 0 : 4);
    },
  );

  test('the states are all there', async () => {
    const pages = await Promise.all(
      ['fresh', 'stale', 'failing', 'paused', 'begun'].map(async name => (await get(pathOf(name))).body),
    );
    expect(pages.map(page => /class="state"><span class="badge is-(\w+)/.exec(page)?.[1])).toEqual([
      'fresh',
      'stale',
      'failing',
      'paused',
      'never_synced',
    ]);
  });

  test('the sentence: what is in, and what follows when', async () => {
    const said = async (account: string) =>
      textOf(/class="sentence" role="status">([\s\S]*?)<\/p>/.exec((await get(pathOf(account))).body)![1]!);
    expect(await said('fresh')).toMatch(/^Everything from 1 Jan 2020, 00:00 up to \d\d:\d\d is in\.$/);
    expect(await said('gaps')).toBe(
      'Everything from 1 Jan 2020, 00:00 up to 1 May 2021, 00:00 is in (2 gaps above it).',
    );
    expect(await said('begun')).toBe('Nothing is in yet.');
    // 212 tickets at 2 credits, of 90 a minute.
    expect(await said('waits')).toMatch(
      /^Everything from .* up to .* is in; the messages of 212 tickets wait for a worker\.$/,
    );
  });

  test('problems with their remedies, the worst first', async () => {
    const page = (await get('/accounts/failing')).body;
    const rows = await world.rows<{ says: string; remedy: string }>(
      `select says, remedy from sync.problems where account_id = 'failing'
       order by array_position('{critical,warning,info}'::text[], severity), since, problem, stream`,
    );
    const items = [...page.matchAll(/<li class="is-(?:critical|warning|info)"[\s\S]*?<\/li>/g)].map(([li]) =>
      textOf(li),
    );
    expect(items).toHaveLength(rows.length);
    expect(rows.length).toBeGreaterThan(0);
    for (const [i, { says, remedy }] of rows.entries()) {
      expect(items[i]).toContain(says);
      expect(items[i]).toContain(remedy.replaceAll('`', ''));
    }
  });

  test('runs with their counts and durations', async () => {
    const page = (await get('/accounts/failing')).body;
    const [row] = [...page.matchAll(/<tr data-key="run-\d+">[\s\S]*?<\/tr>/g)].map(([tr]) =>
      [...tr.matchAll(/<t[hd][^>]*>([\s\S]*?)<\/t[hd]>/g)].map(([, cell]) => textOf(cell!)),
    );
    const [run] = await world.rows<{ id: number }>(`select id from sync.runs where account_id = 'failing'`);
    expect(row).toEqual([
      `${run!.id} sync`,
      'failed',
      expect.stringMatching(/\d\d:\d\d$/),
      '3 min',
      ...['4,800', '4,400', '360', '0', '0', '4,936'],
      `Retry run ${run!.id}`,
    ]);
  });

  test('a page for each run: its streams with errors and remedies; none of another account', async () => {
    const [run] = await world.rows<{ id: number }>(`select id from sync.runs where account_id = 'failing'`);
    expect((await get('/accounts/failing')).body).toContain(`href="/accounts/failing/runs/${run!.id}"`);
    const { body, statusCode } = await get(`/accounts/failing/runs/${run!.id}`);
    expect(statusCode).toBe(200);
    const streams = await world.rows<{ stream: string; state: string; error: string | null }>(
      'select stream, state, error from sync.run_streams where run_id = $1 order by stream',
      run!.id,
    );
    expect(streams.some(({ error }) => error !== null)).toBe(true);
    const shown = textOf(body);
    for (const { stream, state, error } of streams) {
      expect(body).toMatch(
        new RegExp(
          `data-key="stream-${stream}"><th scope="row">${stream}</th><td data-head="state"><span class="run is-${state}"`,
        ),
      );
      if (error !== null) expect(shown).toContain(error);
      expect(shown).toContain(`Job run-1-helpdesk.${stream}-1 of worker 7; its token is 2, which each attempt raises.`);
    }
    expect(shown).toContain(`Retry run ${run!.id}`);
    expect(body).toContain(`/events?account=failing&amp;run=${run!.id}`);
    for (const path of [`fresh/runs/${run!.id}`, 'failing/runs/999999', 'failing/runs/x', 'nobody/runs/1'])
      expect((await get(`/accounts/${path}`)).statusCode, path).toBe(404);
  });

  test('credits: each minute, by lane, also those in which nothing was asked for', async () => {
    const { steps } = (await get('/credits.json?account=fresh')).json<{ steps: Record<string, never>[] }>();
    expect(steps).toHaveLength(60);
    const rows = await world.rows<Record<string, number>>(
      `select b as begins, coalesce(interactive, 0) as interactive, coalesce(fresh, 0) as fresh, coalesce(backfill, 0) as backfill,
         coalesce(sweep, 0) as sweep, coalesce(others, 0) as others, coalesce(refused, 0) as refused
       from generate_series(date_trunc('minute', $1::timestamptz), $2, interval '1 minute') b
       left join sync.credit_minutes m on m.account_id = 'fresh' and m.minute = b order by b`,
      steps[0]!.begins,
      steps.at(-1)!.begins,
    );
    const expected = rows.map(({ begins, interactive, fresh, backfill, sweep, others, refused }) => ({
      begins: (begins as unknown as Date).toISOString(),
      lanes: [interactive, fresh, backfill, sweep],
      ...{ others, refused, limit: 100 },
      free: Math.max(0, 100 - interactive! - fresh! - backfill! - sweep! - others!),
    }));
    expect(steps).toEqual(expected);
    expect(rows.filter(({ fresh }) => fresh === 0).length).toBeGreaterThan(30);
    const page = (await get('/accounts/fresh')).body;
    const drawn = JSON.parse(/class="steps">(.*?)<\/script>/.exec(page)![1]!) as number[][];
    // A minute may have begun since.
    const lanes = new Map(expected.map(one => [Date.parse(one.begins) / 1000, one.lanes]));
    const both = drawn.filter(([begins]) => lanes.has(begins!));
    expect(both.length).toBeGreaterThan(55);
    expect(both.map(step => step.slice(1, 5))).toEqual(both.map(([begins]) => lanes.get(begins!)));
  });

  test.for(['day', 'week'])('credits of a %s: as many as in SQL', async range => {
    const page = (await get(`/accounts/fresh?range=${range}`)).body;
    const [row] = await world.rows<{ sum: number }>(
      `select sum(interactive + fresh + backfill + sweep)::int as sum from sync.credit_minutes where account_id = 'fresh'`,
    );
    expect(textOf(/<figcaption[^>]*>([\s\S]*?)<\/figcaption>/.exec(page)![1]!)).toContain(
      `we used ${amount(row!.sum)} credits`,
    );
  });

  test('requests of the catalog: of 24 hours to the minute', async () => {
    await world.rows(
      `insert into sync.credit_minutes (account_id, source, minute, credit_limit, fresh)
       select 'begun', 'books', date_trunc('minute', now()) - n * interval '1 minute', 1000, n
       from unnest('{0,1437,1442}'::int[]) n`,
    );
    const client = await world.pool.connect();
    const buckets = await creditBuckets(client, 'begun', 'books', 'requests');
    client.release();
    expect(buckets).toHaveLength(24);
    expect(Math.round(buckets.reduce((sum, { fresh, minutes }) => sum + fresh * minutes, 0))).toBe(1437);
  });

  test('service targets: how tickets of four weeks keep them, where there are targets', async () => {
    const rows = await world.rows<Record<string, unknown>>(
      `select metric, outcome, count(*)::int as n from analytics.ticket_targets where account_id = 'paused' group by 1, 2 order by 1, 2`,
    );
    expect(rows).toEqual([
      { metric: 'resolution', outcome: 'at_risk', n: 2 },
      { metric: 'resolution', outcome: 'met', n: 3 },
      { metric: 'resolution', outcome: 'missed', n: 4 },
      { metric: 'resolution', outcome: 'running', n: 3 },
    ]);
    const section = /<section id="targets"[\s\S]*?<\/section>/.exec((await get('/accounts/paused')).payload)?.[0] ?? '';
    const shown = [...section.matchAll(/<tr data-key="target-(\w+)">([\s\S]*?)<\/tr>/g)].map(([, metric, cells]) => [
      metric,
      ...[...cells!.matchAll(/<td[^>]*>([\s\S]*?)<\/td>/g)].map(([, cell]) => textOf(cell!)),
    ]);
    // One was closed when it was first seen.
    expect(shown).toEqual([
      ['first_response', '0', '0', '–', '0', '0', '0'],
      ['resolution', '2', '4', '33 %', '0', '2', '3'],
    ]);
    expect((await get('/accounts/fresh')).payload).not.toContain('Service targets');
  });

  test('all accounts: a line for each, those that need a look first', async () => {
    const page = (await get('/')).body;
    const lines = [...page.matchAll(/<tr data-key="account-[\s\S]*?<\/tr>/g)].map(([tr]) => textOf(tr));
    const rows = await world.rows<{ account: string; waiting: string; gaps: string }>(
      `select account_id as account, coalesce(sum(waiting), 0)::text as waiting, coalesce(sum(gaps), 0)::text as gaps
       from sync.accounts left join sync.status using (account_id) group by 1`,
    );
    expect(lines).toHaveLength(rows.length);
    for (const { account } of rows) expect(lines.some(line => line.startsWith(account))).toBe(true);
    expect(lines.findIndex(line => line.startsWith('failing'))).toBeLessThan(
      lines.findIndex(line => line.startsWith('fresh')),
    );
  });

  test('all accounts: also those whose settings are refused', async () => {
    const app = await world.app(noTokens, { refused: () => ['dan', markup] });
    const page = textOf((await get('/', {}, app)).body);
    expect(page).toContain(`The settings of dan, ${markup} are refused: npx shelfdesk doctor says why.`);
    expect((await get('/accounts/dan', {}, app)).statusCode).toBe(200);
  });

  test('all accounts: when their schedules are due is not reckoned for what does not show it', async () => {
    const unasked = world
      .site()
      .accounts()
      .map(({ config, sources }) => {
        const schedule = { get: () => expect.unreachable() };
        return { config: Object.defineProperty({ ...config }, 'schedule', schedule), sources };
      });
    const app = await world.app(noTokens, { accounts: () => unasked });
    expect((await get('/', {}, app)).statusCode).toBe(200);
  });

  test('names and words of strangers are text', async () => {
    const [run] = await world.rows<{ id: number }>(`select id from sync.runs where account_id = $1`, markup);
    const ofRun = run ? [`${pathOf(markup)}/runs/${run.id}`] : [];
    for (const path of ['/', pathOf(markup), ...ofRun, '/accounts/failing', '/accounts/paused']) {
      const { body, statusCode } = await get(path);
      expect(statusCode).toBe(200);
      expect(body).not.toContain('<script>alert');
      expect(body).toContain(`<bdi>`);
      if (path !== '/accounts/failing') expect(body).toContain(escaped(markup));
    }
    expect((await get('/accounts/failing')).body).toContain(rightToLeft);
  });
});

describe('a stranger', () => {
  const paths = [
    '/',
    '/accounts/fresh',
    '/accounts/failing/runs/1',
    '/accounts/nobody',
    '/events',
    '/events?account=fresh',
    '/credits.json?account=fresh',
  ];
  const more = ['/healthz', '/metrics', '/nothing'];
  let strange: FastifyInstance;
  beforeAll(async () => {
    let nowMs = systemClock.now();
    // A minute for each look: who tries too often would not be looked at.
    const clock = { ...systemClock, now: () => (nowMs += 60_000) };
    strange = await world.app(tokens, { clock });
  });
  test.for([...paths, ...more])('reads nothing at %s', async path => {
    for (const headers of [{}, bearer('x'), { cookie: `${cookieName}=operator.1.x.y` }]) {
      const reply = await get(path, headers, strange);
      expect(reply.statusCode).toBe(401);
      expect(reply.body).toContain('<label for="token">');
      expect(reply.body.replace(/<style>[\s\S]*<\/style>/, '')).not.toMatch(/fresh|stale|gaps|failing/);
    }
  });

  test('nor the files of the page', async () => {
    const { body } = await get('/', bearer(viewerToken), guarded);
    const files = [...body.matchAll(/"(\/files\/[^"]+)"/g)].map(([, path]) => path!);
    expect(files).toHaveLength(4);
    for (const path of files) {
      expect((await get(path, {}, guarded)).statusCode).toBe(401);
      expect((await get(path, bearer(viewerToken), guarded)).statusCode).toBe(200);
    }
  });

  test('presses nothing', async () => {
    const before = (await operations()).length;
    const reply = await post('/accounts/fresh/actions', { action: 'pause', csrf: 'x' }, {}, guarded);
    expect(reply.statusCode).toBe(401);
    expect((await operations()).length).toBe(before);
    expect(await world.rows(`select from sync.paused where account_id = 'fresh'`)).toEqual([]);
  });

  test('tries tokens ten times a minute, and then has to wait; who has the right one need not, from the same proxy', async () => {
    let nowMs = systemClock.now();
    const app = await world.app(tokens, { clock: { ...systemClock, now: () => nowMs } });
    const from = (remoteAddress: string, token: string) =>
      app.inject({
        method: 'POST',
        url: '/login',
        headers: { ...here, ...asForm },
        payload: form({ token }),
        remoteAddress,
      });
    for (let i = 0; i < mostTries; i++) expect((await from('10.0.0.1', `wrong-${i}`)).statusCode).toBe(401);
    const byHeader = async (token: string) =>
      (await app.inject({ url: '/', headers: { ...here, ...bearer(token) }, remoteAddress: '10.0.0.1' })).statusCode;
    expect([(await from('10.0.0.1', 'wrong')).statusCode, await byHeader('wrong')]).toEqual([429, 429]);
    expect([(await from('10.0.0.1', operatorToken)).statusCode, await byHeader(viewerToken)]).toEqual([303, 200]);
    expect((await from('10.0.0.2', 'wrong')).statusCode).toBe(401);
    for (let i = 0; i < mostTries; i++) await from(`2001:db8::${i + 1}:0:0:1`, 'wrong');
    expect((await from('2001:db8::f:0:0:1', 'wrong')).statusCode).toBe(429);
    nowMs += 60_000;
    expect((await from('10.0.0.1', 'wrong')).statusCode).toBe(401);
  });

  test('is told by probes only that it works', async () => {
    expect((await get('/livez', {}, guarded)).json()).toEqual({ status: 'ok' });
    const away = () => Promise.reject(new Error('connect ECONNREFUSED 10.0.3.7:6379'));
    const broken = await world.app(tokens, { pingQueues: away });
    for (const headers of [{}, bearer('wrong')]) {
      expect((await get('/readyz', headers, guarded)).statusCode).toBe(200);
      const strange = await get('/readyz', headers, broken);
      const checks = { database: 'ok', migrations: 'ok', queue: 'not ok' };
      expect([strange.statusCode, strange.json()]).toEqual([503, { status: 'not ready', checks }]);
    }
    expect((await get('/readyz', bearer(viewerToken), broken)).body).toContain('10.0.3.7');
    const onLoopback = await world.app(noTokens, { pingQueues: away });
    expect((await get('/readyz', {}, onLoopback)).body).toContain('10.0.3.7');
    expect((await get('/readyz', { host: 'evil.example' }, onLoopback)).body).not.toContain('10.0.3.7');
    expect((await get('/healthz', bearer(viewerToken), guarded)).statusCode).toBe(503);
    expect((await get('/healthz?account=fresh', bearer(viewerToken), guarded)).statusCode).toBe(200);
    expect((await get('/metrics', bearer(viewerToken), guarded)).body).toContain('shelfdesk_');
  });
});

describe('a viewer', () => {
  test('sees the figures and no button, and presses nothing: refused, and written down', async () => {
    const { cookie } = await session(viewerToken);
    const page = await get('/accounts/fresh', { cookie }, guarded);
    expect(page.statusCode).toBe(200);
    expect(cardsOf(page.body)).toHaveProperty('tickets');
    expect(page.body.match(/<button[^>]*>[^<]*/g)).toEqual(['<button class="quiet">Log out']);
    expect(page.body).not.toContain('id="actions"');
    const reply = await post(
      '/accounts/fresh/actions',
      { action: 'pause tickets', csrf: csrfOf(page.body) },
      { cookie },
      guarded,
    );
    expect(reply.statusCode).toBe(403);
    expect(await lastOperation()).toEqual({
      account_id: 'fresh',
      who: 'viewer at 127.0.0.1',
      ...{ action: 'pause', subject: 'tickets', outcome: 'refused: viewers only look' },
    });
    expect(await world.rows(`select from sync.paused where account_id = 'fresh'`)).toEqual([]);
  });
});

describe('an operator', () => {
  test('pauses and resumes, by forms without a script', async () => {
    const { cookie, csrf } = await session(operatorToken);
    const press = (action: string) => post('/accounts/fresh/actions', { action, csrf }, { cookie }, guarded);
    const paused = await press('pause tickets');
    expect([paused.statusCode, paused.headers.location]).toEqual([303, '/accounts/fresh?did=pause']);
    const page = (await get(String(paused.headers.location), { cookie }, guarded)).body;
    expect(page).toContain('It is paused.');
    expect(page).toContain('value="resume tickets"');
    expect(await lastOperation()).toEqual({
      account_id: 'fresh',
      who: 'operator at 127.0.0.1',
      ...{ action: 'pause', subject: 'tickets', outcome: 'done' },
    });
    expect((await press('resume tickets')).statusCode).toBe(303);
    expect(await world.rows(`select from sync.paused where account_id = 'fresh'`)).toEqual([]);
  });

  test('opens a run, cancels it and tries it again', async () => {
    const { csrf } = { csrf: csrfOf((await get('/accounts/fresh')).body) };
    const press = async (action: string) => {
      const reply = await post('/accounts/fresh/actions', { action, csrf }, { accept: 'application/json' });
      return [reply.statusCode, reply.json<{ says: string }>().says] as const;
    };
    const [status, says] = await press('run sync');
    expect([status, says]).toEqual([200, expect.stringMatching(/^Run \d+ was opened\.$/)]);
    const run = /\d+/.exec(says)![0];
    expect((await get('/accounts/fresh')).body).toContain(`value="cancel ${run}"`);
    expect(await press(`cancel ${run}`)).toEqual([200, `Run ${run} was canceled.`]);
    expect((await get('/accounts/fresh')).body).toContain(`value="retry ${run}"`);
    expect((await press(`retry ${run}`))[0]).toBe(200);
    const done = (await operations()).slice(-3).map(({ action, subject, outcome }) => [action, subject, outcome]);
    expect(done).toEqual([
      ['run', 'sync', `done: run ${run}`],
      ['cancel', run, 'done'],
      ['retry', run, expect.stringMatching(/^done: run \d+$/)],
    ]);
    await press(`cancel ${/\d+/.exec(done[2]![2]!)![0]}`);
  });

  test('hears why something cannot be done, and what to do instead', async () => {
    const csrf = csrfOf((await get('/accounts/stale')).body);
    const reply = await post('/accounts/stale/actions', { action: 'run sync', csrf });
    expect(reply.statusCode).toBe(409);
    expect(textOf(reply.body)).toMatch(/no worker is running for account 'stale'.*[\s\S]*npx shelfdesk start/i);
    expect(await lastOperation()).toMatchObject({ account_id: 'stale', outcome: expect.stringMatching(/^refused: /) });
    for (const action of ['explode', 'toString', 'run away', 'retry x', ''])
      expect([400, 409]).toContain((await post('/accounts/stale/actions', { action, csrf })).statusCode);
    expect((await post('/accounts/nobody/actions', { action: 'pause', csrf })).statusCode).toBe(404);
  });

  test('may be a program, by its token alone', async () => {
    const headers = { ...bearer(operatorToken), accept: 'application/json' };
    const reply = await post('/accounts/gaps/actions', { action: 'pause' }, headers, guarded);
    expect([reply.statusCode, reply.json()]).toEqual([200, { says: 'All of it is paused.' }]);
    await post('/accounts/gaps/actions', { action: 'resume' }, headers, guarded);
  });
});

test('who leaves before he is listened to is not listened to for ever', async () => {
  const { pool } = world;
  const gate = Promise.withResolvers<void>();
  const reached = Promise.withResolvers<void>();
  const answered = Promise.withResolvers<void>();
  let looks = 0;
  const pg: typeof pool = Object.create(pool, {
    query: {
      value: async (sql: string) => {
        reached.resolve();
        await gate.promise;
        const named = await pool.query(sql);
        answered.resolve();
        return named;
      },
    },
    connect: {
      value: () => {
        looks++;
        return pool.connect();
      },
    },
  });
  const app = await world.app(noTokens, { pg });
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  const closed = new Promise(done => app.server.once('connection', socket => socket.once('close', done)));
  const leaving = new AbortController();
  const asked = fetch(`${url}/events?account=fresh`, { signal: leaving.signal }).catch(() => {});
  await reached.promise;
  leaving.abort();
  await Promise.all([asked, closed]);
  gate.resolve();
  await answered.promise;
  // What follows the names of the accounts follows at once.
  await new Promise(setImmediate);
  expect(looks).toBe(0);
});

describe('another page cannot press', () => {
  const refused = async (fields: Record<string, string>, headers: Record<string, string>) => {
    const before = (await operations()).length;
    const reply = await post('/accounts/rejects/actions', { action: 'pause', ...fields }, headers, guarded);
    expect(reply.statusCode).toBe(403);
    expect((await operations()).length).toBe(before);
    expect(await world.rows(`select from sync.paused where account_id = 'rejects'`)).toEqual([]);
  };

  test('without what a form of the session sends along, or with that of another session', async () => {
    const { cookie } = await session(operatorToken);
    const other = await session(operatorToken);
    await refused({}, { cookie });
    await refused({ csrf: '' }, { cookie });
    await refused({ csrf: `${other.csrf}` }, { cookie });
  });

  test.for([
    { origin: 'https://evil.example' },
    { origin: 'http://127.0.0.1:9999' },
    { origin: 'null' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'none' },
  ])('from %o', async headers => {
    const { cookie, csrf } = await session(operatorToken);
    await refused({ csrf }, { cookie, ...headers });
    const onLoopback = csrfOf((await get('/accounts/rejects')).body);
    expect((await post('/accounts/rejects/actions', { action: 'pause', csrf: onLoopback }, headers)).statusCode).toBe(
      403,
    );
    expect((await post('/login', { token: operatorToken }, headers, guarded)).statusCode).toBe(403);
  });

  test('its own does', async () => {
    const { cookie, csrf } = await session(operatorToken);
    const own = { cookie, origin: 'http://127.0.0.1:8090', 'sec-fetch-site': 'same-origin' };
    expect((await post('/accounts/rejects/actions', { action: 'pause users', csrf }, own, guarded)).statusCode).toBe(
      303,
    );
    expect((await post('/accounts/rejects/actions', { action: 'resume users', csrf }, own, guarded)).statusCode).toBe(
      303,
    );
  });

  test('not even with a host name of its own for this address', async () => {
    for (const host of ['evil.example', 'evil.example:8090', '127.0.0.1.evil.example', '10.0.0.1'])
      expect((await get('/', { host })).statusCode).toBe(421);
    for (const host of ['localhost:8090', '127.0.0.1:8090', '[::1]:8090', 'LOCALHOST'])
      expect((await get('/', { host })).statusCode).toBe(200);
  });

  test('nor strangers behind a proxy, which calls itself by our name', async () => {
    for (const name of ['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'forwarded', 'via'])
      expect((await get('/', { [name]: 'anything' })).statusCode).toBe(421);
    expect((await get('/', { ...bearer(viewerToken), 'x-forwarded-for': '10.0.0.1' }, guarded)).statusCode).toBe(200);
  });

  test('and is held off by headers', async () => {
    const { headers } = await get('/');
    expect(headers['content-security-policy']).toMatch(/default-src 'none'.*frame-ancestors 'none'/);
    expect(headers['content-security-policy']).not.toContain('unsafe');
    expect(headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'referrer-policy': 'same-origin',
      'cache-control': 'no-store',
    });
  });
});

test('a request whose body does not come is closed, on every route', long, async () => {
  const app = await world.app(tokens);
  await app.listen({ port: 0, host: '127.0.0.1' });
  const { port } = app.server.address() as AddressInfo;
  const answers = await Promise.all(
    ['/login', '/logout', '/mcp'].map(async path => {
      const socket = connect(port, '127.0.0.1');
      socket.write(
        `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{`,
      );
      let said = '';
      socket.on('data', data => {
        said += data;
      });
      socket.on('error', () => {});
      await once(socket, 'close');
      return said.split('\r\n')[0] || 'closed';
    }),
  );
  for (const answer of answers) expect(answer).toMatch(/^(closed|HTTP\/1.1 (4\d\d) .*)$/);
});

describe('a session', () => {
  test('is a cookie that no script reads and no other site sends', async () => {
    const { reply } = await session(operatorToken);
    expect(reply.headers['set-cookie']).toMatch(
      /^shelfdesk=operator\.\S+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/,
    );
    const byProxy = await post('/login', { token: operatorToken }, { 'x-forwarded-proto': 'https' }, guarded);
    expect(byProxy.headers['set-cookie']).toMatch(/; Secure$/);
  });

  test('ends after a working day, with a changed token, and with a log-out', async () => {
    let nowMs = systemClock.now();
    const app = await world.app(tokens, { clock: { ...systemClock, now: () => nowMs } });
    const { cookie, csrf } = await session(operatorToken, app);
    const status = async (of: FastifyInstance) => (await get('/', { cookie }, of)).statusCode;
    expect([await status(app), await status(guarded)]).toEqual([200, 200]);
    expect(await status(await world.app({ ...tokens, viewerToken: 'others-hush-hush-hush' }))).toBe(401);
    nowMs += sessionMs;
    expect(await status(app)).toBe(401);
    const left = await post('/logout', { csrf }, { cookie }, guarded);
    expect(left.headers['set-cookie']).toMatch(/^shelfdesk=; .*Max-Age=0/);
    // Also for whoever has copied the cookie, in each process.
    expect([await status(guarded), await status(await world.app(tokens))]).toEqual([401, 401]);
    const another = await session(operatorToken);
    expect((await get('/', { cookie: another.cookie }, guarded)).statusCode).toBe(200);
    expect((await post('/logout', { csrf: 'x' }, { cookie: another.cookie }, guarded)).statusCode).toBe(403);
    expect((await get('/', { cookie: another.cookie }, guarded)).statusCode).toBe(200);
  });

  test('cannot be made a better one', async () => {
    const { cookie } = await session(viewerToken);
    const better = cookie.replace('viewer', 'operator');
    expect((await get('/', { cookie: better }, guarded)).statusCode).toBe(401);
  });
});

test('it is never open to others without a token', async () => {
  for (const host of ['0.0.0.0', '::', '10.0.0.1', 'desk.example'])
    expect(() => demandSafe({ ...noTokens, host })).toThrow(/would be open to everybody who reaches/);
  await expect(world.app({ ...noTokens, host: '0.0.0.0' })).rejects.toThrow('would be open');
  for (const host of ['127.0.0.1', 'localhost', '::1']) demandSafe({ ...noTokens, host });
  demandSafe({ ...tokens, host: '0.0.0.0' });
});

describe('the command', () => {
  test('refuses to open it to others without a token, and a port that is none', async () => {
    const config = world.site().accounts()[0]!.config;
    const open = await command(addWeb, config, 'web', '--host', '0.0.0.0');
    expect([open.code, open.stderr]).toEqual([
      2,
      expect.stringMatching(/would be open to everybody.*\n.*SHELFDESK_WEB_TOKEN/),
    ]);
    await expect(command(addWeb, config, 'web', '--port', '70000')).rejects.toThrow('It must be a port, 0 to 65535.');
  });

  test('serves it until SIGTERM, which ends also what is listened to', async () => {
    const { process: child, finished } = shelfdesk(['web', '--port', '0'], { DATABASE_URL: world.url });
    const url = await new Promise<string>((told, failed) => {
      let said = '';
      child.stderr!.on('data', chunk => {
        said += chunk;
        const [, found] = /Web page: (\S+) \(open to everyone on this machine\)/.exec(said) ?? [];
        if (found) told(found);
      });
      void finished.then(({ stderr }) => failed(new Error(stderr)));
    });
    expect(await (await fetch(`${url}livez`)).json()).toEqual({ status: 'ok' });
    const events = await fetch(`${url}events?account=fresh`);
    const reader = events.body!.pipeThrough(new TextDecoderStream()).getReader();
    let heard = '';
    while (!heard.includes('event: part')) heard += (await reader.read()).value;
    // It is taken: another one says so, and so a worker goes on without it.
    const config = world.site().accounts()[0]!.config;
    const second = await command(addWeb, config, 'web', '--port', new URL(url).port);
    expect([second.code, second.stderr]).toEqual([
      1,
      expect.stringMatching(/port \d+ of 127.0.0.1 is in use by another program\n.*SHELFDESK_WEB_PORT/),
    ]);
    child.kill('SIGTERM');
    while (!(await reader.read()).done);
    expect(await finished).toMatchObject({ code: 0 });
  });
});
