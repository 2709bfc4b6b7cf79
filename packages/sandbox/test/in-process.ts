/** Calls the help desk service without a socket, on a clock that only the test moves. */

import { Service, type ServiceOptions } from '../src/helpdesk/service.ts';
import { World, type WorldOptions } from '../src/helpdesk/world/world.ts';
import { makeRng } from '../src/random.ts';
import { checkReply } from './contract.ts';

export const NOON = Date.parse('2024-05-01T12:00:00Z');

export interface Got {
  status: number;
  headers: Record<string, string>;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever came
  json: any;
  text: string;
}

export function emptyWorld(options: WorldOptions = {}) {
  const clock = { ms: NOON };
  return { clock, world: new World({ now: () => clock.ms, ...options }) };
}

/** No limits unless the test brings some. Every reply that nothing is to go wrong with is held to the interface document. */
export function asking(world: World, options: ServiceOptions = {}) {
  const service = new Service(world, { credits: 1e9, requestsPerSecond: 1e9, ...options });
  const isHonest = options.fault === undefined && options.rules === undefined;
  /** A whole path, and these headers alone. */
  const exactly = (method: string, url: string, headers: Record<string, string>, body?: string | Buffer): Got => {
    const asked = { method, url, headers, ...(body !== undefined && { body: Buffer.from(body) }) };
    const reply = service.handle(asked);
    if (isHonest) checkReply(asked, reply);
    return { ...reply, json: reply.text === '' ? undefined : JSON.parse(reply.text) };
  };
  const ask = (method: string, path: string, headers: Record<string, string> = {}, body?: string | Buffer): Got => {
    const usual = { authorization: `Bearer ${service.tokens[0]}`, host: 'desk.example' };
    return exactly(method, `/api/v1${path}`, { ...usual, ...headers }, body);
  };
  /** With a body as JSON; without one only the content type. */
  const send = (method: string, path: string, json?: unknown): Got =>
    ask(method, path, { 'content-type': 'application/json' }, json === undefined ? undefined : JSON.stringify(json));
  return {
    service,
    exactly,
    ask,
    send,
    get: (path: string, headers?: Record<string, string>) => ask('GET', path, headers),
  };
}

export const ids = (got: Got): string[] => got.json.map(({ id }: { id: string }) => id);
export const rng = (seed = 1) => makeRng(seed);
