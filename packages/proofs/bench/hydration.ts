/** The messages of tickets from HTTP to committed rows: measured once for all sections that ask. */
import { fileURLToPath } from 'node:url';
import { settingsFor } from '../../../test/support/cli.ts';
import { openDatabase } from './lab.ts';
import { type Cost, type Database, rowsWritten, runCommand, runOurs, type Source, startSource } from './load.ts';

export const tickets = 2000;
export const messagesEach = 5;
const rounds = 3;
const again = ['backfill', 'messages', '--again', '--since', '2025-01-01', '--until', '2028-01-01'];

interface Hydration {
  readonly tickets: number;
  /** Bytes of all bodies. */
  readonly text: number;
  readonly first: Cost;
  /** Bytes that the messages add to all tables, and to their indexes. */
  readonly disk: number;
  readonly indexes: number;
  readonly unchanged: Cost;
  readonly written: number;
}

export const searches = ['search off', 'search on'] as const;
export type Hydrations = Readonly<Record<(typeof searches)[number], readonly Hydration[]>>;
let measured: Promise<Hydrations> | undefined;

export const hydrations = (quick: boolean): Promise<Hydrations> => {
  measured ??= measure(quick ? tickets / 10 : tickets);
  return measured;
};

/** One after the other in each round. */
async function measure(count: number): Promise<Hydrations> {
  using source = await startSource(fileURLToPath(new URL('long-letters.ts', import.meta.url)), [String(count)]);
  const found = { 'search off': [] as Hydration[], 'search on': [] as Hydration[] };
  for (let round = 0; round < rounds; round++)
    for (const search of searches) found[search].push(await hydrate(source, count, search));
  return found;
}

async function hydrate(source: Source, count: number, search: keyof Hydrations): Promise<Hydration> {
  await using db = await openDatabase();
  if (search === 'search on') await runCommand(settingsFor(db.url, source), ['search', 'on']);
  await runOurs(db, source, ['sync', 'tickets']);
  const before = await sizeOf(db);
  const first = await runOurs(db, source, ['sync', 'messages']);
  const after = await sizeOf(db);
  const { rows } = await db.pool.query<{ text: number }>(
    'select sum(octet_length(body))::float8 as text from helpdesk.messages',
  );
  const written = await rowsWritten(db);
  const unchanged = await runOurs(db, source, again);
  return {
    ...{ tickets: count, text: rows[0]!.text, first, unchanged, written: (await rowsWritten(db)) - written },
    ...{ disk: after.disk - before.disk, indexes: after.indexes - before.indexes },
  };
}

async function sizeOf({ pool }: Database): Promise<Pick<Hydration, 'disk' | 'indexes'>> {
  const { rows } = await pool.query<Pick<Hydration, 'disk' | 'indexes'>>(
    `select sum(pg_total_relation_size(c.oid))::float8 as disk, sum(pg_indexes_size(c.oid))::float8 as indexes
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname in ('helpdesk', 'internal', 'analytics', 'sync') and c.relkind = 'r'`,
  );
  return rows[0]!;
}
