/**
 * The help desk as a real HTTP server on this machine, written from the specification of its interface, with a world
 * that changes and faults on purpose. It imports nothing of the client, so what the client has misunderstood fails
 * here. What a request deserves is decided in service.ts; this file has the sockets and the timers.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Reply, SeenRequest } from './exchange.ts';
import { generateWorld } from './generate.ts';
import { makeRng } from './random.ts';
import { BASE, Service, type ServiceOptions } from './service.ts';
import type { Quietable, World } from './world.ts';

export type { SeenRequest } from './exchange.ts';
export type { Fault } from './faults.ts';

export interface SandboxOptions extends ServiceOptions {
  /** Default 127.0.0.1. */
  host?: string;
  /** Default 0: any free port. */
  port?: number;
  /** Default 1. The same seed gives the same world. */
  seed?: number;
  /** Default 200. */
  tickets?: number;
  /** Default: about a third of the tickets. */
  customers?: number;
  /** The share of tickets with text that databases refuse (NUL, lone surrogates); default 0. */
  naughty?: number;
  /** Kinds of change that do not move `updated_at`; default none. */
  quietly?: readonly Quietable[];
  /** A world of your own instead of a generated one; its clock is the server's. */
  world?: World;
  /** Changes a minute while it runs; default 0. */
  activity?: number;
  /** The server's clock in milliseconds, for everything in it; default the machine's. */
  now?: () => number;
}

export interface Sandbox {
  url: string;
  token: string;
  world: World;
  /** Every request that was answered, in order; of many the last 100,000. */
  requests: SeenRequest[];
  totals: { requests: number; credits: number; refused: number };
  /** Another client of the account uses credits now. */
  takeCredits(n: number): void;
  /** Ends every connection at once. */
  close(): Promise<void>;
}

export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const world = options.world ?? generateWorld(options);
  const service = new Service(world, options);
  const server = createServer((request, response) => {
    void serve(service, request, response);
  });
  // Longer than any client keeps an idle connection: the side that sends should be the one that lets go.
  server.keepAliveTimeout = 120_000;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(options.port ?? 0, options.host ?? '127.0.0.1', resolve);
  });
  const stopLiving = live(world, options.activity ?? 0, options.seed ?? 1);

  return {
    url: addressOf(server.address() as AddressInfo),
    token: service.token,
    world,
    requests: service.requests,
    totals: service.totals,
    takeCredits: credits => service.takeCredits(credits),
    close: () => {
      stopLiving();
      const closed = new Promise<void>(resolve => server.close(() => resolve()));
      server.closeAllConnections();
      return closed;
    },
  };
}

/** Who listens on all addresses is reached from this machine by its own. */
function addressOf({ address, family, port }: AddressInfo): string {
  const own = address === '0.0.0.0' ? '127.0.0.1' : address === '::' ? '::1' : address;
  return `http://${family === 'IPv6' ? `[${own}]` : own}:${port}${BASE}`;
}

async function serve(service: Service, request: IncomingMessage, response: ServerResponse) {
  request.resume();
  const { method = 'GET', url = '/', headers } = request;
  const reply = service.handle({ method, url, headers });
  if (reply.delay_ms !== undefined) {
    await delay(reply.delay_ms, undefined, { ref: false });
    reply.headers.Date = new Date(service.world.now()).toUTCString();
  }
  if (!response.destroyed) send(response, reply);
}

function send(response: ServerResponse, { status, headers, text, broken }: Reply): void {
  const bytes = Buffer.from(text);
  if (broken === 'before') return void response.socket?.resetAndDestroy();
  response.sendDate = false;
  response.writeHead(status, { ...headers, 'Content-Length': bytes.length });
  if (broken === undefined) return void response.end(bytes);
  const sent = broken === 'half' ? bytes.subarray(0, bytes.length >> 1) : bytes.subarray(0, 0);
  response.flushHeaders();
  response.write(sent, () => response.socket?.destroy());
}

/** The world changes by itself: as many changes as its clock says are due, looked at a few times a second at most. */
function live(world: World, perMinute: number, seed: number): () => void {
  if (perMinute <= 0) return () => {};
  const rng = makeRng(seed + 1);
  const begun = world.now();
  let done = 0;
  const timer = setInterval(
    () => {
      const due = ((world.now() - begun) * perMinute) / 60_000;
      for (; done + 1 <= due; done++) world.mutate(rng);
    },
    Math.min(1000, Math.max(50, 60_000 / perMinute)),
  ).unref();
  return () => clearInterval(timer);
}
