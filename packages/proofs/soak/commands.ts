/** Commands that people begin beside the workers, which do their work. */
import { type Finished, shelfdesk } from '../../../test/support/cli.ts';

export interface Commands {
  /** One at a time. Answers when it has ended. */
  run(...args: string[]): Promise<Finished>;
  readonly running: boolean;
  /** How often each was run. */
  readonly runs: ReadonlyMap<string, number>;
}

/** `ended` hears how each ended. */
export function commandsWith(
  env: Record<string, string>,
  stack: AsyncDisposableStack,
  ended: (command: string, finished: Finished) => void,
): Commands {
  const runs = new Map<string, number>();
  let current: ReturnType<typeof shelfdesk> | undefined;
  stack.defer(async () => {
    current?.process.kill('SIGKILL');
    await current?.finished;
  });
  return {
    runs,
    get running() {
      return current !== undefined;
    },
    async run(...args) {
      const command = args.join(' ');
      runs.set(command, (runs.get(command) ?? 0) + 1);
      current = shelfdesk(args, env);
      const finished = await current.finished;
      current = undefined;
      ended(command, finished);
      return finished;
    },
  };
}
