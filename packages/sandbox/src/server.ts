/**
 * The help desk and the book catalog as one HTTP server. It is written from the specifications and imports nothing from
 * its clients, so a client's misreading of the specification fails here. services.ts answers the requests; this file adds
 * sockets and the only timer.
 */
import type { Server } from 'node:http';
import { ADMIN_MOST_BYTES, administer } from './admin/admin.ts';
import { type Administered, adminRng } from './admin/admin-endpoints.ts';
import { Rules } from './admission/rules.ts';
import { LONGEST_FORM } from './books/request.ts';
import { BOOKS_BASE, BooksService } from './books/service.ts';
import { TOKEN_PATH } from './books/tokens.ts';
import type { BooksWorld } from './books/world.ts';
import { BASE } from './helpdesk/service.ts';
import type { World } from './helpdesk/world/world.ts';
import { addressOf, type Certificate, end, listen, listener, warn } from './http/http-server.ts';
import { headOf, received, restOf, Underway } from './http/request-body.ts';
import { type Serving, serve } from './http/request-handler.ts';
import type { Asked, SeenRequest } from './http/request-reply.ts';
import { openapiAt } from './openapi.ts';
import { pageAt } from './page/page.ts';
import { openServices, type ServicesOptions } from './services.ts';

export type { Fault } from './admission/faults.ts';
export type { SeenRequest } from './http/request-reply.ts';
export type { BooksOptions } from './services.ts';

export interface SandboxOptions extends ServicesOptions {
  /** Default 127.0.0.1. */
  host?: string;
  /** Default 0: any free port. */
  port?: number;
  /** Admin port (admin.ts), on 127.0.0.1 whatever `host` is; 0: any free port. Default none. */
  adminPort?: number;
  /** Certificate and key (PEM): serves HTTPS only, as section 1 demands. Default plain HTTP. */
  tls?: Certificate;
}

interface SandboxBooks {
  /** Ends in /books/v1. */
  url: string;
  key: string;
  /** The access token that never expires. */
  token: string;
  tokenUrl: string;
  clientId: string;
  clientSecret: string;
  refreshToken: string;
  world: BooksWorld;
  /** As `Sandbox.requests`; `cost` counts requests of the day. Excludes the token endpoint. */
  requests: SeenRequest[];
  totals: { requests: number; refused: number };
  /** Number of access tokens issued for the refresh token. */
  tokensGiven(): number;
  beginNewDay(): void;
  /** Expires all access tokens issued for the refresh token. */
  expireTokens(): void;
}

export interface Sandbox {
  url: string;
  /** Without trailing slash; only with `adminPort`. */
  adminUrl?: string;
  token: string;
  world: World;
  /** All answered requests in order, at least the last 100,000. */
  requests: SeenRequest[];
  totals: { requests: number; credits: number; refused: number };
  /** Lets another client of the account use credits. */
  takeCredits(n: number): void;
  /** Fault rules of both services; can change at any time. */
  rules: Rules;
  books: SandboxBooks;
  /** Closes the server and all its connections immediately. */
  close(): Promise<void>;
}

export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const rules = options.rules ?? new Rules();
  const firstRules = rules.list().map(({ rule }) => rule);
  let services = openServices({ ...options, rules });
  let records = options.records;
  const { mostBodyBytes } = services.helpdesk.readings;
  const underway = new Underway(Math.max(MOST_UNDERWAY_BYTES, 2 * mostBodyBytes));
  const watched: Administered = {
    get helpdesk() {
      return services.helpdesk;
    },
    get books() {
      return services.books;
    },
    rules,
    catchingUp: () => services.catchingUp(),
    rng: adminRng(options.seed ?? 1),
    keep: lines => {
      records = lines;
    },
    reset: () => {
      rules.set(firstRules);
      services = openServices({ ...options, rules, ...(records !== undefined && { records }) });
    },
  };
  const beside = (asked: Asked) => pageAt(asked, watched) ?? openapiAt(asked, services.helpdesk.world.clock.now());
  const desk: Serving = {
    get world() {
      return services.helpdesk.world;
    },
    handle: asked => beside(asked) ?? services.handle(asked),
    wants: asked => ({ most: mostBodyBytes, kept: services.helpdesk.letsIn(asked) }),
  };
  const shop: Serving = {
    get world() {
      return services.books.world;
    },
    handle: asked => services.handle(asked),
    // Always kept: a form can carry the credentials in its body.
    wants: () => ({ most: LONGEST_FORM, kept: true }),
  };
  const serviceFor = ({ url }: Asked) => (BooksService.takes(url) ? shop : desk);
  const serves = { serviceFor, catchingUp: () => services.catchingUp(), underway, secure: options.tls !== undefined };
  const limits = () => services.helpdesk.limitHeaders();
  const server = listener(options.tls, (request, response) => serve(serves, request, response), limits);
  const admin = options.adminPort === undefined ? undefined : adminListener(watched);
  const close = async () => {
    await Promise.all([server, admin].map(end));
  };
  try {
    await listen(server, options.port ?? 0, options.host ?? '127.0.0.1');
    if (admin) await listen(admin, options.adminPort ?? 0, '127.0.0.1');
  } catch (error) {
    await close();
    throw error;
  }
  const adminUrl = admin && addressOf('http', admin);
  if (adminUrl) watched.adminPort = Number(new URL(adminUrl).port);
  const timer = setInterval(
    inSlices(() => services.catchingUp()),
    250,
  ).unref();
  const origin = addressOf(options.tls ? 'https' : 'http', server);

  return {
    url: origin + BASE,
    ...(adminUrl && { adminUrl }),
    token: services.helpdesk.tokens[0] ?? '',
    get world() {
      return services.helpdesk.world;
    },
    get requests() {
      return services.helpdesk.requests;
    },
    get totals() {
      return services.helpdesk.totals;
    },
    takeCredits: credits => services.helpdesk.takeCredits(credits),
    rules,
    get books() {
      return accessTo(services.books, origin);
    },
    close: () => {
      clearInterval(timer);
      return close();
    },
  };
}

/** Limit for all bodies in progress; twice `mostBodyBytes` if that is more. */
const MOST_UNDERWAY_BYTES = 256 * 1024 * 1024;

/**
 * Keeps the worlds current for code that reads them without a request. After the machine has slept, catching up can take
 * seconds; each slice yields to the event loop.
 */
function inSlices(catchingUp: () => Iterator<void>): () => void {
  let slices: Iterator<void> | undefined;
  return function next() {
    slices ??= catchingUp();
    try {
      if (slices.next().done) slices = undefined;
      else setImmediate(next).unref();
    } catch (error) {
      slices = undefined;
      warn(error);
    }
  };
}

function adminListener(administered: Administered): Server {
  const underway = new Underway(MOST_UNDERWAY_BYTES);
  return listener(undefined, async (request, response) => {
    const asked = await received(request, headOf(request, false), { most: ADMIN_MOST_BYTES, kept: true }, underway);
    if (typeof asked === 'string') return void response.destroy();
    if (asked.tooLong) {
      await restOf(request);
      response.setHeader('Connection', 'close');
    }
    await administer(administered, asked, response);
  });
}

function accessTo(books: BooksService, origin: string): SandboxBooks {
  const { world, key, requests, totals, tokens } = books;
  const { token, clientId, clientSecret, refreshToken } = tokens;
  return {
    url: origin + BOOKS_BASE,
    tokenUrl: origin + TOKEN_PATH,
    ...{ key, token, clientId, clientSecret, refreshToken, world, requests, totals },
    tokensGiven: () => tokens.given,
    beginNewDay: () => books.beginNewDay(),
    expireTokens: () => tokens.expireAll(),
  };
}
