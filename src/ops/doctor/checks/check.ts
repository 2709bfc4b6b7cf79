/**
 * One check of the doctor: its name, what it checks, and the checks that it depends on. index.ts lists the checks;
 * run-checks.ts runs them.
 */
import type { AccountContext, DoctorContext } from '../doctor-context.ts';

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
  /** Heading under which it is shown. */
  readonly area: string;
  /** What the check examines, for the manual (docs/reference/doctor.md). */
  readonly looks: string;
  /** Names of checks that must have passed. Otherwise this check is skipped. */
  readonly needs?: readonly string[];
}

/** Runs once per process. */
interface ProcessCheck extends Common {
  readonly of: 'process';
  run(context: DoctorContext): Promise<Answer> | Answer;
}

/** Runs once per account. */
interface AccountCheck extends Common {
  readonly of: 'account';
  run(context: AccountContext): Promise<Answer> | Answer;
}

export type Check = ProcessCheck | AccountCheck;

/** An array if the check has several findings. */
export type Answer = Finding | readonly Finding[];

export const ok = (says: string): Finding => ({ state: 'ok', says });
export const skipped = (says: string): Finding => ({ state: 'skipped', says });
export const warn = (says: string, remedy: string, fix?: Fix): Finding => bad('warn', says, remedy, fix);
export const fail = (says: string, remedy: string, fix?: Fix): Finding => bad('fail', says, remedy, fix);

const bad = (state: State, says: string, remedy: string, fix?: Fix): Finding => ({
  state,
  says,
  remedy,
  ...(fix && { fix }),
});
