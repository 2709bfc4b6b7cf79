/** `verify`: what hands have changed is found field by field, and repaired; what is merely behind is no difference. */

import type pg from 'pg';
import { expect, test } from 'vitest';
import { auditStream } from '../../jobs/audit-stream.ts';
import { areEqual } from '../../src/cli/work/verify.ts';
import { runStream } from '../../src/engine/load/run-stream.ts';
import { readProgress } from '../../src/engine/runs/runs.ts';
import { verifyStream } from '../../src/engine/verify/details/verify-stream.ts';
import { type Asked, openVerification, readCounts, readFindings } from '../../src/engine/verify/verifications.ts';
import { exitCodes, Interrupted } from '../../src/errors.ts';
import { messages } from '../../src/sources/helpdesk/messages/messages.ts';
import { buryTicket } from '../support/bury-ticket.ts';
import { type InProcess, inProcess } from '../support/in-process.ts';
import { keyOf, keysOf } from '../support/keys.ts';
import { long } from '../support/long.ts';
import { configFor, differences, syncOnce, verifyOnce } from '../support/mirror.ts';
import { openSandbox } from '../support/open-sandbox.ts';
import { freshDatabase } from '../support/postgres.ts';
import { listStream, withAudit } from '../support/sources.ts';

/** Rows that a hand may take, by what they are; each is taken once. */
const choice = {
  ticket: `select id from helpdesk.tickets where cardinality(label_ids) > 0`,
  message: `select id, ticket_id as parent from helpdesk.messages where type = 'reply'`,
  note: `select id, ticket_id as parent from helpdesk.messages where type = 'note'`,
  attachment: `select id, ticket_id as parent from helpdesk.attachments`,
  customer: 'select id from helpdesk.customers',
  contact: 'select id, customer_id as parent from helpdesk.contacts',
  user: 'select id from helpdesk.users',
  label: 'select id from helpdesk.labels',
  inbox: 'select id from helpdesk.inboxes',
};

/** What a hand does to a row ($1), and how that is to be found; `record` of another one than the row's own or its parent's. */
const byHand: {
  of: keyof typeof choice;
  sql: string;
  field: string;
  kind?: string;
  record?: string;
  stream?: string;
}[] = [
  { of: 'ticket', sql: `update helpdesk.tickets set subject = 'another' where id = $1`, field: 'subject' },
  { of: 'ticket', sql: `update helpdesk.tickets set number = null where id = $1`, field: 'number' },
  {
    of: 'ticket',
    sql: `update helpdesk.tickets set updated_at = updated_at - interval '1 day' where id = $1`,
    field: 'updated_at',
  },
  // Newer than the source's own: no merge would go over it.
  {
    of: 'ticket',
    sql: `update helpdesk.tickets
      set updated_at = updated_at + interval '1 hour', _observed_at = _observed_at - interval '10 minutes' where id = $1`,
    field: 'updated_at',
  },
  {
    of: 'ticket',
    sql: `update helpdesk.tickets set _payload = _payload || '{"subject": "x"}' where id = $1`,
    field: '_payload.subject',
  },
  {
    of: 'ticket',
    sql: `update helpdesk.tickets set _payload = _payload || '{"odd": 1}' where id = $1`,
    field: '_payload.odd',
    kind: 'edits do not move updated_at',
  },
  {
    of: 'ticket',
    sql: `update helpdesk.tickets set state = 'x', _payload = _payload || '{"state": "x"}' where id = $1`,
    field: 'state',
    kind: 'state changes do not move updated_at',
  },
  { of: 'ticket', sql: `delete from helpdesk.tickets where id = $1`, field: 'row', kind: 'missing here' },
  {
    of: 'ticket',
    sql: `update helpdesk.tickets set _deleted_at = now() where id = $1`,
    field: 'row',
    kind: 'came back',
  },
  {
    of: 'ticket',
    sql: `insert into helpdesk.tickets
      select (jsonb_populate_record(t, '{"id": "extra"}')).* from helpdesk.tickets t where id = $1`,
    field: 'row',
    record: 'extra',
    kind: 'only here',
  },
  {
    of: 'message',
    sql: `update internal.messages set body = 'another' where id = $1`,
    field: 'body',
    kind: 'message edits do not move updated_at',
  },
  {
    of: 'note',
    sql: `update internal.messages set body = 'another' where id = $1`,
    field: 'body',
    kind: 'note edits do not move updated_at',
  },
  { of: 'message', sql: `update internal.messages set from_address = 'x' where id = $1`, field: 'from_address' },
  { of: 'message', sql: `update internal.messages set body_text = 'x' where id = $1`, field: 'body_text' },
  {
    of: 'message',
    sql: `delete from internal.messages where id = $1`,
    field: 'row',
    kind: 'messages do not move updated_at',
  },
  {
    of: 'message',
    sql: `insert into internal.messages
      select (jsonb_populate_record(m, '{"id": "more"}')).* from helpdesk.messages m where id = $1`,
    field: 'row',
    kind: 'messages do not move updated_at',
  },
  {
    of: 'message',
    sql: `insert into internal.messages
      select (jsonb_populate_record(m, '{"id": "lost", "ticket_id": "none"}')).* from helpdesk.messages m where id = $1`,
    field: 'messages.row',
    record: 'none',
    kind: 'only here',
  },
  { of: 'attachment', sql: `update helpdesk.attachments set size = 7 where id = $1`, field: 'attachments.size' },
  { of: 'customer', sql: `update helpdesk.customers set first_name = 'another' where id = $1`, field: 'first_name' },
  {
    of: 'customer',
    sql: `update helpdesk.customers set last_name = 'X', _payload = _payload || '{"last_name": "X"}' where id = $1`,
    field: 'last_name',
    kind: 'customer edited',
  },
  {
    of: 'customer',
    sql: `insert into helpdesk.customers
      select (jsonb_populate_record(t, '{"id": "extra"}')).* from helpdesk.customers t where id = $1`,
    field: 'row',
    record: 'extra',
    kind: 'only here',
  },
  { of: 'customer', sql: `delete from helpdesk.customers where id = $1`, field: 'row', kind: 'missing here' },
  { of: 'contact', sql: `update helpdesk.contacts set value = 'another' where id = $1`, field: 'contacts.value' },
  { of: 'contact', sql: `delete from helpdesk.contacts where id = $1`, field: 'contacts.row' },
  { of: 'user', sql: `update helpdesk.users set email = 'another' where id = $1`, field: 'email' },
  {
    of: 'user',
    sql: `insert into helpdesk.users select (jsonb_populate_record(t, '{"id": "extra"}')).* from helpdesk.users t where id = $1`,
    field: 'row',
    record: 'extra',
    kind: 'only here',
  },
  {
    of: 'label',
    sql: `update helpdesk.labels set name = 'another' where id = $1`,
    field: 'name',
    kind: 'renamed',
  },
  { of: 'inbox', sql: `update helpdesk.inboxes set name = null where id = $1`, field: 'name', kind: 'renamed' },
];

/** No two of them on one ticket, or on one customer. */
async function takeRow(
  db: pg.Pool,
  of: keyof typeof choice,
  taken: Set<string>,
): Promise<{ id: string; parent: string }> {
  const { rows } = await db.query<{ id: string; parent?: string }>(`${choice[of]} order by 1`);
  const row = rows.map(one => ({ parent: one.id, ...one })).find(({ parent }) => !taken.has(parent));
  if (row === undefined) throw new Error(`there is no ${of} left`);
  taken.add(row.parent);
  return row;
}

test('differences made by hand: all are found, named by field, and repaired; what it takes was told about right', async () => {
  await using db = await freshDatabase();
  await using sandbox = await openSandbox({ tickets: 62, seed: 3 });
  const config = configFor(db.url, sandbox);
  await syncOnce(config);
  const sample = await verifyOnce(config, { sample: 5 });
  // What is counted at the source costs 18 credits more than the records.
  expect([sample.differences, sample.exitCode, sample.credits]).toEqual([[], exitCodes.ok, 33]);
  expect(sample.forecast).toEqual({ credits: 15, seconds: expect.any(Number) });
  const counted =
    'select stream, count(*) as n from sync.audit where random and differences is null group by 1 order by 1';
  expect((await db.pool.query(counted)).rows).toEqual(
    ['customers', 'messages', 'tickets'].map(stream => ({ stream, n: 5 })),
  );

  const history = `select 'ticket' as what, id, _first_seen_at, _listed_by, null as after, null as before from helpdesk.tickets
    union all select 'customer', id, _first_seen_at, null, _created_after, _created_before from helpdesk.customers order by 1, 2`;
  const { rows: known } = await db.pool.query<{ what: string; id: string }>(history);
  const removed = new Set<string>();
  const taken = new Set<string>();
  const expected: string[] = [];
  const streamOf = { note: 'messages', contact: 'customers', attachment: 'messages', inbox: 'inboxes' };
  for (const { of, sql, field, kind = 'changed here', record } of byHand) {
    const row = await takeRow(db.pool, of, taken);
    await db.pool.query(sql, [row.id]);
    if (sql.startsWith('delete from helpdesk.tickets') || sql.startsWith('delete from helpdesk.customers'))
      removed.add(`${of} ${row.id}`);
    const stream = (streamOf as Record<string, string>)[of] ?? `${of}s`;
    expected.push([stream, record ?? row.parent, field, kind].join(' '));
  }
  const verified = await verifyOnce(config);
  const named = verified.differences.map(({ stream, record, field, kind }) => [stream, record, field, kind].join(' '));
  expect(named.sort()).toEqual(expected.sort());
  expect(verified.exitCode).toBe(exitCodes.differs);
  // Counting, names and what is asked for once more come on top of the rows.
  const more = verified.credits - verified.forecast.credits;
  expect(more > 0 && more < 70, `${more} more`).toBe(true);

  const repaired = await verifyOnce(config, { repair: true });
  expect(repaired.differences.map(one => one.repaired)).toEqual(named.map(() => true));
  expect(repaired.exitCode).toBe(exitCodes.differs);
  expect(await differences(db.pool, sandbox.world)).toEqual([]);
  // What only was here was there until some time.
  const buried = 'select id, _deleted_after < _deleted_at as dated from helpdesk.tickets where _deleted_at is not null';
  expect((await db.pool.query(buried)).rows).toContainEqual({ id: 'extra', dated: true });

  // What was here before is the row that it was.
  const stays = ({ what, id }: { what: string; id: string }) => id !== 'extra' && !removed.has(`${what} ${id}`);
  expect((await db.pool.query<{ what: string; id: string }>(history)).rows.filter(stays)).toEqual(known.filter(stays));

  // From here on the mirror is behind, which is no difference; what nothing announces is one.
  const { world } = sandbox;
  const [first, second] = [...world.tickets.values()];
  world.patchTicket(first!.id, { state: first!.state === 'open' ? 'closed' : 'open' });
  world.addMessage(second!.id, { body: 'A reply just now' });
  const customer = world.customers.add({ first_name: 'New' });
  world.addTicket({ customer_id: customer.id, subject: 'A new one' });
  const after = await verifyOnce(config);
  expect(after.differences).toEqual([]);
  expect(after.exitCode).toBe(exitCodes.ok);
});

const paging = { perPage: 10, depth: 50 };

/** A verification with small pages, stream by stream. */
async function verify(s: InProcess, asked: Asked, interruptAt = Number.POSITIVE_INFINITY, only?: readonly string[]) {
  const small = (name: string) => ({ ...listStream(keyOf(name)), paging });
  const lists = { tickets: small('tickets'), customers: small('customers'), users: small('users') };
  const all = ['users', 'customers', 'tickets', 'messages'];
  const streams = keysOf(only ?? (asked.sample === null ? all : ['customers', 'tickets']));
  const run = { account: 'default', streams, opener: 0, asked, forecast: { credits: 0, seconds: 0 } };
  const { run: id } = await openVerification(s.pool, run, new Date(s.nowMs));
  for (const stream of streams) {
    const read = (ctx: InProcess['ctx'], claim: Parameters<typeof verifyStream>[1]) =>
      verifyStream(ctx, claim, Object.values(lists), messages);
    const work = { account: 'default', run: id, stream };
    const stop = new AbortController();
    const { before } = s;
    s.before = (path, query) => {
      if (interruptAt === Number.POSITIVE_INFINITY) return before(path, query);
      if (path.startsWith('/tickets/') && --interruptAt === 0) stop.abort(new Interrupted());
      return undefined;
    };
    await runStream({ ...s.ctx, signal: stop.signal }, work, { read }).catch((error: Error) => {
      if (!(error instanceof Interrupted)) throw error;
    });
    if (stop.signal.aborted) await runStream(s.ctx, work, { read });
  }
  const progress = (await readProgress(s.pool, id)).streams;
  return {
    credits: progress.reduce((sum, { credits }) => sum + credits, 0),
    states: progress.map(({ state }) => state),
    errors: progress.flatMap(({ error }) => error ?? []),
    found: (await readFindings(s.pool, id, 100)).found,
    counts: await readCounts(s.pool, id),
  };
}

test(
  'whatever a list hides and `since` includes, and however deep it is: what is equal is equal, and each credit is needed',
  long,
  async () => {
    const hidden = { spamListed: false, trashListed: false, archivedListed: false, snoozedListed: false };
    for (const [options, price] of [
      [{}, 159],
      [{ ...hidden, sinceInclusive: false }, 93],
    ] as const) {
      await using s = await inProcess({ tickets: 55, seed: 9, ...options, paging });
      await s.sync();
      s.nowMs += 600_000;
      const first = await verify(s, { sample: null, repair: false });
      expect({ found: first.found, credits: first.credits }).toEqual({ found: [], credits: price });
      expect(first.counts.every(one => one.ours === one.theirs_least && one.ours === one.theirs_most)).toBe(true);
      expect(first.counts.length).toBe('spamListed' in options ? 4 : 2);
      if (!('archivedListed' in options)) continue;
      // Once listed, then archived: here it is, and no list shows it.
      const listed = [...s.world.tickets.values()].filter(one => !one.spam && !one.trash && one.state !== 'snoozed');
      for (const { id } of listed.slice(0, 12)) s.world.archive(id);
      await s.sync();
      s.nowMs += 600_000;
      for (const [sample, price] of [
        [null, 97],
        [5, 39],
      ] as const) {
        const { credits, found, counts, states } = await verify(s, { sample, repair: false });
        expect({ found, credits }).toEqual({ found: [], credits: price });
        expect(states).toEqual(states.map(() => 'completed'));
        expect(counts.some(one => one.ours! > one.theirs_most!)).toBe(true);
        expect(areEqual(counts, {})).toBe(true);
      }
    }
  },
);

test('interrupted, it goes on where it was, and nothing is paid for twice', long, async () => {
  await using s = await inProcess({ tickets: 30, seed: 9, paging });
  await s.sync();
  s.nowMs += 600_000;
  await s.pool.query(`update internal.messages set from_name = 'x'
    where id in ((select min(id) from helpdesk.messages), (select max(id) from helpdesk.messages))`);
  const { credits, found } = await verify(s, { sample: null, repair: false }, 15);
  expect(found.map(({ kind }) => kind)).toEqual(['changed here', 'changed here']);
  expect((await verify(s, { sample: null, repair: false })).credits).toBe(credits);
});

test(
  'while the world changes and a fifth of the requests fails, only what nothing announces differs',
  long,
  async () => {
    await using s = await inProcess({ tickets: 40, seed: 4, activity: 120, paging });
    await s.sync();
    s.nowMs += 20_000;
    s.rules.set([
      { share: 0.07, seed: 1, fault: { kind: 'status', status: 503 } },
      { share: 0.07, seed: 2, fault: { kind: 'reset', after: 'half' } },
      { share: 0.06, seed: 3, fault: { kind: 'truncate' } },
    ]);
    const { found, states } = await verify(s, { sample: null, repair: true });
    expect(states).toEqual(states.map(() => 'completed'));
    expect(found.length).toBeGreaterThan(0);
    expect(found.filter(({ kind }) => !['customer edited', 'deleted', 'renamed'].includes(kind))).toEqual([]);
    expect(found.filter(({ repaired_at }) => repaired_at === null)).toEqual([]);
  },
);

const lag = { kind: 'lag', seconds: 110 } as const;

test('what a copy of the source that is behind does not show yet is not gone, and what it shows still is not the truth', async () => {
  await using s = await inProcess({ tickets: 12, seed: 3 });
  await s.sync();
  s.nowMs += 600_000;
  s.rules.set([{ path: '/nowhere', fault: lag }]);
  const customer = s.world.customers.add({ first_name: 'New' });
  const fresh = s.world.addTicket({ customer_id: customer.id, subject: 'A new one' });
  const [old] = [...s.world.tickets.values()].filter(({ messages }) => messages.length > 0);
  s.world.patchTicket(old!.id, { subject: 'Another' });
  s.world.addMessage(old!.id, { body: 'A reply just now' });
  s.nowMs += 5000;
  await s.sync();
  s.nowMs += 30_000;
  s.rules.set([{ fault: lag }]);
  for (const sample of [1000, null]) {
    const { found, states } = await verify(s, { sample, repair: true });
    expect(found).toEqual([]);
    expect(states).toContain('partial');
  }
  s.ctx = withAudit(s.ctx, { perHour: 100 });
  const run = await s.open('audit', ['tickets']);
  await auditStream.run(s.ctx, { account: 'default', run, stream: 'tickets' });
  expect(await s.rows('select kind from sync.audit where differences is not null')).toEqual([]);
  expect(await s.rows('select id from helpdesk.tickets where id = $1 and _deleted_at is null', fresh.id)).toHaveLength(
    1,
  );
  expect(await differences(s.pool, s.world)).toEqual([]);
});

test('a wrong tombstone is found even if no list shows the ticket, and no live row is removed', async () => {
  await using s = await inProcess({ tickets: 30, seed: 3, archivedListed: false });
  await s.sync();
  s.nowMs += 600_000;
  const listed = new Set((await s.rows('select id from helpdesk.tickets')).map(({ id }) => id));
  const [a, b, c, d] = [...s.world.tickets.values()].filter(
    ({ id, messages }) => listed.has(id) && messages.length > 1,
  );
  for (const { id } of [a!, d!]) s.world.archive(id);
  s.nowMs += 600_000;
  await s.sync();
  s.nowMs += 600_000;
  s.world.deleteTicket(b!.id);
  await s.run('sweep', ['customers', 'tickets']);
  s.nowMs += 600_000;
  const members = (id: string) =>
    s.rows(
      'select id, _deleted_at is not null as gone from helpdesk.messages where ticket_id = $1 order by position',
      id,
    );
  const hers = await members(b!.id);
  expect(hers.map(({ gone }) => gone)).toEqual(hers.map(() => true));
  await s.pool.query('update internal.messages set _deleted_at = null where ticket_id = $1', [b!.id]);
  // Deleted for good, and here already: of what hangs on it nothing is known to the source any more.
  s.world.deleteTicket(c!.id);
  await s.pool.query('delete from helpdesk.tickets where id = $1', [c!.id]);
  // By a hand, and as a worker would.
  const gone = new Date(s.nowMs - 1000);
  await s.pool.query('update helpdesk.tickets set _deleted_at = $2 where id = $1', [a!.id, gone]);
  const client = await s.pool.connect();
  await buryTicket(client, { account: 'default', run: null }, d!.id, s.nowMs - 5000, gone);
  client.release();
  const named = (found: Awaited<ReturnType<typeof verify>>['found']) =>
    found.map(({ stream, record, kind, repaired_at }) => [stream, record, kind, repaired_at !== null]);
  const wrong = (repaired: boolean) => [
    ...[a!.id, d!.id].sort().map(id => ['tickets', id, 'came back', repaired]),
    ...[b!.id, c!.id].sort().map(id => ['messages', id, 'only here', repaired]),
  ];
  const seen = await verify(s, { sample: null, repair: false });
  expect(named(seen.found)).toEqual(wrong(false));
  expect(seen.credits).toBe(52);
  expect(named((await verify(s, { sample: null, repair: true })).found)).toEqual(wrong(true));
  for (const { id, messages } of [a!, d!])
    expect((await members(id)).filter(one => !one.gone)).toHaveLength(messages.length);
  expect(await members(b!.id)).toEqual(hers);
  expect(await members(c!.id)).toEqual([]);
  expect(
    await s.rows(`select distinct record_id from sync.changes where table_name = 'messages' and parent_id = $1`, c!.id),
  ).toHaveLength(c!.messages.length);
});

test('what is refused is no repair, and what lies in a gap, or came between two counts, is said to be so', async () => {
  await using s = await inProcess({ tickets: 24, seed: 3 });
  await s.sync();
  s.nowMs += 600_000;
  const everything = { sample: null, repair: true };
  const openRejects = () => s.rows('select stream, ask_id from sync.rejects where cleared_at is null');
  const [message] = await s.rows('select id, ticket_id from helpdesk.messages order by id limit 1');
  await s.pool.query('delete from internal.messages where id = $1', [message!.id]);
  await s.pool.query(`create function refuse() returns trigger language plpgsql as $f$
    begin if new.id = '${message!.id as string}' then raise exception 'refused' using errcode = '54000'; end if; return new; end $f$;
    create trigger refuse before insert or update on internal.messages for each row execute function refuse()`);
  const refused = await verify(s, everything, undefined, ['messages']);
  expect(refused.found.map(({ record, repaired_at }) => [record, repaired_at])).toEqual([[message!.ticket_id, null]]);
  expect(await openRejects()).toEqual([{ stream: 'messages', ask_id: message!.ticket_id }]);
  expect((await verify(s, { sample: null, repair: false }, undefined, ['messages'])).found).toEqual([]);
  await s.pool.query('drop trigger refuse on internal.messages');
  await s.pool.query(
    `insert into sync.rejects (account_id, source, stream, key, record_id, ask_id, first_seen_at, last_seen_at, reason, replayable)
     select 'default', 'helpdesk', 'tickets', id, id, id, $1, $1, 'x', false from helpdesk.tickets where id <> $2 order by id limit 1`,
    [new Date(s.nowMs), message!.ticket_id],
  );
  await s.pool.query(
    `update helpdesk.tickets set subject = 'by hand' where id in (select record_id from sync.rejects)`,
  );
  expect((await verify(s, everything)).found.map(({ repaired_at }) => repaired_at !== null)).toEqual([true, true]);
  expect(await openRejects()).toEqual([]);
  expect(await differences(s.pool, s.world)).toEqual([]);

  // One comes between two counts, and is here already at the next one.
  let counts = 0;
  const [one] = s.world.tickets.values();
  s.before = (path, query) => {
    if (path === '/tickets' && query.get('per_page') === '0' && ++counts === 3)
      s.world.addTicket({ customer_id: one!.customer_id, subject: 'A new one' });
    return undefined;
  };
  const counted = await verify(s, { sample: 5, repair: false });
  expect(areEqual(counted.counts, {})).toBe(true);
  s.before = () => undefined;

  // A worker whose clock was ahead has written it: of no reply it can be said that it is newer.
  const ahead = new Date(s.nowMs + 3_600_000);
  await s.pool.query(
    `update helpdesk.users set email = 'x', _synced_at = $1 where id = (select min(id) from helpdesk.users)`,
    [ahead],
  );
  const users = await verify(s, { sample: null, repair: false }, undefined, ['users']);
  expect([users.found, users.errors]).toEqual([[], ['1 record could not be compared']]);

  await s.sync();
  s.nowMs += 600_000;
  const tickets = await s.rows('select id, updated_at from helpdesk.tickets order by updated_at');
  const gap = tickets[3]!.updated_at as Date;
  await s.pool.query(
    `update sync.coverage set covered = covered - tstzmultirange(tstzrange($1, $1::timestamptz + interval '1 second'))
     where stream = 'tickets'`,
    [gap],
  );
  const lost = tickets.slice(10, 14).map(({ id }) => id as string);
  for (const [table, id] of Object.entries({
    messages: 'ticket_id',
    attachments: 'ticket_id',
    tickets: 'id',
  }))
    await s.pool.query(`delete from helpdesk.${table} where ${id} = any($1)`, [lost]);
  const gapd = await verify(s, { sample: null, repair: false }, undefined, ['tickets']);
  expect(gapd.found.map(({ record, kind }) => `${record} ${kind}`).sort()).toEqual(
    lost.map(id => `${id} missing here`).sort(),
  );
  expect(gapd.errors[0]).toContain(`have not been read, the first from ${gap.toISOString()}`);
});
