import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { auditSentence } from '../../src/cli/look/status.ts';
import { runKinds } from '../../src/engine/runs/run-kinds.ts';
import { amount, choiceOf, count } from '../../src/words.ts';

test('one of them is named in the singular, and no others', () => {
  expect([0, 1, 2, 1234, 1_000_000].map(n => count(n, 'credit'))).toEqual([
    '0 credits',
    '1 credit',
    '2 credits',
    '1,234 credits',
    '1,000,000 credits',
  ]);
  expect([1, 2].map(n => count(n, 'reject is', 'rejects are'))).toEqual(['1 reject is', '2 rejects are']);
  expect([0, 999, 1000, -1234].map(amount)).toEqual(['0', '999', '1,000', '-1,234']);
});

test('what is nearly one of the choices is asked for', () => {
  const streams = ['users', 'tickets'];
  expect(choiceOf('tikets', streams)).toBe('Did you mean tickets? Choose from: users, tickets.');
  expect(choiceOf('Ticktes', streams)).toMatch(/^Did you mean tickets\?/);
  expect(choiceOf('umsatz', streams)).toBe('Choose from: users, tickets.');
  expect(choiceOf('', streams)).toBe('Choose from: users, tickets.');
});

test('docs/reference/runs.md explains each kind of run in the words of the program', () => {
  const text = readFileSync(new URL('../../docs/reference/runs.md', import.meta.url), 'utf8');
  for (const [kind, { opens, does }] of Object.entries(runKinds))
    expect(text).toMatch(new RegExp(`^\\| \`${kind}\` +\\| ${opens} +\\| ${does} +\\|$`, 'm'));
});

test('a healthy stream with few samples has a spot check, and no share that could differ', () => {
  const sampled = (checked: number, differed = 0) =>
    auditSentence(
      { source: 'helpdesk', stream: 'tickets' },
      { field: '', checked, differed, unread: 0, at_most_percent: 5.9, as_of: '2026-01-02T03:04:05Z' },
    );
  expect(sampled(49)).toBe('spot check: 49 of 49 equal');
  expect(sampled(50)).toBe(
    'spot check: 50 of 50 equal; at most 5.9 % of the mirrored tickets differ, with 95 % confidence, as of 2026-01-02T03:04:05Z',
  );
  expect(sampled(49, 1)).toMatch(/^1 of 49 re-read records differed from the source: at most 5\.9 %/);
});
