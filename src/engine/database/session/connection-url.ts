/**
 * Reads DATABASE_URL and REDIS_URL, and writes the line of a reader. Pure. A refusal says which part is wrong and how to write it,
 * and shows nothing that may be part of a password.
 */
import { ShelfdeskError } from '../../../errors.ts';
import type { DatabaseAddress, Read, RedisAddress, Tls, TlsMode } from './connection-types.ts';

/** Thrown within this file alone. */
class Wrong extends Error {}

interface Parts {
  readonly scheme: string;
  readonly user: string | undefined;
  readonly password: string | undefined;
  /** `host`, `host:port` or several, as they stand. */
  readonly at: string;
  /** Without its first slash. */
  readonly path: string;
  readonly parameters: ReadonlyMap<string, string>;
}

export const readDatabaseUrl = (text: string): Read<DatabaseAddress> => refusing(() => databaseAddress(text));
export const readRedisUrl = (text: string): Read<RedisAddress> => refusing(() => redisAddress(text));

/** Like `readDatabaseUrl`, for a URL that was validated before. */
export function addressOf(url: string): DatabaseAddress {
  const read = readDatabaseUrl(url);
  if ('wrong' in read) throw new ShelfdeskError(`the address of the database ${read.wrong}`, 'Check DATABASE_URL.');
  return read.address;
}

function refusing<T>(read: () => T): Read<T> {
  try {
    return { address: read() };
  } catch (error) {
    if (error instanceof Wrong) return { wrong: error.message };
    throw error;
  }
}

/** The URL in its parts, each decoded. */
function split(text: string, schemes: readonly string[], example: string, known: readonly string[]): Parts {
  const must = `must be a URL that begins with ${schemes[0]}://`;
  if (/^["'`]/.test(text)) throw new Wrong(`stands in quotation marks: it ${must}`);
  if (/^jdbc:/i.test(text)) throw new Wrong(`${must}: write ${example}, without jdbc:`);
  const [, scheme, rest] = /^([a-z][a-z0-9+.-]*):\/\/(.*)$/is.exec(text) ?? [];
  if (scheme === undefined || rest === undefined)
    throw new Wrong(/^\w+\s*=/.test(text) ? `${must}, no list of words: write ${example}` : must);
  if (!schemes.includes(scheme.toLowerCase())) throw new Wrong(`${must}: write ${example}`);
  if (/[\r\n\t]/.test(rest)) throw new Wrong('has a line break or a tab in it: take it out');
  const end = rest.search(/[/?#]|$/);
  const [authority, after] = [rest.slice(0, end), rest.slice(end)];
  const isQuery =
    /^(\/[^@?#]*)?\?[\w.-]+=[^#]*$/.test(after) &&
    [...after.matchAll(/[?&]([^=&]*)/g)].every(([, name]) => known.includes(name!));
  if (!authority.includes('@') && after.includes('@') && !isQuery)
    throw new Wrong(`has a ${after[0]} in its user name or password: write it as ${encoded(after[0]!)}`);
  if (after.includes('#')) throw new Wrong(`has a # in it: write it as ${encoded('#')}`);
  const [, login, at = authority] = /^(.*)@([^@]*)$/s.exec(authority) ?? [];
  const [, path = '', query = ''] = /^\/?([^?]*)\??(.*)$/s.exec(after)!;
  const [, user, password] = /^([^:]*):?(.*)$/s.exec(login ?? '')!;
  return {
    scheme: scheme.toLowerCase(),
    user: decoded(user!, 'user name') || undefined,
    password: decoded(password!, 'password') || undefined,
    at,
    path: decoded(path, 'path'),
    parameters: parametersOf(query),
  };
}

const encoded = (character: string): string =>
  `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;

function decoded(text: string, part: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    const article = /^parameter/.test(part) ? '' : 'its ';
    throw new Wrong(`has a % in ${article}${part} that begins no code: write it as %25`);
  }
}

function parametersOf(query: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const one of query.split('&').filter(Boolean)) {
    const [, key, value] = /^([^=]*)=?(.*)$/s.exec(one)!;
    const name = decoded(key!, 'parameters');
    if (!/^[\w.-]+$/.test(name))
      throw new Wrong('has a ? or & that begins no parameter: in a name or a password write ? as %3F and & as %26');
    found.set(name, decoded(value!, `parameter ${name}`));
  }
  return found;
}

function refuseUnknown(parameters: ReadonlyMap<string, string>, known: readonly string[]): void {
  const unknown = [...parameters.keys()].filter(name => !known.includes(name));
  if (unknown.length === 0) return;
  const [what, them] =
    unknown.length === 1 ? [`parameter ${unknown[0]}`, 'it'] : [`parameters ${unknown.join(', ')}`, 'them'];
  throw new Wrong(`has the ${what}, which Shelfdesk does not know: take ${them} out`);
}

function hostAndPort(at: string): { host: string; port: number | undefined } {
  const [, bracketed, bare, port] = /^(?:\[([^\]]*)\]|([^:]*))(?::(.*))?$/s.exec(at) ?? [];
  const host = decoded(bracketed ?? bare ?? '', 'host');
  if (bracketed === undefined && (port ?? '').includes(':'))
    throw new Wrong('has more than one : after the host: write an address of IPv6 in brackets, [::1]:5432');
  return { host, port: portOf(port) };
}

function portOf(text: string | undefined): number | undefined {
  if (text === undefined || text === '') return undefined;
  if (/^\d+$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535) return Number(text);
  throw new Wrong(
    'has a port that is no number from 1 to 65535: after the host write :port, and before it user:password@',
  );
}

const tlsNames = ['sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'sslpassword'];
const modes: Readonly<Record<string, TlsMode>> = {
  disable: 'disable',
  allow: 'prefer',
  prefer: 'prefer',
  require: 'require',
  'no-verify': 'require',
  'verify-ca': 'verify-ca',
  'verify-full': 'verify-full',
};
/** Values of the parameter `ssl` of node-postgres and JDBC. */
const shortModes: Readonly<Record<string, TlsMode>> = {
  true: 'require',
  1: 'require',
  'no-verify': 'require',
  false: 'disable',
  0: 'disable',
};

function tlsOf(parameters: ReadonlyMap<string, string>): Tls {
  const of = (name: string) => parameters.get(name) || undefined;
  const [word, short] = [of('sslmode'), of('ssl')];
  if (word !== undefined && !Object.hasOwn(modes, word))
    throw new Wrong(
      'has an sslmode that does not exist: write sslmode=require (encrypted, not checked), verify-ca, verify-full, prefer or disable',
    );
  if (short !== undefined && !Object.hasOwn(shortModes, short))
    throw new Wrong(
      'has the parameter ssl with a value that Shelfdesk does not know: write sslmode=require in its place',
    );
  const [root, cert, key] = [of('sslrootcert'), of('sslcert'), of('sslkey')];
  const said = word !== undefined ? modes[word] : short !== undefined ? shortModes[short] : undefined;
  const mode = said ?? (root === 'system' ? 'verify-full' : undefined);
  if (root === 'system' && mode !== 'verify-full')
    throw new Wrong('has sslrootcert=system, which needs sslmode=verify-full');
  if (mode === 'verify-ca' && root === undefined)
    throw new Wrong(
      'has sslmode=verify-ca and no sslrootcert: name the file of the certificate authority, sslrootcert=/path/ca.pem',
    );
  if (mode === undefined && (root !== undefined || cert !== undefined))
    throw new Wrong(
      `has ${root === undefined ? 'sslcert' : 'sslrootcert'} and no sslmode: write sslmode=verify-full as well`,
    );
  if ((cert === undefined) !== (key === undefined))
    throw new Wrong('has one of sslcert and sslkey: a certificate of a client needs both');
  return { mode, root, cert, key, keyPassword: of('sslpassword') };
}

/** Parameters without effect here, or set by the session itself. URLs for other clients keep them. */
const withoutEffect = [
  'application_name',
  'fallback_application_name',
  'client_encoding',
  'connect_timeout',
  'gssencmode',
  'keepalives',
  'keepalives_idle',
  'keepalives_interval',
  'keepalives_count',
  'tcp_user_timeout',
  'sslcompression',
  'sslsni',
  'uselibpqcompat',
];
const databaseNames = [
  ...['user', 'password', 'host', 'port', 'dbname', 'options', 'ssl', 'sslnegotiation'],
  ...['channel_binding', 'target_session_attrs'],
  ...tlsNames,
  ...withoutEffect,
];
const databaseExample = 'postgres://user:password@host:5432/database';

function databaseAddress(text: string): DatabaseAddress {
  const { user, password, at, path, parameters } = split(
    text,
    ['postgres', 'postgresql'],
    databaseExample,
    databaseNames,
  );
  const of = (name: string) => parameters.get(name) || undefined;
  refuseUnknown(parameters, databaseNames);
  if ([at, of('host') ?? '', of('port') ?? ''].some(one => one.includes(',')))
    throw new Wrong(
      'names several hosts, which Shelfdesk does not try in turn: name one, the primary or a name that follows it (the writer address of a managed service, HAProxy)',
    );
  const named = hostAndPort(at);
  const host = of('host') ?? (named.host || undefined);
  if (/\/\.s\.PGSQL\.\d+$/.test(host ?? ''))
    throw new Wrong('names a socket: name the folder that it is in, host=/run/postgresql, and its number as port');
  if (host !== undefined && Buffer.byteLength(host) > 90 && host.startsWith('/'))
    throw new Wrong('names a socket whose path is longer than a system allows (107 bytes): make a link to its folder');
  const attrs = of('target_session_attrs') ?? 'any';
  if (!['any', 'read-write', 'primary', 'prefer-standby'].includes(attrs))
    throw new Wrong('asks for a standby (target_session_attrs): Shelfdesk writes, so name the primary');
  const negotiation = of('sslnegotiation') ?? 'postgres';
  if (!['postgres', 'direct'].includes(negotiation))
    throw new Wrong('has an sslnegotiation that does not exist: write postgres or direct, or leave it out');
  const tls = tlsOf(parameters);
  const directTls = negotiation === 'direct';
  if (directTls && (tls.mode === undefined || ['disable', 'prefer'].includes(tls.mode)))
    throw new Wrong('has sslnegotiation=direct, which needs sslmode=require or more');
  return {
    user: of('user') ?? user,
    password: of('password') ?? password,
    host,
    port: portOf(of('port')) ?? named.port,
    database: of('dbname') ?? (path || undefined),
    options: of('options'),
    tls,
    directTls,
    bindsChannel: ['prefer', 'require'].includes(of('channel_binding') ?? ''),
  };
}

const redisExample = 'redis://user:password@host:6379/0';
const redisNames = ['db', 'family', ...tlsNames];

function redisAddress(text: string): RedisAddress {
  const others = /^(redis|rediss|valkey)?[+-]?(sentinel|cluster)s?:\/\//i.exec(text)?.[2]?.toLowerCase();
  if (others !== undefined)
    throw new Wrong(`names a ${others}, which the queue does not speak: name the primary itself, ${redisExample}`);
  const socket = /^(?:redis[+-])?(?:unix|socket):\/\//i;
  if (socket.test(text) || text.startsWith('/')) return socketAddress(text.replace(socket, 'unix://'));
  const isRest = /^https:\/\/[^/]*upstash/i.test(text);
  if (isRest) throw new Wrong('is the REST address: it must be a URL that begins with redis:// or rediss://');
  const parts = split(text, ['redis', 'rediss'], redisExample, redisNames);
  const { user, password, at, path, parameters, scheme } = parts;
  if (parameters.get('ssl_cert_reqs')?.toLowerCase() === 'none')
    throw new Wrong('has ssl_cert_reqs=none: write sslmode=require in its place (encrypted, not checked)');
  refuseUnknown(parameters, redisNames);
  if (at.includes(','))
    throw new Wrong(
      'names several hosts, which the queue does not speak: name a single Redis, no cluster and no Sentinel',
    );
  const { host, port = 6379 } = hostAndPort(at);
  const family = parameters.get('family') ?? '0';
  if (!['0', '4', '6'].includes(family)) throw new Wrong('has a family that does not exist: write 4, 6, or 0 for both');
  const says = tlsOf(parameters);
  if (scheme === 'redis' && tlsNames.some(name => parameters.has(name)) && says.mode !== 'disable')
    throw new Wrong('begins with redis:// and has parameters of TLS: write rediss://');
  if (scheme === 'rediss' && says.mode !== undefined && ['disable', 'prefer'].includes(says.mode))
    throw new Wrong('begins with rediss://, which is encrypted always: write redis://, or leave sslmode out');
  return {
    ...{ user, password, path: undefined, port, host: host || 'localhost' },
    db: dbOf(path || parameters.get('db')),
    family: Number(family) as 0 | 4 | 6,
    tls: scheme === 'rediss' ? { ...says, mode: says.mode ?? 'verify-full' } : undefined,
  };
}

function dbOf(text: string | undefined): number {
  if (text === undefined || text === '') return 0;
  if (/^\d{1,5}$/.test(text)) return Number(text);
  throw new Wrong('ends in a path that is no number: after the host write the number of the database, /0, or nothing');
}

function socketAddress(text: string): RedisAddress {
  const parts = split(text.startsWith('/') ? `unix://${text}` : text, ['unix'], 'unix:///run/redis/redis.sock?db=0', [
    'db',
  ]);
  refuseUnknown(parts.parameters, ['db']);
  if (parts.at !== '' || parts.path === '')
    throw new Wrong('names a socket without its whole path: write unix:///run/redis/redis.sock');
  const { user, password } = parts;
  return {
    ...{ user, password, path: `/${parts.path}`, host: '', port: 0, family: 0, tls: undefined },
    db: dbOf(parts.parameters.get('db')),
  };
}

export function withSslmode(url: string, mode: TlsMode): string {
  const [, before, query] = /^([^?]*)\??(.*)$/s.exec(url)!;
  const kept = query!.split('&').filter(one => one !== '' && !/^ssl(mode)?(=|$)/.test(one));
  return `${before}?${[...kept, `sslmode=${mode}`].join('&')}`;
}

/** Parameters with credentials or rights of the owner. A reader's URL leaves them out. */
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
  // A URL with a login and without a host is one of libpq alone.
  const plain = owners.replace(/^([a-z]+:\/\/)[^/?#]*@(?=\/)/i, '$1');
  if (!URL.canParse(plain)) throw noLine();
  const url = new URL(plain);
  for (const key of personal) url.searchParams.delete(key);
  // Removes `options` if it has session settings, which begin with a hyphen. Some servers need other values there
  // (endpoint=…).
  if (/(^|\s)-/.test(url.searchParams.get('options') ?? '')) url.searchParams.delete('options');
  [url.username, url.password] = [name, password];
  // A socket URL holds name and password only in these parameters.
  if (url.username !== name || url.password !== password) {
    url.searchParams.set('user', name);
    url.searchParams.set('password', password);
    // libpq takes no + for a blank.
    url.search = url.search.replaceAll('+', '%20');
  }
  const told = readDatabaseUrl(url.href);
  if ('address' in told && told.address.user === name && told.address.password === password) return url.href;
  throw noLine();
}

const noLine = () =>
  new ShelfdeskError(
    'from DATABASE_URL no line can be made that connects as somebody else',
    'Write it as `postgres://user:password@host:port/database`, and run the same again. Nothing has been changed.',
  );

/** The variables with which psql, pg_dump and the like connect to this URL. So no password is among their arguments. */
export function programEnvironment(url: string): Record<string, string> {
  const { host, port, user, password, database, options, tls } = addressOf(url);
  const variables = {
    PGHOST: host,
    PGPORT: port?.toString(),
    PGUSER: user,
    PGPASSWORD: password,
    PGDATABASE: database,
    PGOPTIONS: options,
    PGSSLMODE: tls.mode,
    PGSSLROOTCERT: tls.root,
    PGSSLCERT: tls.cert,
    PGSSLKEY: tls.key,
  };
  return Object.fromEntries(Object.entries(variables).filter((one): one is [string, string] => one[1] !== undefined));
}
