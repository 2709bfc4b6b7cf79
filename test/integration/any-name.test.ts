/** Roles and databases of any name: managed servers name roles like mailboxes, and people name both as they like. */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startSandbox } from '../../packages/sandbox/src/server.ts';
import { migrateWarehouse } from '../../src/app/migrate.ts';
import { pendingMigrations } from '../../src/engine/database/migrate.ts';
import { settingsFor } from '../support/cli.ts';
import { ran } from '../support/here.ts';
import { long } from '../support/long.ts';
import { noSandboxLimits } from '../support/mirror.ts';
import { type OwnServer, startOwnServer } from '../support/own-server.ts';
import { sessionOf } from '../support/readers.ts';

const id = pg.escapeIdentifier;

/** A database of a role that may make roles, as managed servers have them. Returns its URL. */
async function databaseOf(admin: pg.Client, server: string, role: string, name: string): Promise<string> {
  await admin.query(`create role ${id(role)} login createrole password 'secret'`);
  await admin.query(`create database ${id(name)} owner ${id(role)}`);
  const url = new URL(server);
  [url.username, url.password, url.pathname] = [encodeURIComponent(role), 'secret', encodeURI(name)];
  return url.href;
}

describe('any name', long, () => {
  const stack = new AsyncDisposableStack();
  let server: OwnServer;
  let admin: pg.Client;
  beforeAll(async () => {
    server = stack.use(await startOwnServer({ empty: true }));
    admin = new pg.Client({ connectionString: server.url });
    admin.on('error', () => {});
    await admin.connect();
    stack.defer(() => admin.end());
  });
  afterAll(() => stack.disposeAsync());

  test('any role works in a database of any name', async () => {
    const sandbox = await startSandbox({ ...noSandboxLimits, tickets: 5 });
    stack.defer(() => sandbox.close());

    const role = `o"neil's ${'%s\\'} Ana@B.iam`;
    const name = `my-Ware "house" 50% a.b@c ${'x'.repeat(37)}`;
    expect(Buffer.byteLength(name)).toBeLessThanOrEqual(63);
    const url = await databaseOf(admin, server.url, role, name);
    const run = async (...args: string[]) => {
      const { code, stdout, stderr } = await ran(args, settingsFor(url, sandbox));
      expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: expect.any(String) });
      return stdout;
    };
    await run('migrate');
    await run('sync');
    expect(await run('status')).toContain('tickets');
    expect(JSON.parse(await run('sql', 'select count(*)::int as n from helpdesk.tickets', '--json'))).toEqual([
      { n: 5 },
    ]);
    const { results } = JSON.parse((await ran(['doctor', '--json'], settingsFor(url, sandbox))).stdout);
    expect(
      results.filter(
        (one: { area: string; state: string }) => one.area === 'database' && !['ok', 'skipped'].includes(one.state),
      ),
    ).toEqual([]);

    for (const pii of [false, true]) {
      const reader = `reader_${pii}`;
      const line = (await run('reader', 'create', reader, ...(pii ? ['--pii'] : []))).trim();
      const session = await sessionOf(line);
      expect(await session.rows('select current_database()::text as name, count(*)::int as n from tickets')).toEqual([
        { name, n: 5 },
      ]);
      await session.client.end();
      await run('reader', 'revoke', reader);
    }
    await run('calendar', 'list');
    await run('query', 'run', 'backlog-by-week');
  });

  test.each(['ÄÖ'.padEnd(61, 'x'), 'user'])('role %s migrates, and hands its tables over to a group', async role => {
    const url = await databaseOf(admin, server.url, role, `my-Ware house of ${role}`.slice(0, 30));
    await migrateWarehouse(url);
    await admin.query(`grant shelfdesk_owner to ${id(role)} with inherit true, set true`);
    expect(await migrateWarehouse(url)).toEqual({ applied: [] });
    const own = new pg.Pool({ connectionString: url });
    own.on('error', () => {});
    expect(await pendingMigrations(own)).toEqual({ missing: [], unknown: [] });
    const { rows } = await own.query(
      `select distinct tableowner::text as owner from pg_tables where schemaname = 'helpdesk'`,
    );
    expect(rows).toEqual([{ owner: 'shelfdesk_owner' }]);
    await own.end();
  });
});
