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
  const place = join(process.cwd(), '.env');
  const set = process.env.SHELFDESK_SOURCES;
  const named = set || written(place);
  return named ? { folder: resolve(named), place: set ? 'the environment' : place } : undefined;
}

/** Who reads the settings says what is wrong with the file. */
function written(place: string): string | undefined {
  try {
    return readEnvFile(place, () => false).SHELFDESK_SOURCES;
  } catch (error) {
    if (error instanceof UsageError) return undefined;
    throw error;
  }
}
