/** Routes behind the login: files, pages, actions and events. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { gzipSync } from 'node:zlib';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type pg from 'pg';
import type { Clock } from '../../clock.ts';
import { noteOperation } from '../../engine/runs/operations.ts';
import { UsageError } from '../../errors.ts';
import { actionOf, doAction, saidOf } from './actions.ts';
import type { Door, Visitor } from './auth.ts';
import { type Range, ranges } from './credits.ts';
import type { Listener, Live, Look } from './live.ts';
import type { Pages } from './pages.ts';
import { pathOf } from './render/fleet.ts';
import { html, text } from './render/html.ts';
import { type Framed, framed, messagePage, nameOf, style } from './render/layout.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Null only if no login is needed. */
    visitor: Visitor | null;
  }
}

export interface Behind {
  readonly pg: pg.Pool;
  readonly clock: Clock;
  readonly pages: Pages;
  readonly door: Door;
  readonly live: Live;
}

export function addRoutes(app: FastifyInstance, behind: Behind): void {
  const show = makeShow(behind.door, serveFiles(app));
  showPages(app, behind.pages, show);
  showRuns(app, behind.pages, show);
  takeActions(app, behind);
  sendEvents(app, behind);
}

export const sendHtml = (reply: FastifyReply, page: string) => reply.type('text/html; charset=utf-8').send(page);

const wantsJson = ({ headers: { accept = '' } }: FastifyRequest) =>
  accept.includes('application/json') && !accept.includes('text/html');

// --- pages ----------------------------------------------------------------------------------------------------------

/** Serves the page's files under names with a hash, so that browsers fetch them once. */
function serveFiles(app: FastifyInstance): Framed['files'] {
  const ofUplot = (name: string) => readFileSync(createRequire(import.meta.url).resolve(`uplot/dist/${name}`));
  const script = readFileSync(new URL('render/page.js', import.meta.url), 'utf8');
  const serve = (name: string, type: string, body: string | Buffer) => {
    const path = `/files/${nameOf(body)}/${name}`;
    const zipped = gzipSync(body);
    app.get(path, (request, reply) => {
      reply.headers({
        'cache-control': 'private, max-age=31536000, immutable',
        'content-type': `${type}; charset=utf-8`,
        vary: 'accept-encoding',
      });
      if (!/\bgzip\b/.test(String(request.headers['accept-encoding']))) return reply.send(body);
      return reply.header('content-encoding', 'gzip').send(zipped);
    });
    return path;
  };
  return {
    style: serve('page.css', 'text/css', style),
    script: serve('page.js', 'text/javascript', script),
    plot: serve('uplot.js', 'text/javascript', ofUplot('uPlot.iife.min.js')),
    plotStyle: serve('uplot.css', 'text/css', ofUplot('uPlot.min.css')),
  };
}

interface Page extends Pick<Framed, 'title' | 'heading' | 'rows' | 'events' | 'said'> {
  readonly look: Look;
  /** The account that its buttons act on. */
  readonly account?: string;
}

type Show = (request: FastifyRequest, reply: FastifyReply, page: Page) => Promise<FastifyReply>;

const makeShow =
  (door: Door, files: Framed['files']): Show =>
  async (request, reply, { look, account, ...page }) => {
    const visitor = request.visitor!;
    const parts = (await look())(visitor.role);
    const actions = account !== undefined && visitor.role === 'operator' ? `${pathOf(account)}/actions` : undefined;
    return sendHtml(reply, framed({ ...page, parts, visitor, files, actions, canLeave: door.asks }));
  };

const rangeOf = (asked: unknown): Range => (asked === 'day' || asked === 'week' ? asked : 'hour');
const accountRows = [
  ...[['now'], ['problems'], ['streams'], ['credits'], ['requests'], ['runs'], ['targets']],
  ['next', 'people'],
];

function showPages(app: FastifyInstance, pages: Pages, show: Show): void {
  type Asked = { Querystring: { range?: unknown; did?: unknown } };
  const showAccount = async (request: FastifyRequest<Asked>, reply: FastifyReply, account: string) => {
    const { did } = request.query;
    const range = rangeOf(request.query.range);
    const isOnly = (await pages.accounts()).length === 1;
    return show(request as FastifyRequest, reply, {
      title: `${account}: Shelfdesk`,
      heading: html`<h1>${text(account)}</h1>${isOnly ? null : html`<a href="/">All accounts</a>`}`,
      ...{ rows: accountRows, look: pages.account(account, range), account },
      said: typeof did === 'string' && Object.hasOwn(saidOf, did) ? saidOf[did] : undefined,
      events: `/events?account=${encodeURIComponent(account)}&range=${range}`,
    });
  };

  app.get<Asked>('/', async (request, reply) => {
    const names = await pages.accounts();
    if (names.length === 1) return showAccount(request, reply, names[0]!);
    const heading = html`<h1>All accounts</h1>`;
    const rows = [['now'], ['accounts']];
    return show(request as FastifyRequest, reply, {
      ...{ title: 'Shelfdesk', heading, rows, look: pages.fleet, events: '/events' },
    });
  });

  app.get<Asked & { Params: { account: string } }>('/accounts/:account', async (request, reply) => {
    const { account } = request.params;
    if (!(await pages.accounts()).includes(account)) return reply.callNotFound();
    return showAccount(request as FastifyRequest<Asked>, reply, account);
  });
}

/** The number of a run in a path; 0 if it is none. */
const runOf = (asked: unknown): number => (/^[1-9]\d{0,14}$/.test(String(asked)) ? Number(asked) : 0);

function showRuns(app: FastifyInstance, pages: Pages, show: Show): void {
  app.get<{ Params: { account: string; run: string } }>('/accounts/:account/runs/:run', async (request, reply) => {
    const { account } = request.params;
    const id = runOf(request.params.run);
    const look = (await pages.accounts()).includes(account) ? await pages.run(account, id) : undefined;
    if (look === undefined) return reply.callNotFound();
    return show(request as FastifyRequest, reply, {
      title: `Run ${id} of ${account}: Shelfdesk`,
      heading: html`<h1>Run ${id}</h1><a href="${pathOf(account)}">${text(account)}</a>`,
      ...{ rows: [['run'], ['streams'], ['log'], ['people']], look, account },
      events: `/events?account=${encodeURIComponent(account)}&run=${id}`,
    });
  });
}

// --- actions ----------------------------------------------------------------------------------------------------------

function takeActions(app: FastifyInstance, { pg, clock, pages, door }: Behind): void {
  app.post<{ Params: { account: string }; Body: URLSearchParams | undefined }>(
    '/accounts/:account/actions',
    async (request, reply) => {
      const { account } = request.params;
      const visitor = request.visitor!;
      const who = `${visitor.role} at ${request.ip}`;
      const now = new Date(clock.now());
      const asked = actionOf(request.body?.get('action') ?? '');
      const answer = (status: number, says: string, remedy?: string) => {
        if (wantsJson(request))
          return reply.code(status).send({ says, ...(remedy && { remedy: remedy.replaceAll('`', '') }) });
        if (status === 200) return reply.redirect(`${pathOf(account)}?did=${asked!.action}`, 303);
        return sendHtml(reply.code(status), messagePage(says, remedy ?? ''));
      };
      if (!door.isOwn(visitor, request.body?.get('csrf') ?? ''))
        return answer(403, 'This form is not of your session, or too old.', 'Load the page again.');
      if (asked === undefined) return answer(400, 'There is nothing of that name to be done.', 'Load the page again.');
      if (!(await pages.accounts()).includes(account)) return reply.callNotFound();
      if (visitor.role !== 'operator') {
        await noteOperation(
          pg,
          { account, who, ...asked, action: asked.action as never, outcome: 'refused: viewers only look' },
          now,
        );
        return answer(403, 'Viewers only look.', 'Log in with the token of operators.');
      }
      try {
        return answer(200, await doAction(pg, { account, who, streams: pages.streamsOf(account) }, asked, now));
      } catch (error) {
        if (!(error instanceof UsageError)) throw error;
        return answer(409, `${error.message.charAt(0).toUpperCase()}${error.message.slice(1)}.`, error.remedy);
      }
    },
  );
}

// --- live -----------------------------------------------------------------------------------------------------------

/** Most bytes that wait for a slow listener. Beyond it the connection is closed. */
const mostWaiting = 1_000_000;

function sendEvents(app: FastifyInstance, { pages, live, door }: Behind): void {
  type Query = { account?: string; range?: unknown; run?: unknown; have?: string };
  app.get<{ Querystring: Query }>('/events', { exposeHeadRoute: false }, async (request, reply) => {
    const { account, have = '' } = request.query;
    const range = rangeOf(request.query.range);
    if (typeof account === 'string' && !(await pages.accounts()).includes(account)) return reply.callNotFound();
    const raw = reply.raw;
    // A connection that is closed already emits no `close` event.
    if (raw.destroyed) return reply.hijack();
    const { authorization, cookie } = request.headers;
    const listener: Listener = {
      role: request.visitor!.role,
      have: new Map(
        String(have)
          .split(',')
          .map(pair => pair.split(':') as [string, string]),
      ),
      send(event, data) {
        if (raw.writableLength > mostWaiting) this.end();
        else raw.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
      },
      beat: () => void raw.write(':\n\n'),
      mayStay: () => typeof door.visitor({ authorization, cookie, address: request.ip }) === 'object',
      end() {
        live.leave(listener);
        raw.end();
      },
    };
    const run = runOf(request.query.run);
    const ofRun = typeof account === 'string' && run > 0 ? await pages.run(account, run) : undefined;
    const ofAccount = typeof account === 'string' ? pages.account(account, range) : pages.fleet;
    const topic = JSON.stringify([account, ofRun ? run : range]);
    const headers = { ...reply.getHeaders(), 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' };
    raw.on('close', () => live.leave(listener));
    if (!live.listen(topic, ofRun ?? ofAccount, listener))
      return reply.code(503).header('retry-after', '30').send('Too many look.');
    reply.hijack();
    raw.writeHead(200, headers as Record<string, string>);
    raw.write('retry: 2000\n\n');
  });

  app.get<{ Querystring: Query }>('/credits.json', async (request, reply) => {
    const { account = '', range } = request.query;
    if (!(await pages.accounts()).includes(account)) return reply.callNotFound();
    const asked = rangeOf(range);
    return {
      account,
      range: asked,
      step_minutes: ranges[asked].stepMinutes,
      steps: await pages.credits(account, asked),
    };
  });
}
