/**
 * Generates a catalog from a seed: some hundred volumes and five users with years of shelves. The first few dozen volumes
 * cover all known oddities. The user `me` has a shelf of several pages; one user has only private shelves.
 */
import { between, makeRng, pick, type Rng } from '../../random.ts';
import { FIXED_SHELVES, instant, LAST_RESERVED_ID, type WorldShelf } from '../records.ts';
import { BooksWorld, type BooksWorldOptions } from '../world.ts';
import { makeVolume, ODDITIES, sellAhead, spoilText } from './content.ts';
import { shelfName } from './text.ts';

export interface GenerateBooksOptions extends BooksWorldOptions {
  /** Default 300. */
  volumes?: number;
  /** Share of volumes with text that databases refuse (NUL, lone surrogates); default 0. */
  naughty?: number;
  /** Share of volumes on pre-order; default 0. */
  preorders?: number;
}

const DAY = 86_400_000;
const HISTORY = 6 * 365 * DAY;

/** Ids of the other users. Some exceed 2^53 as numbers: ids are text. */
const OTHERS = ['118446744073709551615', '100000000000000000001', '2718281828459045', '42'];
/** The user with private shelves only. */
const RECLUSE = OTHERS[3]!;

/** Share of all volumes on each fixed shelf; absent shelves are empty. */
const SHARES: Partial<Record<(typeof FIXED_SHELVES)[number], number>> = {
  Favorites: 0.06,
  Purchased: 0.1,
  'To read': 0.15,
  'Reading now': 0.01,
  'Have read': 0.4,
  'Recently viewed': 0.08,
  'My eBooks': 0.12,
};

export function generateBooks(options: GenerateBooksOptions): BooksWorld {
  const world = new BooksWorld(options);
  // The offset gives other random numbers than the help desk's for the same seed.
  const rng = makeRng(world.seed + 0x600d);
  addVolumes(world, rng, options);
  for (const user of OTHERS) if (user !== world.me) world.addUser(user);
  for (const user of world.users.keys()) furnish(world, rng, user);
  return world;
}

function addVolumes(world: BooksWorld, rng: Rng, options: GenerateBooksOptions): void {
  const { volumes = 300, naughty = 0, preorders = 0 } = options;
  for (let n = 0; n < volumes; n++) {
    const volume = makeVolume(world.newId(), rng);
    ODDITIES[n]?.(volume);
    if (rng() < naughty) spoilText(rng, volume);
    // Draws only if needed: without pre-orders a seed must give the same world as ever.
    if (preorders > 0 && rng() < preorders) sellAhead(rng, volume, world.clock.now());
    world.addVolume(volume);
  }
}

function furnish(world: BooksWorld, rng: Rng, user: string): void {
  const own = user === world.me ? 3 : between(rng, 0, 2);
  for (let left = own; left > 0; left--) {
    const described = rng() < 0.5 ? { description: `Since ${between(rng, 2008, 2023)}.` } : {};
    world.createShelf(user, { title: shelfName(rng), ...described });
  }
  for (const shelf of world.user(user).shelves.values()) {
    shelf.access = user === RECLUSE || rng() < 0.3 ? 'PRIVATE' : 'PUBLIC';
    fill(world, rng, shelf, user === world.me);
    date(world, rng, shelf);
  }
}

/** The first custom shelf of `me` is the longest: 80% of the catalog. */
function fill(world: BooksWorld, rng: Rng, shelf: WorldShelf, mine: boolean): void {
  const fixed = FIXED_SHELVES[shelf.id];
  const share = fixed ? (SHARES[fixed] ?? 0) : mine && shelf.id === LAST_RESERVED_ID + 1 ? 0.8 : 0.03;
  const chosen = [...world.volumes.keys()].filter(() => rng() < share);
  shelf.volumes = chosen
    .map(id => [rng(), id] as const)
    .sort(([a], [b]) => a - b)
    .map(([, id]) => id);
}

function date(world: BooksWorld, rng: Rng, shelf: WorldShelf): void {
  const created = Math.floor(world.clock.now() - DAY - rng() * HISTORY);
  const filled = created + Math.floor(rng() * (world.clock.now() - DAY - created));
  shelf.created = instant(created);
  shelf.volumesLastUpdated = instant(shelf.volumes.length === 0 ? created : filled);
  shelf.updated = pick(rng, [shelf.volumesLastUpdated, instant(filled + Math.floor(rng() * DAY))]);
}
