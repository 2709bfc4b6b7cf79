import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { applyRules, type FieldRules, isRuled, type Kinds, ruledValues } from '../../src/privacy/fields/field-rules.ts';
import { lostBy } from '../../src/privacy/fields/losses.ts';
import { parseRules, wrongRule } from '../../src/privacy/fields/parse-field-rules.ts';
import { kinds as declared } from '../../src/sources/index.ts';

const plain: readonly string[] = [];
const kinds: Kinds = {
  'desk.tickets': {
    fields: [],
    plain,
    within: { messages: 'desk.messages', customer: 'desk.customers' },
    needed: ['id', 'updated_at', 'messages'],
  },
  'desk.messages': { fields: [], plain, within: { attachments: 'desk.attachments' }, needed: ['id'] },
  'desk.attachments': { fields: [], plain, within: {}, needed: ['id'] },
  'desk.customers': { fields: [], plain, within: { contacts: 'desk.contacts' }, needed: ['id'] },
  'desk.contacts': { fields: [], plain, within: {}, needed: ['id'] },
};
const rules = (text: string): FieldRules => ({ kinds, rules: parseRules(text, kinds), key: 'a key' });
const apply = (text: string, kind: string, record: unknown) =>
  JSON.parse(applyRules(rules(text), `desk.${kind}`, JSON.stringify(record)));

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
  const other = applyRules(
    { ...rules('contacts.value:hash'), key: 'b' },
    'desk.contacts',
    '{"id":"k","value":"a@b.c"}',
  );
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

test('all spellings of an address have one hash, and an action that keeps a part keeps its spelling', () => {
  const hashOf = (value: unknown) => apply('contacts.value:hash', 'contacts', { id: 'k', value }).value;
  for (const [one, ...others] of [
    ['a@b.c', ' A@B.c ', 'a@B.C'],
    ['+49301234567', '+49 30 123-45.67', '+49 (30) 1234567'],
    ['0301234567', '030/1234567'],
    ['ada', '@Ada'],
  ])
    for (const other of others) expect(hashOf(other), String(other)).toBe(hashOf(one));
  expect(hashOf('+49301234567')).not.toBe(hashOf('49301234567'));
  expect(apply('contacts.value:truncate=3', 'contacts', { id: 'k', value: ' A@B' }).value).toBe(' A@');
});

test('a rule that is applied again changes nothing, and a fresh value that looks changed is changed', () => {
  const again = (text: string, record: unknown) =>
    JSON.parse(applyRules({ ...rules(text), isAgain: true }, 'desk.contacts', JSON.stringify(record)));
  expect(apply('contacts.value:hash', 'contacts', { id: 'k', value: `h:${'0'.repeat(32)}` }).value).not.toMatch(/^h:0/);
  expect(apply('contacts.value:domain', 'contacts', { id: 'k', value: '@jane.doe' })).toEqual({ id: 'k' });
  for (const action of ['hash', 'domain', 'truncate=2']) {
    const once = apply(`contacts.value:${action}`, 'contacts', { id: 'k', value: ['Ann <a@B.com>', 'c@d.e', 1, null] });
    expect(again(`contacts.value:${action}`, once)).toEqual(once);
  }
});

test('names that every object of JavaScript has are names of fields like others', () => {
  const text = '{"id":"t","constructor":{"a":"C"},"toString":"C","__proto__":["C"],"valueOf":1,"subject":"x"}';
  expect(applyRules(rules('tickets.* messages.*'), 'desk.tickets', text)).toBe('{"id":"t"}');
  expect(applyRules(rules('tickets.subject'), 'desk.tickets', text)).toBe(text.replace(',"subject":"x"', ''));
  expect(wrongRule(kinds, parseRules('constructor.x', kinds))).toContain('names constructor, which is none of tickets');
  expect(wrongRule(kinds, parseRules('tickets.constructor', kinds))).toContain('which is no field of tickets');
});

test('a kind that is left out whole takes the records within it along', () => {
  const one = { id: 'c', first_name: 'Ann', contacts: [{ id: 'k', value: 'a@b.c' }] };
  expect(apply('customers', 'customers', one)).toEqual({ id: 'c', contacts: [{ id: 'k' }] });
  expect(apply('customers', 'tickets', { id: 't', customer: one, subject: 'x' })).toEqual({
    id: 't',
    customer: { id: 'c', contacts: [{ id: 'k' }] },
    subject: 'x',
  });
});

test('what stands where a record should be, and is none, is left out', () => {
  const rule = 'contacts.value messages.body';
  expect(apply(rule, 'customers', { id: 'c', contacts: { a: { value: 'C' } } })).toEqual({ id: 'c', contacts: null });
  expect(apply(rule, 'tickets', { id: 't', messages: { data: [{ body: 'C' }] } })).toEqual({ id: 't', messages: null });
  expect(apply(rule, 'tickets', [{ ticket: { body: 'C' } }, 'C', [{ id: 't' }]])).toEqual([null, null, null]);
  // A field that a record needs is never an object.
  expect(apply('tickets.*', 'tickets', { id: 't', updated_at: { at: 'C' } })).toEqual({ id: 't' });
});

test('what is no text is left out by every rule, and arrays of any depth are another shape', () => {
  const plainly = { ...kinds, 'desk.tickets': { ...kinds['desk.tickets']!, plain: ['number', 'label_ids'] } };
  const of = { ...rules('tickets.*:hash'), kinds: plainly };
  const text = '{"id":"t","number":7,"label_ids":["a"],"subject":"x"}';
  expect(Object.keys(JSON.parse(applyRules(of, 'desk.tickets', text)))).toEqual(['id', 'subject']);
  const deep = `{"id":"t","subject":${'['.repeat(20_000)}"C"${']'.repeat(20_000)}}`;
  for (const rule of ['tickets.subject:hash', 'tickets.subject:domain', 'tickets.sub*.x'])
    expect(applyRules(rules(rule), 'desk.tickets', deep)).toBe('{"id":"t","subject":[null]}');
  const nested = deep.replace('subject', 'customer');
  expect(applyRules(rules('contacts.value'), 'desk.tickets', nested)).toBe('{"id":"t","customer":[null]}');
});

test('a rule concerns a field, what is in it, and what holds it', () => {
  const concerns = (text: string, kind: string, ...at: string[]) => isRuled(rules(text), `desk.${kind}`, ...at);
  expect(concerns('tickets.a.b', 'tickets', 'a')).toBe(true);
  expect(concerns('tickets.a', 'tickets', 'a', 'b')).toBe(true);
  expect(concerns('tickets.a.c', 'tickets', 'a', 'b')).toBe(false);
  expect(concerns('tickets.*.b', 'tickets', 'a', 'b')).toBe(true);
  expect(concerns('customers.email', 'tickets', 'customer', 'email')).toBe(true);
  expect(concerns('customers.name', 'tickets', 'customer', 'email')).toBe(false);
});

test('old and new values of a field follow the rules one by one', () => {
  expect(ruledValues(rules('tickets.subject'), 'desk.tickets', 'subject', '["a","b"]')).toBeUndefined();
  expect(ruledValues(rules('tickets.subject:truncate=1'), 'desk.tickets', 'subject', '["ab",null]')).toBe('["a",null]');
  const contacts = '[[{"id":"k","value":"a"}],[]]';
  expect(ruledValues(rules('contacts.value'), 'desk.customers', 'contacts', contacts)).toBe('[[{"id":"k"}],[]]');
});

test('numbers keep their digits, and a record without a rule is the same text', () => {
  const text = '{"id":"t", "number": 12345678901234567890.10,"subject":"x"}';
  expect(applyRules(rules('tickets.subject'), 'desk.tickets', text)).toBe(
    '{"id":"t","number":12345678901234567890.10}',
  );
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
      const text = applyRules(rules('messages.*'), 'desk.tickets', JSON.stringify(record));
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
  ['tickets.', 'tickets. is none'],
  ['tickets.a..b', 'tickets.a..b is none'],
])('refused: %s', ([text, why]) => {
  expect(() => parseRules(text!, kinds)).toThrow(why);
});

test.for([
  ['tickets.*:hash tickets.subject:truncate=3', 'which change the same field'],
  ['tickets.subject:hash tickets.subject:truncate=3', 'which change the same field'],
  ['volumes.volumeInfo.descripton', 'the nearest is volumes.volumeInfo.description'],
  ['volumes.id.x', 'without which'],
  ['tickets.subject.x', 'tickets.subject has no fields of its own'],
])('not to be followed: %s', ([text, why]) => {
  expect(wrongRule(declared, parseRules(text!, declared))).toContain(why);
});

test('one rule leaves out what another one changes', () => {
  expect(wrongRule(declared, parseRules('tickets.* tickets.subject:hash', declared))).toBeUndefined();
  expect(wrongRule(declared, parseRules('volumes.volumeInfo.description volumes.*.title', declared))).toBeUndefined();
});

test('a kind that is left out whole costs what the kinds within it cost', () => {
  const of = (text: string): FieldRules => ({ kinds: declared, rules: parseRules(text, declared), key: '' });
  const lost = lostBy(of('contacts.value'), 'helpdesk.contacts.value');
  expect(lost).toContain('search of addresses');
  expect(lostBy(of('customers'), 'helpdesk.customers')).toEqual(lost);
  expect(lostBy(of('customers.first_name'), 'helpdesk.customers.first_name')).toEqual([]);
});

test('a source that has the name of a kind is named in full, unless that kind has such a field', () => {
  const three = {
    ...kinds,
    'desk.tickets': { ...kinds['desk.tickets']!, fields: ['subject'] },
    'tickets.tickets': { ...kinds['desk.contacts']!, fields: ['holder'] },
    'tickets.subject': kinds['desk.contacts']!,
  };
  const named = (text: string) => parseRules(text, three).map(({ full }) => full);
  expect(named('tickets.tickets.holder:hash desk.tickets.subject')).toEqual([
    'tickets.tickets.holder:hash',
    'desk.tickets.subject',
  ]);
  expect(() => named('tickets.subject')).toThrow('may mean desk.tickets.subject or tickets.subject');
});

test('a kind is named by its key, or by a short name that one source alone has', () => {
  const two = {
    ...kinds,
    'crm.contacts': { ...kinds['desk.contacts']!, fields: ['email'] },
    'crm.deals': kinds['desk.contacts']!,
  };
  const named = (text: string) => parseRules(text, two).map(({ kind, path, full }) => [kind, path.join('.'), full]);
  expect(named('messages.body:leave-out deals crm.contacts.email:hash desk.contacts.*')).toEqual([
    ['desk.messages', 'body', 'desk.messages.body'],
    ['crm.deals', '*', 'crm.deals'],
    ['crm.contacts', 'email', 'crm.contacts.email:hash'],
    ['desk.contacts', '*', 'desk.contacts.*'],
  ]);
  expect(() => parseRules('contacts.email:hash', two)).toThrow(
    'must name the source, because contacts.email:hash may mean desk.contacts.email:hash or crm.contacts.email:hash',
  );
  expect(() => parseRules('contacts', two)).toThrow('may mean desk.contacts or crm.contacts');
  const wrong = (text: string) => wrongRule(two, parseRules(text, two));
  expect(wrong('crm.contcats.email')).toMatch(
    /^names crm\.contcats, which is none of tickets, .*desk\.contacts, crm\.contacts/,
  );
  expect(wrong('crm.contacts.emial')).toContain('the nearest is crm.contacts.email');
  const of = { kinds: two, rules: parseRules('crm.contacts.email', two), key: '' };
  const text = '{"id":"k","email":"a@b.c"}';
  expect(applyRules(of, 'desk.contacts', text)).toBe(text);
  expect(applyRules(of, 'crm.contacts', text)).toBe('{"id":"k"}');
});

describe('a value of another shape than the specification says', () => {
  const of = (text: string): FieldRules => ({ kinds: declared, rules: parseRules(text, declared), key: 'a key' });
  const ticket = { id: 't', updated_at: '2026-01-01T00:00:00Z', customer_id: 'c', label_ids: ['l'], subject: 'x' };
  const ruled = (text: string, kind: string, record: object) =>
    JSON.parse(applyRules(of(text), `helpdesk.${kind}`, JSON.stringify(record)));
  const all = 'customers.first_name labels.name contacts.value:hash messages.from:domain tickets.summary:truncate=40';

  test('keeps its shape and says nothing, so that the record stays a reject', () => {
    const odd = {
      label_ids: [{ name: 'CANARY' }, 'CANARY', 7],
      customer_id: { first_name: 'CANARY' },
      user_id: ['CANARY'],
      number: 'CANARY',
      spam: { is: 'CANARY' },
      updated_at: { at: 'CANARY' },
      summary: ['CANARY'],
      state: 4711,
    };
    expect(ruled(all, 'tickets', { ...ticket, ...odd })).toEqual({
      ...{ id: 't', label_ids: [{}, '', 0], customer_id: {}, user_id: [''], number: '', spam: {}, updated_at: {} },
      ...{ summary: [''], state: 0, subject: 'x' },
    });
    // A record that has the right shapes is the same.
    const plain = JSON.stringify({ ...ticket, number: 7, spam: true, state: null, snoozed_until: null });
    expect(applyRules(of(all), 'helpdesk.tickets', plain)).toBe(plain);
  });

  test('within other records, and as a text of JSON', () => {
    const json = JSON.stringify({ person: [{ first_name: 'CANARY' }] });
    const message = { id: 'm', user_id: { first_name: 'CANARY' }, from: { value: 'CANARY' }, body: 'fine' };
    const odd = { customer_id: json, messages: [message], labels: json, inbox: ['CANARY'], customer: json };
    const left = ruled(all, 'tickets', { ...ticket, ...odd });
    expect(left).toEqual({
      ...ticket,
      ...{ customer_id: {}, labels: null, inbox: [null], customer: null },
      messages: [{ id: 'm', user_id: {}, from: {}, body: 'fine' }],
    });
    expect(ruled(all, 'tickets', { ...ticket, id: json })).toBeNull();
    // Ids, times and words of a list are no JSON, nor is JSON in JSON, and a time is a time.
    for (const one of [json, JSON.stringify(json), JSON.stringify({ x: json })]) {
      const words = { customer_id: one, label_ids: ['l', one], state: one, type: one, snoozed_until: one };
      expect(ruled(all, 'tickets', { ...ticket, ...words })).toEqual({
        ...{ ...ticket, customer_id: {}, label_ids: ['l', {}], state: {}, type: {}, snoozed_until: {} },
      });
    }
    expect(ruled(all, 'tickets', { ...ticket, snoozed_until: 'CANARY' })).toEqual({ ...ticket, snoozed_until: {} });
    expect(ruled('users.email', 'messages', { id: 'm', user_id: { email: 'CANARY' } })).toEqual({
      id: 'm',
      user_id: {},
    });
  });

  test('an unknown field loses what any rule of its source means, at any depth, and keeps the rest', () => {
    const more = {
      first_name: 'CANARY',
      requester: { first_name: 'CANARY', age: 3, contacts: [{ value: 'CANARY', kind: 'x' }] },
      raw: JSON.stringify([{ a: { name: 'CANARY' } }]),
      plain: JSON.stringify([{ a: 1 }]),
      title: 'kept',
    };
    expect(ruled(all, 'tickets', { ...ticket, ...more })).toEqual({
      ...{ ...ticket, requester: { age: 3, contacts: [{ kind: 'x' }] }, raw: '', plain: more.plain, title: 'kept' },
    });
    expect(ruled('customers', 'tickets', { ...ticket, ...more })).toEqual({
      ...{ ...ticket, requester: {}, first_name: 'CANARY', raw: '', plain: '', title: 'kept' },
    });
    const lists = {
      contacts: ['CANARY'],
      attachments: 'CANARY',
      users: [['CANARY'], { id: 'u', x: 1 }],
      inboxes: ['kept'],
    };
    const { contacts, attachments, users, inboxes } = ruled(
      'contacts.value:hash users.email attachments.name',
      'tickets',
      {
        ...ticket,
        ...lists,
      },
    );
    expect({ contacts, attachments, users, inboxes }).toEqual({
      ...{ contacts: [null], attachments: null, users: [null, { id: 'u', x: 1 }], inboxes: ['kept'] },
    });
    const deep = `{"id":"t","x":${'{"a":'.repeat(5000)}"CANARY"${'}'.repeat(5000)}}`;
    expect(applyRules(of(all), 'helpdesk.tickets', deep)).not.toContain('CANARY');
  });

  test('what a rule of one kind means is kept where the specification has the same name elsewhere', () => {
    const volume = {
      id: 'v',
      volumeInfo: { title: 'kept', x: { title: 'CANARY' }, industryIdentifiers: [{ type: 'x' }] },
    };
    const left = applyRules(of('shelves.title shelves.*'), 'books.volumes', JSON.stringify(volume));
    expect(JSON.parse(left)).toEqual({
      id: 'v',
      volumeInfo: { title: 'kept', x: {}, industryIdentifiers: [{ type: 'x' }] },
    });
    expect(applyRules(of('users.email'), 'books.volumes', '{"id":"v","user":{"email":"e"}}')).toContain('"e"');
  });
});
