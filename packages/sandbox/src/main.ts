#!/usr/bin/env node
/** The sandbox as a program of its own: command line in, exit code out. */
import { CommanderError } from 'commander';
import { probeCommand, runProbe, SandboxUsageError, sandboxCommand, serveSandbox } from './command.ts';

const usageExitCode = 2;
const ended = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => ended.abort());

// A reader may close the pipe before the output ends, as `head` does.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}

const command = sandboxCommand('shelfdesk-sandbox').exitOverride().showHelpAfterError('(see --help)');
const probe = probeCommand().copyInheritedSettings(command);
command.addCommand(probe.action(() => runProbe(probe, ended.signal)));
try {
  await command.action(() => serveSandbox(command, ended.signal)).parseAsync();
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : usageExitCode;
  else if (error instanceof SandboxUsageError) {
    process.stderr.write(`error: ${error.message}\n${error.remedy}\n`);
    process.exitCode = usageExitCode;
  } else throw error;
}
