/**
 * Where a list ends. The specification does not say that a page with fewer records than were asked for is the last one: a
 * source may cap its pages, and may take records out of a page after it has cut it, even all of them. Counting at each end
 * would cost a credit a reading. So the pages of a list are learned once, and looked at again:
 *
 *   even      A short page ends the list. It is doubted in a first load, in a part with an end, behind a full page, where it
 *             is nearly full, and once a day for the newest records: then the page behind it is asked
 *             for, or the count. If that shows more, the source caps its pages, and from then on no more are asked for than came.
 *   varying   Short pages of different sizes have had others behind them. Each one is counted: the list ends where as many
 *             records came as Total-Count says, or where no page of that number is left.
 *
 * What is learned begins the reading anew: what was claimed before stays true, but the end was looked for in the wrong place.
 * A page that shows times beyond those of the request needs no doubt: the reading asks from its last record on anyway.
 */
import {
  defaultPerPage,
  floorSecond,
  type Ms,
  type Page,
  type Proof,
  type ReadingOptions,
  type Step,
  secondMs,
} from './reading.ts';

type Read<O> = (from: Ms, options: O) => Generator<Step, Proof, Page>;

/** The reader, told by each page whether it is the last of its list. Without `ends` in the options a short page is. */
export const provingEnds = <O extends ReadingOptions>(read: Read<O>): Read<O> =>
  function* (from, options) {
    const { ends } = options;
    if (ends === undefined) return yield* read(from, options);
    const wholePages = ({ size = options.perPage }: { size?: number | undefined }) => {
      const perPage = Math.min(size, options.perPage);
      return { ...options, perPage, depth: Math.floor(options.depth / perPage) * perPage, ends: undefined };
    };
    let sized = wholePages(ends);
    const pages = new Pages(sized, ends, sized.perPage < options.perPage);
    let reading = read(from, sized);
    let step = reading.next();
    while (!step.done) {
      const { ask, proof } = step.value;
      const met = Object.keys(proof).length === 0 ? pages.takeMet(ask) : undefined;
      const page: Page = met ?? (yield { ask, proof: { ...proof, ...pages.takeLearned() } });
      const judged = yield* pages.judge(ask, page);
      if (pages.isLearned) {
        sized = { ...wholePages(pages), walk: undefined };
        reading = read(from, sized);
        step = reading.next();
      } else step = reading.next(judged);
    }
    return { ...step.value, ...pages.takeLearned() };
  };

/** One page of the newest records: it shows whether pages are still as long as they were. */
export const readNewest = provingEnds(function* (_from, { perPage }) {
  yield { ask: { page: 1, perPage, order: 'newest' }, proof: {} };
  return {};
});

type Asked = Step['ask'];

/** Looks at a page that changes each time. */
const mostLooks = 5;

/** Least page size that is requested. */
export const leastSize = ({ perPage }: Pick<ReadingOptions, 'perPage'>): number =>
  Math.min(defaultPerPage, Math.ceil(perPage / 2));

/** By offset a page of one record could not begin with the last one of the page before. */
export const leastOffsets = 2;

const keyOf = ({ since, order, updatedSince, only }: Asked) => JSON.stringify([since, order, updatedSince, only]);

const noList = () => ({
  key: '',
  shown: new Map<number, number>(),
  total: undefined as number | undefined,
  ended: false,
});

class Pages {
  /** The records of a full page. A reading learns a smaller size only once: pages that shrink again vary. */
  size: number;
  #varies: boolean;
  #isSmaller: boolean;
  isLearned = false;
  readonly #options: ReadingOptions;
  readonly #counts: boolean;
  readonly #doubt: 'always' | 'never' | undefined;
  readonly #known: ReadonlySet<string> | undefined;
  readonly #byOffset: boolean;
  /** The end of this reading is doubted, */
  #isDoubted: boolean;
  /** and counted: nothing was learned of this list so far. */
  readonly #isCounted: boolean;
  /** The most records that a page of this reading has shown. */
  #largest = 0;
  /** A page with fewer records is not nearly full. */
  readonly #few: number;
  /** The records of a whole list that were shown. */
  readonly #ids = new Set<string>();
  /** The page that a doubt has just asked for. It is not asked for again. */
  #behind: { readonly ask: Asked; readonly page: Page } | undefined;
  /** The request that is read by pages, and how many records each of its pages has shown. */
  #list = noList();

  constructor(
    options: ReadingOptions,
    { varies = false, byOffset = false, counts = false, doubt, known }: NonNullable<ReadingOptions['ends']>,
    isSmaller: boolean,
  ) {
    this.#options = options;
    this.#counts = counts;
    this.#few = doubt === 'never' ? Infinity : Math.ceil(0.75 * options.perPage);
    this.#doubt = doubt;
    this.#known = known;
    this.#byOffset = byOffset;
    this.size = options.perPage;
    this.#varies = varies;
    this.#isSmaller = isSmaller;
    const { firstLoad = false, until } = options;
    this.#isCounted = doubt === 'always' || (doubt !== 'never' && firstLoad);
    this.#isDoubted = this.#isCounted || (doubt !== 'never' && until !== undefined);
  }

  takeLearned(): Pick<Proof, 'pages' | 'walk'> {
    if (!this.isLearned) return {};
    this.isLearned = false;
    return { pages: { size: this.size, varies: this.#varies }, ...(this.#isSmaller && { walk: null }) };
  }

  takeMet(ask: Asked): Page | undefined {
    const behind = this.#behind;
    this.#behind = undefined;
    return behind && JSON.stringify(behind.ask) === JSON.stringify(ask) ? behind.page : undefined;
  }

  /** The page, or a later reply to the same request, and whether it is the last of its list. */
  *judge(ask: Asked, page: Page): Generator<Step, Page, Page> {
    // A probe is no page of the reading. It may return a count.
    if (ask.probe || ask.perPage !== this.size) {
      if (this.#list.key === keyOf(ask)) this.#list.total = page.total ?? this.#list.total;
      return page;
    }
    this.#note(ask, page);
    if (this.#isBeyond(page)) return { ...page, isLast: false };
    const list = this.#list;
    if (this.#byOffset && page.arrived === 0) return { ...page, isLast: true };
    if (page.arrived >= this.size) {
      this.#isDoubted ||= this.#doubt !== 'never';
      return { ...page, isLast: false };
    }
    if (ask.page < Math.max(...list.shown.keys())) {
      if (!this.#varies && this.#doubt !== 'never') yield* this.#find(ask, page, ask.page + 1);
      return { ...page, isLast: false };
    }
    if (list.ended) return { ...page, isLast: true };
    if (this.#varies && moves(ask, page)) return { ...page, isLast: false };
    if (!this.#varies && this.#isBelieved(page)) return { ...page, isLast: true };
    const isCounted = this.#counts && (this.#varies || this.#isCounted);
    const judged = yield* isCounted ? this.#count(ask, page) : this.#look(ask, page);
    list.ended = judged.isLast === true;
    return judged;
  }

  #note(ask: Asked, { arrived, rows, total }: Page): void {
    const key = keyOf(ask);
    const number = ask.page;
    if (key !== this.#list.key) this.#list = { ...noList(), key };
    const { shown } = this.#list;
    this.#list.total = total ?? this.#list.total;
    if (this.#known) for (const { id } of rows) this.#ids.add(id);
    if (arrived > 0) shown.set(number, Math.max(arrived, shown.get(number) ?? 0));
    this.#largest = Math.max(this.#largest, arrived);
  }

  /** Whether the page shows the end of the wanted range. */
  #isBeyond({ rows }: Page): boolean {
    const { until } = this.#options;
    return until !== undefined && (rows.at(-1)?.time ?? Number.NaN) >= until;
  }

  /**
   * A short page is believed to be the last one, unless it is nearly full: it may have lost some of its records. A whole list
   * is believed if all that it shows is stored.
   */
  #isBelieved({ arrived }: Page): boolean {
    const isFew = arrived < this.#few;
    if (this.#known === undefined || this.#isCounted) return !this.#isDoubted && isFew;
    const ids = [...this.#ids];
    return ids.every(id => this.#known!.has(id)) && (isFew || ids.length >= this.#known.size);
  }

  /**
   * Looks at the page behind, if paging reaches it. Of a declared service, whose pages may tear and are not counted, the page itself is
   * asked for again then, until it is the same: what went away meanwhile has moved what is behind the page onto it.
   */
  *#look(ask: Asked, first: Page): Generator<Step, Page, Page> {
    let page = first;
    for (let readings = 1; ; readings++) {
      if (this.#isWhole(ask, page)) return { ...page, isLast: true };
      const next = ask.page + 1;
      const isReached = next * this.size <= this.#options.depth;
      if (isReached && (yield* this.#find(ask, page, next))) return { ...page, isLast: false };
      if (!isReached || this.#counts || !this.#options.mayTear) return { ...page, isLast: true };
      const again: Page = yield { ask, proof: {} };
      this.#note(ask, again);
      if (again.arrived >= this.size || this.#isBeyond(again)) return { ...again, isLast: false };
      const asOf = Math.min(page.asOf, again.asOf);
      if (isSame(page, again) || readings === mostLooks) return { ...again, asOf, isLast: isSame(page, again) };
      page = again;
    }
  }

  /**
   * Counts with the page itself, in one reply. Where more are counted than came, the pages behind it are looked at from the
   * last to the first, and then it is asked for again: what goes away moves all that is behind it towards the first page.
   */
  *#count(ask: Asked, first: Page): Generator<Step, Page, Page> {
    const { depth } = this.#options;
    let page = first;
    if (!this.#isWhole(ask, page)) {
      page = yield { ask: { ...ask, count: true }, proof: this.takeLearned() };
      this.#note(ask, page);
    }
    if (page.arrived >= this.size) return { ...page, isLast: false };
    if (this.#isWhole(ask, page)) return { ...page, isLast: true };
    const { total = 0 } = this.#list;
    const deepest = Math.floor(depth / this.size);
    if (ask.page === deepest) return { ...page, isLast: this.#sum() >= total };
    // How many records a page holds is known only once one has shown as many.
    const size = this.#largest >= this.size ? this.size : Math.max(this.#largest, leastSize(this.#options));
    const counted = Math.ceil(total / size);
    // One page beyond the counted ones: the source may count only the records that it shows.
    for (let far = Math.min(Math.max(counted, ask.page) + 1, deepest); far > ask.page; far--) {
      if (yield* this.#find(ask, page, far)) return { ...page, isLast: false };
    }
    const again: Page = yield { ask, proof: {} };
    this.#note(ask, again);
    const isReached = counted <= deepest || this.#sum() >= total;
    return { ...again, asOf: Math.min(page.asOf, again.asOf), isLast: isReached && again.arrived < this.size };
  }

  /** As many records as the source counts have come, with this page. */
  #isWhole({ page: number }: Asked, { arrived, total = this.#varies ? undefined : this.#list.total }: Page): boolean {
    if (total === undefined || (this.#varies && number > 1)) return false;
    return (number - 1) * this.size + arrived >= total;
  }

  #sum(): number {
    return [...this.#list.shown.values()].reduce((sum, records) => sum + records, 0);
  }

  /** Whether this page shows records: then the pages before it are whole, or it is learned that they are short. */
  *#find(ask: Asked, first: Page, number: number): Generator<Step, boolean, Page> {
    const isNext = number === ask.page + 1;
    const { count: _, ...asked } = {
      ...{ ...ask, page: number },
      ...(isNext && this.#byOffset && { behind: (ask.page - 1) * this.size + first.arrived }),
    };
    const behind: Page = yield { ask: asked, proof: this.takeLearned() };
    this.#note(asked, behind);
    if (behind.arrived === 0 || !isOther(first, behind)) return false;
    yield* this.#learn(ask, first, behind);
    if (!this.isLearned && isNext) this.#behind = { ask: { ...ask, page: number }, page: behind };
    return true;
  }

  /** Records are behind a short page: the list has grown meanwhile, or its pages are short. */
  *#learn({ count: _, ...ask }: Asked, first: Page, behind: Page): Generator<Step, void, Page> {
    if (this.#varies) return;
    const again: Page = yield { ask, proof: {} };
    const arrived = Math.max(first.arrived, again.arrived);
    if (arrived >= this.size) return;
    // By offset the page has room for what came behind it, unless its size is less than was asked for.
    const shown = new Set(again.rows.map(({ id }) => id));
    if (this.#byOffset && behind.rows.every(({ id }) => shown.has(id))) return;
    const offsets = Math.max(leastOffsets, arrived);
    if (this.#byOffset && offsets >= this.size) return;
    this.isLearned = true;
    if (this.#byOffset) {
      this.#isSmaller = true;
      this.size = offsets;
    } else if (arrived < this.#largest || this.#isSmaller) this.#varies = true;
    else {
      this.#isSmaller = true;
      this.size = Math.max(arrived, leastSize(this.#options));
    }
    this.#largest = 0;
    this.#list = noList();
  }
}

/** The source may ignore pages, and show the same one again. A record that has changed meanwhile stands elsewhere. */
function isOther(first: Page, behind: Page): boolean {
  const keyOf = ({ id, time }: Page['rows'][number]) => `${id} ${time}`;
  const before = new Set(first.rows.map(keyOf));
  return behind.rows.length === 0 || behind.rows.some(row => !before.has(keyOf(row)));
}

const isSame = (one: Page, other: Page): boolean =>
  one.arrived === other.arrived && JSON.stringify(one.rows) === JSON.stringify(other.rows);

/** The next request begins behind this one. */
function moves({ page, since = -secondMs }: Asked, { rows }: Page): boolean {
  return page === 1 && floorSecond(rows.at(-1)?.time ?? Number.NaN) - secondMs > since;
}
