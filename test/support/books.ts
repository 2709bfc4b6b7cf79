/**
 * The sandbox's book catalog mirrored into a database of its own, on a clock that stands still until the test moves it;
 * and what differs afterwards: nothing, if all is well.
 */
import type pg from 'pg';
import type { WorldShelf, WorldVolume } from '../../packages/sandbox/src/books/records.ts';
import { BooksWorld, type NewVolume } from '../../packages/sandbox/src/books/world.ts';
import {
  type BooksOptions,
  type Fault,
  type Sandbox,
  type SandboxOptions,
  type SeenRequest,
  startSandbox,
} from '../../packages/sandbox/src/server.ts';
import type { Config } from '../../src/app/config.ts';
import type { RunResult } from '../../src/cli/work/follow.ts';
import type { BooksConfig } from '../../src/sources/books/settings.ts';
import { backfillAlone, syncAlone } from './alone.ts';
import { compare, configFor, noLimits, noSandboxLimits, type Rows, rows } from './mirror.ts';
import { freshDatabase } from './postgres.ts';

export const dayMs = 86_400_000;
const yearMs = 365 * dayMs;

/** Of ada, who shows her public shelves, and of the library of the one who asks. Nothing is read again for its age. */
export function booksConfig({ books }: Pick<Sandbox, 'books'>, more: Partial<BooksConfig> = {}): BooksConfig {
  return {
    baseUrl: new URL(books.url),
    apiKey: books.key,
    ...(more.refresh === undefined && { accessToken: books.token }),
    users: ['ada'],
    library: true,
    limits: { ...noLimits, periodMs: dayMs },
    shelfAgeMs: yearMs,
    volumeAgeMs: yearMs,
    auditVolumesPerHour: 0,
    ...more,
  };
}

export interface CatalogOptions extends Omit<BooksOptions, 'world' | 'before' | 'fault'> {
  /** Of the catalog's settings. */
  readonly config?: Partial<BooksConfig>;
  /** Beside it, and configured. */
  readonly helpdesk?: Pick<SandboxOptions, 'tickets'>;
  /** Instead of an empty one with ada in it, whose shelves are those that the test makes. */
  readonly world?: (now: () => number) => BooksWorld;
}

export interface Catalog extends AsyncDisposable {
  readonly pool: pg.Pool;
  readonly sandbox: Sandbox;
  readonly world: BooksWorld;
  /** Happens with each request that the catalog admits, and with its reply; `n` counts them since the sandbox began. */
  before: (request: SeenRequest, n: number) => void;
  fault: (request: SeenRequest, n: number) => Fault | undefined;
  /** The source's clock, and an hour later, or so many milliseconds. */
  now(): number;
  pass(ms?: number): void;
  config(more?: Partial<BooksConfig>): Config;
  sync(more?: Partial<BooksConfig>, streams?: readonly string[]): Promise<RunResult>;
  /** `backfill --again` of both streams. */
  again(signal?: AbortSignal): Promise<RunResult>;
  /** What the catalog was asked since this was last asked: `/volumes/a`, `/users/ada/bookshelves/1/volumes?40`. */
  asked(): string[];
  rows(query: string, values?: readonly unknown[]): Promise<Record<string, unknown>[]>;
  differences(): Promise<string[]>;
}

/** In the middle of a second, as most times of the catalog are: what falls on a whole one may have been cut to it. */
const beginning = Date.UTC(2026, 3, 2, 12) + 250;

export async function openCatalog(options: CatalogOptions = {}): Promise<Catalog> {
  const { config: settings, helpdesk, world: makeWorld = emptyWorld, ...books } = options;
  const db = await freshDatabase();
  let ms = beginning;
  const now = () => ms;
  const world = makeWorld(now);
  const hooks: Pick<Catalog, 'before' | 'fault'> = { before: () => {}, fault: () => undefined };
  const sandbox = await startSandbox({
    ...noSandboxLimits,
    now,
    tickets: helpdesk?.tickets ?? 0,
    customers: helpdesk ? 3 : 0,
    books: {
      requestsPerDay: 1_000_000,
      requestsPerSecond: 1_000_000,
      ...books,
      world,
      before: (request, n) => hooks.before(request, n),
      fault: (request, n) => hooks.fault(request, n),
    },
  });
  let asked = 0;
  const config = (more: Partial<BooksConfig> = {}): Config => ({
    ...configFor(db.url, sandbox),
    ...(!helpdesk && { helpdesk: undefined }),
    books: booksConfig(sandbox, { ...settings, ...more }),
  });
  return Object.assign(hooks, {
    pool: db.pool,
    sandbox,
    world,
    now,
    pass: (by = 3_600_000) => {
      ms += by;
    },
    config,
    sync: (more?: Partial<BooksConfig>, streams?: readonly string[]) => syncAlone(config(more), streams),
    again: (signal?: AbortSignal) => backfillAlone(config(), ['shelves', 'volumes'], { again: true }, signal),
    asked: () => {
      const since = sandbox.books.requests.slice(asked);
      asked = sandbox.books.requests.length;
      return since.map(({ path, query }) => path + (query.has('startIndex') ? `?${query.get('startIndex')}` : ''));
    },
    rows: async (query: string, values: readonly unknown[] = []) => (await db.pool.query(query, [...values])).rows,
    differences: () => bookDifferences(db.pool, world, ownersOf(config())),
    [Symbol.asyncDispose]: async () => {
      await sandbox.close();
      await db.drop();
    },
  });
}

function emptyWorld(now: () => number): BooksWorld {
  const world = new BooksWorld({ now });
  world.addUser('ada');
  // The nine that everybody has cost a request each, and say nothing here.
  for (const { shelves } of world.users.values()) shelves.clear();
  return world;
}

export const ownersOf = ({ books }: Config): string[] => [...books!.users, ...(books!.library ? ['mylibrary'] : [])];

/** Volumes of these ids, whose list rows differ from what is shown of each in full. */
export function addVolumes(world: BooksWorld, ids: readonly string[], more: NewVolume = {}): string[] {
  for (const id of ids) {
    const info = { title: `Title of ${id}`, language: 'en', description: `All about ${id}. `.repeat(30), ...more.info };
    world.addVolume({ ...more, id, info });
  }
  return [...ids];
}

/** A public shelf of this user with new volumes on it, `<first letter>0` and so on, all put there now. */
export function addShelf(world: BooksWorld, user: string, id: number, count: number, letter = `s${id}-`): WorldShelf {
  const volumes = addVolumes(
    world,
    Array.from({ length: count }, (_, n) => `${letter}${n}`),
  );
  return world.createShelf(user, { id, title: `Shelf ${id}`, access: 'PUBLIC', volumes });
}

/** Where each row of the mirror lies, and which transaction wrote it: equal as long as nothing was written. */
export async function placesOf(db: pg.Pool, where = 'true'): Promise<unknown[]> {
  const tables = ['shelves', 'volumes', 'shelf_volumes', 'shelf_volume_history'];
  const each = tables.map(
    table => `select '${table}' as name, t.ctid::text as place, t.xmin::text, to_jsonb(t) as row from books.${table} t`,
  );
  const { rows } = await db.query(`select * from (${each.join(' union all ')}) all_rows where ${where} order by 1, 2`);
  return rows;
}

/** A volume's places, one after the other: `0 [2026-04-02T12:00:00.000Z, now) after null`. */
export async function historyOf(catalog: Catalog, volume: string): Promise<string[]> {
  const rows = await catalog.rows(
    `select position, valid_from, valid_to, change_after from books.shelf_volume_history where volume_id = $1 order by valid_from`,
    [volume],
  );
  const time = (at: unknown) => (at as Date | null)?.toISOString() ?? null;
  return rows.map(
    row =>
      `${row.position} [${time(row.valid_from)}, ${time(row.valid_to) ?? 'now'}) after ${time(row.change_after) ?? 'never'}`,
  );
}

/** When the shelf was last read whole. */
export async function asOf(catalog: Catalog, shelf: number): Promise<string> {
  const [row] = await catalog.rows('select as_of from sync.shelf_readings where shelf_id = $1', [String(shelf)]);
  return (row!.as_of as Date).toISOString();
}

// --- the mirror against the world ---------------------------------------------------------------------------------------

export interface Expectations {
  /** What the catalog leaves out of lists of shelves (its option `shelfDates`). */
  readonly shelfDates?: boolean;
  readonly country?: string;
  /** Volumes that cannot be had by their id. */
  readonly failing?: readonly string[];
}

/** Table by table what is missing, too many, or not equal to the world: of the owners that are mirrored, whole rows. */
export async function bookDifferences(
  db: pg.Pool,
  world: BooksWorld,
  owners: readonly string[] = ['ada', 'mylibrary'],
  expectations: Expectations = {},
): Promise<string[]> {
  return compare(db, truth(world, owners, expectations), queries);
}

function truth(
  world: BooksWorld,
  owners: readonly string[],
  { shelfDates = true, country = 'US', failing = [] }: Expectations,
): Record<string, Rows> {
  const shelves = owners.flatMap(owner => shelvesOf(world, owner).map(shelf => ({ owner, shelf })));
  const places = shelves.flatMap(({ owner, shelf }) =>
    shelf.volumes.map((id, position) => ({ owner, shelf, id, position })),
  );
  const ids = new Set(places.map(({ id }) => id).filter(id => !failing.includes(id)));
  const standing = rows(places, ({ owner, shelf, id, position }) => [`${owner}/${shelf.id}/${id}`, position]);
  return {
    shelves: rows(shelves, ({ owner, shelf }) => [
      `${owner}/${shelf.id}`,
      textOf(shelf.title),
      textOf(shelf.description),
      shelf.access,
      Date.parse(shelf.created),
      Date.parse(shelf.updated),
      shelfDates ? Date.parse(shelf.volumesLastUpdated) : null,
      shelf.volumes.length,
    ]),
    volumes: rows([...ids], id => volumeRow(world.volume(id), country)),
    shelf_volumes: standing,
    shelf_volume_history: standing,
  };
}

/** What the catalog shows of them to the one who asks. */
function shelvesOf(world: BooksWorld, owner: string): WorldShelf[] {
  const { shelves } = world.user(owner === 'mylibrary' ? world.me : owner);
  return [...shelves.values()].filter(({ access }) => owner === 'mylibrary' || access === 'PUBLIC');
}

function volumeRow({ id, info, saleInfo, accessInfo, cover }: WorldVolume, country: string): unknown[] {
  const isbn = (wanted: string) => info.industryIdentifiers?.find(({ type }) => type === wanted)?.identifier ?? null;
  const year = /^\d{4}/.exec(info.publishedDate ?? '')?.[0];
  return [
    id,
    'full',
    textOf(info.title),
    textOf(info.subtitle),
    info.authors?.map(textOf) ?? null,
    textOf(info.publisher),
    info.publishedDate ?? null,
    year === undefined ? null : Number(year),
    textOf(info.description),
    isbn('ISBN_10'),
    isbn('ISBN_13'),
    info.pageCount || null,
    info.printType ?? null,
    info.categories ?? null,
    info.averageRating === undefined ? null : String(info.averageRating),
    info.ratingsCount ?? null,
    info.maturityRating ?? null,
    info.language ?? null,
    decimal(saleInfo?.listPrice?.amount),
    saleInfo?.listPrice?.currencyCode ?? null,
    decimal(saleInfo?.retailPrice?.amount),
    saleInfo?.retailPrice?.currencyCode ?? null,
    saleInfo?.saleability ?? null,
    accessInfo.viewability,
    saleInfo ? country : null,
    `https://books.example/books/about/_.html?id=${id}`,
    cover ? `http://books.example/books/content?id=${id}&printsec=frontcover&img=1&zoom=1&edge=curl` : null,
  ];
}

/** What a database can hold of it. */
function textOf(text: string | undefined): string | null {
  return text?.toWellFormed().replaceAll('\0', '\ufffd') ?? null;
}

/** `1.334E7` written out, as text: no number of JavaScript holds all of them. */
function decimal(amount: string | undefined): string | null {
  if (amount === undefined) return null;
  const [mantissa = '', exponent = '0'] = amount.split('E');
  const [whole = '', fraction = ''] = mantissa.split('.');
  const shift = Number(exponent);
  const digits = whole + fraction.padEnd(shift, '0');
  const point = whole.length + shift;
  return digits.length > point ? `${digits.slice(0, point)}.${digits.slice(point)}` : digits;
}

/** A volume that is on no shelf any more is as it was when it last was. */
const onShelf = `exists (select from books.shelf_volumes m
  where (m.account_id, m.volume_id) = (v.account_id, v.id) and m._removed_at is null)`;
const ms = (column: string) => `(extract(epoch from ${column}) * 1000)::float8`;

const queries: Record<string, string> = {
  shelves: `select owner_id || '/' || id, title, description, access, ${ms('created_at')}, ${ms('updated_at')},
    ${ms('volumes_last_updated_at')}, volume_count from books.shelves where _deleted_at is null`,
  volumes: `select id, _detail, title, subtitle, authors, publisher, published_date, published_year, description, isbn_10,
    isbn_13, page_count, print_type, categories, average_rating::text, ratings_count, maturity_rating, language,
    list_price::text, list_price_currency, retail_price::text, retail_price_currency, saleability, viewability, country,
    canonical_link, regexp_replace(thumbnail, '&imgtk=.*$', '') from books.volumes v
    where ${onShelf} and _detail = 'full'`,
  shelf_volumes: `select owner_id || '/' || shelf_id || '/' || volume_id, position from books.shelf_volumes
    where _removed_at is null`,
  shelf_volume_history: `select owner_id || '/' || shelf_id || '/' || volume_id, position from books.shelf_volume_history
    where valid_to is null and position is not null`,
};
