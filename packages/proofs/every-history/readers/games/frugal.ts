/**
 * Where nothing changes, a reading asks for nothing that it does not need: it pays for each request. What it has asked for so
 * far follows from its pages.
 */
import { type Ask, floorSecond, type Ms, type Proof } from '../../../../../src/engine/reading/reading.ts';
import type { ListPlayed } from '../played.ts';
import { dateOf, placeOf, type Rules, type Shown, toMs, toSecond, type World } from '../world.ts';

/** What a reading has been told so far. */
export interface Heard {
  /** Different beginnings of requests, and how many of them asked for a count. */
  readonly sinces: readonly number[];
  readonly counts: number;
  /** The page that ended what is wanted: it was short, or showed a record from behind it. */
  readonly ended: { readonly since: number; readonly page: number } | undefined;
  /** By page, what the walk by pages has met since it began. */
  readonly met: ReadonlyMap<number, readonly number[]>;
  /** The last full page that was asked for. */
  readonly last: { readonly since: number; readonly page: number } | undefined;
  /** The time of its last record. */
  readonly lastTime: number;
  /** Another request followed it. */
  readonly isBetween: boolean;
  /** Requests that were read forwards beyond their first page. */
  readonly forwards: readonly number[];
  /** Since when walks by creation read that have begun. */
  readonly walks: readonly Ms[];
  /** How often it was asked for, one time after the other. */
  readonly repeats: number;
  /** Where the next walk by pages may begin: between these. */
  readonly split: { readonly low: Ms; readonly high: Ms; readonly place: number } | undefined;
}
export const nothingHeard: Heard = {
  sinces: [],
  counts: 0,
  ended: undefined,
  met: new Map(),
  last: undefined,
  lastTime: 0,
  isBetween: false,
  forwards: [],
  walks: [],
  repeats: 0,
  split: undefined,
};

type Gap = NonNullable<Proof['gap']>;

interface Wanted {
  /** Nothing from this second on. */
  readonly until?: number | undefined;
}

const sizeOf = ({ met }: Heard) => new Set([...met.values()].flat()).size;
const placeIn = ({ met }: Heard, id: number | undefined, perPage: number) => {
  for (const [page, ids] of met)
    if (id !== undefined && ids.includes(id)) return (page - 1) * perPage + ids.indexOf(id);
  return undefined;
};

/** `order`: that of the requests that count. */
export function hearing(rules: Rules, { until = Infinity }: Wanted, order?: Ask['order']) {
  const { perPage } = rules;

  /** A page of the list in its own order, or, `hidden`, in the order of creation. */
  function heard(before: Heard, ask: Ask, rows: readonly Shown[], arrived = rows.length): Heard {
    // What takes a second apart is another matter.
    if (ask.order !== order || ask.only || (order && ask.count)) {
      const begins = !before.isBetween && ask.updatedSince !== undefined;
      return { ...before, isBetween: true, walks: begins ? [...before.walks, ask.updatedSince!] : before.walks };
    }
    const since = toSecond(ask.since ?? -1000);
    if (rules.hidden && ask.perPage === 1) {
      const place = placeIn(before, rows[0]?.id, perPage);
      const { low, high } = before.split ?? { low: 0, high: 0 };
      const split = place === undefined ? { low, high: ask.since!, place: 0 } : { low: ask.since!, high, place };
      return { ...before, split: { ...split, place: place ?? before.split?.place ?? 0 } };
    }
    if (ask.perPage < perPage || (rules.hidden && since === until)) return before;
    const isNew = before.last?.since !== since || before.split !== undefined;
    const isForwards = !isNew && !before.isBetween && before.last?.page === 1 && ask.page === 2;
    // A page that was asked for first says nothing of those before it.
    const follows = ask.page === 1 || (!isNew && before.met.has(ask.page - 1));
    const timeOf = ({ time, created }: Shown) => (order ? placeOf(created) : time);
    const isLast =
      follows && (arrived < perPage || (!rules.hidden && rows.length > 0 && timeOf(rows.at(-1)!) >= until));
    const met = new Map(isNew ? [] : before.met).set(
      ask.page,
      rows.map(({ id }) => id),
    );
    return {
      walks: before.walks,
      forwards: isForwards ? [...before.forwards, since] : before.forwards,
      lastTime: rows.length > 0 ? timeOf(rows.at(-1)!) : 0,
      isBetween: false,
      repeats: !isNew && before.last?.page === ask.page ? before.repeats + 1 : 1,
      sinces: before.sinces.includes(since) ? before.sinces : [...before.sinces, since],
      counts: before.counts + (ask.count ? 1 : 0),
      ended: isLast ? { since, page: ask.page } : before.ended,
      met,
      last: { since, page: ask.page },
      split: isNew ? undefined : before.split,
    };
  }

  /** The moving list asks on, or is done. */
  function needlessOfMoving(
    told: Heard,
    world: World,
    then: ListPlayed['step'],
    claimed: Ms | undefined,
    isWalked: boolean,
  ): string | undefined {
    if ('failed' in then) return undefined;
    if (then.done)
      return until === Infinity && told.sinces.length > 1 && told.counts === 0
        ? 'a list of several requests is not counted'
        : undefined;
    const { ask } = then.value;
    // Each tie beyond paging is walked once.
    const ties = new Set(world.items.flatMap(({ versions }) => versions.map(({ time }) => time))).size;
    if (ask.order === 'created' && !told.isBetween && told.walks.length >= ties)
      return 'a walk by creation is begun once more';
    const { last, lastTime, isBetween } = told;
    if (ask.perPage < perPage)
      return last && (ask.page - 1) * ask.perPage < last.page * perPage
        ? undefined
        : 'a page behind the tie is read backwards';
    if (ask.order === 'created' && !isBetween && last && last.page < rules.pages)
      return 'a walk by creation is begun for a tie that paging reaches';
    if (ask.order === 'created')
      return !isWalked && claimed !== undefined && ask.updatedSince! < claimed - 1000
        ? 'what is claimed is walked through once more'
        : undefined;
    if (last && !isBetween && last.since === toSecond(ask.since!)) {
      if (last.page > 2 && ask.page === 1 && isConcerned(told, world, 2)) return 'a tie is not read backwards';
      // The first page is also where a second beyond paging is left.
      if (ask.page > 1 && ask.page < last.page && !isConcerned(told, world, ask.page))
        return 'a page that shows nothing of the tie is read once more';
      if (ask.page === 2 && last.page === 1 && told.forwards.includes(last.since))
        return 'a tie is read forwards once more';
      const isPast = lastTime <= dateOf(world, rules) + rules.lookback;
      if (isPast && ask.page > last.page && lastTime - 1 > last.since + (last.page > 1 ? 1 : 0))
        return 'another page is asked for where the next request shows more';
    }
    return ask.count && told.counts > 0 ? 'a list is counted twice' : needlessBehind(told, then);
  }

  /** A page of a tie that paging does not reach the end of shows records from before the last second that it reaches. */
  function isConcerned({ met, ended, lastTime, last }: Heard, { items }: World, page: number): boolean {
    if (ended || until < Infinity || (last && last.page < Math.max(...met.keys()))) return true;
    return (met.get(page) ?? []).some(id => items[id]!.versions.at(-1)!.time < lastTime);
  }

  /** Nothing that is wanted is shown by this request. */
  function needlessBehind({ ended }: Heard, then: ListPlayed['step']): string | undefined {
    if ('failed' in then || then.done || then.value.ask.order !== order || then.value.ask.only) return undefined;
    const { since: ms = -1000, page, count } = then.value.ask;
    if (order && count) return undefined;
    const since = toSecond(ms);
    if (!rules.inclusive && since >= until - 1) return 'nothing that is wanted is asked for';
    const isBehind = ended && (since > ended.since || (since === ended.since && page > ended.page));
    return isBehind ? 'more is asked for behind the page that ended it' : undefined;
  }

  /** The first second that the last request was about, or the one before it: a tie fills its page from here on. */
  function secondOf({ last, met }: Heard, { items }: World): number {
    const first = items[met.get(1)?.[0] ?? -1];
    return last!.since + (first && !rules.inclusive && placeOf(first.created) > last!.since ? 1 : 0);
  }

  /** Where a gap begins and ends that a reading by creation leaves, also where something changes. */
  function misplaced(told: Heard, world: World, { from, to }: Gap): string | undefined {
    if (toSecond(to) > until) return 'a gap reaches beyond what is wanted';
    return toSecond(from) < secondOf(told, world) ? 'a gap begins before the tie that it is about' : undefined;
  }

  /** A reading by creation asks on. */
  function needlessOfCreation(told: Heard, world: World, then: ListPlayed['step']): string | undefined {
    const { last, lastTime, met, isBetween } = told;
    if ('failed' in then || then.done || last === undefined || isBetween) return needlessBehind(told, then);
    const { order: asked, only, since = -1000, page } = then.value.ask;
    const goesOn = asked === order && !only && toSecond(since) === last.since && page > 1 && page <= last.page;
    // A reading requests the last page that paging reaches first. If that page ends in the second of the tie, no walk gets past it.
    const isFull = met.get(last.page)?.length === perPage;
    if (goesOn && last.page === rules.pages && met.size === 2 && isFull && lastTime <= secondOf(told, world))
      return 'a tie beyond paging is walked';
    return needlessBehind(told, then);
  }

  /** A walk by pages asks on. `first`: it has not been resumed. */
  function needlessOfWalk(
    told: Heard,
    { items }: World,
    then: ListPlayed['step'],
    asOf: Ms | undefined,
    first: boolean,
  ) {
    if ('failed' in then) return undefined;
    const ask = then.done ? undefined : then.value.ask;
    const since = ask?.since === undefined ? undefined : toSecond(ask.since);
    const { last } = told;
    if (first && ask?.perPage === perPage && ask.page === 1 && last?.since === since && last?.page !== 2)
      return 'the first page is asked for once more';
    const isSearch = first && ask?.perPage === perPage && last?.since === since && last?.page === 1 && ask.page > 1;
    if (isSearch && !rules.stops && ask.page < pageOfEnd(items, since!))
      return 'a page before the end is asked for first';
    return last && asOf !== undefined ? splitWrong(told, ask, toMs(last.since), asOf) : undefined;
  }

  function pageOfEnd(items: World['items'], since: number): number {
    const wanted = items.filter(
      ({ created }) => (created > since || (rules.inclusive && created === since)) && created < until,
    );
    return Math.min(Math.floor(wanted.length / perPage) + 1, rules.pages);
  }

  /** The next walk begins where nine tenths of this one are over, or as near to that as a second. */
  function splitWrong(told: Heard, ask: Ask | undefined, since: Ms, asOf: Ms): string | undefined {
    const { split } = told;
    if (split === undefined) return undefined;
    const low = Math.max(since, split.low);
    const high = split.high || Math.max(Math.min(floorSecond(asOf), toMs(until)), since + 1000);
    const isFound = high - low <= 1000 || split.place >= 0.9 * sizeOf(told);
    const asksOn = ask?.perPage === 1;
    if (asksOn && isFound) return 'more is asked for than shows where the next walk begins';
    if (asksOn && !(low < ask.since! && ask.since! < high))
      return 'where the next walk begins is sought in another place';
    return !asksOn && !isFound ? 'the next walk begins too early' : undefined;
  }

  return { heard, needlessOfMoving, needlessOfWalk, needlessOfCreation, misplaced };
}
