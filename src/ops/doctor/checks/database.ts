/** Checks of PostgreSQL: reachability, version, settings and rights. */

import { statfs } from 'node:fs/promises';
import { readSearch } from '../../../analytics/search.ts';
import { boundSources } from '../../../app/context.ts';
import { migrateWarehouse } from '../../../app/migrate.ts';
import { pendingMigrations } from '../../../engine/database/migrate.ts';
import { connectionsOf, lookersMost } from '../../../engine/database/pool.ts';
import { refusalsOf, tooOld, wrongEncoding } from '../../../engine/database/refusals.ts';
import { compiles } from '../../../engine/database/server.ts';
import { remedyOfConnect } from '../../../engine/database/session/connect-failures.ts';

import { queueConnections } from '../../../engine/queue/job-queue.ts';
import { addressesOf, boundElsewhere } from '../../../engine/runs/accounts/accounts.ts';
import { UsageError } from '../../../errors.ts';
import { sources } from '../../../sources/index.ts';
import { liveProcesses } from '../../../status/workers.ts';
import { count } from '../../../words.ts';
import type { Check, DoctorContext } from '../doctor-context.ts';
import { fail, ok, warn } from './check.ts';
import { judgeClocks } from './clocks.ts';

/** Connection that holds the presence lock of a process. */
const presence = 1;
const gigabyte = 1e9;

export const databaseChecks: readonly Check[] = [
  {
    name: 'database',
    looks: 'reachability and login of PostgreSQL',
    needs: ['servers'],
    async run(context) {
      try {
        const { folder } = await context.warehouse();
        const { version, database, role } = await context.server();
        const where = folder === undefined ? `database ${database}, as role ${role}` : `embedded, in ${folder}`;
        return ok(`PostgreSQL ${version}, ${where}`);
      } catch (error) {
        const { message } = error as Error;
        if (error instanceof UsageError) return fail(message, error.remedy);
        return fail(`PostgreSQL does not answer: ${message}`, remedyOf(error, context));
      }
    },
  },
  {
    name: 'database version',
    looks: 'version of PostgreSQL: 15 or newer',
    needs: ['database'],
    async run({ server }) {
      const { versionNumber, version } = await server();
      const refusal = tooOld(versionNumber, version);
      return refusal ? fail(refusal.message, refusal.remedy) : ok(`PostgreSQL ${version}`);
    },
  },
  {
    name: 'encoding',
    looks: 'encoding of the database: UTF8',
    needs: ['database'],
    async run({ server }) {
      const { encoding, database } = await server();
      const refusal = wrongEncoding(encoding, database);
      return refusal ? fail(refusal.message, refusal.remedy) : ok('UTF8');
    },
  },
  {
    name: 'schemas',
    looks: 'schemas of other programs with names that Shelfdesk needs',
    needs: ['database version', 'encoding'],
    async run({ warehouse }) {
      const refusals = await refusalsOf((await warehouse()).pg, sources);
      return refusals.length > 0
        ? refusals.map(({ message, remedy }) => fail(message, remedy))
        : ok('none of another program is in the way');
    },
  },
  {
    name: 'writable',
    looks: 'whether the server accepts writes: no standby, not read-only',
    needs: ['database'],
    async run({ server }) {
      if (!(await server()).readOnly) return ok('it takes what is written');
      return fail(
        'the server only takes questions: it is a standby, or was told so',
        'Name the primary server in DATABASE_URL, or set default_transaction_read_only = off for the role.',
      );
    },
  },
  {
    name: 'rights',
    looks: 'rights of the role: creates schemas, and owns and writes the tables, or is in shelfdesk_writer',
    needs: ['writable', 'schemas'],
    async run({ server, warehouse }) {
      const { role, database, mayCreate, closedSchemas, closedTables, foreignTables, isWriter } = await server();
      // Without access to the schema, missing objects cannot be recognised.
      const isClosed = closedSchemas.includes('sync');
      const isComplete = !isClosed && (await pendingMigrations((await warehouse()).pg)).missing.length === 0;
      const found = [];
      if (!mayCreate && !isComplete)
        found.push(
          fail(
            `role ${role} may make no schemas in database ${database}`,
            `As its owner: \`grant create on database ${database} to ${role}\`.`,
          ),
        );
      if (closedSchemas.length > 0)
        found.push(
          fail(
            `role ${role} may not work in schema ${closedSchemas.join(', ')}`,
            `As its owner: \`grant all on schema ${closedSchemas.join(', ')} to ${role}\`.`,
          ),
        );
      if (closedTables.length > 0)
        found.push(
          fail(
            `role ${role} may not read and write ${some(closedTables)}`,
            `Let Shelfdesk work as the role that made the tables, or make it their owner: \`reassign owned by <old role> to ${role}\`.`,
          ),
        );
      else if (foreignTables.length > 0 && !isWriter)
        found.push(
          warn(
            `${some(foreignTables)} belong to another role than ${role}: the next upgrade cannot change them`,
            `As a superuser: \`reassign owned by <old role> to ${role}\`.`,
          ),
        );
      if (isWriter && found.length === 0)
        return ok(
          `role ${role} may read and write; the tables are changed by \`npx shelfdesk migrate\` of their owner`,
        );
      return found.length > 0 ? found : ok(`role ${role} may do what it has to`);
    },
  },
  {
    name: 'btree_gist',
    looks: 'the extension, or the right to create it',
    needs: ['writable'],
    async run({ server }) {
      const { gist, database } = await server();
      if (gist === 'there') return ok('it is there');
      if (gist === 'can be made') return ok('it is made with the tables');
      return gist === 'not installed'
        ? fail(
            'the server does not have the extension btree_gist',
            'Install the contrib package of the server (postgresql-contrib).',
          )
        : fail(
            'the extension btree_gist is not there, and the role may not make it',
            `As a superuser, in database ${database}: \`create extension btree_gist\`.`,
          );
    },
  },
  {
    name: 'tables',
    looks: 'pending migrations, and migrations of a newer version',
    needs: ['rights'],
    async run({ warehouse }) {
      const { url, pg } = await warehouse();
      const { missing, unknown } = await pendingMigrations(pg);
      if (unknown.length > 0)
        return fail(
          `the database comes from a newer Shelfdesk: this one does not know ${unknown.join(', ')}`,
          'Upgrade Shelfdesk here to that version, or newer.',
        );
      if (missing.length === 0) return ok('all are there');
      const what = missing.length > 3 ? count(missing.length, 'migration') : missing.join(', ');
      return fail(`the tables are not there yet, or old: ${what} missing`, 'Run `npx shelfdesk migrate`.', {
        says: 'make them',
        async do() {
          const { applied } = await migrateWarehouse(url);
          return `applied ${count(applied.length, 'migration')}`;
        },
      });
    },
  },
  {
    name: 'connections',
    looks: 'connection limits of server, database and role against the running processes and one more',
    needs: ['tables'],
    async run({ server, warehouse, fleetIfAny, look }) {
      const { most, others } = (await server()).connections;
      const living = await liveProcesses((await warehouse()).pg, null);
      const processes = new Set(living.map(({ host, pid }) => `${host} ${pid}`)).size;
      const accounts = fleetIfAny?.accounts.length ?? 1;
      const ofQueue = look.servers!.redisUrl === undefined ? queueConnections(accounts) : 0;
      const ofPage = fleetIfAny?.web.port === undefined ? 0 : lookersMost;
      const each = connectionsOf(accounts) + presence + ofQueue + ofPage;
      const room = most - others;
      const says = `${most} allowed, ${others} of other programs; a process of Shelfdesk takes up to ${each}, ${processes} live`;
      const remedy = `Raise max_connections of the server (or the limit of the role or database) to ${others + each * (processes + 1)} or more${look.servers!.redisUrl === undefined ? ', or set REDIS_URL: then the queue takes none' : ''}.`;
      if (room < each) return fail(says, remedy);
      return room < each * (processes + 1) ? warn(says, remedy) : ok(says);
    },
  },
  {
    name: 'jit',
    looks: 'whether logins of any role compile their questions, which takes longer than asking most of them',
    needs: ['tables'],
    async run({ server, warehouse }) {
      if (!(await compiles((await warehouse()).url))) return ok('questions are not compiled');
      const { database } = await server();
      return warn(
        'jit is on: a question of a login that no `warehouse reader create` made takes two to four times as long',
        `As the owner of the database: \`alter database ${database} set jit = off\`. A login notices when it connects again.`,
      );
    },
  },
  {
    name: 'safe writing',
    looks: 'settings of the server that keep data after a power failure, and autovacuum',
    needs: ['database'],
    async run({ server }) {
      const facts = await server();
      const off = [
        ...(facts.fsync ? [] : ['fsync']),
        ...(facts.fullPageWrites ? [] : ['full_page_writes']),
        ...(facts.autovacuum ? [] : ['autovacuum']),
      ];
      if (off.length === 0) return ok('fsync, full_page_writes and autovacuum are on');
      return warn(
        `${off.join(', ')} of the server ${off.length > 1 ? 'are' : 'is'} off: ${facts.fsync && facts.fullPageWrites ? 'its tables grow and get slow' : 'a crash may destroy the database'}`,
        `As a superuser: ${off.map(name => `\`alter system set ${name} = on\``).join(', ')}, then \`select pg_reload_conf()\`.`,
      );
    },
  },
  {
    name: 'disk',
    looks: 'free disk space of the embedded database; size of the database on a server',
    needs: ['database'],
    async run({ server, warehouse }) {
      const { databaseBytes } = await server();
      const { folder } = await warehouse();
      const size = `the database has ${gigabytes(databaseBytes)}`;
      if (folder === undefined) return ok(`${size}; how much is free the server alone knows`);
      const { bavail, bsize } = await statfs(folder);
      return judgeDisk(bavail * bsize, databaseBytes, folder);
    },
  },
  {
    name: 'search',
    looks: 'indexes of search, and what they take',
    needs: ['tables'],
    async run({ warehouse }) {
      const all = await readSearch((await warehouse()).pg);
      const size = gigabytes(all.reduce((sum, { bytes }) => sum + bytes, 0));
      if (all.some(({ state }) => state === 'broken'))
        return warn(
          `the making of an index was interrupted: it takes ${size} and finds nothing`,
          'Run `npx shelfdesk warehouse search on` to make it anew, or `npx shelfdesk warehouse search off` to drop it.',
        );
      if (all.every(({ state }) => state === 'off'))
        return ok(
          'it is off; `npx shelfdesk warehouse search on` makes its indexes, which then cost time and disk for each message',
        );
      const off = all.filter(({ state }) => state === 'off').map(({ of }) => of);
      return ok(
        `it is on${off.length > 0 ? `, but for ${off.join(' and ')}` : ''}: its indexes take ${size}, and most of the time that a message costs`,
      );
    },
  },
  {
    name: 'clock of the database',
    looks: 'clock of this machine against the clock of the database, which counts credits',
    needs: ['database'],
    async run({ server }) {
      return judgeClocks((await server()).aheadMs, 'the database');
    },
  },
  {
    name: 'sources of the account',
    of: 'account',
    looks: 'addresses in the settings against the addresses that the account was read from',
    needs: ['tables'],
    async run({ warehouse, account, config }) {
      const addresses = await addressesOf((await warehouse()).pg, account);
      if (addresses.size === 0) return ok('the account is bound to no address yet: the next run binds it');
      const elsewhere = boundElsewhere(addresses, account, boundSources(config));
      return elsewhere === undefined ? ok('they are the same') : fail(elsewhere.message, elsewhere.remedy);
    },
  },
];

// @internal Tests judge disks that this machine does not have.
export function judgeDisk(freeBytes: number, databaseBytes: number, folder: string) {
  const says = `${gigabytes(freeBytes)} free in ${folder}, the database has ${gigabytes(databaseBytes)}`;
  const remedy = `Make room there, or move the warehouse to a server (DATABASE_URL). While the disk is full the work waits.`;
  if (freeBytes < 0.2 * gigabyte) return fail(says, remedy);
  return freeBytes < Math.max(gigabyte, databaseBytes / 10) ? warn(says, remedy) : ok(says);
}

const gigabytes = (bytes: number) =>
  bytes < gigabyte ? `${Math.ceil(bytes / 1e6)} MB` : `${(bytes / gigabyte).toFixed(1)} GB`;

const some = (names: readonly string[]) =>
  names.length > 3 ? `${names.slice(0, 3).join(', ')} and ${names.length - 3} more` : names.join(', ');

function remedyOf(error: unknown, { look }: DoctorContext): string {
  if (look.servers!.databaseUrl === undefined)
    return (error as { remedy?: string }).remedy ?? 'Set DATABASE_URL to a PostgreSQL server that is already there.';
  const known = remedyOfConnect(error, 'DATABASE_URL');
  if (known !== undefined) return known;
  const { code } = error as { code?: string };
  if (code === '53300') return 'Raise max_connections of the server, or end what holds its connections.';
  return 'Check DATABASE_URL, and that the server runs and lets this machine in.';
}
