/**
 * docker-compose.yml as people start it, with the sandbox as the help desk: healthy, mirroring as a role that owns its database
 * and nothing else, with more workers, a page that comes and goes beside them, a backup that comes back, and down again without
 * anybody being killed. The commands are those of docs/how-to.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { composeApart, readCompose } from '../support/compose.ts';
import { describeOnDocker, docker, retryOutages, root } from '../support/docker.ts';

const { services } = readCompose();
const project = `shelfdesk-test-${randomBytes(4).toString('hex')}`;

/** The shell block of a document that holds these words. */
function blockWith(path: string, words: string): string {
  const blocks = [...readFileSync(join(root, path), 'utf8').matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(one => one[1]!);
  const found = blocks.filter(text => text.includes(words));
  expect(found, words).toHaveLength(1);
  return found[0]!;
}
/** The line of that block that begins with these words. */
function lineOf(block: string, words: string): string {
  const found = block.split('\n').filter(line => line.startsWith(words));
  expect(found, words).toHaveLength(1);
  return found[0]!.replace(/ +#.*/, '');
}
const pageBlock = blockWith('docs/how-to/run-in-production.md', 'export SHELFDESK_WEB_TOKEN');
const backup = blockWith('docs/how-to/back-up-and-restore.md', 'docker compose exec -T postgres pg_dump');
const restore = blockWith('docs/how-to/back-up-and-restore.md', 'docker compose exec -T postgres pg_restore');

describeOnDocker('docker compose up', () => {
  let folder: string;
  let settings: Record<string, string>;

  const compose = (args: string[], env: Record<string, string> = {}) =>
    docker(['compose', ...args], { ...settings, ...env });

  /** What the containers said, if it goes wrong. */
  const telling = <T>(work: Promise<T>): Promise<T> =>
    work.catch(async error => {
      throw new Error(`${error.message}\n${error.stderr}\n${await compose(['logs', '--no-color', '--tail', '100'])}`);
    });
  const up = (env: Record<string, string> = {}) => telling(compose(['up', '--wait'], env));
  /** As people would type it, in a folder of their own. */
  const shell = (script: string) =>
    telling(
      promisify(execFile)('bash', ['--norc', '-eu', '-c', script], {
        cwd: folder,
        env: { ...process.env, ...settings },
      }),
    );

  const containers = async (service: string) =>
    (await compose(['--profile', '*', 'ps', '--all', '--quiet', service])).split('\n').filter(Boolean).toSorted();
  const inspect = (format: string, ids: string[]) => docker(['inspect', '--format', format, ...ids]);
  const psql = (role: string, query: string, database = 'shelfdesk') =>
    compose(['exec', '-T', 'postgres', 'psql', '-U', role, '-d', database, '-Atc', query]);
  const ask = (query: string) => psql('shelfdesk', query);
  const shelfdesk = (...args: string[]) => compose(['run', '--rm', 'shelfdesk', ...args]);
  const restarts = async (ids: string[]) =>
    (await inspect('{{.State.Health.Status}} {{.State.StartedAt}}', ids)).split('\n');

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'shelfdesk-compose-'));
    settings = {
      ...composeApart(folder, project),
      COMPOSE_PROFILES: 'sandbox',
      HELPDESK_BASE_URL: 'http://sandbox:8080/api/v1',
      HELPDESK_TOKEN: 'sandbox',
      SHELFDESK_WEB_TOKEN: 'operators-hush-hush',
    };
    await telling(compose(['up', '--wait', '--build']));
  }, retryOutages.timeout);

  afterAll(async () => {
    await compose(['--profile', '*', 'down', '--volumes', '--remove-orphans']);
    await docker(['image', 'rm', '--force', project]);
    await rm(folder, { recursive: true });
  }, retryOutages.timeout);

  test('everything reports healthy', async () => {
    for (const service of Object.keys(services).filter(name => name !== 'page')) {
      expect(await inspect('{{.State.Health.Status}}', await containers(service)), service).toBe('healthy');
    }
  });

  test('the tickets of the sandbox come into the warehouse by themselves', retryOutages, async () => {
    const command = services.sandbox.command!;
    const tickets = Number(command[command.indexOf('--tickets') + 1]);
    // Some are deleted and some are new, since the sandbox lives. A schedule begins each minute.
    const mirrored = async () => Number(await ask('select count(*) from helpdesk.tickets'));
    await expect.poll(mirrored, { timeout: 300_000, interval: 1000 }).toBeGreaterThan(tickets * 0.9);
    const complete = () => ask("select complete_through is not null from sync.status where stream = 'tickets'");
    await expect.poll(complete, { timeout: 300_000, interval: 1000 }).toBe('t');
  });

  test('the program owns its database and makes roles, and reaches neither files nor programs of the server', async () => {
    const role = `select rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls from pg_roles where rolname = current_user`;
    expect(await ask(role)).toBe('f|t|f|f|f');
    expect(await ask('select datdba::regrole from pg_database where datname = current_database()')).toBe('shelfdesk');
    const asWorker = `select distinct usename from pg_stat_activity where application_name like 'shelfdesk%'`;
    expect(await psql('postgres', asWorker)).toBe('shelfdesk');
    for (const statement of [
      `select pg_read_file('/etc/passwd')`,
      `copy (select 1) to '/tmp/written'`,
      `copy (select 1) to program 'id'`,
      `create role boss superuser`,
      `alter role postgres password 'known'`,
      `alter system set log_statement = 'all'`,
    ])
      await expect(ask(statement), statement).rejects.toThrow('permission denied');
  });

  test('the superuser has no password, so nobody logs in as it from outside of its container', async () => {
    expect(await psql('postgres', `select rolpassword is null from pg_authid where rolname = 'postgres'`)).toBe('t');
    const login = (role: string) =>
      docker([
        'run',
        '--rm',
        '--network',
        `${project}_default`,
        '--env',
        'PGPASSWORD=shelfdesk',
        services.postgres.image,
        ...['psql', '--host', 'postgres', '--username', role, '--dbname', 'shelfdesk', '-Atc', 'select current_user'],
      ]);
    expect(await login('shelfdesk')).toBe('shelfdesk');
    await expect(login('postgres')).rejects.toThrow('password authentication failed');
  });

  test(
    'that role is enough: readers are let in, and questions are asked under a login that can only read',
    retryOutages,
    async () => {
      const line = new URL(await shelfdesk('warehouse', 'reader', 'create', 'ada'));
      expect([line.username, line.hostname]).toEqual(['ada', 'postgres']);
      expect(await shelfdesk('warehouse', 'reader', 'list')).toMatch(/ada .*let in/);
      const asked = JSON.parse(
        await shelfdesk(
          'sql',
          '--json',
          `select current_user::text as role, pg_has_role(current_user, 'shelfdesk', 'member') as ours`,
        ),
      );
      expect(asked).toEqual([{ role: expect.stringMatching(/^shelfdesk_sql_/), ours: false }]);
      const { results } = JSON.parse(await shelfdesk('doctor', '--json')) as {
        results: { name: string; state: string }[];
      };
      expect(results.filter(({ state }) => state === 'failed')).toEqual([]);
    },
  );

  test('more workers come beside the first: their number is a variable', retryOutages, async () => {
    const [first] = await containers('shelfdesk');
    const since = await restarts([first!]);
    await up({ SHELFDESK_WORKERS: '3' });
    const all = await containers('shelfdesk');
    expect(all).toHaveLength(3);
    expect(all).toContain(first);
    expect(await inspect('{{.State.Health.Status}}', all)).toBe('healthy\nhealthy\nhealthy');
    expect(await restarts([first!])).toEqual(since);
  });

  test('the page starts and stops alone: all workers and both servers go on', retryOutages, async () => {
    const others = (await Promise.all(['shelfdesk', 'postgres', 'redis', 'sandbox'].map(containers))).flat();
    expect(others).toHaveLength(6);
    const since = await restarts(others);
    const start = lineOf(pageBlock, 'docker compose up');
    const end = lineOf(pageBlock, 'docker compose rm');
    await shell(start);
    const [page] = await containers('page');
    expect(await inspect('{{.State.Health.Status}}', [page!])).toBe('healthy');
    await shell(end);
    expect(await containers('page')).toEqual([]);
    // With the profile too, as long as the variable says how many there are.
    await telling(compose(['--profile', 'page', 'up', '--wait'], { SHELFDESK_WORKERS: '3' }));
    expect(await containers('page')).toHaveLength(1);
    await shell(end);
    expect((await Promise.all(['shelfdesk', 'postgres', 'redis', 'sandbox'].map(containers))).flat()).toEqual(others);
    expect(await restarts(others)).toEqual(since);
  });

  test(
    'a backup comes back as its guide says, also over newer tables, and the workers go on',
    retryOutages,
    async () => {
      const tickets = async () =>
        await ask('select md5(string_agg(t::text, chr(10) order by id)) from helpdesk.tickets t');
      await compose(['stop', 'shelfdesk']);
      await shell(backup);
      const [before, readers] = [await tickets(), await ask('select role_name from sync.readers')];
      await ask('delete from helpdesk.tickets; create table sync.newer (n int)');
      // Everything but the last line, which starts the workers: they change rows.
      const lines = restore.trim().split('\n');
      await shell(lines.slice(0, -1).join('\n'));
      expect(await tickets()).toBe(before);
      expect(await ask('select role_name from sync.readers')).toBe(readers);
      expect(await ask(`select to_regclass('sync.newer') is null`)).toBe('t');
      // What a migration gives and takes is there: nobody but the owner reads the keys of hashes, and readers read.
      const may = (role: string, table: string) => ask(`select has_table_privilege('${role}', '${table}', 'select')`);
      expect([
        await may('shelfdesk_reader', 'safe.tickets'),
        await may('shelfdesk_reader_pii', 'sync.secret_salt'),
      ]).toEqual(['t', 'f']);
      await shell(lines.at(-1)!.replace(/ +#.*/, ''));
      const later = async () => await ask(`select max(started_at) > now() - interval '1 minute' from sync.runs`);
      await expect.poll(later, { timeout: 300_000, interval: 1000 }).toBe('t');
    },
  );

  test('a backup that is broken changes nothing', retryOutages, async () => {
    const [there, newer] = ['select count(*) > 0 from helpdesk.tickets', 'select count(*) from sync.migrations'];
    const migrations = await ask(newer);
    await compose(['stop', 'shelfdesk']);
    const half = 'head -c "$(($(stat -c %s shelfdesk.dump) / 2))" shelfdesk.dump > half.dump';
    const [, replace] = /^(docker compose exec -T postgres pg_restore [\s\S]*?)\ndocker compose run/m.exec(restore)!;
    await expect(shell(`${half}\n${replace!.replace('< shelfdesk.dump', '< half.dump')}`)).rejects.toThrow();
    expect([await ask(there), await ask(newer)]).toEqual(['t', migrations]);
    await up();
  });

  test('all stop when they are asked to: nobody is killed, nobody was started again', retryOutages, async () => {
    const ours = (await Promise.all(['shelfdesk', 'sandbox'].map(containers))).flat();
    await compose(['stop']);
    const ends = (await inspect('{{.State.ExitCode}} {{.RestartCount}}', ours)).split('\n');
    expect(ends).toEqual(ours.map(() => expect.stringMatching(/^(0|130) 0$/)));
  });
});

describeOnDocker('a volume of PostgreSQL from before the program had a role of its own', () => {
  const older = `${project}-older`;
  let folder: string;
  let settings: Record<string, string>;
  const compose = (...args: string[]) => docker(['compose', ...args], settings);
  const ask = (query: string) => compose('exec', '-T', 'postgres', 'psql', '-U', 'shelfdesk', '-Atc', query);
  const shell = (script: string) =>
    promisify(execFile)('bash', ['--norc', '-eu', '-c', script], { cwd: folder, env: { ...process.env, ...settings } });

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'shelfdesk-compose-'));
    settings = { ...composeApart(folder, older), HELPDESK_BASE_URL: 'http://127.0.0.1:1/api/v1', HELPDESK_TOKEN: 'x' };
    // As docker-compose.yml made it then: the role of the program is the superuser of its cluster.
    const then = '{ environment: { POSTGRES_USER: shelfdesk, POSTGRES_DB: shelfdesk }, configs: !reset [] }';
    await writeFile(join(folder, 'then.yml'), `services: { postgres: ${then} }`);
    const files = `${settings.COMPOSE_FILE}:${join(folder, 'then.yml')}`;
    await docker(['compose', 'up', '--wait', 'postgres'], { ...settings, COMPOSE_FILE: files });
    await compose('down');
  }, retryOutages.timeout);

  afterAll(async () => {
    await compose('--profile', '*', 'down', '--volumes', '--remove-orphans');
    await docker(['image', 'rm', '--force', older]);
    await rm(folder, { recursive: true });
  }, retryOutages.timeout);

  test(
    'works as before, and its backup comes back in a new volume, to a role that is no superuser',
    retryOutages,
    async () => {
      const isSuper = 'select rolsuper from pg_roles where rolname = current_user';
      await compose('run', '--rm', '--build', 'shelfdesk', 'migrate');
      expect(await ask(isSuper)).toBe('t');
      await ask(`insert into sync.accounts (account_id) values ('acme')`);
      await shell(backup);
      const operations = readFileSync(join(root, 'docs/how-to/back-up-and-restore.md'), 'utf8');
      const [, move] = /^## A Compose volume from before[\s\S]*?^```text\n([\s\S]*?)^```$/m.exec(operations)!;
      await shell(move!.replace('shelfdesk_postgres', `${older}_postgres`));
      expect(await ask('select count(*) from sync.accounts')).toBe('0');
      await shell(restore.trim().split('\n').slice(0, -1).join('\n'));
      expect(await ask(isSuper)).toBe('f');
      expect(await ask('select account_id from sync.accounts')).toBe('acme');
      const others = `select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname in ('helpdesk', 'books', 'analytics', 'safe', 'sync') and c.relowner <> 'shelfdesk'::regrole`;
      expect(await ask(others)).toBe('0');
    },
  );
});
