/** Two sources may each have a stream of one name: their positions, runs, rejects and pauses stay apart. */
import { beforeEach, expect, test } from 'vitest';
import { settle } from '../../../src/engine/commit/rejects.ts';
import { readPosition, register } from '../../../src/engine/coverage/coverage.ts';
import { transaction } from '../../../src/engine/database/pool.ts';
import type { StreamKey } from '../../../src/engine/database/stream-key.ts';
import { pause, resume } from '../../../src/engine/runs/operations.ts';
import { pausedOf } from '../../../src/engine/runs/pauses.ts';
import { openRun } from '../../../src/engine/runs/runs.ts';
import { at, type Scripted, scripted, second, take } from '../../support/scripted.ts';

const ours = 'helpdesk.users';
const theirs = 'crm.users';
const me = { account: 'default', who: 'ada@desk' };

let s: Scripted;
beforeEach(async () => {
  s = await scripted();
  await s.rows(`insert into sync.streams (source, stream, place, one_reader) values ('crm', 'users', 100, false)`);
  const lists = [ours, theirs].map(stream => ({ stream: stream as StreamKey, list: 'default' }));
  await register(s.pool, { account: 'default', sinceMs: 0 }, lists, at(0));
  return () => s[Symbol.asyncDispose]();
});

const status = (column: string) =>
  s.rows(`select stream_key, source, ${column} as value from sync.status where stream = 'users' order by 1`);

test('positions: what one source has read says nothing of the other', async () => {
  await s.rows(
    `update sync.coverage set covered = tstzmultirange(tstzrange('1970-01-01', $1)) where stream_key = $2`,
    at(60),
    theirs,
  );
  const position = (stream: StreamKey) => readPosition(s.pool, { account: 'default', stream }, 'default');
  expect((await position(theirs)).fromMs).toBe(second(60));
  expect((await position(ours)).firstLoad).toBe(true);
  expect(await status('complete_through')).toEqual([
    { stream_key: theirs, source: 'crm', value: at(60) },
    { stream_key: ours, source: 'helpdesk', value: null },
  ]);
});

test('runs: one run reads both, each under a token of its own', async () => {
  const now = at(0);
  const run = await transaction(s.pool, client =>
    openRun(client, { account: 'default', kind: 'sync', streams: [ours, theirs], opener: 0 }, now),
  );
  await take(s.pool, { account: 'default', run, stream: theirs }, at(1));
  expect(
    await s.rows('select source, stream, token, state from sync.stored_run_streams where run_id = $1 order by 1', run),
  ).toEqual([
    { source: 'crm', stream: 'users', token: 1, state: 'running' },
    { source: 'helpdesk', stream: 'users', token: 0, state: 'waiting' },
  ]);
});

test('rejects: a record of one source clears none of the other', async () => {
  const settled = (stream: StreamKey, stored: string[], rejected: string[]) =>
    transaction(s.pool, client => {
      const rejects = rejected.map(id => ({ recordId: id, askId: id, reason: 'why', payload: '{}' }));
      const at = { nowMs: second(1), asOfMs: second(1) };
      return settle({ client, claim: { account: 'default', stream }, at }, { stored, rejects, filter: undefined });
    });
  await settled(ours, [], ['u1']);
  await settled(theirs, [], ['u1']);
  await settled(ours, ['u1'], []);
  expect(await status('open_rejects')).toMatchObject([{ value: 1 }, { value: 0 }]);
});

test('pauses: a key pauses one of two streams of the same short name, and the short name alone is refused', async () => {
  await expect(pause(s.pool, { ...me, stream: 'users' }, at(1))).rejects.toMatchObject({
    message: 'more than one source has a stream users',
    remedy: 'Choose from: helpdesk.users, crm.users.',
  });
  await pause(s.pool, { ...me, stream: theirs }, at(1));
  expect(await pausedOf(s.pool, 'default')).toMatchObject([{ stream: theirs }]);
  expect(await status('state')).toMatchObject([{ value: 'paused' }, { value: 'never_synced' }]);
  await pause(s.pool, { ...me, stream: ours }, at(1));
  await resume(s.pool, { ...me, stream: theirs }, at(2));
  expect(await pausedOf(s.pool, 'default')).toMatchObject([{ stream: ours }]);
});

test('SQL of people takes a key, and a short name that one source has', async () => {
  const keyOf = async (name: string) => (await s.rows('select sync.key_of($1) as key', name))[0]!.key;
  expect(await Promise.all(['users', 'customers', theirs].map(keyOf))).toEqual([null, 'helpdesk.customers', theirs]);
  const require = (name: string) => s.rows('select sync.require_complete($1, $2, now())', 'default', name);
  await expect(require('users')).rejects.toMatchObject({
    message: 'more than one source has a stream users',
    hint: 'Name one of: helpdesk.users, crm.users.',
  });
  await expect(require(theirs)).rejects.toThrow('was never read');
});
