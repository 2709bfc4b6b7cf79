/** The guide of systemd, as far as it can be judged without being root: its units, its shell, its settings and its statements. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { readConfig } from '../../src/app/config.ts';
import { root } from '../support/docker.ts';
import { program } from '../support/program.ts';

const read = (name: string): string => readFileSync(join(root, 'docs/how-to', name), 'utf8');
const blocks = [...read('run-with-systemd.md').matchAll(/^```text\n([\s\S]*?)^```$/gm)].map(([, text]) => text!);
const blockWith = (words: string): string => blocks.find(text => text.includes(words))!;
const units = ['shelfdesk.service', 'shelfdesk-page.service'];

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'shelfdesk-systemd-'));
  onTestFinished(() => rmSync(made, { recursive: true }));
  return made;
}

test('the units run commands of ours, as a user without rights, and the guide names them', async () => {
  const there = (await program()).commands.map(command => command.name());
  for (const name of units) {
    const unit = read(name);
    const [, command] = /^ExecStart=\/opt\/shelfdesk\/src\/main\.ts ([a-z]+)$/m.exec(unit)!;
    expect(there).toContain(command);
    for (const line of ['User=shelfdesk', 'EnvironmentFile=/etc/shelfdesk/environment', 'NoNewPrivileges=yes'])
      expect(unit).toContain(`\n${line}\n`);
    expect(blockWith('daemon-reload')).toContain(`docs/how-to/${name}`);
  }
});

const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0;
test.skipIf(!hasSystemd)('systemd accepts the units', () => {
  const made = folder();
  for (const name of units)
    writeFileSync(
      join(made, name),
      read(name)
        .replaceAll('/opt/shelfdesk', root.replace(/\/$/, ''))
        .replace('User=shelfdesk', `User=${userInfo().username}`),
    );
  const { status, stderr } = spawnSync('systemd-analyze', ['verify', ...units.map(name => join(made, name))], {
    encoding: 'utf8',
  });
  // What the units of other packages say is theirs.
  const said = stderr.split('\n').filter(line => line !== '' && !/^\/(usr\/)?lib\/systemd\//.test(line));
  expect({ status, said }).toEqual({ status: 0, said: [] });
});

test('bash reads each block', () => {
  expect(blocks.length).toBeGreaterThan(9);
  for (const text of blocks) execFileSync('bash', ['-n', '-c', text], { stdio: 'pipe' });
});

test('the file of settings is what the program reads, and nobody else can', () => {
  const made = folder();
  const script = blockWith('/etc/shelfdesk/environment)')
    .replaceAll('/etc/shelfdesk', join(made, 'etc'))
    .replace('TOKEN=…', 'TOKEN=x');
  execFileSync('bash', ['-euc', `password=0123abcd\n${script}`]);
  const file = join(made, 'etc/environment');
  expect(execFileSync('stat', ['--format=%a', file], { encoding: 'utf8' })).toBe('600\n');
  const given = parseEnv(readFileSync(file, 'utf8')) as Record<string, string>;
  const { databaseUrl, redisUrl, alarm } = readConfig(made, given);
  expect(databaseUrl).toBe('postgres://shelfdesk:0123abcd@127.0.0.1:5432/shelfdesk');
  expect([redisUrl, alarm]).not.toContain(undefined);
  expect(given.SHELFDESK_WEB_TOKEN).toMatch(/^[0-9a-f]{48}$/);
});

test('the line of cron reads these settings, and runs a backup as the user of the service', () => {
  const made = folder();
  const [line] = /^30 4 .*$/m.exec(blockWith('cron.d'))!;
  const [, command] = /^30 4 \* \* \* root (.*)$/.exec(line)!;
  writeFileSync(join(made, 'environment'), 'DATABASE_URL=postgres://x\n');
  const fake = join(made, 'setpriv');
  writeFileSync(fake, '#!/bin/sh\necho "$DATABASE_URL" "$@"\n', { mode: 0o755 });
  const script = command!.replaceAll('\\%', '%').replace('/etc/shelfdesk', made).replace('/opt/shelfdesk', made);
  const said = execFileSync('sh', ['-c', script], { encoding: 'utf8', env: { PATH: `${made}:${process.env.PATH}` } });
  expect(said).toMatch(
    /^postgres:\/\/x --reuid=shelfdesk --regid=shelfdesk --clear-groups src\/main\.ts db backup \/var\/backups\/shelfdesk\/[A-Z][a-z]+day\.gz --force\n$/,
  );
});
