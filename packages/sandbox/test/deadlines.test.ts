/** Changes that only the clock triggers: the end of a snooze, and archiving. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { TicketState } from '../src/helpdesk/records.ts';
import { stamp } from '../src/helpdesk/records.ts';
import type { WorldOptions } from '../src/helpdesk/world/world.ts';
import { asking, emptyWorld, NOON, rng } from './in-process.ts';

const HOUR = 3_600_000;
const OLD = '2024-04-01T00:00:00Z';
const NOW = '2024-05-01T12:00:00Z';
const LATER = '2024-05-01T13:00:00Z';

function desk(options: WorldOptions = {}) {
  const { world, clock } = emptyWorld(options);
  world.addUser({ id: 'u1' });
  world.addTicket({ id: 't', created_at: OLD });
  return { world, clock, ...asking(world) };
}

describe('by the clock alone', () => {
  test('a snoozed ticket wakes at its time, whoever comes when', () => {
    const { world, clock, get } = desk();
    world.patchTicket('t', { state: 'snoozed', snoozed_until: LATER });
    clock.ms += HOUR - 1;
    expect(get('/tickets/t').json).toMatchObject({ state: 'snoozed', updated_at: NOW });
    clock.ms += 5 * HOUR;
    expect(get('/tickets?state=open').json).toMatchObject([{ state: 'open', snoozed_until: null, updated_at: LATER }]);
  });

  test('the last word on a snooze counts', () => {
    const { world, clock, get } = desk();
    const snooze = (snoozed_until: string | null) => world.patchTicket('t', { state: 'snoozed', snoozed_until });
    const stateAfter = (hours: number) => {
      clock.ms = NOON + hours * HOUR;
      return get('/tickets/t').json.state;
    };
    snooze('2024-05-01T14:00:00Z');
    snooze('2024-05-01T16:00:00Z');
    expect([stateAfter(2), stateAfter(3.9), stateAfter(4)]).toEqual(['snoozed', 'snoozed', 'open']);
    snooze('2024-05-02T00:00:00Z');
    snooze('2024-05-01T18:00:00Z');
    expect([stateAfter(5), stateAfter(6)]).toEqual(['snoozed', 'open']);
    snooze('2024-05-02T00:00:00Z');
    snooze(null);
    expect(stateAfter(1000)).toBe('snoozed');
    const snoozed = [stamp(clock.ms + HOUR), 'no time'].map(snoozed_until => {
      return world.addTicket({ state: 'snoozed', snoozed_until });
    });
    expect([stateAfter(1001), ...snoozed.map(({ state }) => state)]).toEqual(['snoozed', 'open', 'snoozed']);
  });

  test('a closed ticket is archived when nothing has happened to it for so long, by default never', () => {
    const { world, clock, get, send } = desk({ archiveHours: 10 });
    const at = (hours: number) => {
      clock.ms = NOON + hours * HOUR;
      const { state, updated_at } = get('/tickets/t').json;
      return `${state} ${updated_at.slice(11, 13)}`;
    };
    world.patchTicket('t', { state: 'closed' });
    expect(at(9)).toBe('closed 12');
    send('POST', '/tickets/t/messages', { type: 'note', user_id: 'u1', body: 'N', htmlized: false });
    expect([at(18.9), at(40)]).toEqual(['closed 21', 'archived 07']);
    world.patchTicket('t', { state: 'closed' });
    send('PATCH', '/tickets/t', { state: 'hold' });
    expect(at(60)).toBe('hold 04');

    const never = desk();
    never.world.patchTicket('t', { state: 'closed' });
    never.clock.ms += 1e6 * HOUR;
    expect(never.get('/tickets/t').json.state).toBe('closed');
  });

  test('what was closed long ago, as in a history, has been archived since', () => {
    const { world } = desk({ archiveHours: 10 });
    const old = world.addTicket({ state: 'closed', created_at: OLD });
    expect(old).toMatchObject({ state: 'archived', updated_at: OLD });
    expect(world.addTicket({ state: 'closed', created_at: stamp(NOON - 9 * HOUR) }).state).toBe('closed');
  });

  test('nothing that is due moves a ticket back behind what has happened to it', () => {
    const { world, clock, get } = desk();
    world.patchTicket('t', { state: 'snoozed', snoozed_until: LATER });
    clock.ms += 2 * HOUR;
    world.patchTicket('t', { subject: 'changed while nobody looked' });
    expect(get('/tickets/t').json).toMatchObject({ state: 'open', updated_at: '2024-05-01T14:00:00Z' });
  });

  test('activity lets happen what is due before it goes on, and quiet kinds stay quiet', () => {
    const { world, clock } = desk({ quietly: ['wake'] });
    world.patchTicket('t', { state: 'snoozed', snoozed_until: LATER }, { at: OLD });
    const deleted = world.addTicket({ state: 'snoozed', snoozed_until: LATER });
    world.deleteTicket(deleted.id);
    clock.ms += HOUR;
    expect(world.mutate(rng(2)).kind).toBe('new ticket');
    expect(world.ticket('t')).toMatchObject({ state: 'open', updated_at: OLD });
  });

  test('whatever happens in whatever order, it is as if somebody had looked at every ticket all the time', () => {
    interface Simple {
      state: TicketState;
      until: number;
      updated: number;
    }
    /** One look at one ticket, without any queue. */
    const look = (ticket: Simple, now: number) => {
      if (ticket.state === 'snoozed' && ticket.until <= now) {
        Object.assign(ticket, { state: 'open', updated: Math.max(ticket.updated, ticket.until) });
      }
      if (ticket.state === 'closed' && ticket.updated + 12 * HOUR <= now) {
        Object.assign(ticket, { state: 'archived', updated: ticket.updated + 12 * HOUR });
      }
    };
    const step = fc.record({
      nth: fc.nat(3),
      act: fc.constantFrom<TicketState | 'touch' | 'wait'>('snoozed', 'closed', 'open', 'touch', 'wait'),
      hours: fc.integer({ min: 1, max: 30 }),
    });
    const holds = fc.property(fc.array(step, { maxLength: 50 }), steps => {
      const { world, clock } = emptyWorld({ archiveHours: 12 });
      const simple = Array.from({ length: 4 }, (_, nth): Simple => {
        world.addTicket({ id: `t${nth}` });
        return { state: 'open', until: 0, updated: NOON };
      });
      for (const { nth, act, hours } of steps) {
        if (act === 'wait') clock.ms += hours * HOUR;
        world.settle();
        for (const ticket of simple) look(ticket, clock.ms);
        if (act === 'wait') continue;
        const until = act === 'snoozed' ? clock.ms + hours * HOUR : 0;
        Object.assign(simple[nth]!, { updated: clock.ms }, act !== 'touch' && { state: act, until });
        if (act === 'touch') world.touch(`t${nth}`);
        else world.patchTicket(`t${nth}`, { state: act, snoozed_until: until > 0 ? stamp(until) : null });
      }
      const shown = simple.map((_, nth) => world.ticket(`t${nth}`)).map(({ state, updated_at }) => [state, updated_at]);
      expect(shown).toEqual(simple.map(({ state, updated }) => [state, stamp(updated)]));
    });
    fc.assert(holds, { seed: 5, numRuns: 100 });
  });

  test('thousands of snoozes end in the order of their ends', () => {
    const { world, clock } = emptyWorld();
    const count = 1000;
    const random = rng();
    for (let nth = 0; nth < count; nth++) {
      const wakes = NOON + Math.ceil(random() * count) * 1000;
      world.addTicket({ state: 'snoozed', snoozed_until: stamp(wakes), updated_at: stamp(NOON - nth * 1000) });
    }
    const due = [...world.tickets.values()].map(({ snoozed_until }) => snoozed_until ?? '').toSorted();
    const ends: string[] = [];
    const { wake } = world;
    world.wake = (id, options) => {
      ends.push(world.ticket(id).snoozed_until ?? '');
      return wake.call(world, id, options);
    };
    clock.ms += (count / 2) * 1000;
    world.settle();
    expect(ends).toEqual(due.filter(end => end <= stamp(clock.ms)));
    clock.ms += count * 1000;
    world.settle();
    expect(ends).toEqual(due);
  });
});
