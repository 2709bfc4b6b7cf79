import { describe, expect, test } from 'vitest';
import { mutate } from '../src/helpdesk/content/changes.ts';
import { makeContact } from '../src/helpdesk/content/content.ts';
import { type GenerateOptions, generateWorld } from '../src/helpdesk/content/generate.ts';
import { CONTACT_TYPES, customerRecord, TICKET_STATES, TICKET_TYPES, ticketRecord } from '../src/helpdesk/records.ts';
import type { World } from '../src/helpdesk/world/world.ts';
import { hexId } from '../src/random.ts';
import { inLatin } from '../src/texts/names.ts';
import { asking, emptyWorld, ids, NOON, rng } from './in-process.ts';

const make = (options: GenerateOptions) => generateWorld({ now: () => NOON, ...options });
/** Everything there is to see, as text. */
const shown = ({ tickets, customers, users, labels, inboxes, attachments }: World) =>
  JSON.stringify([
    [...tickets.values()].map(ticket => [ticketRecord(ticket), ticket.touched, ticket.messages]),
    [...customers.values()].map(customer => [customerRecord(customer), customer.created_at]),
    ...[users, labels, inboxes, attachments].map(all => [...all.values()]),
  ]);
const counted = <T>(values: T[]) =>
  values.reduce((all, value) => all.set(value, (all.get(value) ?? 0) + 1), new Map<T, number>());

describe('a generated world', () => {
  test('the same seed gives the same world, and the same changes after it', () => {
    const lives = [3, 3, 4].map(seed => {
      const world = make({ seed, tickets: 300 });
      const before = shown(world);
      const chance = rng(seed);
      const changes = Array.from({ length: 200 }, () => world.mutate(chance));
      return [before, changes, shown(world)];
    });
    expect(lives[0]).toEqual(lives[1]);
    expect(lives[0]![0]).not.toEqual(lives[2]![0]);
  });

  test('has what was ordered: 200 tickets and a third as many customers by default', () => {
    const world = make({});
    const size = ({ tickets, customers }: World) => [tickets.size, customers.size];
    expect(size(world)).toEqual([200, 67]);
    expect(size(make({ tickets: 10, customers: 40 }))).toEqual([10, 40]);
    expect(size(make({ tickets: 0 }))).toEqual([0, 0]);
    expect(size(make({ tickets: 3, customers: 0 }))[0]).toBe(3);
    expect([world.users.size, world.labels.size, world.inboxes.size]).toEqual([12, 25, 6]);
  });

  test('holds every type and state, spam and trash, bulk actions, gaps and odd text', () => {
    const world = make({ tickets: 5000 });
    const tickets = [...world.tickets.values()];
    const messages = tickets.flatMap(ticket => ticket.messages);
    expect(new Set(tickets.map(({ type }) => type))).toEqual(new Set(TICKET_TYPES));
    expect(new Set(tickets.map(({ state }) => state))).toEqual(new Set(TICKET_STATES));
    for (const share of [tickets.filter(({ spam }) => spam), tickets.filter(({ trash }) => trash)]) {
      expect(share.length / tickets.length).toBeGreaterThan(0.01);
      expect(share.length / tickets.length).toBeLessThan(0.06);
    }
    expect(tickets.filter(({ spam, trash }) => spam && trash)).toEqual([]);
    const perSecond = [...counted(tickets.map(({ updated_at }) => updated_at)).values()];
    expect(Math.max(...perSecond)).toBeGreaterThanOrEqual(60);
    expect(Math.max(...perSecond)).toBeLessThanOrEqual(155);

    const text = messages.map(({ body }) => body);
    const some = (holds: (body: string) => boolean) => text.some(body => body !== null && holds(body));
    expect(text).toContain(null);
    expect(text).toContain('');
    expect(some(body => body.includes('\u200d'))).toBe(true);
    for (const script of [
      /[\u0590-\u05ff]/,
      /[\u0600-\u06ff]/,
      /[\u0e00-\u0e7f]/,
      /[\uac00-\ud7af]/,
      /[\u4e00-\u9fff]/,
    ]) {
      expect(
        some(body => script.test(body)),
        String(script),
      ).toBe(true);
    }
    expect(some(body => /(<blockquote.*){3}/s.test(body))).toBe(true);
    expect(some(body => body.includes('\n> > '))).toBe(true);
    expect(some(body => body.includes('<blockquote'))).toBe(true);
    expect(some(body => body.length > 100_000)).toBe(true);
    expect(tickets.some(({ subject }) => subject === null)).toBe(true);
    expect(tickets.some(({ subject }) => subject === '')).toBe(true);
    expect([...world.customers.values()].some(({ first_name }) => first_name === null)).toBe(true);
    expect(messages.some(({ attachments }) => attachments.length > 1)).toBe(true);
    const sent = messages.filter(m => m.type === 'reply' && m.direction === 'out');
    expect(sent.filter(({ user_id }) => !world.users.has(user_id!))).toEqual([]);
    const automatic = sent.filter(({ from_name }) => from_name === 'Harbour Lane Books');
    expect(automatic.length / sent.length).toBeGreaterThan(0.05);
    const senders = new Set(automatic.map(({ user_id }) => world.users.get(user_id!)?.first_name));
    expect(senders).toEqual(new Set(['Night']));
  });

  test('no two customers share a contact, however naughty they are, nor after thousands of changes', () => {
    for (const naughty of [0, 1]) {
      const world = make({ tickets: 50, customers: 4000, naughty });
      const chance = rng(6);
      for (let n = 0; n < 4000; n++) world.mutate(chance);
      const contacts = [...world.customers.values()].flatMap(({ contacts }) => contacts);
      const values = counted(contacts.map(({ type, value }) => `${type} ${value.toLowerCase()}`));
      expect(contacts.length).toBeGreaterThan(5000);
      expect([...values].filter(([, times]) => times > 1)).toEqual([]);
      if (naughty > 0) continue;
      const shapes = {
        email: /^[a-z][a-z._]*\d*@[a-z\d-]+\.example$/,
        phone: /^\+[1-9]\d{9,12}$/,
        twitter: /^[a-z]+_\w+$/,
      };
      expect(contacts.filter(({ type, value }) => !shapes[type].test(value) || value.length > 60)).toEqual([]);
      const dialled = contacts.filter(({ type }) => type === 'phone').map(({ value }) => value.slice(0, 3));
      expect(new Set(dialled).size).toBeGreaterThan(10);
    }
  });

  test('tens of thousands of contacts of one customer all differ', () => {
    let n = 0;
    const cast = { seed: 9, newId: () => hexId(9, n++) };
    const customer = { id: 'ffffffff', first_name: 'Zoë', last_name: 'Li' };
    const chance = rng();
    for (const type of CONTACT_TYPES) {
      const values = Array.from({ length: 30_000 }, () => makeContact(chance, cast, type, customer).value);
      expect(new Set(values).size, type).toBe(values.length);
    }
  });

  test('is believable: names differ and are in the addresses, letters and notes hardly come twice', () => {
    const world = make({ tickets: 1500, customers: 1500 });
    const customers = [...world.customers.values()].filter(({ first_name, last_name }) => first_name && last_name);
    const names = counted(customers.map(({ first_name, last_name }) => `${first_name} ${last_name}`));
    expect(names.size / customers.length).toBeGreaterThan(0.9);
    for (const { first_name, last_name, contacts } of customers) {
      const [address] = contacts.filter(({ type }) => type === 'email');
      if (address) expect(address.value).toContain(inLatin(last_name));
      expect(inLatin(first_name)).toMatch(/^[a-z]+$/);
    }
    const messages = [...world.tickets.values()].flatMap(({ messages }) => messages);
    const bodies = messages.map(({ body }) => body ?? '');
    expect(new Set(bodies).size / bodies.length).toBeGreaterThan(0.95);
    expect(bodies.filter(body => body === '').length / bodies.length).toBeLessThan(0.01);
    const notes = messages.filter(({ type }) => type === 'note').map(({ body }) => body ?? '');
    expect(Math.max(...counted(notes).values()) / notes.length).toBeLessThan(0.02);
    const plain = messages.filter(({ htmlized }) => !htmlized).map(({ body }) => body ?? '');
    expect(plain.filter(body => /:\n> \S/.test(body)).length / plain.length).toBeGreaterThan(0.1);
    expect(plain.filter(body => /^> .*<\/?(p|div)\b/m.test(body))).toEqual([]);
    const kinds = (body: string) => body.split('\n\n').map(one => one.replaceAll(/\d+/g, '0'));
    const own = plain.filter(body => body.length < 1000).map(body => kinds(body.split('\n>')[0]!));
    expect(own.filter(parts => new Set(parts).size < parts.length)).toEqual([]);
  });

  test('is whole: every id leads somewhere, times agree, notes lack what notes lack, text can be stored', () => {
    const world = make({ tickets: 1500 });
    expect(shown(world).isWellFormed()).toBe(true);
    expect(shown(world)).not.toMatch(/\\u0000|\\ud[89a-f]/i);
    const second = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;
    let number = 1000;
    for (const ticket of world.tickets.values()) {
      expect(ticket.number).toBe(++number);
      expect(world.inboxes.has(ticket.inbox_id)).toBe(true);
      expect(ticket.user_id === null || world.users.has(ticket.user_id)).toBe(true);
      expect(ticket.label_ids.every(id => world.labels.has(id))).toBe(true);
      expect(ticket.snoozed_until !== null).toBe(ticket.state === 'snoozed');
      expect(world.customer(ticket.customer_id).created_at <= ticket.created_at).toBe(true);
      const times = [ticket.created_at, ...ticket.messages.map(m => m.created_at), ticket.updated_at];
      expect(times.every(time => second.test(time))).toBe(true);
      expect(times).toEqual(times.toSorted());
      expect(ticket.updated_at <= '2024-05-01T11:57:00Z').toBe(true);
      for (const message of ticket.messages) {
        const onlyReplies = ['direction', 'from', 'to', 'more_body'].filter(key => key in message);
        expect(onlyReplies).toHaveLength(message.type === 'note' ? 0 : 4);
        for (const file of message.attachments) expect(world.attachments.get(file.id)).toEqual(file);
      }
    }
  });

  test('ends shortly before now, with years before that and quieter weekends', () => {
    const created = [...make({ tickets: 4000 }).tickets.values()].map(({ created_at }) => Date.parse(created_at));
    expect(NOON - created.at(-1)!).toBeLessThan(2 * 86_400_000);
    expect(NOON - created[0]!).toBeGreaterThan(3 * 365 * 86_400_000);
    const weekdays = counted(created.map(at => new Date(at).getUTCDay()));
    expect(weekdays.get(1)!).toBeGreaterThan(2 * weekdays.get(0)!);
    const hours = counted(created.map(at => new Date(at).getUTCHours()));
    expect(hours.get(9)!).toBeGreaterThan(3 * hours.get(3)!);
  });

  test('25,000 tickets: the last page is as right as the first, and few are found among all', () => {
    const world = make({ tickets: 25_000 });
    const { get } = asking(world, { depth: Number.POSITIVE_INFINITY });
    const expected = [...world.tickets.values()].map(({ updated_at }) => updated_at).toSorted();
    const page = (n: number) => get(`/tickets?sort=updated_at&per_page=100&page=${n}`).json;
    for (const n of [1, 100, 250]) {
      const updated = page(n).map(({ updated_at }: { updated_at: string }) => updated_at);
      expect(updated).toEqual(expected.slice((n - 1) * 100, n * 100));
    }
    expect(get('/tickets?count=true&per_page=0').headers['Total-Count']).toBe('25000');
    world.actInBulk(7000);
    const closed = [...world.tickets.values()].filter(({ state }) => state === 'closed').length;
    expect(get('/tickets?count=true&per_page=0&state=closed').headers['Total-Count']).toBe(String(closed));
    // What an order by another time lets through is told by the order of its own.
    const middle = world.byCreated.at(10_000)!.created_at;
    const younger = [...world.tickets.values()].filter(({ created_at }) => created_at >= middle).length;
    expect(younger).toBeGreaterThan(10_000);
    const since = `/tickets?count=true&per_page=0&sort=updated_at&since_created_at=${middle}`;
    expect(get(since).headers['Total-Count']).toBe(String(younger));
    const { id: label } = world.addLabel({ name: 'rare' });
    const rare = [3, 1, 2].map(place => world.byUpdated.at(place)!.id);
    for (const id of rare) world.addLabels(id, [label], { quiet: true });
    const order = [rare[1]!, rare[2]!, rare[0]!];
    const found = (rest: string) => ids(get(`/tickets?label_id=${label}&${rest}`));
    expect(found('sort=-updated_at')).toEqual(order.toReversed());
    expect(found('sort=updated_at&count=true')).toEqual(order);
    expect(found('sort=-updated_at&per_page=1&page=2')).toEqual([order[1]]);
    expect(found(`sort=-updated_at&since_updated_at=${world.ticket(order[2]!).updated_at}`)).toEqual([order[2]]);
  });

  test('naughty text: in about as many subjects and conversations as ordered, in names, contacts and labels', () => {
    const text = (world: World) => ({
      tickets: [...world.tickets.values()].map(({ subject, messages }) => [subject, messages]),
      names: [...world.customers.values()].map(({ first_name, last_name }) => [first_name, last_name]),
      contacts: [...world.customers.values()].map(({ contacts }) => contacts),
      labels: [...world.labels.values()],
    });
    const [plain, half, all] = [0, 0.5, 1].map(naughty => text(make({ tickets: 300, naughty })));
    for (const what of ['tickets', 'names', 'contacts', 'labels'] as const) {
      const spoiled = (world: typeof plain) =>
        plain![what].filter((one, n) => JSON.stringify(one) !== JSON.stringify(world![what][n])).length;
      expect(spoiled(half) / plain![what].length, what).toBeGreaterThan(0.3);
      expect(spoiled(half) / plain![what].length, what).toBeLessThan(0.7);
      expect(spoiled(all) / plain![what].length, what).toBeGreaterThan(0.8);
      expect(JSON.stringify(plain![what])).not.toMatch(/\\u0000|\\ud[89a-f]/);
      expect(JSON.stringify(all![what])).toMatch(/\\u0000|\\ud[89a-f]/);
    }
  });
});

describe('changes', () => {
  test('every kind comes up, and the world stays whole', () => {
    const { world, clock } = emptyWorld();
    const big = generateWorld({ tickets: 400, now: world.clock.now });
    const chance = rng(2);
    const kinds = counted(
      Array.from({ length: 10_000 }, () => {
        clock.ms += 1000;
        return mutate(big, chance).kind;
      }),
    );
    expect([...kinds.keys()].toSorted()).toEqual(
      [
        'new ticket',
        'customer replies',
        'user replies',
        'note',
        'edit of a note',
        'removal of a message',
        'state',
        'assignment',
        'labels added',
        'labels removed',
        'snooze',
        'end of a snooze',
        'archiving',
        'spam',
        'trash',
        'deletion',
        'bulk action',
        'edit of a customer',
        'contact added',
        'contact removed',
        'rename of a label',
        'rename of an inbox',
      ].toSorted(),
    );
    for (const ticket of big.tickets.values()) {
      expect(ticket.spam && ticket.trash).toBe(false);
      expect(ticket.snoozed_until !== null).toBe(ticket.state === 'snoozed');
    }
  });

  test('a world that holds nothing begins with a ticket', () => {
    const { world } = emptyWorld();
    expect(world.mutate(rng()).kind).toBe('new ticket');
    expect([world.tickets.size, world.customers.size]).toEqual([1, 1]);
  });

  test('only where there are no users has an answer none', () => {
    const { world } = emptyWorld();
    const chance = rng();
    const sent = () =>
      [...world.tickets.values()].flatMap(({ messages }) =>
        messages.filter(m => m.type === 'reply' && m.direction === 'out'),
      );
    while (sent().length < 3) world.mutate(chance);
    expect(new Set(sent().map(({ user_id }) => user_id))).toEqual(new Set([null]));
  });
});
