import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Ordered } from '../src/helpdesk/lists/ordered-list.ts';
import type { World } from '../src/helpdesk/world/world.ts';
import { hexId } from '../src/random.ts';
import { asking, emptyWorld, ids, rng } from './in-process.ts';

const updatedOrder = (world: World) => ids(asking(world).get('/tickets?sort=updated_at&per_page=100')).join(' ');

function threeTickets(options = {}) {
  const { world, clock } = emptyWorld(options);
  world.addLabel({ id: 'l1', name: 'refund' });
  for (const [n, id] of ['a', 'b', 'c'].entries()) world.addTicket({ id, created_at: `2024-04-0${n + 1}T00:00:00Z` });
  return { world, clock };
}

describe('operations', () => {
  const old = '2024-04-01T00:00:00Z';
  const now = '2024-05-01T12:00:00Z';

  test.each<[what: string, act: (world: World) => unknown, moved: boolean]>([
    ['touch', world => world.touch('a'), true],
    ['patch', world => world.patchTicket('a', { subject: 'x' }), true],
    ['patch, quiet', world => world.patchTicket('a', { subject: 'x' }, { quiet: true }), false],
    ['reply', world => world.addMessage('a', { body: 'x' }), true],
    ['reply, quiet', world => world.addMessage('a', { body: 'x' }, { quiet: true }), false],
    ['note', world => world.addNote('a', { body: 'x' }), true],
    ['labels', world => world.addLabels('a', ['l1']), true],
    ['labels that are not there', world => world.removeLabels('a', ['l1']), false],
    ['spam', world => world.setSpam('a', true), true],
    ['archive', world => world.archive('a'), true],
    ['name of a label', world => world.renameLabel('l1', 'money'), false],
    ['attachment', w => w.addAttachment('a', w.addMessage('a', {}, { quiet: true }).id), false],
  ])('%s', (_, act, moved) => {
    const { world } = threeTickets();
    act(world);
    expect(world.ticket('a').updated_at).toBe(moved ? now : old);
    expect(updatedOrder(world)).toBe(moved ? 'b c a' : 'a b c');
  });

  test.each<[kind: 'reply' | 'note' | 'labels' | 'archive' | 'wake', act: (world: World) => unknown]>([
    ['reply', world => world.addMessage('a')],
    ['note', world => world.addNote('a')],
    ['labels', world => world.addLabels('a', ['l1'])],
    ['archive', world => world.archive('a')],
    ['wake', world => world.wake('a')],
  ])('a world in which %s moves nothing, unless the operation says so', (kind, act) => {
    const { world } = threeTickets({ quietly: [kind] });
    act(world);
    expect(world.ticket('a').updated_at).toBe(old);
    world.addNote('a', {}, { quiet: false });
    expect(world.ticket('a').updated_at).toBe(now);
  });

  test('within one second the later change stands later, whatever the ids and numbers say', () => {
    const { world, clock } = threeTickets();
    for (const id of ['b', 'c', 'a', 'b']) {
      world.touch(id);
      clock.ms += 200;
    }
    expect(updatedOrder(world)).toBe('c a b');
    world.touch('b', '2020-01-01T00:00:00Z');
    world.touch('a', '2030-01-01T00:00:00Z');
    expect(updatedOrder(world)).toBe('b c a');
  });

  test('times are whole seconds, cut off', () => {
    const { world, clock } = threeTickets();
    clock.ms += 1999;
    expect(world.touch('a').updated_at).toBe('2024-05-01T12:00:01Z');
  });

  test('spam and trash exclude each other', () => {
    const { world } = threeTickets();
    expect(world.setSpam('a', true)).toMatchObject({ spam: true, trash: false });
    expect(world.setTrash('a', true)).toMatchObject({ spam: false, trash: true });
    expect(() => world.patchTicket('a', { spam: true })).toThrow('cannot be spam and trash together');
    expect(world.setTrash('a', false)).toMatchObject({ spam: false, trash: false });
    expect(() => world.addTicket({ spam: true, trash: true })).toThrow('cannot be spam and trash together');
  });

  test('a reply of the customer opens a ticket again; an answer and a note do not', () => {
    const { world } = threeTickets();
    for (const state of ['hold', 'closed', 'snoozed'] as const) {
      world.patchTicket('a', { state, snoozed_until: state === 'snoozed' ? now : null });
      world.addNote('a');
      world.addMessage('a', { direction: 'out' });
      expect(world.ticket('a').state).toBe(state);
      expect(world.addMessage('a')).toMatchObject({ direction: 'in' });
      expect(world.ticket('a')).toMatchObject({ state: 'open', snoozed_until: null });
    }
    world.archive('a');
    world.addMessage('a');
    expect(world.ticket('a').state).toBe('archived');
  });

  test('messages: edited, removed, and gone with their ticket', () => {
    const { world } = threeTickets();
    const file = { id: 'f', name: 'x', size: 1, type: 'text/plain' };
    const note = world.addNote('a', { body: 'one' });
    const reply = world.addMessage('a', { attachments: [file] });
    world.editNote('a', note.id, 'two');
    expect(world.ticket('a').messages.map(({ body }) => body)).toEqual(['two', null]);
    expect(() => world.editNote('a', reply.id, 'x')).toThrow('only notes can be edited');
    expect(world.attachments.get('f')).toBe(file);
    world.removeMessage('a', reply.id);
    expect([world.ticket('a').messages.length, world.attachments.size]).toEqual([1, 0]);
    world.addMessage('a', { attachments: [file] });
    world.deleteTicket('a');
    expect([world.attachments.size, updatedOrder(world)]).toEqual([0, 'b c']);
    expect(() => world.touch('a')).toThrow('There is no ticket a');
  });

  test('customers and their contacts', () => {
    const { world } = emptyWorld();
    const { id } = world.customers.add({ created_at: '2020-02-02T02:02:02Z' });
    const contact = world.customers.addContact(id, { type: 'email', value: 'a@x.example' });
    world.customers.patch(id, { first_name: 'Ada' });
    expect(asking(world).get(`/customers/${id}`).json).toMatchObject({ first_name: 'Ada', contacts: [contact] });
    world.customers.removeContact(id, contact.id);
    expect(world.customer(id).contacts).toEqual([]);
    world.customers.delete(id);
    expect(asking(world).get('/customers').json).toEqual([]);
  });

  test('names change where they are embedded', () => {
    const { world } = threeTickets();
    world.addLabels('a', ['l1']);
    world.renameLabel('l1', 'money back');
    world.renameInbox(world.ticket('a').inbox_id, 'Front desk');
    const { labels, inbox } = asking(world).get('/tickets/a?embed=labels,inbox').json;
    expect([labels[0].name, inbox.name]).toEqual(['money back', 'Front desk']);
  });
});

describe('order', () => {
  test('twelve thousand tickets in one second, then some of them again: every page is in its place', () => {
    const { world } = emptyWorld();
    for (let n = 0; n < 12_000; n++) world.addTicket({ id: `t${n}`, updated_at: '2024-01-01T00:00:00Z' });
    for (const id of ['t5', 't11999', 't0']) world.touch(id);
    const { get } = asking(world, { depth: 100_000 });
    const read = Array.from({ length: 120 }, (_, n) => ids(get(`/tickets?sort=updated_at&per_page=100&page=${n + 1}`)));
    const untouched = Array.from({ length: 12_000 }, (_, n) => `t${n}`).filter(
      id => !['t5', 't11999', 't0'].includes(id),
    );
    expect(read.flat()).toEqual([...untouched, 't5', 't11999', 't0']);
  });

  const operation = fc.oneof(
    fc.tuple(fc.constant('add'), fc.nat(30)),
    fc.tuple(fc.constant('remove'), fc.nat(30)),
    fc.tuple(fc.constant('many'), fc.nat(30)),
    fc.tuple(fc.constant('read'), fc.nat(30)),
  );

  test('an ordered list is what sorting would give, however it came about', () => {
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 60 }), operations => {
        const ordered = new Ordered<{ key: number; n: number }>((a, b) => a.key - b.key || a.n - b.n);
        let all: { key: number; n: number }[] = [];
        let n = 0;
        const add = (key: number) => {
          const item = { key, n: n++ };
          all.push(item);
          ordered.add(item);
        };
        for (const [kind, value] of operations) {
          if (kind === 'add') add(value);
          if (kind === 'many') for (let key = 60; key > value; key--) add(key % 31);
          if (kind === 'remove' && all.length > 0) {
            const gone = all[value % all.length]!;
            ordered.remove(gone);
            all = all.filter(item => item !== gone);
          }
          if (kind === 'read') ordered.at(value);
          expect(ordered.length).toBe(all.length);
        }
        const sorted = all.toSorted((a, b) => a.key - b.key || a.n - b.n);
        expect(Array.from({ length: ordered.length }, (_, at) => ordered.at(at))).toEqual(sorted);
        expect(ordered.firstWhere(({ key }) => key >= 15)).toBe(all.filter(({ key }) => key < 15).length);
      }),
    );
  });

  test('an item that was changed in place is not lost in silence', () => {
    const { world } = threeTickets();
    world.ticket('a').updated_at = '2030-01-01T00:00:00Z';
    expect(() => world.touch('a')).toThrow('changed in place');
  });

  test('every order shows every ticket once, in order, after a thousand changes of every kind', () => {
    const { world, clock } = emptyWorld();
    const chance = rng(7);
    for (let n = 0; n < 1000; n++) {
      clock.ms += Math.floor(chance() * 3000);
      world.mutate(chance);
    }
    const { get } = asking(world);
    const all = (sort: string) =>
      Array.from({ length: Math.ceil(world.tickets.size / 100) }, (_, n) => {
        return get(`/tickets?per_page=100&page=${n + 1}&sort=${sort}`).json;
      }).flat();
    for (const key of ['updated_at', 'created_at']) {
      const up = all(key);
      expect(up.map(ticket => ticket[key])).toEqual(up.map(ticket => ticket[key]).toSorted());
      expect(new Set(up.map(({ id }) => id))).toEqual(new Set(world.tickets.keys()));
      expect(all(`-${key}`)).toEqual(up.toReversed());
    }
    const keys = all('user_id,-updated_at').map(({ user_id, updated_at }) => [user_id ?? '~', updated_at]);
    const sorted = keys.toSorted((a, b) =>
      a[0] === b[0] ? (a[1] < b[1] ? 1 : a[1] > b[1] ? -1 : 0) : a[0] < b[0] ? -1 : 1,
    );
    expect(keys).toEqual(sorted);
    expect(keys).toHaveLength(world.tickets.size);
  });
});

describe('ids', () => {
  test('are opaque, of 8 or 24 hex digits, and never the same', () => {
    const made = Array.from({ length: 200_000 }, (_, n) => hexId(5, n));
    expect(new Set(made).size).toBe(made.length);
    expect(made.every(id => /^([0-9a-f]{8}|[0-9a-f]{24})$/.test(id))).toBe(true);
    const short = made.filter(id => id.length === 8).length;
    expect(short).toBeGreaterThan(90_000);
    expect(short).toBeLessThan(110_000);
  });

  test('the same seed gives the same ids, another one others', () => {
    const first = (seed: number) => emptyWorld({ seed }).world.newId();
    expect(first(1)).toBe(first(1));
    expect(first(1)).not.toBe(first(2));
  });
});
