/**
 * One page is one transaction: its rows, the coverage that it proves, its counts and its rejects, under the token of
 * the run.
 *
 * PostgreSQL may refuse a page for a value (SQLSTATE class 22, or 54: too deep, too long). Then the page is cleaned and
 * sent again. If that fails too, its records are merged one by one, and the bad one is rejected.
 */

import { type Context, takeCredits } from '../context.ts';
import { addGap, makeRedundant, placeWalk } from '../coverage/coverage.ts';
import { notePages } from '../coverage/pages.ts';
import { noteTie } from '../coverage/ties.ts';
import { type Client, isOfRecord, transaction, withKeptPlans } from '../database/pool.ts';
import type { Ms, Proof } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import type { Counts } from '../runs/runs.ts';
import {
  type Batch,
  type Care,
  type Drift,
  type Moment,
  NotYet,
  noCounts,
  type Reject,
  type Store,
  type Tx,
  type Written,
} from './page.ts';
import { type Notes, settle } from './rejects.ts';
import { writeBatch } from './rows.ts';
import { count } from './sums.ts';

/** What a page proves. */
export interface Proven {
  readonly list?: string;
  readonly proof?: Proof;
  /** The end of the gap that a backfill reads. */
  readonly until?: Ms | undefined;
  /** Lists whose records the page has shown: they need not be read apart. */
  readonly redundant?: readonly string[];
  /** The number of records that the source counts for this run. */
  readonly expected?: number | undefined;
}

/** A reply that is stored, with what it proves. */
export interface Page extends Proven {
  readonly batch: Batch;
  readonly unreadable: readonly Reject[];
  /** How many records came, readable or not. */
  readonly arrived: number;
  readonly credits: number;
  /** Differences from the specification. */
  drift(written: Written): readonly Drift[];
  /** What follows from its rows. `stored`: the ids of the stored records. */
  derive(tx: Tx, written: Written, stored: readonly string[]): Promise<void>;
}

/**
 * The transaction of a page, from top to bottom. Returns whether anything was rejected. `before`: a merge for several pages has
 * written the rows. What is reckoned from all rows of the transaction, the metrics, is stored at its commit.
 */
export async function commitPage(tx: Tx, page: Page, before?: Written): Promise<boolean> {
  // Screens the text, merges it, and replaces the sets that it shows.
  const written = before ?? (await writeBatch(tx, page.batch));
  const rejects = [...page.unreadable, ...written.rejects];
  const failed = new Set(written.rejects.map(({ recordId }) => recordId));
  const ids = page.batch.records.map(({ id }) => id);
  await page.derive(
    tx,
    written,
    ids.filter(id => !failed.has(id)),
  );
  await keepBooks(tx, {
    ...page,
    counts: { ...written.counts, seen: page.arrived, rejected: rejects.length, credits: page.credits },
    ...{ filter: page.batch.filter, rejects, drift: page.drift(written) },
    stored: written.mayClear.rejects ? ids : [],
  });
  return rejects.length > 0;
}

/** Everything that a transaction writes besides the rows. */
export type Books = Proven & Notes & { readonly counts?: Partial<Counts> };

/** Throws unless the claim is still ours: a worker that was taken for dead cannot move a position. */
export async function keepBooks(tx: Pick<Tx, 'client' | 'claim' | 'at'>, books: Books): Promise<void> {
  await count(tx, { ...books, counts: { ...noCounts(), credits: 0, ...books.counts } });
  await prove(tx, books);
  await settle(tx, books);
}

/** All but its range, which is written with the counts. */
async function prove({ client, claim, at }: Pick<Tx, 'client' | 'claim' | 'at'>, books: Proven): Promise<void> {
  const { proof = {}, list = 'default' } = books;
  if (proof.tie) await noteTie(client, claim, list, proof.tie);
  if (proof.walk !== undefined) await placeWalk(client, claim, list, proof.walk, books.until);
  if (proof.pages) await notePages(client, claim, list, proof.pages);
  if (proof.gap) await addGap(client, claim, list, proof.gap, new Date(at.nowMs));
  for (const name of books.redundant ?? []) await makeRedundant(client, claim, name);
}

/** A transaction of work that no reply with rows belongs to. `asOfMs`: of a reply; 0 without one. */
export async function commitWork(
  ctx: Context,
  claim: Claim,
  asOfMs: Ms,
  work: (client: Client, at: Moment) => Promise<Books | undefined>,
): Promise<void> {
  const at = { nowMs: ctx.clock.now(), asOfMs };
  const credits = takeCredits(ctx);
  await transaction(ctx.pg, async client => {
    const books = await work(client, at);
    await keepBooks({ client, claim, at }, { ...books, counts: { ...books?.counts, credits } });
  });
}

/** Repeats the transaction with growing care, until PostgreSQL accepts the values. */
export async function withCare<T>(store: Store, work: (client: Client, care: Care) => Promise<T>): Promise<T> {
  const attempt = (care: Care) => commitTogether(store, client => work(client, care));
  for (const care of ['as it came', 'cleaned'] as const) {
    try {
      return await attempt(care);
    } catch (error) {
      if (!isOfRecord(error)) throw error;
    }
  }
  return attempt('one by one');
}

/** Once for all records that the transaction has written. */
const keepMetrics = 'select internal.keep_touched_metrics()';

/** One attempt finds everything that a page has to wait for, and a transaction has ten pages at most. */
const mostFirst = 20;

/** A transaction of several pages, repeated after what has to be committed first. */
export async function commitTogether<T>(store: Store, work: (client: Client) => Promise<T>): Promise<T> {
  const begin = `${withKeptPlans}; set local shelfdesk.keep_metrics = 'at the end'`;
  for (let tries = 1; ; tries++) {
    try {
      return await transaction(store.pg, work, begin, `${keepMetrics}; commit`);
    } catch (error) {
      if (!(error instanceof NotYet) || tries === mostFirst) throw error;
      await error.first(store);
    }
  }
}
