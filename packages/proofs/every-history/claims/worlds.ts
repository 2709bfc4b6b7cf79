/** Small worlds of the claims: a few workers, runs and streams, and how often each thing may happen. */
import type { StreamKey } from '../../../../src/engine/database/stream-key.ts';
import type { RunKind } from '../../../../src/engine/runs/runs.ts';

export interface ClaimsWorld {
  readonly name: string;
  readonly workers: readonly number[];
  readonly runs: readonly {
    /** Otherwise the default one. */
    readonly account?: string;
    readonly kind: RunKind;
    readonly streams: readonly StreamKey[];
    readonly opener: number;
  }[];
  /** Streams of the default account that people have paused. */
  readonly paused?: readonly StreamKey[];
  /** Names that the queue gives to a job of a stream. The same job may be delivered twice. */
  readonly jobs: readonly string[];
  /** How many times each act may happen, in all. */
  readonly most: Partial<Record<ActKind, number>>;
}

export type ActKind =
  | 'take'
  | 'other rules'
  | 'forgotten'
  | 'commit'
  | 'pages'
  | 'lose'
  | 'proof'
  | 'release'
  | 'finish'
  | 'partial'
  | 'spend'
  | 'refuse'
  | 'break'
  | 'interrupt'
  | 'die'
  | 'return'
  | 'abandon'
  | 'end run'
  | 'fail'
  | 'carry'
  | 'pause'
  | 'slot';

const sync = { kind: 'sync', streams: ['helpdesk.tickets'], opener: 1 } as const;

export const claimsWorlds: readonly ClaimsWorld[] = [
  {
    name: 'a stream, two workers, two deliveries',
    workers: [1, 2],
    runs: [sync],
    jobs: ['a', 'b'],
    most: { take: 3, commit: 1, proof: 1, release: 1, finish: 1, die: 1, return: 1, abandon: 1 },
  },
  {
    name: 'a stream, three workers',
    workers: [1, 2, 3],
    runs: [{ ...sync, opener: 9 }],
    jobs: ['a', 'b'],
    most: { take: 3, commit: 1, finish: 1, die: 2 },
  },
  {
    name: 'two runs of a stream',
    workers: [1, 2],
    runs: [sync, { ...sync, kind: 'fresh', opener: 2 }],
    jobs: ['a'],
    most: { take: 3, commit: 1, release: 1, finish: 2, die: 1, abandon: 1, carry: 1 },
  },
  {
    name: 'a backfill, a sweep and a sync',
    workers: [1, 2],
    runs: [sync, { ...sync, kind: 'backfill' }, { ...sync, kind: 'sweep' }],
    jobs: ['a'],
    most: { take: 3, commit: 1, die: 1 },
  },
  {
    name: 'a backfill that begins while runs of two accounts are open',
    workers: [1, 2],
    runs: [{ ...sync, account: 'other' }, sync, { ...sync, kind: 'backfill' }],
    jobs: ['a'],
    most: { die: 1 },
  },
  {
    name: 'a stream that is fetched by id: a sync, a backfill and a verification',
    workers: [1, 2],
    runs: (['sync', 'backfill', 'verify'] as const).map(kind => ({ kind, streams: ['helpdesk.messages'], opener: 1 })),
    jobs: ['a'],
    most: { take: 3, die: 1, finish: 1 },
  },
  {
    name: 'two streams of a run, and how it ends',
    workers: [1, 2],
    runs: [{ kind: 'sync', streams: ['helpdesk.tickets', 'helpdesk.messages'], opener: 1 }],
    jobs: ['a'],
    most: { take: 3, commit: 1, finish: 2, interrupt: 1, 'end run': 1, fail: 1, carry: 1, die: 1, abandon: 1 },
  },
  {
    name: 'two streams of one source and one of another',
    workers: [1, 2],
    runs: [{ kind: 'sync', streams: ['helpdesk.tickets', 'helpdesk.messages', 'books.shelves'], opener: 1 }],
    jobs: ['a'],
    most: { take: 2, finish: 1, partial: 1, spend: 1, refuse: 1, break: 1, interrupt: 1, release: 1 },
  },
  {
    name: 'a page, several at once, and what a power cut takes back',
    workers: [1, 2],
    runs: [sync],
    jobs: ['a'],
    most: { take: 2, commit: 1, pages: 2, proof: 2, lose: 1, die: 1, finish: 1 },
  },
  {
    name: 'a stream of two accounts',
    workers: [1, 2],
    runs: [sync, { ...sync, account: 'other', opener: 2 }],
    jobs: ['a'],
    most: { take: 2, commit: 1, die: 2, abandon: 1, pause: 1, 'end run': 1, carry: 1, fail: 1 },
  },
  {
    name: 'slots of the schedule, and a sweep that is open',
    workers: [1, 2],
    runs: [
      { kind: 'sync', streams: ['helpdesk.tickets', 'helpdesk.messages'], opener: 9 },
      { kind: 'sweep', streams: ['helpdesk.customers'], opener: 9 },
    ],
    jobs: ['a'],
    most: { slot: 2, take: 1, pause: 2, carry: 1, 'end run': 1 },
  },
  {
    name: 'slots of the schedule, and streams that are paused',
    workers: [1, 2],
    runs: [{ kind: 'sync', streams: ['helpdesk.tickets', 'helpdesk.messages'], opener: 9 }],
    paused: ['helpdesk.customers', 'helpdesk.tickets', 'helpdesk.messages'],
    jobs: ['a'],
    most: { slot: 2, pause: 1 },
  },
  {
    name: 'slots of the schedule, and a run that reads messages next',
    workers: [1, 2],
    runs: [{ kind: 'sync', streams: ['helpdesk.messages', 'books.shelves'], opener: 9 }],
    jobs: ['a'],
    most: { slot: 2, take: 1, pause: 1 },
  },
  {
    name: 'a job that fails beside another one, and those that must get no stream',
    workers: [1, 2],
    runs: [sync],
    jobs: ['a', 'b'],
    most: { take: 2, 'other rules': 1, forgotten: 1, fail: 1, die: 1 },
  },
  {
    name: 'people pause',
    workers: [1, 2],
    runs: [sync],
    jobs: ['a', 'b'],
    most: { take: 3, commit: 1, pause: 2, finish: 1, die: 1 },
  },
];
