/** Keeps words that only this project used out of code, comments, SQL, messages and docs: the field has a word for each. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** Private word → the field's word. */
const words: readonly (readonly [RegExp, string])[] = [
  [/\bcrowd(s|ed)?\b/i, 'tie'],
  [/\bsuspect(s|ed)?\b/i, 'deletion candidate'],
  [/\bholes?\b/i, 'gap'],
  [/\bset aside\b/i, 'rejected'],
  [/\blook(s|ed|ing)? again\b/i, 're-read, check again'],
  [/\bwhat nothing announces\b/i, 'silent change'],
  [/\bfound to have it no more\b/i, 'deleted at the source'],
  [/\bdeeds?\b/i, 'action'],
  [/\bfore(see|seen|sees|tell|tells|told)\b/i, 'forecast'],
  [/\bcertainty\b/i, 'audit confidence'],
  [/\bat work\b/i, 'running'],
  [/\b(goes|go|went|going) on\b/i, 'continues, resumes'],
  [/\bbeside (it|them)\b/i, 'concurrently, besides'],
  [/\bslips? of the pen\b/i, 'typo'],
  [/\bhangs? in the air\b/i, 'orphaned'],
  [/\btend(s|ing)?\b/i, 'reconcile'],
  [/\bwhoever\b/i, 'a noun'],
];

const isRead = (path: string) => /\.(ts|js|sql|md|css)$/.test(path) && !/\/texts\//.test(path);

test('no private word is left where the field has one', () => {
  const paths = ['src', 'jobs', 'schema', 'docs', 'packages/sandbox/src']
    .flatMap(folder =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map(path => join(folder, path)),
    )
    .concat(
      'README.md',
      'CONTRIBUTING.md',
      'SECURITY.md',
      'CHANGELOG.md',
      'AGENTS.md',
      'packages/sandbox/README.md',
      'packages/proofs/README.md',
      'packages/moving-source/README.md',
    );
  const found = paths.filter(isRead).flatMap(path =>
    readFileSync(`${root}${path}`, 'utf8')
      .split('\n')
      .flatMap((line, n) =>
        words.flatMap(([word, plain]) =>
          word.test(line) ? `${path}:${n + 1}: ${word.exec(line)![0]} → ${plain}` : [],
        ),
      ),
  );
  expect(found).toEqual([]);
});
