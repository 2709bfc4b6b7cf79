/**
 * Checksums of migrations, stored when they are applied. An edited migration would leave databases that differ under
 * one name, so it is refused.
 */

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ShelfdeskError } from '../../errors.ts';
import type { Queryable } from './pool.ts';

/** SHA-256 of the text, in hexadecimal. Line ends do not count: Git may change them. */
export const checksumOf = (text: string): string =>
  createHash('sha256').update(text.replaceAll('\r\n', '\n')).digest('hex');

const ofFile = async (folder: string, name: string): Promise<string> =>
  checksumOf(await readFile(join(folder, `${name}.sql`), 'utf8'));

/** Throws if a migration of this folder was applied with another text. */
export async function refuseIfEdited(db: Queryable, folder: string): Promise<void> {
  const applied = (await isKept(db))
    ? (
        await db.query<{ name: string; checksum: string }>(
          'select name, checksum from sync.migrations where checksum is not null order by id',
        )
      ).rows
    : [];
  const edited: string[] = [];
  for (const { name, checksum } of applied) if ((await ofFile(folder, name)) !== checksum) edited.push(name);
  if (edited.length === 0) return;
  throw new ShelfdeskError(
    `edited after it was applied to this database: migration ${edited.join(', ')}`,
    'Put the file back as it was released, and make what is to change a migration of its own. Nothing has been changed.',
  );
}

/** Stores missing checksums. A role that does not own the table stores nothing. */
export async function keepChecksums(db: Queryable, folder: string): Promise<void> {
  const { rows: owners } = await db.query<{ ours: boolean }>(
    `select pg_has_role(relowner, 'usage') as ours from pg_class where oid = 'sync.migrations'::regclass`,
  );
  if (!owners[0]!.ours) return;
  if (!(await isKept(db)))
    await db.query(
      `alter table sync.migrations add column checksum text;
       comment on column sync.migrations.checksum is
         'SHA-256 of the text of the file when it was applied, in hexadecimal.'`,
    );
  const { rows } = await db.query<{ name: string }>(
    'select name from sync.migrations where checksum is null order by id',
  );
  for (const { name } of rows)
    await db.query('update sync.migrations set checksum = $2 where name = $1', [name, await ofFile(folder, name)]);
}

async function isKept(db: Queryable): Promise<boolean> {
  const { rowCount } = await db.query(
    `select from pg_attribute
     where attrelid = to_regclass('sync.migrations') and attname = 'checksum' and not attisdropped`,
  );
  return rowCount !== 0;
}
