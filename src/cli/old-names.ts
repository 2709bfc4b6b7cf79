/** Names that commands had before 0.2. They work until 1.0: the same command runs, after one line that tells its new name. */

const newNames: Readonly<Record<string, readonly string[]>> = {
  drift: ['rejects', 'drift'],
  health: ['status', '--check'],
  reader: ['warehouse', 'reader'],
  calendar: ['warehouse', 'calendar'],
  target: ['warehouse', 'target'],
  fields: ['warehouse', 'fields'],
  search: ['warehouse', 'search'],
};

export interface Renamed {
  readonly args: readonly string[];
  /** The line that tells people the new name. Undefined if they used it. */
  readonly says?: string;
}

/** The arguments with the new name of the command. `help reader` and `--account acme reader list` name one too. */
export function withNewName(args: readonly string[]): Renamed {
  const first = args.findIndex((arg, i) => !arg.startsWith('-') && args[i - 1] !== '--account');
  const isHelp = args[first] === 'help';
  const place = isHelp ? first + 1 : first;
  const old = args[place];
  if (old === undefined || !Object.hasOwn(newNames, old)) return { args };
  const named = newNames[old]!;
  // `drift list` was the only command of `drift`.
  const after = args.slice(place + (old === 'drift' && args[place + 1] === 'list' ? 2 : 1));
  return {
    args: [...args.slice(0, first), ...named, ...after, ...(isHelp ? ['--help'] : [])],
    says: `\`shelfdesk ${old}\` is \`shelfdesk ${named.join(' ')}\` now. The old name works until 1.0.`,
  };
}
