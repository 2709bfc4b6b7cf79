/**
 * In which order test files run. Vitest begins with the largest, but some small ones wait (for a clock that says when credits
 * come back, for changes that come one a second), and others take minutes. They go first, so that nobody waits for one of them at the end.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const FIRST = [
  'fuzz/fuzz',
  'conformance/conformance',
  'integration/fresh',
  'integration/limits',
  'integration/queries',
  'integration/workers',
  'integration/metrics-truth',
  'release/dbt',
  'integration/reckoning',
  'integration/sync',
  'integration/fleet',
  'sim/sim',
  'integration/kill',
  'integration/odd-sources',
  'integration/commands',
  'integration/erase',
  'integration/schedule',
  'integration/backfill',
].map(name => `/test/${name}.test.ts`);

const place = ({ moduleId }: TestSpecification): number => {
  const found = FIRST.findIndex(file => moduleId.endsWith(file));
  return found < 0 ? FIRST.length : found;
};

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).sort((a, b) => place(a) - place(b));
  }
}
