/** PostgreSQL's client programs, as new as the server of the tests: those of this machine, or those of the image that docker-compose.yml names. */
import { execFileSync } from 'node:child_process';
import { inject } from 'vitest';
import { readCompose } from './compose.ts';

declare module 'vitest' {
  interface TaskMeta {
    /** Not run, because it needs pg_dump as new as the server, or newer. */
    lacksPgTools?: boolean;
  }
}

/** pg_dump refuses servers that are newer than itself. Tests run on PostgreSQL 18. */
export function pgToolsAreThere(): boolean {
  try {
    const version = /(\d+)/.exec(execFileSync('pg_dump', ['--version'], { encoding: 'utf8' }))?.[1];
    return Number(version) >= 18;
  } catch {
    return false;
  }
}

/** Program and first arguments, for a run in that folder; undefined if this machine has neither. */
export function pgTool(name: 'pg_dump' | 'pg_restore' | 'psql', folder: string): string[] | undefined {
  if (pgToolsAreThere()) return [name];
  if (!inject('docker')) return undefined;
  const place = ['--volume', `${folder}:${folder}`, '--workdir', folder];
  const { image } = readCompose().services.postgres;
  const warehouse = ['PGHOST', 'PGPORT', 'PGUSER', 'PGPASSWORD', 'PGDATABASE'].flatMap(one => ['--env', one]);
  return ['docker', 'run', '--rm', '--interactive', '--network', 'host', ...warehouse, ...place, image, name];
}
