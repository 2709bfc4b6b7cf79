/** TLS of PostgreSQL, Redis and the lake, against servers with certificates of an authority of their own. */

import { chown, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { describeLongOnLake } from '../../packages/lake/test/support/lake.ts';
import { openWarehouse } from '../../src/app/context.ts';
import { requireRedis } from '../../src/engine/queue/redis.ts';
import { ShelfdeskError } from '../../src/errors.ts';
import { openLake } from '../../src/lake/package.ts';
import { type Certificates, makeCertificates } from '../support/certificates.ts';
import { shelfdesk } from '../support/cli.ts';
import { eventually } from '../support/desk.ts';
import { long } from '../support/long.ts';
import { type OwnRedis, startOwnRedis } from '../support/own-redis.ts';
import { type OwnServer, startOwnServer } from '../support/own-server.ts';
import { describeOnRedis } from '../support/redis.ts';

let files: Certificates;
beforeAll(async () => {
  files = await makeCertificates();
});
afterAll(() => files[Symbol.asyncDispose]());

/** What the address says, its placeholders replaced by files. */
const withFiles = (parameters: string) =>
  parameters.replace('AUTHORITY', files.authority).replace('STRANGER', files.stranger);

const failure = async (work: Promise<unknown>): Promise<string> => {
  const error = await work.then(
    () => new Error('it worked'),
    (thrown: Error) => thrown,
  );
  return error instanceof ShelfdeskError ? `${error.message}\n${error.remedy}` : error.message;
};

let server: OwnServer;
const at = (host: string, parameters: string) => `${server.url.replace('127.0.0.1', host)}?${withFiles(parameters)}`;

beforeAll(async () => {
  server = await startOwnServer({ empty: true });
  const client = new pg.Client(server.url);
  await client.connect();
  const { rows } = await client.query<{ folder: string }>(`select current_setting('data_directory') as folder`);
  const { uid, gid } = await stat(rows[0]!.folder);
  await chown(files.server.key, uid, gid);
  await client.query(`alter system set ssl_cert_file = '${files.server.cert}'`);
  await client.query(`alter system set ssl_key_file = '${files.server.key}'`);
  await client.query('alter system set ssl = on');
  await client.query('select pg_reload_conf()');
  await eventually(async () => expect((await client.query('show ssl')).rows[0].ssl).toBe('on'));
  await client.end();
});
afterAll(() => server[Symbol.asyncDispose]());

const isEncrypted = async (url: string): Promise<boolean> => {
  await using warehouse = await openWarehouse({ databaseUrl: url });
  const { rows } = await warehouse.pg.query('select ssl from pg_stat_ssl where pid = pg_backend_pid()');
  return rows[0].ssl;
};

describe('PostgreSQL', long, () => {
  test.for<[parameters: string, host: string, encrypted: boolean]>([
    ['sslmode=disable', '127.0.0.1', false],
    ['sslmode=prefer', '127.0.0.1', true],
    ['sslmode=require', '127.0.0.1', true],
    ['ssl=true', '127.0.0.1', true],
    ['sslmode=require&sslnegotiation=direct', '127.0.0.1', true],
    ['sslmode=require&channel_binding=require', '127.0.0.1', true],
    ['sslmode=verify-ca&sslrootcert=AUTHORITY', '127.0.0.1', true],
    ['sslmode=require&sslrootcert=AUTHORITY', '127.0.0.1', true],
    ['sslmode=verify-full&sslrootcert=AUTHORITY', 'localhost', true],
  ])('%s at %s', async ([parameters, host, encrypted]) => {
    expect(await isEncrypted(at(host, parameters))).toBe(encrypted);
  });

  test.for<[parameters: string, host: string, says: string]>([
    ['sslmode=verify-full&sslrootcert=AUTHORITY', '127.0.0.1', 'The certificate is for another host'],
    ['sslmode=verify-full&sslrootcert=STRANGER', 'localhost', 'an authority that is not known here'],
    ['sslmode=verify-full', 'localhost', 'an authority that is not known here'],
    ['sslrootcert=system', 'localhost', 'an authority that is not known here'],
    ['sslmode=verify-ca&sslrootcert=STRANGER', 'localhost', 'an authority that is not known here'],
    ['sslmode=require&sslrootcert=STRANGER', 'localhost', 'an authority that is not known here'],
    [
      'sslmode=verify-full&sslrootcert=/nowhere/ca.pem',
      'localhost',
      'sslrootcert=/nowhere/ca.pem, and there is no such file',
    ],
    ['sslmode=require&sslcert=/nowhere/a.pem&sslkey=/nowhere/b', 'localhost', 'sslcert=/nowhere/a.pem, and there is'],
    ['sslmode=verify-ca&sslrootcert=/dev/null', 'localhost', 'sslrootcert has no certificate in it'],
  ])('%s at %s is refused', async ([parameters, host, says]) => {
    expect(await failure(isEncrypted(at(host, parameters)))).toContain(says);
  });

  test('a server without TLS is said to have none, but to prefer', async () => {
    await using plain = await startOwnServer({ empty: true });
    expect(await failure(isEncrypted(`${plain.url}?sslmode=require`))).toContain('The server has no TLS');
    expect(await isEncrypted(`${plain.url}?sslmode=prefer`)).toBe(false);
  });

  test('a server that wants TLS is said to want it', async () => {
    const client = new pg.Client(server.url);
    await client.connect();
    const { rows } = await client.query<{ file: string }>(`select current_setting('hba_file') as file`);
    await client.end();
    await writeFile(rows[0]!.file, 'hostssl all all 127.0.0.1/32 scram-sha-256\n');
    const again = new pg.Client(`${server.url}?sslmode=require&uselibpqcompat=true`);
    await again.connect();
    await again.query('select pg_reload_conf()');
    await again.end();
    await eventually(async () => expect(await failure(isEncrypted(server.url))).toContain('Add sslmode=require'));
  });
});

test('an authority in NODE_EXTRA_CA_CERTS is known', long, async () => {
  const env = { DATABASE_URL: at('localhost', 'sslmode=verify-full'), NODE_EXTRA_CA_CERTS: files.authority };
  expect(await shelfdesk(['migrate'], env).finished).toMatchObject({ code: 0 });
});

await describeLongOnLake('the lake', () => {
  test.for(['sslmode=require', 'sslmode=verify-full&sslrootcert=AUTHORITY'])('%s', async parameters => {
    const place = { path: join(files.folder, 'lake'), extensions: process.env.LAKE_EXTENSIONS };
    await using lake = await openLake(at('localhost', parameters), place, { mode: 'none' });
    const [row] = await lake.rows<{ ssl: boolean }>(
      `from postgres_query('warehouse', 'select bool_and(ssl) as ssl from pg_stat_ssl join pg_stat_activity using (pid) where application_name = ''shelfdesk: lake''')`,
    );
    expect(row).toEqual({ ssl: true });
  });
});

test('a server that wants a certificate of the client gets it, or is said to want it', long, async () => {
  const client = new pg.Client({ connectionString: server.url, ssl: { rejectUnauthorized: false } });
  await client.connect();
  const { rows } = await client.query<{ file: string }>(`select current_setting('hba_file') as file`);
  await writeFile(rows[0]!.file, 'hostssl all all 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n');
  await client.query(`alter system set ssl_ca_file = '${files.authority}'`);
  await client.query('select pg_reload_conf()');
  await client.end();
  const { cert, key } = files.client;
  const bare = at('127.0.0.1', 'sslmode=require');
  await eventually(async () =>
    expect(await failure(isEncrypted(bare))).toContain('The server wants a certificate of the client'),
  );
  expect(await isEncrypted(`${bare}&sslcert=${cert}&sslkey=${key}`)).toBe(true);
  expect(await failure(isEncrypted(`${bare}&sslcert=${cert}&sslkey=${files.server.key}`))).toContain(
    'the key belongs to',
  );
});

describeOnRedis(
  'Redis',
  () => {
    let redis: OwnRedis;
    beforeAll(async () => {
      const { authority, server: own } = files;
      redis = await startOwnRedis(
        { 'tls-cert-file': own.cert, 'tls-key-file': own.key, 'tls-ca-cert-file': authority },
        { tls: true },
      );
    });
    afterAll(() => redis[Symbol.asyncDispose]());

    const looked = (scheme: string, parameters: string, host = 'localhost') =>
      requireRedis(`${scheme}://${host}:${redis.port}?${withFiles(parameters).replace('CLIENT', own())}`);
    const own = () => `sslcert=${files.client.cert}&sslkey=${files.client.key}`;

    test.for(['sslrootcert=AUTHORITY&sslmode=verify-full&CLIENT', 'sslmode=require&CLIENT'])('%s', async parameters => {
      await looked('rediss', parameters);
    });

    test.for<[scheme: string, parameters: string, says: string]>([
      ['rediss', 'CLIENT&sslmode=verify-full', 'an authority that is not known here'],
      ['rediss', 'sslmode=require', 'wants a certificate of the client'],
      ['redis', '', 'write rediss://'],
    ])('%s://…?%s is refused', async ([scheme, parameters, says]) => {
      expect(await failure(looked(scheme, parameters))).toContain(says);
    });
  },
  { takesLong: true },
);
