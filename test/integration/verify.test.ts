/** `verify`: what hands have changed is found field by field, and repaired; what is merely behind is no difference. */
import type pg from 'pg';
import { expect, test } from 'vitest';
import { exitCodes, Interrupted } from '../../src/errors.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/server.ts';
import { listStream } from '../../src/streams/index.ts';
import { messages } from '../../src/streams/messages.ts';
import { forecast } from '../../src/sync/forecast.ts';
import { runStream } from '../../src/sync/run-stream.ts';
import { totalOf, verifyStream } from '../../src/sync/verify.ts';
import { readProgress } from '../../src/warehouse/runs.ts';
import { type Asked, openVerification, readCounts, readFindings } from '../../src/warehouse/verifications.ts';
import { type InProcess, inProcess } from '../support/in-process.ts';
import { configFor, differences, noSandboxLimits, syncOnce, verifyOnce } from '../support/mirror.ts';
import { freshDatabase } from '../support/postgres.ts';

const open = async (options: Parameters<typeof startSandbox>[0]): Promise<Sandbox & AsyncDisposable> => {
  const sandbox = await startSandbox({ ...noSandboxLimits, ...options });
  return Object.assign(sandbox, { [Symbol.asyncDispose]: () => sandbox.close() });
};

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
  { of: 'ticket', sql: `delete from helpdesk.ticket_labels where ticket_id = $1`, field: 'ticket_labels' },
  {
    of: 'ticket',
    sql: `insert into helpdesk.ticket_labels values ('default', $1, 'odd')`,
    field: 'ticket_labels',
  },
  {
    of: 'message',
    sql: `update helpdesk.messages set body = 'another' where id = $1`,
    field: 'body',
    kind: 'message edits do not move updated_at',
  },
  {
    of: 'note',
    sql: `update helpdesk.messages set body = 'another' where id = $1`,
    field: 'body',
    kind: 'note edits do not move updated_at',
  },
  { of: 'message', sql: `update helpdesk.messages set from_address = 'x' where id = $1`, field: 'from_address' },
  { of: 'message', sql: `update helpdesk.messages set body_text = 'x' where id = $1`, field: 'body_text' },
  {
    of: 'message',
    sql: `delete from helpdesk.messages where id = $1`,
    field: 'row',
    kind: 'messages do not move updated_at',
  },
  {
    of: 'message',
    sql: `insert into helpdesk.messages
      select (jsonb_populate_record(m, '{"id": "more"}')).* from helpdesk.messages m where id = $1`,
    field: 'row',
    kind: 'messages do not move updated_at',
  },
  {
    of: 'message',
    sql: `insert into helpdesk.messages
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

test('differences made by hand: all are found, named by field, and repaired; the forecast is right', async () => {
  await using db = await freshDatabase();
  await using sandbox = await open({ tickets: 62, seed: 3 });
  const config = configFor(db.url, sandbox);
  await syncOnce(config);
  const sample = await verifyOnce(config, { sample: 5 });
  expect([sample.differences, sample.exitCode, sample.credits]).toEqual([[], exitCodes.ok, sample.forecast.credits]);
  const counted =
    'select stream, count(*) as n from sync.audit where random and differences is null group by 1 order by 1';
  expect((await db.pool.query(counted)).rows).toEqual(
    ['customers', 'messages', 'tickets'].map(stream => ({ stream, n: 5 })),
  );

  const taken = new Set<string>();
  const expected: string[] = [];
  const streamOf = { note: 'messages', contact: 'customers', attachment: 'messages', inbox: 'inboxes' };
  for (const { of, sql, field, kind = 'changed here', record } of byHand) {
    const row = await takeRow(db.pool, of, taken);
    await db.pool.query(sql, [row.id]);
    const stream = (streamOf as Record<string, string>)[of] ?? `${of}s`;
    expected.push([stream, record ?? row.parent, field, kind].join(' '));
  }
  const verified = await verifyOnce(config);
  const named = verified.differences.map(({ stream, record, field, kind }) => [stream, record, field, kind].join(' '));
  expect(named.sort()).toEqual(expected.sort());
  expect(verified.exitCode).toBe(exitCodes.differs);
  expect(Math.abs(verified.credits - verified.forecast.credits) / verified.credits).toBeLessThan(0.05);

  const repaired = await verifyOnce(config, { repair: true });
  expect(repaired.differences.map(one => one.repaired)).toEqual(named.map(() => true));
  expect(repaired.exitCode).toBe(exitCodes.differs);
  expect(await differences(db.pool, sandbox.world)).toEqual([]);

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
async function verify(s: InProcess, asked: Asked, interruptAt = Number.POSITIVE_INFINITY) {
  const small = (name: string) => ({ ...listStream(name), paging });
  const lists = { tickets: small('tickets'), customers: small('customers'), users: small('users') };
  const limits = { credits: 100, periodMs: 60_000, requestsPerSecond: 6, reserve: 10 };
  const expected = await forecast(s.pool, 'default', {
    sample: asked.sample,
    limits,
    nowMs: s.nowMs,
    count: list => totalOf(s.ctx, 'sweep', lists.tickets, list),
    ...lists,
  });
  const streams = asked.sample === null ? ['users', 'customers', 'tickets', 'messages'] : ['customers', 'tickets'];
  const run = { account: 'default', streams, opener: 0, asked, forecast: expected };
  const { run: id } = await openVerification(s.pool, run, new Date(s.nowMs));
  for (const stream of streams) {
    const read = (ctx: InProcess['ctx'], claim: Parameters<typeof verifyStream>[1]) =>
      verifyStream(ctx, claim, { ...lists, messages });
    const work = { account: 'default', run: id, stream };
    const stop = new AbortController();
    s.before = path => {
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
    expected: expected.credits,
    credits: progress.reduce((sum, { credits }) => sum + credits, 0),
    states: progress.map(({ state }) => state),
    found: (await readFindings(s.pool, id, 100)).found,
    counts: await readCounts(s.pool, id),
  };
}

test('whatever a list hides and `since` includes, and however deep it is: what is equal is equal, at the price that was told', async () => {
  const hidden = { spamListed: false, trashListed: false, archivedListed: false, snoozedListed: false };
  for (const options of [{}, { ...hidden, sinceInclusive: false }]) {
    await using s = await inProcess({ tickets: 55, seed: 9, ...options, paging });
    await s.sync();
    s.nowMs += 600_000;
    const { expected, credits, found, counts } = await verify(s, { sample: null, repair: false });
    expect({ found, credits }).toEqual({ found: [], credits: expected });
    expect(counts.every(one => one.ours === one.theirs_least && one.ours === one.theirs_most)).toBe(true);
    expect(counts.length).toBe('spamListed' in options ? 4 : 2);
  }
});

test('interrupted, it goes on where it was, and nothing is paid for twice', async () => {
  await using s = await inProcess({ tickets: 30, seed: 9, paging });
  await s.sync();
  s.nowMs += 600_000;
  await s.pool.query(`update helpdesk.messages set from_name = 'x'
    where id in ((select min(id) from helpdesk.messages), (select max(id) from helpdesk.messages))`);
  const { expected, credits, found } = await verify(s, { sample: null, repair: false }, 15);
  expect(found.map(({ kind }) => kind)).toEqual(['changed here', 'changed here']);
  expect(credits).toBe(expected);
});

test('while the world changes and a fifth of the requests fails, only what nothing announces differs', async () => {
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
  expect(found.filter(({ kind }) => !['customer edited', 'deleted'].includes(kind))).toEqual([]);
  expect(found.filter(({ repaired_at }) => repaired_at === null)).toEqual([]);
});
