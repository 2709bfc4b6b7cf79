/** The last requests of a run: what its page shows of the work, while it goes on and afterwards. */
import { expect, test } from 'vitest';
import { readRequests } from '../../src/engine/runs/request-log.ts';
import { forgetOld } from '../../src/engine/runs/slots.ts';
import { eventually, openDesk } from '../support/desk.ts';

test('a run shows its last 30 requests, and what it waits for, for a day', async () => {
  await using desk = await openDesk({ redisUrl: undefined, tickets: 250 });
  await using _worker = await desk.worker({ reconciles: true });
  let isBroken = true;
  desk.fault = ({ path }) => (isBroken && path.includes('/tickets') ? { kind: 'reset', after: 'before' } : undefined);
  const run = await desk.open();
  await desk.addJobs();
  const shown = () => readRequests(desk.pool, run);
  await eventually(async () =>
    expect((await shown()).map(({ says }) => says)).toContainEqual(
      expect.stringMatching(/^retrying \([^)]+\), try \d+, next in \d+ s$/),
    ),
  );
  isBroken = false;
  await eventually(async () => expect((await desk.progress(run)).state).toBe('completed'));

  // A job writes its last requests after the end of its stream.
  const all = await eventually(async () => {
    const found = await shown();
    expect(found).toHaveLength(30);
    expect(found).toContainEqual({
      stream: 'messages',
      at: expect.any(Date),
      request: expect.stringMatching(/^GET \/tickets\/\S+embed=messages$/),
      status: 200,
      ms: expect.any(Number),
      credits: 2,
      says: null,
    });
    return found;
  });
  const times = all.map(({ at }) => at.getTime());
  expect(times).toEqual(times.toSorted((a, b) => b - a));
  const hours = (n: number) => new Date(Date.now() + n * 3_600_000);
  await forgetOld(desk.pool, 'default', hours(23));
  expect(await shown()).toHaveLength(30);
  await forgetOld(desk.pool, 'default', hours(25));
  expect(await shown()).toEqual([]);
});
