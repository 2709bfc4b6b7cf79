/** What a reader can do, and above all what it cannot: every way round the filter of accounts and the rights that is known. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { migrate } from '../../../src/engine/database/migrate.ts';
import { makePool } from '../../../src/engine/database/pool.ts';
import { unfilteredViews } from '../../../src/privacy/readers.ts';
import { makeCrm } from '../../support/crm.ts';
import { emptyDatabase, freshDatabase, type TestDatabase } from '../../support/postgres.ts';
import { aName, letReaderIn, sessionOf } from '../../support/readers.ts';
import { searchableDatabase } from '../../support/searchable.ts';

/** The same ids in two accounts; whatever holds `umbra` is of the one that the reader does not see. */
async function twoAccounts(): Promise<TestDatabase> {
  const db = await searchableDatabase();
  await db.pool.query(`
    insert into sync.accounts (account_id) values ('umbra'), ('acme');
    insert into helpdesk.users (account_id, id, first_name, email, _first_seen_at, _synced_at, _observed_at, _payload)
      select a, u, a || '-user-' || u, a || u || '@desk.example', '2026-01-01', '2026-01-01', '2026-01-01', jsonb_build_object('of', a)
      from unnest('{umbra,acme}'::text[]) a, unnest('{u1,u2}'::text[]) u;
    insert into helpdesk.tickets (account_id, id, number, customer_id, user_id, inbox_id, label_ids, state, subject, created_at, updated_at, _messages_as_of, _first_seen_at, _synced_at, _observed_at, _payload)
      select a, t, 1, 'c1', 'u1', 'i1', '{l1}', 'open', 'about ' || a, '2026-01-01', '2026-01-02', '2026-01-02', '2026-01-02', '2026-01-02', '2026-01-02', jsonb_build_object('of', a)
      from unnest('{umbra,acme}'::text[]) a, unnest('{t1,t2}'::text[]) t;
    insert into internal.messages (account_id, id, ticket_id, position, type, direction, from_name, from_address, body, body_text, created_at, _first_seen_at, _synced_at, _observed_at, _payload)
      select a, 'm1', 't1', 1, 'reply', 'in', a, a || '@mail.example', 'from ' || a, 'from ' || a, '2026-01-01', '2026-01-02', '2026-01-02', '2026-01-02', '{}'
      from unnest('{umbra,acme}'::text[]) a;
    insert into books.volumes (account_id, id, title, _first_seen_at, _synced_at, _observed_at, _payload)
      select a, 'v1', 'of ' || a, '2026-01-01', '2026-01-01', '2026-01-01', '{}' from unnest('{umbra,acme}'::text[]) a;
    insert into sync.coverage (account_id, source, stream, list, covered)
      select a, 'helpdesk', 'tickets', 'default', '{[-infinity,"2026-01-02")}' from unnest('{umbra,acme}'::text[]) a;
    insert into sync.stored_runs (account_id, kind, state, started_at) select a, 'sync', 'completed', '2026-01-01' from unnest('{umbra,acme}'::text[]) a;
    insert into sync.stored_run_streams (run_id, account_id, source, stream, state) select id, account_id, 'helpdesk', 'tickets', 'completed' from sync.stored_runs;
    insert into sync.changes (account_id, source, table_name, record_id, seen_at, as_of, changes) values ('umbra', 'helpdesk', 'users', 'u1', '2026-01-01', '2026-01-01', '{}');
    insert into sync.rejects (account_id, source, stream, key, reason, payload, replayable, first_seen_at, last_seen_at)
      values ('umbra', 'helpdesk', 'users', 'k', 'umbra', '{}', false, '2026-01-01', '2026-01-01')`);
  return db;
}

/** For readers who change nothing in it. */
let db: TestDatabase;
beforeAll(async () => {
  db = await twoAccounts();
});
afterAll(() => db?.drop());

/** Tables and views that PostgreSQL lets it read, in any schema of acme. */
const readable = `
  select n.nspname || '.' || c.relname as name, exists (
      select from pg_attribute a where a.attrelid = c.oid and a.attname = 'account_id' and not a.attisdropped) as of_account, (
      select min(a.attname::text) from pg_attribute a
      where a.attrelid = c.oid and a.attname in ('account_id', 'account_key') and not a.attisdropped) as account
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname in ('helpdesk', 'books', 'sync', 'analytics', 'safe', 'bullmq', 'public') and c.relkind in ('r', 'p', 'v', 'm')
    and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')
  order by 1`;

for (const pii of [false, true]) {
  test(`a reader ${pii ? 'of everything' : 'of what is masked'} sees nothing of an account that it was not let into, in nothing that it may read`, async () => {
    await using reader = await letReaderIn(db, { pii, accounts: ['acme'] });
    const relations = await reader.rows<{ name: string; of_account: boolean }>(readable);
    const names = relations.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['safe.tickets', 'analytics.ticket_history', 'books.volumes']));
    if (!pii) expect(names.filter(name => !/^(safe|analytics|books)\./.test(name))).toEqual([]);
    else
      expect(names).toEqual(expect.arrayContaining(['helpdesk.messages', 'sync.rejects', 'sync.status', 'sync.runs']));
    expect(names.filter(name => /\.(stored_(?!run)|secret_)|sync\.readers/.test(name))).toEqual([]);

    for (const { name } of relations) {
      const found = await reader.rows<{ row: string }>(`select to_jsonb(r)::text as row from ${name} r`);
      expect({ name, umbra: found.filter(({ row }) => row.includes('umbra')) }).toEqual({ name, umbra: [] });
    }
    expect(await reader.rows('select distinct account_id from safe.users')).toEqual([{ account_id: 'acme' }]);
    expect((await reader.rows('select id from books.volumes')).length).toBe(1);
    expect((await reader.rows('select * from analytics.ticket_metrics')).length).toBe(2);
    if (!pii) return;
    expect(await reader.rows('select account_id, stream from sync.status order by stream')).toMatchObject([
      { account_id: 'acme', stream: 'messages' },
      { account_id: 'acme', stream: 'tickets' },
    ]);
    const through = 'select sync.complete_through($1, $2) is null as unknown';
    expect(await reader.rows(through, 'umbra', 'tickets')).toEqual([{ unknown: true }]);
    expect(await reader.rows(through, 'acme', 'tickets')).toEqual([{ unknown: false }]);
  });

  test(`a reader ${pii ? 'of everything' : 'of what is masked'} writes nothing, and makes nothing that outlives its session`, async () => {
    await using reader = await letReaderIn(db, { pii, accounts: ['acme'] });
    const { rows: relations } = await db.pool.query<{ name: string }>(
      `select c.oid::regclass::text as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where n.nspname in ('helpdesk', 'books', 'sync', 'analytics', 'safe', 'bullmq') and c.relkind in ('r', 'p', 'v', 'm')`,
    );
    expect(relations.length).toBeGreaterThan(60);
    const denied = /permission denied|must be owner|cannot (delete|update|insert|truncate)/;
    for (const { name } of relations) {
      expect([name, await reader.refused(`delete from ${name}`)]).toEqual([name, expect.stringMatching(denied)]);
      expect([name, await reader.refused(`truncate ${name}`)]).toEqual([
        name,
        expect.stringMatching(/permission denied|is not a table/),
      ]);
      expect([name, await reader.refused(`insert into ${name} select * from ${name}`)]).toEqual([
        name,
        expect.any(String),
      ]);
      expect([name, await reader.refused(`drop ${name.startsWith('safe') ? 'view' : 'table'} ${name}`)]).toEqual([
        name,
        expect.any(String),
      ]);
    }
    for (const schema of ['helpdesk', 'books', 'sync', 'analytics', 'safe', 'bullmq', 'public'])
      expect([schema, await reader.refused(`create table ${schema}.mine (a int)`)]).toEqual([
        schema,
        `permission denied for schema ${schema}`,
      ]);
    for (const statement of [
      'create schema mine',
      'create role mine',
      'create extension pgcrypto',
      `update sync.readers set accounts = null`,
      `insert into sync.readers values ('${reader.name}', null, true, now(), 'me')`,
      'alter table helpdesk.users disable row level security',
      'drop policy readers on helpdesk.users',
      'create policy mine on helpdesk.users using (true)',
      'alter view sync.status reset (security_invoker)',
      `grant shelfdesk_writer to ${reader.name}`,
      `alter role ${reader.name} createrole`,
      `alter role ${reader.name} bypassrls`,
      'select sync.settle_roles()',
      `select sync.hand_over('${reader.name}')`,
      `select sync.void_since('acme', 'helpdesk', '2026-01-01')`,
      `call analytics.recompute('acme')`,
      'reindex table helpdesk.users',
      `copy safe.users to program 'cat'`,
      `copy safe.users to '/tmp/users'`,
    ])
      expect([statement, await reader.refused(statement)]).toEqual([
        statement,
        expect.stringMatching(/denied|must (?:be|have)|may not|not allowed|only/i),
      ]);
    expect((await db.pool.query('select count(*) from helpdesk.users')).rows).toEqual([{ count: 4 }]);
  });
}

test('a masked reader sees no other schema, no salt, no statistics and no statements of others', async () => {
  await using db = await twoAccounts();
  await using reader = await letReaderIn(db, { accounts: ['acme'] });
  await db.pool.query('analyze');
  for (const name of [
    'helpdesk.users',
    'sync.accounts',
    'sync.status',
    'sync.secret_salt',
    'sync.readers',
    'sync.readable_accounts',
    'bullmq.job',
  ])
    expect([name, await reader.refused(`table ${name}`)]).toEqual([name, expect.stringContaining('permission denied')]);
  expect(await reader.refused('select sync.complete_through($$acme$$, $$tickets$$)')).toContain('permission denied');
  for (const name of ['pg_authid', 'pg_statistic', 'pg_largeobject'])
    expect(await reader.refused(`table ${name}`)).toContain('permission denied');
  const schemas = `schemaname in ('helpdesk', 'books', 'sync', 'analytics', 'safe')`;
  expect(
    await reader.rows(
      `select * from pg_stats where ${schemas} and tablename <> 'metric_definitions' and schemaname <> 'analytics'`,
    ),
  ).toEqual([]);
  expect(
    await reader.rows(
      `select schemaname, tablename from pg_stats where ${schemas} and (attname = 'account_id' or tablename like 'stored%')`,
    ),
  ).toEqual([]);
  await using other = { ...(await sessionOf(db.url)), [Symbol.asyncDispose]: async () => other.client.end() };
  await other.rows(`select 'of umbra'`);
  expect(
    await reader.rows(`select query from pg_stat_activity where query like '%umbra%' and pid <> pg_backend_pid()`),
  ).toEqual([]);
  // In plans stand names, and how many rows there may be: no value of them.
  const plan = await reader.rows(
    `explain (analyze, verbose, costs off) select * from safe.users where first_name <> ''`,
  );
  expect(JSON.stringify(plan)).not.toContain('umbra');
  const salt = (await db.pool.query(`select encode(inner_key, 'hex') as salt from sync.secret_salt`)).rows[0].salt;
  await reader.rows('set debug_print_plan = on; set debug_print_rewritten = on; set client_min_messages = log');
  await reader.rows('select * from safe.users');
  expect(reader.notices.length).toBeGreaterThan(0);
  expect(reader.notices.join()).not.toContain(salt);
});

/** Each tells all that it is shown, or fails on it. The planner would gladly run what costs nothing before what costs more. */
const leaks = `
  create function pg_temp.leak(anything text) returns boolean language plpgsql cost 0.0000001 as
    $$ begin raise notice 'leaked: %', anything; return true; end $$;
  create function pg_temp.leaked(one text, other text) returns boolean language plpgsql cost 0.0000001 as
    $$ begin raise notice 'leaked: %', one; return one = other; end $$;
  create operator pg_temp.=== (leftarg = text, rightarg = text, function = pg_temp.leaked, restrict = eqsel)`;

for (const pii of [false, true]) {
  test(`functions that tell what they are shown are shown nothing but what a reader ${pii ? 'of everything ' : ''}may see`, async () => {
    await using reader = await letReaderIn(db, { pii, accounts: ['acme'] });
    await reader.client.query(leaks);
    // An index on the account would hide what a filter lets through.
    await reader.client.query(
      'set enable_indexscan = off; set enable_bitmapscan = off; set enable_indexonlyscan = off',
    );
    const relations = await reader.rows<{ name: string; account: string | null }>(readable);
    for (const { name, account } of relations.filter(one => one.account !== null)) {
      await reader.rows(`select 1 from ${name} r where pg_temp.leak(to_jsonb(r)::text)`);
      await reader.rows(`select 1 from ${name} r where ${account} operator(pg_temp.===) 'x'`);
      await reader.rows(`select 1 from ${name} r, (values ('umbra')) v (a) where pg_temp.leaked(r.${account}, v.a)`);
      await reader.rows(
        `select max(case when pg_temp.leak(r.${account}) then 1 end) from ${name} r group by ${account} having pg_temp.leak(${account})`,
      );
      // A cast fails on what it is shown, and says on what.
      const said = await reader.refused(
        `select 1 from ${name} r where ${account}::int = 1 or ${account}::date > now()`,
      );
      expect([name, said ?? '']).toEqual([name, expect.not.stringContaining('umbra')]);
    }
    expect(reader.notices.filter(text => text.includes('acme')).length).toBeGreaterThan(50);
    expect(reader.notices.filter(text => text.includes('leaked: umbra') || text.includes('of umbra'))).toEqual([]);
    expect(reader.notices.filter(text => text.includes('umbra'))).toEqual([]);
  });

  test(`a reader ${pii ? 'of everything ' : ''}becomes nobody else: by no role, no path, no function of its own`, async () => {
    await using reader = await letReaderIn(db, { pii, accounts: ['acme'] });
    const group = pii ? 'shelfdesk_reader_pii' : 'shelfdesk_reader';
    const { rows: owner } = await db.pool.query('select current_user as name');
    for (const role of [
      owner[0].name,
      'shelfdesk_owner',
      'shelfdesk_writer',
      'pg_read_all_data',
      pii ? 'shelfdesk_reader' : 'shelfdesk_reader_pii',
    ]) {
      expect([role, await reader.refused(`set role ${role}`)]).toEqual([
        role,
        expect.stringMatching(/permission denied/),
      ]);
      expect([role, await reader.refused(`set session authorization ${role}`)]).toEqual([
        role,
        expect.stringContaining('permission denied'),
      ]);
    }
    // Since PostgreSQL 16 not even its own group; before that, the group sees nothing.
    if ((await reader.refused(`set role ${group}`)) === undefined) {
      expect(await reader.rows('select * from safe.users')).toEqual([]);
      await reader.rows('reset role');
    }
    expect(await reader.refused('set row_security = off; select * from books.volumes')).toMatch(
      /would be affected by row-level security/,
    );
    await reader.rows('reset row_security');
    // What stands in front of everything in the path is not what a view means: that was bound when it was made.
    await reader.client.query(`
      create temp table accounts as select 'umbra' as account_id;
      create temp table readers as select current_user::name as role_name, null::text[] as accounts;
      create temp table readable_accounts as select 'umbra' as account_id;
      create temp table users (id text);
      create function pg_temp.has_table_privilege(name, regclass, text) returns boolean language sql as 'select true';
      create function pg_temp.masked(text, text, bytea, bytea) returns text language sql as 'select $2';
      set search_path = pg_temp, safe, analytics, books, pg_catalog`);
    expect(await reader.rows('select distinct account_id from safe.users')).toEqual([{ account_id: 'acme' }]);
    expect(await reader.rows('select distinct account_id from books.volumes')).toEqual([{ account_id: 'acme' }]);
    expect(await reader.rows('select distinct account_id from analytics.ticket_metrics')).toEqual([
      { account_id: 'acme' },
    ]);
    expect(await reader.rows('select distinct account_id from analytics.completeness')).toEqual([
      { account_id: 'acme' },
    ]);
  });
}

test('every view that readers see filters by itself or has the rights of who asks, and no function runs as its owner unasked', async () => {
  await using db = await freshDatabase();
  const { rows: views } = await db.pool.query<{
    name: string;
    options: string[] | null;
    text: string;
    of_account: boolean;
  }>(`
    select c.oid::regclass::text as name, c.reloptions as options, pg_get_viewdef(c.oid) as text, exists (
      select from pg_attribute a where a.attrelid = c.oid and a.attname = 'account_id') as of_account
    from sync.wanted_rights() w join pg_class c on c.oid = w.relation
    where w.role in ('shelfdesk_reader', 'shelfdesk_reader_pii') and c.relkind = 'v' group by c.oid`);
  const asOwner = views.filter(({ options }) => !options?.includes('security_invoker=true'));
  expect(
    asOwner
      .filter(({ name }) => /^(helpdesk|books|sync)\./.test(name))
      .map(({ name }) => name)
      .toSorted(),
  ).toEqual([
    'helpdesk.messages',
    'helpdesk.ticket_history',
    'helpdesk.ticket_labels',
    'sync.mirror_accounts',
    'sync.readable_accounts',
  ]);
  expect(asOwner.filter(({ options }) => !options?.includes('security_barrier=true')).map(({ name }) => name)).toEqual(
    [],
  );
  expect(
    views.filter(({ name }) => name.startsWith('safe.')).every(({ text }) => text.includes('readable_accounts')),
  ).toBe(true);
  // Tables without an account tell of nobody.
  const { rows: tables } = await db.pool.query<{ name: string }>(`
    select distinct c.oid::regclass::text as name from sync.wanted_rights() w join pg_class c on c.oid = w.relation
    where w.role in ('shelfdesk_reader', 'shelfdesk_reader_pii') and c.relkind in ('r', 'p') and not c.relrowsecurity order by 1`);
  expect(tables.map(({ name }) => name)).toEqual([
    'analytics.calendar_holidays',
    'analytics.calendar_hours',
    'analytics.calendar_spans',
    'analytics.calendars',
    'analytics.metric_definitions',
    'sync.migrations',
    'sync.source_files',
    'sync.streams',
    'sync.view_sets',
  ]);
  // With an empty path pg_temp comes first for types, and everybody may make types there.
  const { rows: functions } = await db.pool.query<{ name: string; path: string }>(`
    select p.oid::regprocedure::text as name, (select c from unnest(p.proconfig) c where c like 'search_path=%') as path
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where p.prosecdef and n.nspname not like 'pg\\_%' and n.nspname <> 'information_schema' order by 1`);
  expect(functions.length).toBeGreaterThan(3);
  expect(functions.filter(({ path }) => path !== 'search_path=pg_catalog, pg_temp')).toEqual([]);
});

test('no function that runs with the rights of its owner takes a type, a table or a function that a reader has made', async () => {
  await using reader = await letReaderIn(db, { pii: true, accounts: ['acme'] });
  await reader.client.query(`
    create temp table readers as select current_user::name as role_name, null::text[] as accounts;
    create function pg_temp.tell(who text) returns boolean language plpgsql as $$
      begin if current_user <> session_user then raise notice 'runs as %', current_user; end if; return true; end $$`);
  for (const type of [
    'text',
    'name',
    'tsquery',
    'tsvector',
    'timestamptz',
    'timestamp',
    'interval',
    'regclass',
    'int4',
  ])
    await reader.client.query(
      `create domain pg_temp.${type} as pg_catalog.${type} check (pg_temp.tell(value::pg_catalog.text))`,
    );
  const definers = await reader.rows<{ call: string; kind: string }>(`
    select p.oid::regproc || '(' || (select string_agg('null::' || t::regtype, ', ') from unnest(p.proargtypes::oid[]) t) || ')' as call
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where p.prosecdef and n.nspname in ('helpdesk', 'analytics', 'safe', 'books', 'sync')`);
  expect(await reader.refused('select internal.stream_completeness()')).toMatch(/schema internal/);
  const calls = [
    `helpdesk.search_messages('from', 3)`,
    `helpdesk.similar_subjects('about acme')`,
    `helpdesk.similar_contacts('acme@mail.example')`,
    ...definers.flatMap(({ call }) => call ?? []),
  ];
  for (const call of calls) await reader.rows(`select * from ${call}`);
  expect(calls.length).toBeGreaterThan(5);
  expect((await reader.rows(`select * from helpdesk.search_messages('from', 3)`)).length).toBe(1);
  await reader.rows('select * from analytics.completeness');
  expect(reader.notices.filter(text => text.includes('runs as'))).toEqual([]);
});

test('what anybody has made in schema public runs neither as the worker nor as who migrates', async () => {
  await using db = await twoAccounts();
  const stranger = aName('stranger');
  await db.pool.query(`create role ${stranger} login password 'x'; grant create on schema public to ${stranger}`);
  const url = new URL(db.url);
  [url.username, url.password] = [stranger, 'x'];
  const theirs = await sessionOf(url.href);
  const worker = makePool(db.url);
  try {
    // Each is a nearer match for what our functions call it with than PostgreSQL's own.
    await theirs.client.query(`
      create function public.starts_with(name, text) returns boolean language plpgsql as
        $$ begin raise exception 'runs as %', current_user; end $$;
      create function public.planted(jsonb, text, jsonb) returns jsonb language plpgsql as
        $$ begin raise exception 'runs as %', current_user; end $$;
      create aggregate public.jsonb_object_agg(text, jsonb) (sfunc = public.planted, stype = jsonb)`);
    await db.pool.query('select sync.settle_roles()');
    expect(await migrate(db.url)).toEqual({ applied: [] });
    await worker.query(`begin; set local shelfdesk.merge = '{"seen_at": "2026-02-01", "as_of": "2026-02-01"}';
      update helpdesk.users set first_name = 'new' where account_id = 'umbra' and id = 'u1'; commit`);
    expect((await worker.query(`select from sync.changes where changes ? 'first_name'`)).rowCount).toBe(1);
  } finally {
    await worker.end();
    await theirs.client.end();
    await db.pool.query(`drop owned by ${stranger} cascade; drop role ${stranger}`);
  }
});

test('privileges that the database gives by default hand out neither keys nor who the readers are', async () => {
  await using db = await emptyDatabase();
  const analyst = aName('analyst');
  await db.pool.query(`create role ${analyst}; alter default privileges grant select on tables to ${analyst}, public`);
  try {
    await migrate(db.url);
    const { rows } = await db.pool.query<{ name: string; public: boolean }>(`
      select c.oid::regclass::text as name from pg_class c
      where c.relnamespace = 'sync'::regnamespace and has_table_privilege('${analyst}', c.oid, 'select')`);
    const names = rows.map(({ name }) => name);
    expect(names).toContain('sync.accounts');
    expect(names.filter(name => /secret|sync\.readers/.test(name))).toEqual([]);
    const { rows: kept } = await db.pool.query(
      `select has_table_privilege('shelfdesk_writer', 'sync.secret_erasure', 'select') as writer`,
    );
    expect(kept).toEqual([{ writer: true }]);
  } finally {
    await db.pool.query(`drop owned by ${analyst}; drop role ${analyst}`);
  }
});

test('of two warehouses in one server a reader of the one sees nothing in the other, nor can it be revoked there', async () => {
  await using db = await twoAccounts();
  await using other = await twoAccounts();
  await using reader = await letReaderIn(db);
  const url = new URL(reader.url);
  url.pathname = new URL(other.url).pathname;
  const there = await sessionOf(url.href);
  try {
    expect(await there.rows('select * from safe.users')).toEqual([]);
    expect(await there.rows('select * from analytics.ticket_metrics')).toEqual([]);
    expect(await there.rows('select * from books.volumes')).toEqual([]);
    expect(await there.rows('show search_path')).toEqual([{ search_path: '"$user", public' }]);
  } finally {
    await there.client.end();
  }
  const { revoke } = await import('../../../src/privacy/readers.ts');
  await expect(revoke(other.pool, reader.name, 'me', new Date())).rejects.toThrow(
    `this warehouse has no reader ${reader.name}`,
  );
  expect((await reader.rows('select distinct account_id from safe.users order by 1')).length).toBe(2);
});

test('whoever could read before reads on as before: every account, also in views of sync that were granted alone, and in own views', async () => {
  await using db = await twoAccounts();
  const [bi, lone] = [aName('bi'), aName('lone')];
  await db.pool.query(`
    create role ${bi} login password 'x'; create role ${lone} login password 'x';
    grant usage on schema helpdesk, sync to ${bi}, ${lone}; grant select on all tables in schema helpdesk to ${bi};
    create schema own authorization ${bi};
    -- As it was before there were readers.
    alter view sync.runs reset (security_invoker); grant select on sync.runs to ${lone};
    select sync.settle_roles()`);
  const as = async (name: string, sql: string) => {
    const url = new URL(db.url);
    [url.username, url.password] = [name, 'x'];
    const session = await sessionOf(url.href);
    return session.rows(sql).finally(() => session.client.end());
  };
  try {
    await as(bi, 'create view own.people as select account_id, first_name from helpdesk.users');
    expect((await as(bi, 'select * from own.people')).length).toBe(4);
    for (const of of ['messages', 'ticket_labels', 'ticket_history'])
      expect([of, (await as(bi, `select * from helpdesk.${of}`)).length > 0]).toEqual([of, true]);
    expect((await as(lone, 'select * from sync.runs')).length).toBe(2);
  } finally {
    await db.pool.query(`drop schema own cascade; drop owned by ${bi}, ${lone}; drop role ${bi}, ${lone}`);
  }
});

test('settling the roles again changes nothing, and covers what has come since; nothing of the salt changes', async () => {
  await using db = await freshDatabase();
  const state = async () =>
    (
      await db.pool.query(`
      select (select md5(string_agg(c.oid || c.xmin::text, ',' order by c.oid)) from pg_class c) as relations,
        (select md5(string_agg(p.oid || p.xmin::text, ',' order by p.oid)) from pg_policy p) as policies,
        (select md5(string_agg(p.oid || p.xmin::text, ',' order by p.oid)) from pg_proc p) as functions,
        (select xmin::text from sync.secret_salt) as salt`)
    ).rows;
  // The queue has made its tables since.
  await db.pool.query('select sync.settle_roles()');
  const before = await state();
  expect((await db.pool.query('select sync.settle_roles() as missing')).rows).toEqual([{ missing: [] }]);
  expect(await state()).toEqual(before);

  await db.pool.query(`
    create table internal.later (account_id text); create view analytics.later with (security_barrier) as select 1 as one;
    create table helpdesk.later (account_id text, id text); create table sync.secret_later (a int);
    create view sync.later as select account_id from sync.accounts;
    select sync.settle_roles()`);
  const { rows } = await db.pool.query(`
    select r, c, has_table_privilege(r, c, 'select') as reads, has_table_privilege(r, c, 'insert') as writes
    from unnest('{shelfdesk_reader,shelfdesk_reader_pii,shelfdesk_writer}'::text[]) r,
      unnest('{analytics.later,internal.later,helpdesk.later,sync.later,sync.secret_later,sync.secret_salt}'::text[]) c order by 1, 2`);
  expect(rows.filter(({ reads }) => reads).map(({ r, c, writes }) => `${r} ${c}${writes ? ' writes' : ''}`)).toEqual([
    'shelfdesk_reader analytics.later',
    'shelfdesk_reader_pii analytics.later',
    'shelfdesk_reader_pii helpdesk.later',
    'shelfdesk_reader_pii sync.later',
    'shelfdesk_writer analytics.later',
    'shelfdesk_writer helpdesk.later writes',
    'shelfdesk_writer internal.later writes',
    'shelfdesk_writer sync.later',
    'shelfdesk_writer sync.secret_later writes',
  ]);
  const policies = `select polname from pg_policy where polrelid = 'helpdesk.later'::regclass order by 1`;
  expect((await db.pool.query(policies)).rows).toEqual([{ polname: 'as_before' }, { polname: 'readers' }]);
});

test('an owner without the right to create roles grants rights to the existing roles, and names the missing ones', async () => {
  await using db = await freshDatabase();
  const owner = aName('owner');
  const client = await db.pool.connect();
  try {
    // In a transaction that comes to nothing: for everybody else the roles stay.
    await client.query(`begin; create role ${owner}; select sync.hand_over('${owner}');
      alter role shelfdesk_reader rename to was_reader; alter role shelfdesk_reader_pii rename to was_reader_pii;
      create role shelfdesk_reader_pii login;
      create table helpdesk.later (account_id text); alter table helpdesk.later owner to ${owner};
      set local role ${owner}`);
    const { rows } = await client.query('select sync.settle_roles() as missing');
    expect(rows[0].missing.sort()).toEqual([
      'shelfdesk_reader_pii can log in, so it is not the role of that name that Shelfdesk means',
      `there is no role shelfdesk_reader, and ${owner} may not make one`,
    ]);
    const rights = `select has_table_privilege('shelfdesk_writer', 'helpdesk.later', 'insert') as writer,
      has_table_privilege('shelfdesk_reader_pii', 'helpdesk.later', 'select') as stranger,
      (select relrowsecurity from pg_class where oid = 'helpdesk.later'::regclass) as filtered`;
    expect((await client.query(rights)).rows).toEqual([{ writer: true, stranger: false, filtered: false }]);
  } finally {
    await client.query('rollback');
    client.release();
  }
});

test('who was let into shelfdesk_owner hands over what it owns, and any other one of them may then change the tables', async () => {
  await using db = await freshDatabase();
  const [first, second] = [aName('first'), aName('second')];
  const client = await db.pool.connect();
  try {
    await client.query(`begin; create role ${first}; create role ${second}; select sync.hand_over('${first}');
      set local role ${first}; select sync.settle_roles()`);
    const owner = `select distinct pg_get_userbyid(relowner) as name from pg_class
      where relnamespace in ('helpdesk'::regnamespace, 'sync'::regnamespace, 'safe'::regnamespace, 'bullmq'::regnamespace)`;
    expect((await client.query(owner)).rows).toEqual([{ name: first }]);
    const mine = (await client.query<{ on: string }>(`select current_database() as on`)).rows[0]!.on;
    await client.query(`reset role; grant shelfdesk_owner to ${first}, ${second}; grant create on database ${mine} to shelfdesk_owner;
      set local role ${first}; select sync.settle_roles()`);
    expect((await client.query(owner)).rows).toEqual([{ name: 'shelfdesk_owner' }]);
    await client.query(`reset role; set local role ${second}; alter table helpdesk.users add column more text;
      create or replace view sync.runs as ${(await client.query(`select pg_get_viewdef('sync.runs'::regclass) as sql`)).rows[0].sql}`);
  } finally {
    await client.query('rollback');
    client.release();
  }
});

test('a reader finds the tables of another source by their names, if it may see personal data', async () => {
  await using db = await freshDatabase();
  await makeCrm(db.pool);
  await db.pool.query('create view crm.everything as select * from crm.contacts');
  expect(await unfilteredViews(db.pool)).toContain('crm.everything');
  await using all = await letReaderIn(db, { pii: true });
  expect(await all.rows('show search_path')).toEqual([{ search_path: 'helpdesk, books, crm, analytics, sync' }]);
  expect(await all.rows('select * from addresses')).toEqual([]);
  await using masked = await letReaderIn(db);
  expect(await masked.rows('show search_path')).toEqual([{ search_path: 'safe, analytics, books' }]);
  expect(await masked.refused('select * from crm.addresses')).toMatch(/permission denied/);
  await db.pool.query(`insert into sync.accounts (account_id) values ('acme');
    insert into crm.contacts select 'acme', 'p1', 'Ada', 'ada@x.example', '{+49 30 5552345}', 'calm', 'ada', 'won', 'f1', now(), now(), now(), now(), null, '{}'`);
  const [row] = await masked.rows('select * from crm_contacts');
  const hash = expect.stringMatching(/^[0-9a-f]{16,}$/);
  expect(row).toMatchObject({ id: 'p1', name: hash, email: hash, phones: [hash], note: hash, stage: 'won' });
  expect(row).not.toHaveProperty('_payload');
  expect(await unfilteredViews(db.pool)).not.toContain('crm.everything');
});
