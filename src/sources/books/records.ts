/**
 * Records of the book catalog. The specification shows no fields (2 Resources and their fields: not shown), so the records are
 * lenient: their fields and types are those of the field notes, and their values those that public clients of such services know.
 */
import {
  id,
  integer,
  known,
  lenientRecord,
  number,
  object,
  objects,
  oneOf,
  text,
  texts,
  textsByName,
  time,
  unasked,
  type Value,
} from '../record/record.ts';
import type { SourceTable } from '../source.ts';

/** The value varies without a change of the record. */
const varies = { varies: true } as const;
/** The time shows when a shelf must be read. */
const needed = { needed: true } as const;

export const shelf = lenientRecord(
  'shelves',
  "Shelves of the mirrored users, and of the library of the token's owner.",
  {
    kind: known('text'),
    id: id({ says: 'Id at the source, unique per owner_id.', isNumber: true }),
    etag: unasked(),
    selfLink: known('text'),
    title: text('Title.').plain(),
    description: text('Description.').plain(),
    access: oneOf(['PUBLIC', 'PRIVATE']),
    created: time('Creation time at the source.', { column: 'created_at' }),
    updated: time('Time at the source of the last change of title, description or access.', {
      ...needed,
      column: 'updated_at',
    }),
    volumesLastUpdated: time(
      'Time at the source when volumes were last added or removed. Whether moves within the shelf count is unknown.',
      { ...needed, column: 'volumes_last_updated_at' },
    ),
    volumeCount: integer(
      'Number of volumes that the source states. books.shelf_volumes holds the actual volumes.',
      needed,
    ),
  },
);

/** `amount` may be `1.334E7`, and beyond int32. */
const price = (column: string, says: string) =>
  object({
    amount: number(`${says}, exactly as the source writes it.`, { column }),
    currencyCode: text(`Currency of ${column}.`).plain({ column: `${column}_currency` }),
  });

export const volume = lenientRecord(
  'volumes',
  "Volumes that are or were on a shelf. A volume is complete once it was fetched by id; until then it holds the shorter record of the shelf's list.",
  {
    kind: known('text'),
    id: id(),
    etag: known('text', varies),
    selfLink: known('text'),
    searchInfo: object({}, varies),
    volumeInfo: object({
      title: text('Title.').plain(),
      subtitle: text('Subtitle.').plain(),
      authors: texts('Authors in order; null if the source names none.').plain(),
      publisher: text('Publisher.').plain(),
      publishedDate: text(
        'Publication date as the source writes it: 2019-10-03, 1999-05, 1999, 19?? or other text.',
      ).plain({ computed: { published_year: 'Year of published_date, if that begins with four digits.' } }),
      description: text('Description; shortened while _detail is list.').plain(),
      industryIdentifiers: objects(
        { type: known('text'), identifier: known('text') },
        { computed: { isbn_10: 'ISBN of ten characters.', isbn_13: 'ISBN of thirteen digits.' } },
      ),
      pageCount: integer('Number of pages; null if unknown, which the source writes as 0.', { unlessZero: true }),
      printType: oneOf(['BOOK', 'MAGAZINE']),
      categories: texts('Subjects in their order.').plain(),
      averageRating: number('Mean rating, 1 to 5.'),
      ratingsCount: integer('Number of ratings in average_rating.'),
      maturityRating: oneOf(['NOT_MATURE', 'MATURE']),
      language: text('Language code; null while _detail is list, because lists omit it.').plain(),
      previewLink: known('text', varies),
      infoLink: known('text', varies),
      imageLinks: textsByName({
        ...varies,
        computed: {
          thumbnail:
            'Link to the cover, from the last change of the content. Such links vary between replies and are not compared.',
        },
      }),
      canonicalVolumeLink: text('Link to the web page of the volume.').plain({ column: 'canonical_link' }),
      seriesInfo: object({}),
    }),
    saleInfo: object({
      listPrice: price('list_price', 'Suggested retail price'),
      retailPrice: price('retail_price', 'Selling price'),
      saleability: oneOf(
        ['FOR_SALE', 'FOR_RENTAL', 'FOR_SALE_AND_RENTAL', 'FOR_PREORDER', 'FREE', 'NOT_FOR_SALE'],
        'FOR_SALE, FREE, NOT_FOR_SALE, FOR_PREORDER or other values.',
      ),
      country: text('Country to which prices and saleability apply.').plain(),
      isEbook: known('boolean'),
    }),
    accessInfo: object({
      viewability: oneOf(
        ['PARTIAL', 'ALL_PAGES', 'NO_PAGES', 'UNKNOWN'],
        'Extent of the preview: NO_PAGES, PARTIAL, ALL_PAGES or other values.',
      ),
    }),
  },
);

export const tables: readonly SourceTable[] = [shelf, volume].map(record => ({ name: `books.${record.name}`, record }));

export type Shelf = Value<typeof shelf>;
export type Volume = Value<typeof volume>;
