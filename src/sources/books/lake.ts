/** The tables of the catalog in the lake. */
import type { LakeTable } from '../../lake/table.ts';

const ofShelf = { unit: 'shelf', id: (t: string) => `${t}owner_id || '/' || ${t}shelf_id` } as const;

export const lakeTables: readonly LakeTable[] = [
  { name: 'books.volumes', unit: 'volume', id: (t: string) => `${t}id`, key: ['id'] },
  { name: 'books.shelves', unit: 'list', key: ['owner_id', 'id'] },
  { ...ofShelf, name: 'books.shelf_volumes', key: ['owner_id', 'shelf_id', 'volume_id'] },
  { ...ofShelf, name: 'books.shelf_volume_history', key: ['owner_id', 'shelf_id', 'volume_id', 'valid_from'] },
  { ...ofShelf, name: 'analytics.shelf_events', key: ['owner_id', 'shelf_id', 'volume_id', 'at'] },
  {
    ...{ ...ofShelf, name: 'analytics.fact_shelf_volumes', account: 'account_key', key: ['shelf_volume_key'] },
    // The key of the shelf is its account, a slash, and the id.
    id: t => `substr(${t}shelf_key, length(${t}account_key) + 2)`,
  },
  { name: 'analytics.dim_shelf', unit: 'list', account: 'account_key', key: ['shelf_key'] },
  {
    name: 'analytics.dim_volume',
    unit: 'volume',
    account: 'account_key',
    id: (t: string) => `${t}volume_id`,
    key: ['volume_key'],
  },
];
