/** What a command is given besides its own arguments. */
import type { Command } from 'commander';
import type { Config, Fleet } from '../app/config.ts';
import type { Job } from '../engine/queue/job.ts';

export interface Deps {
  /** The account of --account; without it the only one, or `default`. For what works on one account. */
  readonly config: () => Config;
  /** All accounts, or that of --account alone; for what shows or serves all, or needs none. */
  readonly fleet: () => Fleet;
  /** All accounts, and what --account says: perhaps one that has no settings any more. */
  readonly asked: () => { fleet: Fleet; account: string | undefined };
  readonly jobs: readonly Job[];
  /** Aborts with `Interrupted` on Ctrl-C. */
  readonly signal: AbortSignal;
}

/** Adds itself to the program. The action answers with the exit code, or throws a ShelfdeskError that knows it. */
export type AddCommand = (program: Command, deps: Deps, act: Act) => void;

/** Wraps an action so that its answer becomes the exit code. */
export type Act = <A extends unknown[]>(action: (...args: A) => Promise<number>) => (...args: A) => Promise<void>;
