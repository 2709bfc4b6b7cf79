/** What every command that works on an account opens: the context, the queue, and a place among the living. */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import type { Config } from '../config.ts';
import { type Context, openContext, openLog, requireSource, type Warehouse } from '../context.ts';
import { type OpenQueue, openQueue } from '../queue/queue.ts';
import { streams } from '../streams/index.ts';
import type { Stream } from '../streams/stream.ts';
import { bindAccount } from '../warehouse/accounts.ts';
import { register } from '../warehouse/coverage.ts';
import { migrate } from '../warehouse/migrate.ts';
import { bePresent, type Presence } from '../warehouse/workers.ts';

export interface Account extends AsyncDisposable {
  readonly ctx: Context;
  readonly queue: OpenQueue;
  readonly presence: Presence;
}

/** Migrates, and makes sure that the account is the one of these sources. `works`: this process takes jobs at once. */
export async function openAccount(
  config: Config,
  warehouse: Warehouse,
  { signal, works }: { signal: AbortSignal; works: boolean },
): Promise<Account> {
  await using stack = new AsyncDisposableStack();
  requireSource(config);
  await migrate(warehouse.url);
  const ctx = stack.use(openContext(config, warehouse.pg, { log: openLog(config), signal }));
  const { queue: name } = await bindAccount(ctx.pg, ctx.account, {
    ...(config.helpdesk && { helpdesk: config.helpdesk.baseUrl }),
    ...(config.books && { books: config.books.baseUrl }),
  });
  await registerAll(ctx, config.sinceMs);
  const queue = stack.use(await openQueue({ name, redisUrl: config.redisUrl, databaseUrl: warehouse.url }));
  const me = { account: ctx.account, works, host: hostname(), pid: process.pid, version: ourVersion() };
  const presence = stack.use(await bePresent(warehouse.url, me, ctx.clock));
  const opened = stack.move();
  return { ctx, queue, presence, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

function ourVersion(): string {
  return JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')).version;
}

async function registerAll({ pg, account, sources, books }: Context, sinceMs: number): Promise<void> {
  const listsOf = (stream: Stream) => {
    if (stream.kind === 'shelves') return books.owners;
    return stream.kind === 'list' ? stream.lists.map(({ name }) => name) : [];
  };
  const lists = streams
    .filter(({ source }) => sources.has(source))
    .flatMap(stream => listsOf(stream).map(list => ({ stream: stream.name, list })));
  await register(pg, account, sinceMs, lists);
}
