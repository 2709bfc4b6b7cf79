/**
 * Records of the book catalog. The specification shows no fields (2 Resources and their fields: not shown), so a record
 * needs only a readable id, and all other values are stored as they are. The fields and types of the field notes are
 * declared as well, to count drift (`…Expected`, `known`, `…Fields`).
 */
import { z } from 'zod';
import { insideOf } from '../../engine/http/shapes.ts';

/** An id must fit into an index. `.` and `..` are refused because they would change the path of a request. */
const textId = z
  .string()
  .min(1)
  .max(500)
  .refine(value => value.isWellFormed() && !value.includes('\0') && !/^\.\.?$/.test(value), { error: 'not an id' });

/**
 * Field notes: a number, unique per owner. JSON numbers beyond 2^53 lose digits. A text id must be short, because it
 * forms one key with the id of a volume.
 */
const shelfId = z.union([
  textId.refine(({ length }) => length <= 100, { error: 'not an id' }),
  z
    .number()
    .refine(Number.isSafeInteger, { error: 'not an id' })
    .transform(value => String(value)),
]);

export const shelf = z.looseObject({ id: shelfId });
export const volume = z.looseObject({ id: textId });

export type Shelf = z.infer<typeof shelf>;
export type Volume = z.infer<typeof volume>;

// ---- what is expected, to count what differs; every field may be absent (field notes) ----

const text = z.string().optional();
const texts = z.array(z.string()).optional();
const number = z.number().optional();
const flag = z.boolean().optional();

/** Field notes, Book catalog: the fields of a shelf. */
export const shelfExpected = z.looseObject({
  kind: text,
  id: z.number().optional(),
  selfLink: text,
  title: text,
  description: text,
  access: text,
  created: text,
  updated: text,
  volumesLastUpdated: text,
  volumeCount: number,
});

/** `amount` may be `1.334E7`, and beyond int32. */
const price = z.looseObject({ amount: number, currencyCode: text }).optional();

/** Field notes, Book catalog: the fields of a volume. */
export const volumeExpected = z.looseObject({
  kind: text,
  id: text,
  etag: text,
  selfLink: text,
  volumeInfo: z
    .looseObject({
      title: text,
      subtitle: text,
      authors: texts,
      publisher: text,
      /** `2019-10-03`, `1999-05`, `1999`, `19??`, a time with an offset: text. */
      publishedDate: text,
      description: text,
      industryIdentifiers: z.array(z.looseObject({ type: text, identifier: text })).optional(),
      pageCount: number,
      printType: text,
      categories: texts,
      averageRating: number,
      ratingsCount: number,
      maturityRating: text,
      imageLinks: z.record(z.string(), z.string()).optional(),
      language: text,
      previewLink: text,
      infoLink: text,
      canonicalVolumeLink: text,
      seriesInfo: z.looseObject({}).optional(),
    })
    .optional(),
  saleInfo: z
    .looseObject({ country: text, saleability: text, isEbook: flag, listPrice: price, retailPrice: price })
    .optional(),
  accessInfo: z.looseObject({ viewability: text }).optional(),
  searchInfo: z.looseObject({}).optional(),
});

/** Values known from public clients of such services. Neither the specification nor the notes list any. */
export const known = {
  access: ['PUBLIC', 'PRIVATE'],
  printType: ['BOOK', 'MAGAZINE'],
  maturityRating: ['NOT_MATURE', 'MATURE'],
  saleability: ['FOR_SALE', 'FOR_RENTAL', 'FOR_SALE_AND_RENTAL', 'FOR_PREORDER', 'FREE', 'NOT_FOR_SALE'],
  viewability: ['PARTIAL', 'ALL_PAGES', 'NO_PAGES', 'UNKNOWN'],
} as const;

/** Top-level fields that the notes name. */
export const shelfFields: ReadonlySet<string> = new Set(Object.keys(shelfExpected.shape));
export const volumeFields: ReadonlySet<string> = new Set(Object.keys(volumeExpected.shape));

/** Of the fields of a volume that hold an object: the names in it. */
export const volumeInside = insideOf(volumeExpected);
