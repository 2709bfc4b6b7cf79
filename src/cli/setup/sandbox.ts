/** `sandbox`: starts the package @shelfdesk/sandbox, which simulates both services on this machine, or its probe of a real help desk. */
import { probeCommand, runProbe, SandboxUsageError, sandboxCommand, serveSandbox } from '@shelfdesk/sandbox/command';
import type { Command } from 'commander';
import { exitCodes, UsageError } from '../../errors.ts';
import type { Act, Deps } from '../command.ts';

export function addSandbox(program: Command, deps: Deps, act: Act): void {
  const command = sandboxCommand('sandbox', 'npx shelfdesk sandbox')
    .copyInheritedSettings(program)
    .summary('serve a simulated help desk and catalog');
  const serve = act(async () => {
    await serveSandbox(command, deps.signal).catch(usageError);
    return exitCodes.ok;
  });
  const probe = probeCommand().copyInheritedSettings(program);
  const ask = act(async () => {
    await runProbe(probe, deps.signal).catch(usageError);
    return exitCodes.ok;
  });
  command.addCommand(probe.action(() => ask()));
  program.addCommand(command.action(() => serve()));
}

function usageError(error: unknown): never {
  if (error instanceof SandboxUsageError) throw new UsageError(error.message, error.remedy);
  throw error;
}
