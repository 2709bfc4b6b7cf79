/** `sandbox`: a help desk on this machine that behaves as the specification says, to try and to test against. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { exitCodes, ShelfdeskError } from '../errors.ts';
import { type SandboxOptions, startSandbox } from '../sandbox/server.ts';
import type { Act, Deps } from './command.ts';
import { amount, print, printJson, say } from './terminal.ts';

interface Options {
  host: string;
  port: number;
  token: string;
  seed: number;
  tickets: number;
  customers?: number;
  activity: number;
  credits: number;
  period: number;
  requestsPerSecond: number;
  window: 'fixed' | 'sliding';
  since: 'inclusive' | 'exclusive';
  hideSpam?: boolean;
  hideTrash?: boolean;
  json?: boolean;
}

export function addSandbox(program: Command, deps: Deps, act: Act): void {
  program
    .command('sandbox')
    .description('serve a believable help desk on this machine until Ctrl-C')
    .option('--host <address>', 'address to listen on; in a container 0.0.0.0, so that others reach it', '127.0.0.1')
    .option('--port <n>', 'port there; 0 takes any that is free', whole, 4010)
    .option('--token <text>', 'the token that it accepts', 'sandbox-token')
    .option('--seed <n>', 'the same seed makes the same world', whole, 1)
    .option('--tickets <n>', 'tickets at the start', whole, 2000)
    .option('--customers <n>', 'customers at the start (default: about a third of the tickets)', whole)
    .option('--activity <n>', 'changes a minute while it runs', whole, 0)
    .option('--credits <n>', 'credits a period', whole, 100)
    .option('--period <seconds>', 'length of the period', whole, 60)
    .option('--requests-per-second <n>', 'burst limit', whole, 6)
    .addOption(new Option('--window <kind>', 'how the period moves').choices(['fixed', 'sliding']).default('fixed'))
    .addOption(
      new Option('--since <reading>', 'whether since_* includes its own second')
        .choices(['inclusive', 'exclusive'])
        .default('inclusive'),
    )
    .option('--hide-spam', 'leave spam out of the default list')
    .option('--hide-trash', 'leave trash out of the default list')
    .option('--json', 'print one JSON document on stdout')
    .action(
      act(async (options: Options) => {
        const sandbox = await startSandbox(sandboxOptions(options)).catch((error: Error) => {
          throw new ShelfdeskError(
            `the sandbox does not start: ${error.message}`,
            'Choose another --port. A --host must be an address of this machine.',
            exitCodes.usage,
            error,
          );
        });
        try {
          const { url, token, world } = sandbox;
          if (options.json) printJson({ url, token, tickets: world.tickets.size, customers: world.customers.size });
          else print(`HELPDESK_BASE_URL=${url}\nHELPDESK_TOKEN=${token}`);
          say(`${amount(world.tickets.size)} tickets, ${amount(world.customers.size)} customers. Ctrl-C ends.`);
          await new Promise(ended => deps.signal.addEventListener('abort', ended, { once: true }));
          say(
            `${amount(sandbox.totals.requests)} requests, ${amount(sandbox.totals.credits)} credits, ${amount(sandbox.totals.refused)} refused.`,
          );
        } finally {
          await sandbox.close();
        }
        return exitCodes.ok;
      }),
    );
}

function sandboxOptions(options: Options): SandboxOptions {
  const { host, port, token, seed, tickets, customers, activity, credits, requestsPerSecond, window } = options;
  return {
    host,
    port,
    token,
    seed,
    tickets,
    ...(customers !== undefined && { customers }),
    activity,
    credits,
    periodSeconds: options.period,
    requestsPerSecond,
    window,
    sinceInclusive: options.since === 'inclusive',
    spamListed: !options.hideSpam,
    trashListed: !options.hideTrash,
  };
}

function whole(value: string): number {
  if (!/^\d+$/.test(value)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(value);
}
