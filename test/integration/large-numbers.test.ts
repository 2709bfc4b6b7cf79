/** Integers beyond 2^53 are stored with each digit, and reject nothing. */
import { expect, test } from 'vitest';
import { inProcess } from '../support/in-process.ts';

test('a ticket number and the size of an attachment beyond 2^53', async () => {
  await using s = await inProcess({ tickets: 3, customers: 2, seed: 41 });
  s.reword = (text, path) =>
    path.startsWith('/tickets')
      ? text
          .replaceAll(/"number":(\d+)/g, (_, n: string) => `"number":${9007199254740993n + 2n * BigInt(n)}`)
          .replaceAll(
            '"attachments":[]',
            '"attachments":[{"id":"large","name":"a","type":"text/plain","size":9223372036854775807}]',
          )
      : text;
  await s.sync(['users', 'customers', 'tickets', 'messages']);
  expect(await s.rows('select stream, reason from sync.rejects')).toEqual([]);
  const numbers = [...s.world.tickets.values()].map(({ number }) => String(9007199254740993n + 2n * BigInt(number)));
  const stored = await s.rows(`select number::text, _payload ->> 'number' as said from helpdesk.tickets`);
  expect(stored.map(({ number }) => number).toSorted()).toEqual(numbers.toSorted());
  for (const { number, said } of stored) expect(said).toBe(number);
  expect(await s.rows(`select size::text from helpdesk.attachments where id = 'large'`)).toEqual([
    { size: '9223372036854775807' },
  ]);
});
