/**
 * Tests that need a Redis. Where there is none they do not run, and the run says so at its end (see not-run.ts): a test
 * that was silently left out is worse than none.
 */
import { describe, inject } from 'vitest';
import { long } from './long.ts';

declare module 'vitest' {
  interface TaskMeta {
    /** Not run, because it needs a Redis and there is none. */
    lacksRedis?: boolean;
  }
}

function redisForTests(): { url: string } | undefined {
  const url = inject('redisUrl');
  return url === undefined ? undefined : { url };
}

/**
 * `describe` for tests that need a Redis; they get its URL. It is shared: use a prefix or a queue name of your own.
 * `concurrent`: beside those before and after it that are, too. `takesLong`: what it shows is shown on the other queue.
 */
export function describeOnRedis(
  name: string,
  register: (redis: { url: string }) => void,
  { concurrent = false, takesLong = false } = {},
): void {
  const redis = redisForTests();
  const missing = { url: 'redis://not-there.invalid' }; // Never used: the tests are only registered, to be counted.
  const lacking = redis ? takesLong && long : { skip: true, meta: { lacksRedis: true } };
  describe(name, { ...lacking, ...(concurrent && { concurrent }) }, () => register(redis ?? missing));
}
