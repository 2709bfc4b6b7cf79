import { expect, test } from 'vitest';
import type { Reply } from '../../src/engine/http/request.ts';
import { batchBehind } from '../../src/engine/load/batch.ts';
import { customers } from '../../src/sources/helpdesk/customers.ts';

type Row = { id: string; first_name: string; contacts: [] };
const row = (id: string, first_name = 'Ada'): Row => ({ id, first_name, contacts: [] });

const replyOf = (records: Row[], unreadable: object[] = []): Reply<Row> =>
  ({
    records,
    unreadable,
    arrived: records.length,
    text: JSON.stringify(records, null, 1),
    asOf: 0,
    date: 0,
  }) as never;

const behind = (before: Row[], page: Row[]) =>
  batchBehind(replyOf(before) as never, customers, { page: 1, perPage: 100 }, replyOf(page) as never);

const all = (batch: ReturnType<typeof behind>) => {
  const text = batch!.text(
    batch!.records.map(({ place }) => place),
    'as it came',
  );
  return { ids: batch!.records.map(({ id }) => id), text: (JSON.parse(text) as Row[]).map(({ id }) => id) };
};

test('what the page before shows word for word is left out', () => {
  expect(all(behind([row('a'), row('b, "x"]')], [row('b, "x"]'), row('c'), row('d')]))).toEqual({
    ids: ['c', 'd'],
    text: ['c', 'd'],
  });
  expect(all(behind([row('a')], [row('b')]))).toEqual({ ids: ['b'], text: ['b'] });
  expect(all(behind([row('a')], [row('a')]))).toEqual({ ids: [], text: [] });
});

test('what it shows differently, or in another place, has to wait for it', () => {
  expect(behind([row('a')], [row('a', 'Grace'), row('b')])).toBeUndefined();
  expect(behind([row('a')], [row('b'), row('a')])).toBeUndefined();
});

test('behind a page that had a record set aside it waits too: what that one lacked may be here', () => {
  const before = replyOf([row('a')], [{ place: 1, id: 'b', raw: {}, reason: 'why', path: '' }]);
  const page = replyOf([row('a'), row('b')]);
  expect(batchBehind(before as never, customers, { page: 1, perPage: 100 }, page as never)).toBeUndefined();
});
