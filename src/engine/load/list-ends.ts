/** How the end of a list is found by a reading that begins now (see reading/ends.ts). */
import type { ListStream, Row } from '../../sources/source.ts';
import type { Context } from '../context.ts';
import { readPosition } from '../coverage/coverage.ts';
import { type KnownPages, readPages } from '../coverage/pages.ts';
import { idsOfLive } from '../deletions/absence.ts';
import { readNewest } from '../reading/ends.ts';
import type { Ends } from '../reading/reading.ts';
import { readWhole } from '../reading/whole-list.ts';
import type { Claim } from '../runs/claims.ts';

type Key = Pick<Claim, 'account' | 'stream'>;

/** What is known of the pages of a list: ends that were never proven are counted. A list that is counted costs more. */
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
  return { ...pages, counts, known, ...(pages.provenMs === undefined && { doubt: 'always' }) };
}

/** How long the pages of a list are trusted: until the next night, even if that begins a little earlier. */
const trustedMs = 20 * 3_600_000;
/** A page of fewer records than the default of the specification tells nothing. */
const leastTelling = 10;

/**
 * The look at a page of the newest records, for one credit, if it is due: it shows whether pages are still as long as they
 * are asked to be, for all lists of the source. Otherwise what they claimed since the look before is taken back.
 */
export async function lookOf<T extends Row>(ctx: Context, of: Key, stream: ListStream<T>) {
  const { newestFirst, paging } = stream;
  if (newestFirst === undefined) return undefined;
  const [{ name: list }] = stream.lists;
  const { firstLoad } = await readPosition(ctx.pg, of, list, stream.fromTheBeginning);
  const ends = await endsOf(ctx, of, stream, list);
  if (firstLoad || ends.varies || ctx.clock.now() - (ends.provenMs ?? -Infinity) < trustedMs) return undefined;
  const perPage = Math.min(paging.perPage, await newestFirst.stored(ctx.pg, of.account));
  if (perPage < leastTelling) return undefined;
  const doubted: Ends = { ...ends, doubt: 'always' };
  return {
    list,
    stream: { ...stream, read: readNewest, paging: { ...paging, perPage } },
    part: { fromMs: 0, walk: undefined, ends: doubted },
  };
}
