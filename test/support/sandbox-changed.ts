/**
 * Whether packages/sandbox has changed since the commit CHANGED_SINCE, or since the branch left `origin/main`. Nothing else
 * decides what its own tests say. Where that is not known, as on a machine of CI without CHANGED_SINCE, it has.
 */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const cwd = fileURLToPath(new URL('../..', import.meta.url));
const git = (...args: string[]): string =>
  execFileSync('git', args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();

export function sandboxChanged({ CI, PROVE, CHANGED_SINCE } = process.env): boolean {
  if (PROVE || (CI && !CHANGED_SINCE) || process.argv.some(one => one.includes('packages/sandbox'))) return true;
  try {
    const since = CHANGED_SINCE ?? git('merge-base', 'HEAD', 'origin/main');
    const paths = ['packages/sandbox', 'package-lock.json'];
    return (
      git('diff', '--name-only', since, '--', ...paths) + git('ls-files', '-o', '--exclude-standard', ...paths) !== ''
    );
  } catch {
    return true;
  }
}
