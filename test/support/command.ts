/** A command in this process: what it prints, and the exit code that it would give. */
import { Command } from 'commander';
import type { Config } from '../../src/app/config.ts';
import type { AddCommand } from '../../src/cli/command.ts';
import { exitCodes, ShelfdeskError } from '../../src/errors.ts';
import type { Finished } from './cli.ts';

/** One at a time: it listens to what this process writes. */
export async function command(add: AddCommand, config: Config, ...args: string[]): Promise<Omit<Finished, 'signal'>> {
  const { stdout, stderr } = process;
  const writes = [stdout.write, stderr.write] as const;
  const told = { stdout: '', stderr: '' };
  stdout.write = text => {
    told.stdout += text;
    return true;
  };
  stderr.write = text => {
    told.stderr += text;
    return true;
  };
  let code: number = exitCodes.ok;
  const program = new Command('shelfdesk').exitOverride();
  const { databaseUrl, redisUrl, logLevel, proxies } = config;
  const web = { port: undefined, host: '127.0.0.1', token: undefined, viewerToken: undefined };
  const fleet = () => ({
    databaseUrl,
    redisUrl,
    logLevel,
    proxies,
    web,
    lake: { schedule: '' },
    agents: { page: 'off' as const, limits: { ms: 4000, rows: 200, bytes: 100_000 } },
    accounts: [config],
    refused: [],
    files: [],
    secrets: [],
  });
  const asked = () => ({ fleet: fleet(), account: undefined });
  const deps = { config: () => config, fleet, asked, jobs: [], lakeJobs: [], signal: new AbortController().signal };
  add(program, deps, action => async (...given) => {
    code = (await action(...given)) ?? exitCodes.ok;
  });
  try {
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    if (!(error instanceof ShelfdeskError)) throw error;
    code = error.exitCode;
    told.stderr += `${error.message}\n${error.remedy}\n`;
  } finally {
    [stdout.write, stderr.write] = writes;
  }
  return { code, ...told };
}
