/**
 * Manual operations, at a terminal or on the page. Each one is a transaction, alone on its account, and leaves a row in
 * sync.operations. A refused one leaves a row too, and throws UsageError with the reason and the remedy.
 */

import type pg from 'pg';
import { exitCodes, Moved, UsageError } from '../../errors.ts';
import { liveWorkers } from '../../status/workers.ts';
import { choiceOf } from '../../words.ts';
import type { Client } from '../database/pool.ts';
import { query, sql } from '../database/sql.ts';
import { nameOfKey, ofStream, type StreamKey } from '../database/stream-key.ts';
import { command, minute, pausedOf, unlessLeftOut, unlessPaused, what } from './pauses.ts';
import { resumeMs } from './ranges.ts';
import { closeRun, isOpen, openRun, type RunKind, type RunState, withAccount } from './runs.ts';

type Action =
  | 'run'
  | 'pause'
  | 'resume'
  | 'retry'
  | 'cancel'
  | 'erase'
  | 'let a reader in'
  | 'revoke a reader'
  | 'calendar'
  | 'target'
  | 'field rules'
  | 'move';

export interface Operation {
  readonly account: string;
  /** User and machine of a terminal, or the role and the address of a browser. */
  readonly who: string;
  readonly action: Action;
  /** A stream, the number of a run, a customer, a calendar or its inboxes, a service target; empty: the whole account. */
  readonly subject: string;
  /** `done`, with a result if there is one, or the reason of a refusal. */
  readonly outcome: string;
}

export type By = Pick<Operation, 'account' | 'who'>;

export async function noteOperation(
  db: Pick<pg.ClientBase, 'query'>,
  { account, who, action, subject, outcome }: Operation,
  now: Date,
): Promise<void> {
  await db.query(sql`
    insert into sync.operations (at, account_id, who, action, subject, outcome) values (${now}, ${account}, ${who}, ${action}, ${subject}, ${outcome})`);
}

/** SQL: the account of this row has left for another warehouse, so its rows are read-only. */
export const hasLeft = (row: string): string =>
  `exists (select from sync.moves m where m.account_id = ${row}.account_id and m.state in ('leaving', 'moved'))`;

/** Runs the operation and records it in the same transaction. A refusal is recorded in a transaction of its own. */
export async function operate<T>(
  db: pg.Pool,
  noted: Omit<Operation, 'outcome'>,
  now: Date,
  work: (client: Client) => Promise<T>,
  told: (result: T) => string = () => 'done',
): Promise<T> {
  try {
    return await withAccount(db, noted.account, async client => {
      const { rowCount } = await client.query(sql`select from sync.accounts where account_id = ${noted.account}`);
      if (rowCount === 0)
        throw new UsageError(
          `this warehouse holds nothing of an account '${noted.account}'`,
          `Run ${command(noted.account, 'sync')} or \`npx shelfdesk start\` for it first, or name another one.`,
        );
      const result = await work(client);
      await noteOperation(client, { ...noted, outcome: told(result) }, now);
      return result;
    });
  } catch (error) {
    if (error instanceof UsageError && !(error instanceof Moved))
      await noteOperation(db, { ...noted, outcome: `refused: ${error.message}` }, now);
    throw error;
  }
}

/** Pauses a stream, or without one the account. Running work ends at its next page, within seconds. */
export async function pause(
  db: pg.Pool,
  { account, stream = '', who, reason }: By & { stream?: string | undefined; reason?: string | undefined },
  now: Date,
): Promise<void> {
  await operate(db, { account, who, action: 'pause', subject: stream }, now, async client => {
    const key = stream === '' ? '' : await mirroredKey(client, account, stream);
    const before = (await pausedOf(client, account)).find(one => (one.stream ?? '') === key);
    if (before !== undefined)
      throw new UsageError(
        `${what(account, stream)} is paused already, since ${minute(before.paused_at)} by ${before.paused_by}`,
        `To resume it, run ${command(account, `resume ${stream}`.trim())}.`,
      );
    await client.query(sql`
      insert into sync.paused (account_id, source, stream, paused_at, paused_by, reason)
      values (${account}, ${ofStream(key)}, ${now}, ${who}, ${reason || null})`);
  });
}

/**
 * Ends a pause of the stream or of the whole account. Streams that were paused separately stay paused. Refused while a stored field
 * rule leaves the stream out whole.
 */
export async function resume(
  db: pg.Pool,
  { account, stream = '', who }: By & { stream?: string | undefined },
  now: Date,
): Promise<void> {
  await operate(db, { account, who, action: 'resume', subject: stream }, now, async client => {
    await unlessLeftOut(client, account, stream);
    const { rowCount } = await client.query(sql`
      delete from sync.paused where account_id = ${account} and stream_key = case ${stream} when '' then '' else sync.key_of(${stream}) end`);
    if (rowCount === 1) return;
    if (stream !== '') await mirroredKey(client, account, stream);
    const paused = await pausedOf(client, account);
    const all = paused.some(one => one.stream === null);
    const instead = all
      ? 'the whole account is'
      : `paused are: ${paused.map(one => nameOfKey(one.stream ?? '')).join(', ')}`;
    throw new UsageError(
      `${what(account, stream)} is not paused${paused.length > 0 ? `; ${instead}` : ''}`,
      paused.length > 0
        ? `Run ${command(account, `resume ${nameOfKey(paused[0]!.stream ?? '')}`.trim())}.`
        : 'Nothing to do: nothing of the account is paused.',
    );
  });
}

/** The key of a mirrored stream, from its key or its short name. Throws UsageError if there is none, or more than one. */
async function mirroredKey(client: Client, account: string, stream: string): Promise<StreamKey> {
  const { rows } = await client.query<{ key: StreamKey; name: string; mirrored: boolean }>(sql`
    select k.stream_key as key, k.stream as name, exists (
      select from sync.coverage c where c.account_id = ${account} and c.source = k.source and c.stream in (k.stream, k.follows)) as mirrored
    from sync.streams k order by k.place`);
  const named = rows.filter(one => one.name === stream || one.key === stream);
  if (named.length > 1) throw ambiguous(stream, named);
  if (named[0]?.mirrored) return named[0].key;
  const mirrored = rows.filter(one => one.mirrored).map(one => one.name);
  const known = named.length > 0;
  throw new UsageError(
    known ? `account '${account}' mirrors no ${stream}` : `there is no stream ${stream}`,
    choiceOf(stream, mirrored),
  );
}

interface Stored {
  kind: RunKind;
  state: RunState;
  since: Date | null;
  until: Date | null;
  again: boolean;
  accept_deletions: boolean;
  finished_at: Date | null;
}

async function runOf(client: Client, account: string, run: number): Promise<Stored> {
  const { rows } = await client.query<Stored>(sql`
    select kind, state, since, until, again, accept_deletions, finished_at
    from sync.stored_runs where account_id = ${account} and id = ${run}`);
  if (rows[0]) return rows[0];
  throw new UsageError(`account '${account}' has no run ${run}`, `See ${command(account, 'runs list')}.`);
}

/**
 * Cancels the rest of a run. Returns its kind and the unfinished streams. Running work can commit nothing from this
 * moment on, and stops within seconds. Also cancels a run without a live process, and a deferred backfill.
 */
export async function cancelRun(
  db: pg.Pool,
  { account, run, who }: By & { run: number },
  now: Date,
): Promise<{ kind: RunKind; streams: string[] }> {
  return operate(db, { account, who, action: 'cancel', subject: String(run) }, now, async client => {
    const { kind, state } = await runOf(client, account, run);
    const again = `To read it after all, run ${command(account, `runs retry ${run}`)}.`;
    const streams = await query(client).values<string>`
      update sync.stored_run_streams s set state = 'interrupted', token = token + 1, finished_at = ${now}, deferred_until = null,
        waits_for = null, note = null, error = ${`canceled by ${who}`}, remedy = ${again}, exit_code = ${exitCodes.interrupted}
      where run_id = ${run} and (state in ('waiting', 'running') or (${kind === 'backfill'} and deferred_until is not null))
      returning sync.name_of(stream_key) as stream`;
    if (state !== 'running' && streams.length === 0)
      throw new UsageError(
        `run ${run} is over: ${state}`,
        `Nothing to do; ${command(account, `runs show ${run}`)} tells what became of it.`,
      );
    await client.query(sql`update sync.stored_runs set state = 'running' where id = ${run}`);
    await closeRun(client, run, now);
    return { kind, streams };
  });
}

/**
 * Opens a run of the same kind and range, for the streams of a run that failed, ended partially or were interrupted,
 * and are not paused. Their rejects become due immediately. Returns its number. Without `opener` a worker must be live.
 */
export async function retryRun(
  db: pg.Pool,
  { account, run, who, opener }: By & { run: number; opener?: number | undefined },
  now: Date,
): Promise<number> {
  return operate(
    db,
    { account, who, action: 'retry', subject: String(run) },
    now,
    async client => {
      const old = await runOf(client, account, run);
      if (old.state === 'running')
        throw new UsageError(
          `run ${run} is not over yet`,
          `A worker continues it (\`npx shelfdesk start\`). To start over instead, run ${command(account, `runs cancel ${run}`)} first.`,
        );
      const streams = await leftOf(client, account, run);
      const id = await openRun(
        client,
        {
          ...{ account, kind: old.kind, streams, opener: opener ?? (await livingWorker(client, account)) },
          range: { since: old.since, until: old.until, again: old.again },
        },
        now,
      );
      await client.query(sql`
        update sync.stored_runs set retries = ${run}, accept_deletions = ${old.accept_deletions} where id = ${id}`);
      if (old.kind === 'verify') await askTheSame(client, run, id);
      if (old.kind === 'backfill') await goOnWith(client, { run, id, streams, finishedAt: old.finished_at }, now);
      await client.query(sql`
        update sync.rejects set next_try_at = ${now}
        where account_id = ${account} and stream_key = any(${streams}) and cleared_at is null and ask_id is not null and next_try_at > ${now}`);
      return id;
    },
    id => `done: run ${id}`,
  );
}

async function leftOf(client: Client, account: string, run: number): Promise<StreamKey[]> {
  const { rows: open } = await client.query<{ id: number }>(sql`
    select id from sync.stored_runs where account_id = ${account} and retries = ${run} and state = 'running'`);
  if (open[0])
    throw new UsageError(
      `run ${open[0].id} tries it again already`,
      `See ${command(account, `runs show ${open[0].id}`)}.`,
    );
  const { rows } = await client.query<{ stream: StreamKey }>(sql`
    select s.stream_key as stream from sync.stored_run_streams s join sync.streams k using (stream_key)
    where s.run_id = ${run} and s.state in ('failed', 'partial', 'interrupted') order by k.place`);
  if (rows.length === 0)
    throw new UsageError(`nothing failed in run ${run}`, `To read what is new, run ${command(account, 'sync')}.`);
  const left = rows.map(({ stream }) => stream);
  return unlessPaused(client, account, left);
}

async function askTheSame(client: Client, old: number, id: number): Promise<void> {
  await client.query(sql`
    insert into sync.verifications (run_id, account_id, sample, repair, credits, seconds)
    select ${id}, account_id, sample, repair, credits, seconds from sync.verifications where run_id = ${old}`);
}

/** A retried backfill keeps what it has re-read, unless that is long ago. The old run is no longer resumed. */
async function goOnWith(
  client: Client,
  { run, id, streams, finishedAt }: { run: number; id: number; streams: readonly StreamKey[]; finishedAt: Date | null },
  now: Date,
): Promise<void> {
  await client.query(sql`update sync.stored_run_streams set deferred_until = null where run_id = ${run}`);
  if (finishedAt !== null && now.getTime() - finishedAt.getTime() > resumeMs) return;
  await client.query(sql`
    update sync.stored_runs n set again_before = o.again_before from sync.stored_runs o where n.id = ${id} and o.id = ${run}`);
  await client.query(sql`
    insert into sync.run_lists (run_id, account_id, source, stream, list, until, covered)
    select ${id}, account_id, source, stream, list, until, covered from sync.run_lists where run_id = ${run} and stream_key = any(${streams})`);
}

/**
 * Opens a sync, or a full sweep, of the mirrored streams that are not paused. Returns its number. Without `opener` a
 * worker must be live. `streams`: the configured ones; by default all that were ever mirrored.
 */
export async function runNow(
  db: pg.Pool,
  {
    account,
    kind,
    who,
    opener,
    streams,
  }: By & { kind: 'sync' | 'sweep'; opener?: number | undefined; streams?: readonly StreamKey[] },
  now: Date,
): Promise<number> {
  return operate(
    db,
    { account, who, action: 'run', subject: kind },
    now,
    async client => {
      const all = streams ?? (await mirrored(client, account));
      const wanted = kind === 'sweep' ? await sweptOf(client, all) : all;
      if (wanted.length === 0)
        throw new UsageError(`account '${account}' mirrors nothing that a ${kind} reads`, 'See README.md: settings.');
      const read = await unlessPaused(client, account, wanted);
      const open = await isOpen(client, account, read, [kind]);
      if (open !== undefined)
        throw new UsageError(`run ${open} reads the same already`, `See ${command(account, `runs show ${open}`)}.`);
      const range = { since: null, until: null, again: kind === 'sweep' };
      const by = opener ?? (await livingWorker(client, account));
      return openRun(client, { account, kind, streams: read, opener: by, range }, now);
    },
    id => `done: run ${id}`,
  );
}

/** The streams that a sweep reads. */
const sweptOf = (client: Client, streams: readonly StreamKey[]): Promise<StreamKey[]> =>
  query(client).values`
    select stream_key as key from sync.streams where swept and stream_key = any (${streams}) order by place`;

const mirrored = (client: Client, account: string): Promise<StreamKey[]> =>
  query(client).values`
    select k.stream_key as stream from sync.streams k
    where exists (select from sync.coverage c where c.account_id = ${account} and c.source = k.source and c.stream in (k.stream, k.follows))
    order by k.place`;

/** The process that opens the run. A run without a live opener would count as abandoned. */
async function livingWorker(client: Client, account: string): Promise<number> {
  const [worker] = await liveWorkers(client, [account]);
  if (worker) return worker.id;
  throw new UsageError(`no worker is running for account '${account}'`, 'Start one: `npx shelfdesk start`.');
}

/** More than one source has a stream of this short name. */
export const ambiguous = (name: string, streams: readonly { readonly key: StreamKey }[]): UsageError =>
  new UsageError(
    `more than one source has a stream ${name}`,
    `Choose from: ${streams.map(({ key }) => key).join(', ')}.`,
  );
