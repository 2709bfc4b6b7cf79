/** The sources. This is the only place that names them: a new source is one line here. */
import { books } from './books/books.ts';
import { helpdesk } from './helpdesk/helpdesk.ts';
import type { Source, Stream } from './source.ts';

export const sources: readonly Source[] = [helpdesk, books];

/** All streams, in the order of a full sync. */
export const streams: readonly Stream[] = sources.flatMap(source => source.streams);

/** The streams of these sources. */
export const streamsOf = (names: ReadonlySet<string>): readonly Stream[] =>
  streams.filter(({ source }) => names.has(source));

export const streamNames = streams.map(stream => stream.name);

/** Throws if this version knows no stream of the name: the job of a newer version. */
export function streamOf(name: string): Stream {
  const stream = streams.find(one => one.name === name);
  if (stream === undefined) throw new Error(`this version of Shelfdesk knows no stream ${name}`);
  return stream;
}
