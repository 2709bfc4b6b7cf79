/**
 * The web server: access control, routes, and shutdown. Every request passes auth.ts first. Other files render pages
 * and perform actions.
 */
import type { Queue } from 'bullmq';
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type pg from 'pg';
import type { Logger } from 'pino';
import type { WebConfig } from '../../app/config.ts';
import type { Clock } from '../../clock.ts';
import { describeOutage, isAway, ShelfdeskError, UsageError } from '../../errors.ts';
import type { Served } from '../../status/accounts.ts';
import { forStrangers, healthz, livez, readyz } from '../metrics/health.ts';
import { type Metrics, makeMetrics } from '../metrics/metrics.ts';
import { mountAgents, type ServedAgents } from './agents.ts';
import {
  type Asking,
  cookieName,
  type Door,
  hostOf,
  isForwarded,
  isLoopback,
  isSameOrigin,
  makeDoor,
  sessionMs,
} from './auth.ts';
import { makeLive } from './live.ts';
import { makePages } from './pages.ts';
import { loginPage, messagePage, styleHash } from './render/layout.ts';
import { addRoutes, sendHtml } from './routes.ts';
import { type EndedSessions, makeEndedSessions } from './sessions.ts';

export interface Site {
  readonly pg: pg.Pool;
  readonly clock: Clock;
  readonly log: Logger;
  readonly version: string;
  /** Accounts with valid settings. */
  readonly accounts: () => readonly Served[];
  /** Accounts with invalid settings. */
  readonly refused: () => readonly string[];
  /** The queue of each account. `findQueues` adds later accounts. */
  readonly queues: ReadonlyMap<string, Queue>;
  readonly findQueues: () => Promise<void>;
  /** Rejects if the server of the queues is unavailable. */
  readonly pingQueues: () => Promise<void>;
  readonly web: Pick<WebConfig, 'host' | 'token' | 'viewerToken'>;
  /** Undefined: agents are not answered. */
  readonly agents?: ServedAgents | undefined;
}

export interface Serving extends AsyncDisposable {
  readonly url: string;
}

/** Why the system does not let us listen, by the code of its error. */
const refusals: Readonly<Record<string, (host: string, port: number) => string>> = {
  EADDRINUSE: (host, port) => `port ${port} of ${host} is in use by another program`,
  EADDRNOTAVAIL: host => `${host} is no address of this machine`,
  EACCES: (_, port) => `this user may not open port ${port}`,
};

/** Another process uses the port, or this process may not open it. */
export class PortTaken extends ShelfdeskError {
  constructor(what: string, cause: unknown) {
    super(what, 'Choose another one: SHELFDESK_WEB_PORT, SHELFDESK_WEB_HOST, or --port and --host.', { cause });
  }
}

/** A request has to arrive within this time, head and body. How long its answer takes is another matter. */
const requestMs = 10_000;
/** Node looks for late requests this often. */
const checkMs = 1000;

/** Probes without a token. They show strangers only what works and what does not. */
const openPaths: ReadonlySet<string> = new Set(['/livez', '/readyz']);

const policy =
  `default-src 'none'; script-src 'self'; style-src 'self' ${styleHash}; img-src data:; connect-src 'self'; ` +
  "base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/** Throws UsageError if the settings would open the page to strangers. */
export function demandSafe({ host, token, viewerToken }: Site['web']): void {
  if (isLoopback(host) || token !== undefined || viewerToken !== undefined) return;
  throw new UsageError(
    `the page would be open to everybody who reaches ${host}`,
    'Set SHELFDESK_WEB_TOKEN to 16 characters or more that nobody can guess (`openssl rand -base64 24`), or leave SHELFDESK_WEB_HOST out.',
  );
}

/** Listens until it is disposed of. Throws UsageError as above, and PortTaken. */
export async function servePage(site: Site, port: number): Promise<Serving> {
  const { app, close } = await makeApp(site);
  try {
    await app.listen({ host: site.web.host, port });
  } catch (error) {
    await close();
    const why = refusals[(error as { code?: string }).code ?? ''];
    if (why === undefined) throw error;
    throw new PortTaken(why(site.web.host, port), error);
  }
  const address = app.server.address() as { address: string; port: number };
  const host = isLoopback(site.web.host) ? site.web.host : address.address;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${address.port}/`,
    [Symbol.asyncDispose]: close,
  };
}

/** Makes the server without a socket, for tests. `close` also ends event streams. */
// @internal Tests ask the page without a socket.
export async function makeApp(site: Site): Promise<{ app: FastifyInstance; close: () => Promise<void> }> {
  demandSafe(site.web);
  const { clock, log } = site;
  const metrics = makeMetrics(site, site.version);
  const ended = makeEndedSessions(site.pg, () => clock.now());
  const tokens = { operator: site.web.token, viewer: site.web.viewerToken };
  const door = makeDoor(tokens, { now: () => clock.now(), isEnded: ended.has }, ({ why, by, address }) => {
    metrics.loginRefused(why);
    // At most ten attempts per address and minute are logged as warnings, so that nobody can flood the log.
    log[why === 'wrong' ? 'warn' : 'debug']({ address, by, why }, 'a login of the page was refused');
  });
  const app = fastify({
    ...{ bodyLimit: 4096, forceCloseConnections: true, routerOptions: { maxParamLength: 1000 } },
    requestTimeout: requestMs,
    http: { headersTimeout: requestMs, connectionsCheckingInterval: checkMs },
  });
  const live = makeLive(clock, {
    refresh: ended.refresh,
    failed(error) {
      if (isAway(error)) return `${describeOutage(error, 'The warehouse')}. These figures are the last ones seen.`;
      log.error(error, 'the page cannot read its figures');
      return 'The figures cannot be read: the log says why.';
    },
  });

  app.decorateRequest('visitor', null);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string' }, (_, body, done) =>
    done(null, new URLSearchParams(body as string)),
  );
  guard(app, door, ended);
  app.setNotFoundHandler((_, reply) =>
    sendHtml(reply.code(404), messagePage('There is nothing here.', 'Perhaps it was an account of another warehouse.')),
  );
  app.setErrorHandler((error: Error & { statusCode?: number }, _, reply) => {
    if (error.statusCode !== undefined && error.statusCode < 500)
      return sendHtml(reply.code(error.statusCode), messagePage('This cannot be read.', 'Go back, and try it again.'));
    if (isAway(error as unknown))
      return sendHtml(
        reply.code(503).header('retry-after', '5'),
        messagePage(
          `${describeOutage(error, 'The warehouse')}.`,
          'It is not the page: look at the database, and load this again.',
        ),
      );
    log.error(error, 'the page failed');
    return sendHtml(reply.code(500), messagePage('This went wrong.', 'The log says why.'));
  });

  loggingIn(app, door, ended);
  addRoutes(app, { pg: site.pg, clock, door, live, pages: makePages(site) });
  mountProbes(app, site, metrics);
  if (site.agents) mountAgents(app, site.agents);
  await app.ready();
  return {
    app,
    close: async () => {
      await live.close();
      await app.close();
    },
  };
}

function refuse(reply: FastifyReply, status: number, words: string) {
  return sendHtml(reply.code(status), messagePage(words, 'Log in as somebody else, or ask an operator.'));
}

// --- the door -------------------------------------------------------------------------------------------------------

function guard(app: FastifyInstance, door: Door, ended: EndedSessions): void {
  /** Requests without a valid cookie cause no query to the warehouse. */
  const visitorOf = async (asking: Asking) => {
    const visitor = door.visitor(asking);
    if (typeof visitor !== 'object' || visitor.session === null) return visitor;
    await ended.refresh();
    return door.visitor(asking);
  };
  app.addHook('onRequest', async (request, reply) => {
    reply.headers({
      'content-security-policy': policy,
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      // Sent to our own pages, so that the browser names the origin of a form.
      'referrer-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'cross-origin-opener-policy': 'same-origin',
      'cache-control': 'no-store',
    });
    const path = request.url.split('?')[0]!;
    const { host, origin, authorization, cookie } = request.headers;
    // Another host name for this address would make pages of other sites same-origin, and a proxy forwards requests of strangers.
    const isStrange = !door.asks && (!isLoopback(hostOf(host)) || isForwarded(request.headers));
    if (openPaths.has(path)) {
      const known = isStrange ? undefined : await visitorOf({ authorization, cookie, address: request.ip });
      if (typeof known === 'object') request.visitor = known;
      return;
    }
    if (isStrange)
      return refuse(reply, 421, 'Without a token the page answers to localhost and 127.0.0.1 only, and to no proxy.');
    const site = request.headers['sec-fetch-site'] as string | undefined;
    if (request.method !== 'GET' && request.method !== 'HEAD' && !isSameOrigin({ host, origin, site }))
      return refuse(reply, 403, 'This was sent by another page.');
    if (path === '/login' && request.method === 'POST') return;
    const visitor = await visitorOf({ authorization, cookie, address: request.ip });
    if (visitor === 'wait') return sendHtml(reply.code(429).header('retry-after', '60'), loginPage('wait'));
    if (visitor === undefined)
      return sendHtml(reply.code(401).header('www-authenticate', 'Bearer realm="shelfdesk"'), loginPage());
    request.visitor = visitor;
  });
}

function loggingIn(app: FastifyInstance, door: Door, ended: EndedSessions): void {
  const setCookie = (request: FastifyRequest, reply: FastifyReply, value: string, seconds: number) => {
    // Only a proxy knows that the visitor uses HTTPS. The header can only make a cookie stricter.
    const secure = request.headers['x-forwarded-proto'] === 'https' ? '; Secure' : '';
    reply.header(
      'set-cookie',
      `${cookieName}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${seconds}${secure}`,
    );
  };
  app.post<{ Body: URLSearchParams | undefined }>('/login', (request, reply) => {
    if (!door.asks) return reply.redirect('/', 303);
    const login = door.logIn(request.body?.get('token') ?? '', request.ip);
    if (login === 'wait') return sendHtml(reply.code(429).header('retry-after', '60'), loginPage('wait'));
    if (login === 'wrong') return sendHtml(reply.code(401), loginPage('wrong'));
    setCookie(request, reply, login.session, sessionMs / 1000);
    return reply.redirect('/', 303);
  });
  app.get('/login', (_, reply) => reply.redirect('/', 303));
  app.post<{ Body: URLSearchParams | undefined }>('/logout', async (request, reply) => {
    if (!door.isOwn(request.visitor!, request.body?.get('csrf') ?? ''))
      return refuse(reply, 403, 'This form is too old.');
    setCookie(request, reply, '', 0);
    const { session } = request.visitor!;
    if (session !== null) await ended.end(session);
    return reply.redirect('/', 303);
  });
}

// --- probes ---------------------------------------------------------------------------------------------------------

function mountProbes(app: FastifyInstance, site: Site, metrics: Metrics): void {
  const tell = (reply: FastifyReply, { status, body }: ReturnType<typeof livez>) => reply.code(status).send(body);
  app.get('/livez', (_, reply) => tell(reply, livez()));
  app.get('/readyz', async ({ visitor }, reply) => {
    const health = await readyz(site);
    return tell(reply, visitor === null ? forStrangers(health) : health);
  });
  app.get<{ Querystring: { account?: string } }>('/healthz', async ({ query: { account } }, reply) =>
    tell(reply, await healthz(site, typeof account === 'string' ? account : undefined)),
  );
  app.get('/metrics', async (_, reply) => reply.type(metrics.contentType).send(await metrics.text()));
}
