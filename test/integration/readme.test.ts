/** What the README shows of the demo is what the demo answers: the query that fails, the one that passes, and the tables. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { shelfdesk } from '../support/cli.ts';
import { removeServer } from '../support/global.ts';
import { long } from '../support/long.ts';

/** Times are those of the day, and so is a median of minutes. */
const masked = (text: string): string =>
  text
    .replaceAll(/\d{4}-\d\d-\d\d[ T][\d:.]+(\+00|Z)/g, 'TIME')
    .replaceAll(/\b\d+\.\d\b/g, 'N')
    .trimEnd();

test('the answers of the README are those of the demo', long, async () => {
  const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8');
  const asked = [
    ...[...readme.matchAll(/^\$ npx shelfdesk sql "(.+)"\n([\s\S]*?)^```$/gm)],
    ...[...readme.matchAll(/^```sql\n([\s\S]*?)^```\n\n```text\n([\s\S]*?)^```$/gm)],
  ].map(([, query, answer]) => [query!, answer!] as const);
  expect(asked).toHaveLength(3);

  const parent = await mkdtemp(join(tmpdir(), `shelfdesk-tests-${process.pid}-`));
  onTestFinished(async () => {
    for (const name of ['postgres', 'demo']) await removeServer(join(parent, '.shelfdesk', name)).catch(() => {});
    await rm(parent, { recursive: true });
  });
  expect((await shelfdesk(['demo'], {}, parent).finished).code).toBe(0);
  for (const [query, answer] of asked) {
    const { stdout, stderr } = await shelfdesk(['sql', query], {}, parent).finished;
    const [error = ''] = /^error: [\s\S]*/m.exec(stderr) ?? [];
    expect(masked(stdout + error), query).toBe(masked(answer));
  }
});
