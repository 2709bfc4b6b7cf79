/** DATABASE_URL and REDIS_URL: what is read from them, and how a wrong one is refused without its password. */
import { describe, expect, test } from 'vitest';
import { remedyOfConnect } from '../../src/engine/database/session/connect-failures.ts';
import { readDatabaseUrl, readRedisUrl, withSslmode } from '../../src/engine/database/session/connection-url.ts';
import { redisRefusal } from '../../src/engine/queue/redis-refusals.ts';

const shown = (read: object) => JSON.parse(JSON.stringify(read));

describe('DATABASE_URL', () => {
  test.for<[url: string, address: object]>([
    ['postgres://u:p@h:5433/db', { user: 'u', password: 'p', host: 'h', port: 5433, database: 'db' }],
    ['POSTGRESQL://h', { host: 'h' }],
    ['postgres:///db', { database: 'db' }],
    ['postgres://u:p@/db?host=/cloudsql/a:b:c', { user: 'u', password: 'p', host: '/cloudsql/a:b:c', database: 'db' }],
    ['postgres://u@%2Frun%2Fpostgresql/db', { user: 'u', host: '/run/postgresql', database: 'db' }],
    ['postgres://u:p%40w%2F%25@h/db', { user: 'u', password: 'p@w/%', host: 'h', database: 'db' }],
    ['postgres://me@corp.example:p@w@h/db', { user: 'me@corp.example', password: 'p@w', host: 'h', database: 'db' }],
    ['postgres:///db?user=me@corp.example&host=/x', { user: 'me@corp.example', host: '/x', database: 'db' }],
    ['postgres://u@[::1]:5433/db', { user: 'u', host: '::1', port: 5433, database: 'db' }],
    ['postgres://h/My%20Data', { host: 'h', database: 'My Data' }],
    [
      'postgres://h/db?user=u&password=p&port=6432&dbname=other',
      { user: 'u', password: 'p', host: 'h', port: 6432, database: 'other' },
    ],
    ['postgres://h/db?options=endpoint%3Dcool', { host: 'h', database: 'db', options: 'endpoint=cool' }],
    [
      'postgres://h/db?sslmode=require&channel_binding=require',
      { host: 'h', database: 'db', tls: { mode: 'require' }, bindsChannel: true },
    ],
    ['postgres://h/db?sslmode=no-verify', { host: 'h', database: 'db', tls: { mode: 'require' } }],
    ['postgres://h/db?ssl=0', { host: 'h', database: 'db', tls: { mode: 'disable' } }],
    ['postgres://h/db?sslrootcert=system', { host: 'h', database: 'db', tls: { mode: 'verify-full', root: 'system' } }],
    [
      'postgres://h/db?application_name=x&connect_timeout=9&target_session_attrs=read-write',
      { host: 'h', database: 'db' },
    ],
  ])('%s', ([url, address]) => {
    expect(shown(readDatabaseUrl(url))).toEqual({
      address: { tls: {}, directTls: false, bindsChannel: false, ...address },
    });
  });

  test.for<[url: string, wrong: string]>([
    ['mysql://u:hush@h/db', 'begins with postgres://: write postgres://user:password@host:5432/database'],
    ['postgresql+psycopg2://u:hush@h/db', 'write postgres://user:password@host'],
    ['jdbc:postgresql://h/db?password=hush', 'without jdbc:'],
    ['host=h password=hush dbname=db', 'no list of words'],
    ['"postgres://u:hush@h/db"', 'in quotation marks'],
    ['postgres://u:hush/hush@h/db', 'has a / in its user name or password: write it as %2F'],
    ['postgres://u:hush#hush@h/db', 'has a # in its user name or password: write it as %23'],
    ['postgres://u:hush?hush@h/db', 'has a ? in its user name or password: write it as %3F'],
    ['postgres://u:hush?hush=hush@h/db', 'has a ? in its user name or password: write it as %3F'],
    ['postgres://u:hush/w?hush=1@h/db', 'has a / in its user name or password: write it as %2F'],
    ['postgres://u:hush%hush@h/db', 'has a % in its password that begins no code: write it as %25'],
    ['postgres://h/db?password=hush%', 'has a % in parameter password that begins no code'],
    ['postgres://u:hush@h/db#x', 'has a # in it'],
    ['postgres://u:hush@h1,h2/db', 'several hosts'],
    ['postgres://u:hush@/db?host=h1,h2', 'several hosts'],
    ['postgres://u:hush@h:70000/db', 'no number from 1 to 65535'],
    ['postgres://u:hush', 'before it user:password@'],
    ['postgres://u:hush@::1/db', 'in brackets'],
    ['postgres://u:hush@h/db?host=/run/.s.PGSQL.5432', 'name the folder'],
    ['postgres://u:hush@h/db?sslmode=strict', 'an sslmode that does not exist'],
    ['postgres://u:hush@h/db?ssl=maybe', 'write sslmode=require'],
    ['postgres://u:hush@h/db?sslmode=verify-ca', 'no sslrootcert'],
    ['postgres://u:hush@h/db?sslrootcert=/ca.pem', 'write sslmode=verify-full as well'],
    ['postgres://u:hush@h/db?sslmode=require&sslrootcert=system', 'needs sslmode=verify-full'],
    ['postgres://u:hush@h/db?sslmode=require&sslcert=/a', 'needs both'],
    ['postgres://u:hush@h/db?sslnegotiation=direct', 'needs sslmode=require'],
    ['postgres://u:hush@h/db?target_session_attrs=standby', 'name the primary'],
    ['postgres://u:hush@h/db?schema=public', 'the parameter schema, which Shelfdesk does not know: take it out'],
    ['postgres://u:hush@h/db?pgbouncer=true&pool=hush2', 'parameters pgbouncer, pool, which'],
  ])('%s is refused', ([url, says]) => {
    const read = readDatabaseUrl(url) as { wrong: string };
    expect(read.wrong).toContain(says);
    expect(read.wrong).not.toContain('hush');
  });

  test('its sslmode is replaced, and nothing else of it', () => {
    const rows: [string, string][] = [
      ['postgres://u:p@h/db', 'postgres://u:p@h/db?sslmode=require'],
      ['postgres://u:p@h/db?sslmode=prefer', 'postgres://u:p@h/db?sslmode=require'],
      ['postgres://h/db?a=1&sslmode=prefer&sslcert=x', 'postgres://h/db?a=1&sslcert=x&sslmode=require'],
    ];
    for (const [url, other] of rows) expect(withSslmode(url, 'require')).toBe(other);
  });
});

describe('REDIS_URL', () => {
  test.for<[url: string, address: object]>([
    ['redis://h', { host: 'h' }],
    ['redis://:p%2F@h:6380/3', { password: 'p/', host: 'h', port: 6380, db: 3 }],
    ['redis://u:p@h?db=2&family=6', { user: 'u', password: 'p', host: 'h', db: 2, family: 6 }],
    ['rediss://h', { host: 'h', tls: { mode: 'verify-full' } }],
    ['rediss://h?sslmode=require', { host: 'h', tls: { mode: 'require' } }],
    ['rediss://h?sslrootcert=/ca.pem&sslmode=verify-ca', { host: 'h', tls: { mode: 'verify-ca', root: '/ca.pem' } }],
    ['unix:///run/redis.sock?db=1', { path: '/run/redis.sock', host: '', port: 0, db: 1 }],
    ['redis+unix:///run/redis.sock', { path: '/run/redis.sock', host: '', port: 0 }],
    ['/run/redis.sock', { path: '/run/redis.sock', host: '', port: 0 }],
  ])('%s', ([url, address]) => {
    expect(shown(readRedisUrl(url))).toEqual({ address: { port: 6379, db: 0, family: 0, ...address } });
  });

  test.for<[url: string, wrong: string]>([
    ['redis://:hush@h/word', 'a path that is no number'],
    ['redis://:hush/hush@h', 'has a / in its user name or password'],
    ['redis+sentinel://:hush@h:26379/mymaster', 'names a sentinel'],
    ['rediss+cluster://:hush@h', 'names a cluster'],
    ['redis://:hush@h1,h2', 'several hosts'],
    ['valkey://:hush@h', 'write redis://user:password@host:6379/0'],
    ['https://eu1.upstash.io', 'the REST address'],
    ['h:6379', 'begins with redis://'],
    ['redis://:hush@h?sslmode=require', 'write rediss://'],
    ['rediss://:hush@h?ssl_cert_reqs=none', 'write sslmode=require'],
    ['rediss://:hush@h?sslmode=disable', 'write redis://'],
    ['redis://:hush@h?timeout=3', 'the parameter timeout'],
    ['unix://run/redis.sock', 'without its whole path'],
  ])('%s is refused', ([url, says]) => {
    const read = readRedisUrl(url) as { wrong: string };
    expect(read.wrong).toContain(says);
    expect(read.wrong).not.toContain('hush');
  });

  test.for<[reply: string, says: string]>([
    ["NOPERM this user has no permissions to run the 'info' command", 'does not let this user'],
    ['NOAUTH Authentication required.', 'wants a password'],
    ['WRONGPASS invalid username-password pair or user is disabled.', 'refuses the login'],
    ["READONLY You can't write against a read only replica.", 'is read-only'],
    ["OOM command not allowed when used memory > 'maxmemory'.", 'is out of memory'],
    ['MISCONF Redis is configured to save RDB snapshots', 'cannot write to its disk'],
    ['MOVED 866 10.0.0.1:6379', 'is a cluster'],
    ["CROSSSLOT Keys in request don't hash to the same slot", 'is a cluster'],
    ["ERR unknown command 'BZPOPMIN'", 'lacks a command'],
  ])('the reply %s is said in words', ([reply, says]) => {
    expect(redisRefusal(new Error(reply))?.says).toContain(says);
  });
});

test('why a connection was refused, by the words of the server', () => {
  const remedy = (message: string, code?: string) =>
    remedyOfConnect(Object.assign(new Error(message), { code }), 'DATABASE_URL');
  expect(remedy('SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string')).toContain('set PGPASSWORD');
  expect(remedy('no pg_hba.conf entry for host "10.0.0.1", user "u", database "d", no encryption', '28000')).toContain(
    'sslmode=require',
  );
  expect(remedy('connection requires a valid client certificate', '28000')).toContain('sslcert');
  expect(remedy('unsupported startup parameter: options', '08P01')).toContain('Take options out');
  expect(remedy('certificate has expired', 'CERT_HAS_EXPIRED')).toContain('Renew');
  expect(remedy('password authentication failed for user "u"', '28P01')).toContain('user and password');
  expect(remedy('connect ENOENT /x/.s.PGSQL.5432', 'ENOENT')).toContain('no socket');
  expect(remedy('connect ECONNREFUSED', 'ECONNREFUSED')).toBeUndefined();
});
