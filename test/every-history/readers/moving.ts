/**
 * The game of the moving list. Between two requests anything may happen to its records. A run may be killed at each page,
 * and resumes from what it committed. A second run may read concurrently. At the end it is quiet, and one more sync must
 * have everything.
 */
import {
  type Ask,
  floorSecond,
  type Proof,
  type Range,
  type Reader,
  type Step,
  type Walk,
} from '../../../src/engine/reading/reading.ts';
import { changesOf, type Limits } from './changes.ts';
import type { Game, Move } from './explore.ts';
import {
  bits,
  bitsOf,
  commit,
  empty,
  falseClaim,
  has,
  type Mirror,
  settle,
  takenBack,
  topOf,
  walkOf,
} from './mirror.ts';
import { isOver, type ListPlayed, Readings } from './played.ts';
import {
  asOf,
  beginningAt,
  dateOf,
  endAt,
  lives,
  placeOf,
  type Rules,
  refused,
  replyTo,
  type Shown,
  tick,
  toMs,
  toSecond,
  unevenIn,
  type World,
} from './world.ts';

export interface MovingGame {
  readonly world: World;
  readonly rules: Rules;
  readonly limits: Limits;
  readonly read: Reader;
}

/** Where a run is. A sync ends with the ranges that were taken back. */
interface Run {
  readonly node: ListPlayed;
  /** What the reading of this part has claimed: list-loop.ts claims only what it adds. */
  readonly claimed: Range | undefined;
  /** The parts that follow; undefined until the list was read to its end. */
  readonly parts: readonly { readonly from: number; readonly to: number }[] | undefined;
  readonly requests: number;
  /** Up to where its first page showed everything. It follows from the pages of `node`. */
  readonly asOf: number;
  readonly begun: Begun;
}
/** What a reading begins with. */
interface Begun {
  readonly from: number;
  readonly until: number | undefined;
  readonly walk: Walk | undefined;
  /** Nothing of the list has been read before. */
  readonly firstLoad: boolean;
}
type Runs = readonly ('to begin' | Run | 'over')[];

export interface State {
  readonly world: World;
  readonly mirror: Mirror;
  readonly runs: Runs;
  readonly left: { readonly changes: number; readonly ticks: number; readonly kills: number };
  /** Copies of different age may have answered: late changes show on one of them first. */
  readonly unsure: boolean;
  /** Seconds that were read by pages of copies that differ, about a record that was deleted: a sweep has to find them (SPEC, I3). */
  readonly excused: number;
  /** What happened since the last page; what can be put in another order is played in one. */
  readonly lately: Lately;
  readonly wrong: string | undefined;
  readonly quiet: boolean;
}

/** Whether the world moved since the last page, and the record that changed last in this second. */
interface Lately {
  readonly moved: boolean;
  readonly id: number;
}
const nothing: Lately = { moved: false, id: -1 };

const mostRequests = 60;

export function movingGame({ world, rules, limits, read }: MovingGame): Game<State> {
  const readings = new Readings(read);
  const paging = {
    lookbackMs: rules.lookback * 1000,
    perPage: rules.perPage,
    depth: rules.pages * rules.perPage,
  };
  /** Where the backfill ends and the sync begins. */
  const middle = limits.beside === 'backfill' ? 2 : 0;
  const reading = (begun: Begun, parts: Run['parts'], requests = 0): Run => {
    const { from, until, walk, firstLoad } = begun;
    const options = { ...paging, walk, until: until === undefined ? undefined : endAt(until, rules), firstLoad };
    return {
      node: readings.from(beginningAt(from, rules), options),
      claimed: undefined,
      parts,
      requests,
      asOf: 0,
      begun,
    };
  };
  const sync = (mirror: Mirror): Run => {
    const { covered } = mirror;
    const walk = walkOf(mirror);
    return reading(
      { from: Math.max(middle, topOf(covered)), until: undefined, walk, firstLoad: covered === 0 },
      undefined,
    );
  };
  const part = (from: number, until: number, parts: Run['parts'], requests = 0, walk?: Walk): Run =>
    reading({ from, until, walk, firstLoad: false }, parts, requests);
  const begun = (place: number, mirror: Mirror): Run | 'over' => {
    if (place === 0 || limits.beside === 'sync') return sync(mirror);
    let begin = 0;
    while (begin < middle && has(mirror.covered, begin)) begin++;
    return begin === middle ? 'over' : part(begin, middle, [], 0, walkOf(mirror, middle));
  };

  /** A run has committed this proof: it continues, begins its next part, or is over. */
  function next(run: Run, mirror: Mirror, known: number): { run: Run | 'over'; mirror: Mirror } {
    const { step } = run.node;
    if ('failed' in step) return { run: 'over', mirror };
    if (!step.done) return { run, mirror };
    const isSync = run.parts === undefined;
    const settled = isSync ? settle(mirror, known) : mirror;
    const [first, ...others] = isSync ? takenBack(settled) : run.parts!;
    const follows = first && part(first.from, first.to, others, run.requests);
    return { run: follows ? next(follows, settled, known).run : 'over', mirror: settled };
  }

  /** The reply of a copy that is `behind` by so many seconds, and the commit of what it proves. */
  function replied(state: State, place: number, behind: number): State {
    const run = state.runs[place] as Run;
    const { step } = run.node;
    if ('failed' in step || step.done) throw new Error('a run that is over asks for nothing');
    const reply = replyTo(state.world, step.value.ask, rules, behind);
    const node = run.node.after(reply.code, reply.page);
    const told = 'failed' in node.step ? {} : node.step.done ? node.step.value : node.step.value.proof;
    const proof = added(told, run.claimed);
    const committed =
      'failed' in node.step
        ? state.mirror
        : commit(state.mirror, state.world, rules, reply.rows, proof, run.begun.until);
    const shown = asOf(state.world, rules);
    const read = {
      ...{ ...run, node, claimed: told.covered ?? run.claimed, requests: run.requests + 1 },
      asOf: run.node.isNew ? shown : run.asOf,
    };
    const known = shown - rules.lookback;
    const after = next(read, committed, known);
    const unsure = state.unsure || behind > 0;
    const excused = state.excused | (unsure ? displaced(told, state.world) : 0);
    const tooYoung = told.covered && toSecond(told.covered.to) > known;
    return {
      ...state,
      mirror: after.mirror,
      runs: state.runs.map((one, i) => (i === place ? after.run : one)),
      unsure,
      excused,
      lately: nothing,
      wrong: tooYoung
        ? 'a claim is younger than the lookback allows'
        : read.requests > mostRequests
          ? `a run has sent ${mostRequests} requests and does not end`
          : (refused(step.value.ask, rules) ??
            unevenIn(told) ??
            needless(state, run, read.node.step, told) ??
            forgotten(step.value.ask, read.node.step, after.mirror.gaps) ??
            isTooShort(read, committed) ??
            misjudged(state.world, step.value.ask, told, reply.rows) ??
            falseClaim(after.mirror, state.world, { unsure, excused })),
    };
  }

  /** A reading begins where it is told to, asks no more than is wanted, and does not give up. */
  function needless(
    { world: now, left }: State,
    { begun, node: { step, isNew } }: Run,
    then: ListPlayed['step'],
    { covered, gap }: Proof,
  ): string | undefined {
    const { from, until, walk, firstLoad } = begun;
    const { ask } = (step as IteratorYieldResult<Step>).value;
    if ('failed' in then) return then.failed;
    if (ask.order === undefined && toSecond(ask.since!) < from - 1) return 'what was read before is asked for again';
    if (gap && toSecond(gap.from) < from) return 'a gap begins before what is wanted';
    if (until !== undefined && !then.done && covered && toSecond(covered.to) >= until)
      return 'more is asked for than is wanted';
    if (rules.hidden && until !== undefined && left.changes === limits.changes && isBehind(ask, until, now))
      return 'a page behind the end is asked for';
    if (!rules.hidden && ask.count && (until !== undefined || isNew)) return 'a count is paid for that is not needed';
    if (!isNew) return undefined;
    if (!rules.hidden) return walk && isNeeded(walk, from) && !isOf(walk, ask) ? 'a walk does not resume' : undefined;
    if (!firstLoad && ask.count) return 'a list of one page pays for a count';
    return walk && ask.page !== walk.page ? 'a walk does not resume at its page' : undefined;
  }

  /** A sync reads on up to where the list was when it began, also where it resumed an older walk. */
  function isTooShort({ node: { step }, parts, asOf: begunAsOf }: Run, mirror: Mirror): string | undefined {
    if (parts !== undefined || 'failed' in step || !step.done) return undefined;
    // Of two runs the place may be that of the other.
    const walk = limits.beside ? undefined : walkOf(mirror);
    if (walk && (rules.hidden || isNeeded(walk, topOf(mirror.covered))))
      return 'a sync ends, and the place of its walk is kept';
    const due = bits(middle, begunAsOf - rules.lookback);
    const unread = due & ~(mirror.covered | mirror.gaps);
    return mirror.torn.reduce((rest, { from, to }) => rest & ~bits(from, to), unread) === 0
      ? undefined
      : 'a sync ends before it has read what was there when it began';
  }

  /** The members of a tie are the records that its pages show in it, and it is told by the last of its pages. */
  function misjudged(now: World, { order }: Ask, { tie }: Proof, shown: readonly Shown[]): string | undefined {
    // A walk by creation comes between the tie and what is told of it.
    if (!tie || order === 'created') return undefined;
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
    const read = Math.min(ask.since ?? 0, floorSecond(walk.asOf - paging.lookbackMs));
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

  function* moves(state: State): Generator<Move<State>> {
    const { left, runs, mirror, quiet } = state;
    if (quiet) return;
    if (runs.every(run => run === 'over')) {
      yield { what: 'it is quiet, and a sync reads', next: atRest(state) };
      return;
    }
    for (let place = 0; place < runs.length; place++) {
      const run = runs[place]!;
      const name = place === 0 ? 'the run' : 'the second run';
      if (run === 'over') continue;
      if (run === 'to begin') {
        if (state.lately.moved) continue;
        const started = begun(place, mirror);
        yield { what: `${name} begins`, next: { ...state, runs: runs.map((one, i) => (i === place ? started : one)) } };
        continue;
      }
      if (!('failed' in run.node.step) && !run.node.step.done) {
        const { since, page, order } = run.node.step.value.ask;
        const asks = `${name} gets page ${page}${since === undefined ? '' : ` since second ${toSecond(since)}`}${order ? ' by creation' : ''}`;
        yield { what: asks, next: replied(state, place, 0) };
        if (limits.kinds.includes('behind') && left.changes > 0)
          for (const seconds of limits.late) {
            const spent = { ...state, left: { ...left, changes: left.changes - 1 } };
            yield { what: `${asks}, from a copy that is ${seconds} s behind`, next: replied(spent, place, seconds) };
          }
      }
      // A kill after a change is a kill before it: what the run reads next is the same.
      if (left.kills > 0 && run.requests > 0 && !state.lately.moved) {
        const again = begun(place, mirror);
        const next = {
          ...state,
          left: { ...left, kills: left.kills - 1 },
          runs: runs.map((one, i) => (i === place ? again : one)),
        };
        yield { what: `${name} is killed and begins again`, next };
      }
    }
    if (left.changes > 0) {
      for (const { id, what, late, world: change } of changesOf(state.world, rules, limits)) {
        // Changes of two records between two pages show no order, unless ties do: they are played in one.
        if (rules.ties !== 'change' && id < state.lately.id) continue;
        const unsure = state.unsure || late;
        const lately = { moved: true, id };
        const spent = { ...left, changes: left.changes - 1 };
        yield { what, next: { ...state, world: change(state.world), unsure, lately, left: spent } };
      }
    }
    if (left.ticks > 0) {
      const later = { world: tick(state.world, rules), lately: { moved: true, id: -1 } };
      yield { what: 'a second passes', next: { ...state, ...later, left: { ...left, ticks: left.ticks - 1 } } };
    }
  }

  /** Long after everything has shown up one more sync ends, and has all. */
  function atRest(state: State): State {
    let quiet = state.world;
    while (quiet.now < 24) quiet = tick(quiet, rules);
    let now: State = { ...state, world: quiet, runs: [sync(state.mirror)] };
    while (now.runs[0] !== 'over' && now.wrong === undefined) now = replied(now, 0, 0);
    return { ...now, quiet: true, wrong: now.wrong ?? missing(now) };
  }

  function missing({ mirror, excused, left, world }: State): string | undefined {
    const { items } = world;
    if (left.changes === limits.changes && rules.ties !== 'id, turning' && hasNeedlessGap(mirror.gaps, items))
      return 'a second is left as a gap that a reading by creation would have filled';
    const read = bits(middle, asOf(world, rules) - rules.lookback);
    if ((read & ~(mirror.covered | mirror.gaps)) !== 0) return 'a quiet sync has not read all up to the lookback';
    for (let id = 0; id < items.length; id++) {
      const { versions, gone } = items[id]!;
      const { time, order } = versions.at(-1)!;
      if (gone !== undefined || time < middle || has((mirror.gaps & ~mirror.covered) | excused, time)) continue;
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
    const isOver = (second: number) => !rules.hidden || second < asOf(world, rules) - rules.lookback;
    const isWalkable = ({ created }: World['items'][number]) =>
      within(placeOf(created)) < paging.depth && isOver(created);
    const seconds = Array.from({ length: 30 }, (_, second) => second).filter(second => has(gaps, second));
    if (!rules.hidden) {
      const isShort = (second: number) =>
        items.filter(({ versions: [first] }) => first!.time === second).length < paging.depth;
      return seconds.some(isShort) || (gaps !== 0 && items.every(isWalkable));
    }
    const near = (second: number) => items.filter(({ created }) => Math.abs(created - second) <= 2);
    return seconds.some(second => near(second).every(isWalkable));
  }

  const runs: Runs = limits.beside ? ['to begin', 'to begin'] : [sync(empty)];
  return {
    begin: {
      world,
      mirror: empty,
      runs,
      left: { changes: limits.changes, ticks: limits.ticks, kills: limits.kills },
      unsure: false,
      excused: 0,
      lately: nothing,
      wrong: undefined,
      quiet: false,
    },
    moves,
    wrong: ({ wrong, runs: now }) => wrong ?? (now.some(isIdle) ? 'a run ends before its first request' : undefined),
    key,
  };
}

const isIdle = (run: Runs[number]) => typeof run !== 'string' && run.node.isNew && isOver(run.node);

/** What a proof adds to what the reading has claimed, as list-loop.ts has it. */
function added(proof: Proof, claimed: Range | undefined): Proof {
  const { covered } = proof;
  if (!claimed || covered?.from !== claimed.from) return proof;
  return { ...proof, covered: { from: claimed.to, to: Math.max(claimed.to, covered.to) } };
}

/** Everything that the future of a state follows from. Orders of changes count by their rank. */
function key({ world, mirror, runs, left, unsure, excused, lately, quiet }: State): number[] {
  const numbers = [
    left.changes | (left.ticks << 4) | (left.kills << 8) | (Number(unsure) << 12) | (Number(quiet) << 13),
    excused,
    lately.id * 2 + Number(lately.moved),
    world.now,
    world.items.length,
  ];
  const orders: number[] = [];
  for (const { versions, gone } of world.items)
    if (gone === undefined || world.now < 24) for (const { order } of versions) orders.push(order);
  orders.sort((a, b) => a - b);
  world.items.forEach(({ versions, gone, created }, id) => {
    const row = mirror.rows[id];
    numbers.push(created, gone ?? -9, versions.length);
    for (const { time, order, made, shows } of versions) numbers.push(time, orders.indexOf(order), made, shows);
    numbers.push(
      row === undefined ? -9 : row.time,
      ...(row ? [orders.indexOf(row.order), row.observed, row.trueBy] : []),
    );
  });
  numbers.push(mirror.covered, mirror.gaps, mirror.ties.length, mirror.torn.length);
  for (const { from, to, toldBy, members, held } of mirror.ties)
    numbers.push(
      from,
      to,
      toldBy,
      members.reduce((set, id) => set | (1 << id), 0),
      Number(held),
    );
  for (const { from, to } of mirror.torn) numbers.push(from, to);
  for (const { until = -1, walk } of mirror.walks) {
    const { since, asOf: begun, page, deep, updatedSince = 0 } = walk;
    numbers.push(until, toSecond(since), toSecond(begun), page, Number(deep), toSecond(updatedSince));
  }
  for (const run of runs) {
    if (typeof run === 'string') numbers.push(run === 'over' ? -1 : -2);
    else {
      numbers.push(...run.node.key, run.parts === undefined ? -1 : run.parts.length);
      if (run.claimed) numbers.push(toSecond(run.claimed.from), toSecond(run.claimed.to));
      for (const { from, to } of run.parts ?? []) numbers.push(from, to);
    }
  }
  return numbers;
}
