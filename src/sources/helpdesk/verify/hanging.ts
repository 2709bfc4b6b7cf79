/**
 * Finds and repairs orphaned child rows, whose parent record is missing or deleted: contacts, messages and attachments.
 */

import { keepBooks, noCounts } from '../../../engine/commit/commit.ts';
import { type Queryable, transaction } from '../../../engine/database/pool.ts';
import { streamKey } from '../../../engine/database/stream-key.ts';
import type { Ms } from '../../../engine/reading/reading.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import type { Look } from '../../../engine/verify/compare-reply.ts';
import { writeFindings } from '../../../engine/verify/findings.ts';
import { orphansOf, parentsLost, partsOf, partsOfMerge, takeAway } from '../../../engine/verify/orphans.ts';
import type { ListStream, Row } from '../../source.ts';
import { customers } from '../customers.ts';
import { messages } from '../messages/messages.ts';
import { helpdeskOf } from '../open.ts';
import { tickets } from '../tickets.ts';
import type { Compared } from './compare.ts';
import { standingOf } from './rows.ts';

export interface Verifying {
  readonly look: Look;
  readonly stream: ListStream<Row>;
  readonly compared: Compared;
  /** Number of records that could not be compared. */
  unread: number;
  /** Ids of records that were written while the reply was in flight and that cannot be fetched by id. */
  readonly late: Set<string>;
  readonly gaps: string[];
}

/** Handles a 404 of the parent record: reports its orphaned rows and, if the run repairs, marks or removes them. */
export async function noteHanging(
  { look, stream: parents }: Verifying,
  stream: 'customers' | 'messages',
  id: string,
  asOfMs: Ms,
): Promise<boolean> {
  const { ctx, claim, repair, random } = look;
  const at = { nowMs: ctx.clock.now(), asOfMs };
  const credits = helpdeskOf(ctx).send.takeCredits();
  await transaction(ctx.pg, async client => {
    const key = { account: claim.account, stream: parents.key };
    const ours = (await standingOf(client, key, [id], { askedMs: at.nowMs, asOfMs, lock: true })).get(id);
    const isHere = ours !== undefined && !ours.hasTombstone;
    const found = isHere ? undefined : await orphansOf(client, claim.account, parts[stream], id);
    if (found !== undefined)
      await writeFindings(
        client,
        claim,
        [{ stream: streamKey('helpdesk', stream), record: id, ...found, repaired: repair }],
        { ...at, random },
      );
    const deleted = repair && !isHere ? await takeAway(client, claim, parts[stream], id, at) : 0;
    const counts = { ...noCounts(), deleted, credits };
    await keepBooks(client, claim, at, { counts, rejects: [], stored: [], drift: [] });
  });
  return true;
}

const parts = {
  customers: partsOfMerge(customers.merge.declared),
  messages: partsOf(tickets.key, [messages.merge.declared.root, ...messages.merge.declared.others]),
} as const;

/** Ids of missing customers or tickets that have live contacts, or live messages and attachments. */
export const parentsWithoutRow = (db: Queryable, claim: Claim, stream: keyof typeof parts): Promise<string[]> =>
  parentsLost(db, claim, parts[stream]);
