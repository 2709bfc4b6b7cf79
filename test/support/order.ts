/**
 * In which order test files run. Vitest begins with the largest, but some small ones wait (for a clock that says when credits
 * come back, for changes that come one a second), and others take minutes. They go first, so that nobody waits for one of them at the end.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const FIRST = [
  'proofs/fuzz/fuzz',
  'test/conformance/conformance',
  'test/integration/fresh',
  'test/integration/limits',
  'test/integration/queries',
  'test/integration/workers',
  'test/release/dbt',
  'test/integration/reckoning',
  'test/integration/sync',
  'test/integration/fleet',
  'proofs/sim/sim',
  'test/integration/kill',
  'test/integration/odd-sources',
  'test/integration/commands',
  'test/integration/erase',
  'test/integration/schedule',
  'test/integration/backfill',
].map(name => `/${name}.test.ts`);

const place = ({ moduleId }: TestSpecification): number => {
  const found = FIRST.findIndex(file => moduleId.endsWith(file));
  return found < 0 ? FIRST.length : found;
};

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).sort((a, b) => place(a) - place(b));
  }
}
