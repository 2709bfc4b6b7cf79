/** A lake beside a warehouse of a test, in a folder of its own. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { type Lake, openLake } from '../../../../src/lake/package.ts';
import { alone, turnOn } from '../../../../src/lake/state.ts';
import type { LakePlace } from '../../../../src/lake/table.ts';
import { exportedTables } from '../../../../src/lake/table.ts';
import { lakeTables } from '../../../../src/sources/index.ts';
import { compareLake, type Difference } from '../../src/compare.ts';
import { type Exported, exportTo } from '../../src/export.ts';

export interface LakeBeside extends AsyncDisposable {
  readonly place: LakePlace;
  /** The open engine; another one after `reopen`. */
  readonly lake: Lake;
  /** With this engine instead: one that fails, for one. */
  export(engine?: Lake, helps?: Parameters<typeof exportTo>[3]): Promise<Exported>;
  /** Tables without an account are long, and hardly ever change: they are compared only if `whole`. */
  compare(whole?: boolean): Promise<Difference[]>;
  reopen(): Promise<void>;
  /** All files of rows, with their whole paths. */
  files(): Promise<string[]>;
  /** All rows of all files, and all of the catalog, as text. */
  everything(): Promise<string>;
}

/** Tables that have personal data, or lose it: an export of them alone takes a fifth of the time. */
export const personalTables = lakeTables.filter(({ personal }) => personal !== undefined).map(({ name }) => name);

/** `only` tables of these names: then the lake has no views, because they read all of its tables. */
export async function lakeBeside(
  url: string,
  { personal = true, only, bucket }: { personal?: boolean; only?: readonly string[]; bucket?: LakePlace } = {},
): Promise<LakeBeside> {
  const place = { path: '', ...bucket, extensions: process.env.LAKE_EXTENSIONS };
  if (bucket === undefined) place.path = await mkdtemp(join(tmpdir(), 'lake-'));
  const { path, ...reach } = place;
  const tables = exportedTables(lakeTables, { personal }).filter(({ name }) => only?.includes(name) ?? true);
  await turnOn(url, reach, { path, personal, keepDays: 30 }, { who: 'test', now: new Date() });
  let lake = await openLake(url, place);
  const here: LakeBeside = {
    place,
    get lake() {
      return lake;
    },
    export: (engine = lake, helps = {}) =>
      alone(url, client => exportTo(only === undefined ? engine : withoutViews(engine), client, tables, helps)),
    compare: (whole = false) =>
      alone(url, client =>
        compareLake(
          lake,
          client,
          tables.filter(({ unit }) => unit !== 'all' || whole),
        ),
      ),
    async reopen() {
      await lake[Symbol.asyncDispose]();
      lake = await openLake(url, place);
    },
    async files() {
      const all = await readdir(path, { recursive: true });
      return all
        .filter(file => file.endsWith('.parquet') && !file.endsWith('-delete.parquet'))
        .map(file => join(path, file));
    },
    async everything() {
      const texts: string[] = [];
      for (const file of await here.files())
        texts.push(JSON.stringify(await lake.rows(`select * from read_parquet('${file}', hive_partitioning = false)`)));
      return texts.join('\n') + (await catalogOf(url));
    },
    async [Symbol.asyncDispose]() {
      await lake[Symbol.asyncDispose]();
      if (bucket === undefined) await rm(path, { recursive: true, force: true });
    },
  };
  return here;
}

/** An engine that makes no views. */
export const withoutViews = (lake: Lake): Lake => ({
  ...lake,
  run: async sql => {
    if (!/create or replace (view|macro)/.test(sql)) await lake.run(sql);
  },
});

async function catalogOf(url: string): Promise<string> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    const { rows: tables } = await client.query<{ name: string }>(
      `select format('lake.%I', relname) as name from pg_class where relnamespace = 'lake'::regnamespace and relkind = 'r'`,
    );
    const texts: string[] = [];
    for (const { name } of tables)
      texts.push(
        (await client.query(`select coalesce(string_agg(r::text, e'\\n'), '') as text from ${name} r`)).rows[0].text,
      );
    return texts.join('\n');
  } finally {
    await client.end();
  }
}
