/** A test run prints a line for each file, failures with their output, and at the end which tests did not run. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { long } from '../support/long.ts';

test('what the tests print is shown where one fails, and nowhere else', long, async () => {
  const [root, vitest] = ['../support/quiet-example/', '../../node_modules/vitest/vitest.mjs'].map(path =>
    fileURLToPath(new URL(path, import.meta.url)),
  );
  const { VITEST: _, VITEST_MODE: __, CI: ___, ...env } = process.env;
  const printed = await new Promise<string>(resolve =>
    execFile(process.execPath, [vitest!, 'run', '--root', root!], { env: { ...env, NO_COLOR: '1' } }, (_, out, err) =>
      resolve(out + err),
    ),
  );
  expect(printed).not.toContain('of a test that passes');
  expect(printed).toContain('stderr of a test that fails');
  expect(printed).toContain('expected 1 to be 2');
  expect(printed).toContain('NOT RUN: long (1 test)\nThey run with CI=true.');
});
