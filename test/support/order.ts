/**
 * In which order test files run. Vitest begins with the largest, but two small ones mostly wait: for a clock that says
 * when credits come back, and for changes that come one a second. They go first, so that nobody waits for them at the end.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const WAITING = ['integration/fresh.test.ts', 'integration/limits.test.ts'];

const waits = ({ moduleId }: TestSpecification): boolean => WAITING.some(file => moduleId.endsWith(file));

export class WaitingFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return [...sorted.filter(waits), ...sorted.filter(file => !waits(file))];
  }
}
