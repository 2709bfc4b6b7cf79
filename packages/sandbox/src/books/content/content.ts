/** Random volumes, and the known oddities of such catalogs one by one. The functions read no clock and change no world. */

import { between, pick, type Rng, weighted } from '../../random.ts';
import { pickLanguage } from '../../texts/languages.ts';
import { refusedText } from '../../texts/naughty.ts';
import type { AccessInfo, SaleInfo, VolumeInfo } from '../records.ts';
import type { NewVolume } from '../world.ts';
import { blurb, edition, SUBJECTS, waresOf } from './text.ts';

type MadeVolume = NewVolume & { id: string; info: VolumeInfo };

export function makeVolume(id: string, rng: Rng): MadeVolume {
  const language = pickLanguage(rng);
  const wares = waresOf(language.code);
  const author = () => `${pick(rng, language.firstNames)} ${pick(rng, language.lastNames)}`;
  const authors = rng() < 0.8 ? [author()] : [author(), author(), author()];
  return {
    id,
    info: {
      title: pick(rng, wares.titles),
      ...maybe(rng, 0.25, { subtitle: edition(rng) }),
      ...maybe(rng, 0.95, { authors: [...new Set(authors)] }),
      ...maybe(rng, 0.9, { publisher: pick(rng, wares.publishers) }),
      ...maybe(rng, 0.95, { publishedDate: publishedDate(rng) }),
      ...maybe(rng, 0.85, { description: blurb(rng, language.code) }),
      ...maybe(rng, 0.9, { industryIdentifiers: isbns(rng) }),
      pageCount: rng() < 0.1 ? 0 : between(rng, 40, 900),
      printType: rng() < 0.97 ? 'BOOK' : 'MAGAZINE',
      ...maybe(rng, 0.75, { categories: rng() < 0.8 ? [pick(rng, SUBJECTS)] : [...SUBJECTS.slice(0, 3)] }),
      ...maybe(rng, 0.4, { averageRating: between(rng, 2, 10) / 2, ratingsCount: between(rng, 1, 4000) }),
      maturityRating: rng() < 0.98 ? 'NOT_MATURE' : 'MATURE',
      contentVersion: `${between(rng, 0, 3)}.${between(rng, 1, 9)}.0.0.preview.${between(rng, 0, 3)}`,
      language: language.code,
    },
    ...maybe(rng, 0.92, { saleInfo: saleInfo(rng) }),
    accessInfo: accessInfo(rng),
    cover: rng() < 0.85,
  };
}

function maybe<T extends object>(rng: Rng, chance: number, fields: T): T | undefined {
  return rng() < chance ? fields : undefined;
}

function publishedDate(rng: Rng): string {
  const year = between(rng, 1871, 2024);
  const month = String(between(rng, 1, 12)).padStart(2, '0');
  const day = String(between(rng, 1, 28)).padStart(2, '0');
  return weighted(rng, [
    [`${year}-${month}-${day}`, 60],
    [`${year}`, 25],
    [`${year}-${month}`, 11],
    [`${String(year).slice(0, 2)}??`, 2],
    [`${year}-${month}-${day}T00:00:00+02:00`, 2],
  ]);
}

function isbns(rng: Rng): { type: string; identifier: string }[] {
  if (rng() < 0.1) {
    const number = between(rng, 10_000_000, 99_999_999);
    return [{ type: 'OTHER', identifier: `${['EASTMERE', 'LCCN', 'OCLC'][number % 3]}:${number}` }];
  }
  const nine = String(between(rng, 100_000_000, 999_999_999));
  return [
    { type: 'ISBN_13', identifier: withCheckDigit(`978${nine}`) },
    { type: 'ISBN_10', identifier: nine + checkDigit10(nine) },
  ];
}

function withCheckDigit(twelve: string): string {
  const sum = [...twelve].reduce((sum, digit, at) => sum + +digit * (at % 2 === 0 ? 1 : 3), 0);
  return twelve + ((10 - (sum % 10)) % 10);
}

/** ISBN-10 check digit: 0 to 9, or X for ten. */
function checkDigit10(nine: string): string {
  const rest = (11 - ([...nine].reduce((sum, digit, at) => sum + +digit * (10 - at), 0) % 11)) % 11;
  return rest === 10 ? 'X' : String(rest);
}

function saleInfo(rng: Rng): SaleInfo {
  const chance = rng();
  if (chance < 0.45) return { saleability: 'NOT_FOR_SALE', isEbook: false };
  if (chance < 0.55) return { saleability: 'FREE', isEbook: true };
  const currencyCode = pick(rng, ['USD', 'EUR', 'GBP', 'IDR']);
  const cents = currencyCode === 'IDR' ? between(rng, 2, 90) * 1_000_000 : between(rng, 99, 9999);
  const amount = priceText(cents / 100);
  const retail = priceText(Math.round(cents * 0.8) / 100);
  return {
    saleability: 'FOR_SALE',
    isEbook: true,
    listPrice: { amount, currencyCode },
    retailPrice: { amount: retail, currencyCode },
  };
}

/** Price as the catalog spells it: with an exponent from ten million on. */
function priceText(amount: number): string {
  if (amount < 1e7) return String(amount);
  const [digits, exponent] = amount.toExponential().split('e+');
  return `${digits}E${exponent}`;
}

function accessInfo(rng: Rng): AccessInfo {
  const viewability = pick(rng, ['NO_PAGES', 'PARTIAL', 'ALL_PAGES'] as const);
  return {
    viewability,
    embeddable: viewability !== 'NO_PAGES',
    publicDomain: viewability === 'ALL_PAGES',
    textToSpeechPermission: rng() < 0.8 ? 'ALLOWED' : 'ALLOWED_FOR_ACCESSIBILITY',
    epub: { isAvailable: rng() < 0.5 },
    pdf: { isAvailable: rng() < 0.5 },
  };
}

/** Turns the volume into a pre-order that appears within two years. */
export function sellAhead(rng: Rng, volume: MadeVolume, now_ms: number): void {
  const day = new Date(now_ms + between(rng, 20, 700) * 86_400_000).toISOString().slice(0, 10);
  volume.info.publishedDate = day;
  volume.saleInfo = { ...forSale('18.99', 'EUR'), saleability: 'FOR_PREORDER', onSaleDate: day };
}

/** Puts text that is valid JSON but refused by databases into title or description. */
export function spoilText(rng: Rng, { info }: MadeVolume): void {
  if (rng() < 0.5) info.title = refusedText(rng) + info.title;
  else info.description = refusedText(rng) + (info.description ?? '');
}

// --- oddities ---------------------------------------------------------------------------------------------------------

type Oddity = (volume: MadeVolume) => void;

const forSale = (amount: string, currencyCode: string): SaleInfo => ({
  saleability: 'FOR_SALE',
  isEbook: true,
  listPrice: { amount, currencyCode },
  retailPrice: { amount, currencyCode },
});

/** The nth oddity is applied to the nth volume of a world. */
export const ODDITIES: readonly Oddity[] = [
  ({ info }) => delete info.authors,
  ...['19??', '1999', '1999-05', '2019-10-03', '2019-10-03T00:00:00+02:00'].map(
    (publishedDate): Oddity =>
      ({ info }) =>
        Object.assign(info, { publishedDate }),
  ),
  ({ info }) => delete info.publishedDate,
  ({ info }) => Object.assign(info, { pageCount: 0 }),
  ({ info }) => delete info.pageCount,
  volume => Object.assign(volume, { saleInfo: forSale('1.334E7', 'IDR') }),
  volume => Object.assign(volume, { saleInfo: forSale('21474836470', 'VND') }),
  volume => Object.assign(volume, { saleInfo: forSale('9007199254740993', 'VND') }),
  volume => Object.assign(volume, { saleInfo: forSale('0.10', 'EUR') }),
  volume => delete volume.saleInfo,
  ({ info }) => Object.assign(info, titled('ja', '𠮷野川の渡し', '髙橋 美咲')),
  ({ info }) => Object.assign(info, titled('ar', 'حارس المنارة', 'ليلى حدّاد')),
  ({ info }) => Object.assign(info, titled('he', 'שעון הגאות', 'שִׁירָה בן־דוד')),
  ({ info }) => Object.assign(info, titled('en', 'Letters to 👩‍👩‍👧‍👦 from 🏳️‍🌈 Harbour', "D'Arcy O’Connell")),
  ({ info }) => Object.assign(info, { seriesInfo: seriesInfo('2') }),
  ({ info }) => Object.assign(info, { seriesInfo: seriesInfo('10½') }),
  ({ info }) => Object.assign(info, { industryIdentifiers: [{ type: 'OTHER', identifier: 'EASTMERE:31822' }] }),
  ({ info }) => delete info.industryIdentifiers,
  ({ info }) => Object.assign(info, { industryIdentifiers: [{ type: 'ISBN_10', identifier: '155404295X' }] }),
  ({ info }) =>
    Object.assign(info, { description: 'A line.\r\n\tAnother one, "quoted" \\ with <b>markup</b> & all. ' }),
  ({ info }) => Object.assign(info, { description: ENGLISH_BLURB.repeat(60) }),
  ({ info }) => delete info.description,
  ({ info }) => Object.assign(info, { title: `${'A Very Long Title and '.repeat(40)}Nothing Else` }),
  ({ info }) => Object.assign(info, { title: '' }),
  ({ info }) => Object.assign(info, { authors: ['N.N.', 'N.N.'] }),
  ({ info }) => Object.assign(info, { averageRating: 4.5, ratingsCount: 1 }),
  volume => Object.assign(volume, { cover: false }),
];

const ENGLISH_BLURB = 'What the tide takes, the tide returns, only never to the same house. ';

function titled(language: string, title: string, author: string): Partial<VolumeInfo> {
  return { language, title, authors: [author] };
}

function seriesInfo(bookDisplayNumber: string): VolumeInfo['seriesInfo'] {
  return {
    kind: 'books#volume_series_info',
    bookDisplayNumber,
    volumeSeries: [
      {
        seriesId: 'h7kQABAAQBAJ',
        seriesBookType: 'COLLECTED_EDITION',
        orderNumber: Number.parseInt(bookDisplayNumber, 10),
      },
    ],
  };
}
