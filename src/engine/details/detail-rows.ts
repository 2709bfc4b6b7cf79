/** The rows of a stream of details, and of its parent, as the stream declares them. SQL is over `t`, a row of the parent. */

import type { ByIdStream, DetailStream, Name, Row, Stream } from '../../sources/source.ts';
import { isAhead } from '../commit/merge.ts';
import { readingOf } from '../database/open-candidates.ts';
import type { StreamKey } from '../database/stream-key.ts';

export type Detail = DetailStream<Row, Row>;
export type ById = ByIdStream<Row>;

export interface DetailRows {
  /** The table of the parent, and its columns. */
  readonly table: StreamKey;
  /** The time of the last change. */
  readonly version: string;
  /** As of when the members were read. */
  readonly asOf: string;
  /** The run that read them. */
  readonly by: string;
}

/** The details that come with each record of this stream; of a stream of details that are lists of their own, these. */
export const detailsBeside = (streams: readonly Stream[], key: StreamKey): Detail | undefined =>
  streams
    .filter(one => one.kind === 'detail')
    .find(details => (details.list === undefined ? details.of.key : details.key) === key);

/** What a person calls one record. */
export const unitOf = (stream: Detail | ById): string =>
  (stream.kind === 'detail' ? stream.of : stream).name.replace(/s$/, '');

/** Names that are due, by what a request embeds. Renames are silent changes, so names are read again. */
export type DueNames = Readonly<Record<string, readonly string[]>>;

/** A record to read. */
export interface Wanted {
  readonly id: string;
  /** The names that it mentions and that are due. */
  readonly due?: DueNames;
  /** Since when it waits, as text, if a list marked it. */
  readonly since?: string | null;
}

export function rowsOfParent({ key, name, of }: Pick<Detail, 'key' | 'name' | 'of'>): DetailRows {
  const { version } = of.merge.declared.root;
  if (version === undefined || !of.details?.includes(name)) throw new Error(`stream ${key} cannot be read in detail`);
  return { table: of.key, version, ...readingOf(name) };
}

/**
 * What the merge of a record keeps of the readings of its details. A late change may be dated before the last reading, although that did
 * not show the change: then the details are pending again.
 */
export function readingsIn(details: readonly string[], version: string) {
  const readings = details.map(name => readingOf(name).asOf);
  return {
    whenChanged: Object.fromEntries(
      readings.map(asOf => [
        asOf,
        `case when ${isAhead(`t.${asOf}`, 'excluded._observed_at')} then null
      when excluded.${version} <> t.${version} and excluded.${version} <= t.${asOf}
      then excluded.${version} - interval '1 millisecond' else t.${asOf} end`,
      ]),
    ),
    ours: Object.fromEntries(
      readings.map(asOf => [asOf, `case when not ${isAhead(`t.${asOf}`, '$4')} then t.${asOf} end`]),
    ),
  };
}

/** SQL: the ids that the row mentions, as an array. */
export const idsOf = ({ ids, many }: Pick<Name, 'ids' | 'many'>): string => (many ? `t.${ids}` : `array[t.${ids}]`);

/** SQL over `n`, a name: unknown, or last shown before this time. */
export const isDue = (before: string): string => `(n._observed_at is null or n._observed_at < ${before})`;
