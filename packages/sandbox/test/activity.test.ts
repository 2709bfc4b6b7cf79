import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { Activity, type LivelyWorld } from '../src/activity.ts';
import { Clock } from '../src/clock.ts';
import { World } from '../src/helpdesk/world/world.ts';
import { openServices, type Services, type ServicesOptions } from '../src/services.ts';
import { ME } from './books-in-process.ts';
import { NOON } from './in-process.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Both services on a clock that stands still until the test moves it. */
function open(options: ServicesOptions = {}) {
  const clock = { ms: NOON };
  const services = openServices({
    tickets: 60,
    activity: 60,
    requestsPerSecond: 1e6,
    credits: 1e6,
    now: () => clock.ms,
    ...options,
    books: { volumes: 30, requestsPerSecond: 1e6, requestsPerDay: 1e6, ...options.books },
  });
  const get = (url: string) => {
    const token = url.startsWith('/api') ? services.helpdesk.tokens[0] : services.books.tokens.token;
    return services.handle({ method: 'GET', url, headers: { authorization: `Bearer ${token}` } });
  };
  return { clock, ...services, get };
}

/** All that both worlds hold, in its orders, as a fingerprint. */
function everything({ helpdesk: { world }, books }: Services): string {
  const orders = [world.byUpdated, world.byCreated, world.byUser, world.customers.byCreated];
  const lists = orders.map(order => Array.from<unknown, unknown>({ length: order.length }, (_, at) => order.at(at)));
  const shelves = [...books.world.users.values()].map(({ id, shelves }) => [id, [...shelves.values()]]);
  const all = JSON.stringify([lists, [...world.labels.values()], shelves, [...books.world.volumes.values()]]);
  return createHash('sha256').update(all).digest('hex');
}

/** A world in which nothing happens but that somebody writes down when it should. */
function watched() {
  const clock = { ms: NOON };
  const times = new Clock(() => clock.ms);
  const happened: number[] = [];
  const world: LivelyWorld = { clock: times, mutate: () => happened.push(times.now()) };
  return { clock, times, happened, world };
}

describe('a lot at once', () => {
  test('in slices, and others may look between them', () => {
    const { clock, happened, world } = watched();
    const activity = new Activity(world, 4, 1);
    clock.ms += 75 * MINUTE;
    const slices = activity.catchingUp();
    expect([slices.next().done, happened.length]).toEqual([false, 100]);
    clock.ms += MINUTE;
    expect([activity.catchUp(), happened.length]).toEqual([204, 304]);
    expect([slices.next().done, happened.length]).toEqual([true, 304]);
    expect(happened).toEqual(Array.from({ length: 304 }, (_, at) => NOON + (at + 1) * 15_000));
  });
});

describe('when changes come', () => {
  test('evenly, from the start on, each at its own moment', () => {
    const { clock, happened, world } = watched();
    const activity = new Activity(world, 4, 1);
    expect(activity.catchUp()).toBe(0);
    clock.ms += 14_999;
    expect(activity.catchUp()).toBe(0);
    clock.ms += 1;
    expect(activity.catchUp()).toBe(1);
    clock.ms += 50_000;
    expect(activity.catchUp()).toBe(3);
    expect(happened.map(at => at - NOON)).toEqual([15_000, 30_000, 45_000, 60_000]);
    clock.ms -= 30_000;
    expect(activity.catchUp()).toBe(0);
  });

  test('as many as were ordered, however odd their number is and however often somebody looks', () => {
    const { clock, happened, world } = watched();
    const activity = new Activity(world, 7, 1);
    for (let n = 0; n < 600; n++) {
      clock.ms += 1000;
      activity.catchUp();
    }
    expect(happened).toHaveLength(70);
    const { clock: other, happened: atOnce, world: one } = watched();
    const later = new Activity(one, 7, 1);
    other.ms += 600_000;
    expect(later.catchUp()).toBe(70);
    expect(atOnce).toEqual(happened);
  });

  test('none in a world that rests', () => {
    const { clock, happened, world } = watched();
    const activity = new Activity(world, 0, 1);
    clock.ms += 365 * DAY;
    expect([activity.catchUp(), happened]).toEqual([0, []]);
  });

  test('with a rhythm: busy mornings, quiet nights and Sundays, and as many in a week', () => {
    const { clock, happened, world } = watched();
    const activity = new Activity(world, 2, 1, 'office');
    clock.ms += 7 * DAY;
    activity.catchUp();
    expect(Math.abs(happened.length - 2 * 60 * 24 * 7)).toBeLessThanOrEqual(1);
    const of = (day: string, hour: number) =>
      happened.filter(at => new Date(at).toISOString().startsWith(`${day}T${String(hour).padStart(2, '0')}`)).length;
    const [monday, sunday] = ['2024-05-06', '2024-05-05'];
    expect([of(monday, 9), of(monday, 3), of(sunday, 9)]).toEqual([316, 32, 95]);
    expect(happened).toEqual(happened.toSorted((a, b) => a - b));
  });

  test('a rhythm is the same however often somebody looks', () => {
    const { clock, happened, world } = watched();
    const activity = new Activity(world, 0.37, 1, 'office');
    for (let n = 0; n < 2 * 24 * 60; n++) {
      clock.ms += MINUTE;
      activity.catchUp();
    }
    const { clock: other, happened: atOnce, world: one } = watched();
    const later = new Activity(one, 0.37, 1, 'office');
    other.ms += 2 * DAY;
    later.catchUp();
    expect(atOnce).toEqual(happened);
    expect(happened.length).toBeGreaterThan(900);
  });

  test('a jump of the service’s clock brings no changes, and later ones have its time', () => {
    const { clock, times, happened, world } = watched();
    const activity = new Activity(world, 1, 1);
    times.jump(DAY);
    expect(activity.catchUp()).toBe(0);
    clock.ms += MINUTE;
    activity.catchUp();
    expect(happened).toEqual([NOON + DAY + MINUTE]);
  });
});

describe('both worlds', () => {
  test('two runs with one seed are the same, another seed is another world', () => {
    const run = (options: ServicesOptions, steps: number) => {
      const made = open(options);
      for (let n = 0; n < steps; n++) {
        made.clock.ms += HOUR / steps;
        made.get(n % 2 === 0 ? '/api/v1/tickets?sort=updated_at' : '/books/v1/mylibrary/bookshelves');
      }
      made.catchUp();
      return everything(made);
    };
    const first = run({ seed: 5 }, 60);
    expect(first).toBe(run({ seed: 5 }, 60));
    expect(first).toBe(run({ seed: 5 }, 1));
    expect(first).not.toBe(run({ seed: 6 }, 1));
  });

  test('two runs with one seed that begin at one time are the same, whenever they are started', () => {
    const begin = Date.parse('2020-02-29T12:00:00.500Z');
    const run = (now: number, options: ServicesOptions) => {
      const clock = { ms: now };
      // As on a machine, where time goes on while a world is made.
      const made = open({ seed: 5, now: () => ++clock.ms, ...options });
      const date = () => Date.parse(made.get('/api/v1/users').headers.Date!);
      const dates = [date()];
      clock.ms += HOUR;
      dates.push(date());
      return { dates, all: everything(made) };
    };
    const first = run(NOON, { begin });
    expect(first).toEqual(run(NOON + 12_345_678, { begin }));
    expect(first.dates).toEqual([begin - 500, begin - 500 + HOUR]);
    expect(first.all).not.toBe(run(NOON, { begin: begin + DAY }).all);
  });

  test('an hour that passes at once has its changes all over it', () => {
    const { clock, get, helpdesk } = open({ activity: 6 });
    clock.ms += HOUR;
    get('/api/v1/tickets');
    const all = [...helpdesk.world.tickets.values()];
    const said = all
      .flatMap(({ messages }) => messages.map(({ created_at }) => created_at))
      .filter(at => at > '2024-05-01T12');
    const tens = new Set(said.map(at => at.slice(11, 15)));
    expect([...tens].sort().slice(0, 6)).toEqual(['12:0', '12:1', '12:2', '12:3', '12:4', '12:5']);
    expect(said.length).toBeGreaterThan(120);
    expect(said.length).toBeLessThan(360);
  });

  test('the catalog lives too, a tenth as busily', () => {
    const { clock, catchUp, books } = open();
    const shelves = () => JSON.stringify([...books.world.users.get(ME)!.shelves.values()]);
    const before = shelves();
    clock.ms += HOUR;
    catchUp();
    expect(shelves()).not.toBe(before);
    const changed = [...books.world.users.values()].flatMap(({ shelves }) => [...shelves.values()]);
    const latest = changed
      .map(({ updated }) => updated)
      .sort()
      .at(-1)!;
    expect(latest.slice(0, 13)).toBe('2024-05-01T12');
  });

  test('what is due by the clock alone happens in a world that rests', () => {
    const clock = { ms: NOON };
    const world = new World({ now: () => clock.ms });
    world.addTicket({ id: 'a', state: 'snoozed', snoozed_until: '2024-05-01T12:30:00Z' });
    const { catchUp } = openServices({ world });
    clock.ms += HOUR;
    catchUp();
    expect(world.ticket('a')).toMatchObject({ state: 'open', updated_at: '2024-05-01T12:30:00Z' });
  });
});

describe('services without sockets', () => {
  test('a path says whose it is', () => {
    const { get, helpdesk, books, handle } = open();
    expect([get('/api/v1/users').status, get('/books/v1/mylibrary/bookshelves').status]).toEqual([200, 200]);
    expect(handle({ method: 'POST', url: '/oauth/token', headers: {} }).status).toBe(400);
    expect([helpdesk.totals.requests, books.totals.requests]).toEqual([1, 1]);
    expect(get('/elsewhere').headers).toHaveProperty('Rate-Limit-Limit');
  });

  test('rules that are added reach both, and one clock jumps without the other', () => {
    const { get, rules, clock } = open();
    const dates = () =>
      ['/api/v1/users', '/books/v1/mylibrary/bookshelves'].map(url => get(url).headers.Date!.slice(17, 25));
    rules.add({ service: 'books', times: 1, fault: { kind: 'clock', seconds: 90 } });
    expect(dates()).toEqual(['12:00:00', '12:01:30']);
    clock.ms += 1000;
    expect(dates()).toEqual(['12:00:01', '12:01:31']);
    rules.add({ service: 'helpdesk', times: 1, fault: { kind: 'clock', seconds: -60 } });
    expect(dates()).toEqual(['11:59:01', '12:01:31']);
    rules.set([{ fault: { kind: 'status', status: 503 } }]);
    expect([get('/api/v1/users').status, get('/books/v1/mylibrary/bookshelves').status]).toEqual([503, 503]);
  });
});
