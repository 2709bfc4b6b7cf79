/** Each problem begins when what it watches breaks, and ends when that is mended: all of them in one database, an account each. */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../../src/clock.ts';
import { keepTargets } from '../../../src/engine/runs/freshness-targets.ts';
import { long } from '../../support/long.ts';
import { freshDatabase, type TestDatabase } from '../../support/postgres.ts';
import { bePresent } from '../../support/present.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await freshDatabase();
});
afterAll(() => db?.drop());

const rows = async (sql: string, ...values: unknown[]) =>
  (await db.pool.query<Record<string, unknown>>(sql, values)).rows;

/** Does this to an account. */
const sql = (text: string) => (name: string) => rows(text, name);

/** Ends the worker that the account has had from the start. */
const rest = (name: string) => rows('update sync.workers set works = false where account_id = $1', name);

/** An account that is read up to now, with targets and a worker, and what the test adds. */
async function account(name: string): Promise<string> {
  // Held by a connection of the pool until the database is dropped.
  const client = await db.pool.connect();
  await client.query(
    `with w as (
       insert into sync.workers (account_id, works, host, pid, version, started_at) values ($1, true, 'h', 1, '0', now()) returning id)
     select pg_advisory_lock(1397248855, id) from w`,
    [name],
  );
  client.release();
  await rows(
    `insert into sync.accounts (account_id, since, mirrored_since) values ($1, '2020-01-01', now() - interval '10 days')`,
    name,
  );
  await rows(
    `insert into sync.coverage (account_id, source, stream, list, covered)
     select $1, case s when 'shelves' then 'books' else 'helpdesk' end, s, 'default', tstzmultirange(tstzrange('2020-01-01', now() - interval '2 minutes'))
     from unnest('{users,customers,tickets,shelves}'::text[]) s`,
    name,
  );
  await rows(
    `insert into sync.targets (account_id, subject, target) values ($1, 'helpdesk.tickets', '5 min'), ($1, 'helpdesk.messages', '15 min'), ($1, 'nightly', '6 h')`,
    name,
  );
  return name;
}

const problems = async (name: string): Promise<string[]> =>
  (await rows('select problem, stream from sync.problems where account_id = $1 order by 1, 2', name)).map(
    ({ problem, stream }) => [problem, stream].filter(Boolean).join(' '),
  );
const one = async (name: string, problem: string) =>
  (await rows('select * from sync.problems where account_id = $1 and problem = $2', name, problem))[0]!;

/** A run of one stream that has ended so. Answers its number. */
async function ran(
  name: string,
  kind: string,
  stream: string,
  state: string,
  more: { error?: string; code?: number; ago?: string } = {},
) {
  const { error = null, code = null, ago = '1 minute' } = more;
  const [run] = await rows(
    `with r as (
       insert into sync.stored_runs (account_id, kind, state, started_at, finished_at)
       values ($1, $2, case $4 when 'waiting' then 'running' else $4 end, now() - $7::interval, case $4 when 'waiting' then null else now() - $7::interval end) returning id)
     insert into sync.stored_run_streams (run_id, account_id, source, stream, state, error, remedy, exit_code, finished_at)
     select id, $1, case $3 when 'shelves' then 'books' else 'helpdesk' end, $3, $4, $5, 'Do it.', $6, case $4 when 'waiting' then null else now() - $7::interval end from r returning run_id`,
    name,
    kind,
    stream,
    state,
    error,
    code,
    ago,
  );
  return run!.run_id as number;
}

async function slot(name: string, schedule: string, ago: string, run: number | null): Promise<void> {
  await rows(
    `insert into sync.schedule_slots (account_id, schedule, slot, claimed_at, claimed_by, run_id)
     values ($1, $2, now() - $3::interval, now() - $3::interval, 0, $4)`,
    name,
    schedule,
    ago,
    run,
  );
}

/** A worker that lives as long as the database of this file. Answers its number. */
async function works(name: string): Promise<number> {
  const presence = await bePresent(
    db.url,
    { account: name, works: true, host: 'here', pid: 1, version: '0' },
    systemClock,
  );
  onTestFinished(() => presence[Symbol.asyncDispose]());
  return presence.id;
}

interface Case {
  break(name: string): Promise<unknown>;
  mend(name: string): Promise<unknown>;
  stream?: string;
  severity: 'critical' | 'warning' | 'info';
  says: RegExp;
  remedy: RegExp;
  /** What else is said. */
  besides?: string[];
}

const cases: Record<string, Case> = {
  token_refused: {
    stream: 'tickets',
    severity: 'critical',
    break: name => ran(name, 'fresh', 'tickets', 'failed', { error: 'GET /tickets: 401', code: 4 }),
    mend: name => ran(name, 'fresh', 'tickets', 'completed'),
    says: /GET \/tickets: 401/,
    remedy: /Do it/,
  },
  run_failed: {
    stream: 'customers',
    severity: 'warning',
    break: name => ran(name, 'fresh', 'customers', 'failed', { error: 'it broke', code: 1 }),
    mend: name => ran(name, 'fresh', 'customers', 'partial'),
    says: /Run \d+ \(fresh\) of customers failed: it broke/,
    remedy: /Do it/,
  },
  nightly_failed: {
    severity: 'critical',
    // Another run has read the stream since.
    break: async name => {
      await ran(name, 'nightly', 'users', 'failed', { error: 'it broke', code: 1 });
      await ran(name, 'sync', 'users', 'completed');
    },
    mend: name => ran(name, 'nightly', 'users', 'completed'),
    says: /The nightly run \d+ failed/,
    remedy: /runs retry \d+ --account/,
  },
  nightly_late: {
    severity: 'warning',
    break: async name => {
      await works(name);
      await ran(name, 'nightly', 'users', 'completed', { ago: '31 hours' });
      await slot(name, 'nightly', '7 hours', await ran(name, 'nightly', 'users', 'waiting', { ago: '7 hours' }));
    },
    mend: sql(`update sync.stored_runs set state = 'completed', finished_at = now() where account_id = $1`),
    says: /is running for 7 h; its target is 6 h/,
    remedy: /NIGHTLY_WITHIN_HOURS/,
  },
  past_target: {
    stream: 'tickets',
    severity: 'warning',
    break: sql(`update sync.targets set target = '1 min' where account_id = $1 and subject = 'helpdesk.tickets'`),
    mend: sql(
      `update sync.coverage set covered = covered + tstzmultirange(tstzrange('2020-01-01', now())) where account_id = $1`,
    ),
    says: /tickets is 2 min behind; 60 s were promised/,
    remedy: /FRESHNESS_TARGETS/,
  },
  reread_late: {
    stream: 'customers',
    severity: 'warning',
    break: async name => {
      await ran(name, 'sync', 'customers', 'completed', { ago: '9 days' });
      await rows(
        `insert into sync.targets values ($1, 'reread helpdesk.customers', '6 h'), ($1, 'reread helpdesk.tickets', '6 h')`,
        name,
      );
    },
    mend: sql(`insert into sync.swept (account_id, source, stream, list, created, as_of, run_id)
         values ($1, 'helpdesk', 'customers', 'default', tstzrange('1970-01-01', now() - interval '5 h'), now() - interval '5 h', 1)`),
    says: /^All of customers was last read again 9 d ago; 6 h were promised\./,
    remedy: /SWEEP_SHARE_PERCENT.*sweep customers/,
  },
  credits_refused: {
    severity: 'warning',
    break: sql(`insert into sync.credit_minutes (account_id, minute, credit_limit, refused, source)
         values ($1, now() - interval '3 min', 100, 2, 'helpdesk'), ($1, now() - interval '3 min', 1000, 5, 'books')`),
    mend: sql(`update sync.credit_minutes set minute = minute - interval '13 min' where account_id = $1`),
    says: /7 requests were refused .* by the help desk 2, by the book catalog 5/,
    remedy: /HELPDESK_CREDITS/,
  },
  mass_deletion_stopped: {
    stream: 'tickets',
    severity: 'critical',
    break: async name => {
      await rows(
        `insert into helpdesk.tickets (account_id, id, state, updated_at, _messages_as_of, _first_seen_at, _synced_at, _observed_at, _payload)
         select $1, n::text, 'closed', now() - interval '9 d', now() - interval '8 d', now(), now(), now() - interval '8 d', '{}' from generate_series(1, 30) n`,
        name,
      );
      await rows(
        `insert into sync.deletion_candidates (account_id, source, stream, record_id, missing_since, alive_at, gone_at, gone_since)
         select $1, 'helpdesk', 'tickets', n::text, now() - interval '1 h', now() - interval '8 d', now(), now() from generate_series(1, 30) n`,
        name,
      );
      const error =
        '30 of 30 tickets and perhaps more seem to have been deleted at the source; none was marked as deleted here';
      await ran(name, 'sweep', 'tickets', 'failed', { error, code: 1 });
    },
    mend: name => ran(name, 'sweep', 'tickets', 'completed'),
    says: /^30 tickets and perhaps more seem to have been deleted/,
    remedy: /sweep tickets --accept-deletions/,
  },
  audit_found_drift: {
    stream: 'tickets',
    severity: 'warning',
    break:
      sql(`insert into sync.audit (account_id, run_id, source, stream, record_id, checked_at, random, differences, kind)
         values ($1, 7, 'helpdesk', 'tickets', 't1', now() - interval '1 h', true, '{"subject": ["a", "b"]}', 'changed here'),
           ($1, 7, 'helpdesk', 'labels', 'l1', now() - interval '2 h', false, '{"name": ["a", "b"]}', 'renamed'),
           ($1, 7, 'helpdesk', 'tickets', 't2', now() - interval '1 h', true, null, null)`),
    mend: sql(`update sync.audit set checked_at = checked_at - interval '1 d' where account_id = $1`),
    says: /2 records of tickets .*: changed here; renamed/,
    remedy: /sql "select \* from sync\.audit where account_id = 'of-audit_found_drift' and kind is not null"/,
  },
  gap: {
    stream: 'tickets',
    severity: 'warning',
    break: async name => {
      await rows(
        `update sync.coverage set covered = covered - tstzmultirange(tstzrange('2024-01-01', '2024-01-02')) where account_id = $1`,
        name,
      );
      await rows(
        `insert into sync.gap_reasons values ($1, 'tickets', 'default', tstzrange('2024-01-01', '2024-01-02'), 'too deep', now(), 'helpdesk')`,
        name,
      );
    },
    mend: sql(
      `update sync.coverage set covered = covered + tstzmultirange(tstzrange('2020-01-01', '2025-01-01')) where account_id = $1`,
    ),
    says: /^1 range of tickets .* 2024-01-01T00:00:00Z on: too deep/,
    remedy: /backfill tickets/,
  },
  rejects_open: {
    stream: 'customers',
    severity: 'warning',
    break:
      sql(`insert into sync.rejects (account_id, source, stream, key, reason, replayable, first_seen_at, last_seen_at)
         values ($1, 'helpdesk', 'customers', 'c1', 'no', false, now(), now()), ($1, 'helpdesk', 'customers', 'c2', 'no', false, now(), now())`),
    mend: sql('update sync.rejects set cleared_at = now() where account_id = $1'),
    says: /^customers: 2 × no, since \S+Z\.$/,
    remedy: /rejects list/,
  },
  no_worker: {
    severity: 'warning',
    break: async name => {
      await slot(name, 'fresh', '1 minute', null);
      await rest(name);
    },
    mend: sql('update sync.workers set works = true where account_id = $1'),
    says: /^No worker runs since \S+Z\.$/,
    remedy: /npx shelfdesk start/,
  },
  alarms_undelivered: {
    severity: 'warning',
    break:
      sql(`insert into sync.alarms (account_id, problem, severity, says, remedy, began_at, tries, next_try_at, last_error)
         values ($1, 'no_worker', 'critical', 's', 'r', now(), 1, now(), 'it answered with 500')`),
    mend: sql(
      'update sync.alarms set begin_delivered_at = now(), next_try_at = null, last_error = null where account_id = $1',
    ),
    says: /1 alarm: it answered with 500/,
    remedy: /ALARM_WEBHOOK_URL/,
  },
  paused: {
    stream: 'tickets',
    severity: 'info',
    break: sql(`insert into sync.paused values ($1, 'tickets', now(), 'ada@host', 'they move', 'helpdesk')`),
    mend: sql('delete from sync.paused where account_id = $1'),
    says: /tickets was told to wait by ada@host: they move/,
    remedy: /resume tickets/,
  },
  recommendation: {
    stream: 'tickets',
    severity: 'info',
    break:
      sql(`insert into sync.audit (account_id, run_id, source, stream, record_id, checked_at, random, differences, kind)
         select $1, r, 'helpdesk', 'tickets', 't1', now() - interval '3 d', true, '{"subject": ["a", "b"]}', 'changed here' from generate_series(1, 2) r`),
    mend: sql('delete from sync.audit where account_id = $1'),
    says: /more than once: changed here/,
    remedy: /Another program writes/,
  },
};

test.for(Object.keys(cases))('%s begins and ends', async problem => {
  const { break: breaks, mend, stream, severity, says, remedy, besides = [] } = cases[problem]!;
  const name = await account(`of-${problem}`);
  expect(await problems(name)).toEqual([]);
  await breaks(name);
  const said = [problem, stream].filter(Boolean).join(' ');
  expect(await problems(name)).toEqual([said, ...besides].sort());
  const found = await one(name, problem);
  expect(found).toMatchObject({ severity, stream: stream ?? null, since: expect.any(Date) });
  expect(found.says).toMatch(says);
  expect(found.remedy).toMatch(remedy);
  await mend(name);
  expect(await problems(name)).not.toContain(said);
});

test('the failed sweep of a night is cured by a later sweep of the same stream, and of no other', async () => {
  const name = await account('of-swept-night');
  await rows(`update sync.targets set target = '1 h' where account_id = $1`, name);
  const run = await ran(name, 'sweep', 'tickets', 'failed', { error: 'it broke', code: 1, ago: '5 minutes' });
  await slot(name, 'nightly', '5 minutes', run);
  await rows(
    `update sync.schedule_slots p set claimed_at = r.started_at from sync.stored_runs r where p.account_id = $1 and r.id = $2`,
    name,
    run,
  );
  expect(await problems(name)).toEqual(['run_failed tickets']);
  expect(await one(name, 'run_failed')).toMatchObject({ severity: 'critical' });
  // What fails has its own problem; once it has ended otherwise, the night has it.
  await ran(name, 'sweep', 'customers', 'completed');
  await ran(name, 'sync', 'tickets', 'completed');
  await ran(name, 'sweep', 'tickets', 'interrupted');
  expect(await problems(name)).toEqual(['run_failed tickets']);
  await rows(`update sync.stored_run_streams set state = 'interrupted' where run_id = $1`, run);
  expect(await problems(name)).toEqual(['nightly_failed']);
  await ran(name, 'sweep', 'customers', 'completed');
  expect(await problems(name)).toEqual(['nightly_failed']);
  await ran(name, 'sweep', 'tickets', 'partial');
  expect(await problems(name)).toEqual([]);
});

test('a re-reading is not late where a failed sweep says why, or the daily quota is used up, or one record is not known', async () => {
  const name = await account('of-reread');
  await cases.reread_late!.break(name);
  expect(await problems(name)).toEqual(['reread_late customers']);
  const run = await ran(name, 'sweep', 'customers', 'partial');
  await rows(`update sync.stored_run_streams set deferred_until = now() + interval '1 h' where run_id = $1`, run);
  expect(await problems(name)).toEqual([]);
  await rows(`update sync.stored_run_streams set deferred_until = null where run_id = $1`, run);
  expect(await problems(name)).toEqual(['reread_late customers']);
  await ran(name, 'sweep', 'customers', 'failed', { error: 'it broke', code: 1 });
  expect(await problems(name)).toEqual(['run_failed customers']);
  await ran(name, 'sweep', 'customers', 'partial');
  expect(await problems(name)).toEqual(['reread_late customers']);
  await cases.reread_late!.mend(name);
  expect(await problems(name)).toEqual([]);
  // A ticket without a time of creation is in no range that was swept.
  await ran(name, 'sync', 'tickets', 'completed', { ago: '9 days' });
  expect(await problems(name)).toContain('reread_late tickets');
  await rows(
    `insert into sync.swept (account_id, source, stream, list, created, as_of, run_id)
     select account_id, source, stream, list, '(,)', now() - interval '5 h', 1 from sync.coverage where account_id = $1 and stream = 'tickets'`,
    name,
  );
  await rows(
    `insert into helpdesk.tickets (account_id, id, state, updated_at, _messages_as_of, _first_seen_at, _synced_at, _observed_at, _payload)
     values ($1, 't1', 'closed', now() - interval '9 d', now(), now(), now(), now(), '{}')`,
    name,
  );
  expect((await rows(`select sync.unchecked_since($1, 'tickets') as at`, name))[0]!.at).toBe(null);
  expect(await problems(name)).toEqual([]);
});

test('of what is paused only that is said, and a first load is not late', async () => {
  const name = await account('quiet');
  await cases.past_target!.break(name);
  expect(await problems(name)).toEqual(['past_target tickets']);
  await rows(`insert into sync.paused values ($1, 'tickets', now(), 'ada@host', null, 'helpdesk')`, name);
  expect(await problems(name)).toEqual(['paused tickets']);
  await rows('delete from sync.paused where account_id = $1', name);
  // A list that was never read, and one that has not come to where the mirror began.
  await rows(
    `insert into sync.coverage (account_id, source, stream, list) values ($1, 'helpdesk', 'tickets', 'spam')`,
    name,
  );
  expect(await problems(name)).toEqual([]);
  await rows(
    `update sync.coverage set covered = '{[2020-01-01,2021-01-01)}' where account_id = $1 and list = 'spam'`,
    name,
  );
  expect(await problems(name)).toEqual([]);
  const state = async () =>
    (await rows(`select state, behind from sync.status where account_id = $1 and stream = 'tickets'`, name))[0];
  expect(await state()).toEqual({ state: 'never_synced', behind: null });
  await ran(name, 'sync', 'tickets', 'completed');
  expect(await state()).toEqual({ state: 'catching_up', behind: null });
  await rows(`update sync.coverage set redundant = true where account_id = $1 and list = 'spam'`, name);
  expect(await state()).toMatchObject({ state: 'stale' });
  await ran(name, 'fresh', 'tickets', 'failed', { error: 'it broke', code: 1 });
  expect(await state()).toMatchObject({ state: 'failing' });
});

test('a refused token is a problem until the source accepts it; then only streams that are not read again yet are one', async () => {
  const name = await account('of-token');
  await ran(name, 'nightly', 'users', 'failed', { error: 'GET /users: 401', code: 4 });
  expect(await problems(name)).toEqual(['token_refused users']);
  // One that asks for nothing proves nothing, nor does what another source takes.
  await ran(name, 'fresh', 'messages', 'completed');
  const paid = 'update sync.stored_run_streams set credits = 1 where run_id = $1';
  await rows(paid, await ran(name, 'fresh', 'shelves', 'completed'));
  expect(await problems(name)).toContain('token_refused users');
  await rows(paid, await ran(name, 'fresh', 'tickets', 'partial'));
  expect(await problems(name)).toEqual(['run_failed users']);
  // Only the next night mends a night.
  await ran(name, 'sync', 'users', 'completed');
  expect(await problems(name)).toEqual(['nightly_failed']);
});

test('one cause has one problem, as grave as what it delays', async () => {
  const name = await account('of-cause');
  const away = (path: string) => ({ error: `GET ${path}: no reply (ECONNREFUSED); gave up after 10 tries`, code: 1 });
  const failed = async () => {
    for (const stream of ['tickets', 'users', 'customers'])
      await ran(name, 'sync', stream, 'failed', away(`/${stream}?page=1`));
  };
  await failed();
  // The other source is another cause, and so is another error.
  const shelves = await ran(name, 'sync', 'shelves', 'failed', away('/shelves'));
  expect(await problems(name)).toEqual(['run_failed shelves', 'run_failed users']);
  expect(await one(name, 'run_failed')).toBeDefined();
  const [users] = await rows(`select * from sync.problems where account_id = $1 and stream = 'users'`, name);
  expect(users).toMatchObject({
    severity: 'warning',
    says: `Runs of customers, tickets, users failed, the last is run ${shelves - 1}: no reply (ECONNREFUSED); gave up after 10 tries.`,
  });
  await ran(name, 'sync', 'customers', 'failed', { error: 'GET /customers?page=1: 500', code: 1 });
  expect(await problems(name)).toEqual(['run_failed customers', 'run_failed shelves', 'run_failed users']);
  // Behind its target by what fails: the failure is told, and is grave.
  await cases.past_target!.break(name);
  const found = await rows(
    'select problem, stream, severity from sync.problems where account_id = $1 order by stream',
    name,
  );
  expect(found.map(({ stream, severity }) => [stream, severity])).toEqual([
    ['customers', 'warning'],
    ['shelves', 'warning'],
    ['users', 'critical'],
  ]);
  // A pause of the first stream leaves the others.
  await rows(`insert into sync.paused values ($1, 'users', now(), 'ada@host', null, 'helpdesk')`, name);
  expect(await problems(name)).toEqual([
    'paused users',
    'run_failed customers',
    'run_failed shelves',
    'run_failed tickets',
  ]);
  await rows('delete from sync.paused where account_id = $1', name);
  for (const [stream] of [['users'], ['tickets'], ['customers'], ['shelves']])
    await ran(name, 'sync', stream!, 'completed');
  expect(await problems(name)).toEqual(['past_target tickets']);
  // Without a worker it is late because nobody reads.
  await rows('delete from sync.stored_runs where account_id = $1', name);
  await slot(name, 'fresh', '1 hour', null);
  await rest(name);
  expect(await problems(name)).toEqual(['no_worker']);
});

test('a page that cannot be served is a problem, unless another process of the machine serves it', async () => {
  const name = await account('of-page');
  const id = await works(name);
  expect(await problems(name)).toEqual([]);
  await rows(`update sync.workers set page_error = 'port 8090 of 127.0.0.1 is in use' where id = $1`, id);
  expect(await one(name, 'page_not_served')).toMatchObject({
    severity: 'warning',
    says: 'The worker on here does not serve the page: port 8090 of 127.0.0.1 is in use.',
    remedy: expect.stringContaining('SHELFDESK_WEB_PORT'),
  });
  const other = await works(name);
  expect(await problems(name)).toEqual(['page_not_served']);
  await rows(`update sync.workers set page_url = 'http://127.0.0.1:8090/' where id = $1`, other);
  expect(await problems(name)).toEqual([]);
});

test('a night that was canceled by a person is not told as failed', async () => {
  const name = await account('of-cancel');
  const run = await ran(name, 'nightly', 'users', 'interrupted');
  expect(await problems(name)).toEqual(['nightly_failed']);
  const cancel = (outcome: string) =>
    rows(
      `insert into sync.operations (at, account_id, who, action, subject, outcome) values (now(), $1, 'ada@host', 'cancel', $2, $3)`,
      name,
      String(run),
      outcome,
    );
  await cancel('refused: it is over');
  expect(await problems(name)).toEqual(['nightly_failed']);
  await cancel('done');
  expect(await problems(name)).toEqual([]);
});

test('what a night sweeps is part of it; what a person sweeps is not', async () => {
  const name = await account('of-sweep');
  const failed = { error: 'the list stays out of order', code: 1 };
  await ran(name, 'sweep', 'tickets', 'failed', failed);
  expect(await problems(name)).toEqual(['run_failed tickets']);
  const night = await ran(name, 'nightly', 'users', 'completed');
  const sweep = await ran(name, 'sweep', 'tickets', 'failed', failed);
  // As the night opens it: at the same moment.
  await rows(
    `insert into sync.schedule_slots (account_id, schedule, slot, claimed_at, claimed_by, run_id)
     select account_id, 'nightly', started_at, started_at, 0, $2 from sync.stored_runs where id = $1`,
    sweep,
    night,
  );
  expect(await problems(name)).toEqual(['run_failed tickets']);
  expect((await one(name, 'run_failed')).severity).toBe('critical');
  const stopped = '3 tickets and perhaps more seem to have been deleted at the source';
  await rows('update sync.stored_run_streams set error = $2 where run_id = $1', sweep, stopped);
  expect(await problems(name)).toEqual([]);
  await rows('update sync.stored_run_streams set error = $2 where run_id = $1', sweep, failed.error);
  await ran(name, 'sweep', 'tickets', 'completed');
  expect(await problems(name)).toEqual([]);
});

test('of many accounts each is looked up by itself: nowhere the runs of all are walked through', long, async () => {
  await rows(
    `with a as (
       insert into sync.accounts (account_id, since) select 'many' || n, '2020-01-01' from generate_series(1, 20) n returning account_id),
     c as (
       insert into sync.coverage (account_id, source, stream, list) select account_id, 'helpdesk', s, 'default' from a, unnest('{users,tickets}'::text[]) s),
     r as (
       insert into sync.stored_runs (account_id, kind, state, started_at, finished_at)
       select account_id, case n % 100 when 0 then 'nightly' else 'fresh' end, 'completed', now(), now() from a, generate_series(1, 300) n
       order by account_id, n returning id, account_id, kind)
     insert into sync.stored_run_streams (run_id, account_id, source, stream, state, finished_at)
     select id, account_id, 'helpdesk', s, 'completed', now() from r, unnest('{users,tickets}'::text[]) s where s = 'tickets' or kind = 'nightly'`,
  );
  await rows('analyze sync.accounts, sync.coverage, sync.stored_runs, sync.stored_run_streams');
  for (const view of ['problems', 'status'])
    for (const where of ['', `where account_id = 'many7'`]) {
      const plan = await rows(`explain select * from sync.${view} ${where}`);
      const lines = plan.map(line => String(line['QUERY PLAN']));
      expect(
        lines.filter(line => /Backward using runs_pkey|Seq Scan on stored_run|CTE Scan on found/.test(line)),
      ).toEqual([]);
    }
});

test('who reads an account by himself each day needs no worker, and nothing else complains that nobody reads', async () => {
  const name = await account('of-cron');
  await rest(name);
  // One sync is no habit.
  await ran(name, 'sync', 'tickets', 'completed', { ago: '44 hours' });
  expect(await problems(name)).toEqual(['no_worker']);
  await ran(name, 'sync', 'tickets', 'completed', { ago: '20 hours' });
  expect(await problems(name)).toEqual([]);
  // Between two of them everything is behind.
  await cases.past_target!.break(name);
  expect(await problems(name)).toEqual([]);
  await rows(`update sync.targets set target = '5 min' where account_id = $1 and subject = 'helpdesk.tickets'`, name);
  await slot(name, 'fresh', '10 hours', null);
  expect(await problems(name)).toEqual(['no_worker']);
  // It is an alarm once work waits longer than was promised.
  const { severity } = await one(name, 'no_worker');
  await cases.past_target!.break(name);
  expect(await problems(name)).toEqual(['no_worker']);
  expect([severity, (await one(name, 'no_worker')).severity]).toEqual(['warning', 'critical']);
});

/** Rejects of a stream that came so long ago. */
const rejects = (name: string, stream: string, from: number, to: number, path: string | null, ago: string) =>
  rows(
    `insert into sync.rejects (account_id, source, stream, key, ask_id, reason, path, replayable, first_seen_at, last_seen_at)
     select $1, 'helpdesk', $2, n::text, n::text, coalesce($5::text || ': not an ISO 8601 time', 'GET /tickets/' || n || ': 500'), $5, true,
       now() - $6::interval, now() - $6::interval
     from generate_series($3::int, $4::int) n`,
    ...[name, stream, from, to, path, ago],
  );

test('rejects are grouped by their reason, and most of a stream is one problem', async () => {
  const name = await account('of-most');
  await rejects(name, 'messages', 1, 3, 'messages.0.created_at', '1 minute');
  await rejects(name, 'messages', 4, 6, null, '1 minute');
  const groups = await rows(
    'select path, rejects::int, says from sync.reject_groups where account_id = $1 order by path',
    name,
  );
  expect(groups).toEqual([
    {
      path: 'messages[].created_at',
      rejects: 3,
      says: expect.stringMatching(/^3 × messages\[\]\.created_at: not an ISO 8601 time, since \S+Z$/),
    },
    { path: null, rejects: 3, says: expect.stringMatching(/^3 × GET \/tickets\/…: 500, since \S+Z$/) },
  ]);
  // Without an id, neither the place in the list nor the size of a reply makes another group.
  await rows(
    `insert into sync.rejects (account_id, source, stream, key, reason, replayable, first_seen_at, last_seen_at)
     select $1, 'helpdesk', 'users', 'page ' || n, format('a record is too large: GET /users?page=%s&per_page=1: the reply is larger than 1 MB (X); reading ended at 1.%s MB', n, n), false, now(), now()
     from generate_series(1, 3) n`,
    name,
  );
  const large = await rows(
    `select rejects::int, reason from sync.reject_groups where account_id = $1 and stream = 'users'`,
    name,
  );
  expect(large).toEqual([
    { rejects: 3, reason: 'a record is too large: GET /users?page=…&per_page=…: the reply is larger than 1 MB (X)' },
  ]);
  await rows(`delete from sync.rejects where account_id = $1 and stream = 'users'`, name);
  // Four of another shape are few. What failed otherwise does not count.
  await rejects(name, 'messages', 7, 7, 'messages.3.created_at', '1 minute');
  expect(await problems(name)).toEqual(['rejects_open messages']);
  const run = await ran(name, 'sync', 'messages', 'completed', { ago: '0 s' });
  const state = async () =>
    (await rows(`select state from sync.status where account_id = $1 and stream = 'messages'`, name))[0]!.state;
  expect(await state()).toBe('fresh');
  await rejects(name, 'messages', 8, 8, 'messages.3.created_at', '1 minute');
  expect(await problems(name)).toEqual(['most_rejected messages']);
  expect(await one(name, 'most_rejected')).toMatchObject({
    severity: 'critical',
    says: expect.stringMatching(
      /^Most of what is read of messages is rejected: 5 × messages\[\]\.created_at: .*, since \S+Z: the interface has changed\. Nothing is lost; next try \S+Z\.$/,
    ),
  });
  expect(await state()).toBe('failing');
  // As many were stored since: these are few among good ones.
  await rows('update sync.stored_run_streams set unchanged = 5 where run_id = $1', run);
  expect(await problems(name)).toEqual(['rejects_open messages']);
  // What was stored before them says nothing of them.
  await rows(`update sync.stored_run_streams set finished_at = now() - interval '1 h' where run_id = $1`, run);
  expect(await problems(name)).toEqual(['most_rejected messages']);
});

test('an outage is one problem with one beginning, whatever it answers and whatever stream meets it', async () => {
  const name = await account('of-outage');
  const failed = async (stream: string, answer: string, code: number, ago: string) => {
    const run = await ran(name, 'fresh', stream, 'failed', { error: `GET /${stream}?page=1: it failed`, code, ago });
    await rows('update sync.stored_run_streams set answer = $2 where run_id = $1', run, `The help desk ${answer}`);
  };
  await failed('tickets', 'answers 503', 1, '9 min');
  const first = await one(name, 'outage');
  expect(first).toMatchObject({
    ...{ severity: 'warning', source: 'helpdesk', stream: null, stream_key: null },
    says: expect.stringMatching(/^The help desk answers 503 since \S+Z; nothing is lost\.$/),
  });
  // The next slot is known from the last two.
  await slot(name, 'fresh', '2 min', null);
  await slot(name, 'fresh', '-1 min', null);
  expect((await one(name, 'outage')).says).toMatch(/; nothing is lost; next try \S+Z\.$/);
  await failed('customers', 'refuses the token (401)', 4, '5 min');
  expect(await one(name, 'outage')).toMatchObject({
    ...{ severity: 'critical', since: first.since },
    says: expect.stringMatching(
      /^The help desk refuses the token \(401\); no request has succeeded since \S+Z; nothing is lost/,
    ),
  });
  // A person interrupts a sync, and the source answers again as before.
  await ran(name, 'sync', 'tickets', 'interrupted', { ago: '4 min' });
  await failed('customers', 'does not answer (connection refused)', 1, '3 min');
  expect(await problems(name)).toEqual(['outage']);
  expect(await one(name, 'outage')).toMatchObject({
    ...{ severity: 'critical', since: first.since },
    says: expect.stringMatching(/does not answer \(connection refused\); no request has succeeded since/),
  });
  await ran(name, 'fresh', 'tickets', 'completed');
  await ran(name, 'fresh', 'customers', 'completed');
  expect(await problems(name)).toEqual([]);

  // It is over with the first answer, although the stream that met it is not read before the night; its failure is no other problem.
  await failed('users', 'refuses the token (401)', 4, '30 s');
  await rows(
    `update sync.stored_run_streams set failing_since = now() - interval '2 min' where account_id = $1 and stream = 'users'`,
    name,
  );
  const [{ minutes }] = (await rows(
    `select extract(epoch from now() - since)::int / 60 as minutes from sync.problems where account_id = $1`,
    name,
  )) as [{ minutes: number }];
  expect(minutes).toBe(2);
  const answered = await ran(name, 'fresh', 'tickets', 'completed', { ago: '10 s' });
  await rows('update sync.stored_run_streams set credits = 1 where run_id = $1', answered);
  expect(await problems(name)).toEqual([]);
});

test('a first load is never late, however long ago its slot was', async () => {
  const name = await account('of-first-night');
  await works(name);
  await slot(name, 'nightly', '40 hours', await ran(name, 'nightly', 'users', 'waiting', { ago: '39 hours' }));
  expect(await problems(name)).toEqual([]);
  // Nor a night that has only just begun.
  await ran(name, 'nightly', 'users', 'completed', { ago: '60 hours' });
  await rows(
    `update sync.stored_runs set started_at = now() - interval '5 h' where account_id = $1 and state = 'running'`,
    name,
  );
  expect(await problems(name)).toEqual([]);
});

test('a jump of the clock of a source is told for an hour', async () => {
  const name = await account('of-clock');
  await rows(
    `insert into sync.drift (account_id, source, stream, kind, path, value, seen, first_seen_at, last_seen_at)
     values ($1, 'helpdesk', 'tickets', 'clock', '', '+1 h', 2, now() - interval '9 d', now())`,
    name,
  );
  expect(await problems(name)).toEqual(['source_clock_jumped']);
  expect((await one(name, 'source_clock_jumped')).says).toMatch(
    /^The clock of the help desk jumped by \+1 h, last seen at/,
  );
  await rows(`update sync.drift set last_seen_at = now() - interval '61 min' where account_id = $1`, name);
  expect(await problems(name)).toEqual([]);
});

test('messages are behind by the oldest new change that waits; by history and by what fails they are not', async () => {
  const name = await account('of-messages');
  const seconds = async () =>
    Number((await rows(`select extract(epoch from sync.behind($1, 'messages')) as s`, name))[0]!.s);
  const add = (id: string, ago: string) =>
    rows(
      `insert into helpdesk.tickets (account_id, id, state, updated_at, _first_seen_at, _synced_at, _observed_at, _payload)
       values ($1, $2, 'open', now() - $3::interval, now(), now(), now(), '{}')`,
      name,
      id,
      ago,
    );
  await add('history', '20 days');
  expect(await seconds()).toBeLessThan(600);
  await add('new', '1 hour');
  expect(await seconds()).toBeGreaterThanOrEqual(3600);
  expect(await problems(name)).toEqual(['past_target messages']);
  await rows(
    `insert into sync.rejects (account_id, source, stream, key, ask_id, reason, replayable, first_seen_at, last_seen_at)
     values ($1, 'helpdesk', 'messages', 'new', 'new', 'no', false, now(), now())`,
    name,
  );
  expect(await problems(name)).toEqual(['rejects_open messages']);
  // The source's clock is an hour ahead of ours.
  await rows(
    `insert into sync.budget (account_id, source, state) values ($1, 'helpdesk', '{"clock": {"offsetMs": 3600000}}')`,
    name,
  );
  expect(await seconds()).toBeGreaterThanOrEqual(3600);
});

test('targets are what the settings say at each start', async () => {
  await rows(`insert into sync.accounts (account_id, since) values ('t', '2020-01-01'), ('u', '2020-01-01')`);
  const targets = () =>
    rows(
      `select account_id, subject, extract(epoch from target)::int as s from sync.targets where account_id in ('t', 'u') order by 1, 2`,
    );
  await keepTargets(db.pool, 'u', [{ subject: 'helpdesk.tickets', ms: 1000 }]);
  await keepTargets(db.pool, 't', [
    { subject: 'helpdesk.tickets', ms: 300_000 },
    { subject: 'nightly', ms: 21_600_000 },
  ]);
  await keepTargets(db.pool, 't', [
    { subject: 'helpdesk.tickets', ms: 60_000 },
    { subject: 'helpdesk.messages', ms: 90_000 },
  ]);
  expect(await targets()).toEqual([
    { account_id: 't', subject: 'helpdesk.messages', s: 90 },
    { account_id: 't', subject: 'helpdesk.tickets', s: 60 },
    { account_id: 'u', subject: 'helpdesk.tickets', s: 1 },
  ]);
  await keepTargets(db.pool, 't', []);
  expect(await targets()).toHaveLength(1);
});
