/**
 * The query `q`: words and "phrases" that must all occur, terms after a minus that must not, and prefixes such as
 * `inauthor:` for a field. Matches in titles rank before authors, authors before the rest. A search scans all volumes:
 * 20,000 take 10 ms, so no index is needed.
 */
import { invalid } from '../errors.ts';
import type { VolumeInfo, WorldVolume } from '../records.ts';

/** Rank of a volume for a term; 0 if the term does not match. */
type Counts = (info: VolumeInfo) => number;

/** Bounds for terms of a query, so that one search cannot block the server. */
const MOST_TERMS = 64;
const LONGEST_TERM = 1000;

const PREFIXES: Record<string, (text: string) => Counts> = {
  intitle: text => {
    const has = holder(text);
    return info => (has(info.title) || has(info.subtitle) ? 8 : 0);
  },
  inauthor: text => {
    const has = holder(text);
    return ({ authors }) => (authors?.some(has) ? 4 : 0);
  },
  inpublisher: text => {
    const has = holder(text);
    return ({ publisher }) => (has(publisher) ? 2 : 0);
  },
  subject: text => {
    const has = holder(text);
    return ({ categories }) => (categories?.some(has) ? 2 : 0);
  },
  isbn: text => numbered(text),
  lccn: text => numbered(`LCCN:${text}`),
  oclc: text => numbered(`OCLC:${text}`),
};

/** Case-insensitive test for a text within another. */
function holder(text: string): (whole: string | undefined) => boolean {
  const pattern = new RegExp(text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&'), 'iu');
  return whole => whole !== undefined && pattern.test(whole);
}

function numbered(text: string): Counts {
  const number = bare(text);
  return ({ industryIdentifiers }) =>
    industryIdentifiers?.some(({ identifier }) => bare(identifier) === number) ? 8 : 0;
}

/** An identifier without spaces and hyphens, in upper case. */
const bare = (identifier: string) => identifier.replaceAll(/[\s-]/g, '').toUpperCase();

function anywhere(text: string): Counts {
  const has = holder(text);
  const isNumber = /\d/.test(text) ? numbered(text) : () => 0;
  return info => {
    if (has(info.title) || has(info.subtitle)) return 8;
    if (info.authors?.some(has)) return 4;
    if (has(info.publisher) || info.categories?.some(has)) return 2;
    return has(info.description) ? 1 : isNumber(info);
  };
}

/** One term. Text with an unknown prefix, such as `note:this`, is searched literally. */
const TERM = /(-)?(?:(\w+):)?(?:"([^"]*)"|(\S+))/g;

/** Rank of a volume for `q`; 0 if it does not match. */
function matcher(q: string): (volume: WorldVolume) => number {
  const asked = [...q.matchAll(TERM)];
  if (asked.length > MOST_TERMS) throw invalid('q', `A search has at most ${MOST_TERMS} terms.`);
  if (asked.some(([all]) => all.length > LONGEST_TERM)) {
    throw invalid('q', `A search term has at most ${LONGEST_TERM} characters.`);
  }
  const terms = asked.map(([all, minus, prefix = '', phrase, word]) => {
    const at = Object.hasOwn(PREFIXES, prefix) ? PREFIXES[prefix] : undefined;
    const text = at ? (phrase ?? word)! : (phrase ?? all.slice(minus ? 1 : 0));
    return { wanted: minus === undefined, counts: (at ?? anywhere)(text) };
  });
  return ({ info }) => {
    let sum = 1;
    for (const { wanted, counts } of terms) {
      const count = counts(info);
      if (wanted !== count > 0) return 0;
      sum += count;
    }
    return sum;
  };
}

/** Matches of `q`, best rank first; equal ranks keep their order. */
export function found(volumes: Iterable<WorldVolume>, q: string): WorldVolume[] {
  const rank = matcher(q);
  const shelves = new Map<number, WorldVolume[]>();
  for (const volume of volumes) {
    const count = rank(volume);
    if (count === 0) continue;
    const equals = shelves.get(count);
    if (equals) equals.push(volume);
    else shelves.set(count, [volume]);
  }
  return [...shelves].sort(([a], [b]) => b - a).flatMap(([, equals]) => equals);
}

/** Latest publication first; volumes without date last. An inexact date counts as its earliest day. */
export function newestFirst(volumes: readonly WorldVolume[]): WorldVolume[] {
  return volumes
    .map(volume => ({ volume, day: dayOf(volume.info) }))
    .sort((a, b) => b.day - a.day)
    .map(({ volume }) => volume);
}

function dayOf({ publishedDate = '' }: VolumeInfo): number {
  const [, year, month = '00', day = '00'] = /^(\d\d[\d?]{2})(?:-(\d\d))?(?:-(\d\d))?/.exec(publishedDate) ?? [];
  return year === undefined ? -1 : Number(year.replaceAll('?', '0') + month + day);
}
