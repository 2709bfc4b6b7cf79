/** How complete the rows are that a question reads, and whether that is enough for an answer without doubt. */
import type pg from 'pg';
import { count } from '../words.ts';

export interface Covered {
  readonly account: string;
  readonly stream: string;
  /** Null: complete from the beginning. */
  readonly complete_from: Date | null;
  /** Null: never read to its end. */
  readonly complete_through: Date | null;
  readonly gaps: readonly { readonly from: Date; readonly to: Date }[];
  readonly gap_count: number;
  /** Records whose details are still to be fetched. */
  readonly waiting: number;
  /** Records that could not be stored. */
  readonly open_rejects: number;
  /** Null: unknown. */
  readonly deletes_checked_at: Date | null;
  /** Changes that nobody announces are known up to this time; null: unknown. */
  readonly unchecked_since: Date | null;
  /** Why deletions can never be known; null if they can. */
  readonly deletions_unknown: string | null;
  /** Upper bound, in percent, of the rows that differ from the source (95 % confidence); null without an audit. */
  readonly differ_at_most_percent: number | null;
  readonly differ_as_of: Date | null;
}

const mostGaps = 3;

/** $1: accounts, null: all. $2: keys of streams, null: all streams whose source one of these accounts has. */
const askedStreams = {
  accounts: `select account_id from sync.accounts where $1::text[] is null or account_id = any ($1)`,
  keys: `case when $2::text[] is null
    then k.source in (select c.source from sync.coverage c join asked using (account_id)) else k.stream_key = any ($2) end`,
};

/**
 * One row for each account and stream, also where nothing was ever read. `keys` undefined: of all streams whose source one of
 * these accounts has. Gaps and rejects of a stream are also those of the stream that it follows, as in sync.require_complete.
 * Read before the question: what is complete then is complete in its answer.
 */
export async function readCovered(
  db: Pick<pg.Pool, 'query'>,
  accounts: readonly string[] | null,
  keys: readonly string[] | undefined,
): Promise<Covered[]> {
  const { rows } = await db.query<Covered>(
    `with asked as (${askedStreams.accounts})
     select a.account_id as account, sync.name_of(k.stream_key) as stream, s.complete_from, s.complete_through, g.gap_count, coalesce(s.waiting, 0)::int as waiting,
       (select count(*)::int from sync.rejects r
        where r.account_id = a.account_id and r.source = k.source and r.stream in (k.stream, k.follows) and r.cleared_at is null) as open_rejects,
       s.deletes_checked_at, s.unchecked_since, k.deletions as deletions_unknown, s.differ_at_most_percent::float8 as differ_at_most_percent, s.differ_as_of,
       to_jsonb(g.gaps[1:${mostGaps}]) as gaps
     from asked a cross join sync.streams k
     left join (
       select * from sync.status
       where account_id in (select account_id from asked) and ($2::text[] is null or stream_key = any ($2))) s using (account_id, stream_key)
     cross join lateral (
       select count(*)::int as gap_count,
         coalesce(array_agg(jsonb_build_object('from', h.gap_from, 'to', h.gap_to) order by h.gap_from), '{}') as gaps
       from sync.gaps h
       where h.account_id = a.account_id and h.source = k.source and h.stream in (k.stream, k.follows)) g
     where ${askedStreams.keys}
     order by a.account_id, k.place`,
    [accounts, keys ?? null],
  );
  return rows;
}

/**
 * Changes and deletions that are here and may be later than this moment. Other deletions since then are unknown, so rows with
 * such changes are of no one moment. Read after the question: its answer has no row that came later.
 */
export async function changesSince(
  db: Pick<pg.Pool, 'query'>,
  accounts: readonly string[] | null,
  keys: readonly string[] | undefined,
  asOf: Date,
): Promise<string[]> {
  const { rows } = await db.query<Pick<Covered, 'account' | 'stream'> & { newest: Date }>(
    `with asked as (${askedStreams.accounts})
     select a.account_id as account, sync.name_of(k.stream_key) as stream, c.newest
     from asked a cross join sync.streams k cross join lateral (
       select sync.newest_change(a.account_id, k.stream_key) as newest offset 0) c
     where ${askedStreams.keys} and c.newest > $3
     order by a.account_id, k.place`,
    [accounts, keys ?? null, asOf],
  );
  return rows.map(
    ({ account, stream, newest }) =>
      `${nameOf({ account, stream })}: changed, or known to be deleted, at ${at(newest)}, and deletions are known through ${at(asOf)} only`,
  );
}

const mostCovered = 40;

/**
 * Completeness of the rows of many accounts in one answer: the least complete ones, and the range in which all are
 * complete.
 */
export function briefly(covered: readonly Covered[]) {
  const through = ({ complete_through: time }: Covered) => time?.getTime() ?? Number.NEGATIVE_INFINITY;
  const least = [...covered].sort((one, other) => lacks(other) - lacks(one) || through(one) - through(other));
  const all = Math.min(...covered.map(through));
  const [from] = covered.flatMap(one => one.complete_from?.getTime() ?? []).sort((one, other) => other - one);
  return {
    completeness: covered.length > mostCovered ? least.slice(0, mostCovered) : covered,
    /** Null: all of them from the beginning. */
    all_complete_from: from === undefined ? null : new Date(from),
    /** Null: one of them was never read to its end. */
    all_complete_through: Number.isFinite(all) ? new Date(all) : null,
    ...(covered.length > mostCovered && { left_out: covered.length - mostCovered }),
  };
}

const lacks = ({ complete_through, gap_count, open_rejects, waiting }: Covered): number =>
  Number(complete_through === null || gap_count + open_rejects + waiting > 0);

/** The latest moment of which the changes and deletions of all these streams are known; null: there is none. */
export function knownAsOf(covered: readonly Covered[]): Date | null {
  const known = covered.flatMap(one => [one.complete_through, one.deletes_checked_at]);
  const times = known.map(time => time?.getTime() ?? Number.NEGATIVE_INFINITY);
  const least = Math.min(...times);
  return Number.isFinite(least) ? new Date(least) : null;
}

/** The times that a question is about: undefined: from the beginning, and through the moment of `knownAsOf`. */
export interface Span {
  readonly from: Date | undefined;
  readonly through: Date | undefined;
}

/** Why an answer would not be certain; empty if it is. */
export function doubts(covered: readonly Covered[], span: Span): string[] {
  if (covered.length === 0) return ['nothing of it is mirrored'];
  return covered.flatMap(one => {
    const what = doubtOf(one, span);
    return what === undefined ? [] : [`${nameOf(one)}: ${what}`];
  });
}

function doubtOf(one: Covered, { from, through }: Span): string | undefined {
  const { complete_from, complete_through, gaps, deletes_checked_at, deletions_unknown } = one;
  const [gap] = gaps;
  if (complete_through === null) return 'never read to the end';
  if (complete_from !== null && (from === undefined || from < complete_from))
    return `complete from ${at(complete_from)} on, not from ${from === undefined ? 'the beginning' : at(from)}`;
  if (through !== undefined && complete_through < through)
    return `complete through ${at(complete_through)}, not through ${at(through)}`;
  if (through === undefined && gap)
    return `${count(one.gap_count, 'gap')}, the first from ${at(gap.from)} to ${at(gap.to)}`;
  if (through === undefined && one.waiting > 0) return `${count(one.waiting, 'record')} still to be fetched`;
  if (one.open_rejects > 0) return `${count(one.open_rejects, 'record')} could not be stored`;
  if (deletions_unknown !== null) return `deletions are never known: ${deletions_unknown}`;
  if (deletes_checked_at === null) return 'deletions are not known: no sweep or full read has looked for all of them';
  if (through !== undefined && deletes_checked_at < through)
    return `deletions are known through ${at(deletes_checked_at)}, not through ${at(through)}`;
  return undefined;
}

const nameOf = ({ account, stream }: Pick<Covered, 'account' | 'stream'>) => `${stream} of the account ${account}`;
const at = (time: Date | string) => new Date(time).toISOString();
