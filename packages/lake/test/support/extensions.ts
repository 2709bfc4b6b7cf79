/** The extensions of DuckDB, from PyPI, into a folder of the user's cache, once. */
import { execFile } from 'node:child_process';
import { copyFile, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { version } from '@duckdb/node-api';
import { cached } from '../../../../test/support/cached.ts';

const run = promisify(execFile);
const extensions = ['ducklake', 'postgres_scanner', 'httpfs'];

/** Finds the extensions that fit the installed DuckDB, and sets LAKE_EXTENSIONS to their folder. False if there are none. */
export async function findExtensions(): Promise<boolean> {
  const duckdb = version().slice(1);
  if (process.env.LAKE_EXTENSIONS) return true;
  const found = await cached(`duckdb-${duckdb}`, async folder => {
    const venv = join(folder, 'venv');
    await install(venv, ['--no-deps', ...extensions.map(name => `duckdb-extension-${name}==${duckdb}`)]);
    const files = await readdir(venv, { recursive: true });
    for (const name of extensions) {
      const file = `${name}.duckdb_extension`;
      await copyFile(join(venv, files.find(path => path.endsWith(file))!), join(folder, file));
    }
    await rm(venv, { recursive: true });
  });
  if (found) process.env.LAKE_EXTENSIONS = found;
  return found !== undefined;
}

/** A Python environment with these packages. */
export async function install(venv: string, packages: readonly string[]): Promise<void> {
  await run('python3', ['-m', 'venv', venv]);
  const quiet = ['--quiet', '--disable-pip-version-check', '--no-input', '--retries', '1', '--only-binary', ':all:'];
  await run(join(venv, 'bin/python'), ['-m', 'pip', 'install', ...quiet, ...packages]);
}
