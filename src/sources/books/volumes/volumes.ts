/**
 * Volumes. A shelf's list shortens them (description, language), so each is fetched by id once, and again when its list
 * row has changed or after a maximum age. A list never overwrites content from a fetch by id. Etag, preview, info and
 * image links vary between replies and do not count as changes.
 */

import { buildMerge, type Column, page, type Table, textAt } from '../../../engine/commit/merge.ts';
import type { OpenSource } from '../../../engine/context.ts';
import { factsOf } from '../../record/check.ts';
import { columnsOf, leftOutOf } from '../../record/columns.ts';
import { type ByIdStream, identify } from '../../source.ts';
import { getVolume } from '../endpoints.ts';
import type { BooksSettings } from '../open.ts';
import { type Volume, volume } from '../records.ts';

const table: Table = {
  name: 'books.volumes',
  from: page,
  leftOut: leftOutOf(volume),
  oneReader: true,
  ours: {
    _detail: `'full'::text`,
    // The reply that last changed the row was a fetch by id too, so `_checked_at` is at least `_observed_at`.
    _checked_at: 'greatest(least(t._checked_at, $4), t._observed_at)',
  },
  columns: columnsOf(volume, {
    'volumeInfo.publishedDate': [yearOf('volumeInfo.publishedDate', 'published_year')],
    'volumeInfo.industryIdentifiers': [identifier('ISBN_10', 'isbn_10'), identifier('ISBN_13', 'isbn_13')],
    'volumeInfo.imageLinks': [linkAt('volumeInfo.imageLinks.thumbnail', 'thumbnail')],
  }),
};

export const volumes: ByIdStream<Volume> = {
  kind: 'by id',
  ...identify('books', 'volumes'),
  schedule: [],
  of: 'shelves',
  request: getVolume,
  ageMs: source => (source as OpenSource & BooksSettings).volumeAgeMs,
  rows: {
    waitsSince: '_waits_since',
    checkedAt: '_checked_at',
    read: `_detail = 'full'`,
    // Volumes of owners that are no longer mirrored are left out. Those on the most recently changed shelves go first.
    places: `select coalesce(s.volumes_last_updated_at, s.updated_at, s._synced_at) as changed_at, m.position
       from books.shelf_volumes m
       join books.shelves s on (s.account_id, s.owner_id, s.id) = (m.account_id, m.owner_id, m.shelf_id)
       join sync.coverage c on (c.account_id, c.stream_key, c.list) = (m.account_id, 'books.shelves', m.owner_id)
       where m.account_id = t.account_id and m.volume_id = t.id and m._removed_at is null
       order by 1 desc, 2`,
    order: 'place.changed_at desc, place.position',
    // Undefined for volumes of a shelf's first read.
    shownAt: `(select min(h.valid_from) from books.shelf_volume_history h
       where h.account_id = t.account_id and h.volume_id = t.id and h.position is not null and h.change_after is not null)`,
    placed: `select m.volume_id as id from books.shelf_volumes m
       join sync.coverage c on (c.account_id, c.stream_key, c.list) = (m.account_id, 'books.shelves', m.owner_id)
       where m.account_id = $1 and m._removed_at is null`,
    isShown: 'exists (select from books.shelf_volumes m where (m.account_id, m.volume_id) = (n.account_id, n.id))',
  },
  merge: buildMerge(table),
  ...factsOf(volume),
};

/** For lists: a new volume becomes pending. */
const ofList: Table = { ...table, atFirst: { _waits_since: '$4' } };
export const listed = buildMerge({ ...ofList, passOver: `t._detail = 'full'` });
export const listedIfAbsent = buildMerge({ ...ofList, passOver: 'true' });

/** The year, if the text begins with four digits. `19??` has none. */
function yearOf(path: string, name: string): Column {
  const { sql } = textAt(path, name);
  return { name, path, sql: `nullif(substring(${sql} from '^[0-9]{4}'), '0000')::int` };
}

/** A link with tokens and varying hosts: only its path is meaningful. */
function linkAt(path: string, name: string): Column {
  const alike = (value: string) => `regexp_replace(${value}, '^[a-z]+://[^/?#]*|[?#].*$', '', 'g')`;
  return { name, unstored: path.split('.'), sql: textAt(path, name).sql, alike };
}

function identifier(type: string, name: string): Column {
  const all = `record #> '{volumeInfo,industryIdentifiers}'`;
  return {
    name,
    path: 'volumeInfo.industryIdentifiers',
    sql: `(select i ->> 'identifier' from jsonb_array_elements(case when jsonb_typeof(${all}) = 'array' then ${all} end) i
      where i ->> 'type' = '${type}' limit 1)`,
  };
}
