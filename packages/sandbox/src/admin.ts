/**
 * The admin port: a second server for whoever runs the sandbox, to look at everything and to make things happen. It
 * takes no credentials, so it listens to this machine alone (see server.ts), and refuses what a page in a browser of
 * this machine could send for strangers: a Host that is no name of this machine (a name of theirs that leads here), and
 * any Origin. JSON in and out; a body may have one MiB.
 */
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setImmediate as othersTurn } from 'node:timers/promises';
import { ADMIN_ENDPOINTS, type AdminAnswer, type Administered, refusalOf } from './admin-endpoints.ts';
import { warn } from './http-server.ts';
import { jsonBody } from './json-body.ts';
import { Refusal } from './refusal.ts';
import { type Asked, takeApart } from './request-reply.ts';
import { findAmong } from './routing.ts';

export const ADMIN_MOST_BYTES = 1024 * 1024;
const OWN_NAMES = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/i;

/** Answers a request of the port; it is over when the answer is sent, or its reader gone. Nothing throws. */
export function administer(administered: Administered, asked: Asked, response: ServerResponse): Promise<void> {
  return answerTo(administered, asked).then(answer => send(response, answer));
}

async function answerTo(administered: Administered, asked: Asked): Promise<AdminAnswer> {
  try {
    demandOwner(asked);
    const { path, query } = takeApart(asked.url, '');
    const found = findAmong(ADMIN_ENDPOINTS, asked.method, path);
    if (found === 'no such path') throw new Refusal(404, `There is nothing at ${path}; GET / lists what there is`);
    if (found === 'another verb') return notOffered(asked.method, path);
    const { route, names } = found;
    // An endpoint that takes nothing does not care what comes.
    const body = route.takes && jsonBody(asked, { untyped: false, most: ADMIN_MOST_BYTES });
    for (const _ of administered.catchingUp()) await othersTurn();
    return await route.answer({ ...administered, names, query, body });
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal !== undefined) return refused(refusal);
    warn(error);
    return refused(new Refusal(500, 'The sandbox itself has failed; it said why where it runs'));
  }
}

function demandOwner({ headers }: Asked): void {
  if (!OWN_NAMES.test(String(headers.host ?? ''))) {
    throw new Refusal(403, 'Host: this port is for its own machine, under the name localhost or 127.0.0.1');
  }
  if (headers.origin !== undefined) throw new Refusal(403, 'Origin: this port is not for pages in browsers');
}

function notOffered(method: string, path: string): AdminAnswer {
  const verbs = ['GET', 'POST', 'PUT', 'DELETE'].filter(
    verb => typeof findAmong(ADMIN_ENDPOINTS, verb, path) !== 'string',
  );
  const refusal = refused(new Refusal(405, `${method} is not offered at ${path}; GET / lists what is`));
  return { ...refusal, headers: { Allow: verbs.join(', ') } };
}

function refused({ status, message, errors }: Refusal): AdminAnswer {
  return { status, body: { message, ...(errors && { errors: errors.map(message => ({ message })) }) } };
}

async function send(response: ServerResponse, { status = 200, headers, body, lines }: AdminAnswer): Promise<void> {
  response.setHeader('Cache-Control', 'no-store');
  if (lines !== undefined) {
    response.writeHead(status, { ...headers, 'Content-Type': 'application/x-ndjson' });
    // Waits wherever the reader does; one that goes away ends it.
    return pipeline(Readable.from(inTurns(telling(lines))), response).catch(() => {});
  }
  if (body === undefined) return void response.writeHead(status, headers).end();
  response
    .writeHead(status, { ...headers, 'Content-Type': 'application/json' })
    .end(`${JSON.stringify(body, null, 2)}\n`);
}

/** Its own mistakes are told; that a reader goes away is none. */
function* telling(pieces: Iterable<string>): Generator<string> {
  try {
    yield* pieces;
  } catch (error) {
    warn(error);
    throw error;
  }
}

/** Between two pieces everybody else gets a turn: a socket that takes all at once would leave them none. */
async function* inTurns(pieces: Iterable<string>): AsyncGenerator<string> {
  for (const piece of pieces) {
    if (piece !== '') yield piece;
    await othersTurn();
  }
}
