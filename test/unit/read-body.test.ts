import { expect, test } from 'vitest';
import { textOf } from '../../src/engine/http/decoded.ts';
import { firstId, withinCap } from '../../src/engine/http/read-body.ts';

/** A body without an end, which counts the bytes that were taken from it. */
function endless(chunk: string) {
  const taken = { bytes: 0, isClosed: false };
  async function* chunks() {
    try {
      for (;;) {
        taken.bytes += chunk.length;
        yield Buffer.from(chunk);
      }
    } finally {
      taken.isClosed = true;
    }
  }
  return { taken, chunks: chunks() };
}

test('reading ends with the chunk that passes the cap, and the body is closed', async () => {
  const { taken, chunks } = endless('x'.repeat(1000));
  const read = await withinCap(chunks, { capBytes: 10_000 }, textOf);
  expect(read).toMatchObject({ text: '', tooLarge: { bytes: 11_000, capBytes: 10_000 } });
  expect(taken).toEqual({ bytes: 11_000, isClosed: true });
});

test('a body that announces more is not read; its beginning is kept', async () => {
  const { taken, chunks } = endless('[{"id":"a"');
  const read = await withinCap(chunks, { capBytes: 10_000, announced: 10_001 }, textOf);
  expect(read).toMatchObject({ tooLarge: { bytes: 10_001, head: '[{"id":"a"' } });
  expect(taken).toEqual({ bytes: 10, isClosed: true });
});

test('a body within the cap is its text', async () => {
  const chunks = (async function* () {
    yield Buffer.from([0xc3]);
    yield Buffer.from([0xa4, 0xff]);
  })();
  expect(await withinCap(chunks, { capBytes: 3 }, textOf)).toEqual({ text: 'ä\uFFFD', notUtf8: true });
});

test.each([
  ['[{"id":"t1","subject":"', 'list', 't1'],
  ['[{"number":7,"labels":[{"id":"l"}],"user":{"id":"u"},"id":"t\\u0031","body":"', 'list', 't1'],
  [' { "messages":[{"id":"m"}], "id" : 12345, "x":', 'single', '12345'],
  ['{"id":123', 'single', undefined],
  ['{"kind":"books#volumes","items":[{"kind":"v","id":"v1","volumeInfo":{', 'items', 'v1'],
  ['{"kind":"books#volumes","items":[{"text":"id\\":\\"no', 'items', undefined],
  ['[{"note":"id","other":"x","body":"', 'list', undefined],
  ['[{"id":null,"a":1', 'list', undefined],
  ['[', 'list', undefined],
  ['', 'list', undefined],
] as const)('%s', (head, shape, id) => {
  expect(firstId(head, shape)).toBe(id);
});
