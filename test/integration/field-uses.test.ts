/**
 * What is lost without a field, as `fields` says it (kinds of the help desk): each prepared question is asked before and after the field is
 * left out of a shop's two weeks. A question whose answer differs is lost, and no other.
 */
import type pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readQueries } from '../../src/analytics/questions.ts';
import { applyToStored } from '../../src/privacy/fields/apply.ts';
import { parseRules } from '../../src/privacy/fields/parse-field-rules.ts';
import { kinds, streams } from '../../src/sources/index.ts';
import { demoWorld } from '../support/demo-world.ts';
import type { InProcess } from '../support/in-process.ts';
import { long } from '../support/long.ts';

const queries = await readQueries();
let here: InProcess;
beforeAll(async () => {
  here = await demoWorld(14, 60);
  // Some wait for a first response now, whenever the work of the last days ended.
  for (let n = 0; n < 3; n++) here.world.addMessage(here.world.addTicket({ subject: `New ${n}` }).id);
  here.nowMs += 600_000;
  await here.sync(['tickets', 'messages']);
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

/** The questions that `fields` names for a field. */
const told = ([kind, field]: readonly [string, string]): string[] =>
  (kinds[kind]!.uses?.[field] ?? []).flatMap(one =>
    one.startsWith('question ') ? [one.slice('question '.length)] : [],
  );

test('the questions that need a field are those that `fields` names', long, async () => {
  const client = await here.pool.connect();
  try {
    await client.query('begin');
    const before = await answers(client);
    const lostWith = async (some: readonly (readonly [string, string])[]): Promise<string[]> => {
      await client.query('savepoint field');
      const rules = parseRules(some.map(([kind, field]) => `${kind}.${field}`).join(' '), kinds);
      await applyToStored(
        within(client),
        'default',
        { kinds, rules, key: 'a key of sixteen' },
        {
          ...{ streams, signal: new AbortController().signal, now: new Date(here.nowMs) },
          told: () => {},
        },
      );
      const after = await answers(client);
      await client.query('rollback to field');
      return queries.filter(({ name }) => before.get(name) !== after.get(name)).map(({ name }) => name);
    };
    const found: Record<string, string[]> = {};
    for (const one of fields.filter(one => told(one).length > 0)) found[one.join('.')] = await lostWith([one]);
    expect(found).toEqual(
      Object.fromEntries(fields.flatMap(one => (told(one).length > 0 ? [[one.join('.'), told(one)]] : []))),
    );
    expect(await lostWith(fields.filter(one => told(one).length === 0))).toEqual([]);
  } finally {
    client.release(true);
  }
});
