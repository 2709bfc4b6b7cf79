/** The declaration of a record: mistakes that do not compile, and what is made of it. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { parseJson } from '../../src/engine/exact-json.ts';
import { shelf, volume } from '../../src/sources/books/records.ts';
import { changedAt, countOf, versionOf } from '../../src/sources/books/shelves/shelves.ts';
import { customer, message, ticket, user } from '../../src/sources/helpdesk/records.ts';
import { kinds, sources, streams } from '../../src/sources/index.ts';
import { checkOf, factsOf } from '../../src/sources/record/check.ts';
import { columnsOf, leftOutOf } from '../../src/sources/record/columns.ts';
import { kindOf } from '../../src/sources/record/kinds.ts';
import { contactsOf, cutOf, keptOf, tellingColumns } from '../../src/sources/record/personal.ts';
import {
  allFields,
  children,
  embedded,
  flag,
  id,
  integer,
  known,
  lenientRecord,
  number,
  object,
  objects,
  oneOf,
  record,
  references,
  text,
  texts,
  textsByName,
  time,
  unasked,
} from '../../src/sources/record/record.ts';

const line = record('lines', 'Lines.', {
  id: id(),
  kind: oneOf(['item', 'fee']),
  note: text('Note.').personal('text'),
});
const invoice = record('invoices', 'Invoices.', {
  id: id(),
  number: integer('Number.'),
  tag_ids: references('tags', 'Tags.'),
  from: text('Address.').personal('contact', {
    column: 'from_address',
    computed: { from_form: 'Form of from_address.' },
  }),
  sender: text('Name.').personal('name', { nameOf: 'from' }),
  type: text('Type.').plain({ upTo: ';' }),
  letter: text('Letter.').personal('text', { apart: true }),
  currency: text('Currency.').plain(),
  paid: flag('True if it is paid.', { needed: true }),
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
  record('a', 'A.', { paid: flag('True if it is paid.', { needed: true }) });
  // @ts-expect-error Nothing in an object is personal.
  object({ note: text('Note.').personal('text') });
  // @ts-expect-error Only a text that tells of nobody is cut.
  text('Note.').personal('text', { upTo: ';' });
});

describe('what is plainly right is not copied, and judged as the schema judges it:', () => {
  /** Values that one field or another takes, refuses or changes. */
  const value = fc.oneof(
    fc.constantFrom('', '.', '..', 'a', 'A-b_9', 'b c', 'a\0', '\ud800', 'x'.repeat(500), 'x'.repeat(501), '7', 'item'),
    fc.constantFrom('2026-01-01T00:00:00Z', '2026-01-01 00:00:00', '2026-02-30T00:00:00Z', '2026-01-01', '9999-13-01'),
    fc.constantFrom(0, 7, -0, 1.5, 2 ** 53, 2 ** 60, Number.MAX_VALUE, Number.POSITIVE_INFINITY),
    fc.constantFrom(true, false, null, undefined, parseJson('12345678901234567890')),
    fc.constantFrom<unknown>([], ['a'], ['a', 7], {}, { id: 'a' }, [{ id: 'a' }], [{ id: 7 }], [{}], [null]),
  );
  const measure = record('measures', 'Measures.', {
    id: id(),
    size: number('Size.'),
    sizes: objects({ at: known('numeric') }),
  });
  test.for([invoice, measure, volume, ticket, message, customer, user])('$name', of => {
    const schema = checkOf(of);
    // A list of records asks the schema alone.
    const judge = z.array(schema);
    const names = Object.keys(of.fields);
    const right = Object.fromEntries(
      names.filter(name => name.endsWith('_at')).map(name => [name, '2026-01-01T00:00:00Z']),
    );
    let taken = 0;
    const records = fc
      .dictionary(fc.constantFrom(...names, 'further'), value, { maxKeys: 4 })
      .map(more => ({ id: 'a', ...right, ...more }));
    fc.assert(
      fc.property(records, raw => {
        const [own, judged] = [schema.safeParse(raw), judge.safeParse([raw])];
        expect(own.success).toBe(judged.success);
        expect(own.data).toEqual(judged.data?.[0]);
        if (own.data === raw) taken++;
      }),
      { numRuns: 300 },
    );
    expect(taken).toBeGreaterThan(0);
  });
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
      'sender',
      'type',
      'letter',
      'currency',
      'paid',
      'changed_at',
    ]);
    expect(leftOutOf(invoice)).toEqual(['letter', 'client', 'owner']);
  });

  test('what tells of people', () => {
    expect(keptOf(invoice)).toEqual(['id', 'number', 'tag_ids', 'type', 'currency', 'paid', 'changed_at']);
    expect(contactsOf(invoice)).toEqual([
      { field: 'from', column: 'from_address', isName: false, ofSame: ['from', 'sender'] },
      { field: 'sender', column: 'sender', isName: true, ofSame: ['sender'] },
    ]);
    expect(cutOf(invoice)).toEqual([['type', ';']]);
    expect(tellingColumns(invoice)).toEqual(['from_address', 'from_form', 'sender', 'letter']);
  });

  test('what field rules know of it', () => {
    expect(kindOf(invoice)).toMatchObject({
      fields: [
        'id',
        'number',
        'tag_ids',
        'from',
        'sender',
        'type',
        'letter',
        'currency',
        'paid',
        'changed_at',
        'lines',
      ],
      shapes: { id: 'text', number: 'number', tag_ids: 'texts', paid: 'flag', changed_at: 'text' },
      words: ['id', 'tag_ids', 'type', 'changed_at'],
      times: ['changed_at'],
      within: { lines: 'lines', client: 'clients', owner: 'users' },
      needed: ['id', 'paid', 'changed_at'],
      plain: ['number', 'tag_ids'],
    });
  });
});

describe('of a lenient record, whose source names no types:', () => {
  const book = lenientRecord('books', 'Books.', {
    id: id({ says: 'Id of the book.', isNumber: true }),
    etag: known('text', { varies: true }),
    tag: unasked(),
    pageCount: integer('Pages.', { unlessZero: true }),
    addedOn: time('Time.', { column: 'added_at' }),
    info: object({
      title: text('Title.').plain(),
      authors: texts('Authors.').plain(),
      kind: oneOf(['BOOK', 'MAP']),
      sold: flag('Sold.'),
      price: object({ amount: number('Price.', { column: 'price' }) }),
      codes: objects({ code: known('text') }, { computed: { isbn: 'ISBN.' } }),
      links: textsByName({ varies: true }),
    }),
  });
  const full = {
    ...{ id: 7, etag: 'e', pageCount: 0.5, addedOn: 'once', more: 1 },
    info: { title: 't', authors: ['a'], kind: 'CD', price: { amount: 1.5 }, codes: [{ code: 'c' }], links: { a: 'b' } },
  };

  test('its check needs an id, a number or a short text', () => {
    const checked = (record: object) => checkOf(book).safeParse(record).data?.id;
    expect([full, { id: '7', info: 'no object', pageCount: [] }, { id: 'x'.repeat(100) }].map(checked)).toEqual([
      ...['7', '7', 'x'.repeat(100)],
    ]);
    expect([{}, { id: 2 ** 60 }, { id: 'x'.repeat(101) }, { id: null }].map(checked)).toEqual(Array(4).fill(undefined));
  });

  test('what is drift: other types, also null, at any depth', () => {
    const { fields, expected, enumerations, sets } = factsOf(book);
    const wrong = (record: object) =>
      (expected!.safeParse(record).error?.issues ?? []).map(({ path }) => path.join('.'));
    expect(wrong(full)).toEqual([]);
    const info = { title: null, authors: 'a', kind: 1, sold: 1, price: 3, codes: [{ code: 1 }], links: { a: 1 } };
    expect(wrong({ id: '7', etag: 1, tag: 1, pageCount: '7', addedOn: 1, info })).toEqual([
      ...['id', 'etag', 'pageCount', 'addedOn', 'info.title', 'info.authors', 'info.kind', 'info.sold', 'info.price'],
      ...['info.codes.0.code', 'info.links.a'],
    ]);
    expect([...fields]).toEqual(['id', 'etag', 'pageCount', 'addedOn', 'info']);
    expect([enumerations, sets]).toEqual([{ 'info.kind': ['BOOK', 'MAP'] }, ['id']]);
  });

  test('its columns, by the names of the fields or their own, and what `_payload` leaves out', () => {
    const isbn = { name: 'isbn', sql: '' };
    const columns = columnsOf(book, { 'info.codes': [isbn] }).map(({ name, path }) => [name, path]);
    expect(columns).toEqual([
      ...[
        ['id', undefined],
        ...[
          ['page_count', 'pageCount'],
          ['added_at', 'addedOn'],
        ],
      ],
      ...['title', 'authors', 'kind', 'sold'].map(name => [name, `info.${name}`]),
      ...[
        ['price', 'info.price.amount'],
        ['isbn', undefined],
      ],
    ]);
    expect(leftOutOf(book)).toEqual(['etag', 'tag', 'info.links']);
    expect([tellingColumns(book), keptOf(book)]).toEqual([[], ['id', 'pageCount', 'addedOn']]);
  });

  test('what field rules know of it: no value is emptied for its type', () => {
    expect(kindOf(book)).toEqual({
      fields: ['id', 'etag', 'pageCount', 'addedOn', 'info'],
      within: {},
      inside: { info: ['title', 'authors', 'kind', 'sold', 'price', 'codes', 'links'] },
      ...{ words: ['id', 'addedOn'], times: ['addedOn'] },
      needed: ['id'],
      plain: ['pageCount', 'addedOn'],
    });
  });
});

test('no field rule takes away what says where a record stands in its list', () => {
  const asked = (of: string, ...ask: ((record: never) => unknown)[]) => {
    const names = new Set<string>();
    const told = (_: object, name: string) => {
      names.add(name);
      return '2026-01-01T00:00:00Z';
    };
    for (const one of ask) one(new Proxy({}, { get: told }) as never);
    expect(kinds[of]!.needed, of).toEqual(expect.arrayContaining([...names]));
    return names.size;
  };
  const counts = streams.map(one => {
    if (one.kind === 'shelves') return asked(one.key, versionOf, changedAt, countOf);
    if (one.kind === 'detail') return asked(one.of.key, one.version!);
    if (one.kind !== 'list') return 0;
    const shows = one.lists.flatMap(list => list.shows ?? []);
    return asked(one.key, ...shows, record => [one.orderedBy(record), one.orderedBy(record, 'created')]);
  });
  expect(counts).toEqual([0, 0, 4, 1, 2, 0]);
});

test('what the records of the sources name is there', () => {
  for (const { name: source, tables = [] } of sources)
    for (const { record } of tables) {
      const facts = allFields(record);
      const named = facts.flatMap(([, { of }]) => (of === undefined ? [] : [`${source}.${of}`]));
      expect(Object.keys(kinds), record.name).toEqual(expect.arrayContaining(named));
      const contacts = facts.filter(([, { tells }]) => tells === 'contact').map(([name]) => name);
      expect(contacts, record.name).toEqual(expect.arrayContaining(facts.flatMap(([, { nameOf }]) => nameOf ?? [])));
      const columns = facts.flatMap(([, one]) => [
        ...(one.is === 'column' ? [one.column] : []),
        ...Object.keys(one.computed ?? {}),
      ]);
      expect(new Set(columns).size, record.name).toBe(columns.length);
    }
});

test('the catalog has so many values in each of its lists', () => {
  const counts = [shelf, volume].flatMap(of => Object.entries(factsOf(of).enumerations));
  expect(counts.map(([path, values]) => `${path} ${values.length}`)).toEqual([
    ...['access 2', 'volumeInfo.printType 2', 'volumeInfo.maturityRating 2', 'saleInfo.saleability 6'],
    'accessInfo.viewability 4',
  ]);
});
