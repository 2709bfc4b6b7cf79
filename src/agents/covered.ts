/** How complete the rows are that a question reads, and whether that is enough for an answer without doubt. */
import type pg from 'pg';
import { count } from '../words.ts';

export interface Covered {
  readonly account: string;
  readonly stream: string;
  /** Null: never read to its end. */
  readonly complete_through: Date | null;
  readonly gaps: readonly { readonly from: Date; readonly to: Date }[];
  readonly gap_count: number;
  /** Records whose details are still to be fetched. */
  readonly waiting: number;
  /** Records that could not be stored. */
  readonly open_rejects: number;
  readonly deletes_checked_at: Date | null;
  /** Upper bound, in percent, of the rows that differ from the source (95 % confidence); null without an audit. */
  readonly differ_at_most_percent: number | null;
  readonly differ_as_of: Date | null;
}

const mostGaps = 3;

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
    `with asked as (select account_id from sync.accounts where $1::text[] is null or account_id = any ($1))
     select a.account_id as account, k.stream, s.complete_through, g.gap_count, coalesce(s.waiting, 0)::int as waiting,
       (select count(*)::int from sync.rejects r
        where r.account_id = a.account_id and r.source = k.source and r.stream in (k.stream, k.follows) and r.cleared_at is null) as open_rejects,
       s.deletes_checked_at, s.differ_at_most_percent::float8 as differ_at_most_percent, s.differ_as_of,
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
     where case when $2 is null
       then k.source in (select c.source from sync.coverage c join asked using (account_id)) else k.stream_key = any ($2) end
     order by a.account_id, k.place`,
    [accounts, keys ?? null],
  );
  return rows;
}

/** What an answer says of many accounts: the least complete rows, and the time through which all are complete. */
export interface Brief {
  readonly completeness: readonly Covered[];
  /** Null: one of them was never read to its end. */
  readonly all_complete_through: Date | null;
  /** Rows that are not among these. */
  readonly left_out?: number;
}

const mostCovered = 40;

export function briefly(covered: readonly Covered[]): Brief {
  const through = ({ complete_through: time }: Covered) => time?.getTime() ?? Number.NEGATIVE_INFINITY;
  const least = [...covered].sort((one, other) => lacks(other) - lacks(one) || through(one) - through(other));
  const all = Math.min(...covered.map(through));
  return {
    completeness: covered.length > mostCovered ? least.slice(0, mostCovered) : covered,
    all_complete_through: Number.isFinite(all) ? new Date(all) : null,
    ...(covered.length > mostCovered && { left_out: covered.length - mostCovered }),
  };
}

const lacks = ({ complete_through, gap_count, open_rejects, waiting }: Covered): number =>
  Number(complete_through === null || gap_count + open_rejects + waiting > 0);

/**
 * Why an answer would not be certain; empty if it is. `through`: the latest time that the question is about. Without it the
 * question is about all rows that are here, as far as they are complete.
 */
export function doubts(covered: readonly Covered[], through: Date | undefined): string[] {
  if (covered.length === 0) return ['nothing of it is mirrored'];
  return covered.flatMap(({ account, stream, complete_through, gap_count, gaps, open_rejects, waiting }) => {
    const [first] = gaps;
    const what =
      complete_through === null
        ? 'never read to the end'
        : through !== undefined && complete_through < through
          ? `complete through ${at(complete_through)}, not through ${at(through)}`
          : through === undefined && first
            ? `${count(gap_count, 'gap')}, the first from ${at(first.from)} to ${at(first.to)}`
            : through === undefined && waiting > 0
              ? `${count(waiting, 'record')} still to be fetched`
              : open_rejects > 0
                ? `${count(open_rejects, 'record')} could not be stored`
                : undefined;
    return what === undefined ? [] : [`${stream} of the account ${account}: ${what}`];
  });
}

const at = (time: Date | string) => new Date(time).toISOString();
