/**
 * Servers that listen: how long they wait for whom, what they say to those who speak no HTTP, and how they end. What
 * goes wrong between a socket and an answer, whatever it is, ends that one connection and never the process.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';

/** Serves HTTPS and nothing else; PEM. */
export interface Certificate {
  cert: string;
  key: string;
}

/** `headers`: of the replies to what is no HTTP. */
export function listener(
  tls: Certificate | undefined,
  answer: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
  headers: () => Record<string, string> = () => ({}),
): Server {
  const guarded = (request: IncomingMessage, response: ServerResponse) => {
    answer(request, response).catch((error: unknown) => {
      warn(error);
      response.destroy();
    });
  };
  const server = tls ? createTlsServer({ ...tls, ...LISTENING }, guarded) : createServer(LISTENING, guarded);
  // Longer than any client keeps an idle connection: the side that sends should be the one that lets go.
  server.keepAliveTimeout = 120_000;
  // A request of which only drops come does not hold its connection for long.
  server.headersTimeout = 20_000;
  server.requestTimeout = 30_000;
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    refuseConnection(socket, BROKEN_REQUESTS[error.code ?? ''] ?? 400, headers());
  });
  server.on('connect', (_, socket) => refuseConnection(socket, 405, headers()));
  return server;
}

/** A mistake of the sandbox's own is told where it runs. */
export function warn(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : String(error));
}

const BROKEN_REQUESTS: Record<string, number> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

/**
 * Without a Host Node would answer by itself, without a body; nothing here goes by it but the links. And it would look
 * for requests that take too long twice a minute only.
 */
const LISTENING = { requireHostHeader: false, connectionsCheckingInterval: 5000 };

/** What is no HTTP that can be read is told so in the same form as everything else, and its connection ends. */
function refuseConnection(socket: Duplex, status: number, headers: Record<string, string>): void {
  // Nobody else listens to a socket that is handed over, and its client may be gone by now.
  socket.on('error', () => {});
  if (!socket.writable) return void socket.destroy();
  const body = JSON.stringify({ message: `${STATUS_CODES[status]}: the request is not one that can be read` });
  const lines = Object.entries({
    Connection: 'close',
    'Content-Type': 'application/json',
    ...headers,
    'Content-Length': Buffer.byteLength(body),
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`, () => socket.destroy());
}

export function listen(server: Server, port: number, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject).listen(port, host, resolve);
  });
}

/** Ends its connections at once. */
export function end(server: Server | undefined): Promise<void> {
  if (!server?.listening) return Promise.resolve();
  const closed = new Promise<void>(resolve => server.close(() => resolve()));
  server.closeAllConnections();
  return closed;
}

/** Who listens on all addresses is reached from this machine by its own. */
export function addressOf(scheme: string, server: Server): string {
  const { address, family, port } = server.address() as AddressInfo;
  const own = address === '0.0.0.0' ? '127.0.0.1' : address === '::' ? '::1' : address;
  return `${scheme}://${family === 'IPv6' ? `[${own}]` : own}:${port}`;
}
