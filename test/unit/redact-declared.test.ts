/** A stream that only declares its personal data: who is found in its records, and what is left of them. */
import { describe, expect, test } from 'vitest';
import { buildMerge, derived, page, text } from '../../src/engine/commit/merge.ts';
import { declarationOf, declaredRules } from '../../src/privacy/declared.ts';
import { concerns, type Erased } from '../../src/privacy/redact.ts';
import { identify } from '../../src/sources/source.ts';
import { ada, bo, contacts, contactRules as rules } from '../support/crm.ts';

const none: ReadonlySet<string> = new Set();
const nobody: Erased = { customers: none, tickets: none, contacts: none, asked: none, further: none };
const erased = (...values: string[]): Erased => ({ ...nobody, contacts: new Set(values) });
const redacted = (records: unknown[], who: Erased): unknown => JSON.parse(rules.redact(JSON.stringify(records), who));
const left = { id: 'p1', stage: 'won', company_id: 'f1', created_at: '2026-01-01T00:00:00Z' };

test('a page without erased people is the very text that came', () => {
  const page = '[ {"id" : "p1", "n": 12345678901234567890.10, "mail":"a@x"} ]';
  expect(rules.redact(page, nobody)).toBe(page);
  expect(rules.redact(page, erased('b@x'))).toContain('12345678901234567890.10');
});

test('a record with an erased contact value keeps its id, times and states, and no field that is not declared', () => {
  expect(redacted([ada(), bo()], erased(ada().mail))).toEqual([left, bo()]);
  expect(redacted([ada(), bo()], erased(ada().phones[0]!))).toEqual([left, bo()]);
  expect(redacted([ada({ mail: 'a\0@x' })], erased('a\ufffd@x'))).toEqual([left]);
});

test('contact values are found in texts, lists, objects and numbers', () => {
  const record = { id: 'p1', mail: { work: 'a@x' }, phones: [4_930_555_234, [{ n: '0301234567' }], null, true, ''] };
  const { contacts, ...others } = rules.cluesIn(JSON.stringify([record, 'text', null]));
  expect(others).toEqual({ customers: [], tickets: [] });
  expect(contacts.toSorted()).toEqual(['0301234567', '4930555234', 'a@x']);
  expect(rules.redact(JSON.stringify([record]), erased('4930555234'))).toBe('[{"id":"p1"}]');
});

test('stored rows are cleared by ids with all their digits', async () => {
  const asked: unknown[] = [];
  const query = async (_sql: string, values: unknown[] = []) => {
    asked.push(...values);
    return { rows: [], rowCount: 0 };
  };
  const page = '[{"id":9007199254740993,"mail":"a@x"},{"id":9007199254740992,"mail":"b@x"}]';
  await rules.clearStored!({ query } as never, 'default', { page, erased: erased('a@x'), now: new Date(0) });
  expect(asked).toContainEqual(['9007199254740993']);
  expect(asked).not.toContainEqual(['9007199254740992']);
});

test('a rejected record is known by its contact values, however broken', () => {
  const isOf = (payload: string | undefined) =>
    concerns(rules.cluesOf({ text: payload, recordId: 'p1' }), erased('a\ufffd@x'));
  expect(isOf(JSON.stringify({ name: 3, mail: 'a\0@x' }))).toBe(true);
  expect(isOf(JSON.stringify({ name: 3, mail: 'b@x' }))).toBe(false);
  expect(isOf('[]')).toBe(false);
  expect(isOf(undefined)).toBe(false);
});

describe('the declaration', () => {
  test('personal columns are cleared, and tables of the record are emptied', () => {
    const data = { columns: ['name', 'email', 'phones', 'note', 'chat'], contacts: ['mail', 'phones', 'chat'] };
    expect(declarationOf(contacts, data)).toEqual({
      stream: 'crm.contacts',
      table: 'crm.contacts',
      cleared: ['name', 'email', 'phones', 'note', 'chat'],
      kept: ['id', 'stage', 'company_id', 'created_at'],
      columns: ['id', 'stage', 'company_id', 'created_at'],
      contacts: { fields: ['mail', 'phones', 'chat'], columns: ['email', 'phones', 'chat'] },
      sets: [{ table: 'crm.addresses', parent: 'contact_id' }],
    });
  });

  test.for([
    ['the key holds a contact value', [text('id'), text('name')], { columns: ['name'], contacts: ['id'] }],
    ['a personal column is a parameter', [text('id'), derived('name', '$7')], { columns: ['name'], contacts: [] }],
  ] as const)('what erasure could not follow is refused: %s', ([, columns, personal]) => {
    const merge = buildMerge({ name: 'crm.contacts', from: page, columns });
    const of = { ...identify('crm', 'contacts'), merge };
    expect(() => declaredRules(of, personal)).toThrow(/stream crm.contacts .*it needs rules of its own/);
  });
});
