/** Interface between program.ts and the commands. */
import type { Command } from 'commander';
import type { Config, Fleet } from '../app/config.ts';
import type { Job } from '../engine/queue/job.ts';
import type { LakeWork } from '../lake/work.ts';
import { wrapped } from './output/terminal.ts';

export interface Deps {
  /** The account of --account, or the only one, or `default`. For commands that work on one account. */
  readonly config: () => Config;
  /** All accounts, or only the one of --account. For commands that work on all accounts or on none. */
  readonly fleet: () => Fleet;
  /** All accounts and the value of --account, which may name an account without settings. */
  readonly asked: () => { fleet: Fleet; account: string | undefined };
  readonly jobs: readonly Job[];
  readonly lakeJobs: readonly Job<LakeWork>[];
  /** Aborts with `Interrupted` on Ctrl-C. */
  readonly signal: AbortSignal;
}

export type AddCommand = (program: Command, deps: Deps, act: Act) => void;

/** Wraps an action so that it sets the exit code: the one that it returns or throws with a ShelfdeskError, else `ok`. */
export type Act = <A extends unknown[]>(
  action: (...args: A) => Promise<number | undefined> | Promise<void>,
) => (...args: A) => Promise<void>;

/** The option of every command that prints a result. */
export const jsonOption = ['--json', 'print one JSON document on stdout'] as const;

/** Text below the options of a command, in lines of 80 characters. */
export const note = (text: string): string => `\n${wrapped(text, 80).join('\n')}`;

export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
