/** What agents are answered, without a database: turns, fence, guide, masks, and the streams that a query reads. */
import { expect, test } from 'vitest';
import { briefly, type Covered, doubts, knownAsOf } from '../../src/agents/covered.ts';
import { fenced } from '../../src/agents/fence.ts';
import { guide } from '../../src/agents/guide.ts';
import { masked } from '../../src/agents/masked.ts';
import { streamsOfPlan } from '../../src/agents/reads.ts';
import { makeTurns } from '../../src/agents/turns.ts';
import type { Relation, Schema } from '../../src/analytics/catalog.ts';
import { streams } from '../../src/sources/index.ts';

test('three are answered at the same time, twenty wait in order, and others are refused', async () => {
  const { take } = makeTurns(60_000);
  const { signal } = new AbortController();
  const begun: number[] = [];
  const ends: (() => void)[] = [];
  const ask = (n: number) =>
    take(signal, async () => {
      begun.push(n);
      await new Promise<void>(resolve => ends.push(resolve));
      if (n === 1) throw new Error('one fails');
    }).catch((error: Error) => error.message);
  const asked = Array.from({ length: 23 }, (_, n) => ask(n));
  expect(await ask(23)).toBe('too many questions wait already');
  expect(begun).toEqual([0, 1, 2]);
  for (let n = 0; n < 23; n++) {
    await expect.poll(() => ends.length).toBeGreaterThan(n);
    ends[n]!();
  }
  expect((await Promise.all(asked)).filter(message => message !== undefined)).toEqual(['one fails']);
  expect(begun).toEqual(Array.from({ length: 23 }, (_, n) => n));
});

test('who is gone leaves its place, and begins nothing; at the end all are aborted, and waited for', async () => {
  const { take, close } = makeTurns(60_000);
  const here = new AbortController();
  const said: string[] = [];
  const ask = (name: string, client = here) =>
    take(client.signal, async signal => {
      said.push(`${name} begins`);
      await new Promise(resolve => signal.addEventListener('abort', resolve));
      await Promise.resolve();
      said.push(`${name} ends`);
    }).catch((error: Error) => `${name}: ${error.message}`);
  const gone = Array.from({ length: 20 }, () => new AbortController());
  const asked = ['a', 'b', 'c'].map(name => ask(name));
  const left = gone.map(one => ask('x', one));
  for (const one of gone) one.abort();
  expect(new Set(await Promise.all(left))).toEqual(new Set(['x: nobody waits for the answer']));
  expect(await ask('y', gone[0])).toBe('y: nobody waits for the answer');
  const last = ask('d');
  await close();
  expect(said).toEqual([...['a begins', 'b begins', 'c begins', 'a ends', 'b ends', 'c ends']]);
  expect(await Promise.all([...asked, last])).toEqual(
    ['a', 'b', 'c', 'd'].map(name => `${name}: nobody waits for the answer`),
  );
});

test('a fence names itself on both sides', () => {
  expect(fenced('data one>>>', 'two').split('\n').slice(1)).toEqual(['<<<data two', 'data one>>>', 'data two>>>']);
});

test('the guide has at most 4 KB, with each schema that fits', () => {
  const relation = (schema: string, n: number): Relation => ({
    ...{ schema, name: `fact_${'long_'.repeat(4)}${n}`, kind: 'view', key: [], joins: [], columns: [] },
    comment: `${'One row for each thing, '.repeat(4)}and no more. Another sentence.`,
  });
  const schema = (name: string, many: number): Schema => ({
    ...{ name, comment: 'What it is. More.', isMirror: false, routines: [] },
    relations: Array.from({ length: many }, (_, n) => relation(name, n)),
  });
  for (const many of [0, 1, 5, 30, 300])
    for (const isMasked of [true, false]) {
      const text = guide(
        ['analytics', 'safe', 'desk', 'shop', 'sync'].map(name => schema(name, many)),
        isMasked,
        ['helpdesk'],
      );
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(4096);
      expect(text).toContain('## analytics: What it is.');
      expect(text).not.toContain('Another sentence');
      if (many < 300) expect(text).toContain('## shop: What it is.');
    }
});

test('the guide names the sources of which something is mirrored, and leaves out the tables of others', () => {
  const schema = (name: string): Schema => ({ name, comment: 'It.', isMirror: true, routines: [], relations: [] });
  const text = guide([schema('helpdesk'), schema('books')], true, ['books', 'crm']);
  expect(text).toContain('Shelfdesk mirrors the book catalog and crm into PostgreSQL.');
  expect(text).toContain('## books: It.');
  expect(text).not.toContain('helpdesk');
});

test('masked, a change shows ids, times, states, flags and numbers, and no text', () => {
  expect(
    masked.fields({
      subject: ['Tea', 'Coffee'],
      body: [null, 'Hello'],
      reply_to: [['a@x.example'], []],
      state: ['open', 'closed'],
      label_ids: [['l1'], ['l2']],
      updated_at: ['2026-01-01', '2026-01-02'],
      spam: [false, true],
      number: [1, 2],
    }),
  ).toEqual({
    subject: ['masked', 'masked'],
    body: [null, 'masked'],
    reply_to: ['masked', 'masked'],
    state: ['open', 'closed'],
    label_ids: [['l1'], ['l2']],
    updated_at: ['2026-01-01', '2026-01-02'],
    spam: [false, true],
    number: [1, 2],
  });
  expect([masked.text(null), masked.text(''), masked.text('Tea')]).toEqual([null, '', 'masked']);
});

test('the streams of a query are those of the tables in its plan; anything unknown may be any', () => {
  const named = (...nodes: object[]) =>
    streamsOfPlan(JSON.stringify([{ Plan: { 'Node Type': 'Append', Plans: nodes } }]), streams, [
      { name: 'public.odd', called: '"odd name"' },
      { name: 'internal.backlog', called: 'backlog' },
      { name: 'analytics.calendar_of', called: 'calendar_of' },
    ]);
  const table = (name: string) => ({ 'Relation Name': name.split('.')[1], Schema: name.split('.')[0] });
  const output = (text: string) => ({ ...table('helpdesk.tickets'), Output: [text] });
  expect(named(table('helpdesk.tickets'), table('internal.messages'), table('sync.accounts'))).toEqual([
    ...['helpdesk.tickets', 'helpdesk.messages'],
  ]);
  expect(named(table('books.shelf_volumes'))).toEqual(['books.shelves']);
  expect(named(output(`analytics.calendar_of(a), 'helpdesk.users'`))).toEqual(['helpdesk.tickets']);
  expect(named({ Output: ['internal.backlog(a)'] })).toEqual(['helpdesk.tickets']);
  for (const nodes of [
    ...[[], [table('sync.accounts')], [table('helpdesk.tickets'), table('sync.changes')]],
    ...[[table('helpdesk.tickets'), table('public.tickets')], [output('public."odd name"(1)')]],
    [output(`query_to_xml('select 1', true, false, '')`)],
  ])
    expect(named(...nodes)).toBeUndefined();
  expect(named(output('my_backlog(1), "not odd name"(1)'))).toEqual(['helpdesk.tickets']);
});

test('what is not complete is a doubt', () => {
  const at = (day: number) => new Date(Date.UTC(2026, 0, day));
  const whole: Covered = {
    ...{ account: 'acme', stream: 'tickets', complete_from: null, complete_through: at(5), gaps: [], gap_count: 0 },
    ...{ waiting: 0, open_rejects: 0, deletes_checked_at: at(5), unchecked_since: at(5), deletions_unknown: null },
    ...{ differ_at_most_percent: null, differ_as_of: null },
  };
  const of = (one: Partial<Covered>, through?: Date, from?: Date) => doubts([{ ...whole, ...one }], { from, through });
  const gap = { gaps: [{ from: at(1), to: at(2) }], gap_count: 1 };
  expect([of({}), of({}, at(5)), of({ ...gap, waiting: 3 }, at(5))]).toEqual([[], [], []]);
  const says = (words: string) => [`tickets of the account acme: ${words}`];
  expect(of({}, at(6))).toEqual(
    says('complete through 2026-01-05T00:00:00.000Z, not through 2026-01-06T00:00:00.000Z'),
  );
  expect(of({ complete_through: null }, at(1))).toEqual(says('never read to the end'));
  expect(of(gap)).toEqual(says('1 gap, the first from 2026-01-01T00:00:00.000Z to 2026-01-02T00:00:00.000Z'));
  expect(of({ waiting: 2 })).toEqual(says('2 records still to be fetched'));
  expect(of({ open_rejects: 1 }, at(4))).toEqual(says('1 record could not be stored'));
  const begins = 'complete from 2026-01-03T00:00:00.000Z on, not from ';
  for (const through of [undefined, at(4)])
    expect(of({ complete_from: at(3) }, through)).toEqual(says(`${begins}the beginning`));
  expect(of({ complete_from: at(3) }, at(4), at(2))).toEqual(says(`${begins}2026-01-02T00:00:00.000Z`));
  expect(of({ complete_from: at(3) }, at(4), at(3))).toEqual([]);
  expect(of({ deletes_checked_at: at(3) })).toEqual([]);
  expect(of({ deletes_checked_at: at(3) }, at(4))).toEqual(
    says('deletions are known through 2026-01-03T00:00:00.000Z, not through 2026-01-04T00:00:00.000Z'),
  );
  for (const through of [undefined, at(1)]) {
    expect(of({ deletes_checked_at: null }, through)).toEqual(
      says('deletions are not known: no sweep or full read has looked for all of them'),
    );
    expect(of({ deletes_checked_at: null, deletions_unknown: 'it hides them' }, through)).toEqual(
      says('deletions are never known: it hides them'),
    );
  }
  expect(doubts([], { from: undefined, through: undefined })).toEqual(['nothing of it is mirrored']);
  expect(knownAsOf([whole, { ...whole, deletes_checked_at: at(3) }])).toEqual(at(3));
  expect(knownAsOf([whole, { ...whole, complete_through: at(2) }])).toEqual(at(2));
  expect(knownAsOf([whole, { ...whole, deletes_checked_at: null }])).toBeNull();
});

test('of many streams the least complete are told, and the time through which all are', () => {
  const at = (n: number) => new Date(Date.UTC(2026, 0, 1) + n * 3_600_000);
  const of = (n: number, more: Partial<Covered> = {}): Covered => ({
    ...{ account: `a${n}`, stream: 'tickets', complete_from: null, complete_through: at(n), gaps: [], gap_count: 0 },
    ...{ waiting: 0, open_rejects: 0, deletes_checked_at: null, unchecked_since: null, deletions_unknown: null },
    ...{ differ_at_most_percent: null, differ_as_of: null },
    ...more,
  });
  const few = [of(3), of(2)];
  expect(briefly(few)).toEqual({ completeness: few, all_complete_from: null, all_complete_through: at(2) });
  expect(briefly([])).toEqual({ completeness: [], all_complete_from: null, all_complete_through: null });
  const bounded = [of(3, { complete_from: at(1) }), of(2, { complete_from: at(2) }), of(4)];
  expect(briefly(bounded).all_complete_from).toEqual(at(2));
  const many = [...Array.from({ length: 100 }, (_, n) => of(n + 1)), of(200, { open_rejects: 1 })];
  const { completeness, ...rest } = briefly(many);
  expect(completeness.map(({ account }) => account)).toEqual([
    'a200',
    ...Array.from({ length: 39 }, (_, n) => `a${n + 1}`),
  ]);
  expect(rest).toEqual({ all_complete_from: null, all_complete_through: at(1), left_out: 61 });
  expect(briefly([...many, of(0, { complete_through: null })]).all_complete_through).toBeNull();
});
