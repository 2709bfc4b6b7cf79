/**
 * Plays every history of a small world. A game has states and moves; a history is a sequence of moves from the
 * beginning to a state without moves. Two histories that reach one state go on alike, so each state is played once, and
 * the histories are counted: those from a state are those from all that follow it, added up.
 */
import { hashes, Seen } from './seen.ts';

export interface Move<State> {
  /** What happens, in words. */
  readonly what: string;
  readonly next: State;
}

export interface Game<State> {
  readonly begin: State;
  readonly moves: (state: State) => Iterable<Move<State>>;
  /** What does not hold in this state; undefined if all does. */
  readonly wrong: (state: State) => string | undefined;
  /** Two states with the same numbers have the same future. */
  readonly key: (state: State) => readonly number[];
}

export interface Explored {
  readonly histories: number;
  readonly states: number;
  readonly moves: number;
  readonly found?: Found;
}

/** What does not hold, and the shortest history that shows it. */
interface Found {
  readonly wrong: string;
  readonly story: readonly string[];
}

class Stopped extends Error {}

/** `again`: plays states again that were seen. It is slow, and shows that leaving them out loses nothing. */
export function explore<State>(
  game: Game<State>,
  { again = false, mostStates = Infinity }: { again?: boolean; mostStates?: number } = {},
): Explored & { readonly stopped: boolean } {
  const seen = new Seen();
  let [moves, states] = [0, 0];
  let found = false as boolean;
  const visit = (state: State): number => {
    if (game.wrong(state) !== undefined) {
      found = true;
      throw new Stopped();
    }
    const [one, other] = again ? [0, 0] : hashes(game.key(state));
    const known = again ? 0 : seen.get(one, other);
    if (known > 0) return known;
    if (++states > mostStates) throw new Stopped();
    let histories = 0;
    for (const { next } of game.moves(state)) {
      moves++;
      histories += visit(next);
    }
    histories ||= 1;
    if (!again) seen.set(one, other, histories);
    return histories;
  };
  try {
    return { histories: visit(game.begin), states, moves, stopped: false };
  } catch (error) {
    if (!(error instanceof Stopped)) throw error;
    return { histories: 0, states, moves, stopped: !found, ...(found ? { found: shortest(game) } : {}) };
  }
}

/** The shortest history that goes wrong: all of one move, all of two, and so on. */
function shortest<State>(game: Game<State>): Found {
  interface Told {
    readonly state: State;
    readonly what: string;
    readonly before: Told | undefined;
  }
  const seen = new Seen();
  const storyOf = (last: Told) => {
    const story: string[] = [];
    for (let at: Told | undefined = last; at?.before; at = at.before) story.unshift(at.what);
    return story;
  };
  let ring: Told[] = [{ state: game.begin, what: '', before: undefined }];
  while (ring.length > 0) {
    const next: Told[] = [];
    for (const before of ring) {
      const wrong = game.wrong(before.state);
      if (wrong !== undefined) return { wrong, story: storyOf(before) };
      for (const move of game.moves(before.state)) {
        const [one, other] = hashes(game.key(move.next));
        if (game.wrong(move.next) === undefined && seen.get(one, other) > 0) continue;
        seen.set(one, other, 1);
        next.push({ state: move.next, what: move.what, before });
      }
    }
    ring = next;
  }
  throw new Error('no history of this game goes wrong');
}
