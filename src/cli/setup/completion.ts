/** `completion`: prints a script that completes commands and options in a shell. */
import type { Command } from 'commander';
import { UsageError } from '../../errors.ts';
import { type Act, type Deps, note } from '../command.ts';
import { print } from '../output/terminal.ts';

export function addCompletion(program: Command, _deps: Deps, act: Act): void {
  program
    .command('completion')
    .summary('complete commands in a shell')
    .description('print a script that completes commands and options in bash, zsh or fish')
    .addHelpText(
      'after',
      note(
        'bash and zsh: source <(shelfdesk completion bash), or zsh. fish: shelfdesk completion fish | source. Put the line into the start file of the shell.',
      ),
    )
    .argument('<shell>', 'bash, zsh or fish')
    .action(
      act(async (shell: string) => {
        const write = Object.hasOwn(shells, shell) ? shells[shell as keyof typeof shells] : undefined;
        if (write === undefined)
          throw new UsageError(
            `there is no completion for ${shell}`,
            `Choose from: ${Object.keys(shells).join(', ')}.`,
          );
        print(write(program));
      }),
    );
}

interface Place {
  /** The commands before: `['runs', 'list']`. */
  readonly path: readonly string[];
  readonly command: Command;
}

const placesIn = (command: Command, path: readonly string[] = []): Place[] => [
  { path, command },
  ...command.commands.flatMap(one => placesIn(one, [...path, one.name()])),
];

const optionsOf = (command: Command) =>
  command.options.flatMap(({ long, description }) => (long ? [{ long, description }] : []));

/** Words that may follow a command: its subcommands and options. */
const wordsOf = (command: Command): string =>
  [...command.commands.map(one => one.name()), ...optionsOf(command).map(({ long }) => long)].join(' ');

function bash(program: Command): string {
  // A longer path comes before the path that it begins with.
  const cases = placesIn(program)
    .toSorted((a, b) => b.path.length - a.path.length)
    .map(({ path, command }) => `    "${path.map(name => ` ${name}`).join('')}"*) words="${wordsOf(command)}" ;;`);
  return `_shelfdesk() {
  local path= words= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "\${COMP_WORDS[i]}" in -*) ;; *) path="$path \${COMP_WORDS[i]}" ;; esac
  done
  case "$path" in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _shelfdesk shelfdesk`;
}

const zsh = (program: Command): string => `autoload -U +X bashcompinit && bashcompinit\n${bash(program)}`;

function fish(program: Command): string {
  const lines = placesIn(program).flatMap(({ path, command }) => {
    const [parent] = path;
    const when =
      parent === undefined
        ? '__fish_use_subcommand'
        : path.map(name => `__fish_seen_subcommand_from ${name}`).join('; and ');
    const more = [
      ...command.commands.map(one => `-a ${one.name()} -d ${quoted(one.summary() || one.description())}`),
      ...optionsOf(command).map(({ long, description }) => `-l ${long.slice(2)} -d ${quoted(description)}`),
    ];
    return more.map(each => `complete -c shelfdesk -n '${when}' ${each}`);
  });
  return ['complete -c shelfdesk -f', ...lines].join('\n');
}

const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;

const shells = { bash, zsh, fish };
