import { defineConfig } from 'vitest/config';
import { output } from '../../../vitest.config.ts';

export default defineConfig({ test: { ...output, include: ['noisy.test.ts'], setupFiles: ['../quiet.ts'] } });
