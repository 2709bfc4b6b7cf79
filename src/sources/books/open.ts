/** The open catalog: what its streams need in addition to an open source. */

import { type Context, type OpenSource, sourceOf } from '../../engine/context.ts';

export interface BooksSettings {
  /** Owners whose shelves are mirrored: the users of the settings, and `mylibrary` if enabled. */
  readonly owners: readonly string[];
  /** A shelf that shows no change is re-read after this time. */
  readonly shelfAgeMs: number;
  /** A volume is fetched by id again after this time. */
  readonly volumeAgeMs: number;
}

export const sourceName = 'books';

/** Throws Fatal if the catalog is not configured. */
export const booksOf = (ctx: Pick<Context, 'sources'>): OpenSource & BooksSettings =>
  sourceOf(ctx, sourceName) as OpenSource & BooksSettings;
