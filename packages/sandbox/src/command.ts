/** The command line of the sandbox: its options, its checks of them, and its output. Most options come from switches.ts. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Command, InvalidArgumentError, Option } from 'commander';
import { SnapshotError, worldsOf } from './admin/snapshot.ts';
import { RuleError, Rules } from './admission/rules.ts';
import { sandboxHelp } from './help.ts';
import { type Sandbox, type SandboxOptions, startSandbox } from './server.ts';
import { BLOCKED_TOKEN, defaultOf, readWord, type Service, SWITCHES, type Switch, TOKEN, wordFor } from './switches.ts';
import { SandboxUsageError } from './usage-error.ts';

export { probeCommand, runProbe } from './probe/command.ts';
export { SandboxUsageError } from './usage-error.ts';

/** Options that are not in the table of switches. */
interface Options {
  host: string;
  port: number;
  adminPort?: number;
  cert?: string;
  key?: string;
  token?: string[];
  blockedToken?: string;
  booksKey?: string;
  booksToken?: string;
  seed: number;
  begin?: number;
  dateAhead?: number;
  tickets: number;
  customers?: number;
  bulk?: number;
  volumes: number;
  preorders: number;
  naughty: number;
  activity: number;
  booksActivity?: number;
  rhythm: 'even' | 'office';
  booksFailing?: string[];
  faults?: string;
  world?: string;
  json?: boolean;
}

/** Width of the help text: 110 columns without a terminal, at most 120 with one. */
const WIDTH = Math.min(process.stdout.columns ?? 110, 120);

/** The command with its options and help, without an action. `called`: the words that start it. */
export function sandboxCommand(name: string, called = `npx ${name}`): Command {
  // Options behind `probe` are its own.
  const command = new Command(name)
    .enablePositionalOptions()
    .description('serve a simulated help desk and book catalog on this machine until Ctrl-C')
    .option('--json', 'print one JSON document on stdout');
  addOptions(command);
  return command.configureHelp({ helpWidth: WIDTH }).addHelpText('after', sandboxHelp(called, WIDTH));
}

/** Serves until the signal aborts. Rejects with SandboxUsageError if the options are invalid. */
export async function serveSandbox(command: Command, signal: AbortSignal): Promise<void> {
  const options = command.opts<Options>();
  const sandbox = await startSandbox(sandboxOptions(options, command)).catch(cannotListen);
  try {
    announce(sandbox, options.json === true);
    if (!signal.aborted) await new Promise(ended => signal.addEventListener('abort', ended, { once: true }));
    sumUp(sandbox);
  } finally {
    await sandbox.close();
  }
}

/** Explains why the sandbox cannot listen on an address. */
function cannotListen(error: NodeJS.ErrnoException): never {
  if (!/^(EADDR|EACCES$|ENOTFOUND$|EAI_)/.test(error.code ?? '')) throw error;
  throw new SandboxUsageError(
    `the sandbox does not start: ${error.message}`,
    'Choose another --port or --admin-port. A --host must be an address of this machine.',
    error,
  );
}

// --- options ----------------------------------------------------------------------------------------------------------

function addOptions(command: Command): void {
  command
    .optionsGroup('Where it listens:')
    .option('--host <address>', 'address to listen on; 0.0.0.0 in a container', '127.0.0.1')
    .option('--port <n>', 'port to listen on; 0 picks a free one', port, 4010)
    .option(
      '--cert <file>',
      'certificate (PEM); serves HTTPS only, as section 1 of the help desk specification demands',
    )
    .option('--key <file>', 'private key of the certificate (PEM)')
    .optionsGroup('Credentials:')
    .option('--token <text>', 'token that the help desk accepts; may be repeated, the first one is printed', several)
    .option('--blocked-token <text>', 'token that the help desk knows and refuses with 403', credential)
    .option('--books-key <text>', 'API key of the catalog', credential)
    .option('--books-token <text>', 'access token of the catalog that never expires', credential)
    .optionsGroup('Data:')
    .option('--seed <n>', 'seed of the data; the same seed with the same --begin gives the same data', whole, 1)
    .option(
      '--world <file>',
      'file with the records, as GET /snapshot of the admin port gives them; none are generated',
    )
    .option('--begin <time>', 'start time of both clocks, such as 2024-05-01T12:00:00Z (default: now)', time)
    .option('--date-ahead <seconds>', 'how far Date is ahead of the clock of updated_at; negative: behind', seconds)
    .option('--tickets <n>', 'tickets at the start', whole, 2000)
    .option('--customers <n>', 'customers at the start (default: about a third of the tickets)', whole)
    .option(
      '--bulk <n>',
      'about how many tickets a bulk action changes in one second (default: a hundredth of all, from 100 to 5,000)',
      whole,
    )
    .option('--volumes <n>', 'volumes of the book catalog at the start', whole, 300)
    .option('--preorders <share>', 'share of volumes on pre-order, 0 to 1', share, 0)
    .option('--naughty <share>', 'share of records with hostile text (NUL, lone surrogates …), 0 to 1', share, 0)
    .option('--activity <n>', 'changes per minute in the help desk; the catalog gets a tenth of them', whole, 0)
    .option('--books-activity <n>', 'changes per minute in the catalog (default: a tenth of --activity)', whole)
    .addOption(
      new Option('--rhythm <word>', 'spread of the changes: even, or with busy and quiet hours and weekdays')
        .choices(['even', 'office'])
        .default('even'),
    );
  for (const { heading, row } of headed()) command.addOption(optionFor(row).helpGroup(heading));
  command
    .optionsGroup('Faults:')
    .option('--faults <file>', 'file with fault rules, a JSON list (see below)')
    .option('--books-failing <ids>', 'comma-separated ids of volumes that answer 503 backendFailed', commaSeparated)
    .optionsGroup('Inspection:')
    .option('--admin-port <n>', 'port for inspection and fault rules, on loopback only (default: none)', port);
}

// --- options of the table ------------------------------------------------------------------------------------------

function headed(): { heading: string; row: Switch }[] {
  const rows = (service: Service, limit: boolean, heading: string) =>
    (SWITCHES[service] as readonly Switch[])
      .filter(row => ('limit' in row && row.limit === true) === limit)
      .map(row => ({ heading, row }));
  return [
    ...rows('helpdesk', true, 'Limits of the help desk:'),
    ...rows('books', true, 'Limits of the catalog:'),
    ...rows('helpdesk', false, 'Open questions of the help desk specification:'),
    ...rows('books', false, 'Open questions of the catalog specification:'),
  ];
}

/** The option has no commander default: the services take theirs from the same table. */
function optionFor(row: Switch): Option {
  const words = 'values' in row ? Object.keys(row.values) : 'of' in row ? row.of : undefined;
  const kind = 'unit' in row ? row.unit : 'of' in row ? 'list' : 'word';
  const of = words ? `${'of' in row ? 'any of ' : ''}${words.join(', ')}; ` : '';
  const option = new Option(`${row.flag} <${kind}>`, `${row.says} (${of}default: ${wordFor(row, defaultOf(row))})`);
  return option.argParser(word => {
    try {
      return readWord(row, word);
    } catch (error) {
      throw new InvalidArgumentError((error as Error).message);
    }
  });
}

/** Options of a service for the switches on the command line. */
function given(service: Service, command: Command): object {
  const values = (SWITCHES[service] as readonly Switch[]).map(row => {
    const option = command.options.find(({ long }) => long === row.flag)!;
    return [row.name, command.getOptionValue(option.attributeName())];
  });
  return Object.fromEntries(values.filter(([, value]) => value !== undefined));
}

// --- from flags to options of the services -------------------------------------------------------------------------------------------------

function sandboxOptions(options: Options, command: Command): SandboxOptions {
  const { host, port, seed, tickets, customers, naughty, activity, rhythm, bulk, volumes, preorders } = options;
  const { begin, token, blockedToken, booksKey, booksToken, booksActivity, booksFailing, adminPort, faults } = options;
  const { world } = options;
  const tls = certified(options);
  demandTwoSides(options);
  return {
    ...{ host, port, seed, tickets, naughty, activity, rhythm },
    ...given('helpdesk', command),
    ...(begin !== undefined && { begin }),
    ...(options.dateAhead !== undefined && { dateAheadSeconds: options.dateAhead }),
    ...(customers !== undefined && { customers }),
    ...(bulk !== undefined && { bulkSize: bulk }),
    ...(token !== undefined && { tokens: token }),
    ...(blockedToken !== undefined && { blockedToken }),
    ...(tls !== undefined && { tls }),
    ...(adminPort !== undefined && { adminPort }),
    ...(faults !== undefined && { rules: rulesIn(faults) }),
    ...(world !== undefined && { records: recordsIn(world) }),
    books: {
      ...{ volumes, preorders, naughty },
      ...given('books', command),
      ...(booksKey !== undefined && { key: booksKey }),
      ...(booksToken !== undefined && { token: booksToken }),
      ...(booksActivity !== undefined && { activity: booksActivity }),
      ...(booksFailing !== undefined && { failing: booksFailing }),
    },
  };
}

function demandTwoSides({ token = [TOKEN], blockedToken = BLOCKED_TOKEN }: Options): void {
  if (!token.includes(blockedToken)) return;
  throw new SandboxUsageError(
    `The token ${blockedToken} is both accepted and blocked`,
    'Give another --token or --blocked-token.',
  );
}

function certified({ cert, key }: Options): { cert: string; key: string } | undefined {
  if (cert === undefined && key === undefined) return undefined;
  if (cert === undefined || key === undefined) {
    throw new SandboxUsageError(
      'HTTPS needs both a certificate and its key',
      'Give --cert and --key, or neither of them.',
    );
  }
  const tls = { cert: textOf(cert, '--cert'), key: textOf(key, '--key') };
  try {
    if (!new X509Certificate(tls.cert).checkPrivateKey(createPrivateKey(tls.key))) throw new Error('no pair');
  } catch (error) {
    const wrong = (error as Error).message;
    throw new SandboxUsageError(
      `--cert ${cert} and --key ${key}: ${wrong}`,
      'Name a certificate and its own key, as PEM.',
    );
  }
  return tls;
}

function rulesIn(path: string): Rules {
  const text = textOf(path, '--faults');
  try {
    return new Rules(JSON.parse(text));
  } catch (error) {
    const wrong = error instanceof RuleError ? error.message : `It is not JSON: ${(error as Error).message}.`;
    throw new SandboxUsageError(`--faults ${path}: ${wrong}`, 'Correct the file; --help shows an example.');
  }
}

/** Checks the file before the server starts. */
function recordsIn(path: string): string {
  const text = textOf(path, '--world');
  try {
    worldsOf(text, {});
    return text;
  } catch (error) {
    if (!(error instanceof SnapshotError)) throw error;
    throw new SandboxUsageError(`--world ${path}: ${error.message}`, 'Correct the file; GET /snapshot writes one.');
  }
}

function textOf(path: string, option: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new SandboxUsageError(
      `${option} ${path} cannot be read: ${(error as Error).message}`,
      'Name an existing file.',
    );
  }
}

function whole(value: string): number {
  if (!/^\d{1,15}$/.test(value)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(value);
}

/** From 1980 on: the history begins four years earlier, and no timestamp may precede 1970. */
function time(value: string): number {
  const ms = Date.parse(value);
  const hasSeconds = /^\d{4}-\d\d-(\d\d)T\d\d:\d\d:\d\d(\.\d{1,3})?(Z|[+-]\d\d:\d\d)$/.exec(value);
  const sameDay = hasSeconds && new Date(`${value.slice(0, 10)}T00:00:00Z`).getUTCDate() === Number(hasSeconds[1]);
  if (sameDay && ms >= Date.parse('1980-01-01T00:00:00Z') && ms < Date.parse('9000-01-01T00:00:00Z')) return ms;
  throw new InvalidArgumentError('It must be a time from 1980 on, with its zone, for example 2024-05-01T12:00:00Z.');
}

function seconds(value: string): number {
  if (!/^-?\d{1,9}$/.test(value)) throw new InvalidArgumentError('It must be a whole number of seconds.');
  return Number(value);
}

function share(value: string): number {
  if (/^(0|1|[01]?\.\d+)$/.test(value) && Number(value) <= 1) return Number(value);
  throw new InvalidArgumentError('It must be a share between 0 and 1, for example 0.05.');
}

function port(value: string): number {
  if (/^\d{1,5}$/.test(value) && Number(value) <= 65_535) return Number(value);
  throw new InvalidArgumentError('It must be the number of a port, 0 to 65535.');
}

/** One word that a header can carry. The empty text is no credential: requests without a token must not match it. */
function credential(value: string): string {
  if (/^[!-~]+$/.test(value)) return value;
  throw new InvalidArgumentError('It must be one or more printable ASCII characters, without spaces.');
}

const several = (value: string, before: string[] = []): string[] => [...before, credential(value)];

const commaSeparated = (value: string): string[] => value.split(',').map(id => id.trim());

// --- output --------------------------------------------------------------------------------------------------

function announce(sandbox: Sandbox, asJson: boolean): void {
  const { world, books } = sandbox;
  if (asJson) print(JSON.stringify(described(sandbox), null, 2));
  else print(settingsFor(sandbox));
  say(
    `${count(world.tickets.size, 'ticket')}, ${count(world.customers.size, 'customer')}; ${count(books.world.volumes.size, 'volume')}. Ctrl-C ends.`,
  );
  say(`Web page: ${new URL('/', sandbox.url)}`);
  if (sandbox.adminUrl) say(`Admin port: ${sandbox.adminUrl}`);
}

function sumUp({ totals, books }: Sandbox): void {
  say(`${count(totals.requests, 'request')}, ${count(totals.credits, 'credit')}, ${amount(totals.refused)} refused.`);
  say(`Books: ${count(books.totals.requests, 'request')}, ${amount(books.totals.refused)} refused.`);
}

function described({ url, adminUrl, token, world, books }: Sandbox): object {
  return {
    url,
    ...(adminUrl !== undefined && { admin_url: adminUrl }),
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

/** Environment variables for clients, one a line. */
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

/** Results go to stdout, for pipes. */
function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** Messages go to stderr. */
function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** `1,234` */
const amount = (n: number): string => n.toLocaleString('en-US');

/** `1 credit`, `1,234 credits` */
const count = (n: number, noun: string): string => `${amount(n)} ${noun}${n === 1 ? '' : 's'}`;
