/** No column that analysts use goes, or changes its type, without a new version that says so in CHANGELOG.md. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { readCatalog } from '../../src/analytics/catalog.ts';
import { freshDatabase } from '../support/postgres.ts';
import { broken, columnsIn, parsed, written } from '../support/public-columns.ts';

const file = fileURLToPath(new URL('../unit/public-columns.txt', import.meta.url));
const changelog = readFileSync(new URL('../../CHANGELOG.md', import.meta.url), 'utf8');

test('public columns stay, or CHANGELOG.md names them; `npm run columns:keep` adds new ones', async () => {
  await using db = await freshDatabase();
  const now = columnsIn(await readCatalog(db.pool));
  expect(now.size).toBeGreaterThan(300);
  const kept = existsSync(file) ? readFileSync(file, 'utf8') : '';
  expect(broken(parsed(kept), now, changelog), 'name each in CHANGELOG.md, under a new major version').toEqual([]);
  if (process.env.KEEP_COLUMNS) writeFileSync(file, written(now));
  else expect(kept).toBe(written(now));
});

test('a column that goes, or changes its type, is found, unless a major version names it', () => {
  const kept = new Map([
    ['helpdesk.tickets.subject', 'text'],
    ['helpdesk.tickets.number', 'bigint'],
    ['helpdesk.tickets.id', 'text'],
  ]);
  const now = new Map([
    ['helpdesk.tickets.number', 'text'],
    ['helpdesk.tickets.id', 'text'],
    ['helpdesk.tickets.more', 'text'],
  ]);
  expect(broken(kept, now, '# Changelog\n')).toEqual([
    'helpdesk.tickets.subject text → gone',
    'helpdesk.tickets.number bigint → text',
  ]);
  const named = '- gone: `helpdesk.tickets.subject`, `helpdesk.tickets.number`\n';
  expect(broken(kept, now, `## 1.2.3\n\n${named}`)).toHaveLength(2);
  expect(broken(kept, now, `## 2.0.0\n\n${named}`)).toEqual([]);
});
