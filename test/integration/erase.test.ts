/**
 * A person who was erased: whatever comes afterwards, by whatever way, no column of the database holds anything of theirs that
 * the source still shows; and what the others have is not touched.
 */

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { addRejects } from '../../src/cli/look/rejects.ts';
import { addWhy } from '../../src/cli/look/why.ts';
import { addErase } from '../../src/cli/setup/erase.ts';
import { replay } from '../../src/engine/load/replay.ts';
import { runStream } from '../../src/engine/load/run-stream.ts';
import { verifyStream } from '../../src/engine/verify/details/verify-stream.ts';
import { openVerification, readFindings } from '../../src/engine/verify/verifications.ts';
import { messages } from '../../src/sources/helpdesk/messages/messages.ts';
import { streams } from '../../src/sources/index.ts';
import { command } from '../support/command.ts';
import { type InProcess, inProcess } from '../support/in-process.ts';
import { keysOf } from '../support/keys.ts';
import { configFor } from '../support/mirror.ts';
import { listStream } from '../support/sources.ts';

const both = ['customers', 'tickets'];
const again = { range: { since: null, until: null, again: true } };
const configOf = ({ url }: InProcess) =>
  configFor(url, {
    url: 'https://desk.example/api/v1',
    token: 'none',
  });

/** Every text that the source has of a person, in one line and long enough to be theirs alone; nobody else's record shows it. */
function textsOf({ world }: InProcess, ids: readonly string[]): string[] {
  const theirs: unknown[] = [];
  const others: unknown[] = [];
  for (const customer of world.customers.values())
    (ids.includes(customer.id) ? theirs : others).push({ ...customer, contacts: customer.contacts });
  for (const ticket of world.tickets.values())
    (ids.includes(ticket.customer_id) ? theirs : others).push({ ...ticket, messages: ticket.messages });
  others.push(...world.users.values(), ...world.labels.values(), ...world.inboxes.values());
  const impersonal = new Set(['id', 'customer_id', 'user_id', 'inbox_id', 'label_ids', 'state', 'type', 'direction']);
  const found = new Set<string>();
  const collect = (value: unknown, field: string): void => {
    if (typeof value === 'string' && !impersonal.has(field) && !/_(at|until)$/.test(field))
      for (const line of value.split(/[\n\r\t"\\<>]+/)) if (line.trim().length >= 6) found.add(line.trim());
    if (typeof value === 'object' && value !== null)
      for (const [name, one] of Object.entries(value)) collect(one, Array.isArray(value) ? field : name);
  };
  for (const one of theirs) collect(one, '');
  const known = JSON.stringify(others).toLowerCase();
  return [...found].filter(text => !known.includes(text.toLowerCase()));
}

/** `schema.table: text` of all rows that hold one of the texts, whatever the column. */
async function holding(s: InProcess, texts: readonly string[]): Promise<string[]> {
  const tables = await s.rows(
    `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where c.relkind in ('r', 'm', 'p') and n.nspname !~ '^(pg_|information_schema)' order by 1`,
  );
  const found: string[] = [];
  for (const { name } of tables) {
    const rows = await s.rows(
      `select distinct w.text from (select lower(t::text) as row from ${name} t) r, unnest($1::text[]) w (text)
       where strpos(r.row, lower(w.text)) > 0`,
      texts,
    );
    found.push(...rows.map(({ text }) => `${name}: ${text}`));
  }
  return found;
}

const mirrored = ['customers', 'contacts', 'tickets', 'messages', 'attachments', 'ticket_labels'];
/** Everything that is mirrored, but for when it was looked at. */
async function mirror(s: InProcess, where = 'true'): Promise<unknown> {
  const all: Record<string, unknown> = {};
  for (const table of mirrored)
    all[table] = await s.rows(
      `select to_jsonb(t) - '{_checked_at,_messages_as_of,_messages_by}'::text[] as row from helpdesk.${table} t where ${where} order by 1`,
    );
  return all;
}

/** Metrics, history, and what they are made of. */
const figures = async (s: InProcess) => [
  await s.rows('select * from analytics.ticket_metrics order by ticket_id'),
  await s.rows('select * from helpdesk.ticket_history order by ticket_id, valid_from'),
  await s.rows(`select t.id, t.customer_id, t.user_id, t.inbox_id, t.state, t.spam, t.created_at, t.updated_at, t.label_ids, m.all
    from helpdesk.tickets t left join lateral (
      select jsonb_agg(jsonb_build_array(m.id, m.position, m.type, m.direction, m.user_id, m.created_at,
        (select jsonb_agg(jsonb_build_array(a.id, a.size, a.type) order by a.id) from helpdesk.attachments a where a.message_id = m.id)) order by m.position) as all
      from helpdesk.messages m where m.ticket_id = t.id) m on true
    order by t.id`),
];

/** All of it beside the source; what differs. */
async function verified(s: InProcess, repair = false): Promise<unknown[]> {
  const names = keysOf(['users', 'customers', 'tickets', 'messages']);
  // The command erases by the clock of this machine, which is ahead of the clock of the world.
  for (const table of ['customers', 'contacts', 'tickets', 'messages', 'attachments'])
    await s.pool.query(`update helpdesk.${table} set _synced_at = least(_synced_at, $1)`, [new Date(s.nowMs)]);
  const run = {
    ...{ account: 'default', streams: names, opener: 0, asked: { sample: null, repair } },
    forecast: { credits: 0, seconds: 0 },
  };
  const { run: id } = await openVerification(s.pool, run, new Date(s.nowMs));
  const lists = {
    tickets: listStream('helpdesk.tickets'),
    customers: listStream('helpdesk.customers'),
    users: listStream('helpdesk.users'),
  };
  for (const stream of names)
    await runStream(
      s.ctx,
      { account: 'default', run: id, stream },
      {
        read: (ctx, claim) => verifyStream(ctx, claim, Object.values(lists), messages),
      },
    );
  return (await readFindings(s.pool, id, 100)).found;
}

/** Who has the most to say. */
const talker = ({ world }: InProcess): string => {
  const counts = Map.groupBy([...world.tickets.values()], one => one.customer_id);
  return [...counts].sort(([, one], [, other]) => other.length - one.length)[0]![0];
};

test('erased from everything, and kept out: read again, swept, verified, replayed, and under another id', async () => {
  await using s = await inProcess({ tickets: 24, customers: 6, seed: 5 });
  const { world, pool } = s;
  const config = configOf(s);
  const person = talker(s);
  const own = () => [...world.tickets.values()].filter(one => one.customer_id === person);
  const [one, two] = own() as [ReturnType<typeof own>[number], ReturnType<typeof own>[number]];
  const other = [...world.tickets.values()].find(ticket => ticket.customer_id !== person)!;
  world.customers.setContacts(person, [
    { id: 'k1', type: 'email', value: 'Zerlinde.Q@flosser.example' },
    { id: 'k2', type: 'phone', value: '+49 (30) 555-1234' },
    { id: 'k3', type: 'twitter', value: '@QuastenZ' },
  ]);
  const marks = ['flosser.example', '(30) 555-1234', '+49305551234', 'quastenz', 'zerlinde', 'quasten-'];
  world.customers.patch(person, {
    first_name: 'Zerlinde Maria',
    last_name: 'Quasten-Flosse',
    summary: 'quasten-summary',
  });
  world.patchTicket(one.id, {
    subject: 'quasten-subject',
    reply_to: 'zerlinde.q@flosser.example',
    summary: 'about Zerlinde',
  });
  const reply = {
    direction: 'in',
    from: 'zerlinde.q@flosser.example',
    from_name: 'Zerlinde',
    to: 'help@example.org',
  } as const;
  const kept = world.addMessage(one.id, {
    ...reply,
    body: '<p>quasten-body &amp; all</p>',
    htmlized: true,
    more_body: 'quasten-signature',
  });
  world.addAttachment(one.id, kept.id, { name: 'quasten-invoice.pdf' });
  const removed = world.addMessage(one.id, { ...reply, body: 'quasten-removed' });
  const note = world.addNote(one.id, { body: 'quasten-note' });
  // In a ticket of somebody else: what she wrote, what was written to her, and a copy to her.
  world.addMessage(other.id, {
    ...{ ...reply, from: 'Zerlinde <ZERLINDE.Q@flosser.example>', body: 'quasten-elsewhere' },
    attachments: [{ id: 'file', name: 'quasten-file.pdf', size: 1, type: 'pdf' }],
  });
  world.addMessage(other.id, {
    direction: 'out',
    from: 'help@example.org',
    to: 'zerlinde.q@flosser.example',
    body: 'to her',
  });
  world.addMessage(other.id, { direction: 'in', from: '0049 30 1', to: '+49 30 5551234', body: 'to her phone' });
  world.patchTicket(other.id, { reply_cc: 'bo@example.org, zerlinde.q@flosser.example' });
  await s.sync();
  // Old values, rejects, samples and comparisons.
  s.nowMs += 600_000;
  world.removeMessage(one.id, removed.id);
  world.editNote(one.id, note.id, 'quasten-note, edited');
  world.patchTicket(one.id, { subject: 'quasten-subject, changed' });
  world.patchTicket(other.id, { reply_cc: 'bo@example.org, zerlinde.q@flosser.example, ada@example.org' });
  world.customers.patch(person, { last_name: 'Quasten-Flosser' });
  const refused = world.addMessage(two.id, { ...reply, body: 'quasten-refused' });
  await pool.query(`
    create function public.refuse() returns trigger language plpgsql as $$ begin
      raise exception 'too much of %', new.body using errcode = '22023'; end $$;
    create trigger refuse before insert on internal.messages for each row when (new.id = '${refused.id}')
      execute function public.refuse()`);
  s.nowMs += 600_000;
  await s.sync(['tickets', 'messages']);
  await s.run('sweep', both, again);
  await pool.query(`update helpdesk.tickets set subject = 'quasten, by hand' where id = $1`, [two.id]);
  await verified(s);
  await pool.query(
    `insert into sync.drift values
    ('default', 'messages', 'unknown_field', 'x', '', 1, $1, $1, '{"id":"${kept.id}","body":"quasten-bo', 'helpdesk')`,
    [new Date(s.nowMs)],
  );
  const texts = () => [...marks, ...textsOf(s, [person])];
  expect(texts().length).toBeGreaterThan(30);
  const before = await holding(s, texts());
  for (const table of ['sync.changes', 'sync.rejects', 'sync.drift', 'sync.audit', 'helpdesk.attachments'])
    expect(before.some(found => found.startsWith(table))).toBe(true);
  const known = await figures(s);
  const notHers = `account_id = 'default' and not coalesce(to_jsonb(t) ->> 'customer_id', to_jsonb(t) ->> 'id') = '${person}'
    and not coalesce(to_jsonb(t) ->> 'ticket_id', to_jsonb(t) ->> 'id') = any ('{${[...own(), other].map(({ id }) => id).join(',')}}')`;
  const untouched = await mirror(s, notHers);

  const dry = await command(addErase, config, 'erase', '--customer', person, '--dry-run', '--json');
  expect(JSON.parse(dry.stdout)).toMatchObject({ erased: false, customers: [person] });
  expect(await holding(s, texts())).toEqual(before);
  expect(await s.rows('select from sync.erased')).toEqual([]);
  s.nowMs += 60_000;
  await expect(command(addErase, config, 'erase', '--customer', person)).resolves.toMatchObject({ code: 2 });
  expect(await s.rows('select from sync.erased')).toEqual([]);
  // Digests of texts that are theirs go, too.
  expect((await s.rows('select from internal.stored_sets')).length).toBeGreaterThan(0);
  const done = await command(addErase, config, 'erase', '--customer', person, '--yes', '--json');
  expect(await s.rows('select from internal.stored_sets')).toEqual([]);
  expect(JSON.parse(done.stdout)).toEqual({ ...JSON.parse(dry.stdout), erased: true });
  expect(JSON.parse(done.stdout).rows).toMatchObject({
    ...{
      customers: 1,
      contacts: 3,
      tickets: own().length,
      'messages elsewhere': 3,
      'tickets of others': 1,
      rejects: 1,
    },
    'samples of drift': 1,
  });

  expect(await holding(s, texts())).toEqual([]);
  expect(await figures(s)).toEqual(known);
  expect(await mirror(s, notHers)).toEqual(untouched);
  expect(
    await s.rows(`select action, subject, outcome ~ '^done: 1 customer, 3 contacts' as told from sync.operations`),
  ).toEqual([{ action: 'erase', subject: `customer ${person}`, told: true }]);
  expect(
    await s.rows(
      `select m.body_text from helpdesk.messages m where m.ticket_id = $1 and m.body_text ~ '^to her' order by 1`,
      other.id,
    ),
  ).toEqual([{ body_text: 'to her' }, { body_text: 'to her phone' }]);

  // Everything is read again, and nothing is written.
  const now = await mirror(s);
  const changes = (await s.rows('select max(id) as id from sync.changes'))[0]!.id;
  s.nowMs += 600_000;
  await s.run('backfill', both, again);
  await s.run('sweep', both, again);
  await s.run('backfill', ['messages'], again);
  expect(await mirror(s)).toEqual(now);
  expect(
    await s.rows(`select changes from sync.changes where id > $1 and not changes ? '_messages_as_of'`, changes),
  ).toEqual([]);
  expect(await verified(s)).toEqual([]);
  expect(await holding(s, texts())).toEqual([]);

  // What was set aside comes to nothing; what is refused again says nothing.
  const open = await s.rows('select id, reason, payload from sync.rejects where cleared_at is null');
  for (const { id } of open) await replay(s.ctx, streams, Number(id));
  await pool.query('drop trigger refuse on internal.messages');

  // A new ticket of hers, and a new message.
  s.nowMs += 600_000;
  world.addMessage(two.id, { ...reply, body: 'quasten-later' });
  const later = world.addTicket({ customer_id: person, subject: 'quasten-again' });
  world.addMessage(later.id, { ...reply, body: 'quasten-more' });
  world.patchTicket(one.id, { subject: 'quasten-subject, once more', state: 'closed' });
  s.nowMs += 600_000;
  await s.sync();
  expect(
    await s.rows(
      'select subject, (select count(*) from helpdesk.messages m where m.ticket_id = t.id) as messages from helpdesk.tickets t where id = $1',
      later.id,
    ),
  ).toEqual([{ subject: null, messages: 1 }]);

  // Under another id: first her tickets are shown, that nobody can know yet, then who she is.
  const anew = world.customers.add({
    ...{ first_name: 'Zerlinde', last_name: 'Quasten-Flosser', summary: 'quasten-anew' },
    contacts: [
      { id: 'k8', type: 'phone', value: '+49 305551234' },
      { id: 'k9', type: 'email', value: 'zerlinde@quasten-.example' },
    ],
  });
  const hers = world.addTicket({ customer_id: anew.id, subject: 'quasten-third' });
  world.addMessage(hers.id, { ...reply, from: 'zerlinde@quasten-.example', body: 'quasten-third' });
  s.nowMs += 600_000;
  await s.sync(['tickets', 'messages']);
  expect(await holding(s, texts())).not.toEqual([]);
  await s.sync(['customers']);
  expect(await holding(s, [...texts(), ...textsOf(s, [person, anew.id])])).toEqual([]);
  expect(await s.rows('select customer_id, found_again from sync.erased order by found_again')).toEqual([
    { customer_id: person, found_again: false },
    { customer_id: anew.id, found_again: true },
  ]);
  // The help desk puts a ticket of hers under somebody else's name.
  world.patchTicket(one.id, { customer_id: other.customer_id });
  s.nowMs += 600_000;
  await s.sync();
  await s.run('sweep', both, again);
  expect(await verified(s, true)).toEqual([]);
  expect(await holding(s, marks)).toEqual([]);

  // What is told of them.
  const why = await command(addWhy, config, 'why', one.id);
  expect(why.stdout).toMatch(/Its customer was erased at /);
  const rejects = await command(addRejects, config, 'rejects', 'list', '--all');
  expect(rejects.stdout).toContain('it is of somebody who was erased');
  // Taken back, as docs/how-to/erase-a-person.md has it.
  const [undo] = /(?<=```sql\n)delete [\s\S]*?(?=```)/.exec(
    readFileSync(new URL('../../docs/how-to/erase-a-person.md', import.meta.url), 'utf8'),
  )!;
  await pool.query(undo.replaceAll("'c1'", `'${person}'`));
  await s.run('sweep', both, again);
  expect(await s.rows('select first_name from helpdesk.customers where id = $1', person)).toEqual([
    { first_name: 'Zerlinde Maria' },
  ]);
  expect(await s.rows('select subject from helpdesk.tickets where id = $1', later.id)).toEqual([
    { subject: 'quasten-again' },
  ]);
  await expect(command(addErase, config, 'erase', '--customer', 'nobody', '--yes')).resolves.toMatchObject({ code: 2 });
});
