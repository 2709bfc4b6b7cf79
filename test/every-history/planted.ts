/**
 * Planted mistakes: a copy of files of the product with one text replaced by another, beside links to all that it
 * imports. The product knows nothing of them. A text that is no longer there fails, so no mistake gets lost.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));

export interface Replacement {
  /** From the project's root: `src/engine/budget/ledger.ts`. */
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

export interface Mistaken<T> extends Disposable {
  readonly module: T;
  /** Another module of the same copy. */
  load<M>(path: string): Promise<M>;
}

/** The module at this path, with the mistake in it or in what it imports. */
export async function withMistake<T>(path: string, mistakes: readonly Replacement[]): Promise<Mistaken<T>> {
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-planted-'));
  cpSync(join(root, 'src'), join(folder, 'src'), { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  for (const { file, from, to } of mistakes) {
    const text = readFileSync(join(root, file), 'utf8');
    if (text.split(from).length !== 2) throw new Error(`${file} has not exactly one "${from}"`);
    writeFileSync(
      join(folder, file),
      text.replace(from, () => to),
    );
  }
  const load = (path: string) => import(/* @vite-ignore */ pathToFileURL(join(folder, path)).href);
  return { module: await load(path), load, [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) };
}
