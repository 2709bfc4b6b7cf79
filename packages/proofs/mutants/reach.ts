/**
 * Which places of the sources a test file reaches: it runs once alone, and V8 counts. What was counted is kept in coverage/mutants,
 * and holds while every file that it has seen has the same text.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Copy } from './copy.ts';

export interface Reach {
  readonly seconds: number;
  /** Of each file that was loaded: the checksum of its text, and from where to where it ran. */
  readonly files: Readonly<Record<string, { readonly checksum: string; readonly ran: readonly Span[] }>>;
}

export type Span = readonly [from: number, to: number];

/** How many seconds a test file may take that is not known. */
const longest = 1800;

const checksum = (text: string) => createHash('sha256').update(text).digest('base64url');

export function reaches(reach: Reach, file: string, [from, to]: Span): boolean {
  return reach.files[file]?.ran.some(([begin, end]) => begin < to && from < end) ?? false;
}

/** What is kept of this test file, if that still holds. */
export function keptReach(project: string, test: string): Reach | undefined {
  const path = keptAt(project, test);
  if (!existsSync(path)) return undefined;
  const reach: Reach = JSON.parse(readFileSync(path, 'utf8'));
  const isSame = ([file, { checksum: before }]: [string, { checksum: string }]) =>
    existsSync(join(project, file)) && checksum(readFileSync(join(project, file), 'utf8')) === before;
  return Object.entries(reach.files).every(isSame) ? reach : undefined;
}

const keptAt = (project: string, test: string) =>
  join(project, 'coverage/mutants', `${test.replaceAll('/', '.')}.json`);

/** Runs the test file on the unchanged copy. If it fails there, nothing that it fails later says anything. */
export async function findReach(project: string, copy: Copy, test: string): Promise<Reach> {
  const folder = mkdtempSync(join(copy.root, 'counted-'));
  try {
    const [{ failed, seconds } = { failed: ['it did not run'], seconds: 0 }, ...more] = await copy.run(
      { tests: [test], coverage: folder },
      () => longest,
    );
    const wrong = [...failed, ...more.flatMap(ran => ran.failed)];
    if (wrong.length > 0) throw new Error(`${test} fails where nothing is changed: ${wrong.join('; ')}`);
    const reach = { seconds, files: counted(copy.root, folder) };
    if (!reach.files[test]) throw new Error(`V8 has counted nothing in ${test}`);
    mkdirSync(join(project, 'coverage/mutants'), { recursive: true });
    writeFileSync(keptAt(project, test), JSON.stringify(reach));
    return reach;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Counted {
  readonly url: string;
  readonly functions: readonly {
    readonly ranges: readonly { readonly startOffset: number; readonly endOffset: number; readonly count: number }[];
  }[];
}

/** What any of the processes has run. */
function counted(root: string, folder: string): Reach['files'] {
  const base = `${pathToFileURL(root)}/`;
  const files = new Map<string, { text: string; ran: Uint8Array }>();
  for (const name of readdirSync(folder)) {
    const { result }: { result: Counted[] } = JSON.parse(readFileSync(join(folder, name), 'utf8'));
    for (const { url, functions } of result) {
      if (!url.startsWith(base)) continue;
      // Vitest puts a number behind some addresses.
      const file = relative(root, fileURLToPath(url.replace(/\?.*/, '')));
      let known = files.get(file);
      if (!known) {
        const text = readFileSync(join(root, file), 'utf8');
        known = { text, ran: new Uint8Array(text.length) };
        files.set(file, known);
      }
      // Outer ranges come before those within them.
      const here = new Uint8Array(known.text.length);
      for (const { ranges } of functions)
        for (const { startOffset, endOffset, count } of ranges) here.fill(Math.min(count, 1), startOffset, endOffset);
      for (const [place, ran] of here.entries()) known.ran[place]! |= ran;
    }
  }
  return Object.fromEntries(
    [...files].map(([file, { text, ran }]) => [file, { checksum: checksum(text), ran: spansOf(ran) }]),
  );
}

function spansOf(ran: Uint8Array): Span[] {
  const spans: Span[] = [];
  for (let from = ran.indexOf(1); from >= 0; ) {
    const end = ran.indexOf(0, from);
    const to = end < 0 ? ran.length : end;
    spans.push([from, to]);
    from = ran.indexOf(1, to);
  }
  return spans;
}
