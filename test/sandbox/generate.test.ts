import { describe, expect, test } from 'vitest';
import { mutate } from '../../src/sandbox/helpdesk/changes.ts';
import { type GenerateOptions, generateWorld } from '../../src/sandbox/helpdesk/generate.ts';
import { customerRecord, TICKET_STATES, TICKET_TYPES, ticketRecord } from '../../src/sandbox/helpdesk/records.ts';
import type { World } from '../../src/sandbox/helpdesk/world.ts';
import { asking, emptyWorld, ids, NOON, rng } from './asking.ts';

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
    const automatic = messages.filter(m => m.type === 'reply' && m.direction === 'out' && m.user_id === null);
    expect(automatic.length).toBeGreaterThan(0);
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
});
