/** The models of fencing and coverage hold within their scopes, and each rule of them is needed. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { describeOnAlloy, runModel } from '../support/alloy.ts';
import { proof } from '../support/long.ts';

await describeOnAlloy('models', jar => {
  test.for(['fencing', 'coverage'])(
    '%s: nothing is found against it, and something where a rule is left out',
    proof,
    async name => {
      const path = fileURLToPath(new URL(`${name}.als`, import.meta.url));
      const commands = [...readFileSync(path, 'utf8').matchAll(/^(?:check|run) (\w+)/gm)].map(
        ([, command]) => command!,
      );
      const wrong = commands.filter(command => command.startsWith('without'));
      expect(commands).toEqual(['good', ...wrong, 'story']);
      expect(wrong.length).toBeGreaterThan(4);
      const told = await runModel(jar, path);
      expect(Object.fromEntries(told)).toEqual(
        Object.fromEntries(commands.map(command => [command, command === 'good' ? 'none' : 'found'])),
      );
    },
  );
});
