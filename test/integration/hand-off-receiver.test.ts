/** The receiver that starts dbt (dbt/hand-off/receive.py), with another command in place of dbt. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { headersOf } from '../../src/ops/hand-offs/message.ts';
import { eventually } from '../support/desk.ts';
import { root } from '../support/docker.ts';
import type {} from '../support/python.ts';
import { handOffSecret } from '../support/receiver.ts';

const isThere = spawnSync('python3', ['--version']).status === 0;

/** Starts it with this command; `env` as its settings. */
async function started(folder: string, args: readonly string[], env: Record<string, string> = {}) {
  const receiver = spawn('python3', [join(root, 'dbt/hand-off/receive.py'), ...args], {
    cwd: folder,
    env: { PATH: process.env.PATH, PORT: '0', HANDOFF_SECRET: handOffSecret, ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let text = '';
  receiver.stdout!.on('data', part => {
    text += part;
  });
  const url = await eventually(() => {
    const [found] = /http:\/\/\S+/.exec(text) ?? [];
    expect(found).toBeDefined();
    return found!;
  });
  return { receiver, url, said: () => text };
}

interface Change {
  body?: string;
  ageSeconds?: number;
  secret?: string;
  signature?: string;
}

async function post(url: string, run: number, change: Change = {}): Promise<number> {
  const id = `handoff_a_${run}`;
  const data = { complete_through: `2026-01-0${run}T00:00:00.000Z` };
  const body = JSON.stringify({ type: 'hand_off.complete', id, data });
  const nowMs = Date.now() - (change.ageSeconds ?? 0) * 1000;
  const headers = headersOf(change.secret ?? handOffSecret, id, body, nowMs);
  if (change.signature) headers['webhook-signature'] = change.signature;
  return (await fetch(url, { method: 'POST', headers, body: change.body ?? body })).status;
}

test('it verifies, keeps what it answers, runs its command once for each id, and again for what a kill left', async context => {
  if (!isThere) {
    context.task.meta.lacksPython = true;
    context.skip('there is no python3');
  }
  const folder = await mkdtemp(join(tmpdir(), `shelfdesk-tests-${process.pid}-`));
  const gate = join(folder, 'gate');
  const told = async () => (await readFile(join(folder, 'ran'), 'utf8').catch(() => '')).split('\n').filter(Boolean);
  let receiver: ChildProcess | undefined;
  const start = async (): Promise<string> => {
    const line = `echo "$COMPLETE_THROUGH$HANDOFF_SECRET" >> ran; test -e gate`;
    const { receiver: its, url } = await started(folder, ['sh', '-c', line]);
    receiver = its;
    return url;
  };
  try {
    const first = await start();
    expect(await post(first, 1, { body: '{"type":"hand_off.complete"}' })).toBe(401);
    expect(await post(first, 1, { ageSeconds: 3600 })).toBe(401);
    expect(await post(first, 1, { secret: `whsec_${Buffer.alloc(32, 1).toString('base64')}` })).toBe(401);
    expect(await post(first, 1, { signature: 'v1,\u00fc' })).toBe(401);
    expect((await fetch(first, { method: 'POST' })).status).toBe(401);
    expect(await post(first, 1)).toBe(204);
    // Without the gate the command fails, and the message is kept. The receiver is killed.
    await eventually(async () => expect(await told()).toEqual(['2026-01-01T00:00:00.000Z']));
    receiver!.kill('SIGKILL');
    await writeFile(gate, '');
    const second = await start();
    await eventually(async () => expect(await told()).toHaveLength(2));
    expect(await post(second, 1)).toBe(204);
    expect(await post(second, 2)).toBe(204);
    await eventually(async () =>
      expect((await told()).slice(1)).toEqual(['2026-01-01T00:00:00.000Z', '2026-01-02T00:00:00.000Z']),
    );
  } finally {
    receiver?.kill('SIGKILL');
    await rm(folder, { recursive: true });
  }
});

test('a command that is missing, and what is no message, end nothing; the oldest that waits counts', async context => {
  if (!isThere) {
    context.task.meta.lacksPython = true;
    context.skip('there is no python3');
  }
  const folder = await mkdtemp(join(tmpdir(), `shelfdesk-tests-${process.pid}-`));
  // Without its padding, as Standard Webhooks allows it.
  const unpadded = handOffSecret.replace(/=+$/, '');
  const { receiver, url, said } = await started(folder, ['./missing'], { HANDOFF_SECRET: unpadded });
  try {
    expect(await post(url, 2)).toBe(204);
    await eventually(() => expect(said()).toContain('it could not run: '));
    await writeFile(join(folder, 'missing'), '#!/bin/sh\necho "$COMPLETE_THROUGH" >> ran\n', { mode: 0o755 });
    await writeFile(join(folder, 'hand-offs', 'handoff_0.json'), 'no JSON');
    expect(await post(url, 3)).toBe(204);
    await eventually(() => expect(said().match(/it could not run/g)).toHaveLength(2));
    await rm(join(folder, 'hand-offs', 'handoff_0.json'));
    expect(await post(url, 4)).toBe(204);
    await eventually(async () =>
      expect(await readFile(join(folder, 'ran'), 'utf8')).toBe('2026-01-02T00:00:00.000Z\n'),
    );
  } finally {
    receiver.kill('SIGKILL');
    await rm(folder, { recursive: true });
  }
});
