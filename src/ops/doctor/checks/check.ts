/**
 * One check of the doctor: its name, what it checks, and the checks that it depends on. index.ts lists the checks;
 * run-checks.ts runs them. A source brings checks of its own, so nothing here knows the settings of the program.
 */
import type pg from 'pg';
import type { Clock } from '../../../clock.ts';
import type { Context } from '../../../engine/context.ts';
import { ShelfdeskError, Spent } from '../../../errors.ts';

/** `skipped`: the check could not run, or has no data; `says` is the reason. */
export type State = 'ok' | 'warn' | 'fail' | 'skipped';

export interface Finding {
  readonly state: State;
  /** The finding: one sentence without a full stop and without secrets. */
  readonly says: string;
  /** The remedy, with its command or setting. Set for every warning and failure. */
  readonly remedy?: string;
  readonly fix?: Fix;
}

/** A repair for `--fix`: safe and repeatable. */
interface Fix {
  /** What the repair will do: `make the tables`. */
  readonly says: string;
  /** Returns what it did. */
  do(): Promise<string>;
}

interface Common {
  /** Unique name, for people. */
  readonly name: string;
  /** What the check examines, for the manual (docs/reference/doctor.md). */
  readonly looks: string;
  /** Names of checks that must have passed. Otherwise this check is skipped. */
  readonly needs?: readonly string[];
}

/** Runs once per process. `P`: what the doctor brings of it. */
export interface ProcessCheck<P> extends Common {
  readonly of?: undefined;
  run(context: P): Promise<Answer> | Answer;
}

/** Runs once per account. `A`: what the doctor brings of it. */
export interface AccountCheck<A> extends Common {
  readonly of: 'account';
  run(context: A): Promise<Answer> | Answer;
}

/** What a check of a source works with. `Part`: what the source adds to the configuration of an account. */
export interface SourceContext<Part> {
  readonly account: string;
  readonly config: Part;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  ctx(): Promise<Context>;
  warehouse(): Promise<{ readonly pg: pg.Pool }>;
  /** `aheadMs`: of the database's clock, relative to ours. */
  server(): Promise<{ readonly aheadMs: number }>;
}

export type SourceCheck<Part> = Omit<AccountCheck<SourceContext<Part>>, 'of'>;

/** Checks under one heading. */
export interface Area<C> {
  readonly area: string;
  readonly checks: readonly C[];
}

/** An array if the check has several findings. */
export type Answer = Finding | readonly Finding[];

export const ok = (says: string): Finding => ({ state: 'ok', says });
/** What a reply tells, or that the source does not answer as it should. */
export async function answered<T>(reply: Promise<T>, told: (reply: T) => Finding): Promise<Finding> {
  try {
    return told(await reply);
  } catch (error) {
    if (error instanceof Spent) return warn(error.message, 'Wait: a worker resumes when the quota resets.');
    if (!(error instanceof ShelfdeskError)) throw error;
    return fail(error.message, error.remedy);
  }
}
export const skipped = (says: string): Finding => ({ state: 'skipped', says });
export const warn = (says: string, remedy: string, fix?: Fix): Finding => bad('warn', says, remedy, fix);
export const fail = (says: string, remedy: string, fix?: Fix): Finding => bad('fail', says, remedy, fix);

const bad = (state: State, says: string, remedy: string, fix?: Fix): Finding => ({
  ...{ state, says, remedy },
  ...(fix && { fix }),
});
