/** Dockerfile, .dockerignore and docker-compose.yml, as far as they can be judged where no engine runs them. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { besides } from '../../packages/bundle.ts';
import { readConfig } from '../../src/app/config.ts';
import { settings } from '../../src/app/settings.ts';
import { demandSafe } from '../../src/ops/page/server.ts';
import { readCompose } from '../support/compose.ts';
import { root } from '../support/docker.ts';

interface Locked {
  os?: string[];
  hasInstallScript?: true;
  dependencies?: object;
}

const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const { services, volumes, configs } = readCompose();
const { shelfdesk, page, sandbox, postgres, redis } = services;

/** Each instruction and what it is given, lines joined, comments left out. */
const instructions = read('Dockerfile')
  .replaceAll(/^ *#.*\n/gm, '')
  .replaceAll(/\\\n\s*/g, '')
  .split('\n')
  .filter(line => line !== '')
  .map(line => /^([A-Z]+) +(.*)$/.exec(line)!.slice(1) as [name: string, rest: string]);
const given = (name: string) => instructions.filter(([one]) => one === name).map(([, rest]) => rest);

describe('the image', () => {
  const stages = given('FROM');

  test('is built in stages, and runs on the same base', () => {
    expect(stages).toEqual(['node:24-alpine AS build', 'node:24-alpine AS libraries', 'node:24-alpine']);
  });

  test('takes from the lock file what runs: of native code only that of DuckDB', () => {
    const installs = given('RUN').filter(run => / (install|ci) /.test(run));
    expect(installs.map(run => run.split(' && ')[0])).toEqual([
      'npm ci --ignore-scripts',
      'npm install --omit=optional --ignore-scripts',
    ]);
    const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, Locked> };
    const sandbox = Object.keys(packages['packages/sandbox']!.dependencies!);
    const seen = new Set([...besides, ...sandbox]);
    for (const name of seen)
      for (const its of Object.keys(packages[`node_modules/${name}`]?.dependencies ?? {})) seen.add(its);
    expect([...seen].filter(name => ['bullmq', 'ioredis', 'undici', 'node-cron'].includes(name))).toEqual([]);
    const native = [...seen].filter(name => {
      const { os, hasInstallScript } = packages[`node_modules/${name}`]!;
      return os !== undefined || hasInstallScript;
    });
    expect(native).toEqual([]);
    const build = given('RUN').find(run => run.includes('packages/build.ts'))!;
    expect(build).toContain('&& mv dist/libraries /libraries && cp .npmrc package-lock.json /libraries/ &&');
    expect(build).toContain('&& cp -r node_modules/@duckdb node_modules/detect-libc dist/shelfdesk/node_modules/ &&');
    expect(build).toContain('&& mv dist/lake dist/shelfdesk/node_modules/shelfdesk-lake &&');
    // DuckDB needs nothing else.
    const needs = Object.keys(packages).filter(path => path.startsWith('node_modules/@duckdb/'));
    expect([...new Set(needs.flatMap(path => Object.keys(packages[path]!.dependencies ?? {})))].sort()).toEqual([
      '@duckdb/node-bindings',
      'detect-libc',
    ]);
  });

  test('starts main.ts with the flags of its first line', () => {
    const [, flags] = /^#!\/usr\/bin\/env -S node (.*)$/m.exec(read('src/main.ts').split('\n')[0]!)!;
    expect(JSON.parse(given('ENTRYPOINT')[0]!)).toEqual(['node', ...flags!.split(' '), '/app/src/main.js']);
    expect(JSON.parse(given('CMD')[0]!)).toEqual(['start']);
    expect(given('STOPSIGNAL')).toEqual(['SIGTERM']);
  });

  test('runs as a user without rights, to whom nothing is given', () => {
    expect(given('USER')).toEqual(['node']);
    const end = instructions.findLastIndex(([name]) => ['COPY', 'RUN', 'ADD'].includes(name));
    expect(instructions.findIndex(([name]) => name === 'USER')).toBeGreaterThan(end);
    expect(given('COPY').filter(copy => copy.includes('--chown'))).toEqual([]);
  });

  test('its context has what the build needs, and no settings, data or tests', () => {
    const [first, ...allowed] = read('.dockerignore')
      .replaceAll(/^#.*\n/gm, '')
      .trim()
      .split('\n');
    expect(first).toBe('*');
    const names = allowed.map(line => /^!(.+)$/.exec(line)![1]!);
    for (const name of names) expect(existsSync(join(root, name)), name).toBe(true);
    const kept = [
      ...read('packages/build.ts').matchAll(/^for \(const name of \[\n([^\]]+)\]\) \{\n {2}keep\(join\(root/gm),
    ].flatMap(([, listed]) => [...listed!.matchAll(/'([^']+)'/g)].map(([, name]) => name!));
    expect(kept.length).toBeGreaterThan(8);
    expect(kept.filter(name => !names.some(one => name === one || name.startsWith(`${one}/`)))).toEqual([]);
    const compiled = [...read('packages/build.ts').matchAll(/\bcompile\('([^']+)'/g)].map(
      ([, config]) => `packages/${config}`,
    );
    expect(compiled.length).toBeGreaterThan(2);
    expect(compiled.filter(config => !names.includes(config))).toEqual([]);
    expect(names.filter(name => name.startsWith('.'))).toEqual(['.env.example', '.npmrc']);
    expect(names.filter(name => /test|proofs/.test(name))).toEqual([]);
    expect(given('COPY').filter(copy => copy.startsWith('--from='))).toEqual([
      '--from=build /libraries ./',
      '--from=libraries /libraries/node_modules ./node_modules',
      '--from=build /package ./',
    ]);
  });

  test('looks after itself as the service does', () => {
    const [, options, command] = /^(.*) CMD (.*)$/.exec(given('HEALTHCHECK')[0]!)!;
    const { test: asked, interval, timeout, start_period, retries } = shelfdesk.healthcheck!;
    expect(JSON.parse(command!)).toEqual(asked.slice(1));
    expect(options!.split(' ')).toEqual([
      `--interval=${interval}`,
      `--timeout=${timeout}`,
      `--start-period=${start_period}`,
      `--retries=${retries}`,
    ]);
  });
});

describe('the services', () => {
  test('are the worker, its two servers, and a page and a sandbox for those who ask for it', () => {
    expect(Object.entries(services).map(([name, { image, profiles }]) => [name, image, profiles])).toEqual([
      ['shelfdesk', 'shelfdesk', undefined],
      ['page', 'shelfdesk', ['page']],
      ['sandbox', 'shelfdesk', ['sandbox']],
      ['postgres', 'postgres:18', undefined],
      ['redis', 'redis:8', undefined],
    ]);
  });

  test('one of them builds the image: two at once would clash', () => {
    expect(Object.values(services).filter(({ build }) => build !== undefined)).toEqual([shelfdesk]);
    expect([shelfdesk.build, shelfdesk.pull_policy]).toEqual(['.', 'build']);
    expect([page.pull_policy, sandbox.pull_policy]).toEqual(['never', 'never']);
  });

  test('each has a health check, and the worker waits for those of its servers', () => {
    for (const [name, { healthcheck }] of Object.entries(services)) {
      expect(healthcheck?.test[0], name).toMatch(/^CMD(-SHELL)?$/);
    }
    expect(shelfdesk.depends_on).toEqual({
      postgres: { condition: 'service_healthy' },
      redis: { condition: 'service_healthy' },
    });
  });

  test('there can be several workers: their number is a variable, and none has a name or a port of its own', () => {
    expect(shelfdesk.scale).toBe(`\${SHELFDESK_WORKERS:-1}`);
    expect(shelfdesk).not.toHaveProperty('container_name');
    expect(shelfdesk).not.toHaveProperty('ports');
  });

  test('the page is one of its own: for this machine alone, and never without a token', () => {
    const [command, ...options] = page.command!;
    const option = (name: string) => options[options.indexOf(name) + 1]!;
    expect(command).toBe('web');
    expect(page.ports).toEqual([`127.0.0.1:\${SHELFDESK_WEB_PORT:-8090}:${option('--port')}`]);
    expect(page.healthcheck!.test.join(' ')).toContain(`http://127.0.0.1:${option('--port')}/readyz`);
    const web = { host: option('--host'), token: undefined, viewerToken: undefined };
    expect(() => demandSafe(web)).toThrow('would be open to everybody');
    expect([page.environment, page.depends_on]).toEqual([shelfdesk.environment, shelfdesk.depends_on]);
  });

  test('our own have no rights, and write to no disk', () => {
    for (const one of [shelfdesk, page, sandbox]) {
      expect(one).toMatchObject({ read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] });
      expect(one).not.toHaveProperty('volumes');
      expect(one).not.toHaveProperty('user');
    }
  });

  test('all come back by themselves, and none fills the disk with its log', () => {
    for (const one of Object.values(services)) {
      expect(one).toMatchObject({ restart: 'unless-stopped', logging: { driver: 'local' } });
    }
  });
});

describe('the settings', () => {
  const environment = shelfdesk.environment!;

  test('every setting is passed on, and nothing else', () => {
    expect(Object.keys(environment).toSorted()).toEqual(Object.keys(settings).toSorted());
  });

  test('those that have no value here are passed only if they are set: empty may mean something', () => {
    const here = Object.keys(environment).filter(name => environment[name] !== null);
    expect(here).toEqual(['DATABASE_URL', 'REDIS_URL']);
  });

  test('with the passwords of the servers, as those have them', () => {
    const variable = (name: string) => `\${${name}:-shelfdesk}`;
    expect(postgres.environment!.POSTGRES_PASSWORD).toBe(variable('POSTGRES_PASSWORD'));
    expect(redis.command!.slice(-2)).toEqual(['--requirepass', variable('REDIS_PASSWORD')]);
    expect(redis.environment!.REDISCLI_AUTH).toBe(variable('REDIS_PASSWORD'));
    expect(environment.DATABASE_URL).toBe(
      `postgres://shelfdesk:${variable('POSTGRES_PASSWORD')}@postgres:5432/shelfdesk`,
    );
    expect(environment.REDIS_URL).toBe(`redis://:${variable('REDIS_PASSWORD')}@redis:6379`);
  });

  test('and with those of the sandbox, as the file itself shows them, are right', () => {
    const shown = read('docker-compose.yml');
    const said = (name: string) => new RegExp(`${name}=(\\S+)`).exec(shown)?.[1];
    const [url, token] = [said('HELPDESK_BASE_URL'), said('HELPDESK_TOKEN')];
    const option = (name: string) => sandbox.command![sandbox.command!.indexOf(name) + 1];
    expect([url, token]).toEqual([`http://sandbox:${option('--port')}/api/v1`, option('--token')]);
    expect(sandbox.healthcheck!.test.join(' ')).toContain(`http://127.0.0.1:${option('--port')}'`);
    const books = ['BOOKS_BASE_URL', 'BOOKS_API_KEY', 'BOOKS_USERS'].map(name => [name, said(name)] as const);
    const config = readConfig(join(root, 'docs'), {
      HELPDESK_BASE_URL: url,
      HELPDESK_TOKEN: token,
      ...Object.fromEntries(books),
    });
    expect(config.helpdesk).toEqual({ baseUrl: new URL(url!), token });
    expect(config.books).toMatchObject({
      baseUrl: new URL(`http://sandbox:${option('--port')}/books/v1`),
      apiKey: 'sandbox-books-key',
    });
    expect(read('docs/how-to/run-in-production.md')).toContain(
      `HELPDESK_BASE_URL=${url} HELPDESK_TOKEN=${token} docker compose`,
    );
  });
});

describe('the servers', () => {
  test('are reached from this machine only', () => {
    expect([postgres.ports, redis.ports]).toEqual([['127.0.0.1:5432:5432'], ['127.0.0.1:6379:6379']]);
    expect(sandbox).not.toHaveProperty('ports');
  });

  test('PostgreSQL makes the role of the program where its volume is new, as install.md says', () => {
    expect(postgres.configs).toEqual([
      { source: 'program_role', target: '/docker-entrypoint-initdb.d/program_role.sh' },
    ]);
    const { content } = configs.program_role;
    const [, role] = /^```sql\n(create role shelfdesk .*?)^```$/ms.exec(read('docs/how-to/install.md'))!;
    expect(content).toContain(role!.replace("'…'", ":'password'"));
    expect(content).toContain('alter role postgres password null;');
    expect(postgres.healthcheck!.test.at(-1)).toContain('--username shelfdesk --dbname shelfdesk');
  });

  test('keep what they have', () => {
    expect([postgres.volumes, redis.volumes]).toEqual([['postgres:/var/lib/postgresql'], ['redis:/data']]);
    expect(Object.keys(volumes)).toEqual(['postgres', 'redis']);
  });

  test('Redis forgets nothing', () => {
    const command = redis.command!.join(' ');
    expect(command).toContain('--appendonly yes');
    expect(command).toContain('--maxmemory-policy noeviction');
  });
});
