/**
 * Asks one question of an agent: by a reader of its own, within limits of time, rows and bytes, with the completeness of what
 * it reads. This is the only place that opens a connection for what an agent wrote.
 */
import type pg from 'pg';
import type { Clock } from '../clock.ts';
import { UsageError } from '../errors.ts';
import { accountsOf, answerForEach, type Named, planOf, readOnly } from '../privacy/ask.ts';
import { type Limits, makeBounded, receivingAtMost } from '../privacy/bounded.ts';
import { judge } from '../privacy/judge.ts';
import { type OwnReader, openOwnReader } from '../privacy/sql-role.ts';
import { streams } from '../sources/index.ts';
import { type Covered, changesSince, doubts, knownAsOf, readCovered } from './covered.ts';
import { routinesOf, streamsOfPlan } from './reads.ts';
import { tooLong, unlessAborted } from './turns.ts';

export interface Ground {
  readonly warehouse: { readonly pg: pg.Pool; readonly url: string };
  readonly clock: Clock;
  readonly limits: Limits;
  /** Accounts that agents may see; null: all. */
  readonly accounts: readonly string[] | null;
}

export interface Question {
  readonly sql: string;
  readonly account: string | undefined;
  /** True: names, addresses and texts are shown. */
  readonly pii: boolean;
  /** The answer has to be certain, between these times if there are any. */
  readonly certain: boolean;
  readonly from: Date | undefined;
  readonly through: Date | undefined;
  /** Aborts when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}

export interface Told extends Named {
  readonly covered: readonly Covered[];
  readonly cut: 'rows' | 'bytes' | null;
  /** The range of a certain answer: its start (null: the beginning), and the moment up to which the answer is true. */
  readonly certain: { readonly from: Date | null; readonly asOf: Date } | undefined;
}

/** PostgreSQL ends a statement at the limit. A statement that outlives it loses its session this much later. */
const graceMs = 500;
const mostReasons = 10;

export async function ask(
  ground: Ground,
  { sql, account, pii, certain, from, through, signal }: Question,
): Promise<Told> {
  const { warehouse, limits, accounts } = ground;
  if (account !== undefined && accounts !== null && !accounts.includes(account)) throw unknownAccount(account);
  const of = account === undefined ? accounts : [account];
  return asReader(ground, { pii, accounts: of, signal }, async ({ client, path }) => {
    const bounded = makeBounded(limits);
    const inBounds = <T>(work: () => Promise<T>) =>
      receivingAtMost(client, limits.bytes, () => readOnly(client, path, work));
    return inBounds(async () => {
      await judge(client, sql);
      const reads = streamsOfPlan(await planOf(client, sql), streams, await routinesOf(warehouse.pg));
      const covered = await readCovered(warehouse.pg, of, reads);
      if (certain) refuse(doubts(covered, { from, through }));
      const asOf = certain ? (through ?? knownAsOf(covered)!) : undefined;
      const known = (await accountsOf(warehouse.pg)).filter(one => of === null || of.includes(one));
      const answer = await answerForEach(client, sql, { named: account, known }, bounded.answer);
      // Within a time that the question names, it may leave later rows out itself.
      if (asOf && through === undefined) refuse(await changesSince(warehouse.pg, of, reads, asOf));
      return { ...answer, covered, cut: bounded.cut(), certain: asOf && { from: from ?? null, asOf } };
    });
  });
}

function refuse(why: readonly string[]): void {
  if (why.length === 0) return;
  throw new UsageError(
    `this cannot be answered without doubt: ${why.slice(0, mostReasons).join('; ')}${why.length > mostReasons ? '; and more' : ''}`,
    'Ask about a time that is complete, or without `certain`, and say in your answer what is missing.',
  );
}

/** Works on the session of a reader that exists for this work only, and ends with it. */
export async function asReader<T>(
  { warehouse, clock, limits: { ms } }: Ground,
  of: { pii: boolean; accounts: readonly string[] | null; signal?: AbortSignal },
  work: (reader: OwnReader) => Promise<T>,
): Promise<T> {
  of.signal?.throwIfAborted();
  await using reader = await openOwnReader(warehouse, { ...of, now: new Date(clock.now()), ms });
  return await within({ ms, signal: of.signal, reader }, () => work(reader));
}

interface Bound {
  readonly ms: number;
  readonly signal: AbortSignal | undefined;
  readonly reader: OwnReader;
}

/** Ends the session of the question after `ms`, or when nobody waits for it, whatever it does. */
async function within<T>({ ms, signal, reader }: Bound, work: () => Promise<T>): Promise<T> {
  let isLate = false;
  const { stop } = reader;
  const timer = setTimeout(() => {
    isLate = true;
    stop();
  }, ms + graceMs);
  signal?.addEventListener('abort', stop, { once: true });
  try {
    signal?.throwIfAborted();
    return await (signal ? unlessAborted(signal, work()) : work());
  } catch (error) {
    throw isLate || (error as { code?: string }).code === canceled ? tooLong(ms) : error;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', stop);
  }
}

const canceled = '57014';

const unknownAccount = (account: string) =>
  new UsageError(`there is no account '${account}'`, 'The tool status names the accounts.');
