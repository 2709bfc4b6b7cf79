/** What `npm run bench` measures, in this order. */
import type { Section } from '../report.ts';
import { credits } from './credits.ts';
import { peers } from './peers.ts';
import { spending } from './spending.ts';

export const sections: readonly Section[] = [peers, credits, spending];
