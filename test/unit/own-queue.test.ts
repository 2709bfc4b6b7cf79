/** The queue of a command that works itself. */
import { expect, test } from 'vitest';
import { type Delivery, Moved } from '../../src/engine/queue/job-queue.ts';
import { ownQueue } from '../../src/engine/queue/own-queue.ts';

/** Its worker ends a job when the test says so. */
function given() {
  const slept: number[] = [];
  const clock = {
    now: () => 1000,
    monotonic: () => 1000,
    sleep: async (ms: number) => void slept.push(ms),
  };
  const queue = ownQueue({ clock }, 7);
  const taken: { job: Delivery; end: (error?: Error) => void }[] = [];
  const process = (job: Delivery) =>
    new Promise<void>((resolve, reject) => {
      taken.push({ job, end: error => (error ? reject(error) : resolve()) });
    });
  const taking = queue.work(process, () => {});
  const turn = () => new Promise(setImmediate);
  return { queue, taken, taking, slept, turn };
}

test('a job that waits or runs is added once, and again after its end', async () => {
  const { queue, taken, turn } = given();
  await queue.add('sync', 'one', { run: 1 });
  await queue.add('sync', 'one', { run: 1 });
  await queue.add('sync', 'two', { run: 2 });
  expect(taken.map(({ job }) => [job.name, job.id, job.data])).toEqual([
    ['sync', 'one-by-7', { run: 1 }],
    ['sync', 'two-by-7', { run: 2 }],
  ]);
  taken[0]!.end();
  taken[1]!.end(new Error('it failed'));
  await turn();
  await queue.add('sync', 'one', { run: 1 });
  await queue.add('sync', 'two', { run: 2 });
  expect(taken.slice(2).map(({ job }) => job.id)).toEqual(['one-by-7', 'two-by-7']);
});

test('a job that was put back is taken again at its time, unless its worker has left', async () => {
  const { queue, taken, taking, slept, turn } = given();
  await queue.add('sync', 'one', {});
  await taken[0]!.job.moveToDelayed(3500, '');
  taken[0]!.end(new Moved());
  await turn();
  expect(slept).toEqual([2500]);
  expect(taken).toHaveLength(2);
  await taken[1]!.job.moveToWait('');
  const atWork = Promise.withResolvers<void>();
  const closed = taking.close(atWork.promise);
  taken[1]!.end(new Moved());
  await turn();
  expect(taken).toHaveLength(2);
  atWork.resolve();
  await closed;
});
