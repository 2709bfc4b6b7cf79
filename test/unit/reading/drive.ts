/**
 * A mirror in memory, and the loop that fills it as a sync does: ask, read, and commit the rows of a page together with
 * what it proves. After each commit everything is checked that must hold at any moment.
 */
import type { TooLarge } from '../../../src/engine/reading/fewer.ts';
import {
  endOf,
  floorSecond,
  type Ms,
  type Page,
  type Pages,
  type Proof,
  type Range,
  type Reader,
  type ReadingOptions,
  type Walk,
} from '../../../src/engine/reading/reading.ts';
import type { ModelList, ModelRow } from './model.ts';

interface Kept {
  readonly time: Ms;
  readonly version: number;
  readonly asOf: Ms;
}

export class Mirror {
  readonly rows = new Map<string, Kept>();
  covered: Range[] = [];
  gaps: (Range & { reason: string })[] = [];
  walk: Walk | undefined;
  pages: Pages | undefined;

  commit(page: Page, proof: Proof): void {
    for (const row of page.rows as readonly ModelRow[]) {
      const kept = this.rows.get(row.id);
      const newer =
        kept === undefined || row.trueTime > kept.time || (row.trueTime === kept.time && page.asOf > kept.asOf);
      if (newer) this.rows.set(row.id, { time: row.trueTime, version: row.version, asOf: page.asOf });
    }
    if (proof.covered) this.covered = union([...this.covered, proof.covered]);
    if (proof.gap) this.gaps.push(proof.gap);
    if (proof.pages) this.pages = proof.pages;
    if (proof.walk !== undefined) this.walk = proof.walk ?? undefined;
  }

  /** Where a run goes on: at the top of what is covered, or, where not all is wanted, at the first gap. */
  next(from: Ms, bounded: boolean): Ms {
    if (!bounded) return Math.max(from, this.covered.at(-1)?.to ?? from);
    return this.covered.find(range => range.from <= from && from < range.to)?.to ?? from;
  }

  covers(time: Ms): boolean {
    return this.covered.some(range => range.from <= time && time < range.to);
  }

  inGap(time: Ms): boolean {
    return this.gaps.some(gap => gap.from <= time && time < gap.to);
  }
}

export function union(ranges: readonly Range[]): Range[] {
  const joined: Range[] = [];
  for (const { from, to } of ranges.toSorted((a, b) => a.from - b.from)) {
    const last = joined.at(-1);
    if (last && from <= last.to) joined[joined.length - 1] = { from: last.from, to: Math.max(last.to, to) };
    else if (to > from) joined.push({ from, to });
  }
  return joined;
}

export interface Drive {
  readonly list: ModelList;
  readonly mirror: Mirror;
  readonly read: Reader;
  readonly from: Ms;
  readonly options: ReadingOptions;
  /** The process dies before this commit. */
  readonly dieAt?: number;
  /** More requests than this are one too many. */
  readonly most?: number;
  /** `since` may go down (a bisection). */
  readonly freely?: boolean;
  /** The reply of this page is too large: only for a reader in fewer.ts. */
  readonly large?: (page: Page) => boolean;
}

export interface Driven {
  readonly requests: number;
  readonly credits: number;
  /** What this run proved. */
  readonly proofs: readonly Proof[];
}

export class Wrong extends Error {}

/** One run, from the top of what is covered. Throws `Wrong` as soon as something does not hold. */
export function drive(run: Drive): Driven {
  const { list, mirror, read, options, dieAt = Number.POSITIVE_INFINITY, most = run.large ? 10_000 : 5000 } = run;
  const proofs: Proof[] = [];
  const ends = options.ends && { ...options.ends, ...mirror.pages };
  const reading = read(mirror.next(run.from, options.until !== undefined), { ...options, walk: mirror.walk, ends });
  let since = Number.NEGATIVE_INFINITY;
  let requests = 0;
  let credits = 0;
  for (let step = reading.next(); !step.done; ) {
    const { ask } = step.value;
    if (++requests > most) throw new Wrong(`it has asked ${most} times and goes on`);
    if (ask.order === undefined) {
      if (!run.freely && !run.large && ask.since !== undefined && ask.since < since)
        throw new Wrong('since went backwards');
      since = ask.since ?? since;
    }
    credits += ask.count ? 2 : 1;
    const full = list.answer(ask);
    const isLarge = run.large?.(full) ?? false;
    const page = isLarge ? { ...full, rows: [] } : full;
    step = reading.next(isLarge ? (asLarge(full) as unknown as Page) : page);
    if (requests >= dieAt) break;
    const proof = step.done ? step.value : step.value.proof;
    proofs.push(proof);
    mirror.commit(page, proof);
    checkProof(proof, list.now - options.lookbackMs);
    checkBounds(proof, run);
    for (const { gap } of proofs) {
      if (gap && proofs.some(({ covered }) => covered && covered.from < gap.to && gap.from < covered.to)) {
        throw new Wrong(`claimed and a gap as well: ${iso(gap.from)}`);
      }
    }
    checkClaims(run);
  }
  return { requests, credits, proofs };
}

const asLarge = ({ asOf }: Page): TooLarge => ({ tooLarge: 'too large', asOf });

function checkProof({ covered, gap }: Proof, youngest: Ms): void {
  if (covered && covered.to > youngest)
    throw new Wrong(`claimed to ${iso(covered.to)}, younger than the lookback allows`);
  for (const range of [covered, gap]) {
    if (range && range.to < range.from) throw new Wrong(`a range that ends before it begins: ${iso(range.from)}`);
  }
}

/** Of what is not wanted nothing is claimed, and nothing said to be missing. */
function checkBounds({ covered, gap }: Proof, { from, options }: Drive): void {
  for (const range of [covered, gap]) {
    if (range && (range.from < floorSecond(from) || range.to > endOf(options)))
      throw new Wrong(`claimed what is not wanted: ${iso(range.from)} to ${iso(range.to)}`);
  }
}

/** I3: what is claimed is there, in its last version; and what is not claimed below the top is a gap, with a reason. */
function checkClaims({ list, mirror, from, options }: Drive): void {
  for (const { id, time, version } of list.truth()) {
    if (!mirror.covers(time) || mirror.inGap(time)) continue;
    const kept = mirror.rows.get(id);
    if (kept === undefined) throw new Wrong(`lost: ${id} of ${iso(time)}`);
    if (kept.version !== version) throw new Wrong(`stale: ${id} of ${iso(time)}`);
  }
  if (options.until !== undefined) return; // What it fills was a gap before.
  const known = union([...mirror.covered, ...mirror.gaps, { from: 0, to: from }]);
  const top = mirror.covered.at(-1);
  if (top && known[0]!.to < top.to) throw new Wrong(`a gap that nothing explains, from ${iso(known[0]!.to)}`);
}

/** After a quiet run: nothing is missing or old, but for gaps and for more in the future than paging may reach. */
export function checkComplete({ list, mirror, options }: Drive, from = 0): void {
  const truth = list.truth();
  const reach = truth.length <= options.depth ? Infinity : list.now + options.lookbackMs;
  for (const { id, time, version } of truth) {
    if (time < from || mirror.inGap(time) || time > reach) continue;
    if (mirror.rows.get(id)?.version !== version)
      throw new Wrong(`after a quiet run: ${id} of ${iso(time)} is missing`);
  }
}

const iso = (ms: Ms) => new Date(ms).toISOString();
