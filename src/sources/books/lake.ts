/** The tables of the catalog in the lake. */
import type { LakeTable } from '../../lake/table.ts';

const ofShelf = { unit: 'shelf', id: "owner_id || '/' || shelf_id" } as const;

export const lakeTables: readonly LakeTable[] = [
  { name: 'books.volumes', unit: 'volume', id: 'id', key: ['id'] },
  { name: 'books.shelves', unit: 'list', key: ['owner_id', 'id'] },
  { ...ofShelf, name: 'books.shelf_volumes', key: ['owner_id', 'shelf_id', 'volume_id'] },
  { ...ofShelf, name: 'books.shelf_volume_history', key: ['owner_id', 'shelf_id', 'volume_id', 'valid_from'] },
  { name: 'analytics.dim_shelf', unit: 'list', account: 'account_key', key: ['shelf_key'] },
  { name: 'analytics.dim_volume', unit: 'volume', account: 'account_key', id: 'volume_id', key: ['volume_key'] },
];
