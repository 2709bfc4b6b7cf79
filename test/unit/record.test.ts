/** The declaration of a record: mistakes that do not compile, and what is made of it. */
import { describe, expect, test } from 'vitest';
import {
  children,
  embedded,
  flag,
  id,
  integer,
  oneOf,
  record,
  references,
  text,
  time,
  unasked,
} from '../../src/sources/record.ts';
import { checkOf, factsOf } from '../../src/sources/record-check.ts';
import { columnsOf, leftOutOf } from '../../src/sources/record-columns.ts';
import { kindOf } from '../../src/sources/record-kinds.ts';
import { contactsOf, keptOf, tellingColumns } from '../../src/sources/record-personal.ts';

const line = record('lines', 'Lines.', {
  id: id(),
  kind: oneOf(['item', 'fee']),
  note: text('Note.').personal('text'),
});
const invoice = record('invoices', 'Invoices.', {
  id: id(),
  number: integer('Number.'),
  tag_ids: references('tags', 'Tags.'),
  from: text('Address.').personal('contact', { column: 'from_address', computed: 'from_form' }),
  letter: text('Letter.').personal('text', { apart: true }),
  currency: text('Currency.').plain(),
  paid: flag('True if it is paid.'),
  changed_at: time('Time of the last change.').always(),
  lines: children(line),
  client: embedded('clients'),
  owner: unasked('users'),
});

test('what is forgotten or mistyped does not compile', () => {
  // @ts-expect-error A text says what it tells of people.
  record('a', 'A.', { id: id(), note: text('Note.') });
  // @ts-expect-error It tells a name, a contact or a text.
  text('Note.').personal('contcat');
  // @ts-expect-error A record has an id.
  record('a', 'A.', { paid: flag('True if it is paid.') });
  // @ts-expect-error Only a text that tells of nobody is cut.
  text('Note.').personal('text', { upTo: ';' });
});

describe('what follows from a record:', () => {
  test('its check, which needs an id and the times that are always there', () => {
    const verdict = (more: object) =>
      checkOf(invoice).safeParse({ id: 'a', changed_at: '2026-01-01T00:00:00Z', ...more }).success;
    expect([{}, { paid: null, more: 1, client: 7 }, { lines: [{ id: 'b' }] }].map(verdict)).toEqual([true, true, true]);
    expect(
      [
        { id: '' },
        { changed_at: null },
        { changed_at: '2026-13-01T00:00:00Z' },
        { paid: 'yes' },
        { number: 1.5 },
        { lines: [{}] },
      ].map(verdict),
    ).toEqual([false, false, false, false, false, false]);
  });

  test('what is drift', () => {
    expect(factsOf(invoice)).toEqual({
      fields: new Set(Object.keys(invoice.fields).filter(name => name !== 'owner')),
      enumerations: { 'lines.kind': ['item', 'fee'] },
      sets: ['id', 'tag_ids', 'lines.id'],
    });
  });

  test('its columns, and what `_payload` leaves out', () => {
    expect(columnsOf(invoice).map(({ name }) => name)).toEqual([
      'id',
      'number',
      'tag_ids',
      'from_address',
      'letter',
      'currency',
      'paid',
      'changed_at',
    ]);
    expect(leftOutOf(invoice)).toEqual(['client', 'owner', 'letter']);
  });

  test('what tells of people', () => {
    expect(keptOf(invoice)).toEqual(['id', 'number', 'tag_ids', 'currency', 'paid', 'changed_at']);
    expect(contactsOf(invoice)).toEqual(['from']);
    expect(tellingColumns(invoice)).toEqual(['from_address', 'from_form', 'letter']);
    expect(tellingColumns(invoice, { apart: false })).toEqual(['from_address', 'from_form']);
  });

  test('what field rules know of it', () => {
    expect(kindOf(invoice, { needed: ['paid'] })).toMatchObject({
      fields: ['id', 'number', 'tag_ids', 'from', 'letter', 'currency', 'paid', 'changed_at', 'lines'],
      shapes: { id: 'text', number: 'number', tag_ids: 'texts', paid: 'flag', changed_at: 'text' },
      within: { lines: 'lines', client: 'clients', owner: 'users' },
      needed: ['id', 'changed_at', 'paid'],
      plain: ['number', 'tag_ids'],
    });
  });
});
