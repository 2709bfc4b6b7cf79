/** What the parts of the checker examine, and how each says what is wrong with a changed copy of it. */
import type * as workers from '../../src/engine/runs/workers.ts';
import { startOwnServer } from '../support/own-server.ts';
import { databaseFor } from './claims/database.ts';
import { playPresence, presencePlays } from './claims/presence.ts';
import { befores, exploreClaims, loadProduct, raceClaims } from './claims.ts';
import type { Ledger } from './ledger/steps.ts';
import { exploreWorld, worlds } from './ledger.ts';

export type Load = <M>(path: string) => Promise<M>;

export interface Examined {
  /** Of the product, from the project's root. After a space: which functions of the file. */
  readonly files: readonly string[];
  /** What all need, once. */
  readonly begin?: () => Promise<AsyncDisposable & { readonly env: NodeJS.ProcessEnv }>;
  readonly complaintOf: (load: Load) => Promise<string | undefined>;
}

/** The worlds of the budget are cut off here. */
const mostStates = 10_000;

/** Nothing outlives the server, so nothing has to reach the disk. */
const unsafe = { fsync: 'off', full_page_writes: 'off', autovacuum: 'off' };
async function ownServer() {
  const server = await startOwnServer({ settings: unsafe });
  return { env: { CLAIMS_URL: server.url }, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}
const quickRaces = [
  'after nothing: worker 1 takes up tickets of run 1 as job a, while a person ends run 1',
  'worker 1 claims the slot of nightly at minute -60, while worker 2 claims the slot of nightly at minute 0',
];

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
  claims: {
    files: [
      'src/engine/runs/claims.ts',
      'src/engine/commit/sums.ts',
      'src/engine/commit/acknowledged.ts',
      'src/engine/runs/runs.ts readerClass isApart openRun lockSql withAccount waitingWork isOpen isNext endAbandonedRuns outcome endRun closeRun endWaiting',
      'src/engine/runs/slots.ts latest claimSlot readOf lastSlot',
    ],
    begin: ownServer,
    async complaintOf(load) {
      await using own = await databaseFor(process.env.CLAIMS_URL!);
      const product = await loadProduct(load);
      // Most are found after few states. The others begin where something has happened.
      for (const mostStates of [15, 60])
        for (const after of befores.slice(0, 3))
          for await (const { world, complaint } of exploreClaims(own.url, { product, mostStates, after }))
            if (complaint) return `${world}, after ${after}: ${complaint.what}`;
      for (const only of quickRaces)
        for await (const { pair, complaint } of raceClaims(own.url, { product, only }))
          if (complaint) return `${pair}: ${complaint.what}`;
      return undefined;
    },
  },
  presence: {
    files: ['src/engine/runs/workers.ts'],
    begin: ownServer,
    async complaintOf(load) {
      await using own = await databaseFor(process.env.CLAIMS_URL!);
      const product = await load<typeof workers>('src/engine/runs/workers.ts');
      for (const plays of presencePlays) {
        const { complaint } = await playPresence(own.url, product, plays);
        if (complaint) return complaint.what;
      }
      return undefined;
    },
  },
};
