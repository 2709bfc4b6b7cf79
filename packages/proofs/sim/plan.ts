/** What a seed stands for: how the source reads its own specification, how large the world is, and what goes wrong. */

import { between, makeRng, pick, type Rng, weighted } from '../../sandbox/src/random.ts';
import type { ServicesOptions } from '../../sandbox/src/services.ts';
import { ruled } from './fields.ts';
import type { Said } from './history.ts';

export interface Plan {
  readonly seed: number;
  // --- the world
  readonly tickets: number;
  readonly customers: number;
  /** How long before the beginning its oldest record is. */
  readonly pastSeconds: number;
  /** The share of tickets that come, or change, in a second with others. */
  readonly tied: number;
  readonly quietly: readonly ('reply' | 'note' | 'labels' | 'state' | 'archive' | 'wake')[];
  readonly archiveHours: number;
  readonly unannounced: boolean;
  readonly deletions: boolean;
  /** Chance of a change before each effect. */
  readonly changes: number;
  // --- the source
  readonly perPage: number;
  readonly depth: number;
  readonly readings: Partial<ServicesOptions>;
  /** How late rows show up, how far behind the copy is that is read from, and how far the source's clock jumps: together no
   * more than the lookback. */
  readonly lateMs: number;
  readonly behindMs: number;
  readonly jumpMs: number;
  /** How far ahead of its clock the source dates a change at most; 0: it dates all of them right. */
  readonly aheadMs: number;
  /** The clock of the edge that writes `Date`: how far it is ahead of the records' at most, and how it gets there. */
  readonly edge: 'right' | 'fixed' | 'drifting' | 'jumping';
  readonly edgeMs: number;
  readonly rules: readonly object[];
  readonly slow: number;
  /** Credits that others use at a time; 0: nobody else is on the account. */
  readonly foreign: number;
  // --- beside
  /** People who are erased while runs go on. */
  readonly erasures: number;
  /** Fields that are left out, or hashed, and whether from the beginning or while runs go on. */
  readonly fields: readonly Said[];
  readonly fieldsComeLate: boolean;
  /** Of the book catalog; 0: there is none beside the help desk. */
  readonly volumes: number;
  readonly shelfPage: number;
  /** Exports to a lake while runs go on; 0: there is no lake. */
  readonly exports: number;
  // --- ours
  readonly limits: { credits: number; periodMs: number; requestsPerSecond: number; reserve: number };
  readonly workers: number;
  /** Of a thousand effects so many kill their process, and so many of the database's fail. */
  readonly deaths: number;
  readonly troubles: number;
  /** Clocks of workers, and of the database, are set by so much at most. */
  readonly clocksMs: number;
  /** Stops, duplicated jobs, flushed queues: as many as events. */
  readonly events: number;
  /** How long it goes on like this, and in how many effects at most. */
  readonly turmoilMs: number;
  readonly turmoilSteps: number;
  /** So much later everything is right. */
  readonly restMs: number;
}

export const lookbackMs = 120_000;

export function planOf(seed: number): Plan {
  const rng = makeRng(seed * 7 + 1);
  const chance = (share: number) => rng() < share;
  const calm = chance(0.1);
  const perPage = between(rng, 2, 8);
  const size = weighted(rng, [
    ['small', 70],
    ['middle', 24],
    ['large', 6],
  ] as const);
  const tickets = { small: between(rng, 0, 16), middle: between(rng, 15, 40), large: between(rng, 60, 120) }[size];
  const shares = [rng(), rng(), rng()];
  const sum = shares.reduce((a, b) => a + b, 0);
  const [late = 0, behind = 0, jump = 0] = shares.map(share => Math.floor(((share / sum) * 116_000) / 1000) * 1000);
  const real = chance(0.25);
  const periodMs = real ? pick(rng, [10_000, 60_000]) : 60_000;
  const credits = real ? between(rng, 20, 100) : 1_000_000;
  const requestsPerSecond = real ? between(rng, 2, 8) : 1_000_000;
  const behindMs = chance(0.3) ? behind : 0;
  const readings = {
    credits,
    periodSeconds: periodMs / 1000,
    requestsPerSecond,
    depth: perPage * between(rng, 3, 7),
    window: pick(rng, ['fixed', 'sliding'] as const),
    chargeErrors: chance(0.5),
    chargeRefused: chance(0.3),
    sinceInclusive: chance(0.5),
    spamListed: chance(0.5),
    trashListed: chance(0.5),
    beyondDepth: pick(rng, ['error', 'empty'] as const),
    totalCountCap: chance(0.3) ? perPage * between(rng, 3, 7) : Number.POSITIVE_INFINITY,
    archivedReopens: chance(0.5),
    strayEmbed: pick(rng, ['ignored', 'refused'] as const),
    emailCase: pick(rng, ['ignored', 'exact'] as const),
  };
  const quietly = chance(0.3)
    ? (['reply', 'note', 'labels', 'state', 'archive', 'wake'] as const).filter(() => chance(0.4))
    : [];
  // Of its own, so that all else of a seed stays what it was.
  const dates = makeRng(seed * 7 + 10);
  const aheadMs = dates() < 0.3 ? pick(dates, [1, 30, 90, 300, 1800, 3660]) * 1000 : 0;
  const wild = !calm && chance(0.6);
  const drawn = {
    seed,
    tickets,
    customers: Math.ceil(tickets * (0.2 + rng() * 0.6)),
    pastSeconds: pick(rng, [60, 600, 7200, 30_000]),
    tied: chance(0.4) ? rng() : 0.1,
    quietly,
    archiveHours: chance(0.2) ? 1 : 0,
    unannounced: chance(0.4),
    deletions: chance(0.5),
    changes: calm ? 0.005 : pick(rng, [0.01, 0.03, 0.08]),
    perPage,
    depth: readings.depth,
    readings,
    lateMs: late,
    behindMs,
    jumpMs: chance(0.3) ? jump : 0,
    aheadMs,
    rules: calm ? [] : rulesOf(rng, behindMs),
    slow: pick(rng, [0, 0, 3, 15]),
    foreign: real && chance(0.4) ? between(rng, 1, credits) : 0,
    limits: {
      credits,
      periodMs,
      requestsPerSecond,
      reserve: real ? between(rng, 0, Math.floor(credits / 4)) : 0,
    },
    workers: between(rng, 1, 3),
    deaths: wild ? pick(rng, [0, 2, 8]) : 0,
    troubles: wild ? pick(rng, [0, 15, 60]) : 0,
    clocksMs: chance(0.4) ? pick(rng, [5000, 3_600_000, 100 * 86_400_000]) : 0,
    events: wild ? between(rng, 0, 8) : 0,
    turmoilMs: between(rng, 20, 400) * 1000,
    turmoilSteps: pick(rng, [150, 300, 500]),
    // The messages of a ticket that is dated ahead are read when its date is over.
    restMs: between(rng, 130, 4000) * 1000 + aheadMs,
  };
  return { ...drawn, ...edgeOf(seed, drawn.clocksMs), ...besideOf(seed, drawn.rules, calm) };
}

/** Also of its own. Where our own clocks are wrong as well, no witness is left. */
function edgeOf(seed: number, clocksMs: number): Pick<Plan, 'edge' | 'edgeMs'> {
  const rng = makeRng(seed * 7 + 17);
  const edge = pick(rng, ['fixed', 'drifting', 'jumping'] as const);
  const edgeMs = pick(rng, [-600, 20, 180, 180, 600, 3600]) * 1000;
  if (clocksMs > 0 || rng() < 0.6) return { edge: 'right', edgeMs: 0 };
  // A jump back is a move of the source's clock, which nobody watches here.
  return { edge, edgeMs: edge === 'jumping' ? Math.abs(edgeMs) : edgeMs };
}

/** Also of its own. A record of a person whose id is spoiled is nobody's, and nobody can erase it. */
function besideOf(seed: number, rules: readonly object[], calm: boolean) {
  const rng = makeRng(seed * 7 + 11);
  const isSpoiled = JSON.stringify(rules).includes('"field":"id"');
  const erasures = rng() < 0.3 && !isSpoiled ? between(rng, 1, 2) : 0;
  const volumes = rng() < 0.3 ? between(rng, 3, 24) : 0;
  const shelfPage = between(rng, 2, 9);
  const lake = makeRng(seed * 7 + 14);
  const exports = lake() < 0.01 ? between(lake, 1, 4) : 0;
  const kept = makeRng(seed * 7 + 16);
  const fields = kept() < 0.25 ? ruled.filter(() => kept() < 0.5) : [];
  return {
    ...{ fields, fieldsComeLate: kept() < 0.7 },
    erasures,
    volumes,
    shelfPage,
    exports,
    rules: [...rules, ...(volumes > 0 && !calm ? catalogRules(rng) : [])],
  };
}

function catalogRules(rng: Rng): object[] {
  const faults: object[] = [
    { kind: 'status', status: pick(rng, [500, 503]) },
    { kind: 'reset', after: pick(rng, ['before', 'headers', 'half']) },
    { kind: 'delay', ms: pick(rng, [400, 9000, 45_000]) },
    { kind: 'truncate' },
  ];
  return faults.filter(() => rng() < 0.25).map(fault => ({ ...ruleOf(rng, fault, 0.05), service: 'books' }));
}

/** What goes wrong with requests: of the kinds that there are some, each with a few of a hundred. */
function rulesOf(rng: Rng, behindMs: number): object[] {
  const faults: object[] = [
    { kind: 'status', status: pick(rng, [500, 502, 503, 408]) },
    { kind: 'status', status: 429, headers: { 'Rate-Limit-Reset': '3' } },
    { kind: 'status', status: 401 },
    { kind: 'reset', after: pick(rng, ['before', 'headers', 'half']) },
    { kind: 'delay', ms: pick(rng, [400, 9000, 29_500, 45_000]) },
    { kind: 'truncate' },
    { kind: 'html' },
    { kind: 'headers', drop: ['Date'] },
    { kind: 'headers', drop: ['Total-Count'] },
    { kind: 'headers', drop: ['Rate-Limit-Remaining', 'Rate-Limit-Reset'] },
    { kind: 'set', index: between(rng, -3, 3), field: 'updated_at', value: 'soon' },
    { kind: 'set', index: between(rng, -3, 3), field: 'id', value: 7 },
    { kind: 'set', index: between(rng, 0, 3), value: null },
    { kind: 'duplicate', index: between(rng, -2, 2) },
  ];
  const chosen = faults.filter(() => rng() < 0.15).map(fault => ruleOf(rng, fault, rng() < 0.8 ? 0.04 : 0.2));
  return behindMs > 0 ? [...chosen, ruleOf(rng, { kind: 'lag', seconds: behindMs / 1000 }, 0.3)] : chosen;
}

const ruleOf = (rng: Rng, fault: object, share: number) => ({
  service: 'helpdesk',
  share,
  seed: between(rng, 1, 1_000_000),
  fault,
});
