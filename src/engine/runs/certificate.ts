/** The certificate of a hand-off: what is complete, as of the end of a run. Pure. */

/** Counts of a stream, over all runs that the hand-off is about. */
interface Rows {
  readonly seen: number;
  readonly inserted: number;
  readonly updated: number;
  readonly unchanged: number;
  readonly deleted: number;
  readonly rejected: number;
}

export interface CertifiedStream {
  /** The key of the stream. */
  readonly stream: string;
  /** Null: complete from the beginning. */
  readonly complete_from: Date | null;
  readonly complete_through: Date;
  readonly gaps: number;
  readonly open_rejects: number;
  /** Later deletions are not known. Null if none are. */
  readonly deletions_checked_at: Date | null;
  /** Later edits and deletions that the source does not announce are not known. Null if none are. */
  readonly unchecked_since: Date | null;
  /** Null without comparisons. */
  readonly differ_at_most_percent: number | null;
  readonly differ_as_of: Date | null;
  readonly rows: Rows;
  readonly credits: number;
}

/** A run that has ended, of an account that hands off. */
export interface HandedRun {
  readonly run: number;
  readonly account: string;
  readonly kind: string;
  readonly started_at: Date;
  readonly ended_at: Date;
  /** Unlike any other of this account in any warehouse. */
  readonly queue: string;
}

/** The message, as docs/how-to/hand-off.md documents it. */
export interface Certificate {
  readonly type: 'hand_off.complete';
  readonly id: string;
  readonly timestamp: string;
  readonly data: {
    readonly account: string;
    readonly run: number;
    readonly kind: string;
    readonly started_at: string;
    readonly ended_at: string;
    /** Start of the range in which all streams are complete; null: the beginning. */
    readonly complete_from: string | null;
    /** End of the range in which all streams are complete. */
    readonly complete_through: string;
    readonly rows: Rows;
    readonly credits: number;
    readonly streams: readonly Readonly<Record<string, unknown>>[];
  };
}

/**
 * Every repetition has the same id. Two warehouses that mirror one account have different ones. A restored backup gives
 * numbers of runs again, so the id has the start too.
 */
export const handOffId = ({ queue, run, started_at }: Pick<HandedRun, 'queue' | 'run' | 'started_at'>): string =>
  `handoff_${queue.replaceAll('-', '')}_${run}_${started_at.getTime()}`;

const iso = (at: Date | null) => at?.toISOString() ?? null;

const counts = ['seen', 'inserted', 'updated', 'unchanged', 'deleted', 'rejected'] as const;

/** `streams` has at least one stream. */
export function certify(handed: HandedRun, streams: readonly CertifiedStream[], issuedAt: Date): Certificate {
  const { run, account, kind, started_at, ended_at } = handed;
  const sum = (of: (one: CertifiedStream) => number) => streams.reduce((all, one) => all + of(one), 0);
  const rows = Object.fromEntries(counts.map(name => [name, sum(one => one.rows[name])])) as unknown as Rows;
  const first = Math.min(...streams.map(one => one.complete_through.getTime()));
  const begun = streams.flatMap(one => one.complete_from ?? []).sort((one, other) => other.getTime() - one.getTime());
  return {
    type: 'hand_off.complete',
    id: handOffId(handed),
    timestamp: issuedAt.toISOString(),
    data: {
      ...{ account, run, kind, started_at: started_at.toISOString(), ended_at: ended_at.toISOString() },
      complete_from: iso(begun[0] ?? null),
      complete_through: new Date(first).toISOString(),
      ...{ rows, credits: sum(one => one.credits) },
      streams: streams.map(one => ({
        ...one,
        complete_from: iso(one.complete_from),
        complete_through: iso(one.complete_through),
        deletions_checked_at: iso(one.deletions_checked_at),
        unchecked_since: iso(one.unchecked_since),
        differ_as_of: iso(one.differ_as_of),
      })),
    },
  };
}
