/** `status`: completeness and freshness of each stream, missing data, and remedies. */
import type { Command } from 'commander';
import type pg from 'pg';
import type { Shown } from '../../agents/masked.ts';
import { isDemo } from '../../app/config.ts';
import { configuredSources } from '../../app/context.ts';
import { systemClock } from '../../clock.ts';
import { pendingMigrations } from '../../engine/database/migrate.ts';
import { streamKey } from '../../engine/database/stream-key.ts';
import type { SourceName } from '../../engine/http/request.ts';
import { workersOf } from '../../engine/runs/workers.ts';
import { exitCodes } from '../../errors.ts';
import { readClockProblems } from '../../ops/clock-problems.ts';
import type { Served } from '../../ops/known-accounts.ts';
import { oldDemo } from '../../ops/old-demo.ts';
import { type Problem, readProblems } from '../../ops/problems.ts';
import { timeLeft } from '../../ops/time-left.ts';
import { streams as declared, sources, streamsOf } from '../../sources/index.ts';
import { amount, count, upperFirst } from '../../words.ts';
import { chosenAccounts, demoHasEnded, hasEnded, servedBy } from '../choose-account.ts';
import { type Act, type Deps, note } from '../command.ts';
import { cellText, duration, print, printJson, say, style, table } from '../output/terminal.ts';
import { warehouseOf } from '../warehouse.ts';
import { checkHealth } from './health.ts';

export interface StreamStatus {
  account: string;
  stream: string;
  source: SourceName;
  /** Earlier records may be missing; null: complete from the beginning. */
  complete_from: Date | null;
  complete_through: Date | null;
  lag_seconds: number | null;
  /** Lag of the newest synced range, without history; null during a first load. */
  behind_seconds: number | null;
  /** Freshness target; null if the stream has none. */
  target_seconds: number | null;
  /** fresh, catching_up, stale, failing, never_synced, paused. */
  state: string;
  /** Change latency of the last hour, p50 and p95; null without changes. */
  latency_p50_seconds: number | null;
  latency_p95_seconds: number | null;
  gaps: { list: string; from: Date; to: Date; reason: string | null }[];
  waiting: number;
  /** Seconds until all pending records are read, at the configured limits. */
  time_left_seconds: number | null;
  open_rejects: number;
  last_run: number | null;
  last_state: string | null;
  last_finished_at: Date | null;
  last_success_at: Date | null;
  last_error: string | null;
  remedy: string | null;
  /** The daily quota is used up; a worker resumes at this time. */
  deferred_until: Date | null;
  /** Deletions up to this time are known. */
  deletes_checked_at: Date | null;
  /** Deletion candidates that a sweep left unmarked because they exceed its limit. */
  unconfirmed_deletions: number;
  /** Audit confidence: field '' (any field) first, then each field that differed. */
  audit_confidence: AuditConfidence[];
  /** Recommendations for recurring kinds of difference. */
  recommendations: { kind: string; times: number; last_at: string; setting: string | null; remedy: string }[];
}

export interface AuditConfidence {
  field: string;
  checked: number;
  differed: number;
  /** Sampled records that could not be read. */
  unread: number;
  at_most_percent: number;
  as_of: string;
}

export function addStatus(program: Command, deps: Deps, act: Act): void {
  program
    .command('status')
    .summary('show how complete and fresh each stream is')
    .description('show how complete and how fresh each stream is, and what is missing')
    .option('--wide', 'also show times, lags, ages, deletion checks and last runs')
    .option('--check', 'exit 0 if the warehouse answers and a worker of this machine is alive, else 1')
    .option('--json', 'print one JSON document on stdout')
    .addHelpText(
      'after',
      note(
        '--check is for health checks. Of several workers on one machine it sees that one lives. It does not ask Redis.',
      ),
    )
    .action(
      act(async (options: { json?: boolean; wide?: boolean; check?: boolean }) => {
        if (options.check) return checkHealth(deps, options);
        await using warehouse = await warehouseOf(deps.asked().fleet, deps.signal);
        const { missing, unknown } = await pendingMigrations(warehouse.pg);
        const db = missing.length > 0 ? undefined : warehouse.pg;
        const { accounts, refused } = await chosenAccounts(deps, db);
        const isOne = accounts.length + refused.length === 1;
        const streams = db
          ? await readStatus(
              db,
              [...accounts, ...refused].map(({ account }) => account),
              accounts.map(servedBy),
            )
          : [];
        const names = accounts.map(({ account }) => account);
        const workers = db ? await workersOf(db, names) : [];
        const problems = db ? [...(await readProblems(db, names)), ...(await readClockProblems(db, names))] : [];
        if (options.json) {
          const configured = accounts.map(one => {
            const set = configuredSources(one);
            return { account: one.account, ...Object.fromEntries(sources.map(({ name }) => [name, set.has(name)])) };
          });
          const wrong = refused.map(({ account, error: { message, remedy } }) => ({ account, message, remedy }));
          printJson({
            ...(isOne ? configured[0] : { accounts: configured, refused: wrong }),
            migrations: { missing, unknown },
            workers,
            problems,
            streams,
          });
          return exitCodes.ok;
        }
        for (const { account, error } of refused) say(`! ${account}: ${error.message}. ${error.remedy}`);
        const ofDemo = isOne && accounts[0] && isDemo(accounts[0]);
        const isOver = ofDemo && hasEnded(accounts[0]!);
        if (isOver) say(demoHasEnded);
        const old = db && !ofDemo ? await oldDemo(db) : undefined;
        if (old !== undefined) say(`! ${old.says} ${old.remedy}`);
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
        return exitCodes.ok;
      }),
    );
}

/** Status of these accounts only; the warehouse may hold others. Without settings in `served` the time left is null. */
export async function readStatus(
  db: pg.Pool,
  accounts: readonly string[],
  served: readonly Served[] = [],
): Promise<StreamStatus[]> {
  const { rows } = await db.query<Omit<StreamStatus, 'time_left_seconds'>>(
    `select s.account_id as account, s.stream, s.complete_from, s.complete_through, extract(epoch from s.lag)::float8 as lag_seconds, s.waiting, s.open_rejects,
       s.last_run, s.last_state, s.last_finished_at, s.last_success_at, s.last_error, s.remedy, s.source, s.deferred_until,
       extract(epoch from s.behind)::float8 as behind_seconds, extract(epoch from s.target)::float8 as target_seconds, s.state,
       extract(epoch from s.latency_p50)::float8 as latency_p50_seconds, extract(epoch from s.latency_p95)::float8 as latency_p95_seconds,
       coalesce((
         select json_agg(json_build_object('list', h.list, 'from', h.gap_from, 'to', h.gap_to, 'reason', h.reason) order by h.gap_from)
         from sync.gaps h where h.account_id = s.account_id and h.stream_key = s.stream_key), '[]') as gaps,
       s.deletes_checked_at, (
         select count(*) from sync.open_deletion_candidates o
         where (o.account_id, o.stream_key) = (s.account_id, s.stream_key) and o.gone_at is not null and o.run_id is null) as unconfirmed_deletions,
       coalesce((
         select json_agg(json_build_object('field', y.field, 'checked', y.checked, 'differed', y.differed,
           'unread', y.unread, 'at_most_percent', y.at_most_percent, 'as_of', y.as_of) order by y.field)
         from sync.audit_confidence y
         where (y.account_id, y.stream_key) = (s.account_id, s.stream_key) and (y.field = '' or y.differed > 0)), '[]') as audit_confidence, coalesce((
         select json_agg(json_build_object('kind', p.kind, 'times', p.times, 'last_at', p.last_at, 'setting', p.setting,
           'remedy', p.remedy) order by p.times desc, p.kind)
         from sync.recommendations p where (p.account_id, p.stream_key) = (s.account_id, s.stream_key)), '[]') as recommendations
     from sync.status s join sync.streams k using (stream_key)
     where s.account_id = any($1)
     order by s.account_id, k.place`,
    [accounts],
  );
  // A source that was configured later has no rows before its first sync.
  const unread = served.flatMap(({ config }) =>
    streamsOf(configuredSources(config))
      .filter(
        ({ key }) => !rows.some(one => one.account === config.account && streamKey(one.source, one.stream) === key),
      )
      .map(({ name: stream, source }) => ({ ...neverSynced, account: config.account, stream, source })),
  );
  return [...rows, ...unread].map(row => ({
    ...row,
    time_left_seconds: timeLeft(
      row,
      served.find(({ config }) => config.account === row.account),
      systemClock.now(),
    ),
  }));
}

const neverSynced: Omit<StreamStatus, 'account' | 'stream' | 'source' | 'time_left_seconds'> = {
  ...{
    complete_from: null,
    complete_through: null,
    lag_seconds: null,
    behind_seconds: null,
    target_seconds: null,
    state: 'never_synced',
  },
  ...{
    latency_p50_seconds: null,
    latency_p95_seconds: null,
    gaps: [],
    waiting: 0,
    open_rejects: 0,
    unconfirmed_deletions: 0,
  },
  ...{
    last_run: null,
    last_state: null,
    last_finished_at: null,
    last_success_at: null,
    last_error: null,
    remedy: null,
  },
  ...{ deferred_until: null, deletes_checked_at: null, audit_confidence: [], recommendations: [] },
};

/** An error may quote the source. */
export const statusShown = (streams: readonly StreamStatus[], { text }: Shown): StreamStatus[] =>
  streams.map(one => ({
    ...one,
    last_error: text(one.last_error),
    gaps: one.gaps.map(gap => ({ ...gap, reason: text(gap.reason) })),
  }));

/** Remaining deferral in ms. `deferred_until` stays set after it has passed. */
const deferredMs = ({ deferred_until }: Pick<StreamStatus, 'deferred_until'>) =>
  Math.max(0, (deferred_until?.getTime() ?? 0) - systemClock.now());

const span = (seconds: number | null) => (seconds === null ? '' : duration(seconds * 1000));

/** Fits into 80 columns: times are relative, and the account is left out if there is only one. */
function narrow(streams: readonly StreamStatus[], isOne: boolean): string {
  const columns = ['stream', 'state', 'behind / target', 'backlog', 'time left', 'problems'];
  const rows = streams.map(s => [
    ...(isOne ? [] : [s.account]),
    s.stream,
    s.state.replaceAll('_', ' '),
    [span(s.behind_seconds) || '–', ...(s.target_seconds === null ? [] : [span(s.target_seconds)])].join(' / '),
    s.waiting,
    span(s.time_left_seconds),
    problemsOf(s),
  ]);
  return table(isOne ? columns : ['account', ...columns], rows, widestProblem);
}

const widestProblem = 30;

/** Such as `2 gaps, 1 reject`. */
function problemsOf(s: StreamStatus): string {
  const isOdd = s.last_state !== null && !['completed', 'running', 'waiting', 'paused'].includes(s.last_state);
  return [
    ...(deferredMs(s) > 0 ? [`deferred for ${duration(deferredMs(s))}`] : []),
    ...(isOdd ? [s.last_state] : []),
    ...(s.gaps.length > 0 ? [count(s.gaps.length, 'gap')] : []),
    ...(s.open_rejects > 0 ? [count(s.open_rejects, 'reject')] : []),
    ...(s.unconfirmed_deletions > 0 ? [`${amount(s.unconfirmed_deletions)} perhaps deleted`] : []),
  ].join(', ');
}

function wide(streams: readonly StreamStatus[]): string {
  const columns = [
    'account',
    'stream',
    'complete from',
    'complete through',
    'lag',
    'state',
    'behind',
    'target',
    'p95',
    'gaps',
    'waiting',
    'time left',
    'rejects',
    'deletes checked',
    'last run',
  ];
  const rows = streams.map(s => [
    s.account,
    s.stream,
    s.complete_from ?? '',
    s.complete_through ?? 'never',
    span(s.lag_seconds),
    s.state.replaceAll('_', ' '),
    span(s.behind_seconds),
    span(s.target_seconds),
    span(s.latency_p95_seconds),
    s.gaps.length,
    s.waiting,
    span(s.time_left_seconds),
    s.open_rejects,
    s.deletes_checked_at ?? (isSwept(s) ? 'never' : ''),
    deferredMs(s) > 0 ? `deferred until ${s.deferred_until!.toISOString().slice(0, 16)}Z` : (s.last_state ?? 'never'),
  ]);
  return table(columns, rows);
}

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
  for (const { account, stream, complete_from } of streams.filter(one => one.complete_from !== null))
    say(
      `${isOne ? '' : `${account} `}${stream}: records last changed before ${cellText(complete_from)} may be missing.`,
    );
  for (const { account, severity, says, remedy, since } of problems) {
    const which = isOne ? '' : `${account}: `;
    const when = since === null ? '' : ` (for ${duration(Math.max(0, systemClock.now() - since.getTime()))})`;
    say(`${style(colours[severity], severity, process.stderr)}: ${which}${says}${when}`);
    say(`  ${remedy}`);
  }
  const isTold = (account: string, source: SourceName) =>
    problems.some(
      one =>
        one.account === account &&
        ['outage', 'run_failed', 'token_refused', 'most_rejected'].includes(one.problem) &&
        one.source === source,
    );
  for (const { account, source, stream: name, gaps, last_error, remedy, audit_confidence } of streams) {
    const stream = isOne ? name : `${account} ${name}`;
    // One with a reason is a problem.
    for (const gap of gaps.filter(({ reason }) => reason === null))
      say(`${stream}: gap in the ${gap.list} list from ${String(gap.from)} to ${String(gap.to)}`);
    for (const one of audit_confidence) say(`${stream}: ${auditSentence({ source, stream: name }, one)}`);
    if (last_error && !isTold(account, source))
      say(`${style('yellow', stream, process.stderr)}: ${last_error}. ${remedy ?? ''}`);
  }
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

/** What audits found. Of a healthy stream with few samples only how many were equal. */
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
