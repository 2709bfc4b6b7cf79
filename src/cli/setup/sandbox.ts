/** `sandbox`: starts the package @shelfdesk/sandbox, which simulates both services on this machine, or its probe of a real help desk. */
import { probeCommand, runProbe, SandboxUsageError, sandboxCommand, serveSandbox } from '@shelfdesk/sandbox/command';
import type { Command } from 'commander';
import { UsageError } from '../../errors.ts';
import type { Act, Deps } from '../command.ts';

export function addSandbox(program: Command, deps: Deps, act: Act): void {
  const command = sandboxCommand('sandbox', 'npx shelfdesk sandbox')
    .copyInheritedSettings(program)
    .summary('serve a simulated help desk and catalog');
  const probe = probeCommand().copyInheritedSettings(program);
  command.addCommand(probe.action(act(() => runProbe(probe, deps.signal).catch(usageError))));
  program.addCommand(command.action(act(() => serveSandbox(command, deps.signal).catch(usageError))));
}

function usageError(error: unknown): never {
  if (error instanceof SandboxUsageError) throw new UsageError(error.message, error.remedy);
  throw error;
}
