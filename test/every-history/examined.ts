/** What the parts of the checker examine, and how each says what is wrong with a changed copy of it. */
import { startOwnServer } from '../support/own-server.ts';
import { clocksWrong } from './ledger/clocks.ts';
import { drawnWrong, rememberedWrong, resetsWrong } from './ledger/drawn.ts';
import { type Budgets, rowWrong } from './ledger/row.ts';
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

/** So many histories of the budget are drawn. */
const histories = 1500;
/** The worlds of the budget are cut off here. */
const mostStates = 2000;

export const examined: Readonly<Record<string, Examined>> = {
  budget: {
    files: ['ledger', 'source-limits', 'source-clock'].map(name => `src/engine/budget/${name}.ts`),
    async complaintOf(load) {
      const ledger = await load<Ledger>('src/engine/budget/ledger.ts');
      const wrong =
        drawnWrong(ledger, histories) ?? clocksWrong(ledger) ?? rememberedWrong(ledger) ?? resetsWrong(ledger);
      if (wrong) return wrong;
      for (const world of worlds) {
        const { complaint } = exploreWorld(world, ledger, { mostStates });
        if (complaint) return `${world.name}: ${complaint.what}`;
      }
      return undefined;
    },
  },
  row: {
    files: ['src/engine/budget/budget.ts'],
    async begin() {
      // Nothing outlives the server, so nothing has to reach the disk.
      const server = await startOwnServer({ settings: { fsync: 'off', full_page_writes: 'off', autovacuum: 'off' } });
      return { env: { ROW_URL: server.url }, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
    },
    complaintOf: async load => rowWrong(process.env.ROW_URL!, await load<Budgets>('src/engine/budget/budget.ts')),
  },
};
