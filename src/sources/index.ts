/** The sources of this process. Only this file names those of the program, a line each; those of one's own come from a folder. */
import { z } from 'zod';
import { ownSources } from '../app/files/own-sources.ts';
import { nameOfKey, type StreamKey, streamKey, tellApart } from '../engine/database/stream-key.ts';
import { UsageError } from '../errors.ts';
import { ownTables } from '../lake/own-tables.ts';
import type { LakeTable } from '../lake/table.ts';
import type { Kind, Kinds } from '../privacy/fields/field-rules.ts';
import { books } from './books/books.ts';
import { helpdesk } from './helpdesk/helpdesk.ts';
import { kindsOf } from './record/kinds.ts';
import { announcedBy, type Source, type Stream } from './source.ts';

const all = [helpdesk, books] as const;

const own = await ownSources();

export const sources = [...all, ...own.map(({ source }) => source)] as readonly Source<object, SourceConfig>[];

for (const [i, { name }] of sources.entries()) {
  const first = sources.findIndex(one => one.name === name);
  if (first === i) continue;
  const [one, other] = [i, first].map(place => own[place - all.length]?.file ?? 'the program');
  throw new UsageError(
    `the source of ${one} has the name ${name}, as the one of ${other}`,
    'Give one of them another name.',
  );
}

/** The file that declares a source of one's own. */
export const fileOfSource = (source: object): string | undefined => own.find(one => one.source === source)?.file;

/** The configuration that all sources add to an account. */
export type SourceConfig = Intersection<
  (typeof all)[number] extends infer S ? (S extends Source<infer C> ? C : never) : never
>;

type Intersection<U> = (U extends unknown ? (one: U) => void : never) extends (all: infer I extends object) => void
  ? I
  : never;

/** All streams, in the order of a full sync. */
export const streams: readonly Stream[] = sources.flatMap(source => source.streams);

/** A stream that is fetched by id follows the schedule of its list. */
export function scheduleOf(stream: Stream): Stream['schedule'] {
  const announcer = announcedBy(stream);
  if (announcer === null) return stream.schedule;
  return streams.find(({ name, source }) => name === announcer && source === stream.source)!.schedule;
}

/** The freshness target of a stream. Details that a minute announces may take longer than the minute's list. */
export const targetOf = (stream: Stream): string => {
  const usual = scheduleOf(stream).includes('fresh') ? (announcedBy(stream) === null ? '5m' : '15m') : '26h';
  return stream.target ?? usual;
};

/** The kinds of records of a source, by key. */
const keyedKinds = (source: Source<object, SourceConfig>): [string, Kind][] =>
  Object.entries(kindsOf(source)).map(([name, kind]) => {
    const within = Object.entries(kind.within).map(([field, inner]) => [field, streamKey(source.name, inner)]);
    return [streamKey(source.name, name), { ...kind, within: Object.fromEntries(within) }];
  });

/** The kinds of records of all sources. */
export const kinds: Kinds = Object.fromEntries(sources.flatMap(keyedKinds));

/** All tables of the lake. */
export const lakeTables: readonly LakeTable[] = [...ownTables, ...sources.flatMap(source => source.lakeTables ?? [])];

/** The streams of the named sources. */
export const streamsOf = (names: Pick<ReadonlySet<string>, 'has'>): readonly Stream[] =>
  streams.filter(({ source }) => names.has(source));

tellApart(streams.map(({ key }) => key));

/** The streams as people name them. */
export const streamNames = streams.map(({ key }) => nameOfKey(key));

/** The stream of a key. Throws Error if this version has no such stream: a newer version may have created the job. */
export function streamOf(key: StreamKey): Stream {
  const stream = streams.find(one => one.key === key);
  if (stream === undefined) throw new Error(`this version of Shelfdesk knows no stream ${key}`);
  return stream;
}

/** The stream with this key, or with this short name if only one source uses that name. */
export function findStream(name: string): Stream | undefined {
  const named = streams.filter(one => one.key === name || one.name === name);
  return named.length === 1 ? named[0] : undefined;
}

/** Parses the stream of a job to a stream key. Jobs of older versions carry the short name. */
export const jobStream = z.string().transform(name => findStream(name)?.key ?? (name as StreamKey));
