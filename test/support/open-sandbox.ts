/** A sandbox without limits, which closes with the scope of its test. */
import { type Sandbox, type SandboxOptions, startSandbox } from '../../packages/sandbox/src/server.ts';
import { noSandboxLimits } from './mirror.ts';

export async function openSandbox(options: SandboxOptions = {}): Promise<Sandbox & AsyncDisposable> {
  const sandbox = await startSandbox({ ...noSandboxLimits, ...options });
  return Object.assign(sandbox, { [Symbol.asyncDispose]: () => sandbox.close() });
}
