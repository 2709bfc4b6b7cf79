import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { Rules } from '../src/admission/rules.ts';
import { Ordered } from '../src/helpdesk/lists/ordered-list.ts';
import { Overlay } from '../src/helpdesk/lists/overlay.ts';
import { customerRecord, ticketRecord } from '../src/helpdesk/records.ts';
import { staleCopy } from '../src/helpdesk/stale-copy.ts';
import type { World } from '../src/helpdesk/world/world.ts';
import { askingBooks, emptyBooks, itemIds, ME, someBooks } from './books-in-process.ts';
import { asking, emptyWorld, ids, rng } from './in-process.ts';

/** Asked with `lagging` in the query, a desk answers from a copy that is ten seconds behind; else as it is. */
const LATE = { id: 'late', query: { lagging: '*' }, fault: { kind: 'lag', seconds: 10 } };

function desk() {
  const { world, clock } = emptyWorld();
  world.customers.add({
    id: 'kim',
    first_name: 'Kim',
    contacts: [{ id: 'k1', type: 'email', value: 'kim@x.example' }],
  });
  for (const id of ['a', 'b', 'c', 'd']) {
    clock.ms += 1000;
    world.addTicket({ id, subject: id, customer_id: 'kim' });
  }
  clock.ms += 60_000;
  const rules = new Rules([LATE]);
  return { world, clock, rules, ...asking(world, { rules }) };
}

describe('a copy that is behind', () => {
  test('shows what was there, where it was, and catches up', () => {
    const { world, clock, get } = desk();
    world.patchTicket('a', { subject: 'changed', state: 'closed' });
    world.deleteTicket('b');
    world.addTicket({ id: 'new', customer_id: 'kim' });
    const list = (query: string) => get(`/tickets?sort=updated_at&count=true${query}`);
    const [now, then] = [list(''), list('&lagging=1')];
    expect([ids(now), now.headers['Total-Count']]).toEqual([['c', 'd', 'a', 'new'], '4']);
    expect([ids(then), then.headers['Total-Count']]).toEqual([['a', 'b', 'c', 'd'], '4']);
    expect(then.json[0]).toMatchObject({ subject: 'a', state: 'open', updated_at: '2024-05-01T12:00:01Z' });
    clock.ms += 9_999;
    expect(ids(list('&lagging=1'))).toEqual(['a', 'b', 'c', 'd']);
    clock.ms += 1;
    expect(list('&lagging=1').json).toEqual(list('').json);
  });

  test('what writes sees the world as it is, and no copy is made for it', () => {
    const { world, ask } = desk();
    const asOf = vi.spyOn(world.past.tickets, 'asOf');
    const patched = ask('PATCH', '/tickets/a?lagging=1', { 'content-type': 'application/json' }, '{"subject":"now"}');
    expect([patched.json.subject, asOf.mock.calls.length]).toEqual(['now', 0]);
  });

  test('a row comes late, though its own timestamp is old by then', () => {
    const { world, clock, get } = desk();
    const since = '2024-05-01T12:01:05Z';
    world.addTicket({ id: 'new', customer_id: 'kim' });
    const missed = () => ids(get(`/tickets?since_created_at=${since}&lagging=1`));
    const [before] = [missed()];
    clock.ms += 10_000;
    expect([before, missed()]).toEqual([[], []]);
    expect(ids(get('/tickets?since_created_at=2024-05-01T12:01:04Z&lagging=1'))).toEqual(['new']);
  });

  test('single records: tickets with messages and customer, what is gone and what is not there yet', () => {
    const { world, get } = desk();
    const note = world.addNote('a', { body: 'first' });
    world.addMessage('b', { body: 'hello' });
    world.editNote('a', note.id, 'second');
    world.customers.patch('kim', { first_name: 'Kimberly' });
    world.customers.addContact('kim', { type: 'phone', value: '1' });
    world.customers.removeContact('kim', 'k1');
    world.customers.add({ id: 'late' });
    world.deleteTicket('c');
    const bodies = (id: string, lagging: string) =>
      get(`/tickets/${id}?embed=messages${lagging}`).json.messages.map(({ body }: { body: string }) => body);
    expect([bodies('a', ''), bodies('a', '&lagging=1')]).toEqual([['second'], []]);
    expect([bodies('b', ''), bodies('b', '&lagging=1')]).toEqual([['hello'], []]);
    expect([get('/tickets/c').status, get('/tickets/c?lagging=1').status]).toEqual([404, 200]);
    expect([get('/customers/late').status, get('/customers/late?lagging=1').status]).toEqual([200, 404]);
    expect(get('/tickets/a?embed=customer&lagging=1').json.customer).toEqual({
      id: 'kim',
      first_name: 'Kim',
      last_name: null,
      summary: null,
      contacts: [{ id: 'k1', type: 'email', value: 'kim@x.example' }],
    });
    const found = (lagging: string) =>
      get(`/customers?contacts.type=email&contacts.value=kim@x.example${lagging}`).json.length;
    expect([found(''), found('&lagging=1')]).toEqual([0, 1]);
  });

  test('an edited note reads as it did', () => {
    const { world, clock, get } = desk();
    const note = world.addNote('a', { body: 'first' });
    clock.ms += 20_000;
    world.editNote('a', note.id, 'second');
    expect(get('/tickets/a?embed=messages&lagging=1').json.messages[0].body).toBe('first');
  });

  test('what changes something goes to the original, and answers from it', () => {
    const { world, send } = desk();
    world.patchTicket('a', { subject: 'new' });
    expect(send('PATCH', '/tickets/a?lagging=1', { state: 'closed' })).toMatchObject({
      status: 200,
      json: { subject: 'new', state: 'closed' },
    });
  });

  test('nothing is kept without a rule, and what is kept begins with it', () => {
    const { world, rules, get } = desk();
    const then = () => get('/tickets/a?lagging=1').json.subject;
    world.patchTicket('a', { subject: 'one' });
    expect(then()).toBe('a');
    rules.clear();
    world.patchTicket('a', { subject: 'two' });
    rules.set([LATE]);
    expect(then()).toBe('two');
    world.patchTicket('a', { subject: 'three' });
    expect(then()).toBe('two');
  });

  test('what happened while nobody looked is as old as it is', () => {
    const { world, clock, get } = desk();
    world.patchTicket('a', { state: 'snoozed', snoozed_until: '2024-05-01T12:01:14Z' });
    clock.ms += 60_000;
    expect(get('/tickets/a?lagging=1').json.state).toBe('open');
  });

  test('what the clock jumped over happened when it jumped', () => {
    const { world, clock, get } = desk();
    const state = (lagging: string) => get(`/tickets/a?lagging=${lagging}`).json.state;
    world.patchTicket('a', { state: 'snoozed', snoozed_until: '2024-05-01T12:30:00Z' });
    clock.ms += 60_000;
    world.clock.jump(3_600_000);
    expect([get('/tickets/a').json.state, state('1')]).toEqual(['open', 'snoozed']);
    clock.ms += 10_000;
    expect(state('1')).toBe('open');
  });
});

/** What a copy has to show at a moment: everything, taken when it was so. */
function photograph(world: World) {
  const all = <T, R>(order: { length: number; at(n: number): T | undefined }, show: (item: T) => R) =>
    structuredClone(Array.from({ length: order.length }, (_, n) => show(order.at(n)!)));
  return {
    byUpdated: all(world.byUpdated, ticketRecord),
    byCreated: all(world.byCreated, ticketRecord),
    byUser: all(world.byUser, ticketRecord),
    customers: all(world.customers.byCreated, customerRecord),
    messages: all(world.byCreated, ({ messages }) => messages),
  };
}

describe('the copy of a lively world is the world as it was', () => {
  test.each([1, 2, 3])('seed %i', seed => {
    const { world, clock } = emptyWorld();
    world.past.keepFor(100_000);
    const chance = rng(seed);
    const pictures: [at: number, ReturnType<typeof photograph>][] = [];
    for (let n = 0; n < 240; n++) {
      clock.ms += 250;
      world.mutate(chance);
      if (n % 12 === 0) pictures.push([clock.ms, photograph(world)]);
    }
    expect(world.tickets.size).toBeGreaterThan(20);
    for (const [at, picture] of pictures) {
      const then = staleCopy(world, clock.ms - at);
      const { byUpdated, byCreated, byUser, customers } = then;
      const show = <T, R>(order: { length: number; at(n: number): T | undefined }, record: (item: T) => R) =>
        Array.from({ length: order.length }, (_, n) => record(order.at(n)!));
      expect({
        byUpdated: show(byUpdated, ticketRecord),
        byCreated: show(byCreated, ticketRecord),
        byUser: show(byUser, ticketRecord),
        customers: show(customers.byCreated, customerRecord),
        messages: show(byCreated, ({ messages }) => messages),
      }).toEqual(picture);
    }
  });

  test('an overlay is what sorting would give, and its search finds what a scan would', () => {
    interface Item {
      key: number;
      n: number;
    }
    const compare = (a: Item, b: Item) => a.key - b.key || a.n - b.n;
    const keys = fc.array(fc.nat(20), { maxLength: 30 });
    fc.assert(
      fc.property(keys, fc.array(fc.nat(29), { maxLength: 10 }), keys, fc.nat(21), (now, places, before, wanted) => {
        const items = now.map((key, n) => ({ key, n }));
        const order = new Ordered<Item>(compare);
        for (const item of items) order.add(item);
        const gone = [...new Set(places)].filter(place => place < items.length).map(place => items[place]!);
        const old = before.map((key, n) => ({ key, n: n < gone.length ? gone[n]!.n : 100 + n }));
        const expected = [...items.filter(item => !gone.includes(item)), ...old].sort(compare);
        const overlay = new Overlay(order, compare, gone, old);
        expect(Array.from({ length: overlay.length }, (_, n) => overlay.at(n))).toEqual(expected);
        expect(overlay.at(overlay.length)).toBeUndefined();
        expect(overlay.firstWhere(({ key }) => key >= wanted)).toBe(expected.filter(({ key }) => key < wanted).length);
      }),
    );
  });

  test('the past is forgotten once it is old: what is kept is bounded by time', () => {
    const { world, clock } = emptyWorld();
    world.past.keepFor(5_000);
    world.addTicket({ id: 'a', subject: '0' });
    for (let n = 1; n <= 100; n++) {
      clock.ms += 1000;
      world.patchTicket('a', { subject: String(n) });
    }
    expect(staleCopy(world, 3_000).tickets.get('a')?.subject).toBe('97');
    expect(Number(staleCopy(world, 1e9).tickets.get('a')?.subject)).toBeGreaterThan(85);
  });

  test('the past is forgotten in a world that rests, too', () => {
    const { world, clock } = emptyWorld();
    const { world: books, clock: other } = emptyBooks();
    for (const { past } of [world, books]) past.keepFor(5_000);
    for (let n = 0; n < 100; n++) world.addTicket();
    books.addVolume({ id: 'v' });
    expect([world.past.tickets.size, books.past.volumes.size]).toEqual([100, 1]);
    for (const time of [clock, other]) time.ms += 10_001;
    for (const desk of [world, books]) desk.settle();
    expect([world.past.tickets.size, books.past.volumes.size]).toEqual([0, 0]);
  });
});

describe('the catalog', () => {
  const rules = () => new Rules([LATE]);

  test('a shelf as it was: its volumes, its order, its count and its times', () => {
    const { world, clock } = emptyBooks();
    for (const id of ['v1', 'v2', 'v3']) world.addVolume({ id });
    for (const id of ['v1', 'v2']) world.add(ME, 0, id, 9);
    clock.ms += 60_000;
    const { get } = askingBooks(world, { rules: rules(), totalItems: 'true' });
    world.move(ME, 0, 'v2', 0);
    world.add(ME, 0, 'v3', 0);
    world.changeVolume('v1', { title: 'Other' });
    const shelf = (lagging: string) => get(`/mylibrary/bookshelves/0?lagging=${lagging}`).json;
    const volumes = (query: string) => get(`/mylibrary/bookshelves/0/volumes${query}`);
    expect([itemIds(volumes('')), itemIds(volumes('?lagging=1'))]).toEqual(['v3 v2 v1', 'v1 v2']);
    expect(volumes('?lagging=1').json.items[0].volumeInfo.title).toBe('A book');
    expect(shelf('1')).toMatchObject({ volumeCount: 2, volumesLastUpdated: '2024-05-01T12:00:00.000Z' });
    clock.ms += 10_000;
    expect(shelf('1')).toMatchObject({ volumeCount: 3, volumesLastUpdated: '2024-05-01T12:01:00.000Z' });
  });

  test('shelves and volumes that are gone are there, and new ones are not', () => {
    const { world, clock } = emptyBooks();
    world.addVolume({ id: 'v1', info: { title: 'Tides' } });
    world.createShelf(ME, { id: 1001, title: 'Mine', volumes: ['v1'] });
    clock.ms += 60_000;
    const { get } = askingBooks(world, { rules: rules() });
    world.deleteVolume('v1');
    world.deleteShelf(ME, 1001);
    world.createShelf(ME, { id: 1002 });
    world.addVolume({ id: 'v2', info: { title: 'Tides again' } });
    const shelves = (query: string) =>
      itemIds(get(`/mylibrary/bookshelves${query}`))?.slice('0 1 2 3 4 5 6 7 8 '.length);
    expect([shelves(''), shelves('?lagging=1')]).toEqual(['1002', '1001']);
    expect(itemIds(get('/mylibrary/bookshelves/1001/volumes?lagging=1'))).toBe('v1');
    expect([get('/volumes/v1').status, get('/volumes/v1?lagging=1').status]).toEqual([503, 200]);
    expect([get('/volumes/v2').status, get('/volumes/v2?lagging=1').status]).toEqual([200, 503]);
    expect([itemIds(get('/volumes?q=tides')), itemIds(get('/volumes?q=tides&lagging=1'))]).toEqual(['v2', 'v1']);
  });

  test('after many changes of every kind it is what it was', () => {
    const { world, clock } = someBooks({ volumes: 40 });
    const { get } = askingBooks(world, {
      rules: new Rules([{ query: { lagging: '*' }, fault: { kind: 'lag', seconds: 60 } }]),
      totalItems: 'true',
    });
    const chance = rng(4);
    const picture = (lagging: string) =>
      [...world.users.get(ME)!.shelves.keys()].map(id => {
        const { json } = get(`/mylibrary/bookshelves/${id}/volumes?maxResults=40${lagging}`);
        return [id, json.items?.map((item: { id: string; volumeInfo: object }) => [item.id, item.volumeInfo])];
      });
    const plain = (all: unknown) => JSON.stringify(all).replaceAll(/(imgtk|tk|cd)=[^"&]*/g, '');
    const then = plain(picture(''));
    const shelves = [...world.users.get(ME)!.shelves.keys()];
    for (let n = 0; n < 300; n++) {
      clock.ms += 100;
      world.mutate(chance, ['shelf deleted', 'shelf created']);
    }
    clock.ms += 30_000;
    expect([...world.users.get(ME)!.shelves.keys()]).toEqual(shelves);
    expect(plain(picture('&lagging=1'))).toBe(then);
    expect(plain(picture(''))).not.toBe(then);
  });
});
