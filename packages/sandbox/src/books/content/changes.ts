/**
 * Random changes of a catalog: a table of kinds with their weights. A change without a suitable record becomes a new volume
 * on the first shelf of `me`.
 */
import type { Change } from '../../activity.ts';
import { between, pick, type Rng, weighted } from '../../random.ts';
import { LAST_RESERVED_ID, type WorldShelf } from '../records.ts';
import type { BooksWorld } from '../world.ts';
import { makeVolume } from './content.ts';
import { shelfName } from './text.ts';

/** Returns the id of the changed volume or shelf; undefined without a suitable one. */
type Happening = (world: BooksWorld, rng: Rng) => string | undefined;

interface Place {
  user: string;
  shelf: WorldShelf;
}

const HAPPENINGS: readonly (readonly [kind: string, weight: number, happen: Happening])[] = [
  ['added in front', 6, (world, rng) => add(world, rng, () => 0)],
  ['added at the end', 4, (world, rng) => add(world, rng, length => length)],
  ['added in the middle', 2, (world, rng) => add(world, rng, length => length >> 1)],
  ['moved', 5, move],
  ['removed', 8, remove],
  ['cleared', 0.2, clear],
  ['text of a volume', 6, changeText],
  ['rating of a volume', 3, rate],
  ['new volume', 2, addNew],
  ['volume withdrawn', 0.3, withdraw],
  ['shelf renamed', 1, (world, rng) => changeShelf(world, rng, () => ({ title: shelfName(rng) }))],
  ['access changed', 1, (world, rng) => changeShelf(world, rng, ({ access }) => ({ access: other(access) }))],
  ['shelf created', 0.7, createShelf],
  ['shelf deleted', 0.4, deleteShelf],
];
const KINDS = HAPPENINGS.map(happening => [happening, happening[1]] as const);

/** `without`: kinds to leave out, for tests that need stable records. */
export function mutate(world: BooksWorld, rng: Rng, without: readonly string[] = []): Change {
  const [kind, , happen] = weighted(
    rng,
    KINDS.filter(([[name]]) => !without.includes(name)),
  );
  const id = happen(world, rng);
  return id === undefined ? { kind: 'new volume', id: addNew(world, rng) } : { kind, id };
}

// --- volumes on shelves -----------------------------------------------------------------------------------------------

/** A random shelf that fits; half of the time one of `me`. */
function somePlace(world: BooksWorld, rng: Rng, fits: (shelf: WorldShelf) => boolean = () => true): Place | undefined {
  const user = rng() < 0.5 ? world.me : pick(rng, [...world.users.keys()]);
  const shelves = [...world.user(user).shelves.values()].filter(fits);
  return shelves.length === 0 ? undefined : { user, shelf: pick(rng, shelves) };
}

function add(world: BooksWorld, rng: Rng, where: (length: number) => number): string | undefined {
  const place = somePlace(world, rng);
  const held = new Set(place?.shelf.volumes);
  const absent = [...world.volumes.keys()].filter(id => !held.has(id));
  if (!place || absent.length === 0) return undefined;
  const id = pick(rng, absent);
  world.add(place.user, place.shelf.id, id, where(place.shelf.volumes.length));
  return id;
}

function move(world: BooksWorld, rng: Rng): string | undefined {
  const place = somePlace(world, rng, ({ volumes }) => volumes.length > 1);
  if (!place) return undefined;
  const id = pick(rng, place.shelf.volumes);
  world.move(place.user, place.shelf.id, id, between(rng, 0, place.shelf.volumes.length - 1));
  return id;
}

function remove(world: BooksWorld, rng: Rng): string | undefined {
  const place = somePlace(world, rng, ({ volumes }) => volumes.length > 0);
  if (!place) return undefined;
  const id = pick(rng, place.shelf.volumes);
  world.remove(place.user, place.shelf.id, id);
  return id;
}

/** Clears small shelves only, so that a long-running world does not run empty. */
function clear(world: BooksWorld, rng: Rng): string | undefined {
  const place = somePlace(world, rng, ({ volumes }) => volumes.length > 0 && volumes.length < 10);
  if (!place) return undefined;
  world.clear(place.user, place.shelf.id);
  return String(place.shelf.id);
}

// --- volumes ----------------------------------------------------------------------------------------------------------

function someVolume(world: BooksWorld, rng: Rng): string | undefined {
  return world.volumes.size === 0 ? undefined : pick(rng, [...world.volumes.keys()]);
}

function changeText(world: BooksWorld, rng: Rng): string | undefined {
  const id = someVolume(world, rng);
  if (id === undefined) return undefined;
  const { description, subtitle } = makeVolume(world.newId(), rng).info;
  world.changeVolume(id, rng() < 0.7 ? { description } : { subtitle });
  return id;
}

function rate(world: BooksWorld, rng: Rng): string | undefined {
  const id = someVolume(world, rng);
  if (id === undefined) return undefined;
  const ratingsCount = (world.volume(id).info.ratingsCount ?? 0) + 1;
  world.changeVolume(id, { ratingsCount, averageRating: between(rng, 2, 10) / 2 });
  return id;
}

function addNew(world: BooksWorld, rng: Rng): string {
  const { id } = world.addVolume(makeVolume(world.newId(), rng));
  world.add(world.me, 0, id);
  return id;
}

function withdraw(world: BooksWorld, rng: Rng): string | undefined {
  const id = someVolume(world, rng);
  if (id !== undefined) world.deleteVolume(id);
  return id;
}

// --- shelves ----------------------------------------------------------------------------------------------------------

const isOwn = ({ id }: WorldShelf) => id > LAST_RESERVED_ID;
const other = (access: WorldShelf['access']) => (access === 'PUBLIC' ? 'PRIVATE' : 'PUBLIC');

function changeShelf(
  world: BooksWorld,
  rng: Rng,
  patch: (shelf: WorldShelf) => { title: string } | { access: WorldShelf['access'] },
): string | undefined {
  const place = somePlace(world, rng, isOwn);
  if (place) world.changeShelf(place.user, place.shelf.id, patch(place.shelf));
  return place && String(place.shelf.id);
}

function createShelf(world: BooksWorld, rng: Rng): string {
  const user = pick(rng, [...world.users.keys()]);
  const access = rng() < 0.5 ? 'PUBLIC' : 'PRIVATE';
  return String(world.createShelf(user, { title: shelfName(rng), access }).id);
}

function deleteShelf(world: BooksWorld, rng: Rng): string | undefined {
  const place = somePlace(world, rng, isOwn);
  if (place) world.deleteShelf(place.user, place.shelf.id);
  return place && String(place.shelf.id);
}
