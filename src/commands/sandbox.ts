/**
 * `sandbox`: a help desk and a book catalog on this machine that behave as their specifications say, to try and to test
 * against.
 */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { exitCodes, ShelfdeskError } from '../errors.ts';
import { type Sandbox, type SandboxOptions, startSandbox } from '../sandbox/server.ts';
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
  volumes: number;
  booksPerDay: number;
  booksPerSecond: number;
  json?: boolean;
}

export function addSandbox(program: Command, deps: Deps, act: Act): void {
  program
    .command('sandbox')
    .description('serve a believable help desk and a book catalog on this machine until Ctrl-C')
    .option('--host <address>', 'address to listen on; in a container 0.0.0.0, so that others reach it', '127.0.0.1')
    .option('--port <n>', 'port there; 0 takes any that is free', whole, 4010)
    .option('--token <text>', 'the token that the help desk accepts', 'sandbox-token')
    .option('--seed <n>', 'the same seed makes the same worlds', whole, 1)
    .option('--tickets <n>', 'tickets at the start', whole, 2000)
    .option('--customers <n>', 'customers at the start (default: about a third of the tickets)', whole)
    .option(
      '--activity <n>',
      'changes a minute of the help desk while it runs, and a tenth as many of the books',
      whole,
      0,
    )
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
    .option('--volumes <n>', 'volumes of the book catalog at the start', whole, 300)
    .option('--books-per-day <n>', 'requests that the book catalog allows a day', whole, 1000)
    .option('--books-per-second <n>', 'its burst limit', whole, 5)
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
          const { world, books } = sandbox;
          if (options.json) printJson(described(sandbox));
          else print(settingsFor(sandbox));
          say(
            `${amount(world.tickets.size)} tickets, ${amount(world.customers.size)} customers; ${amount(books.world.volumes.size)} volumes. Ctrl-C ends.`,
          );
          await new Promise(ended => deps.signal.addEventListener('abort', ended, { once: true }));
          say(
            `${amount(sandbox.totals.requests)} requests, ${amount(sandbox.totals.credits)} credits, ${amount(sandbox.totals.refused)} refused.`,
          );
          say(`Books: ${amount(books.totals.requests)} requests, ${amount(books.totals.refused)} refused.`);
        } finally {
          await sandbox.close();
        }
        return exitCodes.ok;
      }),
    );
}

function described({ url, token, world, books }: Sandbox): object {
  return {
    url,
    token,
    tickets: world.tickets.size,
    customers: world.customers.size,
    books: {
      url: books.url,
      key: books.key,
      token: books.token,
      token_url: books.tokenUrl,
      client_id: books.clientId,
      client_secret: books.clientSecret,
      refresh_token: books.refreshToken,
      users: [...books.world.users.keys()],
      volumes: books.world.volumes.size,
    },
  };
}

/** Lines for an environment. */
function settingsFor({ url, token, books }: Sandbox): string {
  return [
    `HELPDESK_BASE_URL=${url}`,
    `HELPDESK_TOKEN=${token}`,
    `BOOKS_BASE_URL=${books.url}`,
    `BOOKS_API_KEY=${books.key}`,
    `BOOKS_ACCESS_TOKEN=${books.token}`,
    `BOOKS_USERS=${[...books.world.users.keys()].join(',')}`,
  ].join('\n');
}

function sandboxOptions(options: Options): SandboxOptions {
  const { host, port, token, seed, tickets, customers, activity, credits, requestsPerSecond, window } = options;
  return {
    host,
    port,
    tokens: [token],
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
    books: {
      volumes: options.volumes,
      requestsPerDay: options.booksPerDay,
      requestsPerSecond: options.booksPerSecond,
    },
  };
}

function whole(value: string): number {
  if (!/^\d+$/.test(value)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(value);
}
