/** Many help desks of the sandbox, one account each, in one file of SHELFDESK_CONFIG; and processes of `start` that serve them all. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Sandbox, type SandboxOptions, startSandbox } from '../../packages/sandbox/src/server.ts';
import { type Finished, shelfdesk } from './cli.ts';

interface FleetProcess {
  readonly pid: number;
  /** Resolves when it says that it is at work. */
  readonly begun: Promise<void>;
  readonly finished: Promise<Finished>;
  /** What it wrote to stderr so far. */
  told(): string;
  kill(signal: NodeJS.Signals): void;
}

export interface Fleet {
  readonly sandboxes: ReadonlyMap<string, Sandbox>;
  /** Where the file stands, and what it names. */
  readonly folder: string;
  readonly env: Record<string, string>;
  /** Writes the file anew. */
  write(accounts: Record<string, object>): void;
  /** What stands in the file for each account. */
  readonly settings: Record<string, object>;
  start(): FleetProcess;
}

/** Undone by what is deferred on `stack`. `settings` are those of an account, `env` is of the processes. */
export async function openFleet(
  stack: AsyncDisposableStack,
  names: readonly string[],
  given: {
    env: Record<string, string>;
    world: (name: string) => SandboxOptions;
    settings?: (name: string) => Record<string, string>;
    defaults?: Record<string, string>;
  },
): Promise<Fleet> {
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-fleet-'));
  stack.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  const sandboxes = new Map<string, Sandbox>();
  for (const name of names) {
    const sandbox = await startSandbox({ ...given.world(name), books: { volumes: 1 } });
    stack.defer(() => sandbox.close());
    sandboxes.set(name, sandbox);
  }
  const settings = Object.fromEntries(
    [...sandboxes].map(([name, { url, token }]) => {
      writeFileSync(join(folder, `${name}-token`), token);
      return [
        name,
        { HELPDESK_BASE_URL: url, HELPDESK_TOKEN: { file: `${name}-token` }, ...given.settings?.(name) },
      ] as const;
    }),
  );
  const path = join(folder, 'fleet.yml');
  // JSON is YAML.
  const write = (accounts: Record<string, object>) =>
    writeFileSync(path, JSON.stringify({ defaults: { AUDIT_TICKETS_PER_HOUR: '0', ...given.defaults }, accounts }));
  write(settings);
  const env = { SHELFDESK_CONFIG: path, ...given.env };
  const start = (): FleetProcess => {
    const { process, finished } = shelfdesk(['start'], env, folder);
    let told = '';
    const begun = new Promise<void>((resolve, reject) => {
      process.stderr!.on('data', text => {
        told += text;
        if (/^Running for/m.test(told)) resolve();
      });
      finished.then(({ code, signal, stderr }) => reject(new Error(`start ended with ${code ?? signal}: ${stderr}`)));
    });
    begun.catch(() => {}); // Whoever needs it hears of it.
    stack.defer(async () => {
      process.kill('SIGKILL');
      await finished;
    });
    return { pid: process.pid!, begun, finished, told: () => told, kill: signal => void process.kill(signal) };
  };
  return { sandboxes, folder, env, write, settings, start };
}
