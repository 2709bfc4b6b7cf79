import { describe, expect, test } from 'vitest';
import { openLog } from '../../src/app/open-context.ts';
import { table } from '../../src/cli/output/terminal.ts';

const terminal = { columns: 40, rows: 200 };
const everything = { columns: Infinity, rows: Infinity };

describe('a table', () => {
  test('of more rows than a call may have arguments', () => {
    const rows = Array.from({ length: 200_000 }, (_, i) => [i]);
    expect(table(['n'], rows, 60, everything).split('\n')).toHaveLength(200_002);
  });

  test('at a terminal has as many rows as a terminal keeps, and says how to see the others', () => {
    const rows = Array.from({ length: 1500 }, (_, i) => [i]);
    const lines = table(['n'], rows, 60, { columns: 80, rows: 200 }).split('\n');
    expect(lines.slice(202)).toEqual([
      '… 1,300 more rows not shown. All of it: the same command with `| less -S`',
      'behind it.',
    ]);
  });

  test('at a terminal cuts its widest texts, and no number', () => {
    const text = table(
      ['id', 'subject', 'state'],
      [[1234567890, 'Where is my order of last week?', 'open']],
      60,
      terminal,
    );
    expect(text.split('\n')).toEqual([
      '        id  subject                state',
      '──────────  ─────────────────────  ─────',
      '1234567890  Where is my order of…  open',
    ]);
  });

  test('at a terminal names the columns that have no room', () => {
    const names = ['first', 'second', 'third', 'fourth', 'fifth'];
    const text = table(names, [names.map(name => name.repeat(4))], 60, terminal);
    expect(text.split('\n')).toEqual([
      'first     second    third     fourth',
      '────────  ────────  ────────  ────────',
      'firstfi…  seconds…  thirdth…  fourthf…',
      '… column fifth not shown. All of it:',
      'the same command with `| less -S`',
      'behind it.',
    ]);
  });

  test('cuts by columns, of which some letters take two', () => {
    const text = table(['subject'], [['注文はどこにありますか']], 60, { columns: 10, rows: 200 });
    expect(text.split('\n')[2]).toBe('注文はど…');
  });

  test('that is written elsewhere is whole', () => {
    expect(table(['text'], [['x'.repeat(500)]], 500, everything)).toContain('x'.repeat(500));
  });
});

test('lines for people heed LOG_LEVEL, and say the reason of an error', () => {
  const told: unknown[] = [];
  const log = openLog({ logLevel: 'warn' }, (...line) => void told.push(line));
  log.info('is running');
  log.warn({ account: 'acme', err: new Error('no reply') }, 'a job failed');
  log.child({ account: 'acme' }).error(new Error('no reply'), 'the page failed');
  expect(told).toEqual([
    [40, 'a job failed', { account: 'acme', reason: 'no reply' }],
    [50, 'the page failed', { reason: 'no reply' }],
  ]);
});
