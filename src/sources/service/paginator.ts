/**
 * How a service divides a list into pages: the parameters of each page, and where the next one begins. The names are those of
 * declarative connectors elsewhere.
 */
import type { Request } from '../../engine/http/request.ts';
import { readByCreation } from '../../engine/reading/by-creation.ts';
import { readByCursor, readChangedByCursor } from '../../engine/reading/by-cursor.ts';
import { leastOffsets } from '../../engine/reading/ends.ts';
import { readMovingList } from '../../engine/reading/moving-list.ts';
import type { Ask, Reader } from '../../engine/reading/reading.ts';
import { readWhole } from '../../engine/reading/whole-list.ts';
import { exitCodes, Fatal } from '../../errors.ts';

interface Limited {
  /** Page size. A service that shows fewer records a page is noticed, and is asked for fewer. */
  readonly limit: number;
  /** The parameter of the page size. Default: none is sent. */
  readonly limitParam?: string;
}

/** `offsetParam`: the number of records before the page. */
interface OffsetPages extends Limited {
  readonly type: 'offset';
  readonly offsetParam: string;
  /** Path of the number of all records in the body. Without it a list ends at an empty page. */
  readonly totalPath?: string;
}

interface NumberedPages extends Limited {
  readonly type: 'page_number';
  readonly pageParam: string;
  /** Number of the first page. Default: 1. */
  readonly basePage?: number;
  readonly totalPath?: string;
}

interface CursorPages extends Limited {
  readonly type: 'cursor';
  readonly cursorParam: string;
  /** Path of the next cursor in the body, which is absent or null on the last page. */
  readonly cursorPath: string;
}

/** The reply is the whole list. */
interface SinglePage {
  readonly type: 'single_page';
}

export type Paginator = OffsetPages | NumberedPages | CursorPages | SinglePage;

/** The largest page. A single page has no size. */
export const limitOf = (pages: Paginator): number => (pages.type === 'single_page' ? 1_000_000 : pages.limit);

const needed = {
  offset: ['limit', 'offsetParam'],
  page_number: ['limit', 'pageParam'],
  cursor: ['limit', 'cursorParam', 'cursorPath'],
  single_page: [],
} as const;

/** What a paginator of this type needs, and this one lacks: the compiler says so too, where it is asked. */
export const missingIn = (pages: Paginator): string | undefined =>
  needed[pages.type].find(name => !Object.hasOwn(pages, name));

const further = {
  offset: ['limitParam', 'totalPath'],
  page_number: ['limitParam', 'totalPath', 'basePage'],
  cursor: ['limitParam'],
  single_page: [],
} as const;

/** The words that a paginator of this type may have. */
export const wordsOf = ({ type }: Paginator): string[] => ['type', ...needed[type], ...further[type]];

const noCursor = ({ cursorPath, limit }: CursorPages) =>
  new Fatal(
    `a full page of ${limit} records has no field ${cursorPath}`,
    'Correct cursorPath of the paginator: it names the next cursor. Where the service leaves it out on a last page that is full, give limit another number.',
    exitCodes.usage,
  );

export function valueAt(body: unknown, path: string): unknown {
  return path.split('.').reduce((value, name) => (value as Record<string, unknown> | null | undefined)?.[name], body);
}

const numberAt = (body: unknown, path: string): number | undefined => {
  const value = Number(valueAt(body, path) ?? Number.NaN);
  return Number.isSafeInteger(value) && value >= 0 ? value : undefined;
};

/** Offsets of a list that is read whole: each page begins with the last record of the page before. */
const readByOffset: Reader = (from, options) => readByCursor(from, options, true);

/** The reader of a list that is always read whole. */
export const wholeReader = ({ type }: Paginator): Reader =>
  ({
    offset: readByOffset,
    page_number: readWhole,
    cursor: readByCursor as Reader,
    single_page: readByCursor as Reader,
  })[type];

/** The reader of a list of what has changed, or was created, since a time, in that order. */
export function timedReader({ type }: Paginator, byCreation: boolean): Reader {
  if (type === 'cursor' || type === 'single_page') return readChangedByCursor;
  return byCreation ? readByCreation : readMovingList;
}

export function sized(pages: Paginator, { perPage }: Ask): Record<string, string> {
  if (pages.type === 'single_page' || pages.limitParam === undefined) return {};
  return { [pages.limitParam]: String(pages.type === 'offset' ? Math.max(leastOffsets, perPage) : perPage) };
}

/** A page of a list. `within`: path of its records in the body. `isWhole`: the list is read whole. */
export function pageRequest(
  pages: Paginator,
  within: string | undefined,
  ask: Ask,
  isWhole: boolean,
): Pick<Request<never>, 'query' | 'next' | 'total'> {
  if (pages.type === 'single_page') return { query: {} };
  const query = sized(pages, ask);
  if (pages.type === 'cursor')
    return {
      query: { ...query, ...(ask.cursor !== undefined && { [pages.cursorParam]: ask.cursor }) },
      next: body => {
        const next = valueAt(body, pages.cursorPath);
        const records = within === undefined ? body : valueAt(body, within);
        const isFull = Array.isArray(records) && records.length >= ask.perPage;
        // A wrong path would end each list at its first page.
        if (next === undefined && isFull && ask.page === 1) throw noCursor(pages);
        return next === undefined || next === null || next === '' ? undefined : String(next);
      },
    };
  const { totalPath } = pages;
  const total = totalPath === undefined ? {} : { total: (body: unknown) => numberAt(body, totalPath) };
  if (pages.type === 'page_number')
    return { query: { ...query, [pages.pageParam]: String(ask.page - 1 + (pages.basePage ?? 1)) }, ...total };
  if (!isWhole) {
    const offset = ask.behind ?? (ask.page - 1) * ask.perPage;
    return { query: { ...query, [pages.offsetParam]: String(offset) }, ...total };
  }
  const offset = Number(ask.cursor ?? 0);
  return {
    ...{ query: { ...query, [pages.offsetParam]: String(offset) }, ...total },
    next: body => {
      const records = within === undefined ? body : valueAt(body, within);
      const arrived = Array.isArray(records) ? records.length : 0;
      const end = totalPath === undefined ? undefined : numberAt(body, totalPath);
      // A page of one record repeats the last one of the page before, or is the first page of a list of one.
      const isLast = end === undefined ? arrived <= 1 : offset + arrived >= end;
      return isLast ? undefined : String(offset + arrived - 1);
    },
  };
}
