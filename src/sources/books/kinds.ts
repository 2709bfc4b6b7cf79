/** What field rules know of the catalog's records: see Kind. */
import type { Kinds } from '../../engine/http/rules/field-rules.ts';
import { kindOf } from '../record-kinds.ts';
import { shelf, volume } from './records.ts';
import { places } from './shelves/shelves.ts';

export const kinds: Kinds = {
  shelves: kindOf(shelf, {
    // They say when a shelf has to be read.
    needed: ['updated', 'volumesLastUpdated', 'volumeCount'],
    uses: { title: ['question shelves'] },
  }),
  volumes: kindOf(volume, {
    tables: [places],
    uses: { volumeInfo: ['question shelves'], saleInfo: ['question shelves'] },
  }),
};
