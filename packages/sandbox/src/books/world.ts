/**
 * The book catalog itself, without HTTP: volumes, users, and who has which volumes on which shelf in which order. What
 * puts a volume on a shelf or takes it off moves the shelf's `volumesLastUpdated` and `updated`; what changes a volume
 * moves nothing. Read the maps freely; change shelves through the operations only, or their times will not tell of it.
 */
import type { Change } from '../activity.ts';
import { Clock } from '../clock.ts';
import { type Rng, urlId } from '../random.ts';
import { settled } from '../switches.ts';
import { mutate } from './changes.ts';
import {
  type Access,
  type BooksUser,
  FIXED_SHELVES,
  instant,
  LAST_RESERVED_ID,
  type VolumeInfo,
  type WorldShelf,
  type WorldVolume,
} from './records.ts';
import { BooksBeforeImages } from './stale-copy.ts';

export interface BooksWorldOptions {
  /** Names the ids; default 1. */
  seed?: number;
  /** The world's clock in milliseconds. */
  now: () => number;
  /** Who asks for "my library"; default '1122334455667788'. */
  me?: string;
  /** As in switches.ts. */
  moveShows?: boolean;
}

type NewShelf = Partial<Omit<WorldShelf, 'volumes'>> & { volumes?: readonly string[] };
export type NewVolume = Partial<Omit<WorldVolume, 'info'>> & { info?: Partial<VolumeInfo> };
type ShelfPatch = { title?: string; description?: string | undefined; access?: Access };
/** A field that is undefined goes away. */
type VolumePatch = { [field in keyof VolumeInfo]?: VolumeInfo[field] | undefined };

export class BooksWorld {
  readonly volumes = new Map<string, WorldVolume>();
  readonly users = new Map<string, BooksUser>();
  readonly me: string;
  readonly seed: number;
  readonly clock: Clock;
  /** What shelves and volumes were, once somebody wants to read from a copy that is behind. */
  readonly past: BooksBeforeImages;
  /** Whether any volume ever was one that can only be ordered in advance: those are not shown to everybody. */
  sellsAhead = false;
  readonly #moveShows: boolean;
  #ids = 0;

  /** Holds nobody but the one who asks, whose shelves are empty. */
  constructor(options: BooksWorldOptions) {
    this.seed = options.seed ?? 1;
    this.clock = new Clock(options.now);
    this.past = new BooksBeforeImages(this.clock.steady);
    this.me = options.me ?? '1122334455667788';
    this.#moveShows = settled('books', options).moveShows;
    this.addUser(this.me);
  }

  /** With the fixed shelves, which are public and empty. */
  addUser(id: string, created: number | string = this.clock.now()): BooksUser {
    if (this.users.has(id)) throw new Error(`There is a user ${id} already`);
    const user: BooksUser = { id, shelves: new Map() };
    this.users.set(id, user);
    for (const [shelf, title] of FIXED_SHELVES.entries()) {
      this.createShelf(id, { id: shelf, title, created: instant(created), access: 'PUBLIC' });
    }
    return user;
  }

  // --- volumes --------------------------------------------------------------------------------------------------------

  newId(): string {
    return urlId(this.seed, this.#ids++);
  }

  addVolume(volume: NewVolume = {}): WorldVolume {
    const made: WorldVolume = {
      id: volume.id ?? this.newId(),
      info: { title: 'A book', ...volume.info },
      ...(volume.saleInfo && { saleInfo: volume.saleInfo }),
      accessInfo: volume.accessInfo ?? {
        viewability: 'NO_PAGES',
        embeddable: false,
        publicDomain: false,
        textToSpeechPermission: 'ALLOWED',
        epub: { isAvailable: false },
        pdf: { isAvailable: false },
      },
      cover: volume.cover ?? false,
    };
    if (this.volumes.has(made.id)) throw new Error(`There is a volume ${made.id} already`);
    this.past.volumes.note(made.id);
    this.volumes.set(made.id, made);
    this.sellsAhead ||= made.saleInfo?.saleability === 'FOR_PREORDER';
    return made;
  }

  /** Nothing announces it: no shelf moves. */
  changeVolume(id: string, patch: VolumePatch): WorldVolume {
    const volume = this.volume(id);
    this.past.volumes.note(id, volume);
    const info = Object.entries({ ...volume.info, ...patch }).filter(([, value]) => value !== undefined);
    volume.info = Object.fromEntries(info) as unknown as VolumeInfo;
    return volume;
  }

  /** Gone from the catalog and from every shelf. */
  deleteVolume(id: string): void {
    this.volume(id);
    for (const user of this.users.values()) {
      for (const shelf of user.shelves.values()) if (shelf.volumes.includes(id)) this.remove(user.id, shelf.id, id);
    }
    this.past.volumes.note(id, this.volume(id));
    this.volumes.delete(id);
  }

  // --- what stands on a shelf -----------------------------------------------------------------------------------------

  /** In front unless a position is given. A volume stands on a shelf once: one that is there stays where it is. */
  add(userId: string, shelfId: number, volumeId: string, position = 0): WorldShelf {
    const shelf = this.shelf(userId, shelfId);
    this.volume(volumeId);
    if (shelf.volumes.includes(volumeId)) return shelf;
    this.#aboutToChange(userId, shelfId);
    shelf.volumes.splice(position, 0, volumeId);
    return this.#moved(shelf);
  }

  remove(userId: string, shelfId: number, volumeId: string): WorldShelf {
    const shelf = this.#aboutToChange(userId, shelfId);
    shelf.volumes.splice(this.#placeOf(shelf, volumeId), 1);
    return this.#moved(shelf);
  }

  /** 0 puts it before the first one, 1 between the first and the second of the others. */
  move(userId: string, shelfId: number, volumeId: string, position: number): WorldShelf {
    const shelf = this.#aboutToChange(userId, shelfId);
    const before = this.#placeOf(shelf, volumeId);
    shelf.volumes.splice(before, 1);
    shelf.volumes.splice(position, 0, volumeId);
    const stayed = shelf.volumes[before] === volumeId;
    return stayed || !this.#moveShows ? shelf : this.#moved(shelf);
  }

  clear(userId: string, shelfId: number): WorldShelf {
    const shelf = this.#aboutToChange(userId, shelfId);
    if (shelf.volumes.length === 0) return shelf;
    shelf.volumes = [];
    return this.#moved(shelf);
  }

  // --- shelves --------------------------------------------------------------------------------------------------------

  /** A shelf of the user's own unless an id says another one. What is not given is made up plainly. */
  createShelf(userId: string, shelf: NewShelf = {}): WorldShelf {
    const { shelves } = this.user(userId);
    const created = instant(shelf.created ?? this.clock.now());
    const made: WorldShelf = {
      id: shelf.id ?? Math.max(LAST_RESERVED_ID, ...shelves.keys()) + 1,
      title: shelf.title ?? 'A shelf',
      ...(shelf.description !== undefined && { description: shelf.description }),
      access: shelf.access ?? 'PRIVATE',
      created,
      updated: instant(shelf.updated ?? created),
      volumesLastUpdated: instant(shelf.volumesLastUpdated ?? created),
      volumes: [...(shelf.volumes ?? [])],
    };
    if (shelves.has(made.id)) throw new Error(`User ${userId} has a shelf ${made.id} already`);
    this.past.noteShelf(userId, made.id);
    shelves.set(made.id, made);
    return made;
  }

  /** Moves `updated` alone. A description that is undefined goes away. */
  changeShelf(userId: string, shelfId: number, patch: ShelfPatch): WorldShelf {
    const shelf = this.#aboutToChange(userId, shelfId);
    Object.assign(shelf, patch);
    if (shelf.description === undefined) delete shelf.description;
    shelf.updated = instant(this.clock.now());
    return shelf;
  }

  deleteShelf(userId: string, shelfId: number): void {
    if (shelfId <= LAST_RESERVED_ID) throw new Error(`Shelf ${shelfId} belongs to every user and stays`);
    this.#aboutToChange(userId, shelfId);
    this.user(userId).shelves.delete(shelfId);
  }

  /** As the help desk does; here nothing becomes due, and what is too old of the past is forgotten. */
  settle(): void {
    this.past.forget();
  }

  /** One random believable change, now. */
  mutate(rng: Rng, without: readonly string[] = []): Change {
    return mutate(this, rng, without);
  }

  user(id: string): BooksUser {
    const user = this.users.get(id);
    if (user === undefined) throw new Error(`There is no user ${id}`);
    return user;
  }

  shelf(userId: string, shelfId: number): WorldShelf {
    const shelf = this.user(userId).shelves.get(shelfId);
    if (shelf === undefined) throw new Error(`User ${userId} has no shelf ${shelfId}`);
    return shelf;
  }

  volume(id: string): WorldVolume {
    const volume = this.volumes.get(id);
    if (volume === undefined) throw new Error(`There is no volume ${id}`);
    return volume;
  }

  #aboutToChange(userId: string, shelfId: number): WorldShelf {
    const shelf = this.shelf(userId, shelfId);
    this.past.noteShelf(userId, shelfId, shelf);
    return shelf;
  }

  #placeOf(shelf: WorldShelf, volumeId: string): number {
    const place = shelf.volumes.indexOf(volumeId);
    if (place < 0) throw new Error(`Shelf ${shelf.id} does not hold the volume ${volumeId}`);
    return place;
  }

  #moved(shelf: WorldShelf): WorldShelf {
    shelf.updated = instant(this.clock.now());
    shelf.volumesLastUpdated = shelf.updated;
    return shelf;
  }
}
