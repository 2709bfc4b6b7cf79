/**
 * Reading a list that is ordered by update time while it is being updated. Simple paging loses records: one
 * that was read is updated, jumps to the end, and everything behind it moves one place up, past the border of the page.
 *
 * So only page 1 is read, of a request that moves with what arrived (ascending is the only safe order):
 *
 *   since = U − 1 s    U: the second of the last record. Whether `since` includes its own second is not known; either
 *                      way this request shows everything from U on. Everything before U is proven by the page.
 *
 * Nothing younger than `as_of − lookback` is claimed. A source that may tear cuts its pages first and loads their records then: a record
 * that is updated in between shows a time far behind its place. So a page of it that does not end the list is believed up to its last
 * record that is older than that. The last page (see ends.ts) ends the list. So does one that reaches into the
 * future (a wrong clock moves nothing): what follows it is read by pages, proves nothing, and is read by each run anew.
 *
 * Where one second, or two neighbouring ones, fill the page, the next request would be the same: then that request is
 * read by pages, forwards to find where the tie ends, and backwards over the same records. Records leave the tie (an
 * update takes them to the end of the list), and then what lies behind moves towards page 1: a backward reading meets
 * it, so it loses nothing in an order that stands still. That the order does stand still is checked: both readings must
 * show what they share in the same order.
 *
 * Where paging does not reach the end of the tie, everything that was updated since then is read in the order of
 * creation, which cannot change. Begun at as_of S, that meets all that stood there at S, wherever later updates take it,
 * and proves every update before S, less the lookback; from there the reading continues. Its place is kept, so that a run
 * that died resumes at the same second of creation. If that cannot be read either, exactly the tied second of update
 * is left as a gap.
 *
 * With `until` the reading is over with the first page that ends at `until` or later: it proves everything before. The
 * source has no such filter, so the page may bring more than was wanted, which is not claimed. What was wanted and is
 * updated meanwhile moves to the end of the list, where the reading of the top finds it.
 */
import { exitCodes, Fatal } from '../../errors.ts';
import { readByCreation } from './by-creation.ts';
import { provingEnds } from './ends.ts';
import { staggered } from './overlap.ts';
import {
  covering,
  endOf,
  floorSecond,
  isLast,
  type Ms,
  type Page,
  type Proof,
  type ReadingOptions,
  type Step,
  secondMs,
  type Walk,
} from './reading.ts';
import {
  disagreed,
  forwards,
  inOneOrder,
  inOrder,
  lastOld,
  leaving,
  look,
  type Reading,
  readTie,
  startsIn,
  type TieReading,
} from './tie.ts';

export const readMovingList = provingEnds((from, options) => new MovingReading(from, options).steps());

/** One reading of a moving list: how far it is, and what it may claim. */
class MovingReading {
  readonly #options: ReadingOptions;
  readonly #until: Ms;
  /** The claim begins here. A gap moves it on. */
  #start: Ms;
  #since: Ms;
  /** A second whose tie is done: if the next page shows it, `since` includes its own second. */
  #left: Ms | undefined;
  /** Everything before this time has been read. */
  #read: Ms;
  /**
   * A claim may stop short of what was read, because that was too young. Then nothing beyond is claimed: the reading
   * has moved on, and would miss records that appear there later.
   */
  #most = Infinity;
  /** The reason why a walk by creation did not help against the tie in this second. */
  #unwalkable: { readonly second: Ms; readonly reason: string } | undefined;
  /** The proof of the last page, which goes with the next request. */
  #proof: Proof = {};

  constructor(from: Ms, options: ReadingOptions) {
    this.#options = options;
    this.#until = endOf(options);
    this.#start = floorSecond(from);
    this.#since = Math.max(0, this.#start - secondMs);
    this.#read = this.#start;
  }

  *steps(): Generator<Step, Proof, Page> {
    const { perPage, lookbackMs, mayTear, walk, firstLoad } = this.#options;
    const until = this.#until;
    // A walk that began in another place, or proves nothing more, is dropped.
    const isNeeded = walk?.updatedSince !== undefined && walk.updatedSince < this.#start && endOf(walk) === until;
    if (isNeeded && floorSecond(walk.asOf - lookbackMs) > this.#start)
      this.#walked(yield* walkByCreation(walk, this.#options), this.#start);

    for (let requests = 0; Math.max(this.#start, this.#read) < until; requests++) {
      const since = this.#since;
      // The first request of a first load asks for the count, which may prove its end. Later the second one does, for a true
      // percentage: a list of one page does not pay for it. A bounded reading does not either: the count ignores the bound.
      const count = requests === (firstLoad ? 0 : 1) && until === Infinity && { count: true };
      const page: Page = yield* inOrder({ since, page: 1, perPage, ...count }, this.#proof);
      const { ended, last: newest } = look(page, this.#options);
      const old = mayTear ? lastOld(page, lookbackMs) : Number.NaN;
      // If none of the new records is that old, the newest one counts.
      const last = old - secondMs > since ? old : newest;
      if (last >= until) return this.#covering(last, page.asOf);
      if (ended) return yield* readFuture(since, [page], this.#covering(Infinity, page.asOf), this.#options);

      if (this.#left === since && startsIn(page, since)) {
        this.#proof = {};
        this.#since += secondMs;
      } else if (last - secondMs > since) {
        this.#proof = this.#covering(last, page.asOf);
        this.#since = last - secondMs;
      } else {
        const end = yield* this.#pass(page);
        if (end) return end;
      }
    }
    return this.#proof;
  }

  /** Passes the tie that `page` begins. Returns the last proof if the list ends behind it. */
  *#pass(page: Page): Generator<Step, Proof | undefined, Page> {
    const options = this.#options;
    const since = this.#since;
    const there: Reading = yield* forwards(since, [page], options);
    const top = Math.max(this.#start, Math.min(this.#read, this.#most));
    let over: Proof = {};
    // A claim behind an unread second would leave a gap.
    if (there.deep && there.before !== this.#unwalkable?.second && this.#start <= this.#most) {
      const begun = { since: 0, asOf: Infinity, updatedSince: top - secondMs };
      this.#walked(yield* walkByCreation(begun, options), there.before);
      if (there.before !== this.#unwalkable?.second) return undefined;
      over = this.#proof;
    }
    const tie: TieReading = yield* readTie(since, there, options, inOneOrder, staggered(options.perPage));
    const unread = Math.max(this.#start, this.#read);
    const start = this.#start;
    const to = this.#claim(tie.before, tie.asOf);
    this.#proof = tie.agreed
      ? { ...over, ...covering(start, to), ...(tie.whole ? {} : tied(Math.max(start, since), to, tie)) }
      : { ...over, ...leaving(unread, tie.before === Infinity ? to : tie.before, disagreed('update')) };
    if (tie.before === Infinity) return yield* readFuture(since, tie.there, this.#proof, options);
    if (!tie.agreed) this.#start = tie.before;
    const again = tie.inclusive ? tie.before : tie.before - secondMs;
    if (!tie.deep) this.#since = tie.before - secondMs;
    else if (again > since) this.#since = again;
    else this.#leave(tie.before);
    return undefined;
  }

  /** Leaves exactly this second as a gap. The reading continues behind it. */
  #leave(second: Ms): void {
    this.#left = second;
    const reason = tooDeep(this.#options, this.#unwalkable?.second === second ? this.#unwalkable.reason : undefined);
    this.#proof = { ...this.#proof, ...leaving(Math.max(this.#start, second), second + secondMs, reason) };
    this.#start = second + secondMs;
    // If the tie is in the second of `since` itself, the request includes that second.
    this.#since = Math.max(second, this.#since + secondMs);
  }

  /** Everything before `to` has been read. Returns how far it may be claimed. */
  #claim(to: Ms, asOf: Ms): Ms {
    const claimed = Math.min(to, this.#most, this.#until, floorSecond(asOf - this.#options.lookbackMs));
    if (claimed < to) this.#most = claimed;
    this.#read = to;
    return claimed;
  }

  #covering(to: Ms, asOf: Ms): Proof {
    return covering(this.#start, this.#claim(to, asOf));
  }

  /** Ends a walk that began at the end of the claim. `tied` is the second that made the walk necessary. */
  #walked({ asOf, failed }: Walked, tied: Ms): void {
    this.#proof = { walk: null };
    if (failed !== undefined) {
      this.#unwalkable = { second: tied, reason: failed };
      return;
    }
    const claimed = Math.min(this.#until, floorSecond(asOf - this.#options.lookbackMs));
    this.#proof = { ...covering(this.#start, claimed), walk: null };
    this.#left = tied;
    if (claimed > tied) {
      this.#start = claimed;
      this.#most = Infinity;
      this.#since = claimed - secondMs;
    } else {
      // The tie is too young to be claimed, but it has been read.
      this.#most = claimed;
      this.#read = tied + secondMs;
      this.#since = tied;
    }
  }
}

const tooDeep = ({ depth }: ReadingOptions, more: string | undefined) =>
  [`more records with this update time than paging reaches (${depth})`, ...(more ? [more] : [])].join('; ');

/**
 * Copies of different age may have answered pages that do not overlap. The members are noted, so that the next version of a member that
 * had left reveals it.
 */
function tied(from: Ms, to: Ms, { pages }: TieReading): Proof {
  if (to <= from) return {};
  const ids = pages.flatMap(({ rows }) => rows.filter(({ time }) => time < to).map(({ id }) => id));
  return { tie: { from, to, ids: [...new Set(ids)], toldBy: Math.max(...pages.map(({ trueBy }) => trueBy)) } };
}

interface Walked {
  /** The walk has read everything that happened before this time. */
  readonly asOf: Ms;
  /** The part that could not be read. The walk ended there. */
  readonly failed?: string;
}

/**
 * Reads the records that were updated since `updatedSince`, by creation, from `since` on: from the beginning, or from
 * where an earlier walk stopped.
 */
function* walkByCreation(
  { since, asOf: begunAsOf, updatedSince }: Pick<Walk, 'since' | 'asOf' | 'updatedSince'>,
  options: ReadingOptions,
): Generator<Step, Walked, Page> {
  const { until } = options;
  const place = { page: 1, deep: true, updatedSince, ...(until !== undefined && { until }) };
  let asOf = begunAsOf;
  let reached = since;
  let told: Proof = {};
  const reading = readByCreation(since, { ...options, updatedSince, until: undefined, walk: undefined });
  try {
    for (let step = reading.next(); ; ) {
      const { covered, gap } = step.done ? step.value : step.value.proof;
      if (gap) return { asOf, failed: `by creation, ${new Date(gap.from).toISOString()}: ${gap.reason}` };
      if (step.done) return { asOf };
      if (covered) reached = covered.to;
      if (asOf < Infinity) told = { walk: { since: reached, asOf, ...place } };
      const page: Page = yield { ask: step.value.ask, proof: told };
      asOf = Math.min(asOf, page.asOf);
      step = reading.next(page);
    }
  } catch (error) {
    if (!(error instanceof Fatal)) throw error;
    return { asOf, failed: `by creation: ${error.message}` };
  }
}

/** Reads the pages behind the one that ended the claim, if there are any. */
function* readFuture(
  since: Ms,
  pages: readonly Page[],
  proof: Proof,
  { perPage, depth }: ReadingOptions,
): Generator<Step, Proof, Page> {
  let untold = proof;
  let newest = pages.at(-1)!;
  for (let page = pages.length + 1; !isLast(newest, perPage) && page * perPage <= depth; page++) {
    newest = yield* inOrder({ since, page, perPage }, untold);
    untold = {};
  }
  return untold;
}

/** Records of one second that change while they are read are ordered by their version. */
export const lacksVersion = (key: string): Fatal =>
  new Fatal(
    `stream ${key} reads a list that moves, and its table has no version`,
    'Declare `version` in its merge: the column that grows with each change, by which the list is ordered.',
    exitCodes.usage,
  );
