/** What the parts of the checker examine, and how each says what is wrong with a changed copy of it. */
import { makePool } from '../../../src/engine/database/pool.ts';
import type * as workers from '../../../src/engine/runs/workers.ts';
import type * as living from '../../../src/status/workers.ts';
import { startOwnServer } from '../../../test/support/own-server.ts';
import { databaseFor } from './claims/database.ts';
import { playPresence, presencePlays } from './claims/presence.ts';
import { befores, exploreClaims, loadProduct, raceClaims } from './claims.ts';
import { comparisons, keepingOf } from './in-sql/in-sql.ts';
import { listComparisons } from './in-sql/lists-in-sql.ts';
import { clocksWrong } from './ledger/clocks.ts';
import { drawnWrong, refusedWrong, rememberedWrong, resetsWrong } from './ledger/drawn.ts';
import { recordClocksWrong } from './ledger/record-clocks.ts';
import { type Budgets, rowWrong } from './ledger/row.ts';
import type { Ledger } from './ledger/steps.ts';
import { exploreWorld, worlds } from './ledger.ts';
import { explore } from './readers/explore.ts';
import { readersOf } from './readers/planted.ts';
import { slice } from './readers/worlds.ts';

export type Load = <M>(path: string) => Promise<M>;

export interface Examined {
  /** Of the product, from the project's root. After a file, the functions of it that count; default: all. */
  readonly files: readonly string[];
  /** What all need, once. */
  readonly begin?: () => Promise<AsyncDisposable & { readonly env: NodeJS.ProcessEnv }>;
  /** `file` is what was changed. */
  readonly complaintOf: (load: Load, file: string) => Promise<string | undefined>;
}

/** Histories of the budget that are drawn. */
const histories = 1500;
/** The worlds of the budget are cut off here. */
const mostStates = 2000;

/** Which readers a file of theirs belongs to; undefined: all. */
const readersBy: Readonly<Record<string, readonly string[] | undefined>> = {
  'moving-list': ['moving list'],
  tie: ['moving list', 'by creation'],
  overlap: ['moving list'],
  'page-walk': ['walk by pages'],
  'by-creation': ['by creation', 'moving list'],
  partitions: ['by creation'],
  'whole-list': ['whole list'],
  'by-cursor': ['cursor'],
  collection: ['shelf'],
  reading: undefined,
};
const reading = (name: string) => `src/engine/reading/${name}.ts`;

/** The comparisons that a file of the coverage shows in, the quick ones first. */
function comparedFor(file: string) {
  const ofLists = Object.entries(listComparisons);
  if (file.endsWith('/coverage.ts')) return [...ofLists.reverse(), ...Object.entries(comparisons).slice(2)];
  return [...Object.entries(comparisons), ...ofLists.slice(3)];
}

/** Nothing outlives the server, so nothing has to reach the disk. */
const unsafe = { fsync: 'off', full_page_writes: 'off', autovacuum: 'off' };
const serverUrl = 'EXAMINED_SERVER';
async function ownServer() {
  const server = await startOwnServer({ settings: unsafe });
  return { env: { [serverUrl]: server.url }, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}
const ownDatabase = () => databaseFor(process.env[serverUrl]!);
export const quickRaces = [
  'after nothing: worker 1 takes up tickets of run 1 as job a, while a person ends run 1',
  'worker 1 claims the slot of nightly at minute -60, while worker 2 claims the slot of nightly at minute 0',
  'worker 1 finishes tickets of run 1 under token 1, while worker 2 finishes books.shelves of run 1 under token 1',
];

export const examined: Readonly<Record<string, Examined>> = {
  readers: {
    files: Object.keys(readersBy).map(reading),
    async complaintOf(load, file) {
      const mistaken = await readersOf(load);
      const [, concerned] = Object.entries(readersBy).find(([name]) => reading(name) === file)!;
      const games = [...slice()]
        .filter(({ reader }) => concerned?.includes(reader) ?? true)
        .sort((a, b) => a.size - b.size);
      // Most are found after few states, in one world or another.
      for (const most of [100, Number.POSITIVE_INFINITY])
        for (const { reader, title, game } of games) {
          const { found } = explore(game(mistaken), { mostStates: most });
          if (found) return `${reader}: ${title}: ${found.wrong}`;
        }
      return undefined;
    },
  },
  coverage: {
    files: [
      'src/engine/coverage/coverage.ts',
      'src/engine/coverage/ties.ts',
      'src/engine/commit/merge.ts laterVersion rowTrueBy',
    ],
    begin: ownServer,
    async complaintOf(load, file) {
      const keeping = await keepingOf(load);
      await using own = await ownDatabase();
      const pool = makePool(own.url);
      try {
        for (const [what, compare] of comparedFor(file)) {
          const wrong = await compare(keeping, pool).then(() => undefined, String);
          if (wrong !== undefined) return `${what}: ${wrong}`;
        }
        return undefined;
      } finally {
        await pool.end();
      }
    },
  },
  budget: {
    files: ['ledger', 'set-back', 'source-limits', 'clocks', 'record-clock', 'source-clock'].map(
      name => `src/engine/budget/${name}.ts`,
    ),
    async complaintOf(load) {
      const ledger = await load<Ledger>('src/engine/budget/ledger.ts');
      const wrong =
        drawnWrong(ledger, histories) ??
        refusedWrong(ledger) ??
        clocksWrong(ledger) ??
        recordClocksWrong(ledger) ??
        rememberedWrong(ledger) ??
        resetsWrong(ledger);
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
    begin: ownServer,
    complaintOf: async load => rowWrong(process.env[serverUrl]!, await load<Budgets>('src/engine/budget/budget.ts')),
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
      await using own = await ownDatabase();
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
    files: ['src/engine/runs/workers.ts', 'src/status/workers.ts'],
    begin: ownServer,
    async complaintOf(load) {
      await using own = await ownDatabase();
      const product = {
        ...(await load<typeof workers>('src/engine/runs/workers.ts')),
        ...(await load<typeof living>('src/status/workers.ts')),
      };
      for (const plays of presencePlays) {
        const { complaint } = await playPresence(own.url, product, plays);
        if (complaint) return complaint.what;
      }
      return undefined;
    },
  },
};
