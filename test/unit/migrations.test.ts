/**
 * No migration that has landed changes: databases have applied it as it was, and a program with another text refuses them
 * (src/engine/database/checksums.ts). Each migration and its checksum stand in migrations.txt. A new one is added to it by
 * `npm run migrations:keep`, which changes no line that is there.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { checksumOf } from '../../src/engine/database/checksums.ts';
import { readKept } from '../support/keep-migrations.ts';

const folder = fileURLToPath(new URL('../../migrations/', import.meta.url));
const kept = readKept();

test('every migration that has landed is there, and is what it was', () => {
  const changed = [...kept].filter(
    ([name, checksum]) => checksumOf(readFileSync(join(folder, `${name}.sql`), 'utf8')) !== checksum,
  );
  expect(changed.map(([name]) => name)).toEqual([]);
  expect(kept.size).toBeGreaterThan(0);
});

test('every migration is in the list: `npm run migrations:keep` adds it', () => {
  const names = readdirSync(folder)
    .filter(file => file.endsWith('.sql'))
    .map(file => file.replace(/\.sql$/, ''));
  expect(names.filter(name => !kept.has(name))).toEqual([]);
});
