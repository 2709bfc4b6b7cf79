import { expect, test } from 'vitest';
import { keyNamed } from '../../src/cli/work/follow.ts';
import { nameOfKey, tellApart } from '../../src/engine/database/stream-key.ts';
import { jobStream } from '../../src/sources/index.ts';

const stream = (source: string, name: string) => ({ name, key: `${source}.${name}` as const });
const known = [stream('helpdesk', 'users'), stream('helpdesk', 'tickets'), stream('crm', 'users')];

test('a short name that one source has, and any key, name a stream', () => {
  expect(keyNamed('tickets', known)).toBe('helpdesk.tickets');
  expect(keyNamed('helpdesk.tickets', known)).toBe('helpdesk.tickets');
  expect(keyNamed('crm.users', known)).toBe('crm.users');
});

test('a short name that two sources have is refused with the keys to choose from', () => {
  expect(() => keyNamed('users', known)).toThrow(
    expect.objectContaining({
      message: 'more than one source has a stream users',
      remedy: 'Choose from: helpdesk.users, crm.users.',
      exitCode: 2,
    }),
  );
});

test('a stream is named with its source where another source has a stream of that name', () => {
  tellApart(known.map(({ key }) => key));
  expect(known.map(({ key }) => nameOfKey(key))).toEqual(['helpdesk.users', 'tickets', 'crm.users']);
});

test('a name that no source has is refused with the names', () => {
  expect(() => keyNamed('crm.tickets', known)).toThrow(
    expect.objectContaining({
      message: 'there is no stream crm.tickets',
      remedy: 'Choose from: helpdesk.users, tickets, crm.users.',
    }),
  );
});

test('a job of an older version names its stream by the short name', () => {
  expect(jobStream.parse('tickets')).toBe('helpdesk.tickets');
  expect(jobStream.parse('helpdesk.tickets')).toBe('helpdesk.tickets');
});
