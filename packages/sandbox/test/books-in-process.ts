/** Calls the catalog service without a socket, on a clock that only the test moves. */
import { type GenerateBooksOptions, generateBooks } from '../src/books/content/generate.ts';
import { BooksService, type BooksServiceOptions } from '../src/books/service.ts';
import { BooksWorld, type BooksWorldOptions } from '../src/books/world.ts';
import { checkReply } from './contract.ts';
import { type Got, NOON } from './in-process.ts';

export const ME = '1122334455667788';

export function emptyBooks(options: Partial<BooksWorldOptions> = {}) {
  const clock = { ms: NOON };
  return { clock, world: new BooksWorld({ now: () => clock.ms, ...options }) };
}

export function someBooks(options: Partial<GenerateBooksOptions> = {}) {
  const clock = { ms: NOON };
  return { clock, world: generateBooks({ now: () => clock.ms, ...options }) };
}

/**
 * No limits unless the test brings some. `get` and `post` bring a token, `anonymous` brings nothing. Every reply that nothing
 * is to go wrong with is held to the interface document.
 */
export function askingBooks(world: BooksWorld, options: BooksServiceOptions = {}) {
  const service = new BooksService(world, { requestsPerDay: 1e9, requestsPerSecond: 1e9, ...options });
  const isHonest = options.fault === undefined && options.tokenFault === undefined && options.rules === undefined;
  /** A whole path, and these headers alone. */
  const exactly = (method: string, url: string, headers: Record<string, string>, body?: string | Buffer): Got => {
    const asked = { method, url, headers, ...(body !== undefined && { body: Buffer.from(body) }) };
    const reply = service.handle(asked);
    if (isHonest) checkReply(asked, reply);
    return { ...reply, json: reply.text === '' ? undefined : JSON.parse(reply.text) };
  };
  const ask = (method: string, path: string, headers: Record<string, string> = {}): Got =>
    exactly(method, `/books/v1${path}`, { host: 'desk.example', ...headers });
  const token = { authorization: `Bearer ${service.tokens.token}` };
  return {
    service,
    anonymous: (path: string, headers?: Record<string, string>) => ask('GET', path, headers),
    get: (path: string) => ask('GET', path, token),
    post: (path: string) => ask('POST', path, token),
    exactly,
    ask,
    refresh: (form: Record<string, string>, method = 'POST') =>
      exactly(method, '/oauth/token', {}, new URLSearchParams(form).toString()),
  };
}

/** The ids of the items, or undefined where there are none. */
export const itemIds = (got: Got): string | undefined =>
  got.json.items?.map(({ id }: { id: string | number }) => id).join(' ');
