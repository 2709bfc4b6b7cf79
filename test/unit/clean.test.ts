/** JSON mended and taken apart as text: every digit stays, and neither depth nor length matters. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { cleanJson, cleanText, elementsOf, fieldsOf, objectOf } from '../../src/engine/json-text.ts';

test('the parts of any array and object are what JSON.parse finds', () => {
  fc.assert(
    fc.property(fc.array(fc.jsonValue()), fc.constantFrom(0, 2), (all, space) => {
      expect(elementsOf(JSON.stringify(all, null, space)).map(text => JSON.parse(text))).toEqual(
        JSON.parse(JSON.stringify(all)),
      );
    }),
  );
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.constantFrom(0, 2), (all, space) => {
      const json = JSON.stringify(all, null, space);
      expect(JSON.parse(objectOf(fieldsOf(json)))).toEqual(JSON.parse(json));
    }),
  );
});

test('what PostgreSQL cannot store goes, pairs and backslashes stay', () => {
  expect(cleanJson(String.raw`{"a\u0000":"\ud83d\ude00 \udc00\ud83d \\u0000 \\\u0000"}`)).toEqual({
    text: String.raw`{"a\ufffd":"\ud83d\ude00 \ufffd\ufffd \\u0000 \\\ufffd"}`,
    cleaned: 4,
  });
  expect(cleanText('a\0b\ud800')).toEqual({ text: 'a\ufffdb\ufffd', cleaned: 2 });
});

test('numbers keep their digits', () => {
  const json = '[1.10, 1e400, 12345678901234567890]';
  expect(elementsOf(json)).toEqual(['1.10', '1e400', '12345678901234567890']);
  expect(cleanJson(json).text).toBe(json);
});

test('any depth, any length', () => {
  const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
  expect(elementsOf(`[${deep},2]`)).toEqual([deep, '2']);
  const long = `"${'é\\n\\"'.repeat(2_000_000)}"`;
  expect(elementsOf(`[${long},2]`)[1]).toBe('2');
  expect(cleanJson(long).cleaned).toBe(0);
});
