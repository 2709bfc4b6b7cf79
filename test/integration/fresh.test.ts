/** Fresh work overtakes a backlog that takes all credits: `start` as a process, at the source's limits times thirty. */
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { makeRng } from '../../packages/sandbox/src/random.ts';
import { startSandbox } from '../../packages/sandbox/src/server.ts';
import { changeAndWatch, percentile } from '../support/changes.ts';
import { settingsFor } from '../support/cli.ts';
import { long } from '../support/long.ts';
import { freshDatabase } from '../support/postgres.ts';
import { startWorker } from '../support/workers.ts';

/**
 * The one bound of time in the tests, because the issue judges it: "in Postgres within 5 s at p95". Half of that is what
 * must be waited for (a slot of the schedule, and until a reply can be known to be later than the change); as a rule 95 of
 * 100 are there after 2.5 s. The section freshness of the bench measures it at length.
 */
const judgedMs = 5000;

test(
  'changes are in Postgres within 5 s at p95 while a backlog uses the credits that are left, and nothing is refused',
  long,
  async ({ signal }) => {
    await using db = await freshDatabase();
    // The backlog would cost more than there is in a period: spent at once, nothing would be left for whatever comes next.
    const limits = { credits: 3000, requestsPerSecond: 180 };
    const sandbox = await startSandbox({ ...limits, window: 'sliding', tickets: 2000 });
    const worker = startWorker({
      ...settingsFor(db.url, sandbox),
      HELPDESK_CREDITS: String(limits.credits),
      HELPDESK_REQUESTS_PER_SECOND: String(limits.requestsPerSecond),
      HELPDESK_RESERVE: '300',
      SCHEDULE_FRESH: '* * * * * *',
    });
    const waiting = async (): Promise<number> => {
      const { rows } = await db.pool.query(`select waiting from sync.status where stream = 'messages'`);
      return Number(rows[0]?.waiting ?? 0);
    };
    const isUnderWay = async (): Promise<boolean> => {
      const { rows } = await db.pool.query(
        `select from sync.runs n, sync.run_streams s
       where n.kind = 'nightly' and n.state = 'completed' and s.stream = 'messages' and s.state = 'running'`,
      );
      return rows.length > 0;
    };
    try {
      await worker.id;
      while (!(await isUnderWay())) await delay(100, undefined, { signal });
      const before = await waiting();
      const changes = changeAndWatch(db.pool, sandbox.world, makeRng(3), 150);
      await delay(25_000);
      const after = await waiting();
      await changes.end(15_000);

      const { arrivals, pending } = changes;
      expect(arrivals.length).toBeGreaterThan(30);
      expect(pending.size).toBe(0);
      for (const of of ['ticketMs', 'messagesMs'] as const) {
        const p95 = percentile(
          arrivals.map(one => one[of]),
          0.95,
        );
        expect(p95, `p95 of ${of}`).toBeLessThanOrEqual(judgedMs);
      }
      expect(after).toBeGreaterThan(0);
      expect(before - after).toBeGreaterThan(300);
      expect(sandbox.totals.refused).toBe(0);
    } finally {
      worker.kill('SIGTERM');
      const { code, stderr } = await worker.finished;
      await sandbox.close();
      expect(code, stderr).toBe(0);
    }
  },
);
