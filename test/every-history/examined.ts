/** What the parts of the checker examine, and how each says what is wrong with a changed copy of it. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { makePool } from '../../src/engine/database/pool.ts';
import { startOwnServer } from '../support/own-server.ts';
import type { Ledger } from './ledger/steps.ts';
import { exploreWorld, worlds } from './ledger.ts';
import { explore } from './readers/explore.ts';
import { comparisons, keepingOf } from './readers/in-sql.ts';
import { listComparisons } from './readers/lists-in-sql.ts';
import { readersOf } from './readers/planted.ts';
import { slice } from './readers/worlds.ts';

export type Load = <M>(path: string) => Promise<M>;

export interface Examined {
  /** Of the product, from the project's root. */
  readonly files: readonly string[];
  /** Of a file only these functions. */
  readonly within?: Readonly<Record<string, readonly string[]>>;
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
  coverage: {
    files: ['src/engine/coverage/coverage.ts', 'src/engine/coverage/ties.ts', 'src/engine/commit/merge.ts'],
    within: { 'src/engine/commit/merge.ts': ['laterVersion', 'rowTrueBy'] },
    async begin() {
      const server = await startOwnServer({ settings: { fsync: 'off' } });
      return { env: { [serverUrl]: server.url }, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
    },
    async complaintOf(load) {
      const keeping = await keepingOf(load);
      await using copy = await copyOf(process.env[serverUrl]!);
      for (const [what, compare] of Object.entries({ ...comparisons, ...listComparisons })) {
        const wrong = await compare(keeping, copy.pool).then(() => undefined, String);
        if (wrong !== undefined) return `${what}: ${wrong}`;
      }
      return undefined;
    },
  },
};

const serverUrl = 'SHELFDESK_EXAMINED_SERVER';

/** Its tables without a row, for one change. */
async function copyOf(url: string): Promise<AsyncDisposable & { readonly pool: pg.Pool }> {
  const name = `examined_${randomBytes(6).toString('hex')}`;
  const [from, to] = [new URL(url), new URL(url)];
  const template = from.pathname.slice(1);
  from.pathname = 'template1';
  to.pathname = name;
  const administer = async (statement: string) => {
    const client = new pg.Client({ connectionString: from.href });
    await client.connect();
    await client.query(statement).finally(() => client.end());
  };
  await administer(`create database ${name} template ${template} strategy file_copy`);
  const pool = makePool(to.href);
  return {
    pool,
    async [Symbol.asyncDispose]() {
      await pool.end();
      await administer(`drop database ${name} with (force)`);
    },
  };
}
