import { expect, test } from 'vitest';
import { withNewName } from '../../src/cli/old-names.ts';

test.for([
  ['drift list --json', 'rejects drift --json'],
  ['drift', 'rejects drift'],
  ['health --json', 'status --check --json'],
  ['--account acme reader create ada --pii', '--account acme warehouse reader create ada --pii'],
  ['calendar', 'warehouse calendar'],
  ['target set resolution 40h', 'warehouse target set resolution 40h'],
  ['fields', 'warehouse fields'],
  ['search on', 'warehouse search on'],
  ['help reader', 'warehouse reader --help'],
  ['help drift', 'rejects drift --help'],
] as const)('%s is %s now, and says so in one line', ([old, now]) => {
  const { args, says } = withNewName(old.split(' '));
  expect(args.join(' ')).toBe(now);
  expect(says).toMatch(/^`shelfdesk \w+` is `shelfdesk .+` now\. The old name works until 1\.0\.$/);
});

test.for(['status', 'rejects drift', 'warehouse reader list', 'help', 'query run reader', '--account reader sync', ''])(
  'nothing else changes: %s',
  words => {
    const args = words.split(' ');
    expect(withNewName(args)).toEqual({ args });
  },
);
