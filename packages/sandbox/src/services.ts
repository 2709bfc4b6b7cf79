/**
 * Both services with their worlds, rules and activity, without sockets and timers. Simulations call it directly and move
 * its clock; server.ts adds sockets. Overdue changes run before every request, so each request reads current worlds.
 */
import { Activity } from './activity.ts';
import { worldsOf } from './admin/snapshot.ts';
import { Rules } from './admission/rules.ts';
import { type GenerateBooksOptions, generateBooks } from './books/content/generate.ts';
import { BooksService, type BooksServiceOptions } from './books/service.ts';
import type { BooksWorld } from './books/world.ts';
import { beginningAt } from './clock.ts';
import { type GenerateOptions, generateWorld } from './helpdesk/content/generate.ts';
import { Service, type ServiceOptions } from './helpdesk/service.ts';
import type { World } from './helpdesk/world/world.ts';
import type { Asked, Reply } from './http/request-reply.ts';
import type { Rhythm } from './rhythm.ts';

export interface ServicesOptions extends ServiceOptions, Omit<GenerateOptions, 'now'> {
  /** Default 1. The same seed with the same `begin` gives the same worlds, and the same activity. */
  seed?: number;
  /** Start of both clocks in milliseconds; they run at the speed of `now`. Default: `now`. Ignored with a `world`. */
  begin?: number;
  /** How far Date is ahead of the clocks that stamp records, as of an edge before the services; default 0. */
  dateAheadSeconds?: number;
  /** A snapshot (admin/snapshot.ts) with records to use instead of generated ones. */
  records?: string;
  /** A world to use instead of a generated one; its clock is the clock of both services. */
  world?: World;
  /** Changes per minute in the help desk; default 0. */
  activity?: number;
  /** Spread of the changes in both worlds; default 'even'. */
  rhythm?: Rhythm;
  /** Options of the book catalog. */
  books?: BooksOptions;
  /** Clock in milliseconds; default the machine's. */
  now?: () => number;
  /** Fault rules for both services, unless the catalog has its own; default none. */
  rules?: Rules;
}

export interface BooksOptions extends BooksServiceOptions, Omit<GenerateBooksOptions, 'now'> {
  /** A world to use instead of a generated one, with its own clock. */
  world?: BooksWorld;
  /** Changes per minute; default a tenth of the help desk's. */
  activity?: number;
}

export interface Services {
  helpdesk: Service;
  books: BooksService;
  rules: Rules;
  /** Runs overdue changes, then passes the request to the service of its path. */
  handle(asked: Asked): Reply;
  /** Runs overdue changes. Call before reading a world or setting its clock. */
  catchUp(): void;
  /** As `catchUp`, in slices between which the caller can yield to the event loop. */
  catchingUp(): Generator<void, void>;
}

export function openServices(options: ServicesOptions = {}): Services {
  const { seed = 1, activity = 0, rhythm, books: bookish = {}, rules = new Rules() } = options;
  const clock = options.begin === undefined ? undefined : beginningAt(options.begin, options.now);
  const timed = { ...options, ...(clock && { now: clock.now }) };
  const held = options.records === undefined ? {} : worldsOf(options.records, timed);
  const world = options.world ?? held.helpdesk ?? generateWorld(timed);
  const helpdesk = new Service(world, { ...options, rules });
  const asked = { seed, ...bookish, now: world.clock.steady };
  const booksWorld = bookish.world ?? held.books?.(asked) ?? generateBooks(asked);
  clock?.start();
  for (const each of [world, booksWorld]) each.clock.jumpDate((options.dateAheadSeconds ?? 0) * 1000);
  const books = new BooksService(booksWorld, { rules, ...bookish });
  const lives = [
    new Activity(world, activity, seed, rhythm),
    new Activity(booksWorld, bookish.activity ?? activity / 10, seed + 1, rhythm),
  ];
  const catchUp = () => {
    for (const life of lives) life.catchUp();
  };
  const catchingUp = function* () {
    for (const life of lives) yield* life.catchingUp();
  };
  return {
    helpdesk,
    books,
    rules,
    handle: asked => {
      catchUp();
      return (BooksService.takes(asked.url) ? books : helpdesk).handle(asked);
    },
    catchUp,
    catchingUp,
  };
}
