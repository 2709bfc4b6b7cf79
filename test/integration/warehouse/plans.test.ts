/**
 * The plan trap: a statement that is prepared on an empty, never analysed table keeps its plan, and a plan that reads the
 * whole table for each page costs nothing then, and everything later. Nor does the planner know that one account is the
 * whole table. So: one connection, statements prepared on nothing, no autovacuum, a table that grows. What a page reads,
 * by whatever index, must not grow with it.
 */
import type pg from 'pg';
import { expect, test } from 'vitest';
import { systemClock } from '../../../src/clock.ts';
import { makeBudget } from '../../../src/engine/budget/budget.ts';
import type { Batch } from '../../../src/engine/commit/page.ts';
import { readMostRejected } from '../../../src/engine/commit/rejects.ts';
import { writeBatch } from '../../../src/engine/commit/rows.ts';
import { keepProof } from '../../../src/engine/commit/sums.ts';
import { readPosition } from '../../../src/engine/coverage/coverage.ts';
import { readPages } from '../../../src/engine/coverage/pages.ts';
import { isSettled } from '../../../src/engine/coverage/ties.ts';
import {
  type Client,
  keepPlansIn,
  makeLedgerPool,
  makePool,
  transaction,
  withKeptPlans,
  withPlansByKey,
} from '../../../src/engine/database/pool.ts';
import { forgetKnown } from '../../../src/engine/deletions/candidates.ts';
import { claimMembers, claimSame } from '../../../src/engine/details/claim-members.ts';
import { storeNames } from '../../../src/engine/details/names.ts';
import { Pending } from '../../../src/engine/details/pending.ts';
import { type Claim, finish } from '../../../src/engine/runs/claims.ts';
import { keepRequestLog } from '../../../src/engine/runs/request-log.ts';
import { isNext } from '../../../src/engine/runs/runs.ts';
import { claimSlot } from '../../../src/engine/runs/slots.ts';
import { auditedOf } from '../../../src/engine/verify/audit/audited.ts';
import { isAuditDue } from '../../../src/engine/verify/findings.ts';
import { customers } from '../../../src/sources/helpdesk/customers.ts';
import { messages } from '../../../src/sources/helpdesk/messages/messages.ts';
import { tickets } from '../../../src/sources/helpdesk/tickets.ts';
import { users } from '../../../src/sources/helpdesk/users.ts';
import { streams } from '../../../src/sources/index.ts';
import { long } from '../../support/long.ts';
import { freshDatabase } from '../../support/postgres.ts';
import { at, iso, message, second, take, ticket } from '../../support/scripted.ts';

const claim: Claim = { account: 'default', stream: 'helpdesk.tickets', run: 0, token: 0, kind: 'sync', again: false };
const perPage = 100;

/** A database without autovacuum, and one connection to it: every prepared statement is planned on empty tables. */
async function untouched(work: (pool: pg.Pool, others: pg.Pool, url: string) => Promise<void>): Promise<void> {
  await using db = await freshDatabase();
  await db.pool.query(`do $$ declare t regclass; begin
    for t in select c.oid from pg_class c where c.relkind = 'r' and c.relnamespace in ('helpdesk'::regnamespace, 'sync'::regnamespace, 'analytics'::regnamespace, 'internal'::regnamespace)
    loop execute format('alter table %s set (autovacuum_enabled = off)', t); end loop; end $$`);
  // So that metrics are kept.
  await db.pool.query(`insert into sync.accounts (account_id) values ('default')`);
  const pool = makePool(db.url);
  pool.options.max = 1;
  try {
    await work(pool, db.pool, db.url);
    const { rows } = await pool.query(
      `select relname from pg_stat_user_tables where last_analyze is not null or last_autoanalyze is not null
         or last_vacuum is not null or last_autovacuum is not null`,
    );
    expect(rows).toEqual([]);
  } finally {
    await pool.end();
  }
}

/** Rows that sequential scans have read, and entries that indexes have given, of each table of the mirror. */
async function reads(pool: pg.Pool): Promise<Map<string, { seq: number; index: number }>> {
  await pool.query('select pg_stat_force_next_flush()');
  const { rows } = await pool.query(
    `select t.relname, t.seq_tup_read as seq,
       coalesce((select sum(i.idx_tup_read) from pg_stat_user_indexes i where i.relid = t.relid), 0)::float8 as index
     from pg_stat_user_tables t where t.schemaname in ('helpdesk', 'sync', 'analytics', 'internal')`,
  );
  return new Map(rows.map(({ relname, seq, index }) => [relname, { seq, index }]));
}

/** What `work` reads: by sequential scans nothing at all, by indexes at most so many entries in all. */
async function expectReads(pool: pg.Pool, mostEntries: number, work: () => Promise<unknown>): Promise<void> {
  const before = await reads(pool);
  await work();
  const after = await reads(pool);
  const grown = [...after].map(([table, { seq, index }]) => ({
    table,
    seq: seq - before.get(table)!.seq,
    index: index - before.get(table)!.index,
  }));
  expect(grown.filter(({ seq }) => seq > 0)).toEqual([]);
  expect(grown.filter(({ index }) => index > mostEntries)).toEqual([]);
}

/**
 * Rows of other tickets in every table that triggers and functions of a merge read, which no trigger hears of: a plan that reads one
 * of these tables for each page is found, whichever it is. By another session, because the setting takes the plans of its own.
 */
async function amongOthers(pool: pg.Pool): Promise<void> {
  const many = 20_000;
  const rowsOf = (table: string, n: number, columns: string, values: string) =>
    `insert into ${table} (account_id, ${columns}) select 'default', ${values} from generate_series(1, ${n}) i`;
  const times = (n: number) => Array(n).fill(`'2026-01-01'::timestamptz`).join(', ');
  await pool.query(
    [
      'begin; set local session_replication_role = replica',
      rowsOf(
        'internal.messages',
        300_000,
        'id, ticket_id, position, _payload, _first_seen_at, _synced_at, _observed_at',
        `'o' || i, 'o' || i / 5, i % 5, '{}', ${times(3)}`,
      ),
      rowsOf('internal.ticket_history', many, 'ticket_id, valid_from', `'o' || i, ${times(1)}`),
      rowsOf('internal.stored_ticket_metrics', many, 'ticket_id', `'o' || i`),
      rowsOf(
        'sync.changes',
        many,
        'source, table_name, record_id, changes, seen_at, as_of',
        `'helpdesk', 'tickets', 'o' || i, '{}', ${times(2)}`,
      ),
      rowsOf(
        'sync.rejects',
        many,
        'source, stream, key, reason, replayable, first_seen_at, last_seen_at, cleared_at',
        `'helpdesk', 'tickets', 'o' || i, 'why', false, ${times(3)}`,
      ),
      'commit',
    ].join('; '),
  );
}

const pageText = (records: readonly unknown[]) => JSON.stringify(records);
function batch(stream: typeof tickets | typeof customers | typeof users, ids: readonly string[], text: string): Batch {
  return {
    merge: stream.merge as Batch['merge'],
    filter: stream.personal,
    records: ids.map((id, place) => ({ place, id })),
    text: () => text,
    record: () => text,
    parameters: () => (stream === customers ? [at(0), at(1)] : []),
  };
}
const write = (pool: pg.Pool, one: Batch, n: number) =>
  transaction(
    pool,
    client => writeBatch({ client, claim, at: { nowMs: second(n), asOfMs: second(n) }, care: 'as it came' }, one),
    withKeptPlans,
  );

/**
 * Makes a table ten times as large, by copies of its rows: merging them all takes ten times as long, and says no more.
 * What a row has of its own, in these columns, counts on: t7 of 100 becomes t107, t207 …
 */
async function tenfold(pool: pg.Pool, table: string, rows: number, columns: readonly string[]): Promise<void> {
  const { rows: all } = await pool.query<{ name: string }>(
    `select attname as name from pg_attribute
     where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = ''`,
    [table],
  );
  const names = all.map(({ name }) => name);
  const copied = names.map(name =>
    columns.includes(name)
      ? `regexp_replace(o.${name}, '\\d+', (substring(o.${name} from '\\d+')::int + k * ${rows})::text)`
      : `o.${name}`,
  );
  await pool.query(
    `insert into ${table} (${names.join(', ')}) select ${copied.join(', ')} from ${table} o, generate_series(1, 9) k`,
  );
}

const idsOf = (page: number) => Array.from({ length: perPage }, (_, i) => `t${page * perPage + i}`);
const ticketPage = (page: number, more: (i: number) => Record<string, unknown>) => {
  const ids = idsOf(page);
  const records = ids.map((id, i) =>
    ticket(id, { updated_at: iso(page), label_ids: [`l${i % 7}`, `l${page % 5}`], ...more(i) }),
  );
  return batch(tickets, ids, pageText(records));
};

test('tickets: a page into 30,000 rows reads what a page into an empty table reads', long, () =>
  untouched(async (pool, others) => {
    const pages = 300; // 3,000 pages were tried as well: the same numbers.
    for (let page = 0; page < pages / 10; page++)
      await write(
        pool,
        ticketPage(page, () => ({})),
        page,
      );
    await tenfold(pool, 'helpdesk.tickets', (pages * perPage) / 10, ['id']);
    expect((await pool.query('select count(*) as n from helpdesk.tickets')).rows).toEqual([{ n: pages * perPage }]);
    await amongOthers(others);

    // Each row by its key: once for the pre-filter, once for the upsert, for its inbox, and for its history
    // and metrics, which are stored at its first change.
    const most = 30 * perPage;
    await expectReads(pool, most, () =>
      write(
        pool,
        ticketPage(pages, () => ({})),
        pages,
      ),
    );
    await expectReads(pool, most, () =>
      write(
        pool,
        ticketPage(50, () => ({})),
        pages + 1,
      ),
    );
    await expectReads(pool, most, () =>
      write(
        pool,
        ticketPage(50, () => ({ updated_at: iso(5000), label_ids: ['l9'], inbox_id: 'i2' })),
        pages + 2,
      ),
    );
    await expectReads(pool, most, () =>
      write(
        pool,
        ticketPage(51, () => ({ updated_at: iso(5001), label_ids: [] })),
        pages + 3,
      ),
    );
  }),
);

test('waiting tickets are found by their index, however many wait or do not, and whatever fails', long, () =>
  untouched(async pool => {
    const when = { ripeMs: second(1e6), futureMs: second(2e6), startedMs: second(0), namesMs: 0, nowMs: second(1e6) };
    const pending = new Pending(pool, claim.account, messages);
    const next = (limit: number) => pending.next(when, limit);
    const same = (c: Client, ids: readonly number[]) => {
      const all = ids.map(i => ({ id: `t${i}`, updatedMs: second(i), asOfMs: second(1e6), text: '{}' }));
      return claimSame(c, claim, messages, all, { nowMs: second(1e6), asOfMs: 0 });
    };
    // Prepared on nothing, and often enough for a generic plan.
    for (let i = 0; i < 12; i++) {
      await next(100);
      await transaction(pool, c => same(c, [0]), withKeptPlans);
      await pending.first(when);
      await transaction(
        pool,
        c => claimMembers(c, claim, messages, { id: 'none', updatedMs: 0, asOfMs: 0 }),
        withKeptPlans,
      );
    }
    await pool.query(
      `insert into helpdesk.tickets (account_id, id, updated_at, _messages_as_of, label_ids, inbox_id, _first_seen_at, _synced_at, _observed_at, _payload)
      select 'default', 't' || i, $1::timestamptz + make_interval(secs => i), case when i > 5000 then $2::timestamptz end, '{l1}', 'i1', $1, $1, $1, '{}'
      from generate_series(1, 50000) i`,
      [at(0), at(2e6)],
    );
    await pool.query(
      `insert into sync.rejects (account_id, source, stream, key, ask_id, reason, replayable, first_seen_at, last_seen_at, next_try_at)
      select 'default', 'helpdesk', 'messages', 't' || i, 't' || i, 'why', false, $1, $1, $1 from generate_series(4001, 5000) i`,
      [at(10)],
    );

    // 1,000 of those that wait are failing and are passed over; 45,000 newer ones do not wait.
    await expectReads(pool, 3000, async () => {
      expect((await next(1)).map(({ id }) => id)).toEqual(['t4000']);
    });
    await expectReads(pool, 100, async () => {
      expect(await pending.first({ ...when, futureMs: second(9) })).toBe(second(1));
    });
    await expectReads(pool, 100, () =>
      transaction(
        pool,
        async c => {
          expect(
            await claimMembers(c, claim, messages, { id: 't7', updatedMs: second(7), asOfMs: second(9) }),
          ).toBeTruthy();
        },
        withKeptPlans,
      ),
    );
    await expectReads(pool, 300, () =>
      transaction(
        pool,
        async c => {
          expect((await same(c, [21, 23, 22, 6001])).size).toBe(3);
        },
        withKeptPlans,
      ),
    );
  }),
);

test('messages, attachments and names: a ticket merged into 300,000 messages reads only rows of the ticket', long, () =>
  untouched(async (pool, others) => {
    const detail = (t: number, keep: (i: number) => boolean, body: string, n = 1) => {
      const all = Array.from({ length: 10 }, (_, i) => i).filter(keep);
      const text = JSON.stringify({
        ...ticket(`t${t}`),
        messages: all.map(i =>
          message(`m${t}-${i}`, { body, attachments: [{ id: `a${t}-${i}`, name: 'a', size: 1, type: 'x' }] }),
        ),
        labels: [{ id: `l${t}`, name: 'n' }],
      });
      const one: Batch = {
        merge: messages.merge,
        filter: messages.personal,
        records: all.map((i, place) => ({ place, id: `m${t}-${i}` })),
        text: () => `[${text}]`,
        record: () => text,
        parameters: places => [places.map(() => body), places.map(place => place + 1), places.map(() => at(n))],
        parents: [`t${t}`],
      };
      return { one, text };
    };
    const everything = () => true;
    for (let t = 0; t < 100; t++) await write(pool, detail(t, everything, 'body').one, 1);
    await tenfold(pool, 'internal.messages', 100, ['id', 'ticket_id']);
    await tenfold(pool, 'helpdesk.attachments', 100, ['id', 'message_id', 'ticket_id']);
    expect((await pool.query('select count(*) as n from helpdesk.messages')).rows).toEqual([{ n: 10_000 }]);
    await amongOthers(others);

    await expectReads(pool, 200, () => write(pool, detail(1001, everything, 'body', 2).one, 2));
    await expectReads(pool, 200, () => write(pool, detail(50, everything, 'body', 3).one, 3));
    await expectReads(pool, 200, async () => {
      const { counts } = await write(pool, detail(50, i => i > 4, 'changed', 4).one, 4);
      expect(counts).toMatchObject({ updated: 5, deleted: 10 });
    });
    const named = {
      text: detail(50, everything, '').text,
      asked: ['l50'],
      at: { nowMs: second(5), asOfMs: second(5) },
    };
    await expectReads(pool, 200, () =>
      transaction(pool, c => storeNames(c, 'default', messages.names[0]!, named), withKeptPlans),
    );
  }),
);

test('customers, contacts and users: a page into 15,000 rows reads what a page has', long, () =>
  untouched(async pool => {
    const page = (n: number, values: number) => {
      const ids = idsOf(n);
      const records = ids.map(id => ({
        id,
        first_name: 'A',
        contacts: Array.from({ length: values }, (_, k) => ({ id: `${id}-${k}`, type: 'email', value: `${id}-${k}` })),
      }));
      return batch(customers, ids, pageText(records));
    };
    const team = (n: number, first_name: string) =>
      batch(users, idsOf(n), pageText(idsOf(n).map(id => ({ id, first_name }))));
    for (let n = 0; n < 15; n++) {
      await write(pool, page(n, 2), 1);
      await write(pool, team(n, 'A'), 1);
    }
    await tenfold(pool, 'helpdesk.customers', 1500, ['id']);
    await tenfold(pool, 'helpdesk.contacts', 1500, ['id', 'customer_id']);
    await tenfold(pool, 'helpdesk.users', 1500, ['id']);
    const most = 20 * perPage;
    await expectReads(pool, most, () => write(pool, page(150, 2), 2));
    await expectReads(pool, most, () => write(pool, page(7, 2), 3));
    await expectReads(pool, most, async () => {
      const { counts } = await write(pool, page(7, 1), 4);
      expect(counts).toMatchObject({ updated: perPage, deleted: perPage });
    });
    await expectReads(pool, most, () => write(pool, team(7, 'B'), 4));
  }),
);

test('of thousands that a sweep suspects, and that were shown since, each is looked up once', async () => {
  await untouched(async pool => {
    const many = 2000;
    await pool.query(
      `insert into helpdesk.tickets (account_id, id, updated_at, _first_seen_at, _synced_at, _observed_at, _payload)
       select 'default', 't' || n, $1, $1, $1, $1, '{}' from generate_series(1, ${many}) n`,
      [at(0)],
    );
    await pool.query(
      `insert into sync.deletion_candidates (account_id, source, stream, record_id, missing_since, alive_at)
       select 'default', 'helpdesk', 'tickets', 't' || n, case when n % 2 = 0 then $1::timestamptz else $2 end, $2 from generate_series(1, ${many}) n`,
      [at(100), at(-100)],
    );
    const all = async () => [...(await reads(pool)).values()].reduce((sum, { seq, index }) => sum + seq + index, 0);
    const before = await all();
    await forgetKnown(pool, claim);
    expect((await all()) - before).toBeLessThan(10 * many);
    const { rows } = await pool.query('select count(*)::int as left from sync.deletion_candidates');
    expect(rows).toEqual([{ left: many / 2 }]);
  });
});

test('the budget finds its rows by their keys, with plans that were made while its tables had one row', async () => {
  await using db = await freshDatabase();
  const pool = makeLedgerPool(db.url);
  pool.options.max = 1;
  const limits = { credits: 1e6, periodMs: 60_000, requestsPerSecond: 1e6, reserve: 0 };
  const own = { pg: pool, clock: systemClock, account: 'default', source: 'helpdesk', random: Math.random };
  const open = () => makeBudget({ ...own, limits, timeoutMs: 30_000 });
  const headers = { limit: limits.credits, used: 2, remaining: limits.credits - 2, resetSeconds: 30 };
  const spend = async (budget = open()) => budget.settle(await budget.acquire(2, 'fresh'), { headers, refused: false });
  try {
    await spend();
    await db.pool.query('vacuum analyze sync.budget, sync.credit_minutes');
    await spend();
    for (const [table, columns] of Object.entries({
      'sync.budget': 'source, state',
      'sync.credit_minutes':
        'source, minute, credit_limit, interactive, fresh, backfill, sweep, others, waited_ms, refused, took_ms, requests',
    }))
      await pool.query(
        `insert into ${table} (account_id, ${columns}) select 'account ' || n, ${columns} from ${table}, generate_series(1, 3000) n`,
      );
    await expectReads(pool, 40, async () => {
      for (let n = 0; n < 3; n++) await spend();
    });
  } finally {
    await pool.end();
  }
});

/** A month of runs, each of which read the stream, with what they left to settle. */
async function amongRuns(pool: pg.Pool): Promise<void> {
  const many = 40_000;
  const values = `select 'default', 'helpdesk', 'tickets', 'o' || i, $1::timestamptz from generate_series(1, ${many}) i`;
  const statements = [
    `insert into sync.stored_runs (account_id, kind, state, started_at, finished_at)
     select 'default', 'hydrate', 'completed', $1, $1 from generate_series(1, ${many})`,
    `insert into sync.stored_run_streams (run_id, account_id, source, stream, state, finished_at, inserted)
     select id, account_id, 'helpdesk', 'tickets', 'completed', $1, 1 from sync.stored_runs where kind = 'hydrate'`,
    `insert into sync.schedule_slots (account_id, schedule, slot, claimed_at, claimed_by)
     select 'default', 'fresh', $1::timestamptz - i * interval '1 minute', $1, 0 from generate_series(1, ${many}) i`,
    `insert into sync.request_logs (run_id, stream_key, account_id, written_at, requests)
     select id, 'helpdesk.tickets', account_id, $1, '[]' from sync.stored_runs where kind = 'hydrate'`,
    `insert into sync.rejects (account_id, source, stream, key, first_seen_at, last_seen_at, cleared_at, reason, replayable, ask_id)
     select v.*, $1, $1, 'why', false, 'o' from (${values}) v`,
    `insert into sync.coverage (account_id, source, stream, list) select 'o' || i, 'helpdesk', 'tickets', 'default'
     from generate_series(1, ${many}) i where $1::timestamptz is not null`,
  ];
  for (const statement of statements) await pool.query(statement, [at(0)]);
}

test('what each run needs is found by key, with plans that were made before the first one', long, async () => {
  await untouched(async (pool, others, url) => {
    const audit = { perHour: 50 };
    const { isThere } = auditedOf({ streams, sweep: { ageMs: 0, mostDeleted: 1 } }, { name: 'helpdesk', audit })!;
    const ledger = makeLedgerPool(url);
    ledger.options.max = 1;
    keepPlansIn(ledger, pool);
    await pool.query(
      `insert into sync.coverage (account_id, source, stream, list, lookback) values ('default', 'helpdesk', 'tickets', 'default', '0')`,
    );
    let n = 0;
    const read = async () => {
      const plan = { schedule: 'fresh', kind: 'fresh', streams: [claim.stream], unless: ['fresh'] } as const;
      const claimed = await claimSlot(pool, 'default', plan, { slot: at(++n), opener: 0, now: at(n) });
      const { run } = claimed as { run: number };
      const begin = `begin; ${withPlansByKey}`;
      expect(await transaction(pool, client => isNext(client, 'default', claim.stream), begin)).toBe(true);
      expect(await isAuditDue(pool, { account: 'default', source: 'helpdesk', isThere }, at(0), at(n))).toBe(false);
      const taken = await take(pool, { ...claim, run }, at(n));
      await readMostRejected(pool, taken);
      await readPosition(pool, taken, 'default');
      await readPages(pool, taken, 'default');
      await isSettled(pool, taken);
      const range = { from: at(n).getTime(), to: at(n + 1).getTime() };
      await keepProof(pool, taken, 'default', range, { credits: 1, expected: undefined });
      const log = keepRequestLog({ pg: pool, clock: systemClock, account: 'default' }, taken);
      log.heard({ request: 'GET /tickets', status: 200, ms: 1, credits: 1, says: null } as Parameters<
        typeof log.heard
      >[0]);
      await log.end();
      await finish(pool, taken, at(n), { credits: 0 });
      await isAuditDue(pool, { account: 'default', source: 'helpdesk', isThere }, at(0), at(n));
    };
    try {
      await read();
      await amongRuns(others);
      await read();
      await expectReads(pool, 40, read);
    } finally {
      await ledger.end();
    }
  });
});
