/** What a release is made of: one version, a lock with hashes, workflows that run what is there. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { root } from '../support/docker.ts';

const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const manifests = ['package.json', 'packages/sandbox/package.json', 'packages/site/package.json'];

test('the version stands in one place, and the changelog has an entry for it', () => {
  const versions = manifests.map(path => JSON.parse(read(path)).version as string | undefined);
  expect(versions.filter(version => version !== undefined)).toHaveLength(1);
  expect(read('CHANGELOG.md')).toContain(`## ${versions[0]}`);
});

/** Binaries of other platforms. npm takes the one that a machine needs, which is never one of these on Linux with glibc. */
const withoutHash: Record<string, RegExp> = {
  'package-lock.json': /^node_modules\/(@biomejs\/cli-|@msgpackr-extract\/msgpackr-extract-)/,
  'packages/site/package-lock.json': /^node_modules\/@rollup\/rollup-/,
};

test.each(Object.entries(withoutHash))(
  'every entry of %s carries its hash, but for binaries of other platforms',
  (path, but) => {
    const { packages } = JSON.parse(read(path)) as {
      packages: Record<string, { integrity?: string; link?: true; optional?: true; os?: string[] }>;
    };
    const installed = Object.entries(packages).filter(([name, { link }]) => name.includes('node_modules/') && !link);
    const bare = installed.filter(([, { integrity }]) => integrity === undefined);
    expect(
      bare.filter(([name, { optional, os }]) => !but.test(name) || !optional || !os).map(([name]) => name),
    ).toEqual([]);
    expect(installed.length).toBeGreaterThan(100);
  },
);

test('the workflows run scripts that are there, end in time, and have no more rights than they need', () => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
  const paths = globSync('.github/workflows/*.yml', { cwd: root });
  expect(paths.map(path => path.split('/').at(-1)).toSorted()).toEqual([
    'containers.yml',
    'docs.yml',
    'prove.yml',
    'release.yml',
    'test.yml',
  ]);
  for (const path of paths) {
    const workflow = parse(read(path)) as {
      permissions: object;
      jobs: Record<string, { uses?: string; 'timeout-minutes'?: number; steps?: { run?: string }[] }>;
    };
    expect(workflow.permissions, path).toEqual({ contents: 'read' });
    for (const [name, { uses, steps = [], 'timeout-minutes': minutes }] of Object.entries(workflow.jobs)) {
      if (uses === undefined) expect(minutes, `${path}: ${name}`).toBeGreaterThan(0);
      const called = steps.flatMap(({ run = '' }) =>
        [...run.matchAll(/npm (?:run )?(test|(?<=run )[\w:]+)/g)].map(([, one]) => one!),
      );
      expect(
        called.filter(one => !(one in scripts)),
        path,
      ).toEqual([]);
    }
  }
  expect(read('.github/workflows/release.yml')).toContain('npm audit --omit=dev');
});
