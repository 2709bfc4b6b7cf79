import { describe, expect, test } from 'vitest';
import type { ServiceOptions } from '../src/helpdesk/service.ts';
import type { WorldOptions } from '../src/helpdesk/world/world.ts';
import { asking, emptyWorld, ids, NOON } from './in-process.ts';

const HOUR = 3_600_000;
const OLD = '2024-04-01T00:00:00Z';
const NOW = '2024-05-01T12:00:00Z';
const LATER = '2024-05-01T13:00:00Z';

/** A desk with one ticket `t` of the customer `c`, an hour before which nothing has happened for a month. */
function desk(options: ServiceOptions & WorldOptions = {}) {
  const { world, clock } = emptyWorld(options);
  world.addInbox({ id: 'i1', name: 'Book Orders' });
  world.addUser({ id: 'u1', first_name: 'Ines', last_name: 'Carvalho' });
  world.addLabel({ id: 'l1', name: 'refund' });
  world.addLabel({ id: 'l2', name: 'urgent' });
  const contacts = [{ id: 'k1', type: 'email' as const, value: 'Ada@X.example' }];
  world.customers.add({ id: 'c', first_name: 'Ada', contacts, created_at: OLD });
  world.addTicket({ id: 't', customer_id: 'c', inbox_id: 'i1', created_at: OLD });
  const asked = asking(world, options);
  const upload = (name = 'a.txt') =>
    asked.send('POST', '/attachments', { name, type: 'text/plain', data: 'YWJj' }).json;
  return { world, clock, ...asked, upload };
}

const note = { type: 'note', user_id: 'u1', body: 'N', htmlized: false };
const outbound = { type: 'reply', direction: 'out', user_id: 'u1', to: 'ada@x.example', body: 'O', htmlized: false };
const inbound = { type: 'reply', direction: 'in', from_name: 'Ada', from: 'ada@x.example', body: 'I', htmlized: false };

describe('a new ticket', () => {
  const plain = { type: 'email', subject: 'S', customer_id: 'c' };

  test('comes with its customer, messages and files in one request, as if all had been made one by one', () => {
    const { world, send, get, upload } = desk();
    const file = upload();
    const customer = { first_name: 'Bo', contacts: [{ type: 'phone', value: '+47 1' }] };
    const messages = [inbound, { ...outbound, attachment_ids: [file.id] }, note];
    const made = send('POST', '/tickets', { type: 'email', subject: 'S', customer, messages });
    const { id, customer_id } = made.json;
    expect(made.headers.Location).toMatch(new RegExp(`^https?://desk.example/api/v1/tickets/${id}$`));
    expect(get('/customers').json[0]).toEqual({
      id: customer_id,
      first_name: 'Bo',
      last_name: null,
      summary: null,
      contacts: [{ id: expect.any(String), ...customer.contacts[0] }],
    });
    const whole = get(`/tickets/${id}?embed=messages`).json;
    const common = { id: expect.any(String), htmlized: false, created_at: NOW };
    expect(whole).toEqual({
      ...made.json,
      messages: [
        { ...common, ...inbound, user_id: null, to: null, more_body: null, attachments: [] },
        {
          ...{ ...common, ...outbound, more_body: null, attachments: [file] },
          ...{ from_name: 'Ines Carvalho', from: 'book-orders@harbourlane.example' },
        },
        { ...common, ...note, from_name: 'Ines Carvalho', attachments: [] },
      ],
    });
    expect(world.ticket(id)).toMatchObject({ state: 'open', updated_at: NOW, inbox_id: 'i1' });
    expect(ids(get('/tickets?sort=updated_at'))).toEqual(['t', id]);
  });

  test('that is refused has made nothing and taken no file', () => {
    const { world, send, get, upload } = desk();
    const file = upload();
    const customer = { contacts: [{ type: 'phone', value: '1' }] };
    const message = { ...note, attachment_ids: [file.id] };
    const refused = send('POST', '/tickets', { ...plain, customer_id: null, customer, messages: [message, message] });
    expect([refused.status, refused.json.errors]).toEqual([
      422,
      [{ message: `messages[1].attachment_ids: attachment "${file.id}" belongs to another message` }],
    ]);
    expect([world.tickets.size, world.customers.size]).toEqual([1, 1]);
    expect(send('POST', '/tickets/t/messages', message).status).toBe(201);
    expect(get(`/attachments/${file.id}`).json).toEqual(file);
  });

  test.each<[what: string, contacts: object[], found: boolean, options?: ServiceOptions]>([
    ['the same mail address', [{ type: 'email', value: 'Ada@X.example' }], true],
    ['the same in another case', [{ type: 'email', value: 'ada@x.EXAMPLE' }], true],
    ['the same in another case, exactly', [{ type: 'email', value: 'ada@x.example' }], false, { emailCase: 'exact' }],
    ['the same exactly', [{ type: 'email', value: 'Ada@X.example' }], true, { emailCase: 'exact' }],
    ['another type', [{ type: 'twitter', value: 'Ada@X.example' }], false],
    [
      'the second of two',
      [
        { type: 'phone', value: '1' },
        { type: 'email', value: 'ada@x.example' },
      ],
      true,
    ],
    ['none', [], false],
  ])('finds its customer by a contact: %s', (_, contacts, found, options) => {
    const { world, send } = desk(options);
    const before = structuredClone(world.customer('c'));
    const made = send('POST', '/tickets', { type: 'email', subject: '', customer: { first_name: 'X', contacts } });
    expect([made.status, made.json.customer_id === 'c', world.customers.size]).toEqual([201, found, found ? 1 : 2]);
    expect(world.customer('c')).toEqual(before);
  });

  test('finds customers by what they have now', () => {
    const { world, send } = desk();
    const customerOf = (value: string) => {
      const customer = { contacts: [{ type: 'email', value }] };
      return send('POST', '/tickets', { type: 'email', subject: '', customer }).json.customer_id;
    };
    expect(customerOf('ada@x.example')).toBe('c');
    world.customers.addContact('c', { type: 'email', value: 'second@x.example' });
    world.customers.add({ id: 'd', contacts: [{ id: 'k9', type: 'email', value: 'dan@x.example' }] });
    expect([customerOf('second@x.example'), customerOf('dan@x.example')]).toEqual(['c', 'd']);
    world.customers.removeContact('c', 'k1');
    world.customers.delete('d');
    const made = [customerOf('ada@x.example'), customerOf('dan@x.example')];
    expect(made).not.toContain('c');
    expect(made).not.toContain('d');
    expect([customerOf('ada@x.example'), customerOf('dan@x.example')]).toEqual(made);
    for (const id of ['e', 'f', 'g'])
      world.customers.add({ id, contacts: [{ id, type: 'email', value: 'we@x.example' }] });
    expect(customerOf('we@x.example')).toBe('e');
    world.customers.removeContact('e', 'e');
    expect(customerOf('WE@x.example')).toBe('f');
    world.customers.delete('f');
    expect(customerOf('we@x.example')).toBe('g');
  });

  test('of a customer_id and a customer, the id counts', () => {
    const { send } = desk();
    expect(send('POST', '/tickets', { ...plain, customer: { contacts: 'nonsense' } }).json.customer_id).toBe('c');
  });
});

describe('a patch', () => {
  test.each<[what: string, patch: object, moved: boolean, quietly?: WorldOptions['quietly']]>([
    ['of the subject', { subject: 'x' }, true],
    ['of the state', { state: 'hold' }, true],
    ['of the state, quietly', { state: 'hold' }, false, ['state']],
    ['of state and labels, one of them quietly', { state: 'hold', label_ids: ['l1'] }, true, ['state']],
    ['of state and labels, both quietly', { state: 'hold', label_ids: ['l1'] }, false, ['state', 'labels']],
    ['of nothing', {}, false],
    ['to what is there', { state: 'open', user_id: null, label_ids: [], spam: false, inbox_id: 'i1' }, false],
  ])('%s moves the ticket: %#', (_, patch, moved, quietly = []) => {
    const { world, send } = desk({ quietly });
    expect(send('PATCH', '/tickets/t', patch)).toMatchObject({ status: 200, json: patch });
    expect(world.ticket('t').updated_at).toBe(moved ? NOW : OLD);
  });

  test.each(['open', 'hold', 'closed', 'snoozed', 'archived'] as const)(
    'leads from %s to each of three states',
    from => {
      for (const to of ['open', 'hold', 'closed']) {
        const { world, send } = desk();
        world.patchTicket('t', { state: from, snoozed_until: from === 'snoozed' ? LATER : null });
        expect(send('PATCH', '/tickets/t', { state: to }).json).toMatchObject({ state: to, snoozed_until: null });
      }
    },
  );

  test('of other things leaves a snooze alone', () => {
    const { world, send } = desk();
    world.patchTicket('t', { state: 'snoozed', snoozed_until: LATER });
    const after = { state: 'snoozed', snoozed_until: LATER, user_id: 'u1' };
    expect(send('PATCH', '/tickets/t', { user_id: 'u1' }).json).toMatchObject(after);
    expect(send('PATCH', '/tickets/t', { user_id: null }).json.user_id).toBeNull();
  });

  test.each<[stored: 'spam' | 'trash', patch: object, refused: readonly string[], replaced: readonly string[]]>([
    ['trash', { spam: true }, ['spam: the ticket is trash'], ['spam']],
    ['spam', { trash: true }, ['trash: the ticket is spam'], ['trash']],
    ['trash', { spam: true, trash: false }, [], ['spam']],
    ['spam', { spam: false, trash: true }, [], ['trash']],
  ])('%s and then %j', (stored, patch, errors, after) => {
    for (const spamAndTrash of ['refused', 'replaced'] as const) {
      const { world, send } = desk({ spamAndTrash });
      world.patchTicket('t', { [stored]: true });
      const got = send('PATCH', '/tickets/t', patch);
      const refused = spamAndTrash === 'refused' ? errors : [];
      expect(got.status).toBe(refused.length > 0 ? 422 : 200);
      for (const [at, error] of refused.entries()) expect(got.json.errors[at].message).toContain(error);
      const { spam, trash } = world.ticket('t');
      const now = [...(spam ? ['spam'] : []), ...(trash ? ['trash'] : [])];
      expect(now).toEqual(refused.length > 0 ? [stored] : after);
    }
  });

  test.each(['refused', 'replaced'] as const)('to spam and trash together is refused always (%s)', spamAndTrash => {
    const { send } = desk({ spamAndTrash });
    expect(send('PATCH', '/tickets/t', { spam: true, trash: true }).status).toBe(422);
  });
});

describe('labels', () => {
  test('are added and removed beside those that are there; what changes nothing moves nothing', () => {
    const { world, clock, send } = desk();
    expect(send('PUT', '/tickets/t/labels/l2')).toMatchObject({ status: 204, text: '' });
    clock.ms += HOUR;
    expect(send('PUT', '/tickets/t/labels/l2').status).toBe(204);
    expect(world.ticket('t')).toMatchObject({ label_ids: ['l2'], updated_at: NOW });
    expect(send('DELETE', '/tickets/t/labels/l1').status).toBe(204);
    expect(world.ticket('t').updated_at).toBe(NOW);
    send('PUT', '/tickets/t/labels/l1');
    expect(world.ticket('t')).toMatchObject({ label_ids: ['l2', 'l1'], updated_at: LATER });
  });

  test("a list as a client's language prints it is refused", () => {
    const { world, send } = desk();
    const got = send('PUT', `/tickets/t/labels/${encodeURIComponent("['l1', 'l2']")}`);
    expect([got.status, got.json.errors[0].message]).toEqual([422, expect.stringContaining("got ['l1', 'l2']")]);
    expect(world.ticket('t').label_ids).toEqual([]);
  });
});

describe('messages', () => {
  test.each<[state: 'open' | 'hold' | 'snoozed' | 'closed' | 'archived', after: string, archivedReopens?: boolean]>([
    ['open', 'open'],
    ['hold', 'open'],
    ['snoozed', 'open'],
    ['closed', 'open'],
    ['archived', 'archived'],
    ['archived', 'open', true],
  ])('of the customer, to a ticket that is %s, leave it %s', (state, after, archivedReopens = false) => {
    const { world, send } = desk({ archivedReopens });
    world.patchTicket('t', { state, snoozed_until: state === 'snoozed' ? LATER : null });
    for (const body of [note, outbound]) expect(send('POST', '/tickets/t/messages', body).status).toBe(201);
    expect(world.ticket('t').state).toBe(state);
    send('POST', '/tickets/t/messages', inbound);
    expect(world.ticket('t').state).toBe(after);
    if (after === 'open') expect(world.ticket('t').snoozed_until).toBeNull();
  });

  test('keep text that no database takes', () => {
    const { send, get } = desk();
    const body = 'before\u0000after \ud83d alone \udc00';
    expect(send('POST', '/tickets/t/messages', { ...note, body }).json.body).toBe(body);
    expect(get('/tickets/t?embed=messages').json.messages[0].body).toBe(body);
  });
});

describe('a PUT without body and type', () => {
  test.each(['PUT', 'POST'])('is told which switch lets it (%s)', verb => {
    const headers = verb === 'POST' ? { 'x-http-method-override': 'PUT' } : {};
    const { ask } = desk();
    const got = ask(verb, '/tickets/t/labels/l', headers);
    expect([got.status, got.json.message]).toEqual([415, expect.stringContaining('--empty-put accepted')]);
    // With a body the type is missing whatever the switch says.
    for (const other of [ask(verb, '/tickets/t/labels/l', headers, '{}'), ask('POST', '/customers', {})]) {
      expect([other.status, other.json.message]).toEqual([415, expect.not.stringContaining('--empty-put')]);
    }
  });
});

describe('attachments', () => {
  test('belong to one message, and live as long as it does', () => {
    const { world, clock, send, get, upload } = desk();
    const file = upload();
    const body = { ...note, attachment_ids: [file.id, file.id] };
    const message = send('POST', '/tickets/t/messages', body).json;
    expect(message.attachments).toEqual([file]);
    const refusal = `attachment_ids: attachment "${file.id}" belongs to another message`;
    expect(send('POST', '/tickets/t/messages', body).json.errors).toEqual([{ message: refusal }]);
    const brief = upload('b.txt');
    const removed = send('POST', '/tickets/t/messages', { ...note, attachment_ids: [brief.id] }).json;
    expect(get(`/attachments/${brief.id}`).json).toEqual(brief);
    world.removeMessage('t', removed.id);
    expect(get(`/attachments/${brief.id}`).status).toBe(404);
    clock.ms += 1000 * HOUR;
    expect(get(`/attachments/${file.id}`).json).toEqual(file);
    world.removeMessage('t', message.id);
    expect(get(`/attachments/${file.id}`).status).toBe(404);
  });

  test.each(['YW\tJj', ' YWJj', 'YWI', 'YWJ=', 'YQ=', 'YQ', 'YWJj====', 'a-_b'])('%j is no strict Base64', data => {
    const got = desk().send('POST', '/attachments', { name: 'a', type: 'a/b', data });
    expect(got.json.errors).toEqual([{ message: expect.stringMatching(/^data: expected Base64/) }]);
  });

  test.each(['text', '/', 'text/', '/plain', 'text /plain', 'text/plain,text/html x/y'])('%j is no MIME type', type => {
    const got = desk().send('POST', '/attachments', { name: 'a', type, data: '' });
    expect(got.json.errors).toEqual([{ message: 'type: expected a MIME type such as "text/plain"' }]);
    const good = desk().send('POST', '/attachments', { name: 'a', type: 'text/plain; charset="a b"', data: '' });
    expect([good.status, good.json.size]).toEqual([201, 0]);
  });

  test.each([
    [24, {}],
    [2, { attachmentHours: 2 }],
  ])('that no message takes are deleted after %i hours', (hours, options) => {
    const { clock, send, get, upload } = desk(options);
    const first = upload();
    clock.ms += HOUR;
    const second = upload();
    const status = ({ id }: { id: string }) => get(`/attachments/${id}`).status;
    clock.ms = NOON + hours * HOUR - 1;
    expect([status(first), status(second)]).toEqual([200, 200]);
    clock.ms += 1;
    expect([status(first), status(second)]).toEqual([404, 200]);
    const late = send('POST', '/tickets/t/messages', { ...note, attachment_ids: [first.id] });
    expect(late.json.errors).toEqual([{ message: `attachment_ids: there is no attachment "${first.id}"` }]);
  });

  test('go by the clock of the service, which jumps', () => {
    const { world, clock, send, get, upload } = desk();
    const file = upload();
    const status = ({ id }: { id: string }) => get(`/attachments/${id}`).status;
    world.clock.jump(24 * HOUR - 1);
    expect(status(file)).toBe(200);
    world.clock.jump(1);
    expect(status(file)).toBe(404);
    expect(world.uploads.size).toBe(0);
    const late = send('POST', '/tickets/t/messages', { ...note, attachment_ids: [file.id] });
    expect(late.json.errors).toEqual([{ message: `attachment_ids: there is no attachment "${file.id}"` }]);
    // After a clock that was set back the later one ends first.
    const before = upload();
    world.clock.jump(-12 * HOUR);
    const after = upload();
    clock.ms += 24 * HOUR;
    expect([status(before), status(after)]).toEqual([200, 404]);
    clock.ms += 12 * HOUR;
    expect(status(before)).toBe(404);
  });

  test('stay forever where that is wanted', () => {
    const { clock, get, upload } = desk({ attachmentHours: 0 });
    const file = upload();
    clock.ms += 1e6 * HOUR;
    expect(get(`/attachments/${file.id}`).status).toBe(200);
  });
});

describe('contacts', () => {
  const ada = { type: 'email', value: 'ada@x.example' };

  test.each([
    ['ignored', 'ada@x.example', 'c'],
    ['exact', 'ada@x.example', ''],
    ['exact', 'Ada@X.example', 'c'],
  ] as const)('who has them is found in the list by the same rule (%s): %s', (emailCase, value, found) => {
    const { world, get } = desk({ emailCase });
    world.customers.addContact('c', { type: 'twitter', value: 'Reads' });
    expect(ids(get(`/customers?contacts.type=email&contacts.value=${value}`)).join()).toBe(found);
    expect(ids(get(`/customers?contacts.value=${value}`)).join()).toBe(found);
    expect(get('/customers?contacts.type=twitter&contacts.value=reads').json).toEqual([]);
  });

  test('are of one customer only, unless they may be shared', () => {
    for (const [contactsUnique, status] of [
      [true, 422],
      [false, 201],
    ] as const) {
      const { world, send } = desk({ contactsUnique });
      world.customers.add({ id: 'd' });
      expect(send('POST', '/customers', { contacts: [ada] }).status).toBe(status);
      expect(send('POST', '/customers', { contacts: [{ ...ada, type: 'twitter' }] }).status).toBe(201);
      const twice = [
        { type: 'phone', value: '1' },
        { type: 'phone', value: '1' },
      ];
      expect(send('POST', '/customers', { contacts: twice }).status).toBe(status);
      for (const id of ['c', 'd']) expect(send('POST', `/customers/${id}/contacts`, ada).status).toBe(status);
      expect(send('PATCH', '/customers/d', { contacts: [ada] }).status).toBe(contactsUnique ? 422 : 200);
      expect(world.customer('c').contacts).toHaveLength(contactsUnique ? 1 : 2);
    }
  });

  test.each([
    ['replaced', ['k2', 'new@x.example', 'k1']],
    ['added', ['k1', 'k2', 'k3', 'new@x.example']],
  ] as const)('of a patch: those that are there are %s, and the same ones keep their ids', (patchedContacts, after) => {
    const { world, send } = desk({ patchedContacts });
    world.customers.addContact('c', { id: 'k2', type: 'phone', value: '2' });
    world.customers.addContact('c', { id: 'k3', type: 'twitter', value: '3' });
    const contacts = [{ type: 'phone', value: '2' }, { type: 'email', value: 'new@x.example' }, ada];
    const got = send('PATCH', '/customers/c', { contacts });
    const shown = got.json.contacts.map((one: { id: string; value: string }) =>
      one.id.startsWith('k') ? one.id : one.value,
    );
    expect(shown).toEqual(after);
    expect(world.customer('c').contacts.find(({ id }) => id === 'k1')?.value).toBe('ada@x.example');
    const found = send('POST', '/tickets', { type: 'email', subject: '', customer: { contacts: [contacts[1]] } });
    expect(found.json.customer_id).toBe('c');
  });
});

describe('an answer', () => {
  test('of a request that writes keeps to `fields` and comes in an envelope', () => {
    const { send } = desk();
    const named = send('POST', '/tickets/t/messages?fields=id,type', note);
    expect(named.json).toEqual({ id: expect.any(String), type: 'note' });
    const wrapped = send('POST', '/customers?envelope=true&fields=contacts', {});
    expect(wrapped).toMatchObject({ status: 200, json: { status: 201, response: { contacts: [] } } });
    expect(wrapped.json.headers.Location).toContain('/customers/');
    expect(send('PUT', '/tickets/t/labels/l1?envelope=true').json).toMatchObject({ status: 204, response: null });
    expect(send('DELETE', '/tickets/t/labels/l1?fields=id')).toMatchObject({ status: 204, text: '' });
  });

  test('to a million mistakes names some of them', () => {
    const { send } = desk();
    const got = send('PATCH', '/tickets/t', { label_ids: Array.from({ length: 10_000 }, () => 5) });
    expect([got.status, got.json.errors.length]).toEqual([422, 100]);
    expect(got.json.errors[7].message).toBe('label_ids[7]: expected a string, got 5');
    const long = send('PATCH', '/tickets/t', { user_id: 'x'.repeat(1e6) });
    expect(long.json.errors[0].message).toBe(`user_id: there is no user "${'x'.repeat(60)}…"`);
    const contacts = Array.from({ length: 1001 }, (_, nth) => ({ type: 'phone', value: `${nth}` }));
    const many = send('POST', '/customers', { contacts });
    expect(many.json.errors).toEqual([{ message: 'contacts: expected 1000 at most, got 1001' }]);
    expect(send('POST', '/customers', { contacts: contacts.slice(1) }).status).toBe(201);
  });
});
