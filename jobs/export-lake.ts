/** Makes the lake equal to the warehouse. */

import { z } from 'zod';
import { defineJob } from '../src/engine/queue/job.ts';
import type { LakeWork } from '../src/lake/work.ts';

export const exportLake = defineJob<Record<string, never>, LakeWork>({
  name: 'export-lake',
  payload: z.object({}),
  run: async work => {
    const { runExport } = await import('../src/lake/run-export.ts');
    await runExport(work);
  },
});
