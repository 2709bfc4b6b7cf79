/** Declarations that are refused at start: what a process of its own shows once, case by case. */
import { expect, test } from 'vitest';
import { z } from 'zod';
import { buildMerge, page, plain, text, textAt, texts, time } from '../../src/engine/commit/merge.ts';
import { readMovingList } from '../../src/engine/reading/moving-list.ts';
import { checkDeclarations } from '../../src/sources/check-declarations.ts';
import { type WholeList, wholeList } from '../../src/sources/declare.ts';
import { streams } from '../../src/sources/index.ts';
import { identify } from '../../src/sources/source.ts';

const record = z.looseObject({ id: z.string(), name: z.string(), mail: z.string(), company: z.json(), tags: z.json() });
const contacts = (more: Partial<WholeList<z.infer<typeof record>>>) =>
  wholeList({
    ...{ source: 'crm', name: 'contacts', record, perPage: 100 },
    columns: [text('id'), text('name'), text('mail', 'email'), time('updated_at')],
    request: () => ({ path: '/contacts', query: {}, cost: 1, shape: 'list', record }),
    personal: { columns: ['name'], contacts: ['mail'] },
    ...more,
  });
const refused = (more: Parameters<typeof contacts>[0]) => expect(() => checkDeclarations([contacts(more)]));

test('the declarations of this program, and one that says everything, are accepted', () => {
  checkDeclarations(streams);
  checkDeclarations([contacts({})]);
});

test('a personal column or a contact field that does not exist', () => {
  refused({ personal: { columns: ['name', 'emial'], contacts: ['mail'] } }).toThrow(
    'source crm: stream crm.contacts has no column emial, which its personal.columns name; the nearest is email',
  );
  refused({ personal: { columns: ['name'], contacts: ['mial'] } }).toThrow(
    'has no field mial, which its personal.contacts name; the nearest is mail',
  );
});

test.each([[text('name')], [text('name', 'called')], [textAt('company.name', 'company')], [texts('tags')]])(
  'a text of which nothing is said: %o',
  column => {
    const columns = [text('id'), text('mail', 'email'), column];
    const personal = { columns: [], contacts: ['mail'] };
    refused({ columns, personal }).toThrow(`does not say whether the text column ${column.name} is personal`);
    checkDeclarations([contacts({ columns: [...columns.slice(0, 2), plain(column)], personal })]);
    checkDeclarations([contacts({ columns, personal: { columns: [column.name], contacts: ['mail'] } })]);
  },
);

test('a moving list without a version', () => {
  const merge = buildMerge({ name: 'crm.deals', from: page, columns: [text('id'), time('updated_at')] });
  const deals = { ...identify('crm', 'deals'), merge, fields: new Set(['id']), read: readMovingList };
  expect(() => checkDeclarations([deals])).toThrow(
    'stream crm.deals reads a list that moves, and its table has no version',
  );
});
