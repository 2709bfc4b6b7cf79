/**
 * The book catalog beside the help desk, as far as a simulation has one: its world, every content that each shelf ever had, and how
 * the mirror compares with both.
 */

import { myLibrary, paging } from '../../../src/sources/books/endpoints.ts';
import { shelves } from '../../../src/sources/books/shelves/shelves.ts';
import { addVolumes, bookDifferences } from '../../../test/support/books.ts';
import { BooksWorld } from '../../sandbox/src/books/world.ts';
import { between, pick, type Rng } from '../../sandbox/src/random.ts';
import type { Database } from './database.ts';
import type { Plan } from './plan.ts';

/** Of a reader who shows her public shelves, and of the one who asks. */
export const owners = ['ada', myLibrary];

/**
 * What the mirror shows of shelves that are there, volume by volume. One that has come back stands as of when it was gone, until it
 * is read.
 */
const stored = `select s.owner_id || '/' || s.id as shelf,
    (select coalesce(string_agg(m.volume_id, ' ' order by m.position), '') from books.shelf_volumes m
     where (m.account_id, m.owner_id, m.shelf_id) = (s.account_id, s.owner_id, s.id) and m._removed_at is null) as content
  from books.shelves s
  where s._deleted_at is null and exists (select from sync.shelf_readings r
    where (r.account_id, r.owner_id, r.shelf_id) = (s.account_id, s.owner_id, s.id) and r.as_of is not null
      and r.version is distinct from 'gone')`;

export class Catalog {
  readonly world: BooksWorld;
  /** Changes so far. */
  changes = 0;
  /** By owner and shelf, every content that it ever had. */
  readonly #contents = new Map<string, Set<string>>();

  constructor({ seed, volumes }: Plan, rng: Rng, now: () => number) {
    this.world = new BooksWorld({ seed, now });
    if (volumes === 0) return;
    this.world.addUser('ada');
    for (const { shelves } of this.world.users.values())
      for (const id of [...shelves.keys()].slice(1)) shelves.delete(id);
    const ids = addVolumes(
      this.world,
      Array.from({ length: volumes }, () => this.world.newId()),
    );
    const crowded = { user: pick(rng, [this.world.me, 'ada']), id: 1001 };
    for (const user of [this.world.me, 'ada'])
      for (const id of [1001, 1002]) {
        const all = user === crowded.user && id === crowded.id;
        const held = ids.filter(() => all || rng() < 0.3);
        this.world.createShelf(user, { id, title: `Shelf ${id}`, access: 'PUBLIC', volumes: held });
      }
    this.#note();
  }

  /** One change, or several at once. */
  change(rng: Rng): void {
    for (let n = rng() < 0.2 ? between(rng, 2, 4) : 1; n > 0; n--) {
      this.changes++;
      this.world.mutate(rng, ['volume withdrawn']);
      this.#note();
    }
  }

  #note(): void {
    for (const { id, shelves } of this.world.users.values())
      for (const shelf of shelves.values()) {
        const key = `${id === this.world.me ? myLibrary : id}/${shelf.id}`;
        const contents = this.#contents.get(key) ?? new Set();
        this.#contents.set(key, contents.add(shelf.volumes.join(' ')));
      }
  }

  /** I15: what the mirror shows of a shelf was on it at one moment, in this order. */
  async torn(database: Database): Promise<string[]> {
    const { rows } = await database.query({ text: stored, values: [] }, 0);
    return rows
      .filter(({ shelf, content }) => !this.#contents.get(shelf)?.has(content))
      .map(({ shelf, content }) => `I15: shelf ${shelf} is shown as ${content || 'empty'}, and never was`);
  }

  /** After everything was read again. */
  differences(database: Parameters<typeof bookDifferences>[0]): Promise<string[]> {
    return bookDifferences(database, this.world, owners);
  }
}

/** Small pages, so that a shelf of some volumes has several. Answers how to undo it. */
export function setShelfPaging({ shelfPage }: Plan): () => void {
  const stream = shelves as { perPage: number };
  const before = [stream.perPage, paging.perPage] as const;
  stream.perPage = shelfPage;
  paging.perPage = shelfPage;
  return () => {
    [stream.perPage, paging.perPage] = before;
  };
}
