/**
 * HTTP servers: their timeouts, replies to invalid HTTP, start and end. An error between socket and answer ends its
 * connection, never the process.
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

/** `headers`: extra headers of the replies to invalid HTTP. */
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
  // Longer than clients keep idle connections, so that the client closes first and no request hits a closed socket.
  server.keepAliveTimeout = 120_000;
  // Ends connections whose request arrives too slowly.
  server.headersTimeout = 20_000;
  server.requestTimeout = 30_000;
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    refuseConnection(socket, BROKEN_REQUESTS[error.code ?? ''] ?? 400, headers());
  });
  server.on('connect', (_, socket) => refuseConnection(socket, 405, headers()));
  return server;
}

/** Reports a bug of the sandbox as a process warning. */
export function warn(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : String(error));
}

const BROKEN_REQUESTS: Record<string, number> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

/**
 * Without `requireHostHeader: false` Node answers a request without Host by itself, with an empty 400; only links need
 * the Host here. Node's default checks for slow requests every 30 seconds only.
 */
const LISTENING = { requireHostHeader: false, connectionsCheckingInterval: 5000 };

/** Answers unreadable HTTP with a JSON error and closes the connection. */
function refuseConnection(socket: Duplex, status: number, headers: Record<string, string>): void {
  // Node hands the socket over without an error listener, and the client may be gone.
  socket.on('error', () => {});
  if (!socket.writable) return void socket.destroy();
  const body = JSON.stringify({ message: `${STATUS_CODES[status]}: the request is unreadable` });
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

/** Closes the server and all its connections immediately. */
export function end(server: Server | undefined): Promise<void> {
  if (!server?.listening) return Promise.resolve();
  const closed = new Promise<void>(resolve => server.close(() => resolve()));
  server.closeAllConnections();
  return closed;
}

/** URL of the server; a wildcard address becomes the loopback address. */
export function addressOf(scheme: string, server: Server): string {
  const { address, family, port } = server.address() as AddressInfo;
  const own = address === '0.0.0.0' ? '127.0.0.1' : address === '::' ? '::1' : address;
  return `${scheme}://${family === 'IPv6' ? `[${own}]` : own}:${port}`;
}
