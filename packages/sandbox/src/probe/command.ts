/** The command line of the probe. */
import { Command, InvalidArgumentError, Option } from 'commander';
import { SandboxUsageError } from '../usage-error.ts';
import { type Answer, probe, QUESTIONS } from './probe.ts';

interface Options {
  token?: string;
  ticket?: string[];
  json?: boolean;
}

const WIDTH = Math.max(...QUESTIONS.map(({ about }) => about.length));

/** The command without an action. */
export function probeCommand(): Command {
  return new Command('probe')
    .description('ask a real help desk how it behaves where its specification is open')
    .argument('<url>', 'base address of the help desk, such as https://desk.example/api/v1', address)
    .addOption(new Option('--token <text>', 'its token').env('HELPDESK_TOKEN'))
    .option(
      '--ticket <id>',
      'an archived or a snoozed ticket, which no list can be asked for; may be repeated',
      several,
    )
    .option('--json', 'print one JSON document on stdout')
    .addHelpText('after', help());
}

/** Rejects with SandboxUsageError if the service does not answer, or refuses the token. */
export async function runProbe(command: Command, signal: AbortSignal): Promise<void> {
  const [url] = command.processedArgs as [string];
  const { token, ticket: tickets = [], json } = command.opts<Options>();
  if (token === undefined || token === '')
    throw new SandboxUsageError('a probe needs a token', 'Set HELPDESK_TOKEN, or give --token.');
  const say = (line: string) => process.stderr.write(`${line}\n`);
  const onWait = (seconds: number, why: string) => say(`Waiting ${seconds} s: ${why}.`);
  const onAnswer = json ? () => {} : (answer: Answer) => void process.stdout.write(`${lineOf(answer)}\n`);
  const { answers, requests, credits } = await probe({ url, token, signal, tickets, onWait, onAnswer });
  if (json) process.stdout.write(`${JSON.stringify({ url, requests, credits, answers }, null, 2)}\n`);
  else say(`${requests} requests, ${credits} credits.`);
}

const lineOf = ({ about, answer, evidence }: Answer) => `${about.padEnd(WIDTH)}  ${answer}: ${evidence}`;

function help(): string {
  const rows = QUESTIONS.map(
    ({ about, asks, option }) => `  ${about.padEnd(WIDTH)}  ${asks}${option === undefined ? '' : ` (${option})`}`,
  );
  return `
It only reads: some 45 requests for about 60 credits, five a second at most, and a tenth of the credits stays for others.
What it finds out, with the option by which the sandbox gives another answer:
${rows.join('\n')}`;
}

function address(value: string): string {
  if (URL.canParse(value) && /^https?:$/.test(new URL(value).protocol)) return value;
  throw new InvalidArgumentError('It must be an address that begins with https:// or http://.');
}

const several = (value: string, before: string[] = []): string[] => [...before, value];
