/**
 * The help desk and the book catalog as one real HTTP server on this machine, written from the specifications of their
 * interfaces, with worlds that change and faults on purpose. It imports nothing of the clients, so what they have
 * misunderstood fails here. What a request deserves is decided in service.ts and books/service.ts; this file has the
 * sockets and the timers.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { ADMIN_MOST_BYTES, administer } from './admin.ts';
import { type Administered, adminRng } from './admin-endpoints.ts';
import { BOOKS_BASE, BooksService } from './books/service.ts';
import { TOKEN_PATH } from './books/tokens.ts';
import type { BooksWorld } from './books/world.ts';
import type { Asked, Reply, SeenRequest } from './exchange.ts';
import { BASE } from './helpdesk/service.ts';
import type { World } from './helpdesk/world.ts';
import { openapiAt } from './openapi.ts';
import { pageAt } from './page/page.ts';
import type { Rules } from './rules.ts';
import { openServices, type ServicesOptions } from './services.ts';

export type { SeenRequest } from './exchange.ts';
export type { Fault } from './faults.ts';
export type { BooksOptions } from './services.ts';

export interface SandboxOptions extends ServicesOptions {
  /** Default 127.0.0.1. */
  host?: string;
  /** Default 0: any free port. */
  port?: number;
  /** A second port, of 127.0.0.1 whatever `host` is, for whoever runs it (admin.ts); 0: any free one. Default none. */
  adminPort?: number;
  /** Serves HTTPS and nothing else, as the specification (1) wants; PEM. Default plain HTTP, which needs no certificate. */
  tls?: { cert: string; key: string };
}

export interface SandboxBooks {
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
  /** As those of the help desk; the cost is what a request used of the day. The token endpoint is not among them. */
  requests: SeenRequest[];
  totals: { requests: number; refused: number };
  /** How many access tokens were given for the refresh token. */
  tokensGiven(): number;
  beginNewDay(): void;
  /** All access tokens that were given expire now. */
  expireTokens(): void;
}

export interface Sandbox {
  url: string;
  /** Without a slash at the end; only with an `adminPort`. */
  adminUrl?: string;
  token: string;
  world: World;
  /** Every request that was answered, in order; of many at least the last 100,000. */
  requests: SeenRequest[];
  totals: { requests: number; credits: number; refused: number };
  /** Another client of the account uses credits now. */
  takeCredits(n: number): void;
  /** What goes wrong on purpose, in both services; may be changed at any time. */
  rules: Rules;
  books: SandboxBooks;
  /** Ends every connection at once. */
  close(): Promise<void>;
}

export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const services = openServices(options);
  const { helpdesk, books, rules } = services;
  const { world } = helpdesk;
  const secure = options.tls !== undefined;
  const watched: Administered = {
    helpdesk,
    books,
    rules,
    catchUp: services.catchUp,
    rng: adminRng(options.seed ?? 1),
  };
  const beside = (asked: Asked) => pageAt(asked, watched) ?? openapiAt(asked, world.clock.now());
  const desk: Serving = { world, handle: asked => beside(asked) ?? services.handle(asked) };
  const shop: Serving = { world: books.world, handle: services.handle };
  const most = helpdesk.readings.mostBodyBytes;
  const server = listener(options.tls, (request, response) => {
    void serve(BooksService.takes(request.url ?? '') ? shop : desk, { most, secure }, request, response);
  });
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
  const adminAddress = admin?.address() as AddressInfo | undefined;
  if (adminAddress) watched.adminPort = adminAddress.port;
  // Requests find the worlds as they are by then; this is for those who look at them without one.
  const timer = setInterval(services.catchUp, 250).unref();
  const origin = originOf(options.tls ? 'https' : 'http', server.address() as AddressInfo);

  return {
    url: origin + BASE,
    ...(adminAddress && { adminUrl: originOf('http', adminAddress) }),
    token: helpdesk.tokens[0] ?? '',
    world,
    requests: helpdesk.requests,
    totals: helpdesk.totals,
    takeCredits: credits => helpdesk.takeCredits(credits),
    rules,
    books: accessTo(books, origin),
    close: () => {
      clearInterval(timer);
      return close();
    },
  };
}

function adminListener(administered: Administered): Server {
  return listener(undefined, async (request, response) => {
    const { method = 'GET', url = '/', headers } = request;
    const body = await bodyOf(request, ADMIN_MOST_BYTES);
    if (body === undefined) return void response.destroy();
    await administer(administered, { method, url, headers, body }, response);
  });
}

function listen(server: Server, port: number, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject).listen(port, host, resolve);
  });
}

function end(server: Server | undefined): Promise<void> {
  if (!server?.listening) return Promise.resolve();
  const closed = new Promise<void>(resolve => server.close(() => resolve()));
  server.closeAllConnections();
  return closed;
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

/** Who listens on all addresses is reached from this machine by its own. */
function originOf(scheme: string, { address, family, port }: AddressInfo): string {
  const own = address === '0.0.0.0' ? '127.0.0.1' : address === '::' ? '::1' : address;
  return `${scheme}://${family === 'IPv6' ? `[${own}]` : own}:${port}`;
}

function listener(
  tls: SandboxOptions['tls'],
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Server {
  const server = tls ? createTlsServer(tls, answer) : createServer(answer);
  // Longer than any client keeps an idle connection: the side that sends should be the one that lets go.
  server.keepAliveTimeout = 120_000;
  // A request of which only drops come does not hold its connection for long.
  server.headersTimeout = 20_000;
  server.requestTimeout = 60_000;
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    refuseConnection(socket, BROKEN_REQUESTS[error.code ?? ''] ?? 400);
  });
  server.on('connect', (_, socket) => refuseConnection(socket, 405));
  return server;
}

const BROKEN_REQUESTS: Record<string, number> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

/** What is no HTTP that can be read is told so in the same form as everything else, and its connection ends. */
function refuseConnection(socket: Duplex, status: number): void {
  if (!socket.writable) return void socket.destroy();
  const body = JSON.stringify({ message: `${STATUS_CODES[status]}: the request is not one that can be read` });
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\nContent-Type: application/json\r\n`;
  socket.end(`${head}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`, () => socket.destroy());
}

/** What both services are to a socket. */
interface Serving {
  handle(asked: Asked): Reply;
  readonly world: { clock: { now(): number } };
}

async function serve(
  service: Serving,
  { most, secure }: { most: number; secure: boolean },
  request: IncomingMessage,
  response: ServerResponse,
) {
  const { method = 'GET', url = '/', headers } = request;
  const body = await bodyOf(request, most);
  if (body === undefined) return void response.destroy();
  const reply = answered(service, { method, url, headers, body, secure });
  if (reply.delay_ms !== undefined) {
    await delay(reply.delay_ms, undefined, { ref: false });
    reply.headers.Date = new Date(service.world.clock.now()).toUTCString();
  }
  if (!response.destroyed) send(response, reply);
}

/** A fault of the sandbox's own ends one request, not the server. */
function answered(service: Serving, asked: Asked): Reply {
  try {
    return service.handle(asked);
  } catch (error) {
    process.emitWarning(error instanceof Error ? error : String(error));
    return { status: 500, headers: { Date: new Date(service.world.clock.now()).toUTCString() }, text: '' };
  }
}

/** As much of it as shows that it is longer than `most`; undefined for one that breaks off, or has no end. */
async function bodyOf(request: IncomingMessage, most: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of request) {
      if (length <= most) chunks.push(chunk);
      length += chunk.length;
      if (length > 4 * most) return undefined;
    }
  } catch {
    return undefined;
  }
  return Buffer.concat(chunks);
}

function send(response: ServerResponse, { status, headers, text, broken }: Reply): void {
  const bytes = Buffer.from(text);
  if (broken === 'before') return void response.socket?.resetAndDestroy();
  response.sendDate = false;
  response.writeHead(status, status === 204 ? headers : { ...headers, 'Content-Length': bytes.length });
  if (broken === undefined) return void response.end(bytes);
  const sent = broken === 'half' ? bytes.subarray(0, bytes.length >> 1) : bytes.subarray(0, 0);
  response.flushHeaders();
  response.write(sent, () => response.socket?.destroy());
}
