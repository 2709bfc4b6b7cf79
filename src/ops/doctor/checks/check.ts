/**
 * One check of the doctor: its name, what it checks, and the checks that it depends on. index.ts lists the checks;
 * run-checks.ts runs them.
 */
import type { AccountContext, DoctorContext } from '../doctor-context.ts';

/** `skipped`: it could not be looked at, or nothing here could tell; `says` is why. */
export type State = 'ok' | 'warn' | 'fail' | 'skipped';

/** In the order in which they are shown. */
export const areas = [
  'settings',
  'database',
  'queue',
  'help desk',
  'what the help desk leaves open',
  'catalog',
  'sources',
  'the work',
  'schedule',
] as const;
export type Area = (typeof areas)[number];

export interface Finding {
  readonly state: State;
  /** What was found: a sentence without its full stop, and without a secret. */
  readonly says: string;
  /** What to do about it, with the command or the setting. Of everything that is a warning or a failure. */
  readonly remedy?: string;
  readonly fix?: Fix;
}

/** What `--fix` may do by itself: it is safe, and can be done again. */
interface Fix {
  /** What it will do: `make the tables`. */
  readonly says: string;
  /** Answers what was done. */
  do(): Promise<string>;
}

interface Common {
  /** Unique, in words: people read it. */
  readonly name: string;
  readonly area: Area;
  /** What it looks at, for the manual (docs/DOCTOR.md). */
  readonly looks: string;
  /** Names of checks that must not have failed, nor been skipped: else this one is skipped. */
  readonly needs?: readonly string[];
}

/** Once for a process, whatever accounts it has. */
interface ProcessCheck extends Common {
  readonly of: 'process';
  run(context: DoctorContext): Promise<Answer> | Answer;
}

/** Once for each account. */
interface AccountCheck extends Common {
  readonly of: 'account';
  run(context: AccountContext): Promise<Answer> | Answer;
}

export type Check = ProcessCheck | AccountCheck;

/** Several where several things are wrong. */
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
