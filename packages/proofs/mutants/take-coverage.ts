/** A setup file: what a process of tests has reached is written before Vitest ends it. */
import { takeCoverage } from 'node:v8';
import { afterAll } from 'vitest';

afterAll(() => {
  if (process.env.NODE_V8_COVERAGE) takeCoverage();
});
