/** The members in the reply to a request for one record, as a batch. */

import type { Derived, DetailStream, Name, Row, Stream } from '../../sources/source.ts';
import type { Batch, Drift } from '../commit/page.ts';
import { digestOf } from '../commit/stored-sets.ts';
import { isOfRecord } from '../database/pool.ts';
import { check, type Reply, type Unreadable } from '../http/request.ts';
import { elementsOf, fieldsOf, objectOf } from '../json-text.ts';
import { arrayOf, brief, driftOf, once, sampleOf, valuesAt } from '../load/batch.ts';
import { shownIn } from './names.ts';

/** The members of a record that was fetched in detail, each checked by itself. */
export interface Members {
  readonly batch: Batch;
  readonly members: readonly Row[];
  readonly unreadable: readonly Unreadable[];
  readonly drift: readonly Drift[];
  /** The fields of the record, as JSON text. */
  readonly fields: () => ReadonlyMap<string, string>;
  /** Of all that is stored of the members. Undefined: one of them is unreadable. */
  readonly digest: () => string | undefined;
}

/** Runs before the transaction, because deriving values from members takes time. */
export async function detailBatch<P extends { id: string }, T extends { id: string }>(
  stream: DetailStream<P, T>,
  parent: P,
  { text, asOf }: Pick<Reply<P>, 'text' | 'asOf'>,
): Promise<Members> {
  const fields = once(() => fieldsOf(text));
  const shown = () => fields().get(stream.membersField) ?? '[]';
  const all = once(() => elementsOf(shown()));
  const members = new Map<number, { member: T; derived: Derived }>();
  const unreadable: Unreadable[] = [];
  const raw = stream.members(parent);
  for (const [place, one] of raw.entries()) {
    const checked = check(stream.member, one, place);
    if (!('readable' in checked)) unreadable.push(checked);
    else
      try {
        members.set(place, { member: checked.readable, derived: await stream.derive(checked.readable) });
      } catch (error) {
        if (!isOfRecord(error)) throw error;
        unreadable.push({ place, id: checked.readable.id, raw: one, reason: error.message, path: undefined });
      }
  }
  const id = JSON.stringify(parent.id);
  const only = (places: readonly number[]) => arrayOf(places.map(place => all()[place]!));
  const withParent = (member: string) => objectOf([...fieldsOf(member), ['_parent', id]]);
  const parameters = (places: readonly number[], asOfMs: number) =>
    stream.parameters(
      places.map(place => members.get(place)!.derived.value),
      places,
      asOfMs,
    );
  const digest = () =>
    unreadable.length > 0 ? undefined : digestOf(stream.merge, shown(), parameters([...members.keys()], 0));
  const batch: Batch = {
    ...{ merge: stream.merge, filter: stream.personal },
    records: [...members].map(([place, { member }]) => ({ place, id: member.id })),
    text: (places, care) =>
      stream.list
        ? arrayOf(places.map(place => withParent(all()[place]!)))
        : arrayOf([
            care === 'as it came' && places.length === raw.length
              ? text
              : objectOf([
                  ['id', id],
                  [stream.membersField, only(places)],
                ]),
          ]),
    record: place => all()[place]!,
    parameters: places => parameters(places, asOf),
    // With an unreadable member the set is incomplete, so no member counts as vanished.
    parents: unreadable.length === 0 ? [parent.id] : [],
  };
  const readable = [...members.values()];
  const drift = [...readable.flatMap(derivedDrift), ...stream.names.flatMap(name => driftOfNames(name, parent))];
  return { batch, members: readable.map(({ member }) => member), unreadable, drift, fields, digest };
}

/** An unreadable name affects nothing else. */
function driftOfNames(name: Name, parent: Row): Drift[] {
  const checked = shownIn(name, parent).map((one, place) => check(name.record, one, place));
  const named = checked.flatMap(one => ('readable' in one ? [one.readable] : []));
  const unreadable = checked.flatMap(one => ('readable' in one ? [] : [one]));
  const described = { fields: new Set(named.flatMap(one => Object.keys(one))), enumerations: {}, sets: ['id'] };
  return driftOf(described, named, unreadable, true).map(one => ({ ...one, path: brief(`${name.embed}.${one.path}`) }));
}

function derivedDrift({ member, derived: { drift } }: { member: Row; derived: Derived }): Drift[] {
  return drift === undefined ? [] : [{ ...drift, value: '', seen: 1, ...sampleOf(member) }];
}

/** The ids of these members, and of what is in them, as the stream names them in `sets`. */
export const idsIn = ({ sets }: Pick<Stream, 'sets'>, members: readonly object[]): string[] =>
  members.flatMap(member => sets.flatMap(path => valuesAt(member, path.split('.')).map(id => `${path} ${id}`)));
