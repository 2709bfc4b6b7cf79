/**
 * How lists are read: pure generators that yield the next request, and what the replies prove. They use no network,
 * clock or database, so the same code runs against a modelled server in a test and against the source in a sync.
 *
 *   step = reading.next()                      the first request
 *   step = reading.next(page)                  what `page` proves, and the next request
 *   …until it is done                          what the last page proves
 *
 * The proof of a page is committed together with the rows of that page.
 */

/** ms since 1970. */
export type Ms = number;
export const secondMs = 1000;

/** [from, to) in ms. */
export interface Range {
  readonly from: Ms;
  readonly to: Ms;
}

/** A request of a list. */
export interface Ask {
  /** For `since_…`; undefined if the list has no such filter, or everything from its beginning is wanted. */
  readonly since?: Ms;
  readonly page: number;
  readonly perPage: number;
  /** A cursor from the page before. */
  readonly cursor?: string;
  /** Asks for Total-Count, which costs one more credit. */
  readonly count?: boolean;
  /**
   * created: in the order of creation, and `since` refers to creation too; newest: the latest first; undefined: the usual
   * order of the list.
   */
  readonly order?: 'created' | 'newest' | undefined;
  /** Together with `since`: no record that was last updated before this time. */
  readonly updatedSince?: Ms | undefined;
  /** With `page`: the number of records before it, if earlier pages had fewer records than requested. */
  readonly behind?: number;
  /** A probe of one place of the list. Its reply is not checked for the end of the list. */
  readonly probe?: boolean;
  /** Only records with these values. */
  readonly only?: Only | undefined;
}

/** `user_id` 'null': records that are assigned to no user. */
export interface Only {
  readonly type?: string;
  readonly user_id?: string;
  readonly inbox_id?: string;
}

/** Known values of records, to divide a second with more records than paging reaches. */
export interface Cuts {
  readonly types: readonly string[];
  /** Includes the word `null`. */
  readonly users: readonly string[];
  readonly inboxes: readonly string[];
}

/** A reply to a request of a list. */
export interface Page {
  /** The number of records, readable or not. */
  readonly arrived: number;
  /** No page follows. Undefined: a page with fewer records than were asked for is the last one (see ends.ts). */
  readonly isLast?: boolean;
  /** Readable records in their order. `time` is the value that orders the request; NaN if records do not show it. */
  readonly rows: readonly { readonly id: string; readonly time: Ms }[];
  /** Ids of the first and the last record, readable or not. Default: those of the rows. */
  readonly borders?: readonly [first: string | undefined, last: string | undefined];
  /** The reply shows everything that happened before this time. */
  readonly asOf: Ms;
  /** The reply shows nothing that happened at this time or later. */
  readonly trueBy: Ms;
  readonly total?: number | undefined;
  /** The cursor of the next page; undefined at the end. */
  readonly next?: string | undefined;
}

/** The page size of a source that ignores `per_page` (spec, Pagination: the default on all endpoints). */
export const defaultPerPage = 10;

/** No page follows this one. */
export const isLast = (page: Page, perPage: number): boolean => page.isLast ?? page.arrived < perPage;

/** Facts about the pages of a list. */
export interface Pages {
  /** The most records that a page shows. */
  readonly size: number;
  /** Pages with others behind them have shown fewer than that. */
  readonly varies: boolean;
}

/** The place of a walk by pages (see page-walk.ts), or of one by creation (see moving-list.ts). */
export interface Walk {
  readonly since: Ms;
  readonly asOf: Ms;
  /** The next page to read; counts down to 1. */
  readonly page: number;
  /** The list continues behind the depth of paging. */
  readonly deep: boolean;
  /** The `until` of the options that the walk began with. A walk with another one is not resumed. */
  readonly until?: Ms | undefined;
  /** For a walk by creation: it reads only records that were updated since this time. */
  readonly updatedSince?: Ms | undefined;
  /** For a feed: the cursor from which the next run reads. This place is kept permanently. */
  readonly cursor?: string | undefined;
}

export interface Proof {
  /** The range that was read and is complete. */
  readonly covered?: Range;
  /** With `covered`: every part was read as of this time, or later. */
  readonly asOf?: Ms;
  /** A gap: a range that could not be read, and why. */
  readonly gap?: Range & { readonly reason: string };
  /** The place of the walk; null when it is over. */
  readonly walk?: Walk | null;
  /** The part of `covered` that was read by pages of a moving list. */
  readonly tie?: Tie;
  /** What this reading has learned of the pages of the list. */
  readonly pages?: Pages;
}

/**
 * A tie that was read by pages. It is certain unless one of its records turns out to have left before its last page
 * arrived.
 */
export interface Tie extends Range {
  readonly ids: readonly string[];
  /** When its last page came, by the source's clock. */
  readonly toldBy: Ms;
}

export interface Step {
  readonly ask: Ask;
  /** The proof of the page before this request. */
  readonly proof: Proof;
}

export interface ReadingOptions {
  /** How late a record may appear after its own time. Nothing younger is claimed. */
  readonly lookbackMs: number;
  readonly perPage: number;
  /** The number of records that paging reaches; whole pages. */
  readonly depth: number;
  /** A page may show records that were updated after it was cut. */
  readonly mayTear?: boolean | undefined;
  /** No part of the list has been read before. */
  readonly firstLoad?: boolean;
  /** A walk that an earlier run left unfinished. */
  readonly walk?: Walk | undefined;
  /**
   * Exclusive end of the wanted range. Nothing from here on is claimed. A part of a second counts as the whole second.
   */
  readonly until?: Ms | undefined;
  readonly cuts?: Cuts | undefined;
  /** How the end of the list is found (see ends.ts). Undefined: a short page is the last one. */
  readonly ends?: Ends | undefined;
}

export interface Ends {
  readonly size?: number | undefined;
  readonly varies?: boolean;
  /** Pages are asked for by offsets: what a page does not show, though more was asked for, is on no other page. */
  readonly byOffset?: boolean;
  /** The source counts this list (Total-Count). */
  readonly counts?: boolean;
  /** always: each end is doubted and counted; never: a short page ends a list whose pages do not vary. Default: see ends.ts. */
  readonly doubt?: 'always' | 'never';
  /** A whole list as it is stored: if all that came is stored, a short page ends it. */
  readonly known?: ReadonlySet<string> | undefined;
}

export type Reader = (from: Ms, options: ReadingOptions) => Generator<Step, Proof, Page>;

/** A gap in words. */
export const gapIn = (list: string, { from, reason }: Pick<NonNullable<Proof['gap']>, 'from' | 'reason'>): string =>
  `${list} list, ${new Date(from).toISOString()}: ${reason}`;

export const floorSecond = (ms: Ms): Ms => Math.floor(ms / secondMs) * secondMs;

/** `until` in whole seconds; Infinity if everything is wanted. */
export const endOf = ({ until = Infinity }: Pick<ReadingOptions, 'until'>): Ms =>
  Math.ceil(until / secondMs) * secondMs;

/** A proof of `covered` from..to; no proof if the range is empty. */
export const covering = (from: Ms, to: Ms): Proof => (to > from ? { covered: { from, to } } : {});

/** A bound that excludes nothing. */
export const farFuture = Date.UTC(9999, 0);
