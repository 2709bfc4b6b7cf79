/** `runs`, `pause` and `resume` at a terminal, and what a command says whose run is paused or canceled. */

import { describe, expect, test } from 'vitest';
import { addPause, addResume } from '../../src/cli/work/pause.ts';
import { addRuns, runRetry } from '../../src/cli/work/runs.ts';
import { finish } from '../../src/engine/runs/claims.ts';
import { cancelRun, pause, resume } from '../../src/engine/runs/operations.ts';
import { claimSlot } from '../../src/engine/runs/slots.ts';
import { Retry } from '../../src/errors.ts';
import { settingsFor } from '../support/cli.ts';
import { command } from '../support/command.ts';
import { eventually, openDesk } from '../support/desk.ts';
import { here } from '../support/here.ts';
import { keyOf } from '../support/keys.ts';
import { long } from '../support/long.ts';
import { configFor, differences, jobs, syncOnce } from '../support/mirror.ts';
import { at, open, scripted, take } from '../support/scripted.ts';

const me = { account: 'default', who: 'ada@desk' };
const nothing = { wait: 0, active: 0, delayed: 0, failed: 0, completed: 0 };

test('runs are listed, shown, and canceled; streams are paused and resumed', async () => {
  await using s = await scripted();
  const config = configFor(s.url, { url: 'https://desk.example/api/v1', token: 'none' });
  const runs = (...args: string[]) => command(addRuns, config, 'runs', ...args);
  const json = async (...args: string[]) => JSON.parse((await runs(...args, '--json')).stdout);
  expect(await runs('list')).toEqual({ code: 0, stdout: '', stderr: 'No runs yet.\n' });

  const plan = {
    schedule: 'nightly',
    kind: 'nightly',
    streams: ['helpdesk.users', 'helpdesk.tickets'],
    unless: [],
  } as const;
  const night = (await claimSlot(s.pool, 'default', plan, { slot: at(0), opener: 7, now: at(0) })) as { run: number };
  const work = (stream: string) => take(s.pool, { account: 'default', run: night.run, stream: keyOf(stream) }, at(1));
  await finish(s.pool, await work('users'), at(30), { credits: 3 });
  await finish(s.pool, await work('tickets'), at(90), { error: new Retry('no reply'), credits: 4 });
  await s.rows(`update sync.stored_runs set forecast = '{"credits": 6}'`);
  const second = await open(s.pool, ['customers', 'tickets'], at(100), { kind: 'backfill' });
  expect(await json('list')).toMatchObject([
    { run: second, kind: 'backfill', state: 'interrupted', streams: ['customers', 'tickets'], finished_at: null },
    {
      ...{ run: night.run, kind: 'nightly', state: 'failed', seconds: 90, credits: 7, forecast_credits: 6 },
      ...{ error: 'no reply', started_at: at(0).toISOString(), streams: ['users', 'tickets'] },
    },
  ]);
  const table = await runs('list');
  expect(table.stdout).toMatch(/^ *run +kind +state +started +took .* credits +forecast +error/);
  expect(table.stdout).toMatch(
    /nightly +failed +2026-01-01T00:00:00Z +90 s|nightly +failed +2026-01-01T00:00:00Z +2 min/,
  );
  expect((await json('list', '--kind', 'nightly')).map((one: { run: number }) => one.run)).toEqual([night.run]);
  expect((await json('list', '--state', 'failed')).map((one: { run: number }) => one.run)).toEqual([night.run]);
  expect((await json('list', '--limit', '1')).map((one: { run: number }) => one.run)).toEqual([second]);

  expect(await json('show', String(night.run))).toMatchObject({
    ...{ run: night.run, schedule: 'nightly', slot: at(0).toISOString(), opened_by: 7, host: null, retried_by: [] },
    streams: [
      { stream: 'users', state: 'completed', credits: 3, paused: false },
      {
        stream: 'tickets',
        state: 'failed',
        error: 'no reply',
        remedy: expect.stringContaining('retried automatically'),
      },
    ],
    operations: [],
  });
  const shown = await runs('show', String(night.run));
  expect(shown.stdout).toContain('the schedule: nightly of 2026-01-01T00:00Z, process 7, no longer running');
  expect(shown.stdout).toMatch(/tickets: no reply\. The request is retried/);
  expect(await runs('show', '99')).toMatchObject({ code: 1, stderr: expect.stringContaining('has no run 99') });

  await expect(runs('list', '--kind', 'freshh')).rejects.toThrow('Allowed choices are sync, fresh,');

  const paused = await command(addPause, config, 'pause', 'default', 'customers', 'tickets', '--reason', 'they move');
  expect(paused.stdout).toMatch(/default +customers .* they move\ndefault +tickets .* they move\n/);
  expect((await json('list', '--state', 'paused')).map((one: { run: number }) => one.run)).toEqual([second]);
  expect((await runs('show', String(second))).stdout).toContain('tickets is paused: resume with `npx shelfdesk resume');
  expect(await command(addPause, config, 'pause', 'tickets')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('tickets is paused already'),
  });
  const left = await command(addResume, config, 'resume', 'tickets', '--json');
  expect(JSON.parse(left.stdout)).toMatchObject({ account: 'default', paused: [{ stream: 'customers' }] });
  expect(await command(addResume, config, 'resume', 'customers')).toEqual({
    ...{ code: 0, stdout: '' },
    stderr: "Nothing of account 'default' is paused.\n",
  });

  const canceled = await runs('cancel', String(second));
  expect(canceled).toMatchObject({ code: 0, stdout: `Run ${second} (backfill) is canceled: customers, tickets.\n` });
  expect(await runs('cancel', String(second))).toMatchObject({ code: 2, stderr: expect.stringContaining('is over') });
  const after = await runs('show', String(second));
  expect(after.stdout).toMatch(/customers: canceled by \S+@\S+\. To read it after all, run/);
  expect(after.stdout).toMatch(new RegExp(`\\S+@\\S+ +cancel ${second} +done\\n.* +cancel ${second} +refused: run`));
});

describe('a command whose run is', () => {
  test(
    'paused reports the pause and waits; canceled, it reports that, exits with 130, and leaves no job',
    long,
    async () => {
      await using desk = await openDesk({ redisUrl: undefined, tickets: 60 });
      const few = { HELPDESK_CREDITS: '40', HELPDESK_PERIOD_SECONDS: '3600' };
      const sync = here(['sync', '--json'], { ...settingsFor(desk.url, desk.sandbox), ...few });
      await eventually(() => expect(desk.sandbox.requests.some(({ path }) => path.startsWith('/tickets/'))).toBe(true));
      await pause(desk.pool, { ...me, stream: 'messages', reason: 'they move' }, new Date());
      await eventually(() =>
        expect(sync.stderr()).toMatch(
          /messages is paused, since .*Z by ada@desk \(they move\); this command waits: resume with `npx shelfdesk resume messages`/,
        ),
      );
      const [run] = await desk.rows('select id, state from sync.stored_runs');
      // The command works itself: its job is in its own process, and its claim in the row.
      const messages = async () => (await desk.progress(run!.id as number)).streams.messages;
      const free = { worker: null, job: null };
      await eventually(async () => expect(await messages()).toMatchObject({ state: 'waiting', ...free }));
      expect(run).toMatchObject({ state: 'running' });
      await resume(desk.pool, { ...me, stream: 'messages' }, new Date());
      await eventually(async () => expect(await messages()).toMatchObject({ state: 'running', token: 2 }));
      await cancelRun(desk.pool, { ...me, run: run!.id as number }, new Date());
      const { code, stdout, stderr } = await sync.finished;
      expect(code, stderr).toBe(130);
      expect(JSON.parse(stdout)).toMatchObject({ run: run!.id, state: 'interrupted', exitCode: 130 });
      expect(stderr).toContain(`messages: canceled by ada@desk. To read it after all, run \`npx shelfdesk runs retry`);
      expect(stderr).not.toContain('Run the same command again');
      const said = { error: 'canceled by ada@desk', exit_code: 130 };
      expect(await messages()).toMatchObject({ state: 'interrupted', ...said });
      expect(await desk.counts()).toEqual(nothing);
      // And it is tried again by the command, which works itself.
      const warehouse = {
        url: desk.url,
        pg: desk.pool,
        ledger: desk.pool,
        folder: undefined,
        [Symbol.asyncDispose]: async () => {},
      };
      const { signal } = new AbortController();
      const again = await runRetry(desk.config, warehouse, run!.id as number, { jobs, signal });
      expect(again).toMatchObject({ state: 'completed', exitCode: 0, streams: [{ stream: 'messages' }] });
      const ids = desk.sandbox.requests.map(({ path }) => path).filter(path => path.startsWith('/tickets/'));
      expect(new Set(ids).size).toBe(ids.length);
      expect(await differences(desk.pool, desk.sandbox.world)).toEqual([]);
    },
  );

  test('of paused streams alone is refused; where some are, they are left out', async () => {
    await using desk = await openDesk({ redisUrl: undefined, tickets: 10 });
    await pause(desk.pool, { ...me, stream: 'customers' }, new Date());
    await expect(syncOnce(desk.config, ['customers'])).rejects.toMatchObject({
      message: expect.stringMatching(/^customers is paused, since .* by ada@desk$/),
      remedy: 'Run `npx shelfdesk resume customers` first.',
      exitCode: 2,
    });
    expect((await syncOnce(desk.config)).streams.map(({ stream }) => stream)).toEqual(['users', 'tickets', 'messages']);
  });
});
