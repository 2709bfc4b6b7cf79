/** What the parts of the checker examine, and how each says what is wrong with a changed copy of it. */
import type { Ledger } from './ledger/steps.ts';
import { exploreWorld, worlds } from './ledger.ts';
import { explore } from './readers/explore.ts';
import { readersOf } from './readers/planted.ts';
import { slice } from './readers/worlds.ts';

export type Load = <M>(path: string) => Promise<M>;

export interface Examined {
  /** Of the product, from the project's root. */
  readonly files: readonly string[];
  /** What all need, once. */
  readonly begin?: () => Promise<AsyncDisposable & { readonly env: NodeJS.ProcessEnv }>;
  /** `file` is what was changed. */
  readonly complaintOf: (load: Load, file: string) => Promise<string | undefined>;
}

/** The worlds of the budget are cut off here. */
const mostStates = 10_000;

/** Which readers a file of theirs belongs to; undefined: all. */
const readersBy: Readonly<Record<string, readonly string[] | undefined>> = {
  'moving-list': ['moving list'],
  tie: ['moving list', 'by creation'],
  'page-walk': ['walk by pages'],
  'by-creation': ['by creation', 'moving list'],
  partitions: ['by creation'],
  'whole-list': ['whole list'],
  'by-cursor': ['cursor'],
  collection: ['shelf'],
  reading: undefined,
};
const reading = (name: string) => `src/engine/reading/${name}.ts`;

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
  readers: {
    files: Object.keys(readersBy).map(reading),
    async complaintOf(load, file) {
      const mistaken = await readersOf(load);
      const [, concerned] = Object.entries(readersBy).find(([name]) => reading(name) === file)!;
      const games = [...slice()]
        .filter(({ reader }) => concerned?.includes(reader) ?? true)
        .sort((a, b) => a.size - b.size);
      // Most are found after few states, in one world or another.
      for (const most of [100, Infinity])
        for (const { reader, title, game } of games) {
          const { found } = explore(game(mistaken), { mostStates: most });
          if (found) return `${reader}: ${title}: ${found.wrong}`;
        }
      return undefined;
    },
  },
};
