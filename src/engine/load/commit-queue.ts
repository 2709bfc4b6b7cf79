/**
 * Commits replies in order, many in one transaction, while the next requests are in flight. The rows of all
 * replies are written, and then what they prove together. Pages of one moment share a merge, and so do new sets.
 *
 * A crash loses what is not committed: at most ten replies that are being committed, ten that wait, and the one in
 * flight. They are paid for once more.
 */
import type { Clock } from '../../clock.ts';
import { commitTogether, withCare } from '../commit/commit.ts';
import { nameOf } from '../commit/merge.ts';
import {
  type Batch,
  type Care,
  type Moment,
  nothingWritten,
  type Store,
  type Writer,
  type Written,
} from '../commit/page.ts';
import { writeBatch } from '../commit/rows.ts';
import { summed } from '../commit/sums.ts';
import type { Context } from '../context.ts';
import { type Client, isOfRecord } from '../database/pool.ts';
import { joinBatches } from './batch.ts';

/** The records of a reply, for a merge that may write those of other replies too. */
export interface Rows {
  readonly batch: Batch;
  readonly writer: Writer;
  readonly at: () => Moment;
  /** By id, the version of each record as the source wrote it. */
  readonly versions: ReadonlyMap<string, unknown>;
  /** For the members of a record. They may come with those of other moments. */
  readonly set?: MemberSet;
}

/** The members of a record. If they are its first ones, none is replaced or removed. */
export interface MemberSet<T = unknown, Claimed extends ClaimedSet = ClaimedSet> {
  /** The record with the set. */
  readonly record: T;
  /** Claims the sets of these records, in one statement. A record that has changed itself is not claimed. */
  claim(client: Client, records: readonly T[]): Promise<ReadonlyMap<T, Claimed>>;
  /** The first members of these records are stored just as their replies showed them. */
  note(client: Client, sets: ReadonlyMap<T, Claimed>): Promise<void>;
}

interface ClaimedSet {
  /** No member of it was stored. */
  readonly first: boolean;
}

export interface Entry {
  /**
   * Writes the rows and what they prove. It may run several times, so it must keep nothing outside the transaction.
   * `written`: the rows are written already; `claimed`: their set is claimed. Returns false if it has rejected nothing.
   */
  readonly write: (client: Client, care: Care, written?: Written, claimed?: ClaimedSet) => Promise<unknown>;
  /** The rows for a merge with those of other replies; undefined if they cannot be merged. The writing meets their error. */
  readonly rows?: () => Promise<Rows | undefined>;
  /** Does the same without a transaction, for a reply that brings nothing but its proof. */
  readonly alone?: (() => Promise<void>) | undefined;
  /** Runs after the commit. An error ends the reading. */
  readonly committed?: () => void;
  /** PostgreSQL refuses the reply even alone and cleaned. Without this, the error ends the reading. */
  readonly refused?: (error: Error) => Promise<void>;
  /** Length of the reply in characters. */
  readonly size: number;
}

/** The most replies in one transaction. */
// @internal Tests count what a crash may cost.
export const mostTogether = 10;
/** Larger replies go alone: the rows and their rejects are in memory until the commit. */
const mostSize = 2_000_000;

/** A value that PostgreSQL refuses takes the batch apart, until it is alone. So does a set that turns out not to be new. */
async function commitAll(store: Store, entries: readonly Entry[]): Promise<void> {
  if (entries.length === 1) return commitNow(store, entries[0]!);
  const replies = await Promise.all(entries.map(withRows));
  try {
    await commitTogether(store, client =>
      summed(client, async () => {
        for (const group of inOneMerge(replies)) await writeAll(client, group);
      }),
    );
  } catch (error) {
    if (!isOfRecord(error) && !(error instanceof NotNew)) throw error;
    for (const entry of entries) await commitNow(store, entry);
    return;
  }
  for (const { committed } of entries) committed?.();
}

export interface ReplyWithRows {
  readonly write: Entry['write'];
  readonly rows: Rows | undefined;
}

const withRows = async ({ write, rows }: Entry): Promise<ReplyWithRows> => ({
  write,
  rows: await rows?.().catch(() => undefined),
});

/** Of replies that share a transaction. */
const care = 'as it came';

/** The first reply counts the rows of all. */
async function writeAll(client: Client, group: readonly [ReplyWithRows, ...ReplyWithRows[]]): Promise<unknown> {
  const [first, ...rest] = group;
  const all = group.flatMap(({ rows }) => rows ?? []);
  if (rest.length === 0 || all.length === 0) return first.write(client, care);
  const { writer: claim, at, set } = all[0]!;
  if (set) return writeSets(client, group, all);
  const batch = joinBatches(all.map(rows => rows.batch));
  const written = await writeBatch({ client, claim, at: at(), care }, batch);
  // A merge counts a record once, however often its page shows it.
  const distinct = (one: Batch) => new Set(one.records.map(({ id }) => id)).size;
  const repeated = all.reduce((sum, rows) => sum + distinct(rows.batch), 0) - distinct(batch);
  const counts = { ...written.counts, unchanged: written.counts.unchanged + repeated };
  // A record that an earlier page rejected may be stored by a later one.
  let { rejects } = written.mayClear;
  rejects = (await first.write(client, care, { ...written, counts })) !== false || rejects;
  for (const { write } of rest)
    rejects = (await write(client, care, nothingWritten({ ...written.mayClear, rejects }))) !== false || rejects;
}

/** A set was claimed as new, and one of its members is stored in another one, with a tombstone or without. */
class NotNew extends Error {}

/**
 * All sets are claimed by one statement. New ones share a merge. The others are written set by set, and those that are stored just as
 * their replies show them need no statement more. The first new set counts the rows of all new ones.
 */
async function writeSets(client: Client, group: readonly ReplyWithRows[], all: readonly Rows[]): Promise<void> {
  const sets = all.flatMap(({ set }) => set ?? []);
  const claimed = await sets[0]!.claim(
    client,
    sets.map(({ record }) => record),
  );
  const claimOf = (rows: Rows | undefined) => (rows?.set ? claimed.get(rows.set.record) : undefined);
  const first = all.filter(rows => claimOf(rows)?.first);
  let written: Written | undefined;
  if (first.length > 0) {
    const { writer: claim, at } = all[0]!;
    const batches = first.map(({ batch }) => ({ ...batch, parents: [] }));
    written = await writeBatch({ client, claim, at: at(), care }, joinBatches(batches));
    const { counts, takenOver } = written;
    if (counts.updated > 0 || Object.values(takenOver).some(rows => rows > 0)) throw new NotNew();
    if (written.isWhole) await sets[0]!.note(client, new Map([...claimed].filter(([, set]) => set.first)));
  }
  for (const { write, rows } of group) {
    const set = claimOf(rows);
    if (!set?.first) await write(client, care, undefined, set);
    else if (written) {
      await write(client, care, written, set);
      written = nothingWritten(written.mayClear);
    }
  }
}

/**
 * Replies in a row that one merge can write. Each record is shown in one version. Pages were true at the same times, to the
 * second. A record of a page that brings a set goes alone: its members may be in two replies.
 */
// @internal Tests group replies that a source rarely sends in a row.
export function inOneMerge(entries: readonly ReplyWithRows[]): [ReplyWithRows, ...ReplyWithRows[]][] {
  const groups: [ReplyWithRows, ...ReplyWithRows[]][] = [];
  let shown = new Map<string, unknown>();
  let last: string | undefined;
  for (const entry of entries) {
    const own = entry.rows?.versions ?? new Map<string, unknown>();
    const moment = entry.rows && momentOf(entry.rows);
    let isSame = moment !== undefined && moment === last;
    // No pair is made for a record: there are many.
    if (isSame)
      own.forEach((version, id) => {
        if (shown.has(id) && (version === undefined || shown.get(id) !== version)) isSame = false;
      });
    if (isSame) groups.at(-1)!.push(entry);
    else {
      groups.push([entry]);
      shown = new Map();
    }
    own.forEach((version, id) => {
      shown.set(id, version);
    });
    last = moment;
  }
  return groups;
}

function momentOf({ batch, at, set }: Rows): string | undefined {
  if (set) return JSON.stringify([nameOf(batch.merge)]);
  const { asOfMs, trueByMs } = at();
  const isJoined = batch.merge.removal === undefined && batch.parents === undefined;
  return isJoined ? JSON.stringify([nameOf(batch.merge), asOfMs, trueByMs, batch.parameters([])]) : undefined;
}

export async function commitNow(store: Store, { write, alone, committed, refused }: Entry): Promise<void> {
  try {
    await (alone?.() ?? withCare(store, write));
  } catch (error) {
    if (!refused || !isOfRecord(error)) throw error;
    return refused(error);
  }
  committed?.();
}

export class Commits {
  readonly #store: Store & { clock: Pick<Clock, 'sleep'> };
  readonly #withinMs: number;
  readonly #waiting: Entry[] = [];
  #timer: AbortController | undefined;
  #committing: Promise<void> | undefined;
  /** What waits is due. */
  #isDue = false;
  #failed: { error: unknown } | undefined;

  /** `withinMs`: how long a reply may wait for others. */
  constructor(store: Store & Pick<Context, 'clock'>, withinMs = 0) {
    this.#store = store;
    this.#withinMs = withinMs;
  }

  /** Waits until few replies wait. Rejects if an earlier reply could not be committed. */
  async room(): Promise<void> {
    while (this.#committing && (this.#waiting.length >= mostTogether || this.#size() >= mostSize))
      await this.#committing;
    this.#check();
  }

  /** Adds a reply behind those that wait. `now`: all of them are committed at once. */
  add(entry: Entry, now = this.#withinMs === 0): void {
    this.#waiting.push(entry);
    if (now || this.#waiting.length >= mostTogether || this.#size() >= mostSize) this.#begin();
    else if (this.#timer === undefined) this.#wait();
  }

  /** Commits all replies that wait. Rejects if one could not be committed; none is committed after it. */
  async done(): Promise<void> {
    for (this.#begin(); this.#committing; this.#begin()) await this.#committing;
    this.#check();
  }

  #begin(): void {
    this.#timer?.abort();
    this.#timer = undefined;
    if (this.#waiting.length === 0 || this.#failed) return;
    this.#isDue = true;
    this.#committing ??= this.#commit();
  }

  async #commit(): Promise<void> {
    try {
      while (this.#isDue && this.#waiting.length > 0) {
        const entries = this.#take();
        this.#isDue = this.#waiting.length > 0;
        await commitAll(this.#store, entries);
      }
    } catch (error) {
      this.#failed = { error };
    } finally {
      // In the same step as the last look at what waits: a reply that comes later begins a commit of its own.
      this.#committing = undefined;
    }
  }

  #take(): Entry[] {
    let [n, size] = [0, 0];
    while (n < this.#waiting.length && n < mostTogether && (n === 0 || size < mostSize))
      size += this.#waiting[n++]!.size;
    return this.#waiting.splice(0, n);
  }

  #wait(): void {
    const timer = new AbortController();
    this.#timer = timer;
    this.#store.clock.sleep(this.#withinMs, timer.signal).then(
      () => this.#begin(),
      () => {},
    );
  }

  #size(): number {
    return this.#waiting.reduce((sum, { size }) => sum + size, 0);
  }

  #check(): void {
    if (this.#failed) throw this.#failed.error;
  }
}
