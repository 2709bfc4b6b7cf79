/**
 * Both services with their worlds, rules and activity, without sockets and without timers: for simulations, which ask
 * it directly and move its clock, and for the server, which puts sockets around it (server.ts). Every request finds the
 * worlds as they are by then, since they catch up before it is answered.
 */
import { Activity } from './activity.ts';
import { type GenerateBooksOptions, generateBooks } from './books/generate.ts';
import { BooksService, type BooksServiceOptions } from './books/service.ts';
import type { BooksWorld } from './books/world.ts';
import { beginningAt } from './clock.ts';
import { type GenerateOptions, generateWorld } from './helpdesk/generate.ts';
import { Service, type ServiceOptions } from './helpdesk/service.ts';
import type { World } from './helpdesk/world.ts';
import type { Asked, Reply } from './request-reply.ts';
import type { Rhythm } from './rhythm.ts';
import { Rules } from './rules.ts';

export interface ServicesOptions extends ServiceOptions, Omit<GenerateOptions, 'now'> {
  /** Default 1. The same seed with the same `begin` gives the same worlds, and the same activity. */
  seed?: number;
  /** When the clock of both services begins, in milliseconds; it runs on as `now` does. Default: at `now`. Not of a `world` of your own. */
  begin?: number;
  /** A world of your own instead of a generated one; its clock is the clock of all. */
  world?: World;
  /** Changes a minute of the help desk; default 0. */
  activity?: number;
  /** Whether activity has busy and quiet hours, in both worlds; default 'even'. */
  rhythm?: Rhythm;
  /** The book catalog beside it. */
  books?: BooksOptions;
  /** The clock in milliseconds, for everything; default the machine's. */
  now?: () => number;
  /** What goes wrong on purpose, in both services unless the catalog has its own; default nothing, until a rule is added. */
  rules?: Rules;
}

export interface BooksOptions extends BooksServiceOptions, Omit<GenerateBooksOptions, 'now'> {
  /** A world of your own instead of a generated one; its clock is its own. */
  world?: BooksWorld;
  /** Changes a minute; default a tenth of the help desk's. */
  activity?: number;
}

export interface Services {
  helpdesk: Service;
  books: BooksService;
  rules: Rules;
  /** Lets both worlds catch up, and gives the request to the service that its path belongs to. */
  handle(asked: Asked): Reply;
  /** Lets happen what is due by now; to be called before looking at a world, or setting its clock. */
  catchUp(): void;
  /** The same in slices, after each of which others may have their turn. */
  catchingUp(): Generator<void, void>;
}

export function openServices(options: ServicesOptions = {}): Services {
  const { seed = 1, activity = 0, rhythm, books: bookish = {}, rules = new Rules() } = options;
  const clock = options.begin === undefined ? undefined : beginningAt(options.begin, options.now);
  const world = options.world ?? generateWorld({ ...options, ...(clock && { now: clock.now }) });
  const helpdesk = new Service(world, { ...options, rules });
  const booksWorld = bookish.world ?? generateBooks({ seed, ...bookish, now: world.clock.steady });
  clock?.start();
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
