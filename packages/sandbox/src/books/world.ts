/**
 * The data of the catalog, without HTTP: volumes, users, and their shelves with volumes in order. Adding or removing a
 * volume sets the shelf's `volumesLastUpdated` and `updated`; a changed volume sets neither. Read the maps freely; change
 * shelves and volumes through the operations only, which set the times and keep before-images.
 */
import type { Change } from '../activity.ts';
import { Clock } from '../clock.ts';
import { type Rng, urlId } from '../random.ts';
import { settled } from '../switches.ts';
import { mutate } from './content/changes.ts';
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
  /** Seed of the ids; default 1. */
  seed?: number;
  /** Clock in milliseconds. */
  now: () => number;
  /** Id of the user of "my library"; default '1122334455667788'. */
  me?: string;
  /** See switches.ts. */
  moveShows?: boolean;
}

type NewShelf = Partial<Omit<WorldShelf, 'volumes'>> & { volumes?: readonly string[] };
export type NewVolume = Partial<Omit<WorldVolume, 'info'>> & { info?: Partial<VolumeInfo> };
type ShelfPatch = { title?: string; description?: string | undefined; access?: Access };
/** An undefined field is removed. */
type VolumePatch = { [field in keyof VolumeInfo]?: VolumeInfo[field] | undefined };

export class BooksWorld {
  readonly volumes = new Map<string, WorldVolume>();
  readonly users = new Map<string, BooksUser>();
  readonly me: string;
  readonly seed: number;
  readonly clock: Clock;
  /** Before-images for stale copies; empty until a lag fault asks for them. */
  readonly past: BooksBeforeImages;
  /** Whether the world ever had a pre-order; those are hidden by default. */
  sellsAhead = false;
  readonly #moveShows: boolean;
  #ids = 0;

  /** Creates a world with the user `me` and no volumes. */
  constructor(options: BooksWorldOptions) {
    this.seed = options.seed ?? 1;
    this.clock = new Clock(options.now);
    this.past = new BooksBeforeImages(this.clock.steady);
    this.me = options.me ?? '1122334455667788';
    this.#moveShows = settled('books', options).moveShows;
    this.addUser(this.me);
  }

  /** Adds a user with empty, public fixed shelves. */
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

  /** A silent change: shelves keep their times. */
  changeVolume(id: string, patch: VolumePatch): WorldVolume {
    const volume = this.volume(id);
    this.past.volumes.note(id, volume);
    const info = Object.entries({ ...volume.info, ...patch }).filter(([, value]) => value !== undefined);
    volume.info = Object.fromEntries(info) as unknown as VolumeInfo;
    return volume;
  }

  /** Deletes the volume, also from every shelf. */
  deleteVolume(id: string): void {
    this.volume(id);
    for (const user of this.users.values()) {
      for (const shelf of user.shelves.values()) if (shelf.volumes.includes(id)) this.remove(user.id, shelf.id, id);
    }
    this.past.volumes.note(id, this.volume(id));
    this.volumes.delete(id);
  }

  // --- volumes on shelves -----------------------------------------------------------------------------------------

  /** Adds a volume, by default in front. A volume already on the shelf keeps its place. */
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

  /** `position`: index among the other volumes; 0 is the front. */
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

  /** Creates a shelf, by default with the next free id; missing fields get defaults. */
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

  /** Sets `updated` only. An undefined description is removed. */
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

  /** Drops outdated before-images; the catalog has no deadlines. */
  settle(): void {
    this.past.forget();
  }

  /** Makes one random change. `without`: kinds to leave out. */
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
