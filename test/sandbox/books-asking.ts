/** Asks a book catalog without a socket, on a clock that stands still until the test moves it. */
import { type GenerateBooksOptions, generateBooks } from '../../src/sandbox/books/generate.ts';
import { BooksService, type BooksServiceOptions } from '../../src/sandbox/books/service.ts';
import { BooksWorld, type BooksWorldOptions } from '../../src/sandbox/books/world.ts';
import { type Got, NOON } from './asking.ts';

export const ME = '1122334455667788';

export function emptyBooks(options: Partial<BooksWorldOptions> = {}) {
  const clock = { ms: NOON };
  return { clock, world: new BooksWorld({ now: () => clock.ms, ...options }) };
}

export function someBooks(options: Partial<GenerateBooksOptions> = {}) {
  const clock = { ms: NOON };
  return { clock, world: generateBooks({ now: () => clock.ms, ...options }) };
}

/** No limits unless the test brings some. `get` and `post` bring a token, `anonymous` brings nothing. */
export function askingBooks(world: BooksWorld, options: BooksServiceOptions = {}) {
  const service = new BooksService(world, { requestsPerDay: 1e9, requestsPerSecond: 1e9, ...options });
  const ask = (method: string, path: string, headers: Record<string, string> = {}): Got => {
    const reply = service.handle({ method, url: `/books/v1${path}`, headers: { host: 'desk.example', ...headers } });
    return { ...reply, json: reply.text === '' ? undefined : JSON.parse(reply.text) };
  };
  const token = { authorization: `Bearer ${service.tokens.token}` };
  return {
    service,
    anonymous: (path: string, headers?: Record<string, string>) => ask('GET', path, headers),
    get: (path: string) => ask('GET', path, token),
    post: (path: string) => ask('POST', path, token),
    ask,
    refresh: (form: Record<string, string>, method = 'POST') => {
      const body = Buffer.from(new URLSearchParams(form).toString());
      const reply = service.handle({ method, url: '/oauth/token', headers: {}, body });
      return { ...reply, json: JSON.parse(reply.text) };
    },
  };
}

/** The ids of the items, or undefined where there are none. */
export const itemIds = (got: Got): string | undefined =>
  got.json.items?.map(({ id }: { id: string | number }) => id).join(' ');
