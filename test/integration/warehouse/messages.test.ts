/** What a ticket in detail makes of the tables: its messages and attachments as a set, names of labels and inboxes. */
import { expect, test } from 'vitest';
import { transaction } from '../../../src/engine/database/pool.ts';
import { claimMembers } from '../../../src/engine/details/claim-members.ts';
import { messages } from '../../../src/sources/helpdesk/messages/messages.ts';
import { at, counted, counts, iso, message, type Scripted, scripted, second, ticket } from '../../support/scripted.ts';

const attachment = (id: string, more: Record<string, unknown> = {}) => ({
  id,
  name: `${id}.pdf`,
  size: 3_000_000_000,
  type: 'application/pdf',
  ...more,
});

/** The ticket as the list and the detail show it from second `updated` on. */
function shows(
  s: Scripted,
  id: string,
  updated: number,
  messages: unknown[],
  more: Record<string, unknown> = {},
): void {
  const record = ticket(id, { updated_at: iso(updated), inbox_id: null, ...more });
  s.lists.tickets = [...(s.lists.tickets as { id: string }[]).filter(one => one.id !== id), record].sort((a, b) =>
    String((a as { updated_at?: string }).updated_at).localeCompare(String((b as { updated_at?: string }).updated_at)),
  );
  s.details[`/tickets/${id}`] = { ...record, messages };
}

/** Both streams, at second `n`; the counts of the messages. */
async function read(s: Scripted, n: number) {
  s.goTo(n);
  await s.sync('tickets');
  return counts(await s.sync('messages'));
}

const payloadOf = ({ body: _, more_body: __, attachments: ___, ...rest }: Record<string, unknown>) => rest;
const messageRow = (id: string, position: number, more: Record<string, unknown> = {}) => ({
  account_id: 'default',
  id,
  ticket_id: 't1',
  position,
  type: 'reply',
  direction: 'in',
  user_id: null,
  from_name: 'Ada',
  from_address: 'ada@example.org',
  to_address: 'help@example.org',
  body: `body of ${id}`,
  more_body: null,
  body_text: `body of ${id}`,
  htmlized: false,
  created_at: at(0),
  _first_seen_at: at(10),
  _synced_at: at(10),
  _observed_at: at(9),
  _deleted_at: null,
  _payload: payloadOf(message(id)),
  ...more,
});
const attachmentRow = (id: string, messageId: string, more: Record<string, unknown> = {}) => ({
  account_id: 'default',
  message_id: messageId,
  ticket_id: 't1',
  ...attachment(id),
  _first_seen_at: at(10),
  _synced_at: at(10),
  _observed_at: at(9),
  _deleted_at: null,
  _payload: attachment(id),
  ...more,
});

const messageRows = (s: Scripted) => s.rows('select * from helpdesk.messages order by ticket_id, position, id');
const attachmentRows = (s: Scripted) => s.rows('select * from helpdesk.attachments order by id');
const asOf = (s: Scripted) => s.rows('select id, _messages_as_of from helpdesk.tickets order by id');
const places = (s: Scripted) =>
  s.rows(`select id, xmin::text, ctid::text from internal.messages
    union all select id, xmin::text, ctid::text from helpdesk.attachments order by 1`);
const where = async (s: Scripted) =>
  (await s.rows('select ticket_id, position, id from helpdesk.messages order by 1, 2, 3')).map(row =>
    Object.values(row).join(' '),
  );

test('a first reading: every column, plain text beside HTML, long texts and attachments kept out of the payload', async () => {
  await using s = await scripted();
  const html = '<p>Dear&nbsp;all,</p><p>see <a href="https://x.example/long">here</a><img src="cid:1"></p>';
  const { direction: _, from: __, to: ___, more_body: ____, ...noteFields } = message('m2', { type: 'note' });
  const note = { ...noteFields, body: html, htmlized: true, user_id: 'u1', mood: 'odd' };
  shows(s, 't1', 5, [
    message('m1', { attachments: [attachment('a1'), attachment('a2')], more_body: 'sig', direction: 'sideways' }),
    note,
    message('m3', { body: '', from_name: '', attachments: null }),
    message('m4', { body: null, created_at: null }),
  ]);
  expect(await read(s, 10)).toEqual(counted({ seen: 4, inserted: 4 }));

  expect(await messageRows(s)).toEqual([
    messageRow('m1', 1, {
      more_body: 'sig',
      direction: 'sideways',
      _payload: payloadOf(message('m1', { direction: 'sideways' })),
    }),
    messageRow('m2', 2, {
      type: 'note',
      direction: null,
      from_address: null,
      to_address: null,
      user_id: 'u1',
      body: html,
      body_text: 'Dear\u00a0all,\n\nsee here',
      htmlized: true,
      _payload: payloadOf(note),
    }),
    messageRow('m3', 3, {
      body: '',
      body_text: '',
      from_name: '',
      _payload: payloadOf(message('m3', { from_name: '' })),
    }),
    messageRow('m4', 4, {
      body: null,
      body_text: null,
      created_at: null,
      _payload: payloadOf(message('m4', { created_at: null })),
    }),
  ]);
  expect(await s.rows('select id from internal.messages where body_text is not null')).toEqual([{ id: 'm2' }]);
  expect(await attachmentRows(s)).toEqual([attachmentRow('a1', 'm1'), attachmentRow('a2', 'm1')]);
  expect(await asOf(s)).toEqual([{ id: 't1', _messages_as_of: at(9) }]);
  expect(await s.rows('select kind, path, value, seen from sync.drift order by 1')).toEqual([
    { kind: 'unknown_field', path: 'mood', value: '', seen: 1 },
    { kind: 'unknown_value', path: 'direction', value: 'sideways', seen: 1 },
  ]);
});

test('the same messages again write nothing, though the ticket has changed', async () => {
  await using s = await scripted();
  const all = [message('m1', { attachments: [attachment('a1')] }), message('m2', { body: '' })];
  shows(s, 't1', 5, all);
  await read(s, 10);
  const before = await places(s);
  shows(s, 't1', 15, all, { state: 'closed' });
  expect(await read(s, 20)).toEqual(counted({ seen: 2, unchanged: 2 }));
  expect(await places(s)).toEqual(before);
  expect(await asOf(s)).toEqual([{ id: 't1', _messages_as_of: at(19) }]);
  expect(await read(s, 30)).toEqual(counted({}));
});

/** What stands there after m1 (with a1) and m2 were read, and something else came. */
const changes = [
  { name: 'body', now: { body: 'edited' }, row: { body: 'edited', body_text: 'edited' } },
  { name: 'body from null to empty', was: { body: null }, now: { body: '' }, row: { body: '', body_text: '' } },
  { name: 'body from empty to null', was: { body: '' }, now: { body: null }, row: { body: null, body_text: null } },
  { name: 'more_body', now: { more_body: '' }, row: { more_body: '' } },
  {
    name: 'htmlized',
    was: { body: '<b>x</b>' },
    now: { body: '<b>x</b>', htmlized: true },
    row: { body: '<b>x</b>', body_text: 'x', htmlized: true },
  },
  { name: 'a field of the payload', now: { extra: 1 }, row: {} },
];
test('a changed message changes its row alone', async () => {
  await using s = await scripted();
  const of = (n: number) => message(`m${n}`, { ...changes[n]!.was, attachments: [attachment(`a${n}`)] });
  const all = (changed: number) => changes.map((one, n) => (n < changed ? { ...of(n), ...one.now } : of(n)));
  shows(s, 't1', 5, all(0));
  await read(s, 10);
  for (const [n, { name, row }] of changes.entries()) {
    const others = async () => (await places(s)).filter(({ id }) => id !== `m${n}`);
    const before = await others();
    shows(s, 't1', 15 + 10 * n, all(n + 1));
    const seen = { seen: changes.length, updated: 1, unchanged: changes.length - 1 };
    expect({ name, ...(await read(s, 20 + 10 * n)) }).toEqual({ name, ...counted(seen) });
    const [found] = await s.rows('select * from helpdesk.messages where id = $1', `m${n}`);
    const later = { _synced_at: at(20 + 10 * n), _observed_at: at(19 + 10 * n) };
    expect(found).toEqual(messageRow(`m${n}`, n + 1, { ...row, _payload: payloadOf(all(n + 1)[n]!), ...later }));
    expect(await others()).toEqual(before);
  }
});

test('the set of messages is replaced: gone, new, moved up; attachments of what is gone go too', async () => {
  await using s = await scripted();
  shows(s, 't1', 5, [
    message('m1', { attachments: [attachment('a1')] }),
    message('m2', { attachments: [attachment('a2')] }),
    message('m3'),
  ]);
  shows(s, 't2', 5, [message('n1', { attachments: [attachment('b1')] })]);
  await read(s, 10);
  const other = (await messageRows(s)).at(-1);
  shows(s, 't1', 15, [message('m2', { attachments: [attachment('a2')] }), message('m4'), message('m3')]);
  expect(await read(s, 20)).toEqual(counted({ seen: 3, inserted: 1, updated: 1, unchanged: 1, deleted: 2 }));
  const later = { _synced_at: at(20), _observed_at: at(19) };
  expect(await messageRows(s)).toEqual([
    messageRow('m2', 1, later),
    messageRow('m4', 2, { ...later, _first_seen_at: at(20) }),
    messageRow('m3', 3),
    other,
  ]);
  expect((await attachmentRows(s)).map(({ id }) => id)).toEqual(['a2', 'b1']);

  shows(s, 't1', 25, []);
  expect(await read(s, 30)).toEqual(counted({ deleted: 4 }));
  expect(await messageRows(s)).toEqual([other]);
  expect((await attachmentRows(s)).map(({ id }) => id)).toEqual(['b1']);
});

test('attachments alone change: one comes, one goes, one is renamed, one moves to another message', async () => {
  await using s = await scripted();
  const carrying = (m1: unknown[], m2: unknown[]) => [
    message('m1', { attachments: m1 }),
    message('m2', { attachments: m2 }),
  ];
  shows(s, 't1', 5, carrying([attachment('a1'), attachment('a2'), attachment('a3')], []));
  await read(s, 10);
  const before = (await places(s)).filter(({ id }) => String(id).startsWith('m'));
  const renamed = attachment('a2', { name: 'new.pdf', size: null });
  shows(s, 't1', 15, carrying([renamed], [attachment('a3'), attachment('a4')]));
  expect(await read(s, 20)).toEqual(counted({ seen: 2, unchanged: 2, deleted: 1 }));
  const later = { _synced_at: at(20), _observed_at: at(19) };
  expect(await attachmentRows(s)).toEqual([
    attachmentRow('a2', 'm1', { name: 'new.pdf', size: null, _payload: renamed, ...later }),
    attachmentRow('a3', 'm2', later),
    attachmentRow('a4', 'm2', { ...later, _first_seen_at: at(20) }),
  ]);
  expect((await places(s)).filter(({ id }) => String(id).startsWith('m'))).toEqual(before);
});

test('one message twice in a reply: the later wins, with its attachments and no others', async () => {
  await using s = await scripted();
  shows(s, 't1', 5, [
    message('m1', { body: 'first', attachments: [attachment('a1')] }),
    message('m2'),
    message('m1', { body: 'second', attachments: [attachment('a2')] }),
  ]);
  expect(await read(s, 10)).toEqual(counted({ seen: 3, inserted: 2 }));
  expect(await messageRows(s)).toEqual([
    messageRow('m2', 2),
    messageRow('m1', 3, { body: 'second', body_text: 'second' }),
  ]);
  expect(await attachmentRows(s)).toEqual([attachmentRow('a2', 'm1')]);
});

test('a message that moves to another ticket stands there once, attachments and all, whichever is read first', async () => {
  await using s = await scripted();
  for (const [n, takerFirst] of [false, true].entries()) {
    const [giver, taker] = [`t${n}`, `u${n}`];
    const moving = message(`m${n}`, { attachments: [attachment(`a${n}`)] });
    const [stays, there] = [message(`s${n}`), message(`n${n}`)];
    const start = 100 * n;
    shows(s, giver, start + 5, [stays, moving]);
    shows(s, taker, start + 5, [there]);
    await read(s, start + 10);
    const now = { [giver]: [stays], [taker]: [there, moving] };
    for (const [i, id] of (takerFirst ? [taker, giver] : [giver, taker]).entries()) {
      shows(s, id, start + 15 + i * 10, now[id]!);
      await read(s, start + 20 + i * 10);
    }
    const isHere = (one: string) => one.startsWith(giver) || one.startsWith(taker);
    expect((await where(s)).filter(isHere)).toEqual([`${giver} 1 s${n}`, `${taker} 1 n${n}`, `${taker} 2 m${n}`]);
    const carried = await s.rows('select ticket_id, message_id from helpdesk.attachments where id = $1', `a${n}`);
    expect(carried).toEqual([{ ticket_id: taker, message_id: `m${n}` }]);
  }
});

test('the ticket that comes with its messages is merged too', async () => {
  await using s = await scripted();
  shows(s, 't1', 5, [message('m1')]);
  const newer = ticket('t1', { updated_at: iso(8), subject: 'newer', inbox_id: null });
  s.details['/tickets/t1'] = { ...newer, messages: [message('m1')] };
  await read(s, 15);
  expect(
    await s.rows('select subject, updated_at, _observed_at, _messages_as_of, _payload from helpdesk.tickets'),
  ).toEqual([{ subject: 'newer', updated_at: at(8), _observed_at: at(14), _messages_as_of: at(14), _payload: newer }]);
});

/** Known: the ticket of second 50, its messages as of second 99. */
const claims = [
  { says: 'a newer as_of', updated: 50, asOf: 100, taken: true },
  { says: 'a newer ticket and a newer as_of', updated: 51, asOf: 100, taken: true },
  { says: 'an older ticket, though seen later', updated: 49, asOf: 200, taken: false },
  { says: 'an older as_of', updated: 50, asOf: 98, taken: false },
  { says: 'the same as_of', updated: 50, asOf: 99, taken: true },
  { says: 'an unknown ticket', id: 'x', updated: 50, asOf: 100, taken: false },
];
test('a newer reading of a ticket that is at least as new takes over its messages', async () => {
  await using s = await scripted();
  for (const n of claims.keys()) shows(s, `t${n}`, 50, [message(`m${n}`)]);
  await read(s, 100);
  for (const [n, { says, id = `t${n}`, updated, asOf: asOfSecond, taken }] of claims.entries()) {
    const claimed = { id, updatedMs: second(updated), asOfMs: second(asOfSecond) };
    const by = (account: string, run: number) =>
      transaction(s.pool, c => claimMembers(c, { account, run }, messages, claimed));
    expect({ says, got: await by('default', 9) }).toEqual({
      says,
      got: taken
        ? expect.objectContaining({ id: `t${n}`, arrivedMs: null, first: false, asOf: at(99), same: false })
        : undefined,
    });
    expect(await asOf(s)).toContainEqual({ id: `t${n}`, _messages_as_of: at(taken ? asOfSecond : 99) });
    expect(await by('other', 1)).toBeUndefined();
  }
});

test('a claim that waits for another writer of the ticket sees what that one wrote', async () => {
  await using s = await scripted();
  shows(s, 't1', 50, [message('m1')]);
  await read(s, 100);
  const other = await s.pool.connect();
  await other.query(`begin; update helpdesk.tickets set subject = 'Coffee' where id = 't1'`);
  let waiter: number | undefined;
  const claimed = transaction(s.pool, async client => {
    const { rows } = await client.query('select pg_backend_pid() as pid');
    waiter = rows[0].pid;
    return claimMembers(
      client,
      { account: 'default', run: 9 },
      messages,
      { id: 't1', updatedMs: second(50), asOfMs: second(100) },
      0,
    );
  });
  await expect
    .poll(async () => (await s.rows('select cardinality(pg_blocking_pids($1)) as n', waiter ?? 0))[0]!.n)
    .toBe(1);
  await other.query('commit');
  other.release();
  expect(await claimed).toMatchObject({ first: false });
});

test('a reply older than the ticket replaces nothing: the ticket goes on waiting', async () => {
  await using s = await scripted();
  shows(s, 't1', 5, [message('m1')]);
  await read(s, 10);
  const before = await places(s);
  shows(s, 't1', 15, [message('m1')]);
  s.details['/tickets/t1'] = { ...ticket('t1', { updated_at: iso(5), inbox_id: null }), messages: [message('m2')] };
  s.goTo(20);
  await s.sync('tickets');
  await s.sync('messages');
  expect(await places(s)).toEqual(before);
  expect(await asOf(s)).toEqual([{ id: 't1', _messages_as_of: at(9) }]);
});

test('a change time with more digits than a millisecond is no reason to wait for ever', async () => {
  await using s = await scripted();
  shows(s, 't1', 5, [message('m1')], { updated_at: '2026-01-01T00:00:05.123456Z' });
  expect(await read(s, 10)).toEqual(counted({ seen: 1, inserted: 1 }));
  expect(await asOf(s)).toEqual([{ id: 't1', _messages_as_of: at(9) }]);
  expect(await read(s, 20)).toEqual(counted({}));
});

test('a deleted ticket deletes its messages; if it comes back, they do too', async () => {
  await using s = await scripted();
  shows(s, 't1', 5, [message('m1', { attachments: [attachment('a1')] }), message('m2')]);
  await read(s, 10);
  shows(s, 't1', 15, [], { state: 'closed' });
  const closed = s.lists.tickets;
  s.details['/tickets/t1'] = 404;
  // So short a while after it came, a copy that is behind would say the same.
  expect(await read(s, 20)).toEqual(counted({}));
  expect(await read(s, 900)).toEqual(counted({ deleted: 1 }));
  expect(await asOf(s)).toEqual([{ id: 't1', _messages_as_of: null }]);
  const gone =
    await s.rows(`select id, _deleted_at from helpdesk.tickets union all select id, _deleted_at from helpdesk.messages
    union all select id, _deleted_at from helpdesk.attachments order by 1`);
  expect(gone).toEqual(['a1', 'm1', 'm2', 't1'].map(id => ({ id, _deleted_at: at(901) })));
  expect(await s.rows('select reason, cleared_at from sync.rejects')).toEqual([
    { reason: expect.stringContaining('404'), cleared_at: at(900) },
  ]);
  // A reply that was on its way when it was marked as deleted brings nothing of it in.
  const inFlight = { id: 't1', updatedMs: second(15), asOfMs: second(899) };
  const claimed = await transaction(s.pool, c => claimMembers(c, { account: 'default', run: 9 }, messages, inFlight));
  expect([claimed, await asOf(s)]).toEqual([undefined, [{ id: 't1', _messages_as_of: null }]]);

  s.lists.tickets = [];
  shows(s, 't1', 15, [message('m2')], { state: 'closed' });
  expect(s.lists.tickets).toEqual(closed);
  // The message and the attachment that it does not show any more go, though they have tombstones.
  expect(await read(s, 910)).toEqual(counted({ seen: 1, updated: 1, deleted: 2 }));
  const later = { _synced_at: at(910), _observed_at: at(909) };
  expect(await s.rows('select * from helpdesk.messages where _deleted_at is null')).toEqual([
    messageRow('m2', 1, later),
  ]);
  expect(await s.rows('select id from helpdesk.tickets where _deleted_at is null')).toEqual([{ id: 't1' }]);
  expect(await s.rows('select id from helpdesk.attachments where _deleted_at is null')).toEqual([]);
});

test('names ride along: new, renamed after a week, asked for and not shown', async () => {
  await using s = await scripted();
  const inbox = (name: string | null) => ({ id: 'i1', name });
  const labels = [{ id: 'l1', name: 'urgent', color: 'red' }];
  const more = { inbox_id: 'i1', label_ids: ['l1', 'l2'] };
  shows(s, 't1', 5, [message('m1')], more);
  s.details['/tickets/t1'] = { ...(s.details['/tickets/t1'] as object), labels, inbox: inbox('Sales') };
  await read(s, 10);
  const row = (id: string, name: string | null, _payload: unknown, more: object = {}) => ({
    account_id: 'default',
    id,
    name,
    _first_seen_at: at(10),
    _synced_at: at(10),
    _observed_at: at(9),
    _deleted_at: null,
    _payload,
    ...more,
  });
  expect(await s.rows('select * from helpdesk.labels order by id')).toEqual([
    row('l1', 'urgent', labels[0]),
    row('l2', null, null),
  ]);
  expect(await s.rows('select * from helpdesk.inboxes')).toEqual([row('i1', 'Sales', inbox('Sales'))]);

  const week = 7 * 24 * 3600 + 20;
  shows(s, 't1', week - 5, [message('m1')], more);
  s.details['/tickets/t1'] = { ...(s.details['/tickets/t1'] as object), labels, inbox: inbox('Support') };
  await read(s, week);
  const later = { _observed_at: at(week - 1) };
  expect(await s.rows('select * from helpdesk.labels order by id')).toEqual([
    row('l1', 'urgent', labels[0], later),
    row('l2', null, null, later),
  ]);
  expect(await s.rows('select * from helpdesk.inboxes')).toEqual([
    row('i1', 'Support', inbox('Support'), { ...later, _synced_at: at(week) }),
  ]);
});

test('a change that shows up late, dated before the last reading of the messages, is read', async () => {
  await using s = await scripted();
  shows(s, 't1', 0, [message('m1')]);
  expect(await read(s, 100)).toEqual(counted({ seen: 1, inserted: 1 }));
  shows(s, 't1', 50, [message('m1'), message('m2')]);
  expect(await read(s, 110)).toEqual(counted({ seen: 2, inserted: 1, unchanged: 1 }));
  expect(await read(s, 120)).toEqual(counted({}));
});

const driftRows = (s: Scripted) => s.rows('select kind, path, value, seen from sync.drift order by 1, 2, 3');

test('one id in two tickets, in two messages, or twice in a reply: one row is kept, and drift says so', async () => {
  await using s = await scripted();
  shows(s, 't1', 5, [
    message('m1', { attachments: [attachment('a1')] }),
    message('m2'),
    message('m2', { body: 'again' }),
  ]);
  await read(s, 10);
  expect(await driftRows(s)).toEqual([{ kind: 'repeated_id', path: 'id', value: '', seen: 1 }]);
  shows(s, 't2', 15, [
    message('m1', { attachments: [attachment('a1')] }),
    message('m3', { attachments: [attachment('a1')] }),
  ]);
  await read(s, 20);
  expect(await where(s)).toEqual(['t1 3 m2', 't2 1 m1', 't2 2 m3']);
  expect(await driftRows(s)).toEqual([
    { kind: 'repeated_id', path: 'attachments.id', value: '', seen: 1 },
    { kind: 'repeated_id', path: 'attachments.id', value: 'of another record', seen: 1 },
    { kind: 'repeated_id', path: 'id', value: '', seen: 1 },
    { kind: 'repeated_id', path: 'id', value: 'of another record', seen: 1 },
  ]);
});

test('an attachment that a message of another ticket shows in a later run: drift says so, and so does each later move', async () => {
  await using s = await scripted();
  shows(s, 't1', 5, [message('m1', { attachments: [attachment('a1')] })]);
  await read(s, 10);
  expect(await driftRows(s)).toEqual([]);
  shows(s, 't2', 100, [message('m2', { attachments: [attachment('a1')] })]);
  await read(s, 110);
  const told = (seen: number) => [{ kind: 'repeated_id', path: 'attachments.id', value: 'of another record', seen }];
  expect(await attachmentRows(s)).toMatchObject([{ id: 'a1', ticket_id: 't2', message_id: 'm2' }]);
  expect(await driftRows(s)).toEqual(told(1));
  shows(s, 't1', 200, [message('m1', { attachments: [attachment('a1')] }), message('m3')]);
  await read(s, 210);
  shows(s, 't3', 300, [message('m4', { attachments: [attachment('a1', { name: 'other.pdf' })] })]);
  shows(s, 't4', 300, [message('m5')]);
  await read(s, 310);
  expect(await attachmentRows(s)).toMatchObject([{ id: 'a1', ticket_id: 't3', message_id: 'm4' }]);
  expect((await driftRows(s))[0]!.seen).toBeGreaterThan(1);
});

test('a body of very many elements within each other: kept as received, its words are text, and drift says that the layout is not', async () => {
  await using s = await scripted();
  const body = `${'<div>'.repeat(200_000)}deep down${'</div>'.repeat(200_000)}`;
  shows(s, 't1', 5, [message('m1'), message('m2', { body, htmlized: true })]);
  expect(await read(s, 10)).toEqual(counted({ seen: 2, inserted: 2 }));
  const rows = await s.rows('select id, body, btrim(body_text) as text from helpdesk.messages order by id');
  expect(rows).toEqual([
    { id: 'm1', body: 'body of m1', text: 'body of m1' },
    { id: 'm2', body, text: expect.stringMatching(/^\s*deep down\s*$/) },
  ]);
  expect(await driftRows(s)).toEqual([{ kind: 'simplified_html', path: 'body', value: '', seen: 1 }]);
});

test('an unreadable label does not reject its ticket: the messages and the other names are stored', async () => {
  await using s = await scripted();
  shows(s, 't1', 5, [message('m1')], { label_ids: ['l1', 'l2'] });
  const labels = [{ id: 'a\0b', name: 'odd' }, { id: 'l1', name: 'a\0b' }, 42, { id: 'l2', name: 'right' }];
  s.details['/tickets/t1'] = { ...(s.details['/tickets/t1'] as object), labels };
  await read(s, 10);
  expect(await where(s)).toEqual(['t1 1 m1']);
  const named = await s.rows(`select id, name from helpdesk.labels where id in ('l1', 'l2') order by id`);
  expect(named).toEqual([
    { id: 'l1', name: 'a\ufffdb' },
    { id: 'l2', name: 'right' },
  ]);
  expect(await driftRows(s)).toContainEqual({ kind: 'wrong_type', path: 'labels.id', value: '', seen: 1 });
});

test('a re-read that changes nothing leaves no change; one that does keeps the reading before it', async () => {
  await using s = await scripted();
  const readings = () =>
    s.rows(`select record_id, changes -> '_messages_by' as by from sync.changes where changes ? '_messages_as_of'`);
  shows(s, 't1', 50, [message('m1'), message('m2')]);
  await read(s, 100);
  shows(s, 't1', 150, [message('m1'), message('m2')]);
  await read(s, 200);
  expect(await asOf(s)).toEqual([{ id: 't1', _messages_as_of: at(199) }]);
  expect(await readings()).toEqual([]);
  shows(s, 't1', 250, [message('m1')]);
  await read(s, 300);
  expect(await readings()).toEqual([{ record_id: 't1', by: [4, 6] }]);
  expect(await s.rows('select id from helpdesk.messages')).toEqual([{ id: 'm1' }]);
  shows(s, 't1', 350, []);
  await read(s, 400);
  expect(await s.rows('select id from helpdesk.messages')).toEqual([]);
});
