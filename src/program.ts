/** Command line in, exit code out. The composition root, and the only file that knows the jobs. */
import { readFileSync } from 'node:fs';
import { type Argument, Command, CommanderError } from 'commander';
import { auditStream } from '../jobs/audit-stream.ts';
import { backfillStream } from '../jobs/backfill-stream.ts';
import { exportLake } from '../jobs/export-lake.ts';
import { stageLake } from '../jobs/stage-lake.ts';
import { sweepStream } from '../jobs/sweep-stream.ts';
import { syncStream } from '../jobs/sync-stream.ts';
import { verifyStream } from '../jobs/verify-stream.ts';
import { chooseAccount, demoInstead, oneAccount, readFleet, startedByNpx } from './app/config.ts';
import type { Act, AddCommand, Deps } from './cli/command.ts';
import { allowClosedPipes, say, style } from './cli/output/terminal.ts';
import { Away, exitCodes, Interrupted, isAway, ShelfdeskError } from './errors.ts';
import { checkDeclarations } from './sources/check-declarations.ts';
import { streams } from './sources/index.ts';

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
    drift: async () => (await import('./cli/look/drift.ts')).addDrift,
    runs: async () => (await import('./cli/work/runs.ts')).addRuns,
  },
  'Control:': {
    pause: async () => (await import('./cli/work/pause.ts')).addPause,
    resume: async () => (await import('./cli/work/resume.ts')).addResume,
    schedule: async () => (await import('./cli/work/schedule.ts')).addSchedule,
    health: async () => (await import('./cli/look/health.ts')).addHealth,
    'hand-off': async () => (await import('./cli/work/hand-off.ts')).addHandOff,
  },
  'Set up:': {
    init: async () => (await import('./cli/setup/init.ts')).addInit,
    migrate: async () => (await import('./cli/setup/migrate.ts')).addMigrate,
    reader: async () => (await import('./cli/setup/reader.ts')).addReader,
    search: async () => (await import('./cli/setup/search.ts')).addSearch,
    calendar: async () => (await import('./cli/setup/calendar.ts')).addCalendar,
    target: async () => (await import('./cli/setup/target.ts')).addTarget,
    fields: async () => (await import('./cli/setup/fields.ts')).addFields,
    erase: async () => (await import('./cli/setup/erase.ts')).addErase,
    completion: async () => (await import('./cli/setup/completion.ts')).addCompletion,
  },
};
const jobs = [syncStream, backfillStream, sweepStream, auditStream, verifyStream];
const lakeJobs = [exportLake, stageLake];

const lingerMs = 1000;
const parentLookMs = 250;

const exitCodeHelp = `
Exit codes: 0 ok, 1 failed, 2 wrong usage or configuration, 3 partial, 4 refused by the source (401, 403),
5 differences found, 130 interrupted (run the same command again to resume).
Settings come from the environment and from .env: docs/reference/settings.md.`;

async function main(args: readonly string[]): Promise<void> {
  const { version, description } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  const program = new Command('shelfdesk')
    .description(description)
    .version(version)
    .option('--account <name>', 'account to use if several are configured (SHELFDESK_CONFIG)')
    .exitOverride()
    .showHelpAfterError('(see --help)')
    .configureHelp({ subcommandTerm: one => [one.name(), ...one.registeredArguments.map(termOf)].join(' ') })
    .addHelpText('after', exitCodeHelp);
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
  for (const [group, adds] of await asked(args)) {
    program.commandsGroup(group);
    for (const add of adds) add(program, deps, act);
  }
  try {
    checkDeclarations(streams);
    await program.parseAsync(args.map(asValue), { from: 'user' });
  } catch (error) {
    process.exitCode = explain(error);
  }
  // A library that keeps retrying an unreachable server must not keep an interrupted process alive.
  if (deps.signal.aborted) setTimeout(() => process.exit(), lingerMs).unref();
}

/** Protects an SQL argument that starts with a comment (`-- `) from being parsed as an option. */
const asValue = (arg: string): string => (/^--\s/.test(arg) ? `\n${arg}` : arg);

/**
 * Loads the named command, and none for the version. Without a known name it loads all commands, for help texts, errors and
 * completion.
 */
async function asked([name = '']: readonly string[]): Promise<[group: string, adds: AddCommand[]][]> {
  if (name === '--version' || name === '-V') return [];
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
    process.exitCode = await action(...args);
  };

/**
 * The first Ctrl-C or SIGTERM stops the work after the current page; the second one exits immediately. A SIGTERM to `npx`
 * reaches only npm and its shell. The shell dies, so this process detects the signal by its changed parent id.
 */
function interruption(): AbortSignal {
  const controller = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (controller.signal.aborted) process.exit(exitCodes.interrupted);
      controller.abort(new Interrupted());
    });
  }
  if (startedByNpx()) {
    const { ppid } = process;
    const look = () => process.ppid !== ppid && controller.abort(new Interrupted());
    setInterval(look, parentLookMs).unref();
  }
  return controller.signal;
}

/** Prints message and remedy of an expected failure, or the stack of a bug. Returns the exit code. */
function explain(thrown: unknown): number {
  // An outage is never a bug, wherever it is thrown.
  const error = isAway(thrown) && !(thrown instanceof ShelfdeskError) ? new Away(thrown) : thrown;
  // Commander has already printed the error.
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
  if (error instanceof ShelfdeskError) {
    if (!(error instanceof Interrupted)) say(`${style('red', 'error:', process.stderr)} ${error.message}`);
    say(error.remedy);
    return error.exitCode;
  }
  say(error instanceof Error ? (error.stack ?? error.message) : String(error));
  return exitCodes.failed;
}

allowClosedPipes();
await main(process.argv.slice(2));
