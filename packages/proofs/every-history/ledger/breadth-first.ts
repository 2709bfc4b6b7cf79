/**
 * Visits every state that a model can reach, the nearest first. So the first complaint has the shortest story. A state is
 * known by its key: two states with one key have the same future, and one of them is enough.
 */

export interface Step<S> {
  /** What happens, in words, for the story. */
  readonly says: string;
  readonly state: S;
  /** What the step itself does wrong. */
  readonly wrong?: string | undefined;
}

export interface Model<S> {
  readonly begin: S;
  steps(state: S): Iterable<Step<S>>;
  /** What is wrong in a state, whatever led to it. */
  wrong(state: S): string | undefined;
  key(state: S): string;
}

export interface Explored {
  readonly states: number;
  readonly transitions: number;
  /** False if the limit of states ended the search. */
  readonly complete: boolean;
  /** The longest shortest way to a state. */
  readonly depth: number;
  readonly complaint?: Complaint;
}

interface Complaint {
  readonly what: string;
  /** The steps from the beginning, one sentence each. */
  readonly story: readonly string[];
}

export interface SearchOptions {
  /** Ends the search after this many states. */
  readonly mostStates?: number;
  /** False: plays every history, known states again. For the proof that the visited set loses nothing. */
  readonly remembers?: boolean;
  readonly onProgress?: (states: number, transitions: number, depth: number) => void;
  /** Told of each key, for comparisons. */
  readonly onState?: (key: string) => void;
}

/** How often the progress is told, in states. */
const tellEach = 100_000;

/** 128 bits of a key: two of many millions are never equal by chance. Keys themselves would fill the memory. */
function shortened(key: string): string {
  let [a, b, c, d] = [1779033703, 3144134277, 1013904242, 2773480762];
  for (let i = 0; i < key.length; i++) {
    const k = key.charCodeAt(i);
    a = b ^ Math.imul(a ^ k, 597399067);
    b = c ^ Math.imul(b ^ k, 2869860233);
    c = d ^ Math.imul(c ^ k, 951274213);
    d = a ^ Math.imul(d ^ k, 2716044179);
  }
  a = Math.imul(c ^ (a >>> 18), 597399067);
  b = Math.imul(d ^ (b >>> 22), 2869860233);
  c = Math.imul(a ^ (c >>> 17), 951274213);
  d = Math.imul(b ^ (d >>> 19), 2716044179);
  const half = (n: number) => String.fromCharCode(n & 0xffff, n >>> 16);
  return half(a) + half(b) + half(c) + half(d);
}

export function explore<S>(model: Model<S>, options: SearchOptions = {}): Explored {
  const { mostStates = Number.POSITIVE_INFINITY, remembers = true } = options;
  const known = new Set<string>();
  const parents: number[] = [-1];
  const says: string[] = [''];
  let transitions = 0;
  let depth = 0;
  const story = (last: number): string[] => {
    const lines: string[] = [];
    for (let n = last; n > 0; n = parents[n]!) lines.push(says[n]!);
    return lines.reverse();
  };
  const end = (complete: boolean, complaint?: Complaint): Explored => ({
    states: parents.length,
    transitions,
    complete,
    depth,
    ...(complaint && { complaint }),
  });

  const sentences = new Map<string, string>();
  const keyOf = (state: S) => {
    const key = model.key(state);
    options.onState?.(key);
    return shortened(key);
  };
  known.add(keyOf(model.begin));
  const first = model.wrong(model.begin);
  if (first) return end(false, { what: first, story: [] });
  let level: [state: S, number: number][] = [[model.begin, 0]];
  while (level.length > 0) {
    const next: [state: S, number: number][] = [];
    for (const [state, number] of level) {
      for (const step of model.steps(state)) {
        transitions++;
        if (step.wrong) return end(false, { what: step.wrong, story: [...story(number), step.says] });
        const key = keyOf(step.state);
        if (remembers && known.has(key)) continue;
        const what = known.has(key) ? undefined : model.wrong(step.state);
        known.add(key);
        parents.push(number);
        if (!sentences.has(step.says)) sentences.set(step.says, step.says);
        says.push(sentences.get(step.says)!);
        if (what) return end(false, { what, story: story(parents.length - 1) });
        next.push([step.state, parents.length - 1]);
        if (parents.length % tellEach === 0) options.onProgress?.(parents.length, transitions, depth);
        if (parents.length >= mostStates) return end(false);
      }
    }
    level = next;
    if (level.length > 0) depth++;
  }
  return end(true);
}
