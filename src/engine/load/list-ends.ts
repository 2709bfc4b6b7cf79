/** How the end of a list is found by a reading that begins now (see reading/ends.ts). */
import type { ListStream, Row } from '../../sources/source.ts';
import type { Context } from '../context.ts';
import { type KnownPages, readPages } from '../coverage/pages.ts';
import { idsOfLive } from '../deletions/absence.ts';
import { readNewest } from '../reading/ends.ts';
import type { Ends } from '../reading/reading.ts';
import { readWhole } from '../reading/whole-list.ts';
import type { Claim } from '../runs/claims.ts';

type Key = Pick<Claim, 'account' | 'stream'>;

/**
 * What is known of the pages of a list. Ends that were never proven are counted, and where those of another list of the source
 * vary. A list that is counted costs more.
 */
export async function endsOf<T extends Row>(
  ctx: Context,
  of: Key,
  stream: ListStream<T>,
  list: string,
): Promise<Ends & KnownPages> {
  const pages = await readPages(ctx.pg, of, list);
  const ask = { page: 1, perPage: stream.paging.perPage };
  const counts = stream.request(list, { ...ask, count: true }).cost > stream.request(list, ask).cost;
  const { name } = stream.merge.declared.root;
  const known = stream.read === readWhole ? await idsOfLive(ctx.pg, of.account, name) : undefined;
  const isDoubted = pages.provenMs === undefined || (pages.othersVary && !pages.varies);
  return { ...pages, counts, known, ...(isDoubted && { doubt: 'always' }) };
}

/** How long the pages of a list are trusted: until the next night, even if that begins a little earlier. */
const trustedMs = 20 * 3_600_000;
/** The default of the specification. A page of fewer records tells nothing. */
const leastTelling = 10;
/** So many of the stored records the source shows, even if it has deleted some since. */
const mostlyThere = 0.8;

/** How long a page of the newest records has to be. */
async function lookLength<T extends Row>(
  ctx: Context,
  of: Key,
  { newestFirst, paging }: ListStream<T>,
): Promise<number> {
  if (newestFirst === undefined) return 0;
  const stored = await newestFirst.stored(ctx.pg, of.account);
  return stored >= paging.perPage ? paging.perPage : Math.floor(mostlyThere * stored);
}

/**
 * The look at a page of the newest records, for one credit, if it is due: it shows whether pages are still as long as they
 * are asked to be, for all lists of the source.
 */
export async function lookOf<T extends Row>(ctx: Context, of: Key, stream: ListStream<T>) {
  if (stream.newestFirst === undefined) return undefined;
  const [{ name: list }] = stream.lists;
  const { varies, size, provenMs } = await readPages(ctx.pg, of, list);
  if (varies || provenMs === undefined || ctx.clock.now() - provenMs < trustedMs) return undefined;
  const perPage = await lookLength(ctx, of, stream);
  if (perPage < leastTelling) return undefined;
  const { counts } = await endsOf(ctx, of, stream, list);
  const ends: Ends = { ...(counts && { counts }), doubt: 'always' };
  return {
    list,
    size,
    stream: { ...stream, read: readNewest, paging: { ...stream.paging, perPage } },
    part: { fromMs: 0, walk: undefined, ends },
  };
}
