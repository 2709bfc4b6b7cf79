/**
 * Records of the catalog. A volume is stored as the interface shows it, without the parts that each reply makes anew (etag,
 * varying links, searchInfo). Prices are text, because doubles cannot hold all of them. Missing fields are absent, never
 * null.
 */

export type Access = 'PUBLIC' | 'PRIVATE';

export interface WorldShelf {
  /** Unique per user. */
  id: number;
  title: string;
  description?: string;
  access: Access;
  created: string;
  updated: string;
  volumesLastUpdated: string;
  /** Ids of volumes, in order. */
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

/** Spelling of the amount in replies: `24.99`, `1.334E7`. */
export interface Price {
  amount: string;
  currencyCode: string;
}

export interface SaleInfo {
  saleability: 'FOR_SALE' | 'NOT_FOR_SALE' | 'FREE' | 'FOR_PREORDER';
  isEbook: boolean;
  /** Only for pre-orders. */
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
  /** Whether the volume has cover images. */
  cover: boolean;
}

/** Titles of the fixed shelves of every user; the index is the id. */
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

/** Fixed shelves that such a service fills itself: Purchased, Reviewed, Recently viewed, My eBooks, Books for you. */
export const KEPT_SHELVES: readonly number[] = [PURCHASED, 5, 6, 7, 8];

/** Custom shelves have larger ids. */
export const LAST_RESERVED_ID = 1000;

/** Timestamp of the catalog: UTC with milliseconds. */
export function instant(at: number | string): string {
  return new Date(at).toISOString();
}
