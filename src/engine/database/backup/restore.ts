/**
 * Fills the tables of an empty warehouse from a backup, in one transaction: it is whole or not at all. Triggers rest meanwhile,
 * because what they write is in the backup too.
 */
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type pg from 'pg';
import { exitCodes, isAway, messageOf, ShelfdeskError } from '../../../errors.ts';
import { sql } from '../sql.ts';
import { type CopiedTable, copiedTables, madeFor, openCopying, type ShowRows } from './backup.ts';
import { type BackupHeader, readBackup } from './backup-file.ts';
import { copyIn } from './copy.ts';

/** Filled by `migrate`, before anything is stored. */
const ofProgram = ['analytics.metric_definitions', 'sync.secret_erasure', 'sync.secret_salt', 'sync.streams'];
const chunkBytes = 1024 * 1024;

export interface Restored {
  readonly madeAt: string;
  readonly tables: number;
  readonly rows: number;
  /** Whether the indexes of search were there. A backup has rows only. */
  readonly search: boolean;
  /** Logins of readers that this server lacks. */
  readonly missingReaders: string[];
}

/** `prepare` makes the tables. It is called once the file is known to be a backup. */
export async function restore(
  url: string,
  file: string,
  prepare: () => Promise<unknown>,
  { show, signal }: { show: ShowRows; signal: AbortSignal },
): Promise<Restored> {
  const input = createReadStream(file);
  const bytes = createGunzip({ chunkSize: chunkBytes, rejectGarbageAfterEnd: true });
  pipeline(input, bytes, () => {}); // The reader below gets the error.
  try {
    const backup = readBackup(bytes);
    const header = await backup.header();
    await using session = await openCopying(url, 'shelfdesk: restores');
    const { client } = session;
    // `prepare` upgrades tables: not those of a warehouse in use.
    const { rows: accounts } = await client.query("select to_regclass('sync.accounts') is not null as there");
    if (accounts[0].there) await refuseFull(client, ['sync.accounts']);
    await prepare();
    refuseOther(header, await madeFor(client));
    await client.query('begin');
    const tables = await copiedTables(client);
    refuseUnknown(header, tables);
    const names = tables.map(({ name }) => name).join(', ');
    await client.query(`lock table ${names} in access exclusive mode`);
    await refuseFull(
      client,
      tables.map(({ name }) => name),
    );
    for (const { name } of tables) await client.query(`alter table ${name} disable trigger user`);
    await client.query(`truncate ${names}`);
    const rows = new Map<string, number>();
    for (const { name, columns } of header.tables) {
      show(name, 0);
      const chunks = counted(backup.rows(), so => show(name, so), signal);
      const copied = await copyIn(client, `copy ${name} (${columns.join(', ')}) from stdin`, chunks);
      rows.set(name, copied);
    }
    await backup.check(rows);
    for (const { name, value } of header.sequences) await client.query(sql`select setval(${name}, ${value})`);
    for (const { name } of tables) await client.query(`alter table ${name} enable trigger user`);
    const { rows: readers } = await client.query<{ name: string }>(
      `select role_name as name from sync.readers r
       where not exists (select from pg_roles p where p.rolname = r.role_name) order by 1`,
    );
    signal.throwIfAborted();
    await client.query('commit');
    return {
      madeAt: header.madeAt,
      tables: rows.size,
      rows: [...rows.values()].reduce((sum, n) => sum + n, 0),
      search: header.search,
      missingReaders: readers.map(({ name }) => name),
    };
  } catch (error) {
    signal.throwIfAborted();
    throw explain(error, file);
  } finally {
    input.destroy();
    bytes.destroy();
  }
}

/** Each row is one line. */
async function* counted(
  chunks: AsyncIterable<Buffer>,
  show: (rows: number) => void,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  let rows = 0;
  for await (const chunk of chunks) {
    signal.throwIfAborted();
    for (let at = chunk.indexOf('\n'); at >= 0; at = chunk.indexOf('\n', at + 1)) rows++;
    show(rows);
    yield chunk;
  }
}

type Made = Pick<BackupHeader, 'migrations' | 'sourceFiles'>;

/** The tables of the backup and of this program must be the same. */
function refuseOther(backup: BackupHeader, here: Made): void {
  const key = ({ name, checksum, source = '' }: { name: string; checksum: string; source?: string }): string =>
    `${source}/${name} ${checksum}`;
  const only = (these: Made, those: Made): string[] => {
    const others = new Set([...those.migrations, ...those.sourceFiles].map(key));
    return [...these.migrations, ...these.sourceFiles].filter(one => !others.has(key(one))).map(({ name }) => name);
  };
  const unknown = only(backup, here);
  const missing = only(here, backup);
  if (unknown.length === 0 && missing.length === 0) return;
  const what =
    unknown.length > 0 ? `this program does not have its ${unknown.join(', ')}` : `it lacks ${missing.join(', ')}`;
  throw new ShelfdeskError(
    `the backup was made by another Shelfdesk (${backup.shelfdesk}): ${what}`,
    `Nothing has been restored. Restore it with Shelfdesk ${backup.shelfdesk} into an empty database, then upgrade and run \`npx shelfdesk migrate\`.`,
  );
}

/** Refuses tables and columns that do not exist here. So no text of the file becomes SQL. */
function refuseUnknown(backup: BackupHeader, here: readonly CopiedTable[]): void {
  const key = ({ name, columns }: CopiedTable): string => `${name} ${columns.toSorted()}`;
  const there = new Set(here.map(key));
  const unknown = backup.tables.filter(one => !there.has(key(one))).map(({ name }) => name);
  if (unknown.length === 0) return;
  throw new ShelfdeskError(
    `the backup has tables that this database lacks: ${unknown.join(', ')}`,
    'They are of somebody else, in a schema of Shelfdesk. Create them in this database, then restore again.',
  );
}

async function refuseFull(client: pg.Client, names: string[]): Promise<void> {
  const full: string[] = [];
  for (const name of names.filter(one => !ofProgram.includes(one))) {
    const { rows } = await client.query(`select exists (select from ${name}) as there`);
    if (rows[0].there) full.push(name);
  }
  if (full.length === 0) return;
  const some = full.slice(0, 3).join(', ');
  throw new ShelfdeskError(
    `the database has data of Shelfdesk already, in ${some}${full.length > 3 ? ', …' : ''}`,
    'Nothing has been changed. Restore into a new database: set DATABASE_URL to it, or run in another folder.',
  );
}

function explain(error: unknown, file: string): unknown {
  if (error instanceof ShelfdeskError || isAway(error)) return error;
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (syscall !== undefined)
    return new ShelfdeskError(`the backup ${file} cannot be read: ${code}`, 'Check the name of the file.', {
      exitCode: exitCodes.usage,
      cause: error,
    });
  return new ShelfdeskError(
    `the backup could not be restored: ${messageOf(error)}`,
    'Nothing has been restored. Run the command as the role that owns the tables.',
    { cause: error },
  );
}
