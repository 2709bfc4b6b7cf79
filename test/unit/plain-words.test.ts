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

/** Public names that keep the word: keys of --json, names of metrics, a route with its form field, a parameter of a list. */
const kept: readonly (readonly [file: RegExp, text: RegExp])[] = [
  [
    /^src\/(cli\/look\/(status|why)|status\/streams|agents\/masked|ops\/page\/(overview|render\/account)|ops\/metrics\/metrics|sources\/helpdesk\/ticket-life)\.ts$/,
    /holes|suspects|suspected|[cC]ertainty/,
  ],
  [/^src\/ops\/page\//, /\/deeds`|\/deeds'|'deed'|"deeds?"|'deeds'/],
];

/** Decisions and results keep the words of their time; take-over.ts names tables of old databases. */
const isRead = (path: string) =>
  /\.(ts|js|sql|md|css)$/.test(path) && !/^docs\/DECISIONS\.md$|take-over\.ts$|\/texts\//.test(path);

test('no private word is left where the field has one', () => {
  const paths = ['src', 'jobs', 'schema', 'docs', 'packages/sandbox/src']
    .flatMap(folder =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map(path => join(folder, path)),
    )
    .concat('README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md', 'AGENTS.md', 'packages/sandbox/README.md');
  const found = paths.filter(isRead).flatMap(path =>
    readFileSync(`${root}${path}`, 'utf8')
      .split('\n')
      .flatMap((line, n) => {
        const text = kept.reduce(
          (left, [file, name]) => (file.test(path) ? left.replaceAll(new RegExp(name, 'g'), '') : left),
          line,
        );
        return words.flatMap(([word, plain]) =>
          word.test(text) ? `${path}:${n + 1}: ${word.exec(text)![0]} → ${plain}` : [],
        );
      }),
  );
  expect(found).toEqual([]);
});
