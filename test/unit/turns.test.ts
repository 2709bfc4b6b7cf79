import { expect, test } from 'vitest';
import type { Clock } from '../../src/clock.ts';
import { Turns } from '../../src/sync/turns.ts';

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
  const turns = new Turns(new TestClock());
  const said: string[] = [];
  const first = Promise.withResolvers<void>();
  const page = (name: string, rows: Promise<void> | undefined) =>
    turns.begin(async turn => {
      said.push(`${name} begins`);
      await rows;
      await turn();
      said.push(`${name} is proven`);
    });
  await page('first', first.promise);
  await page('second', undefined);
  const third = page('third', undefined);
  expect(said).toEqual(['first begins', 'second begins']);
  first.resolve();
  await third;
  await turns.end();
  expect(said.filter(text => text.endsWith('proven'))).toEqual([
    'first is proven',
    'second is proven',
    'third is proven',
  ]);
});

test('what follows a page that could not be committed is not proven, and the failure is told', async () => {
  const turns = new Turns(new TestClock());
  const said: string[] = [];
  await turns.begin(async () => {
    throw new Error('no room');
  });
  await turns.begin(async turn => {
    await turn();
    said.push('proven');
  });
  await expect(turns.end()).rejects.toThrow('no room');
  await turns.settled();
  expect(said).toEqual([]);
});

test('who waits too long lets go of its rows, and is done again when the page before is there', async () => {
  const clock = new TestClock();
  const turns = new Turns(clock);
  const first = Promise.withResolvers<void>();
  const letGo = Promise.withResolvers<void>();
  let tries = 0;
  await turns.begin(() => first.promise);
  await turns.begin(async turn => {
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
  await turns.end();
  expect(tries).toBe(2);
});
