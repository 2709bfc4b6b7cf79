/** The replies of a service that is true to a declaration: lists, single records, details. Pure. */
import { readAs } from '../sources/service/datetime-format.ts';
import type { Paginator } from '../sources/service/paginator.ts';
import type { Behaviour } from './behaviour.ts';
import type { Meaning, Order } from './meaning.ts';
import { type Item, type Shelf, shownOf, type World, written, writtenPart } from './world.ts';

/** A reply: `ids` of the records that it shows, for the story. */
export interface Answer {
  readonly stream: string;
  readonly status: number;
  readonly body: unknown;
  readonly ids: readonly string[];
}

/** The stream that a path belongs to. */
export interface Asked {
  readonly meaning: Meaning;
  readonly kind: 'list' | 'one' | 'details';
  readonly id: string;
}

const matching = (template: string, path: string): string | undefined => {
  const [before, after = ''] = template.split(':id');
  if (!path.startsWith(before!) || !path.endsWith(after) || path.length <= before!.length + after.length)
    return undefined;
  const id = path.slice(before!.length, path.length - after.length);
  return id.includes('/') ? undefined : decodeURIComponent(id);
};

/** What a request asks for; undefined: the service does not know it. Details may have the path of their record, and a parameter. */
export function askedOf(meanings: readonly Meaning[], path: string, query: URLSearchParams): Asked | undefined {
  for (const meaning of meanings) {
    const { stream } = meaning;
    if (stream.kind !== 'details' && stream.path.split('?')[0] === path) return { meaning, kind: 'list', id: '' };
  }
  for (const meaning of meanings) {
    const { stream } = meaning;
    if (stream.kind !== 'details') continue;
    const id = matching(stream.path, path);
    const params = Object.entries(stream.options.params ?? {});
    if (id !== undefined && params.every(([name, value]) => query.get(name) === String(value)))
      return { meaning, kind: 'details', id };
  }
  for (const meaning of meanings) {
    const { stream } = meaning;
    const get = 'get' in stream.options ? stream.options.get : undefined;
    const id = get === undefined ? undefined : matching(get, path);
    if (id !== undefined) return { meaning, kind: 'one', id };
  }
  return undefined;
}

export function answer(world: World, { meaning, kind, id }: Asked, query: URLSearchParams): Answer {
  const { name } = meaning;
  const shelf = world.shelves.get(name)!;
  const show = (item: Item, of = shelf) => written(item, shownOf(item, world.nowMs)!, of);
  const none = { stream: name, status: 404, body: { error: 'not found' }, ids: [] };
  if (kind === 'one') {
    const item = shelf.items.get(id);
    if (item === undefined || shownOf(item, world.nowMs) === undefined) return none;
    const selector = 'getSelector' in meaning.stream.options ? meaning.stream.options.getSelector : undefined;
    return { stream: name, status: 200, body: within(selector, show(item)), ids: [id] };
  }
  if (kind === 'details') {
    const parent = meaning.stream.kind === 'details' ? meaning.stream.options.parent : '';
    const item = world.shelves.get(parent)?.items.get(id);
    if (item === undefined || shownOf(item, world.nowMs) === undefined) return none;
    const all = (item.details.get(name) ?? []).map(writtenPart);
    return pageOf(shelf, all, query, { place: ({ id }) => id as string, time: () => '' });
  }
  if (meaning.instead !== undefined) {
    const other = world.shelves.get(meaning.instead)!;
    const all = other.living.flatMap(item => (shownOf(item, world.nowMs) ? [show(item, other)] : []));
    return pageOf(shelf, all, query, { place: ({ id }) => id as string, time: () => '' });
  }
  const items = listed(world, shelf, query);
  const shown = new Map(items.map(item => [show(item), item] as const));
  return pageOf(shelf, [...shown.keys()], query, {
    place: one => placeOf(world, orderOf(shelf), shown.get(one)!),
    time: one => new Date(shownOf(shown.get(one)!, world.nowMs)!.changedMs).toISOString(),
  });
}

function orderOf({ behaviour: { order: told = 'declared' }, meaning: { order, stream } }: Shelf): Order {
  if (told === 'declared' || stream.kind === 'feed') return order;
  return told === 'descending' ? { ...order, descending: !order.descending } : { by: told, descending: false };
}

const digits = (n: number) => String(n).padStart(16, '0');
const placeOfId = (id: string) => (/^\d+$/.test(id) ? digits(Number(id)) : id);

/** A text that sorts as the list does. */
function placeOf({ nowMs }: World, { by }: Order, item: Item): string {
  if (by === 'id') return placeOfId(item.id);
  const version = shownOf(item, nowMs)!;
  if (by === 'created') return `${digits(item.createdMs)} ${item.id}`;
  if (by === 'changed') return `${digits(version.changedMs)} ${item.id}`;
  return `${String(version.values[by.field])} ${item.id}`;
}

/** The records that a list shows, in its order. */
function listed(world: World, shelf: Shelf, query: URLSearchParams): Item[] {
  const { nowMs } = world;
  const { behaviour, meaning, living } = shelf;
  const { stream } = meaning;
  const order = orderOf(shelf);
  const from = startOf(meaning, query, behaviour);
  const by = behaviour.since ?? meaning.since;
  const isAfter = (ms: number) => (behaviour.inclusive ? ms >= from : ms > from);
  const after = stream.kind === 'feed' ? placeOfId(cursorIn(query, stream.options.cursorParam, stream) ?? '') : '';
  const found = living.filter(item => {
    const version = shownOf(item, nowMs);
    if (version === undefined) return false;
    if (stream.kind === 'feed') return placeOfId(item.id) > after;
    if (!meaning.only.every(([field, value]) => String(version.values[field]) === value)) return false;
    return by === undefined || by === 'ignored' || isAfter(by === 'created' ? item.createdMs : version.changedMs);
  });
  const sign = order.descending ? -1 : 1;
  const places = new Map(found.map(item => [item, placeOf(world, order, item)]));
  return found.sort((a, b) => (places.get(a)! < places.get(b)! ? -sign : sign));
}

function startOf({ stream }: Meaning, query: URLSearchParams, { slackMs }: Behaviour): number {
  if (stream.kind !== 'incremental' && stream.kind !== 'created') return Number.NEGATIVE_INFINITY;
  const { startParam, datetimeFormat, startSlackSeconds = 0, params } = stream.options;
  const asked = query.get(startParam);
  // Without a time the parameter may have a value all the same.
  if (asked === null || asked === params?.[startParam]) return Number.NEGATIVE_INFINITY;
  const ms = datetimeFormat === undefined ? Date.parse(asked) : readAs(datetimeFormat, asked);
  return ms - (slackMs ?? startSlackSeconds * 1000);
}

/** The cursor of a later page. The first one may have a word of the declaration: `*`, `0`. */
function cursorIn(query: URLSearchParams, name: string, { options: { params } }: Meaning['stream']): string | null {
  const asked = query.get(name);
  return asked === params?.[name] ? null : asked;
}

type Shown = Readonly<Record<string, unknown>>;

interface Places {
  place(one: Shown): string;
  time(one: Shown): string;
}

function pageOf(shelf: Shelf, all: readonly Shown[], query: URLSearchParams, places: Places): Answer {
  const { meaning, behaviour } = shelf;
  const { pages, name, selector } = meaning;
  const size = sizeOf(pages, query, behaviour);
  const kind = behaviour.cursor ?? meaning.cursor;
  const body: Record<string, unknown> = {};
  let records = pages.type === 'single_page' ? cut(all, 0, size) : all;
  if (pages.type === 'offset') records = cut(all, Number(query.get(pages.offsetParam) ?? 0), size);
  if (pages.type === 'page_number') {
    const page = Number(query.get(pages.pageParam) ?? pages.basePage ?? 1) - (pages.basePage ?? 1);
    records = cut(all, page * size, size);
  }
  if (pages.type === 'cursor') {
    const token = cursorIn(query, pages.cursorParam, meaning.stream);
    const descends = orderOf(shelf).descending;
    const behind = (one: Shown) => {
      if (token === null) return true;
      if (kind === 'time') return Date.parse(places.time(one)) > Date.parse(token);
      const place = Buffer.from(token, 'base64url').toString();
      return descends ? places.place(one) < place : places.place(one) > place;
    };
    const rest = kind === 'offset' ? all.slice(Number(token ?? 0)) : all.filter(behind);
    records = rest.slice(0, size);
    const last = records.at(-1);
    const nextOf = { offset: () => String(Number(token ?? 0) + size), time: () => places.time(last!) };
    const next = kind === 'place' ? () => Buffer.from(places.place(last!)).toString('base64url') : nextOf[kind];
    setAt(body, pages.cursorPath, rest.length > size ? next() : null);
  }
  if ('totalPath' in pages && pages.totalPath !== undefined) setAt(body, pages.totalPath, all.length);
  const { stream } = meaning;
  if (stream.kind === 'feed') {
    records = all.slice(0, size);
    if (stream.options.hasMorePath !== undefined) setAt(body, stream.options.hasMorePath, all.length > size);
  }
  if (selector !== undefined) setAt(body, selector, records);
  const ids = records.map(({ id }) => String(id));
  return { stream: name, status: 200, body: selector === undefined ? records : body, ids };
}

const cut = (all: readonly Shown[], from: number, size: number) => all.slice(from, from + size);

/** A reply that shows the beginning of a list only shows so many. */
const mostOfWhole = 20;

function sizeOf(pages: Paginator, query: URLSearchParams, { cap = 1, cutsWhole }: Behaviour): number {
  if (pages.type === 'single_page') return cutsWhole ? mostOfWhole : Number.POSITIVE_INFINITY;
  const asked = Number((pages.limitParam && query.get(pages.limitParam)) || pages.limit);
  return Math.min(asked, Math.max(2, Math.round(pages.limit * cap)));
}

const within = (path: string | undefined, value: unknown): unknown => {
  if (path === undefined) return value;
  const body: Record<string, unknown> = {};
  setAt(body, path, value);
  return body;
};

function setAt(body: Record<string, unknown>, path: string, value: unknown): void {
  const names = path.split('.');
  let at = body;
  for (const name of names.slice(0, -1)) {
    at[name] ??= {};
    at = at[name] as Record<string, unknown>;
  }
  at[names.at(-1)!] = value;
}
