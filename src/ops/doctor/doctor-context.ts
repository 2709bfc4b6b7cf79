/**
 * The context of the doctor's checks. A connection opens when the first check asks for it; later checks share the
 * connection or the error. Everything closes in reverse order.
 */

import type { Config, Fleet, SettingsLook } from '../../app/config.ts';
import { openWarehouse, type Warehouse } from '../../app/context.ts';
import { openContext, openLog } from '../../app/open-context.ts';
import type { Clock } from '../../clock.ts';
import type { Context } from '../../engine/context.ts';
import { lookAtServer, reach, type ServerFacts } from '../../engine/database/server.ts';
import { whereOffered } from '../../engine/database/session/prefer-tls.ts';
import type { SourceName } from '../../engine/http/request.ts';
import type { OpenQueue, Queues } from '../../engine/queue/job-queue.ts';
import { openQueues } from '../../engine/queue/queue.ts';
import { lookAtRedis, type RedisFacts } from '../../engine/queue/redis.ts';
import type { OpenStack } from '../../open-stack.ts';
import { readAccounts } from '../../status/accounts.ts';
import type { AccountCheck, ProcessCheck } from './checks/check.ts';

/** The process that the doctor runs in. Tests pass their own values. */
export interface DoctorEnvironment {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Working folder, with `.env` and the embedded server. */
  readonly folder: string;
  readonly look: SettingsLook;
  /** Throws UsageError if the settings of all accounts are invalid. */
  readonly fleet: () => Fleet;
  /** `24.21.0` */
  readonly node: string;
  /** Version of Shelfdesk. */
  readonly version: string;
  readonly host: string;
  readonly uid: number | undefined;
}

export interface DoctorContext extends DoctorEnvironment {
  /** The settings of the process, if they can be read. */
  readonly fleetIfAny: Fleet | undefined;
  warehouse(): Promise<Warehouse>;
  /** Facts about the database server. */
  server(): Promise<ServerFacts>;
  /** Only if REDIS_URL is set. */
  redis(): Promise<RedisFacts>;
  queues(): Promise<Queues>;
}

export interface AccountContext extends DoctorContext {
  readonly account: string;
  readonly config: Config;
  ctx(): Promise<Context>;
  queue(): Promise<OpenQueue>;
  /** Credits or requests of a source, used so far. */
  used(source: SourceName): number;
}

export type Check = ProcessCheck<DoctorContext> | AccountCheck<AccountContext>;

/** `area`: the heading under which it is shown. */
export type PlacedCheck = Check & { readonly area: string };

/** Creates the context without opening a connection. */
export function createDoctorContext(around: DoctorEnvironment, stack: OpenStack): DoctorContext {
  const { clock, signal } = around;
  let fleetIfAny: Fleet | undefined;
  try {
    fleetIfAny = around.fleet();
  } catch {
    // The check `settings` reports the error.
  }
  const demo = fleetIfAny?.demo;
  const look = demo ? { ...around.look, servers: { databaseUrl: undefined, redisUrl: undefined } } : around.look;
  const warehouse = once(async () => {
    const { databaseUrl } = look.servers!;
    // reach() gives up after 5 s. The pool would wait minutes for a server that does not answer.
    if (databaseUrl !== undefined) await reach(await whereOffered(databaseUrl));
    return stack.use(await openWarehouse({ databaseUrl, demo }, { folder: around.folder, signal }));
  });
  return {
    ...{ ...around, look, fleetIfAny },
    warehouse,
    server: once(async () => lookAtServer((await warehouse()).pg, clock)),
    redis: once(async () => lookAtRedis(look.servers!.redisUrl!)),
    queues: once(async () => {
      const { url: databaseUrl } = await warehouse();
      return stack.use(await openQueues({ redisUrl: look.servers!.redisUrl, databaseUrl }));
    }),
  };
}

export function createAccountContext(context: DoctorContext, config: Config, stack: OpenStack): AccountContext {
  const { signal, warehouse } = context;
  const { account } = config;
  const used = new Map<SourceName, number>();
  let opened: Context | undefined;
  const ctx = once(async () => {
    opened = stack.use(openContext(config, await warehouse(), { log: openLog({ logLevel: 'silent' }), signal }));
    return opened;
  });
  return {
    ...context,
    account,
    config,
    ctx,
    queue: once(async () => {
      const known = await readAccounts((await warehouse()).pg);
      const { queue = account } = known.find(one => one.account === account) ?? {};
      return stack.use((await context.queues()).open(queue));
    }),
    used(source) {
      const sum = (used.get(source) ?? 0) + (opened?.sources.get(source)?.send.takeCredits() ?? 0);
      used.set(source, sum);
      return sum;
    },
  };
}

/** Calls `open` once. Every caller gets the same result, or the same error. */
function once<T>(open: () => Promise<T>): () => Promise<T> {
  let opening: Promise<T> | undefined;
  return () => {
    opening ??= open();
    return opening;
  };
}
