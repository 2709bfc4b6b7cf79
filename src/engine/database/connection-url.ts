/** A connection URL for a reader: the URL of the owner, with another name and password. */
import pg from 'pg';
import { exitCodes, ShelfdeskError } from '../../errors.ts';

/** Parameters that name the owner, or give its rights. A reader's URL leaves them out. */
const personal = [
  'user',
  'password',
  'passfile',
  'service',
  'role',
  'sslcert',
  'sslkey',
  'sslpassword',
  'application_name',
];

/** The URL of this command, with another name and password. */
export function lineFor(owners: string, name: string, password: string): string {
  const url = new URL(owners);
  for (const key of personal) url.searchParams.delete(key);
  // Some servers take the name of the database from it (endpoint=…). Session settings begin with a hyphen.
  if (/(^|\s)-/.test(url.searchParams.get('options') ?? '')) url.searchParams.delete('options');
  [url.username, url.password] = [name, password];
  // A socket URL holds name and password only in these parameters.
  if (url.username !== name || url.password !== password) {
    url.searchParams.set('user', name);
    url.searchParams.set('password', password);
  }
  const told = new pg.Client({ connectionString: url.href });
  if (told.user === name && told.password === password) return url.href;
  throw new ShelfdeskError(
    'from DATABASE_URL no line can be made that connects as somebody else',
    'Write it as `postgres://user:password@host:port/database`, and run the same again. Nothing has been changed.',
    exitCodes.failed,
  );
}

/** Parameters of a URL by the variables of PostgreSQL's own programs. */
const variables: Readonly<Record<string, string>> = {
  sslmode: 'PGSSLMODE',
  sslrootcert: 'PGSSLROOTCERT',
  sslcert: 'PGSSLCERT',
  sslkey: 'PGSSLKEY',
  options: 'PGOPTIONS',
};

/** The variables with which psql, pg_dump and the like connect to this URL. So no password is among their arguments. */
export function programEnvironment(url: string): Record<string, string> {
  const { host, port, user, password, database } = new pg.Client({ connectionString: url });
  // The URL of a socket has no host, which `new URL` refuses.
  const searchParams = new URLSearchParams(url.split('?')[1] ?? '');
  return {
    PGHOST: host,
    PGPORT: String(port),
    PGUSER: user ?? '',
    PGDATABASE: database ?? '',
    ...(typeof password === 'string' && { PGPASSWORD: password }),
    ...Object.fromEntries(
      Object.entries(variables).flatMap(([name, variable]) =>
        searchParams.has(name) ? [[variable, searchParams.get(name)!]] : [],
      ),
    ),
  };
}
