/**
 * Shelves of users and of the own library, and the volumes on them. The list of shelves is short and has no order, so
 * it is read whole. A shelf is read when the list shows a change of it, and after a maximum age.
 */

import { buildMerge, derived, page, type Table, text } from '../../../engine/commit/merge.ts';
import type { Ms } from '../../../engine/reading/reading.ts';
import { factsOf } from '../../record/check.ts';
import { columnsOf, leftOutOf } from '../../record/columns.ts';
import { identify, type ShelfStream } from '../../source.ts';
import { paging } from '../endpoints.ts';
import { type Shelf, shelf, volume } from '../records.ts';
import { listed, volumes } from '../volumes/volumes.ts';

const table: Table = {
  name: 'books.shelves',
  from: page,
  key: ['owner_id', 'id'],
  leftOut: leftOutOf(shelf),
  oneReader: true,
  columns: [derived('owner_id', '$8::text'), ...columnsOf(shelf)],
};

/** Content of one shelf for comparison: $8 owner, $9 shelf, $10 positions. */
export const places: Table & { readonly parent: string } = {
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

export const shelves: ShelfStream = {
  kind: 'shelves',
  ...identify('books', 'shelves'),
  schedule: ['nightly'],
  perPage: paging.perPage,
  members: { ...volumes, name: 'listed volumes', merge: listed, places: { declared: { root: places, others: [] } } },
  merge: buildMerge(table),
  ...factsOf(shelf),
};

/** Inserts missing rows with only their ids. */
export const shelvesIfAbsent = buildMerge({ ...table, passOver: 'true' });

const timeOf = (value: unknown): Ms => (typeof value === 'string' ? Date.parse(value) : Number.NaN);

/** When the volumes on the shelf last changed, by the source. NaN if the shelf does not show it. */
export const changedAt = (shelf: Shelf): Ms => timeOf(shelf.volumesLastUpdated);

/** When the shelf or its contents last changed, by the source. NaN if the shelf does not show it. */
export function editedAt({ created, updated, volumesLastUpdated }: Shelf): Ms {
  const times = [created, updated, volumesLastUpdated].map(timeOf).filter(ms => !Number.isNaN(ms));
  return times.length > 0 ? Math.max(...times) : Number.NaN;
}

/** The shelf's own count of its volumes. */
export const countOf = ({ volumeCount }: Shelf): number | undefined =>
  typeof volumeCount === 'number' ? volumeCount : undefined;

/**
 * A value that changes whenever the contents of the shelf change. Null if the shelf shows no such value. A count alone
 * proves nothing, because one volume may have replaced another. Only a count of 0 is conclusive.
 */
export function versionOf({ volumesLastUpdated, volumeCount }: Shelf): string | null {
  if (typeof volumesLastUpdated === 'string' && volumesLastUpdated !== '')
    return JSON.stringify([volumesLastUpdated, typeof volumeCount === 'object' ? null : (volumeCount ?? null)]);
  return volumeCount === 0 ? '[]' : null;
}
