/** What is wrong with a page of a moving list or of a walk by pages, and with the mirror when it is quiet. */
import { type Ask, floorSecond, type Proof, type Step, type Walk } from '../../../../../src/engine/reading/reading.ts';
import type { Limits } from '../changes.ts';
import { bits, bitsOf, has, type Mirror, topOf, walkOf } from '../mirror.ts';
import type { ListPlayed } from '../played.ts';
import { asOf, dateOf, lives, placeOf, type Rules, type Shown, toMs, toSecond, type World } from '../world.ts';
import { type Heard, hearing } from './frugal.ts';
import type { Run, State } from './moving-state.ts';

/** `middle`: where a backfill ends and the sync begins. `begunAsOf`: what a reply is true of at the beginning. */
export function judgeOf(rules: Rules, limits: Limits, middle: number, begunAsOf: number) {
  const depth = rules.pages * rules.perPage;
  const lookbackMs = rules.lookback * 1000;

  /** A reading begins where it is told to, asks no more than is wanted, and does not give up. */
  function needless(
    { world: now, left }: State,
    { begun, claimed, node: { step, isNew } }: Run,
    then: ListPlayed['step'],
    { covered, gap }: Proof,
  ): string | undefined {
    const { from, until, walk, firstLoad } = begun;
    const { ask } = (step as IteratorYieldResult<Step>).value;
    if ('failed' in then) return undefined;
    if (ask.order === undefined && toSecond(ask.since!) < from - 1) return 'what was read before is asked for again';
    if (gap && toSecond(gap.from) < from) return 'a gap begins before what is wanted';
    if (gap && gap.from < (covered?.to ?? claimed?.to ?? gap.from)) return 'a gap begins in what is claimed';
    const end = toSecond(Math.max(covered?.to ?? 0, gap?.to ?? 0));
    if (until !== undefined && end > until) return 'more is claimed than is wanted';
    if (until !== undefined && !then.done && end >= until) return 'more is asked for than is wanted';
    if (rules.hidden && !then.done && covered && then.value.ask.since! < covered.to - 1000)
      return 'what is claimed is asked for once more';
    if (rules.hidden && until !== undefined && left.changes === limits.changes && isBehind(ask, until, now))
      return 'a page behind the end is asked for';
    if (!rules.hidden && ask.count && (until !== undefined || (isNew && !firstLoad)))
      return 'a count is paid for that is not needed';
    if (!isNew) return undefined;
    // The walk of another end is no help.
    const own = begun.isOwn ? walk : undefined;
    if (!rules.hidden) {
      const isResumed = ask.order === 'created';
      if (own && isNeeded(own, from)) return isResumed && isOf(own, ask) ? undefined : 'a walk does not resume';
      return isResumed ? 'a walk that proves nothing more is resumed' : undefined;
    }
    if (!firstLoad && ask.count) return 'a list of one page pays for a count';
    return own && ask.page !== own.page ? 'a walk does not resume at its page' : undefined;
  }

  /** A page that shows nothing in an order is asked for again, five times in all. Then the reading gives up, and only then. */
  function misread(faulty: boolean, { repeats, last }: Heard, then: ListPlayed['step']): string | undefined {
    if ('failed' in then) return faulty && repeats === 5 ? undefined : then.failed;
    if (!faulty) return undefined;
    const { since = -1, page } = then.done ? {} : then.value.ask;
    return last && toSecond(since) === last.since && page === last.page
      ? undefined
      : 'a page that shows nothing in an order is believed';
  }

  /** Where nothing has changed, no request is needless. */
  function wasteful({ world: now, left }: State, run: Run, heard: Heard, then: ListPlayed['step']): string | undefined {
    const { begun, claimed, node } = run;
    if (left.changes < limits.changes || left.ticks < limits.ticks || rules.ties === 'id, turning') return undefined;
    if (rules.reversed || rules.unreadable) return undefined;
    const { needlessOfMoving, needlessOfWalk } = hearing(rules, begun);
    if (!rules.hidden) return needlessOfMoving(heard, now, then, claimed?.to, begun.isOwn);
    const { proof } = (node.step as IteratorYieldResult<Step>).value;
    const own = begun.isOwn ? begun.walk : undefined;
    return needlessOfWalk(heard, now, then, proof.walk?.asOf ?? own?.asOf, own === undefined);
  }

  /** A sync reads on up to where the list was when it began, also where it resumed an older walk. */
  function isTooShort(
    { world: { items }, left }: State,
    { node: { step }, parts, asOf: begunAsOf }: Run,
    mirror: Mirror,
  ): string | undefined {
    if (parts !== undefined || 'failed' in step || !step.done) return undefined;
    // Of two runs the place may be that of the other.
    const walk = limits.beside ? undefined : walkOf(mirror);
    if (walk && (rules.hidden || isNeeded(walk, topOf(mirror.covered))))
      return 'a sync ends, and the place of its walk is kept';
    // What is dated ahead is read as well, as far as paging reaches.
    const isShown = (time: number, id: number) =>
      time < middle || mirror.rows[id] !== undefined || rules.unreadable?.includes(id);
    const ahead = items.filter(({ versions }) => versions[0]!.time > begunAsOf).length;
    const isReadable = items.length <= depth || (!rules.hidden && mirror.gaps === 0 && ahead === 0);
    if (
      left.changes === limits.changes &&
      isReadable &&
      !items.every(({ versions }, id) => isShown(versions[0]!.time, id))
    )
      return 'a sync ends and has not shown all that stands in its list';
    const due = bits(middle, begunAsOf - rules.lookback);
    const unread = due & ~(mirror.covered | mirror.gaps);
    return mirror.torn.reduce((rest, { from, to }) => rest & ~bits(from, to), unread) === 0
      ? undefined
      : 'a sync ends before it has read what was there when it began';
  }

  /** The members of a tie are the records that its pages show in it, and it is told by the last of its pages. */
  function misjudged(
    now: World,
    { order, since }: Ask,
    { tie, covered }: Proof,
    shown: readonly Shown[],
  ): string | undefined {
    // A walk by creation comes between the tie and what is told of it.
    if (!tie || order === 'created') return undefined;
    if (tie.to !== covered?.to || tie.from !== Math.max(covered.from, since!))
      return 'a tie is another range than that which was read by pages';
    const isIn = ({ time }: { readonly time: number }) => toMs(time) < tie.to;
    const ids = tie.ids.map(id => Number(id.slice(1)));
    // Of one that has changed the world forgets what it was.
    const isKnown = ({ versions: [first] }: World['items'][number]) => first!.made < 0;
    if (ids.some(id => isKnown(now.items[id]!) && !now.items[id]!.versions.some(isIn)))
      return 'a tie has a member that was never in it';
    if (shown.some(one => isIn(one) && !ids.includes(one.id))) return 'a tie lacks a member that its last page shows';
    return toSecond(tie.toldBy) < dateOf(now, rules) ? 'a tie is told by an earlier page than its last' : undefined;
  }

  /** A run that dies at the next page of a walk resumes there: the place that was committed says so. */
  function forgotten({ page, perPage, order }: Ask, then: ListPlayed['step'], gaps: number): string | undefined {
    if ('failed' in then || then.done) return undefined;
    const { ask, proof } = then.value;
    if (proof.walk?.asOf === Infinity) return 'a walk is kept that has not begun';
    // Behind a gap a walk by pages keeps no place (page-walk.ts).
    if (rules.hidden && perPage === rules.perPage && ask.perPage === perPage && ask.page === page - 1 && gaps === 0)
      return proof.walk?.page === ask.page ? undefined : 'the place of a walk by pages is not kept';
    if (order !== 'created' || ask.order !== 'created') return undefined;
    const { walk } = proof;
    if (!walk) return 'the place of a walk by creation is not kept';
    const read = Math.min(ask.since ?? 0, floorSecond(walk.asOf - lookbackMs));
    return walk.since >= read ? undefined : 'the place of a walk by creation is not where it is';
  }

  /** A page of the list in the order of creation, behind all that stood there at the end of what is wanted. */
  function isBehind({ since, page, perPage }: Ask, until: number, { items }: World): boolean {
    if (perPage < rules.perPage || toSecond(since!) >= until) return false;
    return page > Math.floor(items.filter(({ created }) => created <= until).length / perPage) + 1;
  }

  /** A walk by creation that proves more than was read. */
  const isNeeded = ({ updatedSince, asOf: begun }: Walk, from: number) =>
    updatedSince !== undefined && updatedSince < toMs(from) && toSecond(begun) - rules.lookback > from;
  const isOf = (walk: Walk, { order, since = 0 }: Ask) => order === 'created' && since >= walk.since - 1000;

  /** The seconds of which a page may have missed a record because another one had been deleted, and a copy still showed that. */
  function displaced({ tie, covered }: Proof, { items }: World): number {
    if (rules.hidden) return covered && !items.every(lives) ? bitsOf(covered) : 0;
    return tie?.ids.some(id => !lives(items[Number(id.slice(1))]!)) ? bitsOf(tie) : 0;
  }

  function missing({ mirror, excused, left, world }: State): string | undefined {
    const { items } = world;
    if (left.changes === limits.changes && hasNeedlessGap(mirror.gaps, items))
      return 'a second is left as a gap that a reading by creation would have filled';
    const read = bits(middle, asOf(world, rules) - rules.lookback);
    if ((read & ~(mirror.covered | mirror.gaps)) !== 0) return 'a quiet sync has not read all up to the lookback';
    for (let id = 0; id < items.length; id++) {
      const { versions, gone } = items[id]!;
      const { time, order } = versions.at(-1)!;
      if (
        gone !== undefined ||
        rules.unreadable?.includes(id) ||
        time < middle ||
        has((mirror.gaps & ~mirror.covered) | excused, time)
      )
        continue;
      if (mirror.rows[id]?.order !== order) return `after a quiet sync the last change of record ${id} is missing`;
    }
    return undefined;
  }

  /**
   * Each second of creation, with the one before it, is within reach of paging. A walk by pages needs the one behind it too, and that
   * both are over; but only around the gap, which begins and ends with a second that it may not have needed.
   */
  function hasNeedlessGap(gaps: number, items: World['items']): boolean {
    const behind = rules.hidden ? 1 : 0;
    const within = (second: number) =>
      items.filter(({ created }) => second - 1 <= placeOf(created) && placeOf(created) <= second + behind).length;
    const isOver = (second: number) => !rules.hidden || second < begunAsOf - rules.lookback;
    const isWalkable = ({ created }: World['items'][number]) => within(placeOf(created)) < depth && isOver(created);
    const seconds = Array.from({ length: 30 }, (_, second) => second).filter(second => has(gaps, second));
    if (!rules.hidden) {
      const isShort = (second: number) =>
        items.filter(({ versions: [first] }) => first!.time === second).length < depth;
      // A second whose order does not stand still is a gap. One beyond paging is walked by creation instead.
      if (rules.ties === 'id, turning') return items.every(isWalkable) && !seconds.every(isShort);
      return seconds.some(isShort) || (gaps !== 0 && items.every(isWalkable));
    }
    const near = (second: number) => items.filter(({ created }) => Math.abs(created - second) <= 2);
    return seconds.some(second => near(second).every(isWalkable));
  }

  return { misread, needless, wasteful, isTooShort, misjudged, forgotten, displaced, missing };
}
