/** The sources. This is the only place that names them: a new source is one line here. */
import { z } from 'zod';
import type { StreamKey } from '../engine/database/stream-key.ts';
import { books } from './books/books.ts';
import { helpdesk } from './helpdesk/helpdesk.ts';
import type { Source, Stream } from './source.ts';

const all = [helpdesk, books] as const;

export const sources: readonly Source<object, SourceConfig>[] = all;

/** What the sources add to the configuration of an account. */
export type SourceConfig = Intersection<
  (typeof all)[number] extends infer S ? (S extends Source<infer C> ? C : never) : never
>;

type Intersection<U> = (U extends unknown ? (one: U) => void : never) extends (all: infer I extends object) => void
  ? I
  : never;

/** All streams, in the order of a full sync. */
export const streams: readonly Stream[] = sources.flatMap(source => source.streams);

/** The streams of these sources. */
export const streamsOf = (names: ReadonlySet<string>): readonly Stream[] =>
  streams.filter(({ source }) => names.has(source));

export const streamNames = streams.map(stream => stream.name);

/** Throws if this version knows no stream of the key: the job of a newer version. */
export function streamOf(key: StreamKey): Stream {
  const stream = streams.find(one => one.key === key);
  if (stream === undefined) throw new Error(`this version of Shelfdesk knows no stream ${key}`);
  return stream;
}

/** The stream of a key, or of a short name that only one source has. */
export function findStream(name: string): Stream | undefined {
  const named = streams.filter(one => one.key === name || one.name === name);
  return named.length === 1 ? named[0] : undefined;
}

/** The stream of a job, as its key. Jobs of older versions carry a short name. */
export const jobStream = z.string().transform(name => findStream(name)?.key ?? (name as StreamKey));
