import { expect, test } from 'vitest';
import { noneDiffers } from '../../src/cli/work/verify.ts';

const counted = (list: string, ours: number, theirs_least: number, theirs_most: number) => ({
  ...{ account_id: 'default', source: 'helpdesk', stream: 'tickets', list, ours, theirs_least, theirs_most },
});

test('verify says that nothing differs only where the numbers of records agree as well', () => {
  const equal = [counted('default', 130, 129, 131), counted('spam', 0, 0, 0)];
  expect(noneDiffers(equal, true)).toBe('No differences were found.');
  expect(noneDiffers(equal, false)).toBe('No differences were found so far.');
  for (const ours of [85, 140])
    expect(noneDiffers([...equal, counted('trash', ours, 130, 131)], true)).toBe(
      'No compared record differs, but the number of records does: tickets, trash list.',
    );
});
