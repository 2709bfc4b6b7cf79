/** Connects sockets to a service: reads the request, gets the reply, and sends it, broken or late if a fault says so. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as delay, setImmediate as othersTurn } from 'node:timers/promises';
import { warn } from './http-server.ts';
import { headOf, received, restOf, type Underway, type Wanted } from './request-body.ts';
import type { Asked, Reply } from './request-reply.ts';

/** The part of a service that the server uses. */
export interface Serving {
  handle(asked: Asked): Reply;
  /** Decides from the head of the request how much of the body to read. */
  wants(asked: Asked): Wanted;
  readonly world: { clock: { date(): number } };
}

export interface Serves {
  serviceFor(asked: Asked): Serving;
  /** Runs overdue changes in slices; the caller yields to the event loop after each. */
  catchingUp(): Iterable<void>;
  underway: Underway;
  secure: boolean;
}

export async function serve(
  { serviceFor, catchingUp, underway, secure }: Serves,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const head = headOf(request, secure);
  const service = serviceFor(head);
  const asked = await received(request, head, service.wants(head), underway);
  if (asked === 'gone') return void response.destroy();
  if (asked === 'no room') return sendEarly(request, response, failed(service, 503));
  for (const _ of catchingUp()) await othersTurn();
  const reply = answered(service, asked);
  if (reply.delay_ms !== undefined) {
    await delay(reply.delay_ms, undefined, { ref: false });
    if (!reply.dated) moveDate(reply, service);
  }
  if (response.destroyed) return;
  if (asked.tooLong) return sendEarly(request, response, reply);
  send(response, reply);
}

/** A bug of the sandbox fails one request with 500, not the server. */
function answered(service: Serving, asked: Asked): Reply {
  try {
    return service.handle(asked);
  } catch (error) {
    warn(error);
    return failed(service, 500);
  }
}

const dateOf = ({ world }: Serving) => new Date(world.clock.date()).toUTCString();

const failed = (service: Serving, status: number): Reply => ({ status, headers: { Date: dateOf(service) }, text: '' });

function moveDate({ headers }: Reply, service: Serving): void {
  if (headers.Date !== undefined) headers.Date = dateOf(service);
}

function send(response: ServerResponse, reply: Reply): void {
  const { broken } = reply;
  if (broken === 'before') return void breakOff(response);
  const bytes = begin(response, reply);
  if (broken === undefined) return void response.end(bytes);
  const sent = broken === 'half' ? bytes.subarray(0, bytes.length >> 1) : bytes.subarray(0, 0);
  response.flushHeaders();
  response.write(sent, () => response.socket?.destroy());
}

/** Replies while the body is still arriving, then drains the body and closes the connection. */
async function sendEarly(request: IncomingMessage, response: ServerResponse, reply: Reply): Promise<void> {
  if (reply.broken !== undefined) return send(response, reply);
  const bytes = begin(response, { ...reply, headers: { ...reply.headers, Connection: 'close' } });
  response.flushHeaders();
  if (bytes.length > 0) response.write(bytes);
  await restOf(request);
  response.end();
}

/** Sends the head and returns the body. A Content-Length set by a fault stays. */
function begin(response: ServerResponse, { status, headers, text }: Reply): Buffer {
  const bytes = Buffer.from(text);
  const hasLength = status === 204 || Object.keys(headers).some(name => name.toLowerCase() === 'content-length');
  response.sendDate = false;
  response.writeHead(status, hasLength ? headers : { ...headers, 'Content-Length': bytes.length });
  return bytes;
}

/** Resets the connection; with TLS, which has no reset, closes it. */
function breakOff({ socket }: ServerResponse): void {
  if (socket !== null && 'encrypted' in socket) socket.destroy();
  else socket?.resetAndDestroy();
}
