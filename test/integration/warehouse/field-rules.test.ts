/** Field rules: what they leave out arrives nowhere, and what was there before they came is taken out. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { replay } from '../../../src/engine/load/replay.ts';
import { runStream } from '../../../src/engine/load/run-stream.ts';
import { takeUp } from '../../../src/engine/runs/claims.ts';
import { verifyStream } from '../../../src/engine/verify/details/verify-stream.ts';
import { openVerification, readFindings } from '../../../src/engine/verify/verifications.ts';
import { applyToStored } from '../../../src/privacy/fields/apply.ts';
import { type FieldRules, formOf } from '../../../src/privacy/fields/field-rules.ts';
import { parseRules } from '../../../src/privacy/fields/parse-field-rules.ts';
import { fullRulesOf, keepFieldRules, liftRule, storedRules } from '../../../src/privacy/fields/stored-rules.ts';
import { customers } from '../../../src/sources/helpdesk/customers.ts';
import { messages } from '../../../src/sources/helpdesk/messages/messages.ts';
import { tickets } from '../../../src/sources/helpdesk/tickets.ts';
import { users } from '../../../src/sources/helpdesk/users.ts';
import { kinds, streams } from '../../../src/sources/index.ts';
import { canary, spoiler } from '../../support/canaries.ts';
import { type InProcess, inProcess } from '../../support/in-process.ts';

const rulesOf = (text: string, key = 'a key of sixteen'): FieldRules => ({
  kinds,
  rules: parseRules(text, kinds),
  key,
});
const all = rulesOf('tickets.* messages.* attachments.* customers.* contacts.* users.* labels.* inboxes.*');

/** Rows of any table that hold the text. */
async function holding(s: InProcess, text: string): Promise<string[]> {
  const tables = await s.rows(
    `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where c.relkind in ('r', 'm') and n.nspname !~ '^(pg_|information_schema)' order by 1`,
  );
  const found: string[] = [];
  for (const { name } of tables)
    for (const { row } of await s.rows(`select t::text as row from ${name} t where strpos(t::text, $1) > 0`, text))
      found.push(`${name}: ${row}`);
  return found;
}

/** Files of the database, and of the server's log of writes, that hold the text. Undefined if the server is elsewhere. */
async function filesHolding(s: InProcess, text: string, { log = false } = {}): Promise<string[] | undefined> {
  if (process.env.TEST_DATABASE_URL) return undefined;
  await s.rows('checkpoint');
  const [at] = await s.rows(
    `select current_setting('data_directory') as data, oid::text from pg_database where datname = current_database()`,
  );
  const found: string[] = [];
  for (const folder of [`base/${at!.oid}`, ...(log ? ['pg_wal'] : [])])
    for (const { name } of await readdir(join(String(at!.data), folder), { withFileTypes: true })) {
      // A table that is replaced meanwhile takes its file with it.
      const bytes = await readFile(join(String(at!.data), folder, name)).catch(() => Buffer.of());
      if (bytes.includes(text)) found.push(`${folder}/${name}`);
    }
  return found;
}

/** Verifies everything, and repairs it. Returns the number of records that differed. */
async function verified(s: InProcess): Promise<number> {
  const lists = { users, customers, tickets, messages };
  const of = Object.values(lists).map(({ key }) => key);
  const { run } = await openVerification(
    s.pool,
    {
      ...{ account: 'default', streams: of, opener: 0 },
      ...{ asked: { sample: null, repair: true }, forecast: { credits: 0, seconds: 0 } },
    },
    new Date(s.nowMs),
  );
  for (const stream of of)
    await runStream(
      s.ctx,
      { account: 'default', run, stream },
      { read: (ctx, claim) => verifyStream(ctx, claim, [users, customers, tickets], messages) },
    );
  return (await readFindings(s.pool, run, 1000)).found.length;
}

test('nothing of what is left out is in any table: after a sync, changes, sweeps, rejects, drift, a repair, replays and a backfill', async () => {
  await using s = await inProcess({ tickets: 12, seed: 5, fieldRules: all });
  let isOdd = false;
  const texts = spoiler();
  s.reword = text => {
    const odd = /^[{[]/.test(text) ? texts.spoil(text) : text;
    // Every third message cannot be read.
    return isOdd
      ? odd.replaceAll(/"body":"ZZCANARY-(\d+)3 /g, `"created_at":["${canary}"],"body":"${canary}-$1 `)
      : odd;
  };
  // Messages that this database cannot take, for now.
  await s.pool.query(`
    create function public.refuse() returns trigger language plpgsql as $$ begin
      raise exception 'too much for %', new.id using errcode = '22023'; end $$;
    create trigger refuse before insert or update on internal.messages for each row when (hashtext(new.id) % 3 = 0) execute function public.refuse()`);
  await s.sync();
  isOdd = true;
  for (const ticket of [...s.world.tickets.values()].slice(0, 4)) s.world.touch(ticket.id);
  s.nowMs += 3_600_000;
  await s.sync();
  await s.rows('drop trigger refuse on internal.messages');
  const replayable = await s.rows('select id::int from sync.rejects where replayable and cleared_at is null');
  expect(replayable.length).toBeGreaterThan(0);
  for (const { id } of replayable) await replay(s.ctx, streams, id as number);
  await s.run('sweep', ['customers']);
  await s.run('sweep', ['tickets']);
  await s.rows(`update helpdesk.tickets set number = 0, _payload = _payload || '{"number": 0}'`);
  expect(await verified(s)).toBe(12);
  expect(await s.rows('select from helpdesk.tickets where number = 0')).toEqual([]);
  for (const ticket of s.world.tickets.values()) s.world.touch(ticket.id);
  s.nowMs += 3_600_000;
  const range = { since: null, until: null, again: true };
  for (const name of ['customers', 'tickets']) await s.run('backfill', [name], { range });
  await s.sync(['messages']);
  expect(texts.count).toBeGreaterThan(1500);
  expect(await s.rows('select count(*)::int as n from helpdesk.tickets')).toEqual([{ n: 12 }]);
  expect(await holding(s, canary)).toEqual([]);
  expect((await filesHolding(s, canary, { log: true })) ?? []).toEqual([]);
});

test('what was there before a rule is taken out, once it is applied; then a sync changes nothing', async () => {
  await using s = await inProcess({ tickets: 12, seed: 5 });
  await s.sync();
  for (const ticket of [...s.world.tickets.values()].slice(0, 3)) ticket.subject = 'SECRET was here';
  for (const ticket of [...s.world.tickets.values()].slice(0, 3)) s.world.touch(ticket.id);
  s.nowMs += 3_600_000;
  await s.sync();
  for (const ticket of [...s.world.tickets.values()].slice(0, 3)) {
    ticket.subject = 'public again';
    s.world.touch(ticket.id);
  }
  s.nowMs += 3_600_000;
  await s.sync();
  expect((await holding(s, 'SECRET')).map(row => row.split(':')[0])).toEqual(Array(6).fill('sync.changes'));
  const [before] = await s.rows('select count(*)::int as n, count(body_text) as texts from internal.messages');
  expect(before).toMatchObject({ n: expect.any(Number) });
  const addresses = (await s.rows('select value from helpdesk.contacts')).map(({ value }) => String(value));
  expect(addresses.length).toBeGreaterThan(3);
  const rules = rulesOf(
    'tickets.subject tickets.reply_* messages.body:truncate=5 messages.from:domain messages.to:hash contacts.value:hash',
  );
  const now = new Date(s.nowMs);
  // The statistics of the planner hold values too.
  await s.rows('analyze');
  const proofs = async () => (await s.rows('select count(*)::int as n from internal.stored_sets'))[0]!.n;
  expect(await proofs()).toBeGreaterThan(0);
  expect((await keepFieldRules(s.pool, 'default', rules, now)).map(({ rule }) => rule)).toHaveLength(6);
  // A digest of what a rule takes out would confirm a guess of it.
  expect(await proofs()).toBe(0);
  const told: string[] = [];
  const applying = {
    ...{ streams, now, signal: new AbortController().signal },
    told: ({ of }: { of: string }) => void told.push(of),
  };
  const changed = await applyToStored(s.pool, 'default', rules, applying);
  expect(changed).toMatchObject({ 'helpdesk.tickets': 12, changes: 3 + 3, rejects: 0 });
  expect(told).toContain('helpdesk.messages');
  expect(await holding(s, 'SECRET')).toEqual([]);
  for (const address of addresses) expect(await holding(s, address)).toEqual([]);
  expect(
    await s.rows(`select count(*)::int as n from helpdesk.messages where length(body) > 5 or length(body_text) > 5
      or from_address not like '@%' or _payload ->> 'from' not like '@%'`),
  ).toEqual([{ n: 0 }]);
  expect(await s.rows(`select count(*)::int as n from helpdesk.contacts where value !~ '^h:[0-9a-f]{32}$'`)).toEqual([
    { n: 0 },
  ]);
  expect((await storedRules(s.pool, 'default')).every(({ applied_at }) => applied_at !== null)).toBe(true);
  expect(Object.values(await applyToStored(s.pool, 'default', rules, applying))).toEqual(
    Object.values(changed).map(() => 0),
  );
  expect((await filesHolding(s, 'SECRET'))?.length).not.toBe(0);
  const left = async () => {
    await s.rows('vacuum (full, analyze)');
    // It leaves the statistics of before as old row versions.
    await s.rows('vacuum full pg_statistic');
    return (await filesHolding(s, 'SECRET')) ?? [];
  };
  // A vacuum keeps old row versions that another session may still see: autovacuum, for one, while it looks at the same database.
  await expect.poll(left, { timeout: 60_000, interval: 1000 }).toEqual([]);
});

test('hashes fold an address as the masked views do, and hashes from before that are not mixed with them', async () => {
  await using s = await inProcess({ tickets: 1, seed: 5 });
  const spelt = [
    ' Ada@B.c',
    '@Ada',
    '+49 (30) 1-2.3/4',
    '030 12',
    '--',
    'x +49',
    'ÄÖ',
    'ΟΔΥΣΣΕΥΣ@ΒΣ.ΓΡ',
    'İSTANBUL@x.tr',
    'ǅ@ﬀ.de',
    '12',
    '+ 1 2',
    '',
    '@@x',
    ' @y ',
  ];
  const [row] = await s.rows('select array(select sync.contact_form(v) from unnest($1::text[]) v) as forms', spelt);
  expect(spelt.map(formOf)).toEqual(row!.forms);
});

test('a rule is one in both spellings, and a respelt rule stays the same rule', async () => {
  await using s = await inProcess({ tickets: 1, seed: 5 });
  const keep = (text: string) => keepFieldRules(s.pool, 'default', rulesOf(text), new Date(s.nowMs));
  const stored = async () => (await storedRules(s.pool, 'default')).map(one => [one.rule, one.full_rule]);
  await keep('messages.body helpdesk.messages.body:leave-out');
  expect(await stored()).toEqual([['messages.body', 'helpdesk.messages.body']]);
  await keep('helpdesk.messages.body');
  expect(await stored()).toEqual([['helpdesk.messages.body', 'helpdesk.messages.body']]);
  await keep('messages.body');
  await liftRule(s.pool, { account: 'default', who: 'ada', rule: 'helpdesk.messages.body' }, new Date(s.nowMs));
  expect(await stored()).toEqual([]);
});

test('a process without the rules of the warehouse is refused, and one that runs already commits no more', async () => {
  await using s = await inProcess({ tickets: 4, seed: 5 });
  const now = new Date(s.nowMs);
  const run = await s.open('sync', ['tickets']);
  const work = { account: 'default', run, stream: 'helpdesk.tickets' } as const;
  const old = { worker: 0, job: 'job' };
  expect(await takeUp(s.pool, work, old, () => now)).toMatchObject({ taken: { token: 1 } });
  const rules = rulesOf('messages.body contacts.value:hash');
  await keepFieldRules(s.pool, 'default', rules, now);
  expect(await s.rows('select state, token from sync.stored_run_streams')).toEqual([{ state: 'waiting', token: 2 }]);
  await expect(takeUp(s.pool, work, old, () => now)).rejects.toThrow(/other field rules .*contacts.value:hash/);
  expect(await takeUp(s.pool, work, { ...old, rules: fullRulesOf(rules) }, () => now)).toMatchObject({
    taken: { token: 3 },
  });
  for (const [of, why] of [
    [undefined, /keeps less of account 'default': contacts.value:hash/],
    [rulesOf('contacts.value:hash'), /messages.body, which FIELD_RULES does not have/],
    [rulesOf('messages.body contacts.value:hash', 'another key, as long'), /another key than FIELD_RULES_KEY/],
  ] as const)
    await expect(keepFieldRules(s.pool, 'default', of, now)).rejects.toThrow(why);
  await liftRule(s.pool, { account: 'default', who: 'me', rule: 'messages.body' }, now);
  await keepFieldRules(s.pool, 'default', rulesOf('contacts.value:hash'), now);
  await expect(liftRule(s.pool, { account: 'default', who: 'me', rule: 'messages.body' }, now)).rejects.toThrow(
    /has no rule messages.body/,
  );
});
