/**
 * The game of the moving list. Between two requests anything may happen to its records. A run may be killed at each page,
 * and resumes from what it committed. A second run may read concurrently. At the end it is quiet, and one more sync must
 * have everything.
 */
import type { Reader } from '../../../../../src/engine/reading/reading.ts';
import { changesOf, type Limits } from '../changes.ts';
import type { Game, Move } from '../explore.ts';
import { commit, empty, falseClaim, has, type Mirror, settle, takenBack, topOf, walkOf } from '../mirror.ts';
import { Readings } from '../played.ts';
import {
  asOf,
  beginningAt,
  endAt,
  type Rules,
  refused,
  replyTo,
  tick,
  toMs,
  toSecond,
  unevenIn,
  type World,
} from '../world.ts';
import { hearing, nothingHeard } from './frugal.ts';
import { judgeOf } from './moving-judge.ts';
import { added, type Begun, isIdle, key, nothing, type Run, type Runs, type State } from './moving-state.ts';

export interface MovingGame {
  readonly world: World;
  readonly rules: Rules;
  readonly limits: Limits;
  readonly read: Reader;
}

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
  const judge = judgeOf(rules, limits, middle, asOf(world, rules));
  const reading = (begun: Begun, parts: Run['parts'], requests = 0): Run => {
    const { from, until, walk, firstLoad } = begun;
    const options = { ...paging, walk, until: until === undefined ? undefined : endAt(until, rules), firstLoad };
    return {
      node: readings.from(beginningAt(from, rules), options),
      claimed: undefined,
      parts,
      requests,
      asOf: 0,
      heard: nothingHeard,
      begun,
    };
  };
  const sync = (mirror: Mirror): Run => {
    const { covered } = mirror;
    const from = Math.max(middle, topOf(covered));
    return reading({ from, until: undefined, ...walkFor(mirror), firstLoad: covered === 0 }, undefined);
  };
  const walkFor = (mirror: Mirror, until?: number) => {
    const own = walkOf(mirror, until);
    return { walk: own ?? mirror.walks[0]?.walk, isOwn: own !== undefined };
  };
  const part = (
    from: number,
    until: number,
    parts: Run['parts'],
    requests = 0,
    walk: Pick<Begun, 'walk' | 'isOwn'> = { walk: undefined, isOwn: false },
  ): Run => reading({ from, until, ...walk, firstLoad: false }, parts, requests);
  const begun = (place: number, mirror: Mirror): Run | 'over' => {
    if (place === 0 || limits.beside === 'sync') return sync(mirror);
    let begin = 0;
    while (begin < middle && has(mirror.covered, begin)) begin++;
    return begin === middle ? 'over' : part(begin, middle, [], 0, walkFor(mirror, middle));
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
  function replied(state: State, place: number, behind: number, reversed?: boolean): State {
    const run = state.runs[place] as Run;
    const { step } = run.node;
    if ('failed' in step || step.done) throw new Error('a run that is over asks for nothing');
    const reply = replyTo(state.world, step.value.ask, rules, behind, reversed);
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
      heard: hearing(rules, run.begun).heard(run.heard, step.value.ask, reply.rows, reply.arrived),
    };
    const known = shown - rules.lookback;
    const after = next(read, committed, known);
    const unsure = state.unsure || behind > 0;
    const excused = state.excused | (unsure ? judge.displaced(told, state.world) : 0);
    const tooYoung = told.covered && toSecond(told.covered.to) > known;
    return {
      ...state,
      mirror: after.mirror,
      runs: state.runs.map((one, i) => (i === place ? after.run : one)),
      unsure,
      excused,
      lately: nothing,
      turned: reply.faulty,
      failed: 'failed' in node.step,
      wrong: tooYoung
        ? 'a claim is younger than the lookback allows'
        : read.requests > mostRequests
          ? `a run has sent ${mostRequests} requests and does not end`
          : (refused(step.value.ask, rules) ??
            unevenIn(told) ??
            judge.misread(reply.faulty, read.heard, read.node.step) ??
            judge.needless(state, run, read.node.step, told) ??
            judge.wasteful(state, run, read.heard, read.node.step) ??
            judge.forgotten(step.value.ask, read.node.step, after.mirror.gaps) ??
            judge.isTooShort(state, read, committed) ??
            judge.misjudged(state.world, step.value.ask, told, reply.rows) ??
            falseClaim(after.mirror, state.world, { unsure, excused, unreadable: rules.unreadable })),
    };
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
        if (limits.kinds.includes('shuffled') && left.changes > 0 && order === undefined) {
          const next = replied({ ...state, left: { ...left, changes: left.changes - 1 } }, place, 0, true);
          if (next.turned) yield { what: `${asks}, in no order`, next };
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
    return { ...now, quiet: true, wrong: now.wrong ?? (now.failed ? undefined : judge.missing(now)) };
  }

  const { walk: left } = limits;
  const walk = left && { since: 0, page: 1, deep: true, asOf: toMs(left.asOf), updatedSince: toMs(left.updatedSince) };
  const mirror: Mirror = walk ? { ...empty, walks: [{ until: undefined, walk }] } : empty;
  const runs: Runs = limits.beside ? ['to begin', 'to begin'] : [sync(mirror)];
  return {
    begin: {
      world,
      mirror,
      runs,
      left: { changes: limits.changes, ticks: limits.ticks, kills: limits.kills },
      unsure: false,
      excused: 0,
      lately: nothing,
      turned: false,
      failed: false,
      wrong: undefined,
      quiet: false,
    },
    moves,
    wrong: ({ wrong, runs: now }) => wrong ?? (now.some(isIdle) ? 'a run ends before its first request' : undefined),
    key,
  };
}
