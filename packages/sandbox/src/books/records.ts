/**
 * What the book catalog holds. A volume is kept as its interface shows it, but for what is made anew for each reply
 * (etag, varying links, searchInfo) and prices, which are kept as text: no number of a program holds all of them.
 * A field that is not there is absent, never null.
 */

export type Access = 'PUBLIC' | 'PRIVATE';

export interface WorldShelf {
  /** Unique for its user only. */
  id: number;
  title: string;
  description?: string;
  access: Access;
  created: string;
  updated: string;
  volumesLastUpdated: string;
  /** Ids of volumes, in their order. */
  volumes: string[];
}

export interface BooksUser {
  id: string;
  shelves: Map<number, WorldShelf>;
}

export interface VolumeInfo {
  title: string;
  subtitle?: string;
  authors?: string[];
  publisher?: string;
  publishedDate?: string;
  description?: string;
  industryIdentifiers?: { type: string; identifier: string }[];
  pageCount?: number;
  printType?: string;
  categories?: string[];
  averageRating?: number;
  ratingsCount?: number;
  maturityRating?: string;
  contentVersion?: string;
  language?: string;
  seriesInfo?: SeriesInfo;
}

interface SeriesInfo {
  kind: 'books#volume_series_info';
  bookDisplayNumber: string;
  volumeSeries: { seriesId: string; seriesBookType: string; orderNumber: number }[];
}

/** As the reply's text shows it: `24.99`, `1.334E7`. */
export interface Price {
  amount: string;
  currencyCode: string;
}

export interface SaleInfo {
  saleability: 'FOR_SALE' | 'NOT_FOR_SALE' | 'FREE' | 'FOR_PREORDER';
  isEbook: boolean;
  /** Of what can only be ordered in advance. */
  onSaleDate?: string;
  listPrice?: Price;
  retailPrice?: Price;
}

export interface AccessInfo {
  viewability: 'NO_PAGES' | 'PARTIAL' | 'ALL_PAGES';
  embeddable: boolean;
  publicDomain: boolean;
  textToSpeechPermission: 'ALLOWED' | 'ALLOWED_FOR_ACCESSIBILITY';
  epub: { isAvailable: boolean };
  pdf: { isAvailable: boolean };
}

export interface WorldVolume {
  id: string;
  info: VolumeInfo;
  saleInfo?: SaleInfo;
  accessInfo: AccessInfo;
  /** Whether there are pictures of its cover. */
  cover: boolean;
}

/** The shelves that every user has, under these ids. */
export const FIXED_SHELVES = [
  'Favorites',
  'Purchased',
  'To read',
  'Reading now',
  'Have read',
  'Reviewed',
  'Recently viewed',
  'My eBooks',
  'Books for you',
] as const;

export const PURCHASED = 1;

/** Those that a service of this kind fills by itself: Purchased, Reviewed, Recently viewed, My eBooks, Books for you. */
export const KEPT_SHELVES: readonly number[] = [PURCHASED, 5, 6, 7, 8];

/** The first shelf of a user's own comes behind this. */
export const LAST_RESERVED_ID = 1000;

/** A time as the catalog writes it: UTC, with milliseconds. */
export function instant(at: number | string): string {
  return new Date(at).toISOString();
}
