/**
 * The data that a catalog request reads: the world, or a stale copy of it. In the copy, shelves and volumes have their old
 * content; the set of users is always current.
 */
import { BeforeImages } from '../before-images.ts';
import type { BooksUser, WorldShelf, WorldVolume } from './records.ts';
import type { BooksWorld } from './world.ts';

export interface CatalogView extends Pick<BooksWorld, 'me' | 'clock' | 'sellsAhead'> {
  readonly users: { get(id: string): BooksUser | undefined };
  readonly volumes: Pick<ReadonlyMap<string, WorldVolume>, 'get' | 'values'>;
  user(id: string): BooksUser;
  volume(id: string): WorldVolume;
}

/** A shelf with its user: shelf ids are unique per user only. */
interface Standing {
  user: string;
  shelf: WorldShelf;
}

export class BooksBeforeImages {
  readonly #shelves: BeforeImages<Standing>;
  readonly volumes: BeforeImages<WorldVolume>;

  constructor(steady: () => number) {
    this.#shelves = new BeforeImages<Standing>(steady, ({ user, shelf }) => ({
      user,
      shelf: { ...shelf, volumes: [...shelf.volumes] },
    }));
    this.volumes = new BeforeImages<WorldVolume>(steady, volume => ({ ...volume }));
  }

  keepFor(ms: number): void {
    this.#shelves.keepFor(ms);
    this.volumes.keepFor(ms);
  }

  forget(): void {
    this.#shelves.forget();
    this.volumes.forget();
  }

  /** As `BeforeImages.note`. */
  noteShelf(user: string, id: number, shelf?: WorldShelf): void {
    this.#shelves.note(`${id} ${user}`, shelf && { user, shelf });
  }

  /** The user with the shelves of that moment, sorted by id if some were deleted since. */
  userAsOf(user: BooksUser, moment: number): BooksUser {
    let shelves = new Map(user.shelves);
    for (const [key, then] of this.#shelves.asOf(moment)) {
      const [id, ...owner] = key.split(' ');
      if (owner.join(' ') !== user.id) continue;
      if (then === undefined) shelves.delete(Number(id));
      else shelves.set(Number(id), then.shelf);
    }
    if ([...shelves.keys()].some(id => !user.shelves.has(id))) {
      shelves = new Map([...shelves].toSorted(([a], [b]) => a - b));
    }
    return { ...user, shelves };
  }
}

export function staleCopy(world: BooksWorld, lag_ms: number): CatalogView {
  const moment = world.clock.steady() - lag_ms;
  const volumes = new Map(world.volumes);
  for (const [id, then] of world.past.volumes.asOf(moment)) {
    if (then === undefined) volumes.delete(id);
    else volumes.set(id, then);
  }
  const find = (id: string) => {
    const user = world.users.get(id);
    return user && world.past.userAsOf(user, moment);
  };
  const { me, clock, sellsAhead } = world;
  return {
    ...{ me, clock, sellsAhead, volumes },
    users: { get: find },
    user: id => find(id) ?? world.user(id),
    volume: id => volumes.get(id) ?? world.volume(id),
  };
}
