/** The twelve operations of the catalog, one route each. */

import type { Rng } from '../random.ts';
import { between } from '../random.ts';
import type { Settled } from '../switches.ts';
import { BooksError, unauthorized, unknownShelf, unknownVolume } from './errors.ts';
import { BOOKSHELF, BOOKSHELVES, type Known, VOLUME, VOLUMES } from './fields.ts';
import { countryOf, lastOf, needed, oneOf, wholeNumber, yesOrNo } from './parameters.ts';
import { type BooksUser, instant, KEPT_SHELVES, PURCHASED, type WorldShelf, type WorldVolume } from './records.ts';
import { type Look, showShelf, showVolume } from './rendering.ts';
import { found, newestFirst } from './search/search.ts';
import { NARROWING, narrowing, preorders } from './search/search-filters.ts';
import type { CatalogView } from './stale-copy.ts';
import type { BooksWorld } from './world.ts';

/** Values of the catalog's switches. */
export interface BooksReadings extends Settled<'books'> {
  /** Ids of volumes that answer 503 backendFailed, as unknown ids do; default none. */
  failing: ReadonlySet<string>;
}

interface BooksCall {
  world: BooksWorld;
  /** Data for reads: the world, or a stale copy of it. */
  shown: CatalogView;
  readings: BooksReadings;
  query: URLSearchParams;
  /** Values of `:user`, `:shelf` and `:volume` in the path. */
  names: Record<string, string>;
  base: string;
  /** Whether the caller has a token. */
  known: boolean;
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
  /** Whether the operation acts for the user of the token. */
  mine?: true;
  /** Parameters besides those of all operations. */
  takes: readonly string[];
  /** Fields of its answers, for the check of `fields`. */
  shows: Known;
  answer(call: BooksCall): BooksAnswer;
}

const MINE = '/mylibrary/bookshelves';
const PAGE = ['startIndex', 'maxResults'];
const LOOK = ['projection', 'country'];
const ON_SHELF = [...PAGE, ...LOOK, 'q', 'showPreorders'];
const NOTHING: Known = new Map();

type Way = Omit<BooksRoute, 'method' | 'path' | 'mine'>;

const LIST_SHELVES: Way = { takes: PAGE, shows: BOOKSHELVES, answer: listShelves };
const GET_SHELF: Way = { takes: [], shows: BOOKSHELF, answer: oneShelf };
const LIST_VOLUMES: Way = { takes: ON_SHELF, shows: VOLUMES, answer: listShelfVolumes };
const get = (path: string, way: Way): BooksRoute => ({ method: 'GET', path, ...way });
const post = (path: string, takes: readonly string[], answer: Way['answer']): BooksRoute => ({
  method: 'POST',
  path: `${MINE}/:shelf/${path}`,
  mine: true,
  takes,
  shows: NOTHING,
  answer,
});

export const BOOKS_ROUTES: readonly BooksRoute[] = [
  get('/users/:user/bookshelves', LIST_SHELVES),
  get('/users/:user/bookshelves/:shelf', GET_SHELF),
  get('/users/:user/bookshelves/:shelf/volumes', LIST_VOLUMES),
  get('/volumes/:volume', {
    takes: [...LOOK, 'partner', 'includeNonComicsSeries', 'user_library_consistent_read'],
    shows: VOLUME,
    answer: oneVolume,
  }),
  get('/volumes', {
    takes: [...PAGE, ...LOOK, ...NARROWING, 'q', 'orderBy', 'libraryRestrict', 'partner'],
    shows: VOLUMES,
    answer: search,
  }),
  { ...get(MINE, LIST_SHELVES), mine: true },
  { ...get(`${MINE}/:shelf`, GET_SHELF), mine: true },
  { ...get(`${MINE}/:shelf/volumes`, LIST_VOLUMES), mine: true },
  post('addVolume', ['volumeId', 'reason'], addVolume),
  post('removeVolume', ['volumeId', 'reason'], removeVolume),
  post('moveVolume', ['volumeId', 'volumePosition'], moveVolume),
  post('clearVolumes', [], clearVolumes),
];

// --- shelves ------------------------------------------------------------------------------------------------------------

/** The user in the path, or `me`. */
function userOf({ shown, names, readings }: BooksCall): BooksUser {
  if (names.user === undefined) return shown.user(shown.me);
  const user = shown.users.get(names.user);
  if (user) return user;
  const reason = readings.unknownUser === 400 ? 'invalidUser' : 'notFound';
  throw new BooksError(readings.unknownUser, reason, `Invalid user: ${names.user}`);
}

/** Other users see public shelves only. */
const isSeen = ({ names }: BooksCall, { access }: WorldShelf) => names.user === undefined || access === 'PUBLIC';

/** Another user's private shelf answers as a missing one, so that its existence stays hidden. */
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

/** All shelves, unless the request has paging parameters. */
function listShelves(call: BooksCall): BooksAnswer {
  const seen = [...userOf(call).shelves.values()].filter(shelf => isSeen(call, shelf));
  const paged = call.query.has('startIndex') || call.query.has('maxResults');
  const { start, count } = paged ? pageOf(call) : { start: 0, count: seen.length };
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
  const wanted = preorders(call.query);
  const q = lastOf(call.query, 'q')?.trim();
  const { shown } = call;
  const ids = shelfOf(call).volumes;
  if (!q && !(wanted && shown.sellsAhead)) return page(call, ids, id => shown.volume(id));
  const all = ids.map(id => shown.volume(id));
  const volumes = wanted ? all.filter(wanted) : all;
  return page(call, q ? found(volumes, q) : volumes, itself);
}

/** Pages beyond the search depth are empty, whatever `totalItems` says. */
function search(call: BooksCall): BooksAnswer {
  const { shown, query, readings } = call;
  const q = needed(query, 'q');
  const newest = oneOf(query, 'orderBy', ['relevance', 'newest']) === 'newest';
  const wanted = narrowing(query);
  const all = found(mine(call) ?? shown.volumes.values(), q).filter(wanted);
  const ordered = newest ? newestFirst(all) : all;
  return page(call, ordered.slice(0, readings.searchDepth), itself, all.length);
}

/** With `libraryRestrict`: volumes on any shelf of `me`, without duplicates. */
function mine({ shown, query, known }: BooksCall): WorldVolume[] | undefined {
  if (oneOf(query, 'libraryRestrict', ['my-library', 'no-restrict']) !== 'my-library') return undefined;
  if (!known) throw unauthorized('required', 'Login Required.');
  const ids = [...shown.user(shown.me).shelves.values()].flatMap(({ volumes }) => volumes);
  return [...new Set(ids)].map(id => shown.volume(id));
}

function oneVolume(call: BooksCall): BooksAnswer {
  for (const name of ['includeNonComicsSeries', 'user_library_consistent_read']) yesOrNo(call.query, name);
  const look = lookOf(call, 'single');
  return { status: 200, body: showVolume(volumeOf(call, call.names.volume!), look) };
}

function volumeOf({ shown, readings }: BooksCall, id: string): WorldVolume {
  const volume = shown.volumes.get(id);
  if (volume === undefined || readings.failing.has(id)) throw unknownVolume();
  return volume;
}

function lookOf(call: BooksCall, place: Look['place']): Look {
  const { query, base, token, readings } = call;
  const lite = oneOf(query, 'projection', ['full', 'lite']) === 'lite';
  const country = countryOf(query);
  if (!country && readings.countryNeeded) {
    const message = 'Cannot determine user location for geographically restricted operation.';
    throw new BooksError(403, 'unknownLocation', message);
  }
  return { base, place, lite, country: country ?? 'US', token, about: aboutMe(call) };
}

/**
 * `userInfo` of volumes on shelves of `me`, the same on every shelf. The specification does not say whether the service shows
 * it. With `varies`, replies differ without a change.
 */
function aboutMe({ shown, names, readings }: BooksCall): Look['about'] {
  const own = names.user === undefined && names.shelf !== undefined;
  if (!own || readings.userInfo === 'none') return undefined;
  const { shelves } = shown.user(shown.me);
  const updated = readings.userInfo === 'varies' ? instant(shown.clock.now()) : shelves.get(0)!.created;
  const bought = shelves.get(PURCHASED)?.volumes ?? [];
  return ({ id }) => ({ isPurchased: bought.includes(id), isPreordered: false, isInMyBooks: true, updated });
}

const itself = (volume: WorldVolume) => volume;

/** `all`: items to page through; `volumeOf` looks up those of the page only. `total`: number of items. */
function page<T>(
  call: BooksCall,
  all: readonly T[],
  volumeOf: (one: T) => WorldVolume,
  total = all.length,
): BooksAnswer {
  const look = lookOf(call, 'list');
  const { start, count } = pageOf(call);
  const items = all.slice(start, start + count).map(one => showVolume(volumeOf(one), look));
  return {
    status: 200,
    body: { kind: 'books#volumes', ...totalOf(call, total, start + items.length), ...itemsOf(items) },
  };
}

function pageOf({ query, readings }: BooksCall): { start: number; count: number } {
  const start = wholeNumber(query, 'startIndex', 0, 2 ** 31 - 1, 0);
  return { start, count: Math.min(wholeNumber(query, 'maxResults', 0, 40, 10), readings.pageCap) };
}

/** `items` is absent, not empty, without items. */
const itemsOf = (items: object[]) => (items.length === 0 ? {} : { items });

/** `totalItems`. With `wanders`: near the true number, and sometimes only the number shown so far. */
function totalOf({ readings, rng }: BooksCall, total: number, shown: number): { totalItems?: number } {
  if (readings.totalItems === 'missing') return {};
  if (readings.totalItems === 'true' || total === 0) return { totalItems: total };
  if (rng() < 0.15) return { totalItems: shown };
  const most = Math.ceil(total * 0.06) + 2;
  return { totalItems: Math.max(0, total + between(rng, -most, most)) };
}

// --- changes of a shelf ---------------------------------------------------------------------------------------------

const done = ({ readings }: BooksCall): BooksAnswer =>
  readings.posts === 204 ? { status: 204 } : { status: 200, body: {} };

/** Adds in front. A volume already on the shelf stays, or moves to the front (`addedAgain`). */
function addVolume(call: BooksCall): BooksAnswer {
  const shelf = openShelf(call);
  const { world, query, readings } = call;
  const { id } = volumeOf(call, needed(query, 'volumeId'));
  oneOf(query, 'reason', ['IOS_PREX', 'IOS_SEARCH', 'ONBOARDING']);
  if (readings.addedAgain === 'moves' && shelf.volumes.includes(id)) world.move(world.me, shelf.id, id, 0);
  else world.add(world.me, shelf.id, id);
  return done(call);
}

function removeVolume(call: BooksCall): BooksAnswer {
  const shelf = openShelf(call);
  const id = needed(call.query, 'volumeId');
  oneOf(call.query, 'reason', ['ONBOARDING']);
  if (isHeld(call, shelf, id)) call.world.remove(call.world.me, shelf.id, id);
  return done(call);
}

function moveVolume(call: BooksCall): BooksAnswer {
  const shelf = openShelf(call);
  const id = needed(call.query, 'volumeId');
  needed(call.query, 'volumePosition');
  const position = wholeNumber(call.query, 'volumePosition', 0, 2 ** 31 - 1, 0);
  if (isHeld(call, shelf, id)) call.world.move(call.world.me, shelf.id, id, position);
  return done(call);
}

function clearVolumes(call: BooksCall): BooksAnswer {
  call.world.clear(call.world.me, openShelf(call).id);
  return done(call);
}

/** The shelf, unless it is a fixed one that refuses changes. */
function openShelf(call: BooksCall): WorldShelf {
  const shelf = shelfOf(call);
  if (!call.readings.fixedShelvesLocked || !KEPT_SHELVES.includes(shelf.id)) return shelf;
  throw new BooksError(
    403,
    'forbidden',
    `The service maintains the bookshelf ${shelf.id} (${shelf.title}); it refuses changes.`,
  );
}

/** Whether the shelf has the volume; otherwise 404, or false if such requests count as done (a client's retry). */
function isHeld({ readings }: BooksCall, shelf: WorldShelf, volumeId: string): boolean {
  if (shelf.volumes.includes(volumeId)) return true;
  if (readings.absentVolume === 'done') return false;
  throw new BooksError(404, 'notFound', `The volume ${volumeId} is not on the bookshelf ${shelf.id}.`);
}
