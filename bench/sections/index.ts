/** What `npm run bench` measures, in this order. */
import type { Section } from '../report.ts';

export const sections: readonly Section[] = [];
