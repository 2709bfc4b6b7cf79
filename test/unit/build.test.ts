import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { fingerprintOf, versionAndBuild } from '../../src/app/build.ts';

test('the fingerprint of two commits differs, wherever they lie', () => {
  const commit = (files: Record<string, string>) => {
    const root = mkdtempSync(join(tmpdir(), 'build-'));
    for (const folder of ['src/app', 'jobs']) mkdirSync(join(root, folder), { recursive: true });
    for (const [name, text] of Object.entries(files)) writeFileSync(join(root, name), text);
    return fingerprintOf(root);
  };
  const first = commit({ 'src/main.ts': 'a', 'src/app/a.ts': 'b' });
  expect(first).toMatch(/^[0-9a-f]{8}$/);
  expect(commit({ 'src/main.ts': 'a', 'src/app/a.ts': 'b' })).toBe(first);
  const others = [
    { 'src/main.ts': 'a', 'src/app/a.ts': 'c' },
    { 'src/main.ts': 'a', 'src/app/b.ts': 'b' },
    { 'src/main.ts': 'a' },
  ];
  expect(new Set([first, ...others.map(commit)]).size).toBe(4);
});

test('what runs is named by its version and build', () => {
  expect(versionAndBuild()).toMatch(/^\d+\.\d+\.\d+\+[0-9a-f]{8}$/);
});
