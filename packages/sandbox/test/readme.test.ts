/** The README shows valid fault rules of every kind. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { FAULT_KINDS } from '../src/admission/faults.ts';
import { Rules } from '../src/admission/rules.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const text = readFileSync(`${root}packages/sandbox/README.md`, 'utf8');
const block = (language: string) =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].map(([, all]) => all!);

test('the rules are rules, and there is one of each kind', () => {
  const list = JSON.parse(block('json')[0]!) as { fault: { kind: string } }[];
  const rules = new Rules(list);
  expect(rules.list()).toHaveLength(list.length);
  expect([...new Set(list.map(({ fault }) => fault.kind))].toSorted()).toEqual([...FAULT_KINDS].toSorted());
});
