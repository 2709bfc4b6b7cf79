/** The line by which somebody else connects to the warehouse: as its owner does, with another name and password. */
import pg from 'pg';
import { exitCodes, ShelfdeskError } from '../../errors.ts';

/** What says who connects, as whom it goes on, or what it is called: of the owner none of it is told. */
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

/** As this command itself connects, with another name and password. */
export function lineFor(owners: string, name: string, password: string): string {
  const url = new URL(owners);
  for (const key of personal) url.searchParams.delete(key);
  // Some servers are told by it which database is meant (endpoint=…); settings of a session begin with a hyphen.
  if (/(^|\s)-/.test(url.searchParams.get('options') ?? '')) url.searchParams.delete('options');
  [url.username, url.password] = [name, password];
  // Of a server that is reached by a socket the line has no place for them but here.
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
