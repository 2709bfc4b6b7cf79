/** The pages of docs/reference that are made of the program: its commands and its settings. */
import type { Command } from 'commander';
import { settings } from '../../src/app/settings.ts';
import { exitCodes } from '../../src/errors.ts';
import { leaves } from './program.ts';

const exits: Record<keyof typeof exitCodes, string> = {
  ok: 'Done. Also `start` after SIGTERM or Ctrl-C.',
  failed: 'Failed, or the database is of a newer version. `status --check`: no worker is alive.',
  usage: 'Wrong usage or configuration. Nothing was read or written.',
  partial:
    'Partial: some records could not be had, or wait. Everything else is stored, and `status` says what is missing. Or what was erased is left in the lake.',
  refused: 'The source refused the token: 401 or 403.',
  differs: 'The mirror and the source differ.',
  interrupted: 'Interrupted or canceled. The same command resumes.',
};

/** The text behind the options of a command: see `note` in src/cli/command.ts. */
function noteOf(command: Command): string {
  let shown = '';
  command.configureOutput({ writeOut: text => (shown += text) });
  command.outputHelp();
  return shown.slice(command.helpInformation().length).trim().replaceAll('\n', ' ');
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

export function commandsPage(program: Command): string {
  const all = leaves(program).toSorted((a, b) => a.name.localeCompare(b.name));
  const parts = all.map(({ name, command }) => {
    const own = command.options.filter(({ long }) => long !== '--json');
    const options = own.map(({ flags, description }) => `- \`${flags}\`: ${description}`);
    const usage =
      own.length === command.options.length ? '[options]' : own.length > 0 ? '[options] [--json]' : '[--json]';
    const given = command.registeredArguments.map(
      one => `- \`${one.name()}\`${one.required ? '' : ' (optional)'}: ${one.description}`,
    );
    const note = noteOf(command);
    return [
      `## ${name}`,
      sentence(command.description()),
      `\`npx shelfdesk ${name} ${command.usage().replace('[options]', usage)}\``,
      ...([...given, ...options].length > 0 ? [[...given, ...options].join('\n')] : []),
      ...(name === 'sandbox'
        ? ['Faults and the admin port: [the sandbox](../../packages/sandbox/README.md).']
        : note === ''
          ? []
          : [note]),
    ].join('\n\n');
  });
  const codes = Object.entries(exitCodes).map(([name, code]) => `- \`${code}\`: ${exits[name as keyof typeof exits]}`);
  return `${[
    '# Commands',
    'Results go to stdout, everything else to stderr. With `--json` stdout is one JSON document. Colours appear on terminals only,\nand not with `NO_COLOR`. `--account <name>` in front of a command chooses one of several [accounts](../how-to/many-accounts.md).\nThis page is made of the program: `npm run docs` writes it.',
    all.map(({ name }) => `[${name}](#${name.replaceAll(' ', '-')})`).join(' · '),
    ...parts,
    '## Exit codes',
    codes.join('\n'),
  ].join('\n\n')}\n`;
}

export function settingsPage(): string {
  const parts = Object.entries(settings).map(([name, { says, secret, ...setting }]) => {
    const facts = [
      ...('default' in setting ? [`Default: \`${setting.default}\`.`] : []),
      ...(secret ? ['Secret: it is never shown.'] : []),
    ];
    return [`## ${name}`, says, ...(facts.length > 0 ? [facts.join(' ')] : [])].join('\n\n');
  });
  return `${[
    '# Settings',
    'Settings come from the environment, and from a file `.env` in the working folder. The environment has precedence. They\ndescribe the account `default`; [several accounts](../how-to/many-accounts.md) stand in a file. One without a default here is not set. An empty value\ncounts as no value, except in the times of the schedules. A wrong setting ends a command with exit code 2, and the message says which, where\nand what to do. This page is made of the program: `npm run docs` writes it.',
    ...parts,
  ].join('\n\n')}\n`;
}
