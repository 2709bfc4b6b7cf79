/** A Redis that refuses what the queue does: the command ends with the reason. BullMQ alone would wait for ever. */
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openQueues } from '../../src/engine/queue/queue.ts';
import { requireRedis } from '../../src/engine/queue/redis.ts';
import type { ShelfdeskError } from '../../src/errors.ts';
import { settingsFor } from '../support/cli.ts';
import { eventually } from '../support/desk.ts';
import { ran } from '../support/here.ts';
import { openSandbox } from '../support/open-sandbox.ts';
import { type OwnRedis, startOwnRedis } from '../support/own-redis.ts';
import { freshDatabase } from '../support/postgres.ts';
import { describeOnRedis } from '../support/redis.ts';

describeOnRedis('a Redis of its own', () => {
  let server: OwnRedis;
  let admin: Redis;
  beforeAll(async () => {
    server = await startOwnRedis();
    admin = new Redis(server.port);
    await admin.acl('SETUSER', 'bull', 'on', '>pw', '~bull:*', '&*', '+@all', '-@dangerous', '+info', '+client');
    await admin.acl('SETUSER', 'noinfo', 'on', '>pw', '~bull:*', '&*', '+@all', '-info');
    await admin.acl('SETUSER', 'others', 'on', '>pw', '~other:*', '&*', '+@all');
    await admin.acl('SETUSER', 'reads', 'on', '>pw', '~*', '&*', '+@all', '-@write');
  });
  afterAll(async () => {
    admin.disconnect();
    await server[Symbol.asyncDispose]();
  });

  const at = (login: string, path = '') => `redis://${login}${login && '@'}127.0.0.1:${server.port}${path}`;
  const refusal = (url: string): Promise<ShelfdeskError> =>
    requireRedis(url).then(
      () => expect.unreachable(),
      (error: ShelfdeskError) => error,
    );

  test('a user with the rights that the page names will do, and nothing of the rehearsal stays', async () => {
    await requireRedis(at('bull:pw'));
    expect(await admin.keys('*')).toEqual([]);
  });

  test.for<[login: string, path: string, says: string, remedy: string]>([
    ['noinfo:pw', '', 'does not let this user', '+info'],
    ['others:pw', '', 'does not let this user', '~bull:*'],
    ['reads:pw', '', 'does not let this user', '~bull:*'],
    ['bull:wrong', '', 'refuses the login', 'password'],
    ['bull:pw', '/99', 'no database of this number', '/0'],
  ])('%s%s', async ([login, path, says, remedy]) => {
    expect(await refusal(at(login, path))).toMatchObject({
      exitCode: 1,
      message: expect.stringContaining(says),
      remedy: expect.stringContaining(remedy),
    });
  });

  test.for<[name: string, value: string, before: string, says: string]>([
    ['maxmemory', '1', '0', 'out of memory'],
    ['replicaof', '127.0.0.1 1', 'no one', 'is a replica'],
    ['requirepass', 'x', '', 'wants a password'],
  ])('%s %s', async ([name, value, before, says]) => {
    const set = (to: string) =>
      name === 'replicaof' ? admin.call('REPLICAOF', ...to.split(' ')) : admin.config('SET', name, to);
    await set(value);
    try {
      expect((await refusal(at(''))).message).toContain(says);
    } finally {
      await set(before);
    }
  });

  test('a cluster', async () => {
    await using cluster = await startOwnRedis({ 'cluster-enabled': 'yes' });
    expect((await refusal(`redis://127.0.0.1:${cluster.port}`)).message).toContain('is a cluster');
  });

  test('a right that is taken later stops nothing else, and jobs are taken again when it is back', async () => {
    await admin.acl('SETUSER', 'later', 'on', '>pw', '~bull:*', '&*', '+@all');
    await using queues = await openQueues({ redisUrl: at('later:pw'), databaseUrl: 'postgres://nobody' });
    await using queue = queues.open('later');
    await queue.bull.waitUntilReady();
    await admin.acl('SETUSER', 'later', '-info');
    const errors: string[] = [];
    const done = Promise.withResolvers<void>();
    const taking = queue.work(
      async () => done.resolve(),
      ({ message }) => errors.push(message),
    );
    await eventually(() => expect(errors.length).toBeGreaterThan(1));
    expect(errors[0]).toContain('NOPERM');
    await admin.acl('SETUSER', 'later', '+info');
    await queue.add('job', 'one', {});
    await done.promise;
    await taking.close(Promise.resolve());
  });

  test('start ends with the reason; a sync that works itself needs no Redis', async () => {
    await using db = await freshDatabase();
    await using stack = new AsyncDisposableStack();
    const sandbox = stack.use(await openSandbox({ tickets: 10 }));
    const env = { ...settingsFor(db.url, sandbox), REDIS_URL: at('noinfo:pw') };
    expect(await ran(['start'], env)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^error: Redis does not let this user .*NOPERM.*\n.*ACL SETUSER/),
    });
    expect(await ran(['sync'], env)).toMatchObject({ code: 0 });
  });
});
