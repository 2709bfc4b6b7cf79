/**
 * How much of a claim the database has acknowledged. A crash of the database may take back acknowledged commits, while the
 * worker lives on: what it commits next may prove a list whose first pages are lost. So each commit requires that the stream
 * still counts what was acknowledged before. If it does not, the claim is void, and the next one reads from the stored position.
 */
import { type Client, whenCommitted } from '../database/pool.ts';

const acknowledged = new WeakMap<object, number>();

/** SQL: of a stream of a run. Grows with each reply that is committed. */
export const counted = 'seen + deleted + credits';

/** The least that the stream must count for a further commit. */
export const acknowledgedOf = (claim: object): number => acknowledged.get(claim) ?? 0;

/** Whether a commit of the claim has answered. */
export const hasCommitted = (claim: object): boolean => acknowledged.has(claim);

/** Notes the count of the stream after a commit. */
export function acknowledge(claim: object, count: number): void {
  acknowledged.set(claim, Math.max(acknowledgedOf(claim), count));
}

/** Notes the count when the transaction is committed. */
export const acknowledgeWithin = (client: Client, claim: object, count: number): void =>
  whenCommitted(client, () => acknowledge(claim, count));
