/**
 * What is lost without a field, as `fields` says it (kinds of the help desk): each prepared question is asked before and after the field is
 * left out of a shop's month. A question whose answer differs is lost, and no other.
 */
import type pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readQueries } from '../../src/cli/look/query.ts';
import { parseRules } from '../../src/engine/http/field-rules.ts';
import { applyToStored } from '../../src/privacy/fields/apply.ts';
import { kinds, streams } from '../../src/sources/index.ts';
import { demoWorld } from '../support/demo-world.ts';
import type { InProcess } from '../support/in-process.ts';
import { long } from '../support/long.ts';

const queries = await readQueries();
let here: InProcess;
beforeAll(async () => {
  here = await demoWorld(30);
}, 900_000);
afterAll(() => here?.[Symbol.asyncDispose]());

/** Transactions of the product are parts of one that is rolled back. */
function within(client: pg.PoolClient): pg.Pool {
  const words: Record<string, string> = {
    begin: 'savepoint part',
    commit: 'release part',
    rollback: 'rollback to part',
  };
  const query = (text: string, values?: unknown[]) => client.query(words[text] ?? text, values);
  return { query, connect: async () => ({ query, release: () => {} }) } as unknown as pg.Pool;
}

async function answers(client: pg.PoolClient): Promise<Map<string, string>> {
  const all = new Map<string, string>();
  for (const { name, sql } of queries) {
    await client.query('savepoint asked');
    const answer = await client.query(sql).then(
      ({ rows }) => JSON.stringify(rows),
      (error: Error) => error.message,
    );
    await client.query('rollback to asked');
    all.set(name, answer);
  }
  return all;
}

const fields = Object.entries(kinds).flatMap(([kind, { fields, needed, within: inner }]) =>
  fields.filter(field => !needed.includes(field) && !(field in inner)).map(field => [kind, field] as const),
);

test('the questions that need a field are those that `fields` names', long, async () => {
  const client = await here.pool.connect();
  try {
    await client.query('begin');
    const before = await answers(client);
    const found: Record<string, string[]> = {};
    const said: typeof found = {};
    for (const [kind, field] of fields) {
      await client.query('savepoint field');
      const of = { kinds, rules: parseRules(`${kind}.${field}`), key: 'a key of sixteen' };
      const signal = new AbortController().signal;
      await applyToStored(within(client), 'default', of, {
        streams,
        signal,
        now: new Date(here.nowMs),
        told: () => {},
      });
      const after = await answers(client);
      const lost = queries.filter(({ name }) => before.get(name) !== after.get(name)).map(({ name }) => name);
      if (lost.length > 0) found[`${kind}.${field}`] = lost;
      const told = (kinds[kind]!.uses?.[field] ?? []).filter(one => one.startsWith('question '));
      if (told.length > 0) said[`${kind}.${field}`] = told.map(one => one.slice('question '.length));
      await client.query('rollback to field');
    }
    expect(said).toEqual(found);
  } finally {
    client.release(true);
  }
});
