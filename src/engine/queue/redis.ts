/** Facts about a Redis server, for the checks that decide whether the queue can rely on it. */
import { Redis } from 'ioredis';

export interface RedisFacts {
  /** `8.2.1` */
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

/** Throws as ioredis does. */
export async function lookAtRedis(url: string): Promise<RedisFacts> {
  const redis = new Redis(url, {
    lazyConnect: true,
    connectTimeout: patienceMs,
    commandTimeout: patienceMs,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  let trouble: Error | undefined;
  redis.on('error', (error: Error) => {
    trouble = error;
  });
  try {
    await redis.connect();
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
  } catch (error) {
    throw trouble ?? error;
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
export function isOlder(version: string, than: string): boolean {
  const [a, b] = [version, than].map(text => text.split('.').map(Number)) as [number[], number[]];
  for (const [i, part] of b.entries()) if ((a[i] ?? 0) !== part) return (a[i] ?? 0) < part;
  return false;
}
