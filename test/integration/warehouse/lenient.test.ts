/** What the columns of a lenient record read: values of the declared types, and null of all others. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { columnsOf } from '../../../src/sources/record/columns.ts';
import {
  flag,
  id,
  integer,
  lenientRecord,
  number,
  object,
  text,
  texts,
  time,
} from '../../../src/sources/record/record.ts';
import { freshDatabase, type TestDatabase } from '../../support/postgres.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await freshDatabase();
});
afterAll(() => db?.drop());

const values = {
  words: texts('Words.').plain(),
  count: integer('Count.', { unlessZero: true }),
  price: number('Price.'),
  sold: flag('Sold.'),
  soldOn: time('When it was sold.'),
};
const thing = lenientRecord('things', 'Things.', {
  id: id(),
  name: text('Name.').plain(),
  ...values,
  in: object(values),
});

test('a value of the declared type is read, outermost and in an object, and no other stops the row', async () => {
  const columns = columnsOf(thing).map(({ sql, path }) => `'${path ?? 'name'}', ${sql}`);
  const read = async (record: string) => {
    const { rows } = await db.pool.query<{ all: Record<string, unknown> }>(
      `select jsonb_strip_nulls(jsonb_build_object(${columns.slice(1).join(', ')})) as all from (select $1::jsonb as record) r`,
      [record],
    );
    return rows[0]!.all;
  };
  const good = '"words":["a","b"],"count":7.0,"price":1.334E7,"sold":false,"soldOn":"2026-02-28T10:00:00.5+02:00"';
  const values = { words: ['a', 'b'], count: 7, price: 13_340_000, sold: false, soldOn: '2026-02-28T08:00:00.5+00:00' };
  const inside = Object.entries(values).map(([name, value]) => [`in.${name}`, value]);
  expect(await read(`{"name":"x",${good},"in":{${good}}}`)).toEqual({
    ...{ name: 'x', ...values, ...Object.fromEntries(inside) },
  });
  for (const odd of ['"x"', '{"a":1}', '"2026-02-30T10:00:00Z"', '1e1001', 'null', '[]'])
    expect(
      await read(
        `{${Object.keys(values).map(name => `"${name}":${odd === '[]' && name === 'words' ? '1' : odd}`)},"in":${odd}}`,
      ),
    ).toEqual({});
  expect(await read('{"count":0,"in":{"count":0,"sold":"true"}}')).toEqual({});
});
