/**
 * Takes over a database of the first migrations, 0001_schemas to 0059_safe_change_by. 0001_shelfdesk replaces all of
 * these. One transaction applies the changes since 0059, and then the functions, views, comments and definitions of
 * 0001_shelfdesk. Rows stay, apart from reworded values. Views that others built on ours stay too.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type pg from 'pg';
import { exitCodes, ShelfdeskError } from '../../errors.ts';
import { asRun } from './as-run.ts';

const migrations = fileURLToPath(new URL('../../../migrations/', import.meta.url));
const changesSince = join(migrations, 'before-0001');
const replacing = '0001_shelfdesk';
const [first, last] = ['0001_schemas', '0059_safe_change_by'];
/** The last commit whose `migrate` brings a database to `last`, and beyond. */
const lastCommit = '9f1c5da';

/**
 * Returns the migration that replaces the old ones; nothing if the database is not an old one. Throws ShelfdeskError if
 * it is older than `last`.
 */
export async function takeOver(client: pg.Client): Promise<string[]> {
  const { rows: tables } = await client.query("select to_regclass('sync.migrations') is not null as there");
  if (!tables[0].there) return [];
  const { rows } = await client.query<{ name: string }>('select name from sync.migrations order by id');
  const applied = new Set(rows.map(({ name }) => name));
  if (!applied.has(first)) return [];
  if (!applied.has(last))
    throw new ShelfdeskError(
      `the database stands at migration ${rows.at(-1)!.name}; this version takes over databases from ${last} on`,
      `Check out commit ${lastCommit}, run \`npx shelfdesk migrate\` there, then here again. Nothing has been changed.`,
      exitCodes.failed,
    );
  const read = async (folder: string, file: string) => asRun(await readFile(join(folder, file), 'utf8'));
  const whole = await read(migrations, `${replacing}.sql`);
  await client.query('begin');
  for (const file of (await readdir(changesSince)).sort())
    if (!applied.has(file.replace(/\.sql$/, ''))) await client.query(await read(changesSince, file));
  await client.query('set local check_function_bodies = off');
  await client.query(forgetComments);
  await client.query('delete from analytics.metric_definitions');
  for (const statement of repeatable(whole)) await client.query(statement);
  await client.query('alter table sync.migrations drop column if exists checksum');
  await client.query('delete from sync.migrations where name <> $1', [first]);
  await client.query('update sync.migrations set name = $1', [replacing]);
  await client.query('commit');
  return [replacing];
}

/** The statements of a migration that may run again. Each statement begins at the beginning of a line. */
const repeatable = (text: string): string[] =>
  text
    .split(/^(?=(?:create|comment on|alter|insert into|revoke|do|select sync\.) ?)/m)
    .filter(one =>
      /^(create or replace|comment on|alter function|revoke|select sync\.|insert into analytics\.metric_definitions)/.test(
        one,
      ),
    );

/** `sync.settle_comments` comments only columns that have no comment. */
const forgetComments = `do $$
declare
  one record;
begin
  for one in
    select format('%s.%I', c.oid::regclass, a.attname) as name
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relkind in ('r', 'v') and col_description(c.oid, a.attnum) is not null
      and c.oid <> 'sync.migrations'::regclass
      and c.relnamespace::regnamespace::text in ('sync', 'helpdesk', 'books', 'analytics', 'internal', 'safe')
  loop
    execute format('comment on column %s is null', one.name);
  end loop;
end
$$`;
