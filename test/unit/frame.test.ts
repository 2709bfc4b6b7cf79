/** The lines at the foot of a terminal, frame by frame. */
import { expect, test } from 'vitest';
import { cursor, frameOf, heightOf, type Line, percentOf, redraw } from '../../src/cli/output/frame.ts';
import { lineOf, standing } from '../../src/cli/output/progress.ts';
import type { Wait } from '../../src/engine/http/send.ts';
import type { StreamProgress } from '../../src/engine/runs/runs.ts';

const plain = (_tone: string, text: string) => text;
const stream = (more: Partial<StreamProgress>): StreamProgress => ({
  ...{
    account_id: 'default',
    stream: 'tickets',
    state: 'waiting',
    expected: null,
    carried_from: null,
    waits_for: null,
  },
  ...{ note: null, error: null, remedy: null, exit_code: null },
  ...{ seen: 0, inserted: 0, updated: 0, unchanged: 0, deleted: 0, rejected: 0, cleaned: 0, credits: 0 },
  ...more,
});
const limits = { credits: 100, periodMs: 60_000, requestsPerSecond: 6, reserve: 10 };

function lines(): Line[] {
  const users = stream({ stream: 'users', state: 'completed', seen: 12, inserted: 12, credits: 1 });
  const customers = stream({ stream: 'customers', state: 'failed', seen: 100, inserted: 100, credits: 2 });
  const tickets = stream({ state: 'running', expected: 2000, seen: 1240, inserted: 1240, credits: 14 });
  const start = { atMs: 0, credits: 0, waiting: 0 };
  const stand = standing(tickets, { waiting: 0, start, elapsedMs: 9300, limits, forecast: undefined });
  const forecast = { requests: 2000, credits: 4000, seconds: 2640 };
  return [
    lineOf(users, undefined, undefined),
    lineOf(customers, undefined, undefined),
    lineOf(tickets, stand, undefined),
    lineOf(stream({ stream: 'messages' }), undefined, forecast),
    lineOf(stream({ stream: 'shelves', waits_for: 7 }), undefined, undefined),
  ];
}

test('a line for each stream: what is over, at work with a bar, and waiting with what it is expected to take', () => {
  expect(frameOf(lines(), 100, plain)).toEqual([
    '✓ users      12 read, 12 new, 0 changed, 1 credit',
    '! customers  failed: 100 read, 100 new, 0 changed, 2 credits',
    '▸ tickets    ████████████▍░░░░░░░  62 % 1,240 of 2,000, 6 s left, 14 credits, 90 credits/min',
    '· messages   waits: about 4,000 credits, 44 min',
    '· shelves    waits for run 7',
  ]);
});

test('a narrow terminal has no bar, a very narrow one fewer words; nothing is ever wider than it is', () => {
  expect(frameOf(lines(), 50, plain)[2]).toBe('▸ tickets     62 % 1,240 of 2,000, 6 s left, 14 …');
  for (let columns = 1; columns <= 120; columns++)
    for (const line of frameOf(lines(), columns, plain))
      expect(line.length, `${columns}: ${line}`).toBeLessThanOrEqual(Math.max(1, columns - 1));
});

test('what is not all is not shown as all, and what was counted too low not as more', () => {
  expect([0, 0.005, 0.999, 1, 1.2].map(percentOf)).toEqual([0, 0, 99, 100, 100]);
  const more = stream({ state: 'running', expected: 100, seen: 130 });
  const start = { atMs: 0, credits: 0, waiting: 0 };
  const stand = standing(more, { waiting: 0, start, elapsedMs: 0, limits, forecast: undefined });
  expect(stand).toMatchObject({ share: 1, words: expect.arrayContaining(['100 of 100']) });
});

test('messages: by the tickets that wait; the time that is left never says more than the limits allow', () => {
  const messages = stream({ stream: 'messages', state: 'running', seen: 600, credits: 90 });
  const start = { atMs: 0, credits: 0, waiting: 1000 };
  // The first ninety go at once; from there on it is ninety a minute.
  const stand = standing(messages, { waiting: 955, start, elapsedMs: 8000, limits, forecast: undefined });
  expect(stand.share).toBeCloseTo(0.045);
  expect(stand.words).toEqual(['45 of 1,000 tickets', '21 min left', '90 credits', '675 credits/min']);
});

test.each([
  ['waiting for credits', 'resumes in', 31_000, 31_000, 'waiting for credits, resumes in 31 s'],
  [
    ...(['retrying (connection refused), try 4', 'next in', 12_000, 12_000] as const),
    'retrying (connection refused), try 4, next in 12 s',
  ],
  // Between two requests there is always a short one.
  ['waiting for credits', 'resumes in', 1300, 1300, undefined],
  ['waiting for credits', 'resumes in', 1300, 4300, 'waiting for credits, resumes in 1 s'],
  // A reply mostly comes soon.
  ['waiting for a reply', 'resumes within', 31_000, 300, undefined],
  ['waiting for a reply', 'resumes within', 28_000, 3000, 'waiting for a reply, resumes within 28 s'],
] as const)('a wait is said before the rest: %s, %s %i ms of %i ms', (why, ends, ms, wholeMs, said) => {
  const wait = { why, ends, ms, wholeMs, isRetry: false };
  const messages = stream({ stream: 'messages', state: 'running', seen: 600, credits: 90 });
  const start = { atMs: 0, credits: 0, waiting: 1000 };
  const { words } = standing(messages, { waiting: 955, start, elapsedMs: 8000, limits, forecast: undefined, wait });
  expect(words).toEqual([
    '45 of 1,000 tickets',
    ...(said ? [said] : []),
    '21 min left',
    '90 credits',
    '675 credits/min',
  ]);
});

test('nothing is said to be done in no time while nothing moves', () => {
  const users = stream({ stream: 'users', state: 'running' });
  const forecast = { requests: 1, credits: 1, seconds: 1 };
  const wordsOf = (elapsedMs: number, wait?: Wait) =>
    standing(users, { waiting: 0, start: { atMs: 0, credits: 0, waiting: 0 }, elapsedMs, limits, forecast, wait })
      .words;
  expect(wordsOf(0)).toEqual(['0', '0 s left', '0 credits']);
  expect(wordsOf(3000)).toEqual(['0', '0 credits']);
  const wait = { why: 'waiting for a reply', ends: 'resumes within', ms: 26_000, wholeMs: 5000, isRetry: false };
  expect(wordsOf(5000, wait)).toEqual([...['0', 'waiting for a reply, resumes within 26 s', '26 s left', '0 credits']]);
});

test('where only the forecast tells how much there is, that is the measure', () => {
  const tickets = stream({ state: 'running', seen: 100, credits: 3 });
  const start = { atMs: 0, credits: 0, waiting: 0 };
  const forecast = { requests: 12, credits: 12, seconds: 8 };
  const { share } = standing(tickets, { waiting: 0, start, elapsedMs: 3000, limits, forecast });
  expect(share).toBe(0.25);
});

test('a frame takes the place of the one before it in one write, also where that wraps in a narrower terminal', () => {
  const esc = '\u001b';
  expect(redraw([], ['a', 'b'], 80)).toBe(`a${esc}[K\nb${esc}[K\n${esc}[J`);
  expect(redraw(['a', 'b'], ['c'], 80, ['said'])).toBe(`${esc}[2A\rsaid${esc}[K\nc${esc}[K\n${esc}[J`);
  expect(redraw(['x'.repeat(70), 'y'], ['z'], 40)).toBe(`${esc}[3A\rz${esc}[K\n${esc}[J`);
  expect(heightOf([`${esc}[32m${'x'.repeat(40)}${esc}[39m`, ''], 40)).toBe(2);
  expect([cursor.hide, cursor.show]).toEqual([`${esc}[?25l`, `${esc}[?25h`]);
});
