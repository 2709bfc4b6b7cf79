import fc from 'fast-check';
import { expect, test } from 'vitest';
import { applyRules, type FieldRules, type Kinds, parseRules } from '../../src/engine/http/field-rules.ts';

const plain: readonly string[] = [];
const kinds: Kinds = {
  tickets: {
    fields: [],
    plain,
    within: { messages: 'messages', customer: 'customers' },
    needed: ['id', 'updated_at', 'messages'],
  },
  messages: { fields: [], plain, within: { attachments: 'attachments' }, needed: ['id'] },
  attachments: { fields: [], plain, within: {}, needed: ['id'] },
  customers: { fields: [], plain, within: { contacts: 'contacts' }, needed: ['id'] },
  contacts: { fields: [], plain, within: {}, needed: ['id'] },
};
const rules = (text: string): FieldRules => ({ kinds, rules: parseRules(text), key: 'a key' });
const apply = (text: string, kind: string, record: unknown) =>
  JSON.parse(applyRules(rules(text), kind, JSON.stringify(record)));

test('a field is left out wherever a record of its kind shows up', () => {
  const message = { id: 'm', body: 'secret', from: 'a@b.c', attachments: [{ id: 'f', name: 'cv.pdf' }] };
  const ticket = { id: 't', subject: 'hello', messages: [message, message] };
  const bare = { id: 'm', from: 'a@b.c', attachments: [{ id: 'f' }] };
  expect(apply('messages.body attachments.name', 'tickets', ticket)).toEqual({ ...ticket, messages: [bare, bare] });
  expect(apply('messages.body', 'messages', { id: 'm', body: 1 })).toEqual({ id: 'm' });
});

test('a star stands for any text, and no rule applies to what a record needs', () => {
  const one = { id: 'c', first_name: 'Ann', last_name: 'Lee', name: 'x' };
  expect(apply('customers.*_name', 'customers', one)).toEqual({ id: 'c', name: 'x' });
  expect(apply('customers.*', 'customers', one)).toEqual({ id: 'c' });
});

test('hash, domain and truncate', () => {
  const { value } = apply('contacts.value:hash', 'contacts', { id: 'k', value: 'a@b.c' });
  expect(value).toMatch(/^h:[0-9a-f]{32}$/);
  expect(apply('contacts.value:hash', 'contacts', { id: 'x', value: 'a@b.c' }).value).toBe(value);
  const other = applyRules({ ...rules('contacts.value:hash'), key: 'b' }, 'contacts', '{"id":"k","value":"a@b.c"}');
  expect(JSON.parse(other).value).not.toBe(value);
  expect(apply('contacts.value:domain', 'contacts', { id: 'k', value: 'Ann <Ann@B.com>, b@c.de' })).toEqual({
    id: 'k',
    value: '@b.com, @c.de',
  });
  expect(apply('contacts.value:domain', 'contacts', { id: 'k', value: '+49 30 1' })).toEqual({ id: 'k' });
  expect(apply('tickets.subject:truncate=3', 'tickets', { id: 't', subject: '🙂bcd' })).toEqual({
    id: 't',
    subject: '🙂bc',
  });
});

test('a rule that is applied again changes nothing', () => {
  for (const action of ['hash', 'domain', 'truncate=2']) {
    const once = apply(`contacts.value:${action}`, 'contacts', { id: 'k', value: ['Ann <a@B.com>', 'c@d.e', 1, null] });
    expect(apply(`contacts.value:${action}`, 'contacts', once)).toEqual(once);
  }
});

test('numbers keep their digits, and a record without a rule is the same text', () => {
  const text = '{"id":"t", "number": 12345678901234567890.10,"subject":"x"}';
  expect(applyRules(rules('tickets.subject'), 'tickets', text)).toBe('{"id":"t","number":12345678901234567890.10}');
});

test('nothing of a ruled field stays, whatever shape it and what is around it has', () => {
  const canary = fc.constantFrom('CANARY', 'x CANARY@CANARY.example', '"CANARY\\');
  const { value } = fc.letrec(tie => ({
    value: fc.oneof(
      { depthSize: 'small' },
      canary,
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(fc.oneof(canary, fc.string()), tie('value'), { maxKeys: 3 }),
    ),
  }));
  const odd = fc.record({
    id: fc.constant('t'),
    messages: fc.oneof(value, fc.array(fc.record({ id: fc.constant('m'), body: value }), { maxLength: 2 })),
  });
  fc.assert(
    fc.property(odd, record => {
      const text = applyRules(rules('messages.*'), 'tickets', JSON.stringify(record));
      expect(() => JSON.parse(text)).not.toThrow();
      expect(text).not.toContain('CANARY');
    }),
  );
});

test.for([
  ['messages:hash', 'messages:hash is none'],
  ['messages.body:forget', 'forget is none'],
  ['tickets.subject:truncate', 'truncate is none'],
  ['tickets.subject:hash=4', '=4 is none'],
])('refused: %s', ([text, why]) => {
  expect(() => parseRules(text!)).toThrow(why);
});
