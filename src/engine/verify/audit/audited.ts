/**
 * What the audit of a source reads. It follows from what the streams declare: a stream of which a sample can be compared is audited, if its
 * list shows the time of a change, and so are the details of its records.
 */
import type { Declared, Stream } from '../../../sources/source.ts';
import type { Context, OpenSource } from '../../context.ts';
import type { StreamKey } from '../../database/stream-key.ts';
import { detailsBeside, rowsOfParent } from '../../details/detail-rows.ts';

/** Whether a sample of it can be compared: its records, or the details of each, can be asked for one by one. */
export const isSampled = (stream: Declared): boolean => {
  if (stream.kind === 'detail') return stream.list !== undefined;
  return stream.kind !== 'list' || stream.get !== undefined;
};

/** Where a list shows no time of change, an edit waits for a sweep. That is lag, and no difference. */
export const isAudited = (stream: Declared): boolean =>
  isSampled(stream) && (stream.kind !== 'list' || stream.merge.declared.root.version !== undefined);

export interface Audited {
  /** The streams of a run. */
  readonly streams: readonly StreamKey[];
  /** All that the run compares. If one of them is paused, no audit starts. */
  readonly compared: readonly StreamKey[];
  /** SQL with $1 = account. Returns a row if the warehouse holds records to compare. */
  readonly isThere: string;
}

/** Undefined: the source has no audit, or its settings want none. */
export function auditedOf(
  { streams, sweep: { share = 0 } }: Pick<Context, 'streams' | 'sweep'>,
  { name, audit }: Pick<OpenSource, 'name' | 'audit'>,
): Audited | undefined {
  if (audit === undefined) return undefined;
  const all = streams
    .filter(stream => stream.source === name && isAudited(stream))
    .map(stream => ({ stream, details: detailsBeside(streams, stream.key) }));
  const wanted = all.filter(
    ({ details }) =>
      audit.perHour > 0 || (details && details.ageMs === undefined && (audit.againMs !== undefined || share > 0)),
  );
  if (wanted.length === 0) return undefined;
  return {
    streams: wanted.map(({ stream }) => stream.key),
    compared: [
      ...new Set(
        wanted.flatMap(({ stream, details }) => [stream.key, ...(details ? [details.key, details.of.key] : [])]),
      ),
    ],
    isThere: all.map(rowsToCompare).join(' union all '),
  };
}

function rowsToCompare({ stream, details }: { stream: Stream; details: ReturnType<typeof detailsBeside> }): string {
  const rows = (table: StreamKey, where: string) => `select from ${table} t where t.account_id = $1 and t.${where}`;
  if (details) return rows(details.of.key, `${rowsOfParent(details).asOf} is not null`);
  if (stream.kind === 'by id') return rows(stream.key, `${stream.rows.checkedAt} is not null`);
  return rows(stream.key, '_deleted_at is null');
}
