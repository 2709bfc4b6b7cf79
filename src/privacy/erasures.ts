/**
 * Erasures as operations of an account: a person asks for one, or the worker finds a person who reappears under another id or with
 * another contact value.
 */
import type pg from 'pg';
import { type Client, transaction } from '../engine/database/pool.ts';
import { type By, noteOperation, operate } from '../engine/runs/operations.ts';
import { command } from '../engine/runs/pauses.ts';
import { UsageError } from '../errors.ts';
import { count } from '../words.ts';
import { eraseMore, eraseNamed, type Named, type Removed, type Streams } from './erase.ts';
import type { Clues } from './redact.ts';

/** If more customers than these share a contact value, the value names no person. */
const mostSharing = 5;

/**
 * Erases the data of a person, and keeps it out. Refused if the warehouse knows no such person, or if it would erase
 * many others.
 */
export async function eraseCustomer(
  db: pg.Pool,
  { account, who, withShared = false, streams, ...whom }: By & Named & { withShared?: boolean; streams: Streams },
  now: Date,
): Promise<Removed> {
  // The address itself must not be kept.
  const named = 'customer' in whom ? `customer ${whom.customer}` : 'this contact value';
  const noted = { account, who, action: 'erase', subject: 'customer' in whom ? named : 'a contact value' } as const;
  const work = async (client: Client) => {
    const removed = await eraseNamed(client, account, whom, now, streams);
    const others = removed.customers.length - ('customer' in whom ? 1 : 0);
    const again = 'customer' in whom ? `erase --customer ${whom.customer} --dry-run` : 'erase --contact … --dry-run';
    if (others > mostSharing && !withShared)
      throw new UsageError(
        `${count(others, 'other customer shares', 'other customers share')} ${'customer' in whom ? `a contact value with ${named}` : named}, and would be erased too`,
        `See who with ${command(account, again)}. Remove the value from the customer at the help desk and run ${command(account, 'sync customers')}; or add --with-shared, if they are all meant.`,
      );
    return removed;
  };
  return operate(db, noted, now, work, toldOf);
}

/** Dry run of eraseCustomer: what it would erase, rolled back. */
export async function wouldErase(
  db: pg.Pool,
  account: string,
  whom: Named,
  now: Date,
  streams: Streams,
): Promise<Removed> {
  let removed: Removed | undefined;
  class Undone extends Error {}
  try {
    await transaction(db, async client => {
      removed = await eraseNamed(client, account, whom, now, streams);
      throw new Undone();
    });
  } catch (error) {
    if (!(error instanceof Undone)) throw error;
  }
  return removed!;
}

/** The erased rows in one line. */
const toldOf = ({ customers, rows }: Removed): string => {
  const others = customers.length > 1 ? ` with ${customers.slice(1).join(', ')}, of the same contact values` : '';
  return `done${others}: ${Object.entries(rows)
    .map(([what, n]) => (what.includes('.') ? `${what}: ${count(n, 'row')}` : count(n, what.replace(/s$/, ''), what)))
    .join(', ')}`;
};

/**
 * Erases people who were found again, in a transaction of its own. Records the operation, because nobody requested it. Operations for
 * tickets alone are not recorded, because there are many.
 */
export async function eraseFound(
  db: pg.Pool,
  { account, found, now, streams }: Pick<By, 'account'> & { found: Clues; now: Date; streams: Streams },
): Promise<void> {
  await transaction(db, async client => {
    const removed = await eraseMore(client, account, found, now, streams);
    for (const customer of found.customers)
      await noteOperation(
        client,
        { account, who: 'the worker', action: 'erase', subject: `customer ${customer}`, outcome: toldOf(removed) },
        now,
      );
  });
}
