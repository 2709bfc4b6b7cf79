/** What the parts of the checker examine, and how each says what is wrong with a changed copy of it. */
import type { Ledger } from './ledger/steps.ts';
import { exploreWorld, worlds } from './ledger.ts';

export type Load = <M>(path: string) => Promise<M>;

export interface Examined {
  /** Of the product, from the project's root. */
  readonly files: readonly string[];
  /** What all need, once. */
  readonly begin?: () => Promise<AsyncDisposable & { readonly env: NodeJS.ProcessEnv }>;
  readonly complaintOf: (load: Load) => Promise<string | undefined>;
}

/** The worlds of the budget are cut off here. */
const mostStates = 10_000;

export const examined: Readonly<Record<string, Examined>> = {
  budget: {
    files: ['src/engine/budget/ledger.ts', 'src/engine/budget/source-limits.ts'],
    async complaintOf(load) {
      const ledger = await load<Ledger>('src/engine/budget/ledger.ts');
      // Most are found after few states, in one world or another.
      for (const most of [300, mostStates])
        for (const world of worlds) {
          const { complaint } = exploreWorld(world, ledger, { mostStates: most });
          if (complaint) return `${world.name}: ${complaint.what}`;
        }
      return undefined;
    },
  },
};
