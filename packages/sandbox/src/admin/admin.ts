/**
 * The admin port: a second server to inspect the sandbox and to trigger events. It takes no credentials, so it listens on
 * loopback only (see server.ts). It refuses requests from web pages: any Origin header, and any Host other than this
 * machine's names (DNS rebinding). JSON in and out; a body may have one MiB.
 */
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setImmediate as othersTurn } from 'node:timers/promises';
import { warn } from '../http/http-server.ts';
import { jsonBody } from '../http/json-body.ts';
import { Refusal } from '../http/refusal.ts';
import { type Asked, takeApart } from '../http/request-reply.ts';
import { findAmong } from '../http/routing.ts';
import { ADMIN_ENDPOINTS, type AdminAnswer, type Administered, refusalOf } from './admin-endpoints.ts';

export const ADMIN_MOST_BYTES = 1024 * 1024;
const OWN_NAMES = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/i;

/** Answers a request. Resolves once the answer is sent or the client is gone; never rejects. */
export function administer(administered: Administered, asked: Asked, response: ServerResponse): Promise<void> {
  return answerTo(administered, asked).then(answer => send(response, answer));
}

async function answerTo(administered: Administered, asked: Asked): Promise<AdminAnswer> {
  try {
    demandOwner(asked);
    const { path, query } = takeApart(asked.url, '');
    const found = findAmong(ADMIN_ENDPOINTS, asked.method, path);
    if (found === 'no such path') throw new Refusal(404, `Unknown path ${path}; GET / lists the endpoints`);
    if (found === 'another verb') return notOffered(asked.method, path);
    const { route, names } = found;
    // Endpoints without a body ignore one.
    const body = route.takes && jsonBody(asked, { untyped: false, most: ADMIN_MOST_BYTES });
    for (const _ of administered.catchingUp()) await othersTurn();
    return await route.answer({ ...administered, names, query, body });
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal !== undefined) return refused(refusal);
    warn(error);
    return refused(new Refusal(500, 'The sandbox failed; its stderr says why'));
  }
}

function demandOwner({ headers }: Asked): void {
  if (!OWN_NAMES.test(String(headers.host ?? ''))) {
    throw new Refusal(403, 'Host: use localhost or 127.0.0.1; this port serves its own machine only');
  }
  if (headers.origin !== undefined) throw new Refusal(403, 'Origin: this port refuses web pages');
}

function notOffered(method: string, path: string): AdminAnswer {
  const verbs = ['GET', 'POST', 'PUT', 'DELETE'].filter(
    verb => typeof findAmong(ADMIN_ENDPOINTS, verb, path) !== 'string',
  );
  const refusal = refused(new Refusal(405, `${method} is not allowed at ${path}; GET / lists the endpoints`));
  return { ...refusal, headers: { Allow: verbs.join(', ') } };
}

function refused({ status, message, errors }: Refusal): AdminAnswer {
  return { status, body: { message, ...(errors && { errors: errors.map(message => ({ message })) }) } };
}

async function send(response: ServerResponse, { status = 200, headers, body, lines }: AdminAnswer): Promise<void> {
  response.setHeader('Cache-Control', 'no-store');
  if (lines !== undefined) {
    response.writeHead(status, { ...headers, 'Content-Type': 'application/x-ndjson' });
    // The pipeline follows the reader's pace and ends when the reader is gone.
    return pipeline(Readable.from(inTurns(telling(lines))), response).catch(() => {});
  }
  if (body === undefined) return void response.writeHead(status, headers).end();
  response
    .writeHead(status, { ...headers, 'Content-Type': 'application/json' })
    .end(`${JSON.stringify(body, null, 2)}\n`);
}

/** Warns about errors of the sandbox itself; a reader that goes away is no error. */
function* telling(pieces: Iterable<string>): Generator<string> {
  try {
    yield* pieces;
  } catch (error) {
    warn(error);
    throw error;
  }
}

/** Yields to the event loop between pieces: a fast socket would otherwise block all other requests. */
async function* inTurns(pieces: Iterable<string>): AsyncGenerator<string> {
  for (const piece of pieces) {
    if (piece !== '') yield piece;
    await othersTurn();
  }
}
