/** The charts of examples/dashboards where they could mislead: over two accounts, with inboxes of one name, and along an axis of time. */
import { expect, test } from 'vitest';
import { readQueries } from '../../../src/analytics/questions.ts';
import { drawn, grafanaSqlOf } from '../../support/dashboards.ts';
import { freshDatabase } from '../../support/postgres.ts';

test('a bar or a line is one inbox, also where several have its name, and time runs from left to right', async () => {
  await using db = await freshDatabase();
  const own = '_first_seen_at, _synced_at, _observed_at, _payload';
  await db.pool.query(`
    insert into sync.accounts (account_id, since, mirrored_since) select a, '1970-01-01', '2026-01-01' from unnest('{acme,umbra}'::text[]) a;
    insert into sync.coverage (account_id, source, stream, list, covered)
      select account_id, 'helpdesk', 'tickets', 'default', tstzmultirange(tstzrange('1970-01-01', '2026-03-30T12:00Z')) from sync.accounts;
    insert into helpdesk.inboxes (account_id, id, name, ${own})
      select a, id, name, '2026-03-01', '2026-03-01', '2026-03-01', '{}'
      from (values ('acme', 'i1', 'Support'), ('acme', 'i2', 'Support'), ('umbra', 'i1', 'Support'), ('umbra', 'i2', 'Sales')) i (a, id, name);
    create temp table it (account_id text, id text, inbox_id text, at timestamptz, hours int);
    insert into it values
      ('acme', 'a', 'i1', '2026-03-03', 1), ('acme', 'b', 'i2', '2026-03-03', 2), ('acme', 'c', null, '2026-03-10', 3),
      ('umbra', 'a', 'i1', '2026-03-03', 4), ('umbra', 'b', 'i2', '2026-03-03', 5), ('umbra', 'c', null, '2026-03-10', 5);
    insert into helpdesk.tickets (account_id, id, inbox_id, state, type, created_at, updated_at, _messages_as_of, _true_by, ${own})
      select account_id, id, inbox_id, 'open', 'email', at, at, '2027-01-01', at, at, at, at, '{}' from it;
    insert into internal.messages (account_id, id, ticket_id, position, type, direction, user_id, created_at, ${own})
      select account_id, id || k, id, k, 'reply', case k when 0 then 'in' else 'out' end, case k when 1 then 'u1' end, at + k * hours * interval '1 hour', at, at, at, '{}'
      from it cross join generate_series(0, 1) k`);
  const queries = await readQueries();
  const all = await drawn(db.pool, queries);
  const shown = async (name: string) => (await db.pool.query(grafanaSqlOf(all.find(one => one.name === name)!))).rows;

  const lines = await shown('first-response-by-inbox-and-week');
  expect(lines.map(({ metric, median_hours }) => [metric, median_hours])).toEqual([
    ['acme: Support (i1)', 1],
    ['acme: Support (i2)', 2],
    ['umbra: Sales', 5],
    ['umbra: Support', 4],
    ['no inbox', 4],
  ]);
  expect((await shown('backlog-by-inbox')).map(({ inbox, now }) => [inbox, now])).toEqual([
    ['no inbox', 2],
    ['acme: Support (i1)', 1],
    ['acme: Support (i2)', 1],
    ['umbra: Sales', 1],
    ['umbra: Support', 1],
  ]);
  const weeks = grafanaSqlOf(all.find(({ name }) => name === 'created-and-closed')!);
  expect((await db.pool.query(`select week::text, created::int from (${weeks}) q`)).rows).toEqual([
    { week: '2026-03-02', created: 4 },
    { week: '2026-03-09', created: 2 },
  ]);
  // Within an account each name of the star is one, in every question.
  await db.pool.query(`
    insert into helpdesk.labels (account_id, id, name, ${own})
      select a, id, name, '2026-03-01', '2026-03-01', '2026-03-01', '{}'
      from (values ('acme', 'l1', 'refund'), ('acme', 'l2', 'bug'), ('acme', 'l3', 'refund')) l (a, id, name);
    update helpdesk.tickets set label_ids = '{l1,l3}' where account_id = 'acme'`);
  const ask = async (name: string) => (await db.pool.query(queries.find(one => one.name === name)!.sql)).rows;
  expect((await ask('first-response-in-time')).map(({ inbox }) => inbox).toSorted()).toEqual([
    ...['Sales', 'Support', 'Support (i1)', 'Support (i2)', 'no inbox'],
  ]);
  expect((await ask('labels')).map(({ label }) => label)).toEqual(['refund (l1)', 'refund (l3)']);
  const { rows: alone } = await db.pool.query(`select label_name from analytics.dim_label where label_id = 'l2'`);
  expect(alone).toEqual([{ label_name: 'bug' }]);
});
