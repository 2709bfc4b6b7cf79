/**
 * `q`: words and "phrases", all of which have to occur, but for those behind a minus, which must not; a prefix such as
 * `inauthor:` says where. What was found is ranked by where it was found: in titles before authors before the rest.
 * Among tens of thousands of volumes each text is brought to lower case once, not once for each search.
 */
import type { VolumeInfo, WorldVolume } from './records.ts';

interface Texts {
  title: string;
  authors: string;
  publisher: string;
  subjects: string;
  description: string;
  /** With their blanks and hyphens gone: `9781402894626`, `lccn:2001020304`. */
  identifiers: readonly string[];
}

/** How much a term counts that a volume has; 0 if it has not. */
type Counts = (texts: Texts) => number;

const PREFIXES: Record<string, (text: string) => Counts> = {
  intitle: text => texts => (texts.title.includes(text) ? 8 : 0),
  inauthor: text => texts => (texts.authors.includes(text) ? 4 : 0),
  inpublisher: text => texts => (texts.publisher.includes(text) ? 2 : 0),
  subject: text => texts => (texts.subjects.includes(text) ? 2 : 0),
  isbn: text => numbered(bare(text)),
  lccn: text => numbered(`lccn:${bare(text)}`),
  oclc: text => numbered(`oclc:${bare(text)}`),
};

const numbered =
  (identifier: string): Counts =>
  ({ identifiers }) =>
    identifiers.includes(identifier) ? 8 : 0;

function anywhere(text: string): Counts {
  const number = bare(text);
  return ({ title, authors, publisher, subjects, description, identifiers }) => {
    if (title.includes(text)) return 8;
    if (authors.includes(text)) return 4;
    if (subjects.includes(text) || publisher.includes(text)) return 2;
    return description.includes(text) || identifiers.includes(number) ? 1 : 0;
  };
}

/** A text of another prefix, such as `note:this`, is looked for as it stands. */
const TERM = /(-)?(?:(\w+):)?(?:"([^"]*)"|(\S+))/g;

/** How well a volume answers `q`; 0 if it does not. */
export function matcher(q: string): (volume: WorldVolume) => number {
  const terms = [...q.matchAll(TERM)].map(([all, minus, prefix = '', phrase, word]) => {
    const at = Object.hasOwn(PREFIXES, prefix) ? PREFIXES[prefix] : undefined;
    const text = at ? (phrase ?? word)! : (phrase ?? all.slice(minus ? 1 : 0));
    return { wanted: minus === undefined, counts: (at ?? anywhere)(lower(text)) };
  });
  return ({ info }) => {
    const texts = textsOf(info);
    let sum = 1;
    for (const { wanted, counts } of terms) {
      const count = counts(texts);
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

// --- the texts, once ----------------------------------------------------------------------------------------------------

/** A change of a volume brings another object for what is known of it: what is kept here cannot be old. */
const known = new WeakMap<VolumeInfo, Texts>();

function textsOf(info: VolumeInfo): Texts {
  const kept = known.get(info);
  if (kept) return kept;
  const texts: Texts = {
    title: lower(`${info.title}\n${info.subtitle ?? ''}`),
    authors: lower(info.authors?.join('\n') ?? ''),
    publisher: lower(info.publisher ?? ''),
    subjects: lower(info.categories?.join('\n') ?? ''),
    description: lower(info.description ?? ''),
    identifiers: (info.industryIdentifiers ?? []).map(({ identifier }) => bare(lower(identifier))),
  };
  known.set(info, texts);
  return texts;
}

const lower = (text: string) => text.toLowerCase();
const bare = (text: string) => text.replaceAll(/[\s-]/g, '');
