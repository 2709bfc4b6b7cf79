/** What is left of records of erased people; everything else goes through as it came, digit by digit. */
import { describe, expect, test } from 'vitest';
import { concerns, type Erased } from '../../src/privacy/redact.ts';
import {
  cluesIn,
  cluesOf,
  contactsOfAsked,
  foundIn,
  type Personal,
  redact,
} from '../../src/sources/helpdesk/personal/redact.ts';

const erased = (more: Partial<Record<keyof Erased, string[]>>): Erased => ({
  customers: new Set(more.customers),
  tickets: new Set(more.tickets),
  contacts: new Set(more.contacts),
  asked: new Set(more.asked),
  further: new Set(more.further),
});
const nobody = erased({});
const redacted = (stream: Personal, value: unknown, who: Erased): unknown =>
  JSON.parse(redact(stream, JSON.stringify(value), who));

test('a page in which nobody is erased is the very text that came', () => {
  const text = '[ {"id" : "c1", "n": 12345678901234567890.10, "contacts":[{"value":"a@x"}]} ]';
  expect(redact('helpdesk.customers', text, nobody)).toBe(text);
  expect(redact('helpdesk.customers', text, erased({ customers: ['c2'] }))).toContain('12345678901234567890.10');
});

test('of a customer the id is left', () => {
  const page = [
    { id: 'c1', first_name: 'Ada', contacts: [{ id: 'k1', value: 'a@x' }], birthday: '1815' },
    { id: 'c2', first_name: 'Bo' },
  ];
  expect(redacted('helpdesk.customers', page, erased({ customers: ['c1'] }))).toEqual([{ id: 'c1' }, page[1]]);
});

test('of a ticket of theirs what nobody has written is left, also of fields that are not known', () => {
  const ticket = { id: 't1', number: 7, customer_id: 'c1', state: 'open', label_ids: ['l'], subject: 'Tea', note: 'x' };
  expect(redacted('helpdesk.tickets', [ticket], erased({ tickets: ['t1'] }))).toEqual([
    { id: 't1', number: 7, customer_id: 'c1', state: 'open', label_ids: ['l'] },
  ]);
});

test("of somebody else's ticket only the field that names them goes", () => {
  const ticket = { id: 't2', customer_id: 'c2', subject: 'Tea', reply_to: 'a@x', reply_cc: 'b@x' };
  expect(redacted('helpdesk.tickets', [ticket], erased({ contacts: ['a@x'] }))).toEqual([
    { id: 't2', customer_id: 'c2', subject: 'Tea', reply_cc: 'b@x' },
  ]);
});

describe('messages', () => {
  const inbound = { id: 'm1', type: 'reply', direction: 'in', from: 'A@x', from_name: 'Ada', to: 'help@x', body: 'Hi' };
  const files = { attachments: [{ id: 'a1', name: 'ada.pdf', size: 3, type: 'pdf' }] };

  test('of a ticket of theirs: without texts, names and addresses, files without names', () => {
    expect(
      redacted(
        'helpdesk.messages',
        [{ id: 't1', subject: 'Tea', messages: [{ ...inbound, ...files }] }],
        erased({ tickets: ['t1'] }),
      ),
    ).toEqual([
      {
        id: 't1',
        messages: [{ id: 'm1', type: 'reply', direction: 'in', attachments: [{ id: 'a1', size: 3, type: 'pdf' }] }],
      },
    ]);
  });

  test("in somebody else's ticket: what they wrote goes whole, of what the team wrote the address", () => {
    const out = { ...inbound, id: 'm2', direction: 'out', from: 'help@x', from_name: 'Help', to: 'A@x' };
    const other = { ...inbound, id: 'm3', from: 'b@x' };
    const asTeam = { ...inbound, id: 'm4', direction: 'out', to: 'b@x' };
    const messages = [inbound, out, other, asTeam];
    expect(redacted('helpdesk.messages', [{ id: 't2', messages }], erased({ contacts: ['A@x'] }))).toEqual([
      {
        id: 't2',
        messages: [
          { id: 'm1', type: 'reply', direction: 'in' },
          { id: 'm2', type: 'reply', direction: 'out', from: 'help@x', from_name: 'Help', body: 'Hi' },
          other,
          { id: 'm4', type: 'reply', direction: 'out', to: 'b@x', body: 'Hi' },
        ],
      },
    ]);
  });
});

test('a name is a clue, and goes, only where it is an address, and theirs', () => {
  const named = (from_name: unknown) => ({ id: 'm1', from: 'list@x', from_name, attachments: [{ id: 'a1', type: 7 }] });
  const page = [{ id: 't1', messages: [named('Ada'), named('b@x'), named(7)] }];
  expect(cluesIn('helpdesk.messages', JSON.stringify(page)).contacts).toEqual(['list@x', 'list@x', 'b@x', 'list@x']);
  expect(redacted('helpdesk.messages', page, erased({ contacts: ['A@x'] }))).toEqual(page);
  const bare = { id: 'm1', attachments: [{ id: 'a1', type: 7 }] };
  expect(redacted('helpdesk.messages', page, erased({ tickets: ['t1'] }))).toEqual([
    { id: 't1', messages: [bare, bare, bare] },
  ]);
});

test('the clues of a ticket are its customer, its id, and whom it answers', () => {
  const ticket = { id: 't1', customer_id: 'c1', reply_to: 'a@x', reply_cc: 'b@x' };
  const clues = { customers: ['c1'], tickets: ['t1'], contacts: ['a@x', 'b@x'] };
  expect(cluesIn('helpdesk.tickets', JSON.stringify([ticket]))).toEqual(clues);
  expect(cluesIn('helpdesk.messages', JSON.stringify([ticket]))).toEqual({ ...clues, customers: [], contacts: [] });
});

test('the name of a file goes also where it stands beside its type, and a name that is an address of theirs', () => {
  const file = { id: 'a1', type: 'application/pdf; name="ada.pdf"', size: 3 };
  const message = { id: 'm1', from: 'list@x', from_name: 'A@x', body: 'Hi', attachments: [file] };
  const bare = { id: 'm1', attachments: [{ ...file, type: 'application/pdf' }] };
  const page = [{ id: 't1', messages: [message] }];
  expect(redacted('helpdesk.messages', page, erased({ tickets: ['t1'] }))).toEqual([{ id: 't1', messages: [bare] }]);
  expect(cluesIn('helpdesk.messages', JSON.stringify(page)).contacts).toEqual(['list@x', 'A@x']);
  const { from_name: _, ...unnamed } = message;
  expect(redacted('helpdesk.messages', page, erased({ contacts: ['A@x'] }))).toEqual([
    { id: 't1', messages: [unnamed] },
  ]);
});

test('further contact values of who was asked for are told, of who was found they are not', () => {
  const customers = JSON.stringify([
    { id: 'c1', contacts: [{ value: 'a@x' }, { value: 'n\0@x' }] },
    { id: 'c2', contacts: [{ value: 'a@x' }, { value: 'b@x' }] },
    { id: 'c3', contacts: [{ value: 'a@x' }] },
  ]);
  const who = erased({ customers: ['c1', 'c2', 'c3'], asked: ['c1', 'c3'], further: ['n\ufffd@x', 'b@x'] });
  expect(contactsOfAsked(customers, who)).toEqual({ customers: ['c1'], tickets: [], contacts: ['n\ufffd@x'] });
});

test('who is known by something else than his own id is found', () => {
  const customers = JSON.stringify([
    { id: 'c1', contacts: [{ value: 'a@x' }] },
    { id: 'c9', contacts: [{ value: 'b@x' }, { value: 'a@x' }] },
    { id: 'c3', contacts: null },
  ]);
  expect(cluesIn('helpdesk.customers', customers)).toEqual({
    customers: ['c1', 'c9', 'c3'],
    tickets: [],
    contacts: ['a@x', 'b@x', 'a@x'],
  });
  const who = erased({ customers: ['c1'], contacts: ['a@x'], tickets: ['t1'] });
  expect(foundIn('helpdesk.customers', customers, who)).toEqual({ customers: ['c9'], tickets: [] });
  const tickets = JSON.stringify([
    { id: 't1', customer_id: 'c1' },
    { id: 't8', customer_id: 'c1' },
    { id: 't9', customer_id: 'c2' },
  ]);
  expect(foundIn('helpdesk.tickets', tickets, who)).toEqual({ customers: [], tickets: ['t8'] });
});

test('a record that could not be stored is known by its ids, its ticket, and the addresses in it, however broken', () => {
  const who = erased({ customers: ['c1'], tickets: ['t1'], contacts: ['a\ufffd@x'] });
  const isOf = (stream: Personal, record: unknown, ...of: string[]) =>
    concerns(cluesOf(stream, JSON.stringify(record), of), who);
  expect(isOf('helpdesk.customers', { id: 'c1', first_name: 3 })).toBe(true);
  expect(isOf('helpdesk.customers', { id: 'c2', contacts: ['?', { value: 'a\0@x' }] })).toBe(true);
  expect(isOf('helpdesk.tickets', { id: 't7', customer_id: 'c1' })).toBe(true);
  expect(isOf('helpdesk.messages', { id: 'm1', body: 5 }, 't1')).toBe(true);
  expect(isOf('helpdesk.messages', { id: 't2', customer_id: 'c2', messages: [{ from: 'a\0@x' }] }, 't2')).toBe(true);
  // A message with the id of a ticket is another thing.
  expect(isOf('helpdesk.messages', { id: 't1' }, 't2')).toBe(false);
  expect(isOf('helpdesk.tickets', 'text', 't2')).toBe(false);
});
