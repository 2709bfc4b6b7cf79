/** `web`: serves the web page until SIGTERM or Ctrl-C. `start` also serves it if SHELFDESK_WEB_PORT is set. */

import type { Command } from 'commander';
import type { Ground } from '../../app/account.ts';
import type { Fleet, WebConfig } from '../../app/config.ts';
import { migrateWarehouse } from '../../app/migrate.ts';
import { openLog } from '../../app/open-context.ts';
import { defaultPort } from '../../app/settings.ts';
import { systemClock } from '../../clock.ts';
import { makeLookingPool } from '../../engine/database/pool.ts';
import type { OpenQueue } from '../../engine/queue/job-queue.ts';
import { openQueues } from '../../engine/queue/queue.ts';
import { UsageError } from '../../errors.ts';
import { OpenStack } from '../../open-stack.ts';
import type { ServedAgents } from '../../ops/page/agents.ts';
import { demandSafe, type Serving, servePage } from '../../ops/page/server.ts';
import type { Served } from '../../status/accounts.ts';
import { readAccounts } from '../../status/accounts.ts';
import { parseNumber } from '../arguments.ts';
import { servedOf } from '../choose-account.ts';
import { type Act, aborted, type Deps, note } from '../command.ts';
import { say } from '../output/terminal.ts';
import { warehouseOf } from '../warehouse.ts';

export function addWeb(program: Command, deps: Deps, act: Act): void {
  program
    .command('web')
    .summary('serve the page')
    .description('serve the web page: freshness, problems, use of credits, and actions')
    .addHelpText(
      'after',
      note('Only this machine can open the page, unless SHELFDESK_WEB_HOST says otherwise. Creates the tables first.'),
    )
    .option(
      '--port <port>',
      `port to listen on; 0: any free port (default: SHELFDESK_WEB_PORT, or ${defaultPort})`,
      parseNumber('a port, 0 to 65535', { least: 0, most: 65_535 }),
    )
    .option('--host <host>', 'address to listen on (default: SHELFDESK_WEB_HOST, or 127.0.0.1)')
    .action(
      act(async (options: { port?: number; host?: string }) => {
        const { fleet } = deps.asked();
        const web = { ...fleet.web, ...(options.host !== undefined && { host: options.host }) };
        const port = options.port ?? web.port ?? defaultPort;
        demandSafe(web);
        await using warehouse = await warehouseOf(fleet, deps.signal);
        await migrateWarehouse(warehouse.url);
        await using queues = await openQueues({ redisUrl: fleet.redisUrl, databaseUrl: warehouse.url });
        const ground = { warehouse, queues, log: openLog(fleet) };
        await using page = await openPage(ground, {
          web,
          port,
          version: program.version()!,
          fleet: () => deps.asked().fleet,
        });
        say(`Web page: ${page.url} (${pageAccess(web)}). Press Ctrl-C to stop.`);
        await aborted(deps.signal);
      }),
    );
}

/** Interval at which the accounts file is re-read. */
const againMs = 60_000;

/** Serves the page of all accounts, with the settings at the time of each request. Requires migrated tables. */
export async function openPage(
  { warehouse, queues, log }: Pick<Ground, 'warehouse' | 'queues' | 'log'>,
  { web, port, version, fleet }: { web: WebConfig; port: number; version: string; fleet: () => Fleet },
): Promise<Serving> {
  await using stack = new OpenStack();
  const pg = makeLookingPool(warehouse.url);
  stack.defer(() => pg.end());
  const found = new Map<string, OpenQueue['bull']>();
  let holder = stack;
  const findQueues = async () => {
    for (const { account, queue: name } of await readAccounts(pg))
      if (!found.has(account)) found.set(account, holder.use(queues.open(name)).bull);
  };
  await findQueues();
  const agents = await servedAgents(stack, { warehouse: { ...warehouse, pg }, log, fleet });
  const site = { agents, pg, clock: systemClock, log, version, web, queues: found, findQueues };
  const page = stack.use(await servePage({ ...site, pingQueues: () => queues.ping(), ...cachedFleet(fleet) }, port));
  const opened = stack.move();
  holder = opened;
  return { url: page.url, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

/** Undefined unless the settings ask for it. */
async function servedAgents(
  stack: OpenStack,
  { warehouse, log, fleet }: Pick<Ground, 'warehouse' | 'log'> & { fleet: () => Fleet },
): Promise<ServedAgents | undefined> {
  const shows = fleet().agents.page;
  if (shows === 'off') return undefined;
  const [{ agentsOf }, { makeOverHttp, mostBodyBytes }] = await Promise.all([
    import('./mcp.ts'),
    import('../../agents/http.ts'),
  ]);
  const agents = await agentsOf({
    warehouse,
    fleet,
    only: undefined,
    onBug: error => log.error(error, 'a question of an agent failed'),
  });
  const served = makeOverHttp(agents, error => log.warn(error, 'a request of an agent failed'));
  stack.defer(() => served.close());
  return { ...served, mostBodyBytes, seesAll: role => shows === 'unmasked' && role === 'operator' };
}

/** Caches the accounts for `againMs`. An invalid file leaves them unchanged; the worker reports it. */
function cachedFleet(fleet: () => Fleet): { accounts: () => readonly Served[]; refused: () => readonly string[] } {
  let readMs = Number.NEGATIVE_INFINITY;
  let accounts: readonly Served[] = [];
  let refused: readonly string[] = [];
  const look = () => {
    if (systemClock.monotonic() - readMs < againMs) return;
    readMs = systemClock.monotonic();
    try {
      const now = fleet();
      accounts = servedOf(now);
      refused = now.refused.map(({ account }) => account);
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
    }
  };
  return {
    accounts() {
      look();
      return accounts;
    },
    refused() {
      look();
      return refused;
    },
  };
}

export function pageAccess({ token, viewerToken }: WebConfig): string {
  if (token !== undefined) return 'requires a token';
  return viewerToken !== undefined ? 'requires a viewer token' : 'open to everyone on this machine';
}
