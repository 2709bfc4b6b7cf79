/**
 * JSON of volumes and shelves. A single volume is complete; lists shorten it. `token` makes etag, preview and image links
 * differ in every reply, even without a change.
 */
import { raw } from '../http/raw-json.ts';
import type { Price, SaleInfo, WorldShelf, WorldVolume } from './records.ts';

/** Longest description in lists, cut at the last space before. */
const CUT = 250;

export interface Look {
  /** Base address of the service. */
  base: string;
  place: 'single' | 'list';
  lite: boolean;
  country: string;
  /** Returns a new token for each volume of each reply. */
  token: () => string;
  /** Builds `userInfo`; absent if replies have none. */
  about?: ((volume: WorldVolume) => object) | undefined;
}

export function showVolume(volume: WorldVolume, look: Look): object {
  const { id, info } = volume;
  const token = look.token();
  const { language, description, ...shown } = info;
  const listed = look.place === 'list';
  return {
    kind: 'books#volume',
    id,
    etag: token,
    selfLink: `${look.base}/volumes/${id}`,
    volumeInfo: {
      ...(look.lite ? liteInfo(info) : shown),
      ...(description !== undefined && !look.lite && { description: listed ? cut(description) : description }),
      ...(volume.cover && { imageLinks: imageLinks(volume, look, token) }),
      ...(language !== undefined && !listed && !look.lite && { language }),
      previewLink: `https://books.example/books?id=${id}&printsec=frontcover&cd=${token.length}&tk=${token}`,
      infoLink: `https://books.example/books?id=${id}&source=api`,
      canonicalVolumeLink: `https://books.example/books/about/_.html?id=${id}`,
    },
    ...(volume.saleInfo && !look.lite && { saleInfo: showSale(volume.saleInfo, look.country) }),
    ...(look.about && { userInfo: look.about(volume) }),
    accessInfo: { country: look.country, ...volume.accessInfo },
    ...(listed && description && !look.lite && { searchInfo: { textSnippet: snippet(description, token) } }),
  };
}

function liteInfo({ title, subtitle, authors, publisher, publishedDate }: WorldVolume['info']): object {
  return {
    title,
    ...(subtitle !== undefined && { subtitle }),
    ...(authors && { authors }),
    ...(publisher !== undefined && { publisher }),
    ...(publishedDate !== undefined && { publishedDate }),
  };
}

function imageLinks({ id }: WorldVolume, { place }: Look, token: string): object {
  const names = place === 'list' ? ['smallThumbnail', 'thumbnail'] : ['smallThumbnail', 'thumbnail', 'small', 'medium'];
  const link = (zoom: number) =>
    `http://books.example/books/content?id=${id}&printsec=frontcover&img=1&zoom=${zoom}&edge=curl&imgtk=${token}`;
  return Object.fromEntries(names.map((name, at) => [name, link([5, 1, 2, 3][at]!)]));
}

/** `offers` repeats the price in millionths: numbers beyond 32 bits, some with an exponent. */
function showSale({ saleability, isEbook, onSaleDate, listPrice, retailPrice }: SaleInfo, country: string): object {
  return {
    country,
    saleability,
    isEbook,
    ...(onSaleDate !== undefined && { onSaleDate }),
    ...(listPrice && { listPrice: showPrice(listPrice) }),
    ...(retailPrice && { retailPrice: showPrice(retailPrice) }),
    ...(isEbook && { buyLink: 'https://books.example/store' }),
    ...(listPrice && {
      offers: [{ finskyOfferType: 1, listPrice: inMicros(listPrice), retailPrice: inMicros(retailPrice ?? listPrice) }],
    }),
  };
}

const showPrice = ({ amount, currencyCode }: Price) => ({ amount: raw(amount), currencyCode });

function inMicros({ amount, currencyCode }: Price): object {
  const micros = (Number(amount) * 1e6).toExponential();
  return { amountInMicros: raw(micros.replace('e+', 'E')), currencyCode };
}

function cut(text: string): string {
  if (text.length <= CUT) return text;
  const blank = text.lastIndexOf(' ', CUT);
  return `${piece(text, 0, blank > CUT / 2 ? blank : CUT)} ...`;
}

/** A piece of the text that depends on the token. */
function snippet(text: string, token: string): string {
  const from = text.length > 80 ? token.charCodeAt(0) % 40 : 0;
  return `... ${piece(text, from, from + 120)} ...`;
}

/** A slice that cuts no surrogate pair. */
function piece(text: string, from: number, to: number): string {
  const inPair = (at: number) => (text.codePointAt(at - 1) ?? 0) > 0xffff;
  return text.slice(inPair(from) ? from - 1 : from, inPair(to) ? to - 1 : to);
}

/** `dated`: whether to show volumesLastUpdated. */
export function showShelf(shelf: WorldShelf, selfLink: string, dated: boolean): object {
  const { id, title, description, access, created, updated, volumesLastUpdated, volumes } = shelf;
  return {
    kind: 'books#bookshelf',
    id,
    selfLink,
    title,
    ...(description !== undefined && { description }),
    access,
    updated,
    created,
    volumeCount: volumes.length,
    ...(dated && { volumesLastUpdated }),
  };
}
