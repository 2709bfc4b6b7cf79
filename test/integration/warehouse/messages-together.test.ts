/** Tickets that are committed together make of the tables what tickets make of them one by one. */
import { describe, expect, test } from 'vitest';
import { digestOf, noteStored } from '../../../src/engine/commit/stored-sets.ts';
import { makePool, transaction } from '../../../src/engine/database/pool.ts';
import { claimMembers } from '../../../src/engine/details/claim-members.ts';
import type { Detail } from '../../../src/engine/details/detail-rows.ts';
import { detailOf } from '../../../src/engine/details/store-detail.ts';
import type { Reply } from '../../../src/engine/http/request.ts';
import { once } from '../../../src/engine/load/batch.ts';
import { Commits } from '../../../src/engine/load/commit-queue.ts';
import { messages } from '../../../src/sources/helpdesk/messages/messages.ts';
import type { Row } from '../../../src/sources/source.ts';
import { iso, message, scripted, second, ticket } from '../../support/scripted.ts';

/** A ticket as the list showed it, and what its detail shows at a later second. */
interface Shown {
  readonly id: string;
  readonly asOf: number;
  readonly said: readonly object[];
  readonly more?: object;
}

const looks = [
  'select * from helpdesk.messages order by account_id, id',
  'select * from helpdesk.attachments order by id',
  'select id, subject, _messages_as_of, _messages_by, _observed_at from helpdesk.tickets order by id',
  'select table_name, record_id, seen_at, as_of, changes from sync.changes order by 1, 2, 4, 5::text',
  'select * from sync.drift order by kind, path, value',
  'select ask_id, record_id, reason, payload, cleared_at is null as open from sync.rejects order by 1, 2, 3',
  'select seen, inserted, updated, unchanged, deleted, rejected, cleaned, credits from sync.stored_run_streams order by run_id',
  'select * from internal.stored_ticket_metrics order by ticket_id',
  'select stream_key, latency_seconds, sum(changes)::int from sync.change_latencies group by 1, 2 order by 1, 2',
];

/** What happens one after the other: a commit of several replies, or a statement that somebody runs. */
type Step = readonly Shown[] | string;

/** The rows after these steps, and the statements that were prepared for them. */
async function rowsAfter(steps: readonly Step[], isTogether: boolean, before = 'select') {
  await using s = await scripted();
  await using stack = new AsyncDisposableStack();
  const pg = makePool(s.url);
  stack.defer(() => pg.end());
  const asked: string[] = [];
  pg.on('connect', client => {
    const query = client.query.bind(client) as (...all: unknown[]) => unknown;
    Object.assign(client, {
      query: (...all: [{ name?: string }]) => {
        if (all[0].name !== undefined) asked.push(all[0].name);
        return query(...all);
      },
    });
  });
  const stored = (id: string) => ticket(id, { updated_at: iso(5), inbox_id: null });
  const shown = steps.flatMap(step => (typeof step === 'string' ? [] : step));
  s.lists.tickets = [...new Set(shown.map(({ id }) => id))].sort().map(stored);
  s.goTo(8);
  await s.sync('tickets');
  await s.rows(before);
  const claim = await s.claim('messages');
  const ctx = { ...s.ctx, pg, clock: { ...s.ctx.clock, sleep: () => new Promise<void>(() => {}) } };
  const queue = new Commits(ctx, 60_000);
  s.goTo(100);
  for (const step of steps) {
    if (typeof step === 'string') {
      asked.push(step);
      await s.rows(step);
      continue;
    }
    for (const { id, asOf, said, more } of step) {
      const record = { ...stored(id), ...more, messages: said };
      const reply: Reply<Row> = {
        ...{ text: JSON.stringify(record), records: [record as unknown as Row], unreadable: [], arrived: 1 },
        ...{ asOf: second(asOf), trueBy: second(asOf + 2), shownBy: second(asOf + 2), total: undefined },
      };
      queue.add(detailOf(ctx, claim, messages as unknown as Detail, reply, { wanted: { id } }));
      if (!isTogether) await queue.done();
    }
    await queue.done();
  }
  const proofs = await s.rows('select record_id from internal.stored_sets order by 1');
  const tables = [];
  for (const look of looks) tables.push(await s.rows(look));
  return { tables, asked, proofs: proofs.map(({ record_id }) => record_id) };
}

const files = (...ids: string[]) => ({ attachments: ids.map(id => ({ id, name: `${id}.pdf`, size: 3, type: 'pdf' })) });
const first: Shown[] = [
  { id: 't1', asOf: 9, said: [message('m1', files('a1', 'a2')), message('m2', { direction: 'out', user_id: 'u1' })] },
  { id: 't2', asOf: 11, said: [] },
  { id: 't3', asOf: 14, said: [message('m3'), message('m4', { mood: 'odd' }), message('m5', files('a3'))] },
];

test('new messages of several tickets are claimed and written by one statement each, with the time of each reply', async () => {
  const { tables, asked } = await rowsAfter([first], true);
  const count = (name: string) => asked.filter(one => one.startsWith(name)).length;
  expect([count('claim'), count('merge helpdesk.messages')]).toEqual([1, 1]);
  expect(tables[0]!.map(row => [row.id, row.ticket_id, row.position, row._observed_at])).toEqual([
    ['m1', 't1', 1, new Date(second(9))],
    ['m2', 't1', 2, new Date(second(9))],
    ['m3', 't3', 1, new Date(second(14))],
    ['m4', 't3', 2, new Date(second(14))],
    ['m5', 't3', 3, new Date(second(14))],
  ]);
  expect(tables[1]!.map(row => [row.id, row.message_id, row._observed_at])).toEqual([
    ['a1', 'm1', new Date(second(9))],
    ['a2', 'm1', new Date(second(9))],
    ['a3', 'm5', new Date(second(14))],
  ]);
  expect(tables).toEqual((await rowsAfter([first], false)).tables);
});

const edits = { asOf: 20, said: [message('m1', { body: 'edited' }), message('m6')] };
test.each<[string, ...Shown[]]>([
  ['one is read again', { id: 't1', ...edits }, { id: 't4', asOf: 21, said: [message('m7')] }],
  [
    'one has changed since the list showed it',
    { id: 't4', asOf: 21, said: [message('m7')], more: { subject: 'Coffee', updated_at: iso(12) } },
    { id: 't5', asOf: 22, said: [message('m8')] },
  ],
  [
    'a stored message is in another ticket now',
    { id: 't4', asOf: 21, said: [message('m1', files('a1'))] },
    { id: 't5', asOf: 22, said: [message('m8')] },
  ],
  [
    'two show the same message',
    { id: 't4', asOf: 21, said: [message('m7')] },
    { id: 't5', asOf: 22, said: [message('m7'), message('m8')] },
  ],
  [
    'two show the same file',
    { id: 't4', asOf: 21, said: [message('m7', files('a8'))] },
    { id: 't5', asOf: 22, said: [message('m8', files('a8'))] },
  ],
  [
    'one ticket comes twice',
    { id: 't4', asOf: 21, said: [message('m7')] },
    { id: 't4', asOf: 22, said: [message('m8')] },
  ],
  [
    'a value is refused',
    { id: 't4', asOf: 21, said: [message('m7', { body: 'a\u0000b' }), message('m9')] },
    { id: 't5', asOf: 22, said: [message('m8')] },
  ],
  [
    'a message is unreadable, and texts are HTML',
    { id: 't4', asOf: 21, said: [{ id: 7 }, message('m7', { body: '<p>Hi <b>you</b></p>', htmlized: true })] },
    { id: 't5', asOf: 22, said: [message('m8'), message('m9', { body: '<p>Bye</p>', htmlized: true })] },
  ],
  [
    'the second of three repeats a message',
    { id: 't4', asOf: 21, said: [message('m7')] },
    { id: 't5', asOf: 22, said: [message('m7'), message('m8')] },
    { id: 't6', asOf: 23, said: [message('m9')] },
  ],
  [
    'a stored file is in another ticket now',
    { id: 't4', asOf: 21, said: [message('m7', files('a3'))] },
    { id: 't5', asOf: 22, said: [message('m8')] },
  ],
])('tables are the same where %s', async (_, ...second) => {
  const together = await rowsAfter([first, second], true);
  expect(together.tables).toEqual((await rowsAfter([first, second], false)).tables);
  expect(together.tables[0]!.length).toBeGreaterThan(5);
});

const others: Shown[] = [
  { id: 't4', asOf: 21, said: [message('m7', { body: 'secret' })] },
  { id: 't5', asOf: 22, said: [message('m8', { body: 'secret' })] },
];
test('tables are equal if the customer was erased', async () => {
  const erased = `with of as (insert into sync.erased values ('default', 'c1', now(), false))
    insert into sync.erased_tickets (account_id, ticket_id, erased_at) select 'default', 't' || i, now() from generate_series(1, 5) i`;
  const { tables } = await rowsAfter([first, others], true, erased);
  expect(tables).toEqual((await rowsAfter([first, others], false, erased)).tables);
  expect(tables[0]!.map(({ body }) => body)).toEqual(tables[0]!.map(() => null));
});

test('tables are the same where a ticket failed before, which counts as done then', async () => {
  const failed = `insert into sync.rejects (account_id, source, stream, key, ask_id, reason, replayable, first_seen_at, last_seen_at)
    select 'default', 'helpdesk', 'messages', 't4', 't4', 'why', false, '2026-01-01', '2026-01-01'`;
  const { tables, asked } = await rowsAfter([others], true, failed);
  expect(asked.filter(name => name.startsWith('claim'))).toHaveLength(1);
  expect(tables).toEqual((await rowsAfter([others], false, failed)).tables);
  expect(tables[5]).toMatchObject([{ ask_id: 't4', open: false }]);
});

describe('a reply that shows what is stored', () => {
  const again = first.map(one => ({ ...one, asOf: one.asOf + 20 }));
  const onceMore = first.map(one => ({ ...one, asOf: one.asOf + 40 }));
  const later = first.map(one => ({ ...one, asOf: one.asOf + 60 }));
  const mark = 'select 1';
  const whole = once(() => rowsAfter([first], true));
  const texts = (tables: readonly Record<string, unknown>[][]) =>
    tables.slice(0, 2).map(table => table.map(({ _synced_at, _observed_at, ...row }) => row));
  const merges = (asked: readonly string[]) => asked.filter(name => name.startsWith('merge helpdesk.messages')).length;

  test('is claimed with others, and nothing is sent, written or removed', async () => {
    const { tables, asked, proofs } = await rowsAfter([first, again], true);
    expect(asked.filter(name => /^(claim|merge|remove|note stored)/.test(name))).toEqual([
      'claim same of helpdesk.messages',
      'merge helpdesk.messages',
      'note stored sets of helpdesk.messages',
      'claim same of helpdesk.messages',
    ]);
    expect(proofs).toEqual(['t1', 't2', 't3']);
    expect(tables[2]!.map(row => row._messages_as_of)).toEqual([29, 31, 34].map(at => new Date(second(at))));
    expect(tables[4]).toMatchObject([{ path: 'mood', seen: 2 }]);
    expect(tables[6]).toMatchObject([{}, { seen: 10, inserted: 5, updated: 0, unchanged: 5, deleted: 0 }]);
    expect(tables).toEqual((await rowsAfter([first, again], false)).tables);
  });

  const changes = [
    [`a text is changed`, `update internal.messages set body = 'no', _payload = _payload || '{"x":1}' where id = 'm1'`],
    [
      'a message has a tombstone',
      `update internal.messages set _deleted_at = '2026-01-01 00:00:20+00' where id = 'm5'`,
    ],
    ['a message is removed', `delete from internal.messages where id = 'm3'`],
    ['all messages are removed', 'delete from internal.messages'],
    [
      'a message is added',
      `insert into internal.messages (account_id, id, ticket_id, position, _first_seen_at, _synced_at, _observed_at, _payload)
       values ('default', 'm0', 't2', 1, '2026-01-01', '2026-01-01', '2026-01-01', '{}')`,
    ],
    ['a message is moved', `update internal.messages set ticket_id = 't2' where id = 'm2'`],
    ['a file is changed', `update helpdesk.attachments set name = 'no', _payload = '{}' where id = 'a2'`],
    ['a file is removed', `delete from helpdesk.attachments where id = 'a3'`],
    ['a file is moved', `update helpdesk.attachments set ticket_id = 't2', message_id = 'm9' where id = 'a1'`],
    ['the proofs are other ones', `update internal.stored_sets set proof = sha256(proof)`],
    [
      'the proofs were copied, as by a restore',
      `with of as (delete from internal.stored_sets returning *) insert into internal.stored_sets select * from of`,
    ],
  ] as const;
  test.each(changes)('is written where meanwhile %s', async (_, change) => {
    const { tables, asked, proofs } = await rowsAfter([first, change, again, onceMore, mark, later], true);
    expect(merges(asked.slice(asked.indexOf(change)))).toBeGreaterThan(0);
    expect(texts(tables)).toEqual(texts((await whole()).tables));
    // From then on it is known again.
    expect(proofs).toEqual(['t1', 't2', 't3']);
    expect(merges(asked.slice(asked.indexOf(mark)))).toBe(0);
  });

  const [m1, m1Edited] = [message('m1'), message('m1', { body: 'edited' })];
  const shows = (asOf: number, ...said: object[]): Shown => ({ id: 't1', asOf, said });
  test.each<[string, Shown[][], string]>([
    // A reply that is not later replaces nothing.
    [
      'that was not stored, because it came at one time with another',
      [[shows(9, m1)], [shows(9, m1Edited)], [shows(12, m1Edited)]],
      'edited',
    ],
    [
      'and another one came in the transaction, with a message that is unreadable',
      [[shows(9, m1), shows(11, m1Edited, { id: 7 })], [shows(14, m1)]],
      'Hello',
    ],
    ['and another one came meanwhile', [[shows(9, m1)], [shows(11, m1Edited)], [shows(14, m1)]], 'Hello'],
  ])('%s, is stored', async (_, commits, body) => {
    const { tables } = await rowsAfter(commits, true);
    expect(tables[0]).toMatchObject([{ id: 'm1', body: body === 'Hello' ? m1.body : body }]);
  });

  test('counts what is unreadable or cleaned each time', async () => {
    const odd = (asOf: number): Shown[] => [
      { id: 't4', asOf, said: [{ id: 7 }, message('m7')] },
      { id: 't5', asOf: asOf + 1, said: [message('m8', { body: 'a\u0000b' })] },
    ];
    const { tables, proofs } = await rowsAfter([odd(20), odd(30)], true);
    expect(proofs).toEqual([]);
    expect(tables[4]).toMatchObject([
      { kind: 'unstorable', seen: 2 },
      { kind: 'wrong_type', seen: 2 },
    ]);
  });
});

test('a row that another transaction has written after the claim is in no proof', async () => {
  await using s = await scripted();
  s.lists.tickets = [ticket('t1', { updated_at: iso(5) })];
  s.details['/tickets/t1'] = { ...ticket('t1', { updated_at: iso(5) }), messages: [message('m1')] };
  s.goTo(8);
  await s.sync('tickets');
  await s.sync('messages');
  const proofs = () => s.rows('select proof from internal.stored_sets');
  const [before] = await proofs();
  const claimed = { id: 't1', updatedMs: second(5), asOfMs: second(20) };
  await transaction(s.pool, async client => {
    const { versions } = (await claimMembers(
      client,
      { account: 'default', run: 1 },
      messages as unknown as Detail,
      claimed,
    ))!;
    await s.rows(`update internal.messages set body = 'no'`);
    await noteStored(client, 'default', messages as unknown as Detail, [{ id: 't1', digest: 'other', versions }]);
  });
  expect(await proofs()).toEqual([before]);
});

test('the digest of a set is another one where it is stored otherwise', () => {
  const { merge } = messages;
  const one = digestOf(merge, '[]', [1]);
  expect(one).toMatch(/^[0-9a-f]{64}$/);
  const others = [
    digestOf(merge, '[{}]', [1]),
    digestOf(merge, '[]', [2]),
    digestOf({ ...merge, upsert: `${merge.upsert} ` }, '[]', [1]),
  ];
  expect(new Set([one, ...others]).size).toBe(4);
});
