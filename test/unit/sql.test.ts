/** SQL with its values where they stand: what becomes a parameter, and what becomes SQL. */
import { expect, test } from 'vitest';
import type { Queryable } from '../../src/engine/database/pool.ts';
import { numbered, query, raw, sql } from '../../src/engine/database/sql.ts';

test('each value is a parameter, in the order of the places', () => {
  const [account, ids] = ['acme', ['1', '2']];
  expect(sql`
    select from t where account_id = ${account} and id = any(${ids}) or account_id = ${account}`).toEqual({
    text: 'select from t where account_id = $1 and id = any($2) or account_id = $3',
    values: ['acme', ['1', '2'], 'acme'],
  });
});

test('a text that looks like SQL stays a value; only what is raw becomes SQL', () => {
  const table = "t; drop table t where '";
  expect(sql`select from ${table} where n = ${null}`).toEqual({
    text: 'select from $1 where n = $2',
    values: [table, null],
  });
  expect(sql`select from ${raw('crm.deals')} limit ${raw(5)}`).toEqual({
    text: 'select from crm.deals limit 5',
    values: [],
  });
});

test('a part with values brings them along', () => {
  const key = sql`(${'acme'}, ${'crm.deals'})`;
  expect(sql`
    update t set n = ${1} where (account_id, stream_key) = ${key} and (select from u where (a, s) = ${key} and n < ${2})`).toEqual(
    {
      text: 'update t set n = $1 where (account_id, stream_key) = ($2, $3) and (select from u where (a, s) = ($4, $5) and n < $6)',
      values: [1, 'acme', 'crm.deals', 'acme', 'crm.deals', 2],
    },
  );
  expect(sql`select ${1} where ${numbered('$2 and $1 and $2', 'a', 'b')} and ${2}`).toEqual({
    text: 'select $1 where $2 and $3 and $4 and $5',
    values: [1, 'b', 'a', 'b', 2],
  });
});

test('a raw part has no place for a value, which would be that of another one', () => {
  expect(() => raw('account_id = $1')).toThrow('a place for a value in account_id = $1');
});

test('an answer has the form that is asked for', async () => {
  const asked: unknown[] = [];
  const answering = (rows: object[]) =>
    ({
      query: async (statement: unknown) => {
        asked.push(statement);
        return { rows, rowCount: rows.length };
      },
    }) as unknown as Queryable;
  const two = query(answering([{ n: 1 }, { n: 2 }]));
  expect(await two.rows`select ${1}`).toEqual([{ n: 1 }, { n: 2 }]);
  expect([await two.row`select`, await two.first`select`]).toEqual([{ n: 1 }, { n: 1 }]);
  expect([await two.values`select`, await two.value`select`, await two.count`select`]).toEqual([[1, 2], 1, 2]);
  expect(await query(answering([])).first`select`).toBeUndefined();
  await query(answering([]), 'kept').rows`select ${2}`;
  expect([asked.at(0), asked.at(-1)]).toEqual([
    { text: 'select $1', values: [1] },
    { name: 'kept', text: 'select $1', values: [2] },
  ]);
});
