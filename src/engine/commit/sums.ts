/** What replies count and cover, under the token of the run. Replies that share a transaction are summed. */

import type pg from 'pg';
import { FencedOff } from '../../errors.ts';
import { cover } from '../coverage/coverage.ts';
import { byKey, type Client } from '../database/pool.ts';
import { raw, sql } from '../database/sql.ts';
import { nameOfKey } from '../database/stream-key.ts';
import type { Range } from '../reading/reading.ts';
import { type Bound, bindSource } from '../runs/accounts/accounts.ts';
import type { Claim } from '../runs/claims.ts';
import type { Counts } from '../runs/runs.ts';
import { acknowledge, acknowledgedOf, acknowledgeWithin, counted, hasCommitted } from './acknowledged.ts';
import type { Proven } from './commit.ts';
import type { Tx } from './page.ts';

type Noted = Pick<Proven, 'list' | 'proof' | 'expected'> & { readonly counts: Counts };

interface Sum {
  claim?: Claim;
  readonly noted: Noted[];
}

const sums = new WeakMap<Client, Sum>();

/** Runs the work of several replies under one claim. What they count and cover is written once, after all of them. */
export async function summed(client: Client, work: () => Promise<void>): Promise<void> {
  const sum: Sum = { noted: [] };
  sums.set(client, sum);
  try {
    await work();
  } finally {
    sums.delete(client);
  }
  if (sum.claim) await write(client, sum.claim, sum.noted);
}

/** Throws unless the claim is still ours. Among summed replies, their end throws. */
export async function count({ client, claim }: Pick<Tx, 'client' | 'claim'>, one: Noted): Promise<void> {
  const sum = sums.get(client);
  if (sum === undefined) return write(client, claim, [one]);
  sum.claim = claim;
  sum.noted.push(one);
}

async function write(client: Client, claim: Claim, noted: readonly Noted[]): Promise<void> {
  const total = (of: keyof Counts) => noted.reduce((sum, { counts }) => sum + counts[of], 0);
  const { rows } = await client.query<{ counted: number }>({
    name: 'count page',
    text: `update sync.stored_run_streams set
        seen = seen + $4, inserted = inserted + $5, updated = updated + $6, unchanged = unchanged + $7,
        deleted = deleted + $8, rejected = rejected + $9, cleaned = cleaned + $10, credits = credits + $11,
        expected = coalesce($12, expected)
      where run_id = $1 and stream_key = $2 and token = $3 and state = 'running' and ${counted} >= $13
      returning ${counted} as counted`,
    values: [
      ...[claim.run, claim.stream, claim.token],
      ...[total('seen'), total('inserted'), total('updated'), total('unchanged')],
      ...[total('deleted'), total('rejected'), total('cleaned'), total('credits')],
      noted.findLast(({ expected }) => expected !== undefined)?.expected ?? null,
      acknowledgedOf(claim),
    ],
  });
  const [written] = rows;
  if (written === undefined) throw fencedOff(claim);
  const source = yetToBind(claim);
  if (source !== undefined) await bindSource(client, claim.account, source);
  acknowledgeWithin(client, claim, written.counted);
  for (const { list, range } of joined(noted)) await cover(client, claim, list, range);
}

/** The source that the next commit of the claim binds the account to. */
export const yetToBind = (claim: Claim): Bound | undefined => (hasCommitted(claim) ? undefined : claim.binds);

/** What an empty page proves, in one statement instead of a transaction. Throws unless the claim is still ours. */
export async function keepProof(
  db: pg.Pool,
  claim: Claim,
  list: string,
  covered: Range,
  { credits, expected }: { credits: number; expected: number | undefined },
): Promise<void> {
  const range = sql`tstzrange(${new Date(covered.from)}, ${new Date(covered.to)})`;
  const written = await byKey(db, 'keep proof').first<{ counted: number }>`
    with counted as (
      update sync.stored_run_streams set credits = credits + ${credits}, expected = coalesce(${expected ?? null}, expected)
      where run_id = ${claim.run} and stream_key = ${claim.stream} and token = ${claim.token} and state = 'running'
        and ${raw(counted)} >= ${acknowledgedOf(claim)}
      returning account_id, stream_key, ${raw(counted)} as counted),
    covered as (
      update sync.coverage c set covered = c.covered + tstzmultirange(${range}) from counted
      where (c.account_id, c.stream_key, c.list) = (counted.account_id, counted.stream_key, ${list})
        and not c.covered @> ${range})
    select counted from counted`;
  if (written === undefined) throw fencedOff(claim);
  acknowledge(claim, written.counted);
}

const fencedOff = ({ run, stream }: Claim) => new FencedOff(`stream ${nameOfKey(stream)} of run ${run}`);

/** Joins a range with one that ends where it begins. */
function joined(noted: readonly Noted[]): { list: string; range: Range }[] {
  const all: { list: string; range: Range }[] = [];
  for (const { list = 'default', proof } of noted) {
    const last = all.at(-1);
    const covered = proof?.covered;
    if (covered === undefined) continue;
    if (last?.list === list && last.range.to === covered.from) last.range = { ...last.range, to: covered.to };
    else all.push({ list, range: covered });
  }
  return all;
}
