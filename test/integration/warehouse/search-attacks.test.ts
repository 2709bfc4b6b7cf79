/** The search functions have the rights of their owner: a real reader of one account tries to learn from them what another one holds. */
import { expect, test } from 'vitest';
import type { TestDatabase } from '../../support/postgres.ts';
import { letReaderIn, type TestReader } from '../../support/readers.ts';
import { searchableDatabase } from '../../support/searchable.ts';

/** Acme has ordinary rows. Umbra has words and addresses that acme has not; `zirkon…` is in neither. */
async function twoAccounts(): Promise<TestDatabase> {
  const db = await searchableDatabase();
  await db.pool.query(`
    insert into sync.accounts (account_id) values ('acme'), ('umbra');
    insert into helpdesk.tickets (account_id, id, number, subject, state, created_at, updated_at, _first_seen_at, _synced_at, _observed_at, _payload)
      select a, 't' || n, n, case when a = 'acme' then 'ordinary order number ' || n else 'takeover of globex, part ' || n end,
        'open', timestamptz '2026-01-01' + n * interval '1 hour', '2026-02-01', '2026-02-01', '2026-02-01', '2026-02-01', '{}'
      from unnest('{acme,umbra}'::text[]) a, generate_series(1, 400) n;
    insert into internal.messages (account_id, id, ticket_id, position, type, direction, body_text, created_at, _first_seen_at, _synced_at, _observed_at, _payload)
      select t.account_id, 'm' || t.id, t.id, 1, 'reply', 'in', 'about ' || t.subject, t.created_at, '2026-02-01', '2026-02-01', '2026-02-01', '{}'
      from helpdesk.tickets t;
    insert into helpdesk.contacts (account_id, id, customer_id, type, value, _first_seen_at, _synced_at, _observed_at, _payload)
      select a, 'k' || n, 'c' || n, 'email', v, '2026-02-01', '2026-02-01', '2026-02-01', '{}'
      from unnest('{acme,umbra}'::text[]) a, generate_series(1, 400) n
      cross join lateral (
        select case when a = 'acme' then 'buyer' || n || '@mail.example' else 'whistleblower' || n || '@globex.example' end as v) v`);
  // While another session of this database looks, such as one that collects statistics, vacuum leaves pages that later
  // searches would have to fetch.
  for (const table of ['helpdesk.tickets', 'internal.messages', 'helpdesk.contacts']) {
    const allVisible = async () => {
      await db.pool.query(`vacuum analyze ${table}`);
      const { rows } = await db.pool.query(
        `select relpages > 0 and relallvisible = relpages as yes from pg_class where oid = '${table}'::regclass`,
      );
      return rows[0].yes;
    };
    await expect.poll(allVisible, { timeout: 60_000 }).toBe(true);
  }
  return db;
}

/** By function: what umbra alone has, and what nobody has, alike in length and shape. */
const probes = [
  ['search_messages', 'globex', 'zirkon'],
  ['similar_subjects', 'takeover of globex', 'zirkonia in quartz'],
  ['similar_contacts', 'whistleblower@globex.example', 'zirkonquartzes@globex.example'],
] as const;

const call = (name: string, words: string) => `select * from helpdesk.${name}('${words}')`;

/** What everybody may read of how often indexes and tables were used, and how many of their rows were shown. */
async function counters(reader: TestReader): Promise<Record<string, number>> {
  await reader.rows('select pg_stat_force_next_flush()');
  await reader.rows('select pg_stat_clear_snapshot()');
  const rows = await reader.rows<{ name: string; n: string }>(`
    select indexrelname || ' read' as name, idx_tup_read as n from pg_stat_user_indexes where schemaname = 'helpdesk'
    union all select indexrelname || ' fetched', idx_tup_fetch from pg_stat_user_indexes where schemaname = 'helpdesk'
    union all select relname || ' by index', idx_tup_fetch from pg_stat_user_tables where schemaname = 'helpdesk'
    union all select relname || ' by scan', seq_tup_read from pg_stat_user_tables where schemaname = 'helpdesk'`);
  return Object.fromEntries(rows.map(({ name, n }) => [name, Number(n ?? 0)]));
}

/** What a reader may set for its own session, to have things done in another way. */
const ways = [
  '',
  'set enable_bitmapscan = off; set enable_gathermerge = off; set enable_hashjoin = off',
  "set work_mem = '64kB'; set plan_cache_mode = force_generic_plan",
  'set enable_indexscan = off; set enable_indexonlyscan = off; set gin_fuzzy_search_limit = 1',
];

test('counters of rows that were shown do not tell whether another account has what is looked for', async () => {
  await using db = await twoAccounts();
  const grown = async (reader: TestReader, statement: string) => {
    const before = await counters(reader);
    expect(await reader.rows(statement)).toEqual([]);
    const after = await counters(reader);
    return Object.fromEntries(Object.entries(after).map(([name, n]) => [name, n - before[name]!]));
  };
  for (const way of ways) {
    // A session of its own: after five searches PostgreSQL may keep a plan that was made in another way.
    await using reader = await letReaderIn(db, { pii: true, accounts: ['acme'] });
    if (way !== '') await reader.client.query(way);
    for (const [name, theirs, nobodys] of probes) {
      const found = await grown(reader, call(name, theirs));
      expect([way, name, found]).toEqual([way, name, await grown(reader, call(name, nobodys))]);
    }
  }
  // The counters are those of these searches: what acme has itself they do show.
  await using reader = await letReaderIn(db, { pii: true, accounts: ['acme'] });
  const before = await counters(reader);
  expect((await reader.rows(call('similar_subjects', 'ordinary order number'))).length).toBeGreaterThan(0);
  const after = await counters(reader);
  expect(after['tickets_subject_alike read']! - before['tickets_subject_alike read']!).toBeGreaterThan(0);
});

test('what a session may have the server tell it does not show what is planned or done inside', async () => {
  await using db = await twoAccounts();
  await using reader = await letReaderIn(db, { pii: true, accounts: ['acme'] });
  for (const [name, theirs] of probes) {
    await reader.client.query(
      'set client_min_messages = debug5; set debug_print_plan = on; set debug_print_parse = on; set debug_print_rewritten = on; set trace_sort = on',
    );
    await reader.rows(call(name, theirs)); // What is loaded for the first time tells of itself.
    reader.notices.length = 0;
    await reader.rows(call(name, theirs));
    const told = reader.notices.slice();
    await reader.client.query('reset all');
    // Its own statement, and no other one.
    const parts = told.filter(one => /^(parse tree|rewritten parse tree|plan):/.test(one));
    expect([name, parts]).toEqual([name, ['parse tree:', 'rewritten parse tree:', 'plan:']]);
    expect([name, told.filter(one => /sort|globex|takeover|whistle/i.test(one))]).toEqual([name, []]);
    const explained = await reader.rows<{ 'QUERY PLAN': string }>(
      `explain (analyze, verbose, timing off, summary off, buffers off) ${call(name, theirs)}`,
    );
    const lines = explained.map(row => row['QUERY PLAN'].trim());
    expect([name, lines.filter(line => !/^(Function Scan|Function Call|Output)/.test(line))]).toEqual([name, []]);
  }
});

test('functions, errors and roles of the reader are shown rows of its own account alone', async () => {
  await using db = await twoAccounts();
  await using reader = await letReaderIn(db, { pii: true, accounts: ['acme'] });
  await reader.client.query(`
    create function pg_temp.tell(what text) returns boolean language plpgsql cost 0.0000001 as $$ begin raise notice 'told %', what; return true; end $$;
    create function pg_temp.fail(what text) returns boolean language plpgsql cost 0.0000001 as $$ begin raise exception 'failed at %', what; end $$;
    create operator pg_temp.@@ (leftarg = tsvector, rightarg = tsquery, function = pg_catalog.ts_match_vq);
    create temp table tickets as select 'umbra'::text as account_id`);
  const columns = { search_messages: 'excerpt', similar_subjects: 'subject', similar_contacts: 'value' };
  const [ours, theirs] = [
    ['order', 'ordinary order number', 'buyer@mail.example'],
    ['takeover', 'takeover of globex', 'whistleblower@globex.example'],
  ] as const;
  for (const way of ways) {
    if (way !== '') await reader.client.query(way);
    await reader.client.query('set search_path = pg_temp, helpdesk, pg_catalog');
    for (const [i, [name, column]] of Object.entries(columns).entries()) {
      reader.notices.length = 0;
      for (const words of [ours[i]!, theirs[i]!]) {
        await reader.rows(`${call(name, words)} where pg_temp.tell(${column})`);
        const failed = await reader.refused(`${call(name, words)} where pg_temp.fail(${column})`);
        expect([name, words, failed ?? '']).toEqual([name, words, expect.not.stringMatching(/globex|umbra/)]);
      }
      // With a limit that leaves out what it likes, it leaves out its own.
      if (!way.includes('fuzzy'))
        expect([way, name, reader.notices.some(one => one.startsWith('told '))]).toEqual([way, name, true]);
      expect([name, reader.notices.filter(one => /globex|umbra/.test(one))]).toEqual([name, []]);
    }
    await reader.client.query('reset all');
  }
  // Cut off in the middle it says where, and not with which values.
  await reader.client.query("set statement_timeout = '1ms'; set log_parameter_max_length_on_error = -1");
  for (const [name, words] of probes)
    expect([
      name,
      (await reader.refused(
        `select count(*) from generate_series(1, 100000) n, lateral helpdesk.${name}('${words}' || n)`,
      )) ?? '',
    ]).toEqual([name, 'canceling statement due to statement timeout']);
  await reader.client.query('reset all');
  // As nobody else it may search: another role is refused, or sees nothing.
  for (const statement of [
    'set role shelfdesk_reader_pii',
    "select set_config('role', 'shelfdesk_writer', false)",
    'set session authorization default',
    `select set_config('session_authorization', '${reader.name}', false)`,
  ]) {
    await reader.refused(statement);
    for (const [name, words] of probes)
      expect([statement, name, await reader.rows(call(name, words))]).toEqual([statement, name, []]);
    await reader.client.query('reset role');
  }
  // Statistics of the indexes themselves are shown to nobody who may not read the tables as a whole.
  const { rows } = await reader.client.query(
    `select (select count(*) from pg_stats s where s::text ~ 'globex|takeover')::int as stats, (select count(*) from pg_stats_ext_exprs s where s::text ~ 'globex|takeover')::int as ext`,
  );
  expect(rows).toEqual([{ stats: 0, ext: 0 }]);
});
