/** Service targets: which one counts for a ticket, and how the ticket keeps it. */
import type pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readQueries } from '../../../src/analytics/questions.ts';
import { systemClock } from '../../../src/clock.ts';
import { makeTargets } from '../../../src/ops/page/targets.ts';
import { freshDatabase, type TestDatabase } from '../../support/postgres.ts';
import { letReaderIn } from '../../support/readers.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await freshDatabase();
  await db.pool.query(`
    insert into sync.accounts (account_id, mirrored_since) values ('acme', '2026-01-01'), ('umbra', '2026-01-01');
    insert into analytics.calendars (name, time_zone) values ('office', 'UTC');
    insert into analytics.calendar_hours (calendar, weekday, opens, closes) select 'office', day, '09:00', '17:00' from generate_series(1, 5) day;
    insert into internal.stored_calendar_assignments (account_id, inbox_id, calendar) values ('acme', null, 'office')`);
});
afterAll(() => db?.drop());

interface Made {
  readonly account?: string;
  readonly inbox?: string;
  readonly labels?: string[];
  readonly created: string | null;
  /** Times of messages: of the customer, of the team. */
  readonly said?: readonly (readonly ['in' | 'out', string | null])[];
  readonly complete?: boolean;
  readonly spam?: boolean;
  /** States after the first: seen at one time, by the values that were last seen at another. */
  readonly states?: readonly { readonly state: string; readonly from: string; readonly after: string | null }[];
}

const own = '_first_seen_at, _synced_at, _observed_at, _payload';

async function make(pool: pg.Pool, id: string, made: Made): Promise<void> {
  const {
    account = 'acme',
    inbox = null,
    labels = [],
    created,
    said = [],
    complete = true,
    spam = false,
    states = [],
  } = made;
  const last = states.at(-1);
  const updated = last?.from ?? created ?? '2026-06-01T09:00:00Z';
  const client = await pool.connect();
  try {
    await client.query(
      `insert into helpdesk.tickets (account_id, id, inbox_id, label_ids, state, spam, created_at, updated_at, _messages_as_of, _true_by, ${own})
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $8, $8, $8, $8, '{}')`,
      [account, id, inbox, labels, last?.state ?? 'open', spam, created, updated, complete ? updated : null],
    );
    for (const [i, [direction, at]] of said.entries())
      await client.query(
        `insert into internal.messages (account_id, id, ticket_id, position, type, direction, user_id, created_at, ${own})
         values ($1, $2 || '-' || $3::int, $2, $3, 'reply', $4, $5, $6, $7, $7, $7, '{}')`,
        [account, id, i + 1, direction, direction === 'out' ? 'u1' : null, at, updated],
      );
    if (states.length > 0) {
      await client.query('delete from internal.ticket_history where account_id = $1 and ticket_id = $2', [account, id]);
      const all = [{ state: 'open', from: created ?? updated, after: null }, ...states];
      for (const [i, { state, from, after }] of all.entries())
        await client.query(
          `insert into internal.ticket_history (account_id, ticket_id, state, label_ids, spam, trash, valid_from, valid_to, change_after, is_first)
           values ($1, $2, $3, '{}', false, false, $4, $5, coalesce($6, $4::timestamptz - interval '1 second'), $7)`,
          [account, id, state, from, all[i + 1]?.from ?? null, after, i === 0],
        );
    }
  } finally {
    client.release();
  }
}

/** Tickets are complete through this time. 2026-06-01 is a Monday. */
async function through(at: string): Promise<void> {
  await db.pool.query('delete from sync.coverage');
  await db.pool.query(
    `insert into sync.coverage (account_id, source, stream, list, covered)
     select account_id, 'helpdesk', 'tickets', 'default', tstzmultirange(tstzrange('1970-01-01', $1)) from sync.accounts`,
    [at],
  );
}
const target = (
  metric: string,
  hours: number,
  { account = 'acme', inbox, label }: { account?: string; inbox?: string; label?: string } = {},
) =>
  db.pool.query(
    'insert into internal.stored_service_targets (account_id, inbox_id, label_id, metric, target_seconds) values ($1, $2, $3, $4, $5)',
    [account, inbox ?? null, label ?? null, metric, hours * 3600],
  );
const outcomes = async (prefix: string, more = '') =>
  (
    await db.pool.query(
      `select ticket_id as id, outcome, seconds / 3600 as hours${more} from analytics.ticket_targets where ticket_id like $1 order by 1, metric`,
      [`${prefix}%`],
    )
  ).rows;
const clear = () => db.pool.query('delete from internal.stored_service_targets');

test('a first response: met, missed, and while it runs', async () => {
  await clear();
  await target('first_response', 4);
  await through('2026-06-02T12:30:00Z');
  const asked = (at: string, answered?: string): Made => ({
    created: at,
    said: [['in', at], ...(answered === undefined ? [] : [['out', answered] as const])],
  });
  await make(db.pool, 'f1-met', asked('2026-06-01T16:00:00Z', '2026-06-02T12:00:00Z'));
  await make(db.pool, 'f2-missed', asked('2026-06-01T16:00:00Z', '2026-06-02T12:00:01Z'));
  await make(db.pool, 'f3-missed', asked('2026-06-01T16:00:00Z'));
  await make(db.pool, 'f4-at-risk', asked('2026-06-02T09:30:00Z'));
  await make(db.pool, 'f5-running', asked('2026-06-02T09:30:01Z'));
  await make(db.pool, 'f6-none', {
    created: '2026-06-01T16:00:00Z',
    said: [
      ['out', '2026-06-01T16:00:00Z'],
      ['in', '2026-06-01T16:30:00Z'],
    ],
  });
  await make(db.pool, 'f7-spam', { ...asked('2026-06-01T16:00:00Z'), spam: true });
  // The reply may be one that is not here.
  await make(db.pool, 'f8-incomplete', { ...asked('2026-06-01T16:00:00Z'), complete: false });
  await make(db.pool, 'f9-incomplete', { ...asked('2026-06-01T16:00:00Z', '2026-06-02T12:00:00Z'), complete: false });
  expect(await outcomes('f', ', due_at, in_business_time as business, is_done as done')).toEqual(
    [
      ['f1-met', 'met', 4, '2026-06-02T12:00:00Z', true],
      ['f2-missed', 'missed', 4 + 1 / 3600, '2026-06-02T12:00:00Z', true],
      ['f3-missed', 'missed', 4.5, '2026-06-02T12:00:00Z', false],
      ['f4-at-risk', 'at_risk', 3, '2026-06-02T13:30:00Z', false],
      ['f5-running', 'running', 3 - 1 / 3600, '2026-06-02T13:30:01Z', false],
      ['f8-incomplete', 'uncertain', 4.5, '2026-06-02T12:00:00Z', false],
      ['f9-incomplete', 'met', 4, '2026-06-02T12:00:00Z', true],
    ].map(([id, outcome, hours, due, done]) => ({
      id,
      outcome,
      hours,
      due_at: new Date(String(due)),
      business: true,
      done,
    })),
  );
});

test('a resolution has an error: the outcome is uncertain only where it decides', async () => {
  await clear();
  await target('resolution', 8);
  await through('2026-06-10T12:00:00Z');
  const created = '2026-06-01T09:00:00Z';
  const closed = (from: string, after: string): Made => ({ created, states: [{ state: 'closed', from, after }] });
  await make(db.pool, 'r1-met', closed('2026-06-01T17:00:00Z', '2026-06-01T10:00:00Z'));
  await make(db.pool, 'r2-missed', closed('2026-06-02T12:00:00Z', '2026-06-02T10:00:00Z'));
  await make(db.pool, 'r3-uncertain', closed('2026-06-02T12:00:00Z', '2026-06-01T16:00:00Z'));
  // More than a night passed between two looks, and yet an hour of business at most: it was late at both.
  await make(db.pool, 'r4-missed', closed('2026-06-03T09:30:00Z', '2026-06-02T16:30:00Z'));
  await make(db.pool, 'r5-reopened', {
    created,
    states: [
      { state: 'closed', from: '2026-06-01T12:00:00Z', after: '2026-06-01T11:00:00Z' },
      { state: 'open', from: '2026-06-03T12:00:00Z', after: '2026-06-03T11:00:00Z' },
    ],
  });
  await make(db.pool, 'r6-running', { created: '2026-06-10T10:00:00Z' });
  await make(db.pool, 'r7-archived', {
    created,
    states: [{ state: 'archived', from: '2026-06-01T12:00:00Z', after: '2026-06-01T11:00:00Z' }],
  });
  // Closed when it was first seen: at some time since its creation.
  await db.pool.query(
    `insert into helpdesk.tickets (account_id, id, state, created_at, updated_at, ${own})
     values ('acme', 'r8-seen-closed', 'closed', $1, '2026-06-05T12:00:00Z', '2026-06-05T12:00:00Z', '2026-06-05T12:00:00Z', '2026-06-05T12:00:00Z', '{}')`,
    [created],
  );
  expect(await outcomes('r', ', error_seconds / 3600 as error')).toEqual([
    { id: 'r1-met', outcome: 'met', hours: 8, error: 7 },
    { id: 'r2-missed', outcome: 'missed', hours: 11, error: 2 },
    { id: 'r3-uncertain', outcome: 'uncertain', hours: 11, error: 20 },
    { id: 'r4-missed', outcome: 'missed', hours: 16.5, error: 17 },
    { id: 'r5-reopened', outcome: 'missed', hours: 59, error: 0 },
    { id: 'r6-running', outcome: 'running', hours: 2, error: 0 },
    { id: 'r7-archived', outcome: 'met', hours: 3, error: 1 },
    { id: 'r8-seen-closed', outcome: 'uncertain', hours: 35, error: 99 + 1 / 3600 },
  ]);
});

test('a target that is due when business closes is missed before it opens again', async () => {
  await clear();
  await target('resolution', 8);
  await target('first_response', 8);
  // Friday, and Monday is a holiday.
  await db.pool.query(`insert into analytics.calendar_holidays (calendar, day) values ('office', '2026-07-06')`);
  const friday = '2026-07-03T09:00:00Z';
  const closed = (from: string, after: string | null = null) => ({
    created: friday,
    states: [{ state: 'closed', from, after }],
  });
  const answered = (at: string): Made => ({
    created: friday,
    said: [
      ['in', friday],
      ['out', at],
    ],
  });
  await make(db.pool, 'e1', { created: friday, said: [['in', friday]] });
  await make(db.pool, 'e2', closed('2026-07-03T17:00:00Z'));
  await make(db.pool, 'e3', closed('2026-07-04T12:00:00Z'));
  // Seen on Saturday, closed since Friday: nobody knows.
  await make(db.pool, 'e4', closed('2026-07-04T12:00:00Z', '2026-07-03T16:00:00Z'));
  await make(db.pool, 'e5', closed('2026-07-05T12:00:00Z', '2026-07-04T16:00:00Z'));
  await make(db.pool, 'e6', answered('2026-07-03T17:00:00Z'));
  await make(db.pool, 'e7', answered('2026-07-04T10:00:00Z'));
  const of = async (id: string) => (await outcomes(id)).map(({ outcome }) => outcome);
  for (const [at, outcome] of [
    ['2026-07-03T15:00:00Z', 'at_risk'],
    ['2026-07-03T17:00:00Z', 'at_risk'],
    ['2026-07-03T17:00:01Z', 'missed'],
    ['2026-07-05T12:00:00Z', 'missed'],
    ['2026-07-07T09:00:00Z', 'missed'],
  ] as const) {
    await through(at);
    expect([at, await of('e1')]).toEqual([at, [outcome, outcome]]);
  }
  expect([await of('e2'), await of('e3'), await of('e4'), await of('e5')]).toEqual([
    ...[['met'], ['missed'], ['uncertain'], ['missed']],
  ]);
  expect([(await of('e6'))[0], (await of('e7'))[0]]).toEqual(['met', 'missed']);
  const { rows } = await db.pool.query(
    `select distinct due_at, seconds > target_seconds as longer from analytics.ticket_targets where ticket_id = 'e3'`,
  );
  expect(rows).toEqual([{ due_at: new Date('2026-07-03T17:00:00Z'), longer: false }]);
  await db.pool.query(`delete from analytics.calendar_holidays; delete from helpdesk.tickets where id like 'e_'`);
});

test('a next reply: each wait after a reply, by the target that was in force when it began', async () => {
  await clear();
  await db.pool.query(`
    insert into internal.stored_service_targets (account_id, metric, target_seconds, valid_from, valid_to)
    values ('acme', 'next_reply', 3600, null, '2026-06-02T09:00Z'), ('acme', 'next_reply', 7200, '2026-06-02T09:00Z', null)`);
  await through('2026-06-03T10:30:00Z');
  await make(db.pool, 'x1', {
    created: '2026-06-01T09:00:00Z',
    said: [
      ...([
        ['in', '2026-06-01T09:00:00Z'],
        ['out', '2026-06-01T16:00:00Z'],
        ['in', '2026-06-01T16:30:00Z'],
      ] as const),
      ...([
        ['out', '2026-06-02T09:31:00Z'],
        ['in', '2026-06-02T09:32:00Z'],
        ['out', '2026-06-02T11:00:00Z'],
      ] as const),
      ['in', '2026-06-03T09:00:00Z'],
    ],
  });
  // The team wrote first, so nobody waits for a first response.
  await make(db.pool, 'x2', {
    created: '2026-06-01T09:00:00Z',
    said: [
      ['out', '2026-06-01T09:00:00Z'],
      ['in', '2026-06-01T10:00:00Z'],
      ['out', '2026-06-01T11:00:00Z'],
    ],
  });
  expect(await outcomes('x', ', metric, turn, target_seconds / 3600 as within')).toEqual(
    [
      ['x1', 'missed', 1 + 1 / 60, 2, 1],
      ['x1', 'met', 88 / 60, 3, 2],
      ['x1', 'at_risk', 1.5, 4, 2],
      ['x2', 'met', 1, 1, 1],
    ].map(([id, outcome, hours, turn, within]) => ({ id, outcome, hours, metric: 'next_reply', turn, within })),
  );
});

test('the question of targets in force asks when a wait began, not when its ticket was created', async () => {
  await clear();
  await target('next_reply', 8, { account: 'umbra' });
  await through('2026-06-03T12:00:00Z');
  await make(db.pool, 'q1', {
    ...{ account: 'umbra', created: '2026-01-05T09:00:00Z' },
    said: [
      ['out', '2026-01-05T09:00:00Z'],
      ['in', '2026-01-05T10:00:00Z'],
      ['out', '2026-01-05T11:00:00Z'],
      ['in', '2026-06-01T10:00:00Z'],
      ['out', '2026-06-01T11:00:00Z'],
    ],
  });
  const { sql } = (await readQueries()).find(({ name }) => name === 'targets-in-force')!;
  const { rows } = await db.pool.query(sql);
  expect(rows.map(({ metric, hours, tickets_or_waits: waits }) => [metric, hours, Number(waits)])).toEqual([
    ['next_reply', 8, 1],
  ]);
});

test('a resolution without hold: the clock stands while the ticket is on hold, and what states may have passed unseen decides nothing', async () => {
  await clear();
  await target('resolution_without_hold', 8);
  await target('resolution', 8);
  await through('2026-06-03T12:00:00Z');
  const created = '2026-06-01T09:00:00Z';
  const seen = (state: string, from: string, minutes: number) => ({
    ...{ state, from: `2026-06-${from}:00:00Z` },
    after: new Date(Date.parse(`2026-06-${from}:00:00Z`) - minutes * 60_000).toISOString(),
  });
  // Open for 3 + 4 hours of business, and on hold for 6.
  await make(db.pool, 'h1', {
    created,
    states: [seen('hold', '01T12', 2), seen('open', '02T10', 2), seen('closed', '02T14', 2)],
  });
  await make(db.pool, 'h2', {
    created,
    states: [seen('hold', '01T12', 2), seen('open', '02T10', 90), seen('closed', '02T14', 2)],
  });
  await make(db.pool, 'h3', {
    created,
    states: [seen('hold', '01T12', 2), seen('open', '02T10', 2), seen('closed', '02T16', 2)],
  });
  await make(db.pool, 'h4', { created, states: [seen('hold', '01T12', 2)] });
  await make(db.pool, 'h5', { created, states: [seen('hold', '01T12', 2), seen('open', '02T10', 2)] });
  // Nobody saw it on hold: it took no longer than that.
  await make(db.pool, 'h6', { created, states: [seen('closed', '01T16', 90)] });
  // It may have left hold a day before it was seen: then it would be late already.
  await make(db.pool, 'h7', { created, states: [seen('hold', '01T12', 2), seen('open', '03T10', 24 * 60)] });
  const rows = await outcomes('h', ', metric, due_at');
  const without = rows.filter(({ metric }) => metric === 'resolution_without_hold');
  expect(without.map(({ id, outcome, hours, due_at }) => [id, outcome, hours, due_at.toISOString()])).toEqual([
    ['h1', 'met', 7, '2026-06-02T15:00:00.000Z'],
    ['h2', 'uncertain', 7, '2026-06-02T15:00:00.000Z'],
    ['h3', 'missed', 9, '2026-06-02T15:00:00.000Z'],
    ['h4', 'running', 3, '2026-06-03T17:00:00.000Z'],
    ['h5', 'missed', 13, '2026-06-02T15:00:00.000Z'],
    ['h6', 'met', 7, '2026-06-01T17:00:00.000Z'],
    ['h7', 'uncertain', 5, '2026-06-03T15:00:00.000Z'],
  ]);
  // It is the next one to be late, or is late already.
  const { sql } = (await readQueries()).find(({ name }) => name === 'due-next')!;
  expect((await db.pool.query(sql)).rows.filter(({ outcome }) => outcome === 'uncertain')).toHaveLength(1);
  // With time on hold all others are late.
  expect(
    rows.filter(({ id, metric, outcome }) => id !== 'h6' && metric === 'resolution' && outcome !== 'missed'),
  ).toEqual([]);
});

test('a time that has no beginning is unknown, and so is its outcome', async () => {
  await clear();
  await target('resolution', 8);
  await target('resolution', 8, { account: 'umbra' });
  await target('first_response', 4);
  await through('2026-06-10T12:00:00Z');
  await make(db.pool, 'n1', { created: null });
  await make(db.pool, 'n2', { created: null, account: 'umbra' });
  await make(db.pool, 'n3', { created: '2026-06-10T09:00:00Z', said: [['in', null]] });
  const unknown = { outcome: 'uncertain', hours: null, due_at: null, done: false };
  expect(await outcomes('n', ', metric, due_at, is_done as done')).toEqual([
    { id: 'n1', metric: 'resolution', ...unknown },
    { id: 'n2', metric: 'resolution', ...unknown },
    { id: 'n3', metric: 'first_response', ...unknown },
    {
      id: 'n3',
      metric: 'resolution',
      ...unknown,
      outcome: 'running',
      hours: 3,
      due_at: new Date('2026-06-10T17:00:00Z'),
    },
  ]);
});

test('without a calendar the clock counts, and a reader sees the accounts that are theirs', async () => {
  await clear();
  await target('first_response', 4);
  await target('first_response', 4, { account: 'umbra' });
  await through('2026-06-02T12:30:00Z');
  const made: Made = {
    created: '2026-06-01T16:00:00Z',
    said: [
      ['in', '2026-06-01T16:00:00Z'],
      ['out', '2026-06-01T21:00:00Z'],
    ],
  };
  await make(db.pool, 'c1', made);
  await make(db.pool, 'c2', { ...made, account: 'umbra' });
  const rows = `select ticket_id as id, outcome, in_business_time as business, seconds / 3600 as hours from analytics.ticket_targets where ticket_id like 'c%' order by 1`;
  const [acme, umbra] = [
    { id: 'c1', outcome: 'met', business: true, hours: 1 },
    { id: 'c2', outcome: 'missed', business: false, hours: 5 },
  ];
  expect((await db.pool.query(rows)).rows).toEqual([acme, umbra]);
  await using reader = await letReaderIn(db, { accounts: ['umbra'] });
  expect(await reader.rows(rows)).toEqual([umbra]);
  expect(await reader.rows('select account_id from analytics.service_targets')).toEqual([{ account_id: 'umbra' }]);
  expect(
    await reader.rows(
      `select target_key, ticket_key, outcome from analytics.fact_targets where ticket_key like '%/c%'`,
    ),
  ).toEqual([{ target_key: 'umbra/c2/first_response', ticket_key: 'umbra/c2', outcome: 'missed' }]);
});

test('the page shows the four weeks before the time up to which all is complete', async () => {
  await clear();
  await db.pool.query('delete from helpdesk.tickets');
  await target('resolution', 8);
  await through('2026-03-20T12:00:00Z');
  await make(db.pool, 'p1', { created: '2026-02-20T11:59:59Z' });
  await make(db.pool, 'p2', { created: '2026-02-20T12:00:00Z' });
  await make(db.pool, 'p3', { created: '2026-03-20T10:00:00Z' });
  expect(await makeTargets(db.pool, systemClock)('acme')).toEqual([
    { metric: 'resolution', met: 0, missed: 1, uncertain: 0, at_risk: 0, running: 1 },
  ]);
});

/** That it is what business seconds count back: business-time.test.ts. */
test('business time after an instant, at its edges', async () => {
  const edges = await db.pool.query(`
    select analytics.business_time_after('office', '2026-06-01T12:00Z', 5 * 3600) as closing,
      analytics.business_time_after('office', '2026-06-01T12:00Z', 5 * 3600 + 1) as opening,
      analytics.business_time_after('office', '1999-12-31T12:00Z', 1) as before,
      analytics.business_time_after('none', '2026-06-01T12:00Z', 1) as unknown,
      analytics.business_time_after('office', '2059-12-31T12:00Z', 1e9) as beyond`);
  expect(edges.rows).toEqual([
    {
      closing: new Date('2026-06-01T17:00:00Z'),
      opening: new Date('2026-06-02T09:00:01Z'),
      before: null,
      unknown: null,
      beyond: null,
    },
  ]);
});
