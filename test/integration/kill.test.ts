/** Real processes, killed at random points of a first load: the tables end as they would have been (I8). */
import { describe, expect, test } from 'vitest';
import { between, makeRng } from '../../src/sandbox/random.ts';
import { startSandbox } from '../../src/sandbox/server.ts';
import { settingsFor, shelfdesk } from '../support/cli.ts';
import { differences, noSandboxLimits } from '../support/mirror.ts';
import { freshDatabase } from '../support/postgres.ts';
import { describeOnRedis } from '../support/redis.ts';

const kills = 8;

async function killAndRerun(queue: Record<string, string>): Promise<void> {
  await using db = await freshDatabase();
  const rng = makeRng(11);
  let victim: (() => void) | undefined;
  let due = 3;
  const sandbox = await startSandbox({
    ...noSandboxLimits,
    tickets: 500,
    // Requests are answered whether or not somebody is left to read the answer. Some kills come a little later.
    before: (_request, n) => {
      if (n < due || victim === undefined) return;
      const kill = victim;
      victim = undefined;
      if (rng() < 0.5) kill();
      else setTimeout(kill, rng() * 8);
    },
  });
  try {
    for (let i = 0; i < kills; i++) {
      const running = shelfdesk(['sync'], { ...settingsFor(db.url, sandbox), ...queue });
      victim = () => running.process.kill('SIGKILL');
      const { signal } = await running.finished;
      expect(signal).toBe('SIGKILL');
      due = sandbox.totals.requests + between(rng, 2, 60);
    }
    victim = undefined;
    const last = await shelfdesk(['sync', '--json'], { ...settingsFor(db.url, sandbox), ...queue }).finished;
    expect(last.code, last.stderr).toBe(0);
    expect(JSON.parse(last.stdout)).toMatchObject({ state: 'completed' });
    expect(await differences(db.pool, sandbox.world)).toEqual([]);

    const asked = sandbox.requests.map(({ path, query }) => `${path}?${query}`);
    expect(asked.length - new Set(asked).size).toBeLessThanOrEqual(kills);
    const { rows } = await db.pool.query(
      `select state, count(*)::int as n from sync.runs group by state order by state`,
    );
    expect(rows).toEqual([
      { state: 'completed', n: 1 },
      { state: 'interrupted', n: kills },
    ]);
  } finally {
    await sandbox.close();
  }
}

describe('eight kill -9 at random points of a first load: equal tables, only the page in flight fetched twice', () => {
  test('with the queue in PostgreSQL', () => killAndRerun({}));
});

describeOnRedis('eight kill -9, on Redis', ({ url }) => {
  test('with the queue in Redis', () => killAndRerun({ REDIS_URL: url }));
});
