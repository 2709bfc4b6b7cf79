/**
 * Planted mistakes: a copy of the product in which texts are replaced by others, and a link to all that it imports. The
 * product knows nothing of them. A text that is no longer there fails, so no mistake gets lost.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { amount } from '../../../test/support/long.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

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
  using stack = new DisposableStack();
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-planted-'));
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(join(root, 'src'), join(folder, 'src'), { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  for (const { file, from, to } of mistakes) {
    // The copy may hold another mistake already.
    const copy = join(folder, file);
    const text = readFileSync(copy, 'utf8');
    if (text.split(from).length !== 2) throw new Error(`${file} has not exactly one "${from}"`);
    writeFileSync(
      copy,
      text.replace(from, () => to),
    );
  }
  const load = (path: string) => import(/* @vite-ignore */ pathToFileURL(join(folder, path)).href);
  const module = await load(path);
  const kept = stack.move();
  return { module, load, [Symbol.dispose]: () => kept.dispose() };
}

/** Of planted mistakes: where CI is set every third one, the others at night. */
export const someOf = <T>(planted: readonly T[]): T[] => planted.filter((_, n) => n % amount(1, 3) === 0);

/** A copy has error classes of its own, so an error is known by its name. */
export const isNamed = (error: unknown, name: string): boolean => error instanceof Error && error.name === name;
