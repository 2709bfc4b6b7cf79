/**
 * The environment of this process. No other file reads it. The folder with sources of one's own is looked up here, because the table
 * of the settings is made of the sources.
 */
import { join, resolve } from 'node:path';
import { UsageError } from '../errors.ts';
import { readEnvFile } from './files/env-file.ts';

export type Environment = Record<string, string | undefined>;

export const machine = (): Environment => process.env;

/** The folder that SHELFDESK_SOURCES names, and the place where it is set. */
export function folderOfSources(): { readonly folder: string; readonly place: string } | undefined {
  const set = process.env.SHELFDESK_SOURCES;
  if (set) return { folder: resolve(set), place: 'the environment' };
  try {
    const place = join(process.cwd(), '.env');
    const { SHELFDESK_SOURCES: named } = readEnvFile(place, () => false);
    return named ? { folder: resolve(named), place } : undefined;
  } catch (error) {
    // Who reads the settings says what is wrong with the file, or with the folder.
    if (error instanceof UsageError || (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** `source new` writes into the folder of sources: none has to be there yet, and another one may be unfinished. */
export const writesSource = (): boolean => process.argv[2] === 'source' && process.argv[3] === 'new';
