/** The twelve operations: a table with one entry for each, and a function from a call to an answer. */

import { Refusal, whole } from '../query.ts';
import type { Rng } from '../random.ts';
import { between } from '../random.ts';
import type { Settled } from '../switches.ts';
import { BooksError, missing, unknownShelf, unknownVolume } from './errors.ts';
import type { BooksUser, WorldShelf, WorldVolume } from './records.ts';
import { matcher } from './search.ts';
import { type Look, showShelf, showVolume } from './show.ts';
import type { BooksWorld } from './world.ts';

/** What nobody knows of the service. */
export interface BooksReadings extends Settled<'books'> {
  /** Ids of volumes that cannot be had (503 backendFailed), as those that do not exist; default none. */
  failing: ReadonlySet<string>;
}

export interface BooksCall {
  world: BooksWorld;
  readings: BooksReadings;
  query: URLSearchParams;
  /** What stands in the place of `:user`, `:shelf` and `:volume` in the path. */
  names: Record<string, string>;
  base: string;
  token: () => string;
  rng: Rng;
}

export interface BooksAnswer {
  status: number;
  body?: unknown;
}

interface BooksRoute {
  method: string;
  path: string;
  /** Whether it acts for the user whose token it is. */
  mine?: true;
  answer(call: BooksCall): BooksAnswer;
}

const MINE = '/mylibrary/bookshelves';
const mine = (method: string, path: string, answer: BooksRoute['answer']): BooksRoute => ({
  method,
  path: MINE + path,
  mine: true,
  answer,
});

export const BOOKS_ROUTES: readonly BooksRoute[] = [
  { method: 'GET', path: '/users/:user/bookshelves', answer: listShelves },
  { method: 'GET', path: '/users/:user/bookshelves/:shelf', answer: oneShelf },
  { method: 'GET', path: '/users/:user/bookshelves/:shelf/volumes', answer: listShelfVolumes },
  { method: 'GET', path: '/volumes/:volume', answer: oneVolume },
  { method: 'GET', path: '/volumes', answer: search },
  mine('GET', '', listShelves),
  mine('GET', '/:shelf', oneShelf),
  mine('GET', '/:shelf/volumes', listShelfVolumes),
  mine('POST', '/:shelf/addVolume', addVolume),
  mine('POST', '/:shelf/removeVolume', removeVolume),
  mine('POST', '/:shelf/moveVolume', moveVolume),
  mine('POST', '/:shelf/clearVolumes', clearVolumes),
];

// --- shelves ------------------------------------------------------------------------------------------------------------

/** The user of the path, or the one who asks. */
function userOf({ world, names, readings }: BooksCall): BooksUser {
  if (names.user === undefined) return world.user(world.me);
  const user = world.users.get(names.user);
  if (user) return user;
  const reason = readings.unknownUser === 400 ? 'invalidUser' : 'notFound';
  throw new BooksError(readings.unknownUser, reason, `Invalid user: ${names.user}`);
}

/** Others see public shelves alone. */
const isSeen = ({ names }: BooksCall, { access }: WorldShelf) => names.user === undefined || access === 'PUBLIC';

/** A private shelf of somebody else's is answered as one that is not there: else one could learn which there are. */
function shelfOf(call: BooksCall): WorldShelf {
  const id = call.names.shelf!;
  const { shelves } = userOf(call);
  const shelf = /^\d{1,15}$/.test(id) ? shelves.get(Number(id)) : undefined;
  if (shelf === undefined || !isSeen(call, shelf)) throw unknownShelf(id);
  return shelf;
}

function linkTo({ base, names }: BooksCall, { id }: WorldShelf): string {
  return names.user === undefined ? `${base}${MINE}/${id}` : `${base}/users/${names.user}/bookshelves/${id}`;
}

/** All of them at once, unless a page is asked for. */
function listShelves(call: BooksCall): BooksAnswer {
  const seen = [...userOf(call).shelves.values()].filter(shelf => isSeen(call, shelf));
  const paged = call.query.has('startIndex') || call.query.has('maxResults');
  const { start, count } = paged ? pageOf(call.query) : { start: 0, count: seen.length };
  const items = seen.slice(start, start + count);
  const shown = items.map(shelf => showShelf(shelf, linkTo(call, shelf), call.readings.shelfDates));
  const total = call.readings.totalItems === 'missing' ? {} : { totalItems: seen.length };
  return { status: 200, body: { kind: 'books#bookshelves', ...total, ...itemsOf(shown) } };
}

function oneShelf(call: BooksCall): BooksAnswer {
  const shelf = shelfOf(call);
  return { status: 200, body: showShelf(shelf, linkTo(call, shelf), true) };
}

// --- volumes ------------------------------------------------------------------------------------------------------------

function listShelfVolumes(call: BooksCall): BooksAnswer {
  const volumes = shelfOf(call).volumes.map(id => call.world.volume(id));
  const q = lastOf(call.query, 'q');
  return page(call, q ? volumes.filter(matcher(q)) : volumes);
}

function search(call: BooksCall): BooksAnswer {
  const q = lastOf(call.query, 'q')?.trim();
  if (!q) throw missing('q');
  return page(call, [...call.world.volumes.values()].filter(matcher(q)));
}

function oneVolume(call: BooksCall): BooksAnswer {
  const look = lookOf(call, 'single');
  return { status: 200, body: showVolume(volumeOf(call, call.names.volume!), look) };
}

function volumeOf({ world, readings }: BooksCall, id: string): WorldVolume {
  const volume = world.volumes.get(id);
  if (volume === undefined || readings.failing.has(id)) throw unknownVolume();
  return volume;
}

function lookOf({ query, base, token, readings }: BooksCall, place: Look['place']): Look {
  const projection = lastOf(query, 'projection') ?? 'full';
  if (projection !== 'full' && projection !== 'lite')
    throw new Refusal(400, `Invalid value for projection: ${projection}`);
  const country = lastOf(query, 'country');
  if (!country && readings.countryNeeded) {
    const message = 'Cannot determine user location for geographically restricted operation.';
    throw new BooksError(403, 'unknownLocation', message);
  }
  return { base, place, lite: projection === 'lite', country: country || 'US', token };
}

function page(call: BooksCall, volumes: WorldVolume[]): BooksAnswer {
  const look = lookOf(call, 'list');
  const { start, count } = pageOf(call.query);
  const items = volumes.slice(start, start + count).map(volume => showVolume(volume, look));
  const total = totalOf(call, volumes.length, start + items.length);
  return { status: 200, body: { kind: 'books#volumes', ...total, ...itemsOf(items) } };
}

function pageOf(query: URLSearchParams): { start: number; count: number } {
  return { start: whole(query, 'startIndex', 0, 2 ** 31 - 1, 0), count: whole(query, 'maxResults', 0, 40, 10) };
}

/** Missing, not empty, where there is none. */
const itemsOf = (items: object[]) => (items.length === 0 ? {} : { items });

/** Wandering: a few more or fewer than there are, and now and then no more than what was shown up to here. */
function totalOf({ readings, rng }: BooksCall, total: number, shown: number): { totalItems?: number } {
  if (readings.totalItems === 'missing') return {};
  if (readings.totalItems === 'true' || total === 0) return { totalItems: total };
  if (rng() < 0.15) return { totalItems: shown };
  const most = Math.ceil(total * 0.06) + 2;
  return { totalItems: Math.max(0, total + between(rng, -most, most)) };
}

// --- what changes a shelf ---------------------------------------------------------------------------------------------

const done = ({ readings }: BooksCall): BooksAnswer =>
  readings.posts === 204 ? { status: 204 } : { status: 200, body: {} };

function addVolume(call: BooksCall): BooksAnswer {
  const shelf = shelfOf(call);
  call.world.add(call.world.me, shelf.id, volumeOf(call, needed(call.query, 'volumeId')).id);
  return done(call);
}

function removeVolume(call: BooksCall): BooksAnswer {
  const shelf = shelfOf(call);
  call.world.remove(call.world.me, shelf.id, heldBy(shelf, needed(call.query, 'volumeId')));
  return done(call);
}

function moveVolume(call: BooksCall): BooksAnswer {
  const shelf = shelfOf(call);
  const id = heldBy(shelf, needed(call.query, 'volumeId'));
  needed(call.query, 'volumePosition');
  call.world.move(call.world.me, shelf.id, id, whole(call.query, 'volumePosition', 0, 2 ** 31 - 1, 0));
  return done(call);
}

function clearVolumes(call: BooksCall): BooksAnswer {
  call.world.clear(call.world.me, shelfOf(call).id);
  return done(call);
}

function heldBy(shelf: WorldShelf, volumeId: string): string {
  if (shelf.volumes.includes(volumeId)) return volumeId;
  throw new BooksError(404, 'notFound', `The volume ${volumeId} is not on the bookshelf ${shelf.id}.`);
}

function lastOf(query: URLSearchParams, name: string): string | undefined {
  return query.getAll(name).at(-1);
}

function needed(query: URLSearchParams, name: string): string {
  const value = lastOf(query, name);
  if (!value) throw missing(name);
  return value;
}
