/** Writes the rows of some accounts to files, for an export that begins the lake. */

import { z } from 'zod';
import { defineJob } from '../src/engine/queue/job.ts';
import type { Part } from '../src/lake/stage.ts';
import type { LakeWork } from '../src/lake/work.ts';

export const stageLake = defineJob<Part, LakeWork>({
  name: 'stage-lake',
  payload: z.object({ export: z.int(), part: z.int(), snapshot: z.string(), accounts: z.array(z.string()) }),
  run: async (work, part) => {
    const { runPart } = await import('../src/lake/stage.ts');
    await runPart(work, part);
  },
});
