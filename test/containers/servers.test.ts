/** The servers that docker-compose.yml names, as they come: tables are made in one, jobs go through the other. */
import pg from 'pg';
import { GenericContainer, type StartedTestContainer, Wait } from 'testcontainers';
import { expect, test } from 'vitest';
import { startSandbox } from '../../packages/sandbox/src/server.ts';
import { migrate } from '../../src/engine/database/migrate.ts';
import { readCompose } from '../support/compose.ts';
import { describeOnDocker, retryOutages } from '../support/docker.ts';
import { configFor, differences, noSandboxLimits, syncOnce } from '../support/mirror.ts';

const { services } = readCompose();

const address = (server: StartedTestContainer, port: number) => `${server.getHost()}:${server.getMappedPort(port)}`;

/** While it makes its first database the image runs a server that only the container itself reaches, and ends it. */
const postgres = () =>
  new GenericContainer(services.postgres.image)
    .withEnvironment({ POSTGRES_USER: 'shelfdesk', POSTGRES_DB: 'shelfdesk', POSTGRES_PASSWORD: 'secret' })
    .withExposedPorts(5432)
    .withWaitStrategy(
      Wait.forAll([
        Wait.forLogMessage(/database system is ready to accept connections/, 2),
        Wait.forListeningPorts(),
      ]).withStartupTimeout(retryOutages.timeout),
    )
    .start();

const redis = () =>
  new GenericContainer(services.redis.image)
    .withCommand(['redis-server', '--requirepass', 'secret', '--maxmemory-policy', 'noeviction'])
    .withExposedPorts(6379)
    .withWaitStrategy(Wait.forListeningPorts().withStartupTimeout(retryOutages.timeout))
    .start();

describeOnDocker('PostgreSQL and Redis in containers', () => {
  test('a sync makes the tables equal to the source', retryOutages, async () => {
    await using stack = new AsyncDisposableStack();
    const database = stack.use(await postgres());
    const queue = stack.use(await redis());
    const sandbox = stack.adopt(await startSandbox({ ...noSandboxLimits, tickets: 120, seed: 3 }), one => one.close());
    const url = `postgres://shelfdesk:secret@${address(database, 5432)}/shelfdesk`;
    expect((await migrate(url)).applied).not.toEqual([]);

    const config = configFor(url, sandbox, { redisUrl: `redis://:secret@${address(queue, 6379)}` });
    expect(await syncOnce(config)).toMatchObject({ state: 'completed' });

    const pool = stack.adopt(new pg.Pool({ connectionString: url }), one => one.end());
    expect(await differences(pool, sandbox.world)).toEqual([]);
    const { rows } = await pool.query('select current_setting($1)::int / 10000 as major', ['server_version_num']);
    expect(rows).toEqual([{ major: Number(services.postgres.image.split(':')[1]) }]);
  });
});
