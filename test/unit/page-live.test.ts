/** Who looks at the same is told of one reading, and nothing is read while nobody looks; on a clock that the test moves. */
import { expect, test } from 'vitest';
import type { Clock } from '../../src/clock.ts';
import type { LakeStatus } from '../../src/lake/state.ts';
import { type Listener, type Look, makeLive, mostListeners } from '../../src/ops/page/live.ts';
import { fleetParts } from '../../src/ops/page/render/fleet.ts';
import { graph } from '../../src/ops/page/render/graph.ts';
import { html, lasting } from '../../src/ops/page/render/html.ts';
import { lakeLine } from '../../src/ops/page/render/lake.ts';
import { sentence, type Told } from '../../src/ops/page/render/sentence.ts';

/** Each sleep ends when the test says so; then what follows has been done. */
function scripted() {
  let wake: (() => void)[] = [];
  let nowMs = 0;
  const asked: number[] = [];
  const clock: Clock = {
    now: () => nowMs,
    monotonic: () => nowMs,
    sleep: (ms, signal) =>
      new Promise((done, failed) => {
        asked.push(ms);
        signal?.addEventListener('abort', () => failed(signal.reason));
        wake.push(done);
      }),
  };
  const pass = () => new Promise(done => setImmediate(done));
  return {
    clock,
    asked,
    pass,
    takes: (ms: number) => {
      nowMs += ms;
    },
    async tick(ms = 2000) {
      nowMs += ms;
      for (const done of wake.splice(0)) done();
      wake = [];
      await pass();
    },
  };
}

const refresh = async () => {};

function listener(role: Listener['role'] = 'viewer', have: [string, string][] = []) {
  const told: unknown[] = [];
  const one = {
    ...{ role, told, have: new Map(have), stays: true, ended: false },
    send: (event: string, data: unknown) => void told.push(event === 'part' ? (data as { html: string }).html : event),
    beat: () => void told.push('beat'),
    mayStay: () => one.stays,
    end: () => {
      one.ended = true;
    },
  };
  return one;
}

test('what has changed is sent, once for each who looks, from one reading', async () => {
  const { clock, tick, pass } = scripted();
  const live = makeLive(clock, { failed: String, refresh });
  let looks = 0;
  let words = 'a';
  const look: Look = async () => {
    looks++;
    return role => ({ now: html`${role} ${words}`, same: html`same` });
  };
  const [one, other, operator] = [listener(), listener(), listener('operator')];
  for (const who of [one, other, operator]) expect(live.listen('x', look, who)).toBe(true);
  await pass();
  expect([looks, one.told, other.told, operator.told]).toEqual([
    1,
    ['viewer a', 'same'],
    ['viewer a', 'same'],
    ['operator a', 'same'],
  ]);
  await tick();
  words = 'b';
  await tick();
  expect([looks, one.told.slice(2), operator.told.slice(2)]).toEqual([3, ['viewer b'], ['operator b']]);
  live.leave(one);
  live.leave(other);
  live.leave(operator);
  await tick();
  await tick();
  expect(looks).toBe(3);
  // And again, when somebody comes.
  const late = listener();
  live.listen('x', look, late);
  await pass();
  expect([looks, late.told]).toEqual([4, ['viewer b', 'same']]);
  await live.close();
  expect(late.ended).toBe(true);
  expect(live.listen('x', look, listener())).toBe(false);
});

test('a warehouse that takes long is asked less often; one that is away is waited for', async () => {
  const { clock, tick, pass, takes, asked } = scripted();
  const live = makeLive(clock, { failed: () => 'it is away', refresh });
  let fails = false;
  const look: Look = async () => {
    takes(3000);
    if (fails) throw new Error('gone');
    return () => ({ now: html`a` });
  };
  const one = listener();
  live.listen('x', look, one);
  await pass();
  expect(asked).toEqual([15_000]);
  fails = true;
  await tick(15_000);
  fails = false;
  await tick(15_000);
  expect(one.told).toEqual(['a', 'away', 'beat', 'back', 'beat']);
  one.stays = false;
  await tick(15_000);
  expect(one.ended).toBe(true);
  await live.close();
});

test('no more than some hundreds are told', () => {
  const { clock } = scripted();
  const live = makeLive(clock, { failed: String, refresh });
  const never: Look = () => new Promise(() => {});
  const all = Array.from({ length: mostListeners }, () => listener());
  expect(all.every(one => live.listen('x', never, one))).toBe(true);
  expect(live.listen('y', never, listener())).toBe(false);
  live.leave(all[0]!);
  expect(live.listen('y', never, listener())).toBe(true);
});

const at = new Date('2026-11-22T16:09:00Z');
const stream = (name: string, more: Partial<Told['streams'][number]> = {}): Told['streams'][number] => ({
  ...{
    account: 'a',
    ...{ stream: name, name },
    source: ['shelves', 'volumes'].includes(name) ? 'books' : 'helpdesk',
    state: 'fresh',
    behind_seconds: 5,
    target_seconds: 60,
  },
  ...{
    complete_from: null,
    complete_through: new Date('2026-11-22T16:04:30Z'),
    waiting: 0,
    gap_count: 0,
    open_rejects: 0,
  },
  ...{ latency_p95_seconds: null, deferred_until: null, unchecked_since: null },
  ...more,
});
test('in the table of all accounts what was never read is not 0 s behind', () => {
  const behind = (...streams: Told['streams'][number][]) => {
    const line = { account: 'a', streams, problems: { critical: 0, warning: 0, info: 0 }, workers: 1 };
    const { accounts } = fleetParts({ at, accounts: [line], refused: [], lake: undefined }, () => null);
    return /<td data-head="behind" class="n">(.*?)<\/td>/.exec(accounts!.html)![1];
  };
  const unread = stream('users', { behind_seconds: null });
  expect([behind(unread), behind(unread, stream('tickets'))]).toEqual(['–', lasting(5)]);
});

test('the lake has one line: empty, as of when and what is pending, and why its last export failed', () => {
  const lake = {
    ...{ path: '/lake', personal: false, keep_days: 30, usual_seconds: 4, behind_seconds: 60 },
    ...{ moment: new Date('2026-11-22T16:03:30Z'), pending: 1, last_error: 'no <room>' },
  };
  const line = ({ state = 'failing', ...more }: Partial<LakeStatus>) =>
    lakeLine({ ...lake, ...more, state }, at)!.html.replaceAll(/<time[^>]*>/g, '');
  expect(lakeLine(undefined, at)).toBeNull();
  expect(line({ state: 'empty', moment: null })).toContain('The lake is empty.');
  expect(line({ state: 'current' })).toMatch(
    /^<p class="lake">The lake has the warehouse as of 16:03<.*>; 1 change is pending.<\/p>$/,
  );
  expect(line({ pending: 1200 })).toMatch(
    /; 1,200 changes are pending\. .*Its last export failed: <bdi>no &lt;room&gt;/,
  );
});

const never = { complete_through: null };
const lastNight = { complete_through: new Date('2026-11-22T02:00:00Z') };
const all = (...more: Told['streams'][number][]) => [stream('customers'), stream('tickets'), ...more];

test.for<[string, Partial<Told>]>([
  ['Nothing is in yet.', { streams: [] }],
  ['Nothing is in yet.', { streams: [stream('tickets', never), stream('messages', never)] }],
  ['Everything up to 16:04 is in.', { streams: all(stream('messages')) }],
  [
    'Everything up to 16:04 is in; the messages of 212 tickets follow in 5 min.',
    { streams: all(stream('messages', { waiting: 212 })) },
  ],
  [
    'Everything up to 16:04 is in; the messages of one ticket wait until it is resumed.',
    { streams: all(stream('messages', { waiting: 1, state: 'paused' })) },
  ],
  [
    'Everything up to 16:04 is in; the messages of 1,212 tickets wait for a worker.',
    { streams: all(stream('messages', { waiting: 1212 })), works: false },
  ],
  ['Everything up to 16:04 is in; one volume follows in 5 min.', { streams: all(stream('volumes', { waiting: 1 })) }],
  ['Everything up to 16:04 is in (users up to 02:00).', { streams: [stream('users', lastNight), ...all()] }],
  [
    'Everything up to 16:04 is in (users and shelves up to 02:00).',
    { streams: [stream('users', lastNight), stream('shelves', lastNight), ...all()] },
  ],
  [
    'Of crm.users everything up to 02:00 is in; helpdesk.users has still to be read.',
    {
      streams: [
        stream('users', { name: 'crm.users', ...lastNight }),
        stream('users', { name: 'helpdesk.users', ...never }),
      ],
    },
  ],
  [
    'Everything up to 16:04 is in (crm.users up to 02:00).',
    { streams: [stream('users', { name: 'crm.users', ...lastNight }), ...all()] },
  ],
  [
    'Everything from 1 May 2021, 00:00 up to 16:04 is in.',
    { streams: [stream('customers'), stream('tickets', { complete_from: new Date('2021-05-01T00:00:00Z') })] },
  ],
  ['Everything up to 02:00 is in.', { streams: [stream('shelves', lastNight)] }],
  [
    'Everything up to 1 May 2021, 00:00 is in (2 gaps above it).',
    {
      streams: [
        stream('customers'),
        stream('tickets', { gap_count: 2, complete_through: new Date('2021-05-01T00:00:00Z') }),
      ],
    },
  ],
  [
    'Of users and customers everything up to 16:04 is in; tickets has still to be read.',
    { streams: [stream('users'), stream('customers'), stream('tickets', never)] },
  ],
])('the sentence: %s', ([words, told]) => {
  const whole = { at, streams: [], works: true, paused: false, timeLeft: () => 300, ...told };
  expect(
    sentence(whole)
      .html.replaceAll(/<[^>]*>/g, '')
      .replaceAll('\u00a0', ' '),
  ).toBe(words);
});

test.each([
  { limit: 100, used: 60, most: 100, isAbove: false },
  { limit: 1_000_000, used: 60, most: 75, isAbove: true },
  { limit: 1_000_000, used: 0, most: 1_000_000, isAbove: false },
])('a graph of $used credits at a limit of $limit reaches up to $most', ({ limit, used, most, isAbove }) => {
  const lanes = { interactive: 0, fresh: used, backfill: 0, sweep: 0 };
  const bucket = { begins: at, minutes: 1, ...lanes, others: 0, refused: 0, credit_limit: limit };
  const drawn = graph(Array(60).fill(bucket), { periodMs: 60_000, limit }, 'hour', { at, link: '/' }).html;
  expect(drawn).toContain(`data-most="${most}"`);
  expect(drawn.includes('lies above the graph')).toBe(isAbove);
  // What was used is drawn, and nothing beyond the top.
  expect([...drawn.matchAll(/[MV]\d* ?(-\d)/g)]).toEqual([]);
});
