/** How the end of a list is found by a reading that begins now (see reading/ends.ts). */
import type { ListStream, Row } from '../../sources/source.ts';
import type { Context } from '../context.ts';
import { type KnownPages, readPages } from '../coverage/pages.ts';
import { idsOfLive } from '../deletions/absence.ts';
import { readNewest } from '../reading/ends.ts';
import { defaultPerPage, type Ends } from '../reading/reading.ts';
import { readWhole } from '../reading/whole-list.ts';
import type { Claim } from '../runs/claims.ts';

type Key = Pick<Claim, 'account' | 'stream'>;

/** A list that the source counts costs more with its count. */
export function counts<T extends Row>(stream: ListStream<T>, list: string): boolean {
  const ask = { page: 1, perPage: stream.paging.perPage };
  return stream.request(list, { ...ask, count: true }).cost > stream.request(list, ask).cost;
}

/**
 * Options for the end of a list, from known facts about its pages. The end is counted if it was never proven, or if
 * pages of another list of the source vary.
 */
export async function endsOf<T extends Row>(
  ctx: Context,
  of: Key,
  stream: ListStream<T>,
  list: string,
  told?: KnownPages,
): Promise<Ends & KnownPages> {
  const pages = told ?? (await readPages(ctx.pg, of, list));
  const known = stream.read === readWhole ? await idsOfLive(ctx.pg, of.account, stream, 0) : undefined;
  const isDoubted = pages.provenMs === undefined || (pages.othersVary && !pages.varies);
  const { byOffset = false } = stream.paging;
  return { ...pages, byOffset, counts: counts(stream, list), known, ...(isDoubted && { doubt: 'always' }) };
}

/** How long the pages of a list are trusted: until the next night, even if that begins a little earlier. */
const trustedMs = 20 * 3_600_000;
/** Least share of the stored records that a source shows, even if it has deleted some since. */
const mostlyThere = 0.8;

interface Look<T extends Row> {
  readonly list: string;
  readonly size: number | undefined;
  readonly stream: ListStream<T>;
  readonly part: { readonly fromMs: 0; readonly walk: undefined; readonly ends: Ends };
}

/**
 * The look at a page of the newest records, for one credit, if it is due: it shows whether pages are still as long as they
 * are asked to be, for all lists of the source.
 */
export async function lookOf<T extends Row>(
  ctx: Context,
  of: Key,
  stream: ListStream<T>,
): Promise<Look<T> | undefined> {
  const { newestFirst, paging } = stream;
  if (newestFirst === undefined) return undefined;
  const [{ name: list }] = stream.lists;
  const { varies, size, provenMs } = await readPages(ctx.pg, of, list);
  if (varies || provenMs === undefined || ctx.clock.now() - provenMs < trustedMs) return undefined;
  const stored = await newestFirst.stored(ctx.pg, of.account);
  const perPage = stored >= paging.perPage ? paging.perPage : Math.floor(mostlyThere * stored);
  // A smaller page size proves nothing.
  if (perPage < defaultPerPage) return undefined;
  const ends: Ends = { counts: counts(stream, list), doubt: 'always' };
  return {
    list,
    size,
    stream: { ...stream, read: readNewest, paging: { ...paging, perPage } },
    part: { fromMs: 0, walk: undefined, ends },
  };
}
