/**
 * Shelves of users and of the own library, and the volumes on them. The list of shelves is short and has no order, so
 * it is read whole. A shelf is read when the list shows a change of it, and after a maximum age.
 */

import { buildMerge, derived, page, type Table, text } from '../../../engine/commit/merge.ts';
import { factsOf } from '../../record/check.ts';
import { columnsOf, leftOutOf } from '../../record/columns.ts';
import { identify, type ShelfStream } from '../../source.ts';
import { getShelf, listShelves, listVolumes, paging } from '../endpoints.ts';
import { type Shelf, shelf, type Volume, volume } from '../records.ts';
import { listed, listedIfAbsent, volumes } from '../volumes/volumes.ts';

const table: Table = {
  name: 'books.shelves',
  from: page,
  key: ['owner_id', 'id'],
  leftOut: leftOutOf(shelf),
  oneReader: true,
  columns: [derived('owner_id', '$8::text'), ...columnsOf(shelf)],
};

/** Content of one shelf for comparison: $8 owner, $9 shelf, $10 positions. */
const places: Table = {
  name: 'books.shelf_volumes',
  from: page,
  key: ['owner_id', 'shelf_id', 'volume_id'],
  parent: 'shelf_id',
  tombstone: '_removed_at',
  leftOut: leftOutOf(volume),
  columns: [
    derived('owner_id', '$8::text'),
    derived('shelf_id', '$9::text'),
    text('id', 'volume_id'),
    derived('position', '($10::int[])[n]'),
  ],
};

export const shelves: ShelfStream<Shelf, Volume> = {
  kind: 'shelves',
  ...identify('books', 'shelves'),
  schedule: ['nightly'],
  target: '26h',
  request: (owner, startIndex, maxResults = paging.perPage) => listShelves(owner, { startIndex, maxResults }),
  get: getShelf,
  version,
  changed: shelf => timeOf(shelf.volumesLastUpdated),
  edited: shelf => latestOf([shelf.created, shelf.updated, shelf.volumesLastUpdated]),
  count: ({ volumeCount }) => (typeof volumeCount === 'number' ? volumeCount : undefined),
  perPage: paging.perPage,
  members: {
    ...volumes,
    name: 'listed volumes',
    merge: listed,
    ifAbsent: listedIfAbsent,
    places: { declared: { root: places, others: [] } },
    request: (owner, id, startIndex, maxResults) => listVolumes(owner, id, { startIndex, maxResults }),
  },
  merge: buildMerge(table),
  ifAbsent: buildMerge({ ...table, passOver: 'true' }),
  ...factsOf(shelf),
};

const timeOf = (value: unknown): number => (typeof value === 'string' ? Date.parse(value) : Number.NaN);

function latestOf(values: readonly unknown[]): number {
  const times = values.map(timeOf).filter(ms => !Number.isNaN(ms));
  return times.length > 0 ? Math.max(...times) : Number.NaN;
}

/** A count alone proves nothing, because one volume may have replaced another. Only a count of 0 is conclusive. */
function version({ volumesLastUpdated, volumeCount }: Shelf): string | null {
  if (typeof volumesLastUpdated === 'string' && volumesLastUpdated !== '')
    return JSON.stringify([volumesLastUpdated, typeof volumeCount === 'object' ? null : (volumeCount ?? null)]);
  return volumeCount === 0 ? '[]' : null;
}
