/**
 * Refuses databases that cannot hold the mirror: an old server, another encoding, schemas of other people. The check
 * comes first, so that such a database stays unchanged.
 */

import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ShelfdeskError } from '../../errors.ts';
import type { Mirror } from './mirrors.ts';
import type { Queryable } from './pool.ts';

/** `150004` for 15.4. */
const leastVersion = 150_000;
const folder = fileURLToPath(new URL('../../../migrations/', import.meta.url));
const first = '0001_tables';
/** The first migrations of versions that were never released. */
const unreleased = ['0001_shelfdesk', '0001_schemas'];
const queueSchema = 'bullmq';

export interface Refusal {
  readonly message: string;
  readonly remedy: string;
}

export const tooOld = (versionNumber: number, version: string): Refusal | undefined =>
  versionNumber >= leastVersion
    ? undefined
    : {
        message: `PostgreSQL ${version} is too old`,
        remedy: 'Upgrade the server to PostgreSQL 15 or newer, or name another one in DATABASE_URL.',
      };

/** `database` as SQL names it. */
export const wrongEncoding = (encoding: string, database: string): Refusal | undefined =>
  encoding === 'UTF8'
    ? undefined
    : {
        message: `database ${database} stores ${encoding}, which has no place for most letters`,
        remedy: `Make another one, \`create database shelfdesk encoding 'UTF8' template template0\`, and name it in DATABASE_URL.`,
      };

const neverReleased = (database: string): Refusal => ({
  message: `database ${database} was made by a version of Shelfdesk before the first release`,
  remedy:
    'Nothing was changed. Name an empty database in DATABASE_URL, or move `.shelfdesk` away: everything is read again from the sources.',
});

interface Taken {
  readonly name: string;
  readonly is_empty: boolean;
  readonly owner: string;
}

function ofOthers(schemas: readonly Taken[], database: string, role: string): Refusal[] {
  const full = schemas.filter(one => !one.is_empty).map(({ name }) => name);
  const empty = schemas.filter(one => one.is_empty);
  const refusals: Refusal[] = [];
  if (full.length > 0)
    refusals.push({
      message: `database ${database} has ${full.length > 1 ? 'schemas' : 'a schema'} of another program, with names that Shelfdesk needs: ${full.join(', ')}`,
      remedy:
        'Nothing was changed. Give Shelfdesk a database of its own in the same server, `create database shelfdesk`, and name it in DATABASE_URL. docs/how-to/let-readers-in.md shows how to ask both in one query.',
    });
  if (empty.length > 0)
    refusals.push({
      message: `${empty.map(({ name, owner }) => `schema ${name} of database ${database} belongs to role ${owner}`).join(', ')}, and Shelfdesk makes its tables there`,
      remedy: `Nothing was changed. As a superuser: ${empty.map(({ name }) => `\`alter schema ${name} owner to ${role}\``).join(', ')}.`,
    });
  return refusals;
}

interface Facts {
  readonly version_number: number;
  readonly version: string;
  readonly encoding: string;
  readonly database: string;
  readonly role: string;
  /** Columns of sync.migrations; empty without it. */
  readonly columns: readonly string[];
  /** The tables are ours, and this role may not use them. */
  readonly is_closed: boolean;
}

/** Everything that keeps Shelfdesk from working in this database. `sources` may bring schemas of their own. */
export async function refusalsOf(db: Queryable, sources: readonly Mirror[]): Promise<Refusal[]> {
  const { rows } = await db.query<Facts>(
    `select current_setting('server_version_num')::int as version_number, current_setting('server_version') as version,
       current_setting('server_encoding') as encoding, quote_ident(current_database()) as database, quote_ident(current_user) as role,
       coalesce(array(select a.attname::text from pg_attribute a where a.attrelid = m.oid and a.attnum > 0 and not a.attisdropped), '{}') as columns,
       -- Rows of sync.migrations cannot tell whose tables these are.
       coalesce(not (has_schema_privilege(m.relnamespace, 'usage') and has_table_privilege(m.oid, 'select')), false)
         and exists (select from pg_class c where c.relnamespace = m.relnamespace and c.relname = 'coverage') as is_closed
     from (select) one left join pg_class m on m.relname = 'migrations' and m.relnamespace = (select oid from pg_namespace where nspname = 'sync')`,
  );
  const { version_number, version, encoding, database, role, columns, is_closed } = rows[0]!;
  const applied = is_closed ? undefined : await appliedOf(db, columns);
  const isUnreleased = unreleased.some(name => applied?.has(name));
  const foreign = is_closed || isUnreleased ? [] : await foreignSchemas(db, applied, sources);
  return [
    tooOld(version_number, version) ?? [],
    wrongEncoding(encoding, database) ?? [],
    isUnreleased ? neverReleased(database) : [],
    ofOthers(foreign, database, role),
  ].flat();
}

/** Throws ShelfdeskError with all refusals. */
export async function refuseUnfit(db: Queryable, sources: readonly Mirror[]): Promise<void> {
  const all = await refusalsOf(db, sources);
  const [message, remedy] = [all.map(one => one.message).join('; '), all.map(one => one.remedy).join(' ')];
  if (all.length > 0) throw new ShelfdeskError(message, remedy);
}

/** Schemas that a migration is still to make, that are there, and that are not empty or belong to a role that this one is not. */
async function foreignSchemas(
  db: Queryable,
  applied: ReadonlySet<string> | undefined,
  sources: readonly Mirror[],
): Promise<Taken[]> {
  const wanted = new Set(applied === undefined ? ['sync'] : []);
  const isNew = !applied?.has(first);
  for (const file of (await readdir(folder)).filter(name => name.endsWith('.sql')).sort()) {
    const name = file.slice(0, -4);
    if (applied?.has(name)) continue;
    for (const schema of schemasIn(await readFile(join(folder, file), 'utf8'))) wanted.add(schema);
  }
  // The schema exists already if sync.migrations does.
  if (applied !== undefined) wanted.delete('sync');
  if (isNew) for (const { name, schema } of sources) if (schema !== undefined) wanted.add(name);
  const asked = [...wanted, ...(isNew ? [queueSchema] : [])];
  if (asked.length === 0) return [];
  const { rows } = await db.query<Taken>(
    `select * from (
       select quote_ident(n.nspname) as name, quote_ident(pg_get_userbyid(n.nspowner)) as owner,
         pg_has_role(n.nspowner, 'usage') as is_ours, array_position($1, n.nspname::text) as place,
         -- Default privileges and a publication of the schema leave it empty.
         not exists (
           select from pg_depend d
           where d.refclassid = 'pg_namespace'::regclass and d.refobjid = n.oid
             and d.classid not in ('pg_default_acl'::regclass, 'pg_publication_namespace'::regclass)) as is_empty
       from pg_namespace n where n.nspname = any ($1)
         -- BullMQ makes its schema before the first migration, and programs may share it.
         and not (n.nspname = $2 and 2 = (select count(*) from pg_class c where c.relnamespace = n.oid and c.relname in ('migration', 'job')))) s
     where not (is_empty and is_ours) order by place`,
    [asked, queueSchema],
  );
  return rows;
}

/** Undefined if sync.migrations is missing, or belongs to another program. Empty after a kill before the first migration. */
async function appliedOf(db: Queryable, columns: readonly string[]): Promise<ReadonlySet<string> | undefined> {
  if (!['id', 'name', 'run_on'].every(one => columns.includes(one))) return undefined;
  const { rows } = await db.query<{ name: string }>('select name::text from sync.migrations');
  const names = new Set(rows.map(({ name }) => name));
  return names.size === 0 || [first, ...unreleased].some(name => names.has(name)) ? names : undefined;
}

const schemasIn = (sql: string): string[] =>
  [...sql.matchAll(/^create schema (?:if not exists )?(\w+)/gim)].map(([, name]) => name!);
