/**
 * docker-compose.yml as people start it, with the sandbox as the help desk: healthy, mirroring, also with two workers, and
 * down again without anybody being killed.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readCompose } from '../support/compose.ts';
import { describeOnDocker, docker, patience, root } from '../support/docker.ts';

const { services } = readCompose();
const project = `shelfdesk-test-${randomBytes(4).toString('hex')}`;

/** Beside whatever else of Shelfdesk is on this machine: an image of its own, and no ports, which may be taken. */
const apart = `
services:
  shelfdesk: { image: ${project} }
  page: { image: ${project}, ports: !reset [] }
  sandbox: { image: ${project} }
  postgres: { ports: !reset [] }
  redis: { ports: !reset [] }
`;

const settings = {
  HELPDESK_BASE_URL: 'http://sandbox:8080/api/v1',
  HELPDESK_TOKEN: 'sandbox',
  SHELFDESK_WEB_TOKEN: 'operators-hush-hush',
};

describeOnDocker('docker compose up', () => {
  let folder: string;

  const compose = (...args: string[]) => {
    const files = ['--file', join(root, 'docker-compose.yml'), '--file', join(folder, 'apart.yml')];
    // An empty file, so that the project's own .env is not read.
    const where = [
      '--project-name',
      project,
      ...files,
      '--env-file',
      join(folder, 'none.env'),
      '--profile',
      'sandbox',
      '--profile',
      'page',
    ];
    return docker(['compose', ...where, ...args], settings);
  };

  /** What the containers said, if it goes wrong. */
  const up = (...args: string[]) =>
    compose('up', '--wait', ...args).catch(async error => {
      throw new Error(`${error.message}\n${await compose('logs', '--no-color', '--tail', '100')}`);
    });

  const containers = async (service: string) =>
    (await compose('ps', '--all', '--quiet', service)).split('\n').filter(Boolean);
  const inspect = (format: string, ids: string[]) => docker(['inspect', '--format', format, ...ids]);
  const ask = (query: string) =>
    compose('exec', '-T', 'postgres', 'psql', '-U', 'shelfdesk', '-d', 'shelfdesk', '-Atc', query);

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'shelfdesk-compose-'));
    await writeFile(join(folder, 'apart.yml'), apart);
    await writeFile(join(folder, 'none.env'), '');
    await up('--build');
  }, patience.timeout);

  afterAll(async () => {
    await compose('down', '--volumes', '--remove-orphans');
    await docker(['image', 'rm', '--force', project]);
    await rm(folder, { recursive: true });
  }, patience.timeout);

  test('everything reports healthy', async () => {
    for (const service of Object.keys(services)) {
      expect(await inspect('{{.State.Health.Status}}', await containers(service)), service).toBe('healthy');
    }
  });

  test('the tickets of the sandbox come into the warehouse by themselves', patience, async () => {
    const command = services.sandbox.command!;
    const tickets = Number(command[command.indexOf('--tickets') + 1]);
    // Some are deleted and some are new, since the sandbox lives. A schedule begins each minute.
    const mirrored = async () => Number(await ask('select count(*) from helpdesk.tickets'));
    await expect.poll(mirrored, { timeout: 300_000, interval: 1000 }).toBeGreaterThan(tickets * 0.9);
    const complete = () => ask("select complete_through is not null from sync.status where stream = 'tickets'");
    await expect.poll(complete, { timeout: 300_000, interval: 1000 }).toBe('t');
  });

  test('a second worker comes beside the first, and both are healthy', patience, async () => {
    const [first] = await containers('shelfdesk');
    await up('--scale', 'shelfdesk=2', '--no-recreate', '--no-build');
    const both = await containers('shelfdesk');
    expect(both).toHaveLength(2);
    expect(both).toContain(first);
    expect(await inspect('{{.State.Health.Status}}', both)).toBe('healthy\nhealthy');
  });

  test('all stop when they are asked to: nobody is killed, nobody was started again', patience, async () => {
    const ours = (await Promise.all(['shelfdesk', 'page', 'sandbox'].map(containers))).flat();
    await compose('stop');
    const ends = (await inspect('{{.State.ExitCode}} {{.RestartCount}}', ours)).split('\n');
    expect(ends).toEqual(ours.map(() => expect.stringMatching(/^(0|130) 0$/)));
  });
});
