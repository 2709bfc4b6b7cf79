/** `web`: the page, until SIGTERM or Ctrl-C. `start` serves it as well where SHELFDESK_WEB_PORT is set. */
import type { Command } from 'commander';
import type pg from 'pg';
import { systemClock } from '../clock.ts';
import type { Fleet, WebConfig } from '../config.ts';
import { configuredSources, openLog } from '../context.ts';
import { exitCodes, UsageError } from '../errors.ts';
import { queueNames } from '../ops/figures.ts';
import { demandSafe, type Serving, servePage } from '../ops/server.ts';
import { type OpenQueue, openQueues } from '../queue/queue.ts';
import { migrate } from '../warehouse/migrate.ts';
import type { Act, Deps } from './command.ts';
import { say } from './terminal.ts';
import { warehouseOf } from './warehouse.ts';

const defaultPort = 8090;

export function addWeb(program: Command, deps: Deps, act: Act): void {
  program
    .command('web')
    .description('serve the page: how fresh everything is, what is wrong, what the credits went into, and buttons')
    .option('--port <port>', `where it listens; 0: any that is free (default: SHELFDESK_WEB_PORT, or ${defaultPort})`)
    .option('--host <host>', 'the address that it listens at (default: SHELFDESK_WEB_HOST, or 127.0.0.1)')
    .action(
      act(async (options: { port?: string; host?: string }) => {
        const fleet = deps.fleet();
        const web = { ...fleet.web, ...(options.host !== undefined && { host: options.host }) };
        const port = options.port === undefined ? (web.port ?? defaultPort) : portOf(options.port);
        demandSafe(web);
        await using warehouse = await warehouseOf(fleet, deps.signal);
        await migrate(warehouse.url);
        await using page = await openPage(fleet, warehouse, { web, port, version: program.version()! });
        say(`The page: ${page.url} (${whoMay(web)}), until Ctrl-C.`);
        await aborted(deps.signal);
        return exitCodes.ok;
      }),
    );
}

function portOf(given: string): number {
  if (/^\d{1,5}$/.test(given) && Number(given) <= 65_535) return Number(given);
  throw new UsageError(`--port ${given} is no port`, 'Give a number from 0 to 65535.');
}

/** The page of all accounts, with queues of its own to look at. The tables have to be there. */
export async function openPage(
  fleet: Fleet,
  warehouse: { readonly url: string; readonly pg: pg.Pool },
  { web, port, version }: { web: WebConfig; port: number; version: string },
): Promise<Serving> {
  await using stack = new AsyncDisposableStack();
  const queues = stack.use(await openQueues({ redisUrl: fleet.redisUrl, databaseUrl: warehouse.url }));
  let holder = stack;
  const found = new Map<string, OpenQueue['bull']>();
  const findQueues = async () => {
    for (const [account, name] of await queueNames(warehouse.pg))
      if (!found.has(account)) found.set(account, holder.use(queues.open(name)).bull);
  };
  await findQueues();
  const page = stack.use(
    await servePage(
      {
        pg: warehouse.pg,
        clock: systemClock,
        log: openLog(fleet),
        version,
        accounts: fleet.accounts.map(config => ({ config, sources: configuredSources(config) })),
        ...{ queues: found, findQueues, web },
      },
      port,
    ),
  );
  const opened = stack.move();
  holder = opened;
  return { url: page.url, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

export function whoMay({ token, viewerToken }: WebConfig): string {
  if (token !== undefined) return 'for those who have a token';
  return viewerToken !== undefined ? 'for viewers with a token' : 'for everybody on this machine';
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
