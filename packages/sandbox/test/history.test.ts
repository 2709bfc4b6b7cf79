import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { Rules } from '../src/admission/rules.ts';
import { type GenerateOptions, generateWorld } from '../src/helpdesk/content/generate.ts';
import { History } from '../src/helpdesk/content/history.ts';
import { ticketRecord } from '../src/helpdesk/records.ts';
import { staleCopy } from '../src/helpdesk/stale-copy.ts';
import type { World } from '../src/helpdesk/world/world.ts';
import { hexId, hexNumber } from '../src/random.ts';
import { asking, emptyWorld, ids, NOON, rng } from './in-process.ts';

const make = (options: GenerateOptions) => generateWorld({ now: () => NOON, ...options });
/** One with several messages, some of them with attachments. */
function talkative(world: World) {
  return [...world.tickets.values()].find(
    ({ messages }) => messages.length > 2 && messages.some(({ attachments }) => attachments.length > 0),
  )!;
}
const filesOf = ({ messages }: ReturnType<typeof talkative>) => messages.flatMap(({ attachments }) => attachments);
const sizeNow = (world: World) => [...world.attachments.values()].length;

describe('what was said in the history', () => {
  test('is made again for each reader, always the same, and kept by none', () => {
    const world = make({ tickets: 300 });
    const ticket = talkative(world);
    const { get } = asking(world);
    const first = get(`/tickets/${ticket.id}?embed=messages`).json.messages;
    expect(get(`/tickets/${ticket.id}?embed=messages`).json.messages).toEqual(first);
    expect(first).toHaveLength(ticket.messageCount);
    expect(get(`/attachments/${filesOf(ticket)[0]!.id}`).json).toEqual(filesOf(ticket)[0]);
    expect([...world.tickets.values()].some(({ keepsMessages }) => keepsMessages)).toBe(false);
    expect(world.attachments.size).toBe(sizeNow(world));
  });

  test('stays when names, contacts, assignments and inboxes change', () => {
    const world = make({ tickets: 300 });
    const ticket = talkative(world);
    const before = structuredClone(ticket.messages);
    const { contacts } = world.customer(ticket.customer_id);
    world.customers.patch(ticket.customer_id, { first_name: 'Somebody', last_name: 'Else' });
    if (contacts[0]) world.customers.removeContact(ticket.customer_id, contacts[0].id);
    for (const id of world.inboxes.keys()) world.renameInbox(id, 'another');
    world.patchTicket(ticket.id, { inbox_id: [...world.inboxes.keys()].at(-1)!, type: 'sms', user_id: null });
    world.actInBulk(100);
    expect(ticket.keepsMessages).toBe(false);
    expect(ticket.messages).toEqual(before);
  });

  test('is kept once the conversation changes, with the same ids, texts and attachments', () => {
    const world = make({ tickets: 300 });
    const ticket = talkative(world);
    const before = structuredClone(ticket.messages);
    const size = world.attachments.size;
    const note = world.addNote(ticket.id, { body: 'new' });
    expect(ticket.messages).toEqual([...before, note]);
    expect(ticket.messageCount).toBe(before.length + 1);
    for (const file of filesOf(ticket)) expect(world.attachments.get(file.id)).toBe(file);
    expect([world.attachments.size, sizeNow(world)]).toEqual([size, size]);
    world.editNote(ticket.id, note.id, 'edited');
    world.removeMessage(ticket.id, before.at(-1)!.id);
    expect(ticket.messages.map(({ body }) => body)).toEqual([...before.slice(0, -1).map(({ body }) => body), 'edited']);
  });

  test('goes with its ticket', () => {
    const world = make({ tickets: 300 });
    const ticket = talkative(world);
    const files = filesOf(ticket);
    const size = world.attachments.size;
    world.deleteTicket(ticket.id);
    expect(files.map(({ id }) => world.attachments.has(id))).toEqual(files.map(() => false));
    expect([world.attachments.size, sizeNow(world)]).toEqual([size - files.length, size - files.length]);
  });

  test('no id of the history comes up again', () => {
    const world = make({ tickets: 50 });
    const used = [...world.tickets.values()].flatMap(({ id, messages }) => [
      id,
      ...messages.flatMap(message => [message.id, ...message.attachments.map(file => file.id)]),
    ]);
    used.push(...[...world.customers.values()].flatMap(({ id, contacts }) => [id, ...contacts.map(one => one.id)]));
    used.push(...[world.users, world.labels, world.inboxes].flatMap(all => [...all.keys()]));
    used.push(...Array.from({ length: 1000 }, () => world.newId()));
    expect(new Set(used).size).toBe(used.length);
  });
});

test('contacts are made again as well, until they change', () => {
  const world = make({ tickets: 30 });
  const customer = [...world.customers.values()].find(({ contacts }) => contacts.length > 1)!;
  const before = structuredClone(customer.contacts);
  const { get } = asking(world);
  const found = (value: string) =>
    ids(get(`/customers?contacts.type=email&contacts.value=${encodeURIComponent(value)}`));
  expect(customer.contacts).toEqual(before);
  const { id, value } = before.find(({ type }) => type === 'email')!;
  expect(found(value)).toEqual([customer.id]);
  world.customers.removeContact(customer.id, id);
  world.customers.addContact(customer.id, { type: 'email', value: 'new@post.example' });
  expect([found(value), found('new@post.example')]).toEqual([[], [customer.id]]);
  expect(customer.contacts.slice(0, -1)).toEqual(before.filter(contact => contact.id !== id));
});

test('a contact that is naughty is what it would be otherwise, with more before or behind it', () => {
  const contacts = (naughty: number) =>
    [...make({ tickets: 30, customers: 500, naughty }).customers.values()].flatMap(({ contacts }) => contacts);
  const plain = contacts(0);
  const all = contacts(1);
  expect(all.map(({ id }) => id)).toEqual(plain.map(({ id }) => id));
  expect(all.filter(({ value }, n) => !value.includes(plain[n]!.value))).toEqual([]);
  expect(all.some(({ value }, n) => value.length > plain[n]!.value.length)).toBe(true);
});

test('a contact of the history can be patched, and is what it was in a copy that is behind', () => {
  const clock = { ms: NOON };
  const world = generateWorld({ tickets: 30, now: () => clock.ms });
  const rules = new Rules([{ query: { lagging: '*' }, fault: { kind: 'lag', seconds: 10 } }]);
  const { get, send } = asking(world, { rules });
  const customer = [...world.customers.values()].find(({ contacts }) => contacts[0]?.type === 'email')!;
  const [before] = customer.contacts;
  const value = before!.value.toUpperCase();
  const shown = (query: string) => get(`/customers/${customer.id}${query}`).json.contacts;
  clock.ms += 60_000;
  const got = send('PATCH', `/customers/${customer.id}`, { contacts: [{ type: 'email', value }] });
  expect(got.json.contacts).toEqual([{ ...before, value }]);
  expect([shown(''), shown('?lagging=1')[0]]).toEqual([[{ ...before, value }], before]);
});

test('a copy that is behind makes no messages of a history until somebody reads them there', () => {
  const world = make({ tickets: 300 });
  const ticket = talkative(world);
  const { messages } = ticket;
  const made = vi.spyOn(History.prototype, 'messagesOf');
  world.past.keepFor(10_000);
  world.actInBulk(200);
  for (const { id } of world.customers.values()) world.customers.patch(id, { summary: 'x' });
  world.deleteTicket(ticket.id);
  expect(made).not.toHaveBeenCalled();
  expect(staleCopy(world, 5000).tickets.get(ticket.id)?.messages).toEqual(messages);
});

describe('bulk actions', () => {
  const busiest = (world: World) =>
    Math.max(...[...Map.groupBy(world.tickets.values(), t => t.updated_at).values()].map(all => all.length));

  test('the history holds them in the size that was ordered', () => {
    expect(busiest(make({ tickets: 3000, bulkSize: 1500 }))).toBeGreaterThanOrEqual(900);
    expect(busiest(make({ tickets: 100 }))).toBeLessThan(10);
  });

  test('on demand: so many tickets in one second, closed, with a label', () => {
    const world = make({ tickets: 3000 });
    const [label] = world.labels.keys();
    const done = world.actInBulk(2000, label);
    expect(new Set(done).size).toBe(2000);
    for (const id of done) {
      const { state, updated_at, label_ids } = world.ticket(id);
      expect([state, updated_at, label_ids.includes(label!)]).toEqual(['closed', '2024-05-01T12:00:00Z', true]);
    }
    const { get } = asking(world);
    const latest = get('/tickets?sort=-updated_at&per_page=100&count=true&since_updated_at=2024-05-01T12:00:00Z');
    expect([latest.json.length, latest.headers['Total-Count']]).toEqual([100, '2000']);
    expect(world.actInBulk(1e6)).toHaveLength(3000);
  });

  test('activity has them in that size too', () => {
    const world = make({ tickets: 1000, bulkSize: 400 });
    const chance = rng(3);
    while (world.mutate(chance).kind !== 'bulk action');
    expect(busiest(world)).toBeGreaterThanOrEqual(240);
  });
});

test('filters find and count what holds, after thousands of changes and deletions', () => {
  const { clock } = emptyWorld();
  const world = generateWorld({ tickets: 400, now: () => clock.ms });
  const chance = rng(5);
  for (let n = 0; n < 2000; n++) {
    clock.ms += 60_000;
    world.mutate(chance);
  }
  for (const id of [...world.tickets.keys()].slice(0, 50)) world.deleteTicket(id);
  for (let n = 0; n < 20; n++) world.addTicket({});
  const all = [...world.tickets.values()].map(ticketRecord);
  const [inbox] = world.inboxes.keys();
  const [user] = world.users.keys();
  const [one, other] = world.labels.keys();
  const { get } = asking(world, { depth: 1e6 });
  const since = '2024-05-01T20:00:00Z';
  const cases: [query: string, holds: (ticket: (typeof all)[number]) => boolean][] = [
    [`inbox_id=${inbox}`, ticket => ticket.inbox_id === inbox],
    [`user_id=${user},null`, ticket => ticket.user_id === user || ticket.user_id === null],
    [`label_id=${one},${other}`, ({ label_ids }) => label_ids.includes(one!) || label_ids.includes(other!)],
    ['state=open&spam=false', ({ state, spam }) => state === 'open' && !spam],
    ['trash=true', ({ trash }) => trash],
    ['type=call,sms', ({ type }) => type === 'call' || type === 'sms'],
    [`since_created_at=${since}`, ({ created_at }) => created_at >= since],
    [`since_updated_at=${since}&inbox_id=${inbox}`, t => t.updated_at >= since && t.inbox_id === inbox],
    [`id=${all[3]!.id},${all[9]!.id},nobody`, ({ id }) => id === all[3]!.id || id === all[9]!.id],
    ['inbox_id=nobody', () => false],
  ];
  for (const [query, holds] of cases) {
    const expected = all.filter(holds).map(({ id }) => id);
    for (const sort of ['updated_at', '-updated_at', 'created_at', '-created_at', 'user_id,-updated_at']) {
      const found: string[] = [];
      for (let page = 1; ; page++) {
        const got = get(`/tickets?per_page=100&count=true&page=${page}&sort=${sort}&${query}`);
        expect(got.headers['Total-Count'], `${query} ${sort}`).toBe(String(expected.length));
        found.push(...ids(got));
        if (got.json.length < 100) break;
      }
      expect(found.toSorted(), `${query} ${sort}`).toEqual(expected.toSorted());
      const whole = ids(get(`/tickets?per_page=100&sort=${sort}`)).filter(id => expected.includes(id));
      expect(found.slice(0, whole.length), `${query} ${sort}`).toEqual(whole);
    }
  }
});

test('an id tells its number, in its own world only', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 32 - 1 }), fc.nat(), (n, seed) => {
      expect(hexNumber(seed, hexId(seed, n))).toBe(n);
    }),
  );
  expect(['', 'x', 'ABCDEF01', '00000000000', hexId(2, 7).replace(/.$/, '')].map(id => hexNumber(1, id))).toEqual(
    Array(5).fill(undefined),
  );
});
