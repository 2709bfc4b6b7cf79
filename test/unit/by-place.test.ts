import { expect, test } from 'vitest';
import type { Reply } from '../../src/engine/http/request.ts';
import { ByPlace, isLost } from '../../src/engine/load/too-large.ts';
import { readShelf } from '../../src/engine/reading/collection.ts';
import { ReplyTooLarge } from '../../src/errors.ts';

const shown = { asOf: 5000, trueBy: 6000, shownBy: 6000 };

/** Reads a shelf of these volumes, of which some are too large. */
async function shelf(ids: readonly string[], isLarge: (part: readonly string[]) => boolean) {
  const places = new ByPlace(8);
  const asked: number[] = [];
  const steps = readShelf({ known: undefined, look: false, perPage: 8 });
  let found: (string | undefined)[] = [];
  let step = steps.next();
  while (!step.done) {
    const { startIndex, maxResults } = step.value;
    const reply = await places.ask<{ id: string }>(maxResults, async most => {
      asked.push(most);
      if (asked.length > 300) throw new Error('it has asked 300 times');
      const records = ids.slice(startIndex, startIndex + most).map(id => ({ id }));
      if (isLarge(records.map(({ id }) => id)))
        throw new ReplyTooLarge('GET /volumes', { bytes: 2e6, capBytes: 1e6, id: records[0]?.id, shown });
      return { text: '', records, unreadable: [], arrived: records.length, total: undefined, ...shown } as Reply<{
        id: string;
      }>;
    });
    if (startIndex === 0) found = [];
    const here = isLost(reply) ? [`too large: ${startIndex}`] : reply.records.map(({ id }) => id);
    found.push(...here);
    step = steps.next({ ids: here, asOf: reply.asOf });
  }
  return { found, result: step.value.found, asked };
}

const letters = [...'abcdefghijklmnop'];

test('a shelf whose pages are too large is read in smaller ones', async () => {
  const { found, result, asked } = await shelf(letters, part => part.length > 3);
  expect({ found, result }).toEqual({ found: letters, result: 'whole' });
  expect(asked.slice(0, 3)).toEqual([8, 4, 2]);
});

test('two volumes that are too large, side by side, keep their places, and the others are read', async () => {
  const { found, result } = await shelf(letters, part => part.includes('c') || part.includes('d'));
  expect({ found, result }).toEqual({
    found: ['a', 'b', 'too large: 2', 'too large: 3', ...letters.slice(4)],
    result: 'whole',
  });
});

test('a source whose replies are always too large ends the reading with the error', async () => {
  await expect(shelf(letters, () => true)).rejects.toThrow(/larger than 1 MB \(SHELFDESK_REPLY_MEGABYTES\)/);
});
