/** SQL made of the facts that a stream declares about its stored rows, over `t`, a row. */
import type { ListStream, Lively, Part, Row, RowFacts } from '../../sources/source.ts';
import type { Merge, Table } from '../commit/merge.ts';
import { lastShown, readingOf } from '../database/open-candidates.ts';
import type { Ms } from '../reading/reading.ts';

export function factsOf({ key, rowFacts }: Pick<ListStream<Row>, 'key' | 'rowFacts'>): RowFacts {
  if (rowFacts === undefined) throw new Error(`stream ${key} cannot be swept`);
  return rowFacts;
}

/** The creation time, or its bound. */
export const createdAt = ({ created }: RowFacts, row = 't.'): string =>
  `${row}${'at' in created ? created.at : created.before}`;

/** A time by which the record existed. */
export const existedAt = (facts: RowFacts): string =>
  `least(${createdAt(facts)}, t._observed_at${facts.provenBy === undefined ? '' : `, ${facts.provenBy}`})`;

/** The parts that records show themselves. */
export const ownParts = ({ declared }: Pick<Merge, 'declared'>): Part[] =>
  declared.others.filter((table): table is Table & Part => table.parent !== undefined);

/** What a deletion needs to know of the stream. */
export type Mortal = Pick<ListStream<Row>, 'merge' | 'rowFacts' | 'details' | 'parts'>;

/** The parts that die with a record. */
export const partsOf = (stream: Pick<ListStream<Row>, 'merge' | 'parts'>): Part[] => [
  ...ownParts(stream.merge),
  ...(stream.parts ?? []),
];

/** Further columns that a tombstone sets: the earliest time of the deletion, and columns that it clears. */
export function tombstoneOf(stream: Mortal, lookbackMs: number): string {
  const { rowFacts } = stream;
  if (rowFacts === undefined) return clearing(stream);
  const after = `least($3, ${lastShown(rowFacts, '')} - ${lookbackMs} * interval '1 millisecond')`;
  return `, _deleted_after = ${after}${clearing(stream)}`;
}

/** Sets the columns to null that a tombstone clears. */
export const clearing = ({ details = [] }: Pick<Mortal, 'details'>): string =>
  details
    .map(readingOf)
    .map(({ asOf, by }) => `, ${asOf} = null, ${by} = null`)
    .join('');

type Lists = Pick<ListStream<Row>, 'lists'>;

const flagged = ({ lists }: Lists) => lists.flatMap(({ name, flag }) => (flag === undefined ? [] : [{ name, flag }]));

/** Whether the row belongs to a list of its own, and the first list may hide it. $1 account, $2 stream. */
const hidden = ({ name, flag }: { name: string; flag: string }) => `(coalesce(t.${flag}, false) and exists (
      select from sync.coverage c
      where (c.account_id, c.stream_key, c.list) = ($1, $2, '${name}') and not c.redundant))`;

/** Whether this list shows the row, if rows of the stream are in different lists. `list`: SQL. */
export function shownIn(stream: Lists & Pick<ListStream<Row>, 'key'>, list: string): string {
  const own = flagged(stream);
  if (own.length === 0) return 'true';
  return `case ${list}
    ${own.map(({ name, flag }) => `when '${name}' then coalesce(t.${flag}, false)`).join('\n    ')}
    else not exists (
      select from sync.coverage c
      where c.account_id = t.account_id and c.stream_key = '${stream.key}' and not c.redundant
        and (${own.map(({ name, flag }) => `c.list = '${name}' and t.${flag}`).join(' or ')})) end`;
}

/** What a lively list shows now: records that changed since `sinceMs`, which of our rows are those of `rows` in SQL. */
export function shownBy(
  { merge }: Pick<ListStream<Row>, 'merge'>,
  { where, changedWithinMs }: Lively,
  nowMs: Ms,
): { sinceMs: Ms; rows: string } {
  if (changedWithinMs === undefined) return { sinceMs: 0, rows: where };
  const sinceMs = nowMs - changedWithinMs;
  return { sinceMs, rows: `${where} and t.${merge.declared.root.version} >= '${new Date(sinceMs).toISOString()}'` };
}

/** The rows that the list must show. `lively`: where the list is a lively one. $1 account, $2 stream. */
export function mustShow(stream: Lists, list: string, lively: string | undefined): string {
  const own = flagged(stream);
  const one = own.find(({ name }) => name === list);
  if (one) return `t.${one.flag}`;
  const others =
    lively !== undefined
      ? [lively, ...own.map(({ flag }) => `not coalesce(t.${flag}, false)`)]
      : own.map(other => `not ${hidden(other)}`);
  return others.length === 0 ? 'true' : others.join(' and ');
}
