/** A Redis server: how it is reached, whether the queue can work there, and facts for the checks of the doctor. */
import type { Redis, RedisOptions } from 'ioredis';
import { Away, isAway, ShelfdeskError, UsageError } from '../../errors.ts';
import { plainly, remedyOfConnect } from '../database/session/connect-failures.ts';
import { readRedisUrl } from '../database/session/connection-url.ts';
import { tlsOptions } from '../database/session/tls.ts';
import { redisRefusal } from './redis-refusals.ts';

export interface RedisFacts {
  readonly version: string;
  /** `standalone`, `cluster`, `sentinel`. */
  readonly mode: string;
  readonly role: string;
  /** The eviction policy for full memory; undefined if the server does not tell. */
  readonly policy: string | undefined;
  /** Whether the server appends each change to a file (AOF). */
  readonly appends: boolean;
  /** Whether the last write of that file, and of the last snapshot, succeeded. */
  readonly writes: boolean;
  /** Snapshot intervals; empty: no snapshots. */
  readonly snapshots: string | undefined;
  readonly usedBytes: number;
  /** Memory limit; 0: none. */
  readonly mostBytes: number;
  readonly clients: number;
  readonly mostClients: number | undefined;
}

/** A server that does not answer within this time is given up. */
const patienceMs = 5000;

/** BullMQ works from the first version on, and recommends the second one. */
export const redisVersions = { least: '5.0.0', advised: '6.2.0' };

type Options = Omit<RedisOptions, 'replyMapping'>;

/** For ioredis. Throws UsageError if the URL is wrong, or a file of TLS is missing. */
export function redisOptions(url: string, more: Options): Options {
  const read = readRedisUrl(url);
  if ('wrong' in read) throw new UsageError(`REDIS_URL ${read.wrong}`, 'Change it.');
  const { user, password, path, host, port, db, family, tls } = read.address;
  const encryption = tls && tlsOptions(tls, 'REDIS_URL');
  return {
    ...(path === undefined ? { host, port, family } : { path }),
    ...(user !== undefined && { username: user }),
    ...(password !== undefined && { password }),
    db,
    ...(encryption && { tls: encryption }),
    ...more,
  } as Options;
}

/** Throws as ioredis does. */
export const lookAtRedis = (url: string): Promise<RedisFacts> =>
  briefly(url, async redis => {
    const info = parseInfo(await redis.info());
    const number = (name: string) => Number(info.get(name) ?? 0);
    return {
      version: info.get('redis_version') ?? '0',
      mode: info.get('redis_mode') ?? '',
      role: info.get('role') ?? '',
      policy: info.get('maxmemory_policy') ?? (await configOf(redis, 'maxmemory-policy')),
      appends: info.get('aof_enabled') === '1',
      writes:
        (info.get('aof_last_write_status') ?? 'ok') === 'ok' && (info.get('rdb_last_bgsave_status') ?? 'ok') === 'ok',
      snapshots: await configOf(redis, 'save'),
      usedBytes: number('used_memory'),
      mostBytes: number('maxmemory'),
      clients: number('connected_clients'),
      mostClients: info.has('maxclients') ? number('maxclients') : undefined,
    };
  });

/** The first part of every key of BullMQ. */
const prefix = 'bull';

/** Writes and reads what BullMQ does, in the ways that it does: a script, a list, a sorted set that is waited for, and a stream. */
const rehearsal = `
  redis.call('hset', KEYS[1], 'a', 1)
  redis.call('lpush', KEYS[2], 'a')
  redis.call('zadd', KEYS[3], 1, 'a')
  redis.call('xadd', KEYS[4], 'MAXLEN', '~', 1, '*', 'a', 1)
  redis.call('set', KEYS[5], 'a', 'PX', 60000)
  return redis.call('del', KEYS[1], KEYS[2], KEYS[4], KEYS[5])`;
const rehearsed = ['hash', 'list', 'set', 'stream', 'key'];

/**
 * Does on a short connection what the queue will do, because BullMQ waits for ever for what a Redis refuses. Throws Away if the
 * server does not answer, or UsageError with what it refuses for good.
 */
export async function requireRedis(url: string): Promise<void> {
  try {
    await briefly(url, async redis => {
      // ioredis would stay in database 0.
      if (redis.options.db) await redis.select(redis.options.db);
      const info = parseInfo(await redis.info());
      const version = info.get('redis_version') ?? '0';
      if (info.get('redis_mode') === 'cluster')
        throw new UsageError('Redis is a cluster, which the queue does not speak', 'Name a single Redis in REDIS_URL.');
      if (['slave', 'replica'].includes(info.get('role') ?? ''))
        throw new UsageError('Redis is a replica, and takes no jobs', 'Name the primary in REDIS_URL.');
      if (isOlder(version, redisVersions.least))
        throw new UsageError(
          `Redis ${version} is too old for BullMQ`,
          `Upgrade it to ${redisVersions.advised} or newer, or take REDIS_URL out: then the queue lives in PostgreSQL.`,
        );
      const keys = rehearsed.map(kind => `${prefix}:shelfdesk-looks:${kind}`);
      await redis.eval(rehearsal, keys.length, ...keys);
      await redis.bzpopmin(keys[2]!, 1);
      // BullMQ runs the same command. It tolerates a server without the command, but not a login without the right to
      // it.
      await redis.client('SETNAME', 'shelfdesk').catch((error: Error) => {
        if (!/unknown command/i.test(error.message)) throw error;
      });
    });
  } catch (error) {
    const remedy = remedyOfSilence(url, error as NodeJS.ErrnoException);
    if (remedy !== undefined) throw new Away(error as Error, 'Redis', remedy);
    throw redisFailure(error as Error);
  }
}

/** A server without TLS waits for the end of a line, and one with it hangs up without a word. */
function remedyOfSilence(url: string, { code = '', message }: NodeJS.ErrnoException): string | undefined {
  const isEncrypted = /^rediss:/i.test(url);
  if (isEncrypted && code === 'ETIMEDOUT')
    return 'Either the server is away, or no TLS answers at this port: then write redis:// in REDIS_URL, or name the port of TLS.';
  if (!/^(ECONNRESET|EPIPE)$/.test(code) && !/^Connection is closed/.test(message)) return undefined;
  return isEncrypted
    ? 'Check host and port in REDIS_URL. If the server wants a certificate of the client, add sslcert=/path/client.pem&sslkey=/path/client.key (docs/how-to/use-tls.md).'
    : 'Check host and port in REDIS_URL. If TLS is spoken at this port, write rediss:// in REDIS_URL (docs/how-to/use-tls.md).';
}

/** Turns a failed connection to Redis into an error for people: Away, or a permanent refusal. */
export function redisFailure(error: Error): ShelfdeskError {
  if (error instanceof ShelfdeskError) return error;
  const refused = redisRefusal(error);
  if (refused) return new ShelfdeskError(refused.says, refused.remedy, { cause: error });
  const remedy =
    remedyOfConnect(error, 'REDIS_URL') ?? 'Check REDIS_URL, or leave it out: then the queue lives in PostgreSQL.';
  const message = plainly(error.message);
  if (isAway(error)) return new Away(error, 'Redis', remedy);
  return new ShelfdeskError(`Redis does not answer: ${message}`, remedy, { cause: error });
}

/** A connection of its own, which fails in place of trying again. */
async function briefly<T>(url: string, work: (redis: Redis) => Promise<T>): Promise<T> {
  const { Redis } = await import('ioredis');
  const redis = new Redis(
    redisOptions(url, {
      lazyConnect: true,
      connectTimeout: patienceMs,
      commandTimeout: patienceMs,
      maxRetriesPerRequest: 0,
      retryStrategy: () => null,
      enableReadyCheck: false,
    }),
  );
  let trouble: Error | undefined;
  redis.on('error', (error: Error) => {
    trouble = error;
  });
  try {
    await redis.connect();
    return await work(redis);
  } catch (error) {
    throw (error as Error).name === 'ReplyError' || error instanceof ShelfdeskError ? error : (trouble ?? error);
  } finally {
    redis.disconnect();
  }
}

/** Hosted servers refuse CONFIG to some users. */
async function configOf(redis: Redis, name: string): Promise<string | undefined> {
  try {
    const told = await redis.config('GET', name);
    return Array.isArray(told) ? (told as string[])[1] : undefined;
  } catch {
    return undefined;
  }
}

const parseInfo = (text: string) =>
  new Map([...text.matchAll(/^([a-z_0-9]+):(.*?)\r?$/gm)].map(([, name, value]) => [name!, value!]));

/** Compares by number: `6.2.0` is older than `6.10`. */
export const isOlder = (version: string, than: string): boolean =>
  version.localeCompare(than, 'en', { numeric: true }) < 0;
