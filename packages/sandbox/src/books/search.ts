/**
 * `q`: words and "phrases", all of which have to occur, but for those behind a minus, which must not; a prefix such as
 * `inauthor:` says where. What was found is ranked by where it was found: in titles before authors before the rest.
 * Every volume is looked at: 20,000 of them take 10 ms, and need no index that every change would have to keep.
 */
import { invalid } from './errors.ts';
import type { VolumeInfo, WorldVolume } from './records.ts';

/** How much a term counts in a volume that has it; 0 where it has not. */
type Counts = (info: VolumeInfo) => number;

/** A question of more or of longer terms is none: it would keep the server busy for everybody else. */
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

/** Whether a text has another, whatever the case of their letters. */
function holder(text: string): (whole: string | undefined) => boolean {
  const pattern = new RegExp(text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&'), 'iu');
  return whole => whole !== undefined && pattern.test(whole);
}

function numbered(text: string): Counts {
  const number = bare(text);
  return ({ industryIdentifiers }) =>
    industryIdentifiers?.some(({ identifier }) => bare(identifier) === number) ? 8 : 0;
}

/** A number is the same with and without its blanks and hyphens. */
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

/** A text of another prefix, such as `note:this`, is looked for as it stands. */
const TERM = /(-)?(?:(\w+):)?(?:"([^"]*)"|(\S+))/g;

/** How well a volume answers `q`; 0 if it does not. */
function matcher(q: string): (volume: WorldVolume) => number {
  const asked = [...q.matchAll(TERM)];
  if (asked.length > MOST_TERMS) throw invalid('q', `A search of more than ${MOST_TERMS} terms is not answered.`);
  if (asked.some(([all]) => all.length > LONGEST_TERM)) {
    throw invalid('q', `A term of more than ${LONGEST_TERM} characters is not looked for.`);
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

/** Those that answer `q`: the best first, and among equals in the order in which they were given. */
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

/** Most recently published first; what has no date comes last, what is not exact as the earliest that it can be. */
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
