/**
 * The context of a piece of work: the warehouse, the open sources, the clock, the log. Everything that varies comes in
 * here, so that the same code runs in a simulation. app/open-context.ts opens it.
 */
import type pg from 'pg';
import type { Logger } from 'pino';
import type { Clock } from '../clock.ts';
import { exitCodes, Fatal } from '../errors.ts';
import type { Source, Stream } from '../sources/source.ts';
import type { Limits } from './budget/budget.ts';
import type { Heard, Send } from './http/send.ts';
import type { Bell } from './notifier.ts';
import type { Ms } from './reading/reading.ts';
import type { Bound } from './runs/accounts/accounts.ts';
import type { Claim, Claimant, Work } from './runs/claims.ts';

export interface Context {
  readonly account: string;
  readonly pg: pg.Pool;
  readonly clock: Clock;
  /** Chance: from 0 to 1, without 1. */
  readonly random: () => number;
  readonly log: Logger;
  /** Aborts with `Interrupted`, `Paused` or `FencedOff`. The work commits what is in flight, if it may, and ends. */
  readonly signal: AbortSignal;
  /** The configured sources, by name. */
  readonly sources: ReadonlyMap<string, OpenSource>;
  /** All streams that this program knows, in the order of a full sync. */
  readonly streams: readonly Stream[];
  readonly sweep: SweepConfig;
  /** The field rules that this process applies, sorted; default: none. */
  readonly rules?: string;
  /** The addresses of the sources, which the first rows bind the account to; default: none is bound. */
  readonly bound?: readonly Bound[];
}

/** A configured source. A source adds settings of its own to this. */
export interface OpenSource {
  readonly name: string;
  readonly declaration: Pick<Source, 'forecast' | 'label' | 'unit'>;
  readonly limits: Limits;
  /** The longest wait for quota; undefined: as long as it takes. */
  readonly longestWaitMs?: number | undefined;
  readonly send: Send;
  /** How late a record may appear after its own time. */
  readonly lookbackMs: number;
  /** Start of the mirror of this source; undefined: everything. */
  readonly sinceMs?: Ms | undefined;
  /** What its audit may use; undefined: it has none. */
  readonly audit?: AuditConfig | undefined;
  /** Notifies readers of this process that new rows are stored. */
  readonly stored: Bell;
  /** Lets one request through although the quota is spent: a person asked for it. */
  thaw(): Promise<void>;
}

export interface AuditConfig {
  /** Random records of each stream that are compared in an hour. */
  readonly perHour: number;
  /** Details that were read longer ago are read again; undefined: as the share of re-reading allows. */
  readonly againMs?: Ms | undefined;
}

export interface SweepConfig {
  /** A sweep re-reads records that it checked longer ago than this. */
  readonly ageMs: number;
  /** Share of the rows of a stream, 0 to 1. A sweep that would delete more stops and asks. */
  readonly mostDeleted: number;
  /** Share of a source's credits, 0 to 1, for reading lists again by day; undefined: that is left to nightly runs. */
  readonly share?: number;
}

/** The context of a job. It has its own count of credits. */
export interface JobContext extends Context {
  readonly claimant: Claimant;
  /** Receives each claim of the job, so that the worker can stop a job whose claim is lost. */
  readonly onClaim?: (claim: Claim) => void;
}

/** What could not be read, in words; undefined if nothing is missing. */
export interface Outcome {
  readonly partial?: string | undefined;
}

/** How a job reads a stream. `isLeftToOthers` says whether a concurrent run makes this one unnecessary. */
export interface Reads {
  read(ctx: Context, claim: Claim): Promise<Outcome>;
  isDone?(ctx: Context, work: Work): Promise<Outcome | undefined>;
}

/** Throws Fatal if the source is not configured. */
export function sourceOf(ctx: Pick<Context, 'sources'>, name: string): OpenSource {
  const source = ctx.sources.get(name);
  if (source !== undefined) return source;
  throw new Fatal(`the source ${name} is not configured`, 'Set its address and its credentials.', exitCodes.usage);
}

/** The time by the clock of a source; before its first reply by the clock of this machine, which is good enough for ages of days. */
export const sourceNow = (ctx: Pick<Context, 'sources' | 'clock'>, name: string): Ms =>
  sourceOf(ctx, name).send.sourceNow() ?? ctx.clock.now();

/** The same sources, with a count of credits of their own. `heard` is called for each request. */
export const apart = (sources: Context['sources'], heard?: (one: Heard) => void): Context['sources'] =>
  new Map([...sources].map(([name, source]) => [name, { ...source, send: source.send.apart(heard) }]));

/** Credits used at all sources since the last call. */
export const takeCredits = ({ sources }: Pick<Context, 'sources'>): number =>
  [...sources.values()].reduce((sum, { send }) => sum + send.takeCredits(), 0);

/** The credits of all requests up to now are in the warehouse, if it answers. */
export const bookCredits = async ({ sources }: Pick<Context, 'sources'>): Promise<void> => {
  await Promise.all([...sources.values()].map(({ send }) => send.book()));
};
