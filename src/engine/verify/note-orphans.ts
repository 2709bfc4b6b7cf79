/** Notes orphaned rows, which no reply shows: rows of the mirror whose record is missing. */

import type { ListStream, Row } from '../../sources/source.ts';
import { commitWork } from '../commit/commit.ts';
import type { Moment } from '../commit/page.ts';
import type { Client } from '../database/pool.ts';
import type { StreamKey } from '../database/stream-key.ts';
import type { Ms } from '../reading/reading.ts';
import type { Look } from './compare-reply.ts';
import { type Finding, writeFindings } from './findings.ts';
import { orphansOf, type Parts, takeAway } from './orphans.ts';
import { standingOf } from './stored-rows.ts';

/** Writes findings in the transaction that repairs them. `deleted`: the number of rows that the repair removed. */
export const note = (
  { ctx, claim, random }: Look,
  asOfMs: Ms,
  work: (client: Client, at: Moment) => Promise<{ findings: readonly Finding[]; deleted: number }>,
): Promise<void> =>
  commitWork(ctx, claim, asOfMs, async (client, at) => {
    const { findings, deleted } = await work(client, at);
    await writeFindings(client, claim, findings, { ...at, random });
    return { counts: { deleted } };
  });

/** `as`: the stream that the parts are of. Removes them if the run repairs. A record that has come back keeps its parts. */
export const noteOrphans = (
  look: Look,
  stream: ListStream<Row>,
  parts: Parts & { readonly as: StreamKey },
  id: string,
  asOfMs: Ms,
): Promise<void> =>
  note(look, asOfMs, async (client, at) => {
    const { claim, repair } = look;
    // A worker that brings the record back waits for this transaction, or has brought its parts back too.
    const asked = { askedMs: at.nowMs, asOfMs, lock: true };
    const ours = (await standingOf(client, claim.account, stream, [id], asked)).get(id);
    const found = ours?.hasTombstone === false ? undefined : await orphansOf(client, claim.account, parts, id);
    if (found === undefined) return { findings: [], deleted: 0 };
    const deleted = repair ? await takeAway(client, claim, parts, id, at) : 0;
    return { findings: [{ stream: parts.as, record: id, ...found, repaired: deleted > 0 }], deleted };
  });
