/** Filters of a search besides its words: each parameter becomes a predicate over volumes. */

import { oneOf, shaped, yesOrNo } from '../parameters.ts';
import type { WorldVolume } from '../records.ts';

type Asks = (volume: WorldVolume) => boolean;

const FILTERS: Record<'partial' | 'full' | 'free-ebooks' | 'paid-ebooks' | 'ebooks', Asks> = {
  /** At least a preview. */
  partial: ({ accessInfo }) => accessInfo.viewability !== 'NO_PAGES',
  full: ({ accessInfo }) => accessInfo.viewability === 'ALL_PAGES',
  'free-ebooks': ({ saleInfo }) => saleInfo?.isEbook === true && saleInfo.saleability === 'FREE',
  'paid-ebooks': ({ saleInfo }) => saleInfo?.isEbook === true && saleInfo.listPrice !== undefined,
  ebooks: ({ saleInfo }) => saleInfo?.isEbook === true,
};

const PRINT_TYPES: Record<'all' | 'books' | 'magazines', Asks | undefined> = {
  all: undefined,
  books: ({ info }) => info.printType !== 'MAGAZINE',
  magazines: ({ info }) => info.printType === 'MAGAZINE',
};

/** Search parameters that this file reads. */
export const NARROWING = [
  'filter',
  'printType',
  'langRestrict',
  'download',
  'maxAllowedMaturityRating',
  'showPreorders',
] as const;

const keysOf = <K extends string>(table: Record<K, unknown>) => Object.keys(table) as K[];

/** All filters of a search as one predicate. Throws BooksError 400 for an invalid value. */
export function narrowing(query: URLSearchParams): Asks {
  const filter = oneOf(query, 'filter', keysOf(FILTERS));
  const printed = PRINT_TYPES[oneOf(query, 'printType', keysOf(PRINT_TYPES)) ?? 'all'];
  const language = shaped(query, 'langRestrict', /^[a-z]{2,3}(-\w+)*$/i, 'a code of a language such as en');
  const epub = oneOf(query, 'download', ['epub']) !== undefined;
  const tame = oneOf(query, 'maxAllowedMaturityRating', ['mature', 'not-mature']) === 'not-mature';
  const questions = [
    filter && FILTERS[filter],
    printed,
    language && speaks(language.toLowerCase()),
    epub && (({ accessInfo }: WorldVolume) => accessInfo.epub.isAvailable),
    tame && (({ info }: WorldVolume) => info.maturityRating !== 'MATURE'),
    preorders(query),
  ].filter(question => typeof question === 'function');
  return volume => questions.every(asks => asks(volume));
}

/** `zh` matches `zh-TW` too. */
function speaks(wanted: string): Asks {
  return ({ info: { language = '' } }) => {
    const spoken = language.toLowerCase();
    return spoken === wanted || spoken.startsWith(`${wanted}-`);
  };
}

/** Hides pre-orders in searches and on shelves, unless `showPreorders` is true. */
export function preorders(query: URLSearchParams): Asks | undefined {
  if (yesOrNo(query, 'showPreorders') === true) return undefined;
  return ({ saleInfo }) => saleInfo?.saleability !== 'FOR_PREORDER';
}
