/**
 * How lists are read: pure generators that say what to ask next and what the replies prove. They see no network, no
 * clock and no database, so the same code runs against a modelled server in a test and against the source in a sync.
 *
 *   step = reading.next()                      the first request
 *   step = reading.next(page)                  what `page` proves, and the next request
 *   …until it is done                          what the last page proves
 *
 * What a page proves is committed together with the rows of that page.
 */

/** ms since 1970. */
export type Ms = number;
export const secondMs = 1000;

/** [from, to) in ms. */
export interface Range {
  readonly from: Ms;
  readonly to: Ms;
}

/** A request of a list, in the terms of reading. */
export interface Ask {
  /** For `since_…`; undefined where the list has no such filter, or everything from its beginning is wanted. */
  readonly since?: Ms;
  readonly page: number;
  readonly perPage: number;
  /** What the page before said of this one: a cursor. */
  readonly cursor?: string;
  /** Asks for Total-Count, at one credit more. */
  readonly count?: boolean;
  /** created: in the order of creation, and `since` is of creation too; undefined: in the order that the list has for its reader. */
  readonly order?: 'created' | undefined;
  /** Beside `since`: nothing that was last updated before this. */
  readonly updatedSince?: Ms | undefined;
  /** Only what has these values. */
  readonly only?: Only | undefined;
}

/** `user_id` null, as a word: what is assigned to nobody. */
export interface Only {
  readonly type?: string;
  readonly user_id?: string;
  readonly inbox_id?: string;
}

/** Values that records are known to have, to take a second apart that holds more of them than paging reaches. */
export interface Cuts {
  readonly types: readonly string[];
  /** `null`, as a word, among them. */
  readonly users: readonly string[];
  readonly inboxes: readonly string[];
}

/** What arrived. */
export interface Page {
  /** Records, readable or not: the end of a list is judged by this. */
  readonly arrived: number;
  /** Readable records in their order. `time` is what the request is ordered by; NaN where records do not show it. */
  readonly rows: readonly { readonly id: string; readonly time: Ms }[];
  /** Everything that had happened up to here is in the reply. */
  readonly asOf: Ms;
  /** The source's clock when it answered. */
  readonly date: Ms;
  readonly total?: number | undefined;
  /** What the reply says of the next page; undefined at the end. */
  readonly next?: string | undefined;
}

/** The place of a walk by pages (see walk.ts), or of one by creation (see moving-list.ts). */
export interface Walk {
  readonly since: Ms;
  readonly asOf: Ms;
  /** To be read next; goes down to 1. */
  readonly page: number;
  /** What is wanted goes on behind what paging reaches. */
  readonly deep: boolean;
  /** That of the options it was begun with: with another one it is not used. */
  readonly until?: Ms | undefined;
  /** Of a walk by creation: it reads only what was updated since this time. */
  readonly updatedSince?: Ms | undefined;
}

export interface Proof {
  /** Read and complete. */
  readonly covered?: Range;
  /** With `covered`: all of it was read as of this time, or later. */
  readonly asOf?: Ms;
  /** Could not be read, and why. */
  readonly hole?: Range & { readonly reason: string };
  /** Where a walk stands now; null when it is over. */
  readonly walk?: Walk | null;
  /** What of `covered` was read by pages of a moving list. */
  readonly crowd?: Crowded;
}

/** Certain only if none of its records turns out to have left before its last page came. */
export interface Crowded extends Range {
  readonly ids: readonly string[];
  /** When its last page came, by the source's clock. */
  readonly toldBy: Ms;
}

export interface Step {
  readonly ask: Ask;
  /** What the page before this request proved. */
  readonly proof: Proof;
}

export interface ReadingOptions {
  /** How late a record may appear after its own time. Nothing younger is claimed. */
  readonly lookbackMs: number;
  readonly perPage: number;
  /** Paging reaches this many records; whole pages. */
  readonly depth: number;
  /** Nothing of the list has been read before. */
  readonly firstLoad?: boolean;
  /** A walk that an earlier run left unfinished. */
  readonly walk?: Walk | undefined;
  /** Nothing from here on is wanted, and nothing of it is claimed. A part of a second counts as the whole second. */
  readonly until?: Ms | undefined;
  readonly cuts?: Cuts | undefined;
}

export type Reader = (from: Ms, options: ReadingOptions) => Generator<Step, Proof, Page>;

export const floorSecond = (ms: Ms): Ms => Math.floor(ms / secondMs) * secondMs;

/** `until` in whole seconds; Infinity where everything is wanted. */
export const endOf = ({ until = Infinity }: Pick<ReadingOptions, 'until'>): Ms =>
  Math.ceil(until / secondMs) * secondMs;

/** `covered` from..to, or nothing where that is empty. */
export const covering = (from: Ms, to: Ms): Proof => (to > from ? { covered: { from, to } } : {});

/** Holds nothing back. */
export const farFuture = Date.UTC(9999, 0);
