/** Command line in, exit code out. The composition root, and the only file that knows the jobs. */
import { readFileSync } from 'node:fs';
import { type Argument, Command, CommanderError, Help } from 'commander';
import { auditStream } from '../jobs/audit-stream.ts';
import { backfillStream } from '../jobs/backfill-stream.ts';
import { exportLake } from '../jobs/export-lake.ts';
import { stageLake } from '../jobs/stage-lake.ts';
import { sweepStream } from '../jobs/sweep-stream.ts';
import { syncStream } from '../jobs/sync-stream.ts';
import { verifyStream } from '../jobs/verify-stream.ts';
import { chooseAccount, demoInstead, oneAccount, readFleet, startedByNpx } from './app/config.ts';
import type { Act, AddCommand, Deps } from './cli/command.ts';
import { withNewName } from './cli/old-names.ts';
import { failPlainly, say, showCursor, style } from './cli/output/terminal.ts';
import { tellWaits } from './engine/database/waits.ts';
import { redisRefusal } from './engine/queue/redis-refusals.ts';
import {
  Away,
  exitCodes,
  Interrupted,
  isAway,
  machineRefusal,
  orReason,
  ShelfdeskError,
  stackOf,
  unlessMoved,
} from './errors.ts';

/**
 * Loader of each command, by group of --help. A command loads only its own modules, so that the program starts quickly.
 */
const groups: Record<string, Record<string, () => Promise<AddCommand>>> = {
  'Try it:': {
    demo: async () => (await import('./cli/setup/demo.ts')).addDemo,
    sandbox: async () => (await import('./cli/setup/sandbox.ts')).addSandbox,
    db: async () => (await import('./cli/setup/db.ts')).addDb,
  },
  'Mirror:': {
    start: async () => (await import('./cli/work/start.ts')).addStart,
    sync: async () => (await import('./cli/work/sync.ts')).addSync,
    backfill: async () => (await import('./cli/work/backfill.ts')).addBackfill,
    sweep: async () => (await import('./cli/work/sweep.ts')).addSweep,
    verify: async () => (await import('./cli/work/verify.ts')).addVerify,
    plan: async () => (await import('./cli/work/plan.ts')).addPlan,
    lake: async () => (await import('./cli/work/lake.ts')).addLake,
  },
  'Look:': {
    status: async () => (await import('./cli/look/status.ts')).addStatus,
    why: async () => (await import('./cli/look/why.ts')).addWhy,
    web: async () => (await import('./cli/look/web.ts')).addWeb,
    mcp: async () => (await import('./cli/look/mcp.ts')).addMcp,
    sql: async () => (await import('./cli/look/sql.ts')).addSql,
    query: async () => (await import('./cli/look/query.ts')).addQuery,
    schema: async () => (await import('./cli/look/schema.ts')).addSchema,
  },
  'Mend:': {
    doctor: async () => (await import('./cli/look/doctor.ts')).addDoctor,
    rejects: async () => (await import('./cli/look/rejects.ts')).addRejects,
    runs: async () => (await import('./cli/work/runs.ts')).addRuns,
  },
  'Control:': {
    pause: async () => (await import('./cli/work/pause.ts')).addPause,
    resume: async () => (await import('./cli/work/pause.ts')).addResume,
    schedule: async () => (await import('./cli/work/schedule.ts')).addSchedule,
    'hand-off': async () => (await import('./cli/work/hand-off.ts')).addHandOff,
  },
  'Set up:': {
    init: async () => (await import('./cli/setup/init.ts')).addInit,
    migrate: async () => (await import('./cli/setup/migrate.ts')).addMigrate,
    warehouse: async () => (await import('./cli/setup/warehouse/warehouse.ts')).addWarehouse,
    account: async () => (await import('./cli/setup/account.ts')).addAccount,
    source: async () => (await import('./cli/source/source.ts')).addSource,
    erase: async () => (await import('./cli/setup/erase.ts')).addErase,
    completion: async () => (await import('./cli/setup/completion.ts')).addCompletion,
  },
};

/** The commands that a first --help names. `--help --all` names all of them. */
const first = 'demo init sync start status doctor sql web backfill verify rejects runs'.split(' ');

const jobs = [syncStream, backfillStream, sweepStream, auditStream, verifyStream];
const lakeJobs = [exportLake, stageLake];

const lingerMs = 1000;
const parentLookMs = 250;

const moreHelp = `
More commands: shelfdesk --help --all. Options of one: shelfdesk sync --help.
`;

const exitCodeHelp = `
Exit codes: 0 ok, 1 failed, 2 wrong usage or configuration, 3 partial, 4 refused
by the source (401, 403), 5 differences found, 130 interrupted (run the same
command again to resume).
Settings come from the environment and from .env: docs/reference/settings.md.`;

async function main(given: readonly string[]): Promise<void> {
  const { args, says } = withNewName(given);
  let isHelp = false;
  if (says !== undefined) say(says);
  const { version, description } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  const program: Command = new Command('shelfdesk')
    .description(description)
    .version(version)
    .option('--account <name>', 'account to use if several are configured (SHELFDESK_CONFIG)')
    .exitOverride()
    .showHelpAfterError('(see --help)')
    .configureHelp({
      subcommandTerm: one => [one.name(), ...one.registeredArguments.map(termOf)].join(' '),
      formatHelp(command, helper) {
        isHelp = true;
        return Help.prototype.formatHelp.call(this, command, helper);
      },
      // A mistyped name is compared with all of them.
      visibleCommands(command) {
        const all = Help.prototype.visibleCommands.call(this, command);
        const isShort = isHelp && command === program && !args.includes('--all');
        return isShort ? all.filter(one => first.includes(one.name())) : all;
      },
    })
    .addHelpText('after', () => (args.includes('--all') ? '' : moreHelp) + exitCodeHelp);
  const named = () => program.opts<{ account?: string }>().account;
  let demo: Awaited<ReturnType<typeof demoInstead>>;
  program.hook('preAction', async () => {
    demo = await demoInstead(named());
  });
  const read = () => readFleet(undefined, undefined, demo);
  const deps: Deps = {
    config: () => chooseAccount(read(), named()),
    fleet: () => oneAccount(read(), named()),
    asked: () => ({ fleet: read(), account: named() }),
    jobs,
    lakeJobs,
    signal: interruption(),
  };
  tellWaits(
    deps.signal,
    sentence => say(`${style('yellow', '!', process.stderr)} ${sentence}`),
    () => process.exit(exitCodes.interrupted),
  );
  for (const [group, adds] of await asked(args)) {
    program.commandsGroup(group);
    for (const add of adds) add(program, deps, act);
  }
  try {
    await program.parseAsync(args.map(asValue), { from: 'user' });
  } catch (error) {
    process.exitCode = explain(orReason(error, deps.signal));
  }
  // A library that keeps retrying an unreachable server must not keep an interrupted process alive.
  if (deps.signal.aborted) setTimeout(() => process.exit(), lingerMs).unref();
}

/** Protects an SQL argument that starts with a comment (`-- `) from being parsed as an option. */
const asValue = (arg: string): string => (/^--\s/.test(arg) ? `\n${arg}` : arg);

/**
 * Loads the named command. Without a known name it loads all commands, for help texts, errors and completion.
 */
async function asked([name = '']: readonly string[]): Promise<[group: string, adds: AddCommand[]][]> {
  const all = Object.entries(groups);
  const named = all.flatMap(([group, loaders]) =>
    Object.hasOwn(loaders, name) && name !== 'completion' ? [[group, { [name]: loaders[name]! }] as const] : [],
  );
  return Promise.all(
    (named.length > 0 ? named : all).map(async ([group, loaders]) => [
      group,
      await Promise.all(Object.values(loaders).map(load => load())),
    ]),
  );
}

/** `<query>`, `[streams...]` */
const termOf = (argument: Argument): string => {
  const name = argument.name() + (argument.variadic ? '...' : '');
  return argument.required ? `<${name}>` : `[${name}]`;
};

const act: Act =
  action =>
  async (...args) => {
    process.exitCode = (await action(...args)) ?? exitCodes.ok;
  };

/**
 * The first Ctrl-C or SIGTERM stops the work after the current page. The second one is left to the system, which ends the process
 * at once: code that never returns to the event loop would keep a handler of ours from running. A SIGTERM to `npx` reaches only npm and its shell. The shell dies, so this process detects the signal by its changed parent id.
 */
function interruption(): AbortSignal {
  const controller = new AbortController();
  const signals = ['SIGINT', 'SIGTERM'] as const;
  const stop = () => {
    for (const signal of signals) {
      process.off(signal, stop);
      // The first process of a container gets only signals that it handles.
      if (process.pid === 1) process.on(signal, () => process.exit(exitCodes.interrupted));
    }
    showCursor();
    controller.abort(new Interrupted());
  };
  for (const signal of signals) process.on(signal, stop);
  if (startedByNpx()) {
    const { ppid } = process;
    const look = () => process.ppid !== ppid && controller.abort(new Interrupted());
    setInterval(look, parentLookMs).unref();
  }
  return controller.signal;
}

/** Prints message and remedy of an expected failure, or the stack of a bug. Returns the exit code. */
function explain(cause: unknown): number {
  const thrown = unlessMoved(cause);
  // Refusals of the operating system and outages are no bugs, wherever they are thrown.
  const outage = isAway(thrown) && !(thrown instanceof ShelfdeskError) ? new Away(thrown) : thrown;
  const error = machineRefusal(thrown) ?? refusedBy(thrown) ?? outage;
  // Commander has already printed the error.
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
  if (error instanceof ShelfdeskError) {
    if (!(error instanceof Interrupted)) say(`${style('red', 'error:', process.stderr)} ${error.message}`);
    say(error.remedy);
    return error.exitCode;
  }
  say(error instanceof Error ? stackOf(error) : String(error));
  return exitCodes.failed;
}

/** A permanent refusal of Redis in the middle of a command. */
function refusedBy(thrown: unknown): ShelfdeskError | undefined {
  const refused = thrown instanceof Error && thrown.name === 'ReplyError' ? redisRefusal(thrown) : undefined;
  return refused && new ShelfdeskError(refused.says, refused.remedy, { cause: thrown });
}

failPlainly();
// An error that no one awaits: of a stream, a socket or another program.
process.on('uncaughtException', error => process.exit(explain(error)));
await main(process.argv.slice(2));
