/** Turns a reply into a batch for the warehouse. Pure. */

import type { ListStream, Row, Stream } from '../../sources/source.ts';
import { type Merge, shortName } from '../commit/merge.ts';
import type { Batch, Care, Drift, Reject } from '../commit/page.ts';
import { storable } from '../commit/rejects.ts';
import { parseJson } from '../exact-json.ts';
import { type IdTypes, parsed, type Reply, type Unreadable } from '../http/request.ts';
import { cleanText, elementsOf, fieldsOf, jsonOf } from '../json-text.ts';
import type { Ask, Page } from '../reading/reading.ts';

type Stored = Pick<Stream, 'merge' | 'personal'>;

/** The part of a reply that the reading of a list needs, for a request of this order. */
export function pageOf(
  stream: Pick<ListStream<Row>, 'orderedBy'>,
  reply: Reply<Row>,
  order: Ask['order'] = undefined,
): Page {
  return {
    arrived: reply.arrived,
    rows: reply.records.map(record => ({ id: record.id, time: stream.orderedBy(record, order) })),
    ...(reply.unreadable.length > 0 && { borders: bordersOf(reply) }),
    asOf: reply.asOf,
    trueBy: reply.trueBy,
    total: reply.total,
    next: reply.next,
  };
}

function bordersOf({ records, unreadable, arrived }: Reply<Row>): NonNullable<Page['borders']> {
  const at = (place: number, readable: Row | undefined) => {
    const one = unreadable.find(other => other.place === place);
    return one === undefined ? readable?.id : one.id;
  };
  return [at(0, records[0]), at(arrived - 1, records.at(-1))];
}

export function listBatch(stream: ListStream<Row>, ask: Ask, reply: Reply<Row>): Batch {
  // A batch that waits holds no parsed records, and no text.
  const { bytes = Buffer.from(reply.text), arrived, shownBy } = reply;
  const all = once(() => elementsOf(`${bytes}`));
  return {
    ...{ merge: stream.merge, filter: stream.personal },
    records: readable(reply.records, reply.unreadable),
    text: places => (places.length === arrived ? `${bytes}` : arrayOf(places.map(place => all()[place]!))),
    bytes: places => (places.length === arrived ? bytes : undefined),
    record: place => all()[place]!,
    parameters: () => stream.parameters?.(ask, shownBy) ?? [],
  };
}

/** The batch of one record that was fetched by id. */
export function singleBatch(
  stream: Stored & Partial<Pick<ListStream<Row>, 'parameters'>>,
  reply: Pick<Reply<Row>, 'records' | 'text' | 'shownBy'>,
): Batch {
  return {
    ...{ merge: stream.merge, filter: stream.personal },
    records: reply.records.map((record, place) => ({ place, id: record.id })),
    text: () => `[${reply.text}]`,
    record: () => reply.text,
    parameters: () => stream.parameters?.({}, reply.shownBy) ?? [],
  };
}

/** One batch of the records that several replies show in `items`. An unreadable record keeps its place. */
export function itemsBatch(
  stream: Stored,
  replies: readonly Reply<Row>[],
): { batch: Batch; unreadable: readonly Unreadable[] } {
  const all = once(() => replies.flatMap(reply => elementsOf(fieldsOf(reply.text).get('items') ?? '[]')));
  const records: { place: number; id: string }[] = [];
  const unreadable: Unreadable[] = [];
  let before = 0;
  for (const reply of replies) {
    const shift = <P extends { place: number }>(one: P): P => ({ ...one, place: before + one.place });
    records.push(...readable(reply.records, reply.unreadable).map(shift));
    unreadable.push(...reply.unreadable.map(shift));
    before += reply.arrived;
  }
  const batch: Batch = {
    ...{ merge: stream.merge, filter: stream.personal },
    records,
    text: places => arrayOf(places.map(place => all()[place]!)),
    record: place => all()[place]!,
    parameters: () => [],
  };
  return { batch, unreadable };
}

/**
 * One batch of the records of these batches of one stream, for a merge of all of them as they came. Parameters that are lists are
 * joined, and the others are those of the first.
 */
export function joinBatches(batches: readonly Batch[]): Batch {
  const records = batches.flatMap(batch => batch.records).map(({ id }, place) => ({ place, id }));
  const all = once(() => batches.flatMap(batch => batch.records.map(({ place }) => ({ batch, place }))));
  const record = (place: number) => {
    const one = all()[place]!;
    return one.batch.record(one.place);
  };
  const placesOf = (batch: Batch) => batch.records.map(({ place }) => place);
  const inner = (batch: Batch, care: Care) => batch.text(placesOf(batch), care).trim().slice(1, -1);
  const came = (batch: Batch) =>
    batch.bytes?.(placesOf(batch)) ?? Buffer.from(batch.text(placesOf(batch), 'as it came'));
  const parameters = once(() => {
    const [first = [], ...rest] = batches.map(batch => batch.parameters(placesOf(batch)));
    return first.map((one, i) => (Array.isArray(one) ? [one, ...rest.map(each => each[i])].flat() : one));
  });
  return {
    ...batches[0]!,
    records,
    text: (places, care) =>
      places.length === records.length
        ? `[${batches.map(batch => inner(batch, care)).join(',')}]`
        : arrayOf(places.map(record)),
    bytes: places => (places.length === records.length ? joined(batches.map(came)) : undefined),
    record,
    parameters,
  };
}

/** One array of the elements of these. */
const joined = (arrays: readonly Buffer[]): Buffer =>
  Buffer.concat([
    ...arrays.flatMap((one, i) => [
      mark[i === 0 ? '[' : ','],
      one.subarray(one.indexOf('[') + 1, one.lastIndexOf(']')),
    ]),
    mark[']'],
  ]);
const mark = { '[': Buffer.from('['), ',': Buffer.from(','), ']': Buffer.from(']') };

/** The same batch, reduced to ids for these records. */
export function bareBatch(batch: Batch, ids: ReadonlySet<string>): Batch {
  const bare = new Map(batch.records.filter(({ id }) => ids.has(id)).map(({ place, id }) => [place, id]));
  const record = (place: number) => (bare.has(place) ? JSON.stringify({ id: bare.get(place) }) : batch.record(place));
  return { ...batch, record, text: places => arrayOf(places.map(record)), bytes: () => undefined };
}

/** A batch that is written whatever the versions are, with all members. */
export function byForce(batch: Batch): Batch {
  return {
    ...batch,
    isForced: true,
    parents: batch.parents ?? batch.records.map(({ id }) => id),
  };
}

/** A batch of ids alone, for rows that cannot be stored and do not exist yet, though other rows hang on them. */
export function idsBatch(merge: Merge, batch: Batch, ids: ReadonlySet<string>): Batch {
  return { ...bareBatch(batch, ids), merge, records: batch.records.filter(({ id }) => ids.has(id)) };
}

/** Readable records keep their places. Unreadable ones leave gaps. */
function readable(
  records: readonly { id: string }[],
  unreadable: readonly Unreadable[],
): { place: number; id: string }[] {
  const gaps = new Set(unreadable.map(({ place }) => place));
  let place = -1;
  return records.map(({ id }) => {
    do place++;
    while (gaps.has(place));
    return { place, id };
  });
}

/** A record that does not parse. `askId` is the id that fetches it again. */
export function rejectOf({ id, place, reason, path }: Unreadable, batch: Batch, askId = id): Reject {
  return { recordId: id, askId, reason, path, payload: batch.record(place), place };
}

export const arrayOf = (texts: readonly string[]) => `[${texts.join(',')}]`;

export function once<T>(make: () => T): () => T {
  let made: { it: T } | undefined;
  return () => {
    made ??= { it: make() };
    return made.it;
  };
}

const anyId: IdTypes = ['string', 'number'];

/** Kinds of difference that one reply may report by name. All further ones count as one kind. */
const mostKinds = 100;

/**
 * Differences from the specification (fields, values, types), ids that come twice, and characters that could not be
 * stored. `isCleaned`: whether such characters were replaced; `notUtf8`: U+FFFD stands for bytes that are not UTF-8.
 * Otherwise nothing searches for them.
 */
export function driftOf(
  stream: Pick<Stream, 'fields' | 'enumerations' | 'expected' | 'sets'>,
  records: readonly object[],
  unreadable: readonly Unreadable[],
  isCleaned: boolean,
  notUtf8 = false,
): Drift[] {
  const found = new Map<string, Drift>();
  const note = (kind: Drift['kind'], record: unknown, wholePath: string, wholeValue = '', times = 1) => {
    const told = JSON.stringify([kind, brief(wholePath), brief(wholeValue)]);
    const key = found.has(told) || found.size < mostKinds ? told : JSON.stringify([kind, '…', '']);
    const [, path, value] = parseJson(key) as [string, string, string];
    const before = found.get(key);
    found.set(
      key,
      before ? { ...before, seen: before.seen + times } : { kind, path, value, seen: times, ...sampleOf(record) },
    );
  };
  const enumerations = Object.entries(stream.enumerations).map(([path, known]) => ({
    ...{ path, names: path.split('.'), known: new Set(known) },
  }));
  for (const record of records) {
    for (const field in record) if (!stream.fields.has(field)) note('unknown_field', record, field);
    for (const { path, names, known } of enumerations) {
      // Most values are texts of the record itself, and known: nothing is made for them.
      if (names.length === 1 && known.has((record as Record<string, string>)[path]!)) continue;
      for (const one of valuesAt(record, names)) if (!known.has(one)) note('unknown_value', record, path, one);
    }
    for (const { path } of (stream.expected && parsed(stream.expected, record, anyId).error?.issues) ?? [])
      note('wrong_type', record, path.join('.'));
  }
  for (const { path, raw } of unreadable) note('wrong_type', raw, path ?? '');
  for (const path of stream.sets) for (const record of repeated(records, path)) note('repeated_id', record, path);
  const search = (value: string, countIn: (text: string) => number) => {
    for (const record of records)
      for (const [path, characters] of textsWith(record, countIn)) note('unstorable', record, path, value, characters);
  };
  if (isCleaned) search('', text => cleanText(text).cleaned);
  if (notUtf8) search('not UTF-8', text => text.split('\ufffd').length - 1);
  return [...found.values()];
}

/**
 * Yields the path of each text with such characters, and their number. Elements of a list have the path of the list.
 * Handles any depth.
 */
function* textsWith(record: object, countIn: (text: string) => number): Generator<[path: string, characters: number]> {
  const left: [path: string, value: unknown][] = [['', record]];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const [path, value] = next;
    const texts = typeof value === 'string' ? [value] : [];
    if (Array.isArray(value)) for (const element of value.toReversed()) left.push([path, element]);
    else if (typeof value === 'object' && value !== null)
      for (const [name, part] of Object.entries(value).toReversed()) {
        // A long path is cut at its beginning.
        const below = path.length > longestPath ? path : path === '' ? name : `${path}.${name}`;
        if (countIn(name) > 0) left.push([below, name]);
        left.push([below, part]);
      }
    for (const text of texts) {
      const characters = countIn(text);
      if (characters > 0) yield [path, characters];
    }
  }
}

/** Rows that moved from another parent record. */
export function driftOfTaken(
  { merge }: { readonly merge: Merge },
  takenOver: Readonly<Record<string, number>>,
): Drift[] {
  const root = shortName(merge.declared.root);
  return Object.entries(takenOver)
    .filter(([, seen]) => seen > 0)
    .map(([table, seen]) => ({
      kind: 'repeated_id',
      path: table === root ? 'id' : `${table}.id`,
      value: 'of another record',
      seen,
    }));
}

/** Records whose id at this path came before in the page. Only the last record of an id is stored. */
function repeated(records: readonly object[], path: string): object[] {
  const met = new Set<string>();
  const names = path.split('.');
  return records.filter(record => {
    const value = (record as Record<string, unknown>)[path];
    if (typeof value === 'string' && names.length === 1) {
      const isMet = met.has(value);
      met.add(value);
      return isMet;
    }
    // Many tickets share a label.
    if (Array.isArray(value)) return hasTwice(value);
    const ids = valuesAt(record, names);
    const isRepeated = hasTwice(ids) || ids.some(id => met.has(id));
    for (const id of ids) met.add(id);
    return isRepeated;
  });
}

/** Usual lists are short, and nothing is made for them. */
function hasTwice(values: readonly unknown[]): boolean {
  const isText = (one: unknown) => typeof one === 'string';
  if (values.length <= 16) return values.some((one, i) => isText(one) && values.indexOf(one) < i);
  const texts = values.filter(isText);
  return new Set(texts).size < texts.length;
}

/** A record that is nested too deep to be written has no sample. */
export function sampleOf(record: unknown): { sample?: string } {
  const sample = jsonOf(record);
  return sample === undefined ? {} : { sample };
}

const longestPath = 100;
export const brief = (text: string) => storable(text.slice(0, longestPath));

/** The text at `a`, at `a.b`, or at `a.b` of every element of `a`. */
export function valuesAt(record: object, names: readonly string[], at = 0): string[] {
  const value = (record as Record<string, unknown>)[names[at]!];
  if (at === names.length - 1) return typeof value === 'string' ? [value] : [];
  const within = Array.isArray(value) ? value : [value];
  return within.flatMap(one => (typeof one === 'object' && one !== null ? valuesAt(one, names, at + 1) : []));
}
