/** `status`: how far each stream is complete, what is missing, and what to do about it. */
import type { Command } from 'commander';
import type pg from 'pg';
import type { Config } from '../../app/config.ts';
import { configuredSources } from '../../app/context.ts';
import { systemClock } from '../../clock.ts';
import { pendingMigrations } from '../../engine/database/migrate.ts';
import type { SourceName } from '../../engine/http/request.ts';
import { command } from '../../engine/runs/pauses.ts';
import { workersOf } from '../../engine/runs/workers.ts';
import { exitCodes } from '../../errors.ts';
import { timeLeft } from '../../ops/time-left.ts';
import { sources } from '../../sources/index.ts';
import { amount, count } from '../../words.ts';
import { chosenAccounts } from '../choose-account.ts';
import type { Act, Deps } from '../command.ts';
import { duration, print, printJson, say, style, table } from '../output/terminal.ts';
import { warehouseOf } from '../warehouse.ts';

export interface StreamStatus {
  account: string;
  stream: string;
  source: SourceName;
  complete_through: Date | null;
  lag_seconds: number | null;
  /** How far its newest part is behind, history left out; null in a first load. */
  behind_seconds: number | null;
  /** How far it may be; null where nothing is promised. */
  target_seconds: number | null;
  /** fresh, catching_up, stale, failing, never_synced, paused. */
  state: string;
  /** So old were half of the changes of the last hour, and 95 % of them, when they were here; null if none came. */
  age_p50_seconds: number | null;
  age_p95_seconds: number | null;
  holes: { list: string; from: Date; to: Date; reason: string | null }[];
  waiting: number;
  /** Seconds until what waits is in, at the credits that the limits allow. */
  time_left_seconds: number | null;
  open_rejects: number;
  last_run: number | null;
  last_state: string | null;
  last_finished_at: Date | null;
  last_success_at: Date | null;
  last_error: string | null;
  remedy: string | null;
  /** The requests of the day were spent; a worker goes on then. */
  sleeps_until: Date | null;
  /** Nothing shown here had been deleted before. */
  deletes_checked_at: Date | null;
  /** So many are gone that a sweep stopped and asks. */
  seem_deleted: number;
  /** What random checks prove: field '' first, which is any; then each field that differed. */
  certainty: Certainty[];
  /** Kinds of difference that come again and again, and what cures them. */
  proposals: { kind: string; times: number; last_at: string; setting: string | null; remedy: string }[];
}

export interface Certainty {
  field: string;
  checked: number;
  differed: number;
  /** Drawn, and could not be read. */
  unread: number;
  at_most_percent: number;
  as_of: string;
}

export function addStatus(program: Command, deps: Deps, act: Act): void {
  program
    .command('status')
    .description('show how complete and how fresh each stream is, and what is missing')
    .option('--json', 'print one JSON document on stdout')
    .action(
      act(async (options: { json?: boolean }) => {
        await using warehouse = await warehouseOf(deps.asked().fleet, deps.signal);
        const { missing, unknown } = await pendingMigrations(warehouse.pg);
        const db = missing.length > 0 ? undefined : warehouse.pg;
        const { accounts, refused } = await chosenAccounts(deps, db);
        const isOne = accounts.length + refused.length === 1;
        const streams = db ? await readStatus(db, ...accounts, ...refused) : [];
        const names = accounts.map(({ account }) => account);
        const workers = db ? await workersOf(db, names) : [];
        if (options.json) {
          const configured = accounts.map(({ account, helpdesk, books }) => ({
            account,
            helpdesk: helpdesk !== undefined,
            books: books !== undefined,
          }));
          const wrong = refused.map(({ account, error: { message, remedy } }) => ({ account, message, remedy }));
          printJson({
            ...(isOne ? configured[0] : { accounts: configured, refused: wrong }),
            migrations: { missing, unknown },
            workers,
            streams,
          });
          return exitCodes.ok;
        }
        for (const { account, error } of refused) say(`! ${account}: ${error.message}. ${error.remedy}`);
        for (const { name, label, requires } of isOne ? sources : [])
          if (accounts[0] && !configuredSources(accounts[0]).has(name))
            say(`${upperFirst(label)} is not configured (${requires}).`);
        for (const one of isOne ? [] : accounts)
          if (configuredSources(one).size === 0)
            say(`Account '${one.account}' has no settings here: nothing reads it.`);
        if (unknown.length > 0)
          say(`The database comes from a newer Shelfdesk (${unknown.join(', ')}): upgrade this one.`);
        if (missing.length > 0)
          say('The tables are not there yet, or old: run `npx shelfdesk sync` or `npx shelfdesk migrate`.');
        else show(streams);
        for (const [where, those] of Map.groupBy(workers, ({ host, pid }) => `on ${host}, process ${pid}`))
          say(
            those.length > 1
              ? `${those.length} accounts are served ${where}`
              : `worker ${those[0]!.id} is at work ${where}`,
          );
        return exitCodes.ok;
      }),
    );
}

/** Of these accounts alone: the warehouse may hold others. Of those without limits nobody knows how much time is left. */
export async function readStatus(
  db: pg.Pool,
  ...accounts: readonly (Pick<Config, 'account' | 'limits' | 'books'> | { account: string })[]
): Promise<StreamStatus[]> {
  const { rows } = await db.query<Omit<StreamStatus, 'time_left_seconds'>>(
    `select s.account_id as account, s.stream, s.complete_through, extract(epoch from s.lag)::float8 as lag_seconds, s.waiting, s.open_rejects,
       s.last_run, s.last_state, s.last_finished_at, s.last_success_at, s.last_error, s.remedy, s.source, s.sleeps_until,
       extract(epoch from s.behind)::float8 as behind_seconds, extract(epoch from s.target)::float8 as target_seconds, s.state,
       extract(epoch from s.age_p50)::float8 as age_p50_seconds, extract(epoch from s.age_p95)::float8 as age_p95_seconds,
       coalesce((
         select json_agg(json_build_object('list', h.list, 'from', h.hole_from, 'to', h.hole_to, 'reason', h.reason) order by h.hole_from)
         from sync.holes h where h.account_id = s.account_id and h.stream_key = s.stream_key), '[]') as holes,
       s.deletes_checked_at, (
         select count(*) from sync.open_suspects o
         where (o.account_id, o.stream_key) = (s.account_id, s.stream_key) and o.gone_at is not null and o.run_id is null) as seem_deleted,
       coalesce((
         select json_agg(json_build_object('field', y.field, 'checked', y.checked, 'differed', y.differed,
           'unread', y.unread, 'at_most_percent', y.at_most_percent, 'as_of', y.as_of) order by y.field)
         from sync.certainty y
         where (y.account_id, y.stream_key) = (s.account_id, s.stream_key) and (y.field = '' or y.differed > 0)), '[]') as certainty, coalesce((
         select json_agg(json_build_object('kind', p.kind, 'times', p.times, 'last_at', p.last_at, 'setting', p.setting,
           'remedy', p.remedy) order by p.times desc, p.kind)
         from sync.proposals p where (p.account_id, p.stream_key) = (s.account_id, s.stream_key)), '[]') as proposals
     from sync.status s join sync.streams k using (stream_key)
     where s.account_id = any($1)
     order by s.account_id, k.place`,
    [accounts.map(({ account }) => account)],
  );
  const limited = accounts.filter(one => 'limits' in one);
  return rows.map(row => ({
    ...row,
    time_left_seconds: timeLeft(
      row,
      limited.find(({ account }) => account === row.account),
      systemClock.now(),
    ),
  }));
}

/** How long it sleeps still: nobody may have woken it. */
const sleepsMs = ({ sleeps_until }: Pick<StreamStatus, 'sleeps_until'>) =>
  Math.max(0, (sleeps_until?.getTime() ?? 0) - systemClock.now());

const upperFirst = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

const span = (seconds: number | null) => (seconds === null ? '' : duration(seconds * 1000));

function show(streams: readonly StreamStatus[]): void {
  if (streams.length === 0) {
    say('Nothing has been read yet: run `npx shelfdesk sync`.');
    return;
  }
  const columns = [
    'account',
    'stream',
    'complete through',
    'lag',
    'state',
    'behind',
    'target',
    'p95',
    'holes',
    'waiting',
    'time left',
    'rejects',
    'deletes checked',
    'last run',
  ];
  const rows = streams.map(s => [
    s.account,
    s.stream,
    s.complete_through ?? 'never',
    span(s.lag_seconds),
    s.state.replaceAll('_', ' '),
    span(s.behind_seconds),
    span(s.target_seconds),
    span(s.age_p95_seconds),
    s.holes.length,
    s.waiting,
    span(s.time_left_seconds),
    s.open_rejects,
    s.source === 'helpdesk' && s.stream !== 'users' && s.stream !== 'messages' ? (s.deletes_checked_at ?? 'never') : '',
    sleepsMs(s) > 0 ? `sleeps until ${s.sleeps_until!.toISOString().slice(0, 16)}Z` : (s.last_state ?? 'never'),
  ]);
  print(table(columns, rows));
  const isOne = new Set(streams.map(({ account }) => account)).size === 1;
  for (const {
    account,
    stream: name,
    holes,
    open_rejects,
    last_error,
    remedy,
    certainty,
    proposals,
    seem_deleted,
  } of streams) {
    const stream = isOne ? name : `${account} ${name}`;
    for (const hole of holes) {
      say(
        `${stream}: hole in the ${hole.list} list from ${String(hole.from)} to ${String(hole.to)}${hole.reason ? `: ${hole.reason}` : ''}`,
      );
    }
    if (open_rejects > 0)
      say(
        `${stream}: ${count(open_rejects, 'reject is', 'rejects are')} open; see ${command(account, 'rejects list')}`,
      );
    if (seem_deleted > 0)
      say(
        `${style('yellow', stream, process.stderr)}: ${amount(seem_deleted)} and perhaps more seem to have been deleted at the source, too many to be believed. Look there; if it is so, run ${command(account, `sweep ${name} --accept-deletions`)}.`,
      );
    for (const one of certainty) say(`${stream}: ${howSure(name, one)}`);
    for (const { kind, times, remedy: cure } of proposals)
      say(`${style('yellow', stream, process.stderr)}: ${kind} (${count(times, 'time')}). ${cure}`);
    if (last_error) say(`${style('yellow', stream, process.stderr)}: ${last_error}. ${remedy ?? ''}`);
  }
}

/** What is not here is never drawn. */
const drawnOf = (stream: string) =>
  stream === 'messages' ? 'tickets whose messages are complete' : `${stream} that are here`;

function howSure(stream: string, { field, checked, differed, unread, at_most_percent, as_of }: Certainty): string {
  const what = field === '' ? 'differ from the source' : `differ in ${field}`;
  const when = `${new Date(as_of).toISOString().slice(0, 19)}Z`;
  const besides = unread > 0 ? `; ${amount(unread)} more could not be read` : '';
  return `at most ${at_most_percent} % of the ${drawnOf(stream)} ${what}, with 95 % confidence, as of ${when} (${amount(differed)} of ${amount(checked)} that were read again${besides})`;
}
