/** JSON read without rounding: integers that no double holds, ids however they are written, and each digit where it is asked for. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { ExactNumber, integerOf, parseEachDigit, parseJson } from '../../src/engine/exact-json.ts';
import { check } from '../../src/engine/http/request.ts';

const integer = fc.bigInt({ min: -(2n ** 80n), max: 2n ** 80n });

test('every integer of any JSON has its digits, and JSON written again is the same', () => {
  fc.assert(
    fc.property(integer, integer, fc.string(), fc.constantFrom('', ' ', '\n'), (one, other, text, space) => {
      const written = (gap: string) =>
        `[${one},${gap}{"id":${gap}${other},"a":${JSON.stringify(text)},"b":[1.5,${gap}${one}]}]`;
      const read = parseJson(written(space)) as [unknown, { id: unknown; b: unknown[] }];
      expect([read[0], read[1].id, read[1].b[1]].map(String)).toEqual([one, other, one].map(String));
      expect(JSON.stringify(read)).toBe(written(''));
      expect(integerOf(String(one)).toString()).toBe(String(one));
    }),
  );
});

test('usual JSON is read as JSON.parse reads it', () => {
  fc.assert(
    fc.property(fc.jsonValue(), value => {
      const json = JSON.stringify(value);
      expect(JSON.stringify(parseJson(json))).toBe(json);
    }),
  );
  expect(parseJson('{"at": "1234567890123456", "n": 9007199254740991, "f": 0.1234567890123456789}')).toEqual({
    at: '1234567890123456',
    n: 9007199254740991,
    f: 0.12345678901234568,
  });
});

// PostgreSQL writes jsonb numbers like this: an id that is read here must equal the id that it stores.
test.each([
  ['1024.0', '1024.0'],
  ['1e3', '1000'],
  ['1.5e3', '1500'],
  ['1.50e1', '15.0'],
  ['1E+22', '10000000000000000000000'],
  ['-1e-3', '-0.001'],
  ['5e-1', '0.5'],
  ['-0', '0'],
  ['-0.0', '0.0'],
  ['0e5', '0'],
  ['9007199254740993', '9007199254740993'],
])('the id %s is the text %s', (source, text) => {
  expect(String((parseJson(`{"id":${source}}`) as { id: unknown }).id)).toBe(text);
});

test('every digit, where JSON is shown', () => {
  const json = '{"a":1.10,"b":[1e400,-0,12.0],"c":12345678901234567890}';
  expect(JSON.stringify(parseEachDigit(json))).toBe(json);
});

test('a schema that wants a number gets the nearest one, and an id keeps its digits or is refused', () => {
  const raw = parseJson('{"id":9007199254740993,"n":90071992547409931,"in":[{"x":1e400,"big":12345678901234567890}]}');
  const rest = { n: z.number(), in: z.array(z.looseObject({ big: z.number() })) };
  const idTypes = ['string', 'number'] as const;
  for (const id of [z.coerce.string(), z.union([z.string(), z.number()]).transform(String)])
    expect(check(z.looseObject({ id, ...rest }), raw, 0, idTypes)).toMatchObject({
      readable: {
        id: '9007199254740993',
        n: Number('90071992547409931'),
        in: [{ big: Number('12345678901234567890') }],
      },
    });
  const asNumber = check(z.looseObject({ id: z.number().transform(String), ...rest }), raw, 0, idTypes);
  expect(asNumber).toMatchObject({ id: '9007199254740993', path: 'id' });
  // A number is no text, however large it is.
  expect(check(z.looseObject({ id: z.string() }), raw, 0)).toMatchObject({ id: undefined, path: 'id' });
  expect(check(z.looseObject({ n: z.number() }), { n: new ExactNumber('1e400') }, 0)).toHaveProperty('readable');
});

test('a text that is nested too deeply for a reviver keeps its digits, and its strings', () => {
  const inner = '{"id":9007199254740993,"text":"a \\" 12345678901234567890","n":1.5,"__proto__":12345678901234567890}';
  const levels = 50_000;
  for (const read of [parseJson, parseEachDigit]) {
    let value = read(`${'['.repeat(levels)}${inner}${']'.repeat(levels)}`);
    for (let level = 0; level < levels; level++) value = (value as unknown[])[0];
    expect(JSON.stringify(value)).toBe(inner);
  }
});
