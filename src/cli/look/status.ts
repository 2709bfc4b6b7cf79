/** `status`: completeness and freshness of each stream, missing data, and remedies. */
import type { Command } from 'commander';
import { isDemo } from '../../app/config.ts';
import { configuredSources } from '../../app/context.ts';
import { systemClock } from '../../clock.ts';
import { pendingMigrations } from '../../engine/database/migrate.ts';
import { streams as declared, sources } from '../../sources/index.ts';
import { type Problem, readAllProblems } from '../../status/problems.ts';
import { type AuditConfidence, readStatus, type StreamStatus } from '../../status/streams.ts';
import { liveWorkers, workerLine } from '../../status/workers.ts';
import { amount, count, duration, upperFirst } from '../../words.ts';
import { chosenAccounts, demoHasEnded, hasEnded, servedBy } from '../choose-account.ts';
import { type Act, type Deps, jsonOption, note } from '../command.ts';
import { cellText, print, printJson, say, style, tableOf } from '../output/terminal.ts';
import { warehouseOf } from '../warehouse.ts';
import { checkHealth } from './health.ts';

export function addStatus(program: Command, deps: Deps, act: Act): void {
  program
    .command('status')
    .summary('show how complete and fresh each stream is')
    .description('show how complete and how fresh each stream is, and what is missing')
    .option('--wide', 'also show times, lags, ages, deletion checks and last runs')
    .option('--check', 'exit 0 if the warehouse answers and a worker of this machine is alive, else 1')
    .option(...jsonOption)
    .addHelpText(
      'after',
      note(
        '--check is for health checks. Of several workers on one machine it sees that one lives. It does not ask Redis.',
      ),
    )
    .action(
      act(async (options: { json?: boolean; wide?: boolean; check?: boolean }) => {
        if (options.check) return checkHealth(deps, options);
        const asked = deps.asked();
        await using warehouse = await warehouseOf(asked.fleet, deps.signal);
        const { missing, unknown } = await pendingMigrations(warehouse.pg);
        const db = missing.length > 0 ? undefined : warehouse.pg;
        const { accounts, refused } = await chosenAccounts({ asked: () => asked }, db);
        const isOne = accounts.length + refused.length === 1;
        const streams = db
          ? await readStatus(
              db,
              [...accounts, ...refused].map(({ account }) => account),
              accounts.map(servedBy),
            )
          : [];
        const names = accounts.map(({ account }) => account);
        const workers = db ? await liveWorkers(db, names) : [];
        const problems = db ? await readAllProblems(db, names) : [];
        if (options.json) {
          const configured = accounts.map(one => {
            const set = configuredSources(one);
            return { account: one.account, ...Object.fromEntries(sources.map(({ name }) => [name, set.has(name)])) };
          });
          const wrong = refused.map(({ account, error: { message, remedy } }) => ({ account, message, remedy }));
          printJson({
            ...(isOne ? configured[0] : { accounts: configured, refused: wrong }),
            migrations: { missing, unknown },
            workers: workers.map(workerLine),
            problems,
            streams,
          });
          return;
        }
        for (const { account, error } of refused) say(`! ${account}: ${error.message}. ${error.remedy}`);
        const ofDemo = isOne && accounts[0] && isDemo(accounts[0]);
        const isOver = ofDemo && hasEnded(accounts[0]!);
        if (isOver) say(demoHasEnded);
        for (const { name, label, requires } of isOne && !ofDemo ? sources : [])
          if (accounts[0] && !configuredSources(accounts[0]).has(name))
            say(`${upperFirst(label)} is not configured (${requires}).`);
        for (const one of isOne ? [] : accounts)
          if (configuredSources(one).size === 0)
            say(`Account '${one.account}' has no settings here, so it is not synced.`);
        if (unknown.length > 0)
          say(`The database was migrated by a newer Shelfdesk (${unknown.join(', ')}): upgrade this one.`);
        if (missing.length > 0)
          say('The tables are missing or outdated: run `npx shelfdesk sync` or `npx shelfdesk migrate`.');
        else {
          const told = isOver ? problems.filter(({ problem }) => problem !== 'no_worker') : problems;
          show(streams, told, { isWide: options.wide === true, isOne });
        }
        for (const [where, those] of Map.groupBy(workers, ({ host, pid }) => `on ${host}, process ${pid}`))
          say(
            those.length > 1
              ? `workers of ${those.length} accounts run ${where}`
              : `worker ${those[0]!.id} runs ${where}`,
          );
      }),
    );
}

/** Remaining deferral in ms. `deferred_until` stays set after it has passed. */
const deferredMs = ({ deferred_until }: Pick<StreamStatus, 'deferred_until'>) =>
  Math.max(0, (deferred_until?.getTime() ?? 0) - systemClock.now());

const span = (seconds: number | null) => (seconds === null ? '' : duration(seconds));

/** Fits into 80 columns: times are relative, and the account is left out if there is only one. */
const narrow = (streams: readonly StreamStatus[], isOne: boolean): string =>
  tableOf<StreamStatus>(
    streams,
    {
      ...(!isOne && { account: s => s.account }),
      stream: s => s.name,
      state: s => s.state.replaceAll('_', ' '),
      'behind / target': s =>
        [span(s.behind_seconds) || '–', ...(s.target_seconds === null ? [] : [span(s.target_seconds)])].join(' / '),
      backlog: s => s.waiting,
      'time left': s => span(s.time_left_seconds),
      problems: problemsOf,
    },
    widestProblem,
  );

const widestProblem = 30;

/** Such as `2 gaps, 1 reject`. */
function problemsOf(s: StreamStatus): string {
  const isOdd = s.last_state !== null && !['completed', 'running', 'waiting', 'paused'].includes(s.last_state);
  return [
    ...(deferredMs(s) > 0 ? [`deferred for ${duration(deferredMs(s) / 1000)}`] : []),
    ...(isOdd ? [s.last_state] : []),
    ...(s.gaps.length > 0 ? [count(s.gaps.length, 'gap')] : []),
    ...(s.open_rejects > 0 ? [count(s.open_rejects, 'reject')] : []),
    ...(s.unconfirmed_deletions > 0 ? [`${amount(s.unconfirmed_deletions)} perhaps deleted`] : []),
  ].join(', ');
}

const wide = (streams: readonly StreamStatus[]): string =>
  tableOf(streams, {
    account: s => s.account,
    stream: s => s.name,
    'complete from': s => s.complete_from,
    'complete through': s => s.complete_through ?? 'never',
    lag: s => span(s.lag_seconds),
    state: s => s.state.replaceAll('_', ' '),
    behind: s => span(s.behind_seconds),
    target: s => span(s.target_seconds),
    p95: s => span(s.latency_p95_seconds),
    gaps: s => s.gaps.length,
    waiting: s => s.waiting,
    'time left': s => span(s.time_left_seconds),
    rejects: s => s.open_rejects,
    'deletes checked': s => s.deletes_checked_at ?? (isSwept(s) ? 'never' : null),
    'unchecked since': s => s.unchecked_since,
    'last run': s =>
      deferredMs(s) > 0 ? `deferred until ${s.deferred_until!.toISOString().slice(0, 16)}Z` : (s.last_state ?? 'never'),
  });

const colours = { critical: 'red', warning: 'yellow', info: 'dim' } as const;

/** `isOne`: there is only one account, with rows or with settings. */
function show(
  streams: readonly StreamStatus[],
  problems: readonly Problem[],
  { isWide, isOne }: { isWide: boolean; isOne: boolean },
): void {
  if (streams.every(({ state }) => state === 'never_synced'))
    say('Nothing has been read yet: run `npx shelfdesk sync`.');
  if (streams.length === 0) return;
  print(isWide ? wide(streams) : narrow(streams, isOne));
  for (const { account, name, complete_from } of streams.filter(one => one.complete_from !== null))
    say(`${isOne ? '' : `${account} `}${name}: records last changed before ${cellText(complete_from)} may be missing.`);
  for (const { account, severity, says, remedy, since } of problems) {
    const which = isOne ? '' : `${account}: `;
    const when = since === null ? '' : ` (for ${duration((systemClock.now() - since.getTime()) / 1000)})`;
    say(`${style(colours[severity], severity, process.stderr)}: ${which}${says}${when}`);
    say(`  ${remedy}`);
  }
  const isTold = ({ account, source, last_state }: StreamStatus) =>
    problems.some(
      one =>
        one.account === account &&
        (one.problem === 'no_worker'
          ? last_state === 'interrupted'
          : ['outage', 'run_failed', 'token_refused', 'most_rejected'].includes(one.problem) && one.source === source),
    );
  const nameOf = ({ account, name }: StreamStatus) => (isOne ? name : `${account} ${name}`);
  for (const one of streams) {
    const { gaps, audit_confidence } = one;
    const stream = nameOf(one);
    // A gap with a reason is listed as a problem.
    for (const gap of gaps.filter(({ reason }) => reason === null))
      say(`${stream}: gap in the ${gap.list} list from ${String(gap.from)} to ${String(gap.to)}`);
    for (const found of audit_confidence) say(`${stream}: ${auditSentence(one, found)}`);
  }
  const failed = streams.filter(one => one.last_error && !isTold(one));
  for (const [says, those] of Map.groupBy(failed, one => `${one.last_error}. ${one.remedy ?? ''}`))
    say(`${style('yellow', those.map(nameOf).join(', '), process.stderr)}: ${says}`);
}

type Named = Pick<StreamStatus, 'source' | 'stream'>;

const declaredOf = ({ source, stream }: Named) => declared.find(one => one.source === source && one.name === stream);

const isSwept = (one: Named): boolean => declaredOf(one)?.jobs.sweep !== undefined;

/** Population of the audit sample: mirrored records only. Details are compared with their whole record. */
function drawnOf(one: Named): string {
  const stream = declaredOf(one);
  return stream?.kind === 'detail' ? `${stream.of.name} with complete ${stream.name}` : `mirrored ${one.stream}`;
}

/** Few samples bound no share: of one equal record the bound is 95 %, which reads like an alarm. */
const fewestForShare = 50;

/** The result of audits in one sentence. For a healthy stream with few samples only the number of equal records. */
export function auditSentence(
  stream: Named,
  { field, checked, differed, unread, at_most_percent, as_of }: AuditConfidence,
): string {
  const besides = unread > 0 ? `; ${amount(unread)} could not be read` : '';
  if (differed === 0 && checked < fewestForShare)
    return `spot check: ${amount(checked)} of ${amount(checked)} equal${besides}`;
  const from = field === '' ? 'from the source' : `in ${field}`;
  const when = `${new Date(as_of).toISOString().slice(0, 19)}Z`;
  const most = `at most ${Math.ceil(10 * at_most_percent) / 10} % of the ${drawnOf(stream)} differ, with 95 % confidence, as of ${when}`;
  return differed === 0
    ? `spot check: ${amount(checked)} of ${amount(checked)} equal${besides}; ${most}`
    : `${amount(differed)} of ${amount(checked)} re-read records differed ${from}${besides}: ${most}`;
}
