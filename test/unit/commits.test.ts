import { expect, test } from 'vitest';
import type { Clock } from '../../src/clock.ts';
import { Commits } from '../../src/engine/load/commit-queue.ts';

/** Time goes on when told. */
class TestClock implements Clock {
  #sleepers: (() => void)[] = [];
  now = () => 0;
  monotonic = () => 0;
  sleep = (_ms: number, signal?: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      this.#sleepers.push(resolve);
      signal?.addEventListener('abort', () => reject(signal.reason));
    });
  ring(): void {
    for (const wake of this.#sleepers.splice(0)) wake();
  }
}

test('two are at work at once, and end in their order', async () => {
  const commits = new Commits(new TestClock());
  const said: string[] = [];
  const first = Promise.withResolvers<void>();
  const page = async (name: string, rows: Promise<void> | undefined) => {
    await commits.room();
    commits.begin(async turn => {
      said.push(`${name} begins`);
      await rows;
      await turn();
      said.push(`${name} is proven`);
    });
  };
  await page('first', first.promise);
  await page('second', undefined);
  const third = page('third', undefined);
  expect(said).toEqual(['first begins', 'second begins']);
  first.resolve();
  await third;
  await commits.done();
  expect(said.filter(text => text.endsWith('proven'))).toEqual([
    'first is proven',
    'second is proven',
    'third is proven',
  ]);
});

test('what follows a page that could not be committed is not proven, and the failure is told', async () => {
  const commits = new Commits(new TestClock());
  const said: string[] = [];
  commits.begin(async () => {
    throw new Error('no room');
  });
  commits.begin(async turn => {
    await turn();
    said.push('proven');
  });
  await expect(commits.done()).rejects.toThrow('no room');
  expect(said).toEqual([]);
});

test('who waits too long lets go of its rows, and is done again when the page before is there', async () => {
  const clock = new TestClock();
  const commits = new Commits(clock);
  const first = Promise.withResolvers<void>();
  const letGo = Promise.withResolvers<void>();
  let tries = 0;
  commits.begin(() => first.promise);
  commits.begin(async turn => {
    tries++;
    try {
      await turn();
    } catch (error) {
      letGo.resolve();
      throw error;
    }
  });
  clock.ring();
  await letGo.promise;
  expect(tries).toBe(1);
  first.resolve();
  await commits.done();
  expect(tries).toBe(2);
});

test('the failure of a page is no failure of the next one, which only gives way', async () => {
  const commits = new Commits(new TestClock());
  const failure = new Error('no room');
  let met: unknown;
  commits.begin(async () => {
    throw failure;
  });
  commits.begin(turn =>
    turn().catch(error => {
      met = error;
      throw error;
    }),
  );
  expect(commits.idle).toBe(false);
  await expect(commits.done()).rejects.toBe(failure);
  expect(met).toBeInstanceOf(Error);
  expect(met).not.toBe(failure);
  expect(commits.idle).toBe(true);
});
