/**
 * Small worlds, each with everything that can happen in it. A limit of three or four credits shows what a limit of a
 * hundred shows; a period of few moments shows what a minute shows.
 */
import type { Lane, Rules } from '../../../../src/engine/budget/ledger.ts';

/** What a reply says of the limits. */
export type Words =
  | 'truth'
  /** No headers at all. */
  | 'none'
  /** More is left than there is, and the limit is higher than it is. */
  | 'high'
  /** Nothing is left, for a whole period. */
  | 'low'
  /** Numbers that mean nothing. */
  | 'odd';

export interface World {
  readonly name: string;
  readonly rules: Rules;
  readonly window: 'fixed' | 'sliding';
  /** Where a fixed window begins. */
  readonly phaseMs: number;
  readonly resets?: 'oldest' | 'all';
  readonly chargesRefused?: boolean;
  /** The true limit, where it is not that of the rules. */
  readonly serverCredits?: number;
  /** Between two moments at which anything but a grant may happen. */
  readonly tickMs: number;
  readonly processes: readonly { readonly lane: Lane; readonly cost: number }[];
  /** How many requests each process sends at most. */
  readonly requests: number;
  readonly words: readonly Words[];
  /** How many times each of these may happen. */
  readonly deaths?: number;
  /** A process that lives loses its presence lock while a request of it is in flight. */
  readonly cuts?: number;
  readonly cancels?: number;
  readonly others?: number;
  /** What another client asks for; default: 1. */
  readonly otherCost?: number;
  readonly setBacks?: number;
  readonly thaws?: number;
  /** How far the known time may be off, either way. */
  readonly clockErrorMs?: number;
  /** A reply may come long after its deadline: its process was suspended. */
  readonly late?: boolean;
  /** A process may hear a reply, and book it at any time until its deadline. */
  readonly bookedLater?: boolean;
  /** What has happened before: of the steps that may come next, the first one whose sentence has this in it. */
  readonly after?: readonly string[];
  /** How a refusal is told: as by the help desk, or as by the catalog. */
  readonly refusal?: 'reset' | 'spent' | 'pause';
}

const small: Rules = { credits: 3, periodMs: 4000, requestsPerSecond: 100, reserve: 0, timeoutMs: 1000 };
const minute: Rules = { ...small, periodMs: 60_000, timeoutMs: 9000 };
const fresh = (...costs: number[]) => costs.map(cost => ({ lane: 'fresh' as const, cost }));
const one = { lane: 'fresh', cost: 1 } as const;
const plain = { window: 'sliding', phaseMs: 0, tickMs: 2000, requests: 4, words: ['truth'] } as const;

const answered = ['process 1 asks', 'of process 1', 'process 1 hears'];
const refused = [
  'process 1 asks',
  'another client',
  'another client',
  'another client',
  'of process 1',
  'process 1 hears',
];

/**
 * Three processes that ask for as long as they like: times are told from now, so the states are finite. Without headers no
 * window shows, so any is meant.
 */
const large: World[] = [
  {
    ...plain,
    name: 'three processes, any number of requests, any window',
    rules: small,
    words: ['none'],
    processes: fresh(1, 1, 1),
    requests: Number.POSITIVE_INFINITY,
    deaths: 1,
    cancels: 1,
  },
  ...(['fixed', 'sliding'] as const).map(
    (window): World => ({
      ...plain,
      name: `three processes, a ${window} window`,
      rules: small,
      window,
      processes: fresh(1, 1, 1),
      requests: 2,
      deaths: 1,
    }),
  ),
];

export const worlds: readonly World[] = [
  {
    ...plain,
    name: 'two processes',
    rules: small,
    tickMs: 1000,
    processes: fresh(1, 2),
    requests: 2,
    deaths: 1,
    cancels: 1,
  },
  {
    ...plain,
    name: 'two processes, a fixed window',
    rules: small,
    window: 'fixed',
    phaseMs: 1000,
    tickMs: 1000,
    processes: fresh(1, 2),
    requests: 2,
    deaths: 1,
    cuts: 1,
  },
  {
    ...plain,
    name: 'a reserve, and clocks that are off',
    rules: { ...small, credits: 4, reserve: 1 },
    processes: fresh(1, 2),
    requests: 2,
    deaths: 1,
    clockErrorMs: 300,
  },
  {
    ...plain,
    name: 'no headers',
    rules: small,
    tickMs: 1000,
    processes: fresh(1, 1),
    requests: 2,
    words: ['none'],
    deaths: 1,
    cancels: 1,
  },
  {
    ...plain,
    name: 'lies',
    rules: small,
    processes: fresh(1, 2),
    requests: 2,
    words: ['truth', 'none', 'high', 'low', 'odd'],
    deaths: 1,
  },
  {
    ...plain,
    name: 'late replies',
    rules: small,
    window: 'fixed',
    processes: fresh(1, 1),
    requests: 2,
    late: true,
    deaths: 1,
  },
  ...(['fixed', 'sliding'] as const).map(
    (window): World => ({
      ...plain,
      name: `replies that are booked later, a ${window} window`,
      rules: { ...small, timeoutMs: 2000 },
      window,
      tickMs: 1000,
      processes: fresh(1, 1),
      requests: 2,
      deaths: 1,
      bookedLater: true,
    }),
  ),
  {
    ...plain,
    name: 'replies that are booked later, and requests in two times',
    rules: { ...small, credits: 20, requestsPerSecond: 2, further: [{ ms: 2000, requests: 3 }] },
    tickMs: 500,
    processes: fresh(1, 1, 1),
    requests: 2,
    bookedLater: true,
  },
  {
    ...plain,
    name: 'replies that are booked later, clocks that are off, and one that is set back',
    rules: { ...small, timeoutMs: 3000 },
    processes: fresh(1, 1),
    requests: 2,
    setBacks: 1,
    clockErrorMs: 300,
    bookedLater: true,
  },
  {
    ...plain,
    name: 'replies that are booked later, and another client',
    rules: { ...minute, credits: 4, timeoutMs: 29_000 },
    window: 'fixed',
    phaseMs: 20_000,
    tickMs: 10_000,
    processes: [one, one],
    requests: 2,
    others: 2,
    bookedLater: true,
  },
  {
    ...plain,
    name: 'a lower limit than ours',
    rules: { ...small, credits: 4 },
    serverCredits: 2,
    processes: fresh(1, 1),
    requests: 2,
  },
  {
    ...plain,
    name: 'requests a second',
    rules: { ...small, credits: 20, requestsPerSecond: 2 },
    tickMs: 500,
    processes: fresh(1, 1, 1),
    requests: 2,
    deaths: 1,
    cuts: 1,
  },
  {
    ...plain,
    name: 'requests in two times',
    rules: { ...small, credits: 20, requestsPerSecond: 2, further: [{ ms: 2000, requests: 3 }] },
    tickMs: 500,
    processes: fresh(1, 1, 1),
    requests: 2,
    deaths: 1,
  },
  ...(['fixed', 'sliding'] as const).map(
    (window): World => ({
      ...plain,
      name: `another client, and processes that die or are cut off, a ${window} window`,
      rules: { ...minute, credits: 4, timeoutMs: 29_000 },
      window,
      phaseMs: 20_000,
      tickMs: 10_000,
      processes: [one, one],
      requests: 2,
      others: 1,
      deaths: 1,
      cuts: 1,
      after: ['another client', ...answered],
    }),
  ),
  {
    ...plain,
    name: 'a process that died, and another client whom nobody has seen',
    rules: { ...minute, credits: 4, timeoutMs: 29_000 },
    window: 'fixed',
    tickMs: 10_000,
    processes: [one, one],
    requests: 2,
    others: 2,
    deaths: 1,
    after: [
      ...['process 1 asks', 'process 1 dies', 'the sender of a request is dead', 'another client'],
      ...['process 2 asks', 'of process 2', 'process 2 hears'],
    ],
  },
  ...(['fixed', 'sliding'] as const).flatMap(window =>
    (['oldest', 'all'] as const)
      .filter(resets => window === 'sliding' || resets === 'oldest')
      .map(
        (resets): World => ({
          ...plain,
          name: `another client, a ${window} window${resets === 'all' ? ', Reset tells when all is back' : ''}`,
          rules: { ...minute, credits: 3, reserve: 1 },
          window,
          resets,
          phaseMs: 20_000,
          tickMs: 10_000,
          processes: [one, one],
          requests: 2,
          others: 2,
          chargesRefused: resets === 'all',
        }),
      ),
  ),
  {
    ...plain,
    name: 'another client, and replies in any order',
    rules: { ...minute, credits: 4 },
    window: 'fixed',
    tickMs: 20_000,
    processes: [one, one],
    requests: 3,
    others: 1,
    after: [...answered, ...['process 1 asks', 'process 2 asks', 'of process 1', 'another client', 'of process 2']],
  },
  {
    ...plain,
    name: 'another client, and a reply of the window before',
    rules: { ...minute, credits: 4, timeoutMs: 39_000 },
    window: 'fixed',
    phaseMs: 30_000,
    tickMs: 20_000,
    processes: [one, one],
    requests: 4,
    others: 3,
    after: [
      ...answered,
      ...['process 1 asks', 'of process 1', 'ms pass', 'ms pass', 'another client', 'another client'],
    ],
  },
  ...(['fixed', 'sliding'] as const).map(
    (window): World => ({
      ...plain,
      name: `after a refusal, a ${window} window`,
      rules: minute,
      window,
      tickMs: 20_000,
      processes: [one, one],
      requests: 2,
      others: 3,
      setBacks: window === 'fixed' ? 1 : 0,
      after: refused,
    }),
  ),
  {
    ...plain,
    name: 'a clock that is set back',
    rules: small,
    processes: fresh(1, 1),
    requests: 2,
    setBacks: 1,
    deaths: 1,
    others: 1,
  },
  {
    ...plain,
    name: 'lanes',
    rules: { ...minute, credits: 4, timeoutMs: 19_000 },
    tickMs: 20_000,
    processes: [one, { lane: 'backfill', cost: 1 }, { lane: 'sweep', cost: 1 }],
    requests: 2,
  },
  {
    ...plain,
    name: 'a daily quota',
    rules: { ...minute, credits: 10, periodMs: 14_400_000, evenly: false, longestWaitMs: 60_000 },
    tickMs: 3_600_000,
    processes: [
      { lane: 'fresh', cost: 4 },
      { lane: 'backfill', cost: 4 },
    ],
    otherCost: 6,
    requests: 2,
    words: ['none'],
    others: 2,
    refusal: 'spent',
    thaws: 1,
  },
  {
    ...plain,
    name: 'a pause that the source asks for',
    rules: { ...minute, credits: 2, evenly: false },
    tickMs: 10_000,
    processes: fresh(1, 1),
    requests: 2,
    words: ['none'],
    others: 2,
    refusal: 'pause',
    thaws: 1,
  },
  ...large,
];
