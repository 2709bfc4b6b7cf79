/** Readers that are wrong: the source of the product with one line changed. The page says which small world finds each. */
import { type Mistaken, withMistake } from '../planted.ts';
import type { Readers } from './small-worlds.ts';

export interface Planted {
  readonly reader: string;
  readonly what: string;
  /** In src/engine/reading. */
  readonly file: string;
  readonly line: string;
  readonly instead: string;
}

const folder = 'src/engine/reading';
const modules = ['moving-list', 'page-walk', 'by-creation', 'whole-list', 'by-cursor', 'collection'];

async function readersOf(load: Mistaken<unknown>['load']): Promise<Readers> {
  const loaded = await Promise.all(modules.map(name => load<object>(`${folder}/${name}.ts`)));
  return Object.assign({}, ...loaded);
}

/** The readers with this change. */
export async function withPlanted<T>({ file, line, instead }: Planted, work: (readers: Readers) => T): Promise<T> {
  using copy = await withMistake(`${folder}/${file}`, [{ file: `${folder}/${file}`, from: line, to: instead }]);
  return work(await readersOf(copy.load));
}

const of =
  (reader: string, file: string) =>
  (what: string, line: string, instead: string): Planted => ({ reader, what, file, line, instead });
const moving = of('moving list', 'moving-list.ts');
const tie = of('moving list', 'tie.ts');
const overlap = of('moving list', 'overlap.ts');
const walk = of('walk by pages', 'page-walk.ts');
const creation = of('by creation', 'by-creation.ts');
const creationTie = of('by creation', 'tie.ts');
const whole = of('whole list', 'whole-list.ts');
const cursor = of('cursor', 'by-cursor.ts');
const shelf = of('shelf', 'collection.ts');

const claimed = `const claimed = Math.min(to, this.#most, this.#until, floorSecond(asOf - this.#options.lookbackMs));
    if (claimed < to) this.#most = claimed;
    this.#read = to;
    return claimed;`;
const movedOn = `this.#proof = this.#covering(last, page.asOf);
        this.#since = last - secondMs;
      } else {`;

export const planted: readonly Planted[] = [
  moving(
    'begins at its own second',
    'this.#since = Math.max(0, this.#start - secondMs);',
    'this.#since = this.#start;',
  ),
  moving('claims a second too many', claimed, claimed.replace('lookbackMs)', 'lookbackMs) + secondMs')),
  moving('claims without the lookback', claimed, claimed.replace('asOf - this.#options.lookbackMs', 'asOf')),
  moving(
    'claims more with the next page than with one that stopped short',
    claimed,
    claimed.replace('if (claimed < to) this.#most = claimed;', ''),
  ),
  moving('claims beyond what it read', claimed, claimed.replace('Math.min(to, ', 'Math.min(')),
  moving('claims the last second of a page', movedOn, movedOn.replace('(last,', '(last + secondMs,')),
  moving('continues at the last second of a page', movedOn, movedOn.replace('last - secondMs', 'last')),
  moving('continues behind the last second of a page', movedOn, movedOn.replace('last - secondMs', 'last + secondMs')),
  moving(
    'asks for a full second again and again',
    '} else if (last - secondMs > since) {',
    '} else if (last > since) {',
  ),
  moving(
    'claims the end as of the Date of its page',
    'this.#covering(Infinity, page.asOf), this.#options);',
    'this.#covering(Infinity, page.trueBy), this.#options);',
  ),
  moving(
    'leaves a tie a second too late',
    'if (!tie.deep) this.#since = tie.before - secondMs;',
    'if (!tie.deep) this.#since = tie.before;',
  ),
  moving('does not walk through a tie beyond paging', 'if (there.deep && there.before', 'if (false && there.before'),
  moving('claims a tie beyond paging', 'this.#start = second + secondMs;\n', ''),
  moving('walks again through what it has walked', 'this.#left = tied;', ''),
  moving('claims a walk as of its end', 'asOf = Math.min(asOf, page.asOf);', 'asOf = page.asOf;'),
  moving('walks through what was updated later', 'updatedSince: top - secondMs };', 'updatedSince: top };'),
  moving(
    'claims a walk without the lookback',
    'const claimed = Math.min(this.#until, floorSecond(asOf - this.#options.lookbackMs));',
    'const claimed = Math.min(this.#until, floorSecond(asOf));',
  ),
  moving('does not note ties', '...(tie.whole ? {} : tied(Math.max(start, since), to, tie))', ''),
  moving('notes of a tie only its first page', 'pages.flatMap(({ rows })', 'pages.slice(0, 1).flatMap(({ rows })'),
  tie('reads a tie only forwards', 'back.unshift(yield* inOrder({ since, page, perPage: backPerPage }, {}));', ''),
  tie('skips the first page of a tie on the way back', 'page >= 1; page--', 'page >= 2; page--'),
  tie(
    'claims a tie as of its last page',
    'const asOf = Math.min(...pages.map(page => page.asOf));',
    'const asOf = Math.max(...pages.map(page => page.asOf));',
  ),
  tie(
    'ends a tie behind its last record',
    'return { pages, before: last, deep: false };',
    'return { pages, before: last + secondMs, deep: false };',
  ),
  overlap('takes pages that do not overlap for whole', 'ends : isOn(keys, next)', 'ends : true'),
  overlap('takes an empty page for the end of a tie', 'next.length === 0 ? ends :', 'next.length === 0 ||'),
  tie('takes a full page for the last one', 'ended: isLast(page, perPage) ||', 'ended: page.arrived <= perPage ||'),
  walk(
    'walks forwards',
    'for (let page = walk.page; page >= 1; page--) {',
    'for (let page = 1; page <= walk.page; page++) {',
  ),
  walk(
    'claims a second too many',
    'const claim = (to: Ms, asOf: Ms, lookbackMs: number) => Math.min(to, floorSecond(asOf - lookbackMs));',
    'const claim = (to: Ms, asOf: Ms, lookbackMs: number) => Math.min(to, floorSecond(asOf - lookbackMs) + secondMs);',
  ),
  walk(
    'resumes a page too low',
    'walk: { ...walk, page: Math.max(1, page - 1) }',
    'walk: { ...walk, page: Math.max(1, page - 2) }',
  ),
  walk(
    'skips the first page',
    'for (let page = walk.page; page >= 1; page--) {',
    'for (let page = walk.page; page >= 2; page--) {',
  ),
  walk('claims beyond the depth', 'const next: Next = walk.deep ?', 'const next: Next = false ?'),
  walk(
    'begins the next walk at a record that it has not met',
    'if (first === undefined) beyond = middle;',
    'if (first === undefined) known = middle;',
  ),
  creation(
    'claims a second too many',
    'const claimed = Math.min(to, most, until, floorSecond(asOf - lookbackMs));',
    'const claimed = Math.min(to, most, until, floorSecond(asOf - lookbackMs) + secondMs);',
  ),
  creation(
    'continues at the last second',
    'proof = claim(last, page.asOf);\n      since = last - secondMs;',
    'proof = claim(last, page.asOf);\n      since = last;',
  ),
  creation(
    'claims the last second',
    'proof = claim(last, page.asOf);\n      since = last - secondMs;',
    'proof = claim(last + secondMs, page.asOf);\n      since = last - secondMs;',
  ),
  creation(
    'believes two readings that do not show the same',
    'return backwardsLast && isStill && inOneOrder(there, back) && back.every(row => shown.has(row));',
    'return true;',
  ),
  creationTie(
    'reads a tie only forwards',
    'back.unshift(yield* inOrder({ since, page, perPage: backPerPage }, {}));',
    '',
  ),
  whole('does not read backwards', 'for (let back = ignored ? 0 : page - 1;', 'for (let back = 0;'),
  whole('does not read the first page again', 'back >= 1; back--', 'back >= 2; back--'),
  cursor('does not look whether the list has moved', 'if (overlap && page > 1 && borders[0] !== last) break;', ''),
  cursor(
    'ends with the page before the last',
    'if (next === undefined) return',
    'if (next === undefined || page === 2) return',
  ),
  shelf('believes one reading', 'const agreed = again ?', 'const agreed = before ?'),
  shelf('believes a reading in which a volume comes twice', '(hasTwice(ids) ? 3 : 2)', '2'),
  shelf(
    'compares only how long two readings are',
    'agrees &&= arrived.every((id, i) => id === before!.ids[ids.length + i]);',
    '',
  ),
  shelf(
    'names the time of the second reading',
    "if (agreed >= (hasTwice(ids) ? 3 : 2)) return { found: 'whole', asOf: before!.endAsOf };",
    "if (agreed >= (hasTwice(ids) ? 3 : 2)) return { found: 'whole', asOf };",
  ),
];
