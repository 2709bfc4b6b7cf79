/**
 * Verifies a stream that is read by id, because lists shorten its records: each record with a place in a list, for one request. A
 * record that waits to be read is merely behind: it is read, and is no difference.
 */
import { Gone, Retry } from '../../errors.ts';
import type { Row } from '../../sources/source.ts';
import { type Context, type Outcome, sourceNow, sourceOf } from '../context.ts';
import { numbered, query } from '../database/sql.ts';
import { type ById, unitOf } from '../details/detail-rows.ts';
import type { Reply } from '../http/request.ts';
import { singleBatch } from '../load/batch.ts';
import type { Claim } from '../runs/claims.ts';
import { examine, type Look, type Subject } from './compare-reply.ts';
import { kindOfEdit } from './difference-kinds.ts';
import { examineSample, fromPlace } from './one-by-one.ts';
import { giveWay, ofOneReader } from './one-reader.ts';
import { noteMadeHere } from './orphans.ts';
import { askedOf, movePlace, uncompared } from './verifications.ts';

/** Each try is a request of the daily quota. */
const fewTries = 2;

export async function verifyById(ctx: Context, claim: Claim, stream: ById): Promise<Outcome> {
  const { sample, repair } = await askedOf(ctx, claim);
  const look: Look = { ctx, claim, repair, random: sample !== null, expected: sample ?? undefined };
  const { placed, isShown } = stream.rows;
  const isCompared = async (id: string) => {
    await giveWay(ctx, claim);
    return examineById(look, stream, id);
  };
  if (sample !== null)
    return uncompared(
      claim,
      await examineSample(look, { sample, ids: `select distinct id from (${placed}) p`, isCompared }),
    );
  let unread = 0;
  const next = (after: string, limit: number) =>
    query(ctx.pg).values<string>`
      select distinct id from (${numbered(placed, claim.account)}) p where id > ${after} order by 1 limit ${limit}`;
  for await (const id of fromPlace(look, 'default', next)) {
    // A record that another run stored meanwhile is fetched once more.
    if (!(await isCompared(id)) && !(await isCompared(id))) unread++;
    await movePlace(ctx.pg, claim, 'default', id);
  }
  await noteMadeHere(look, stream.key, isShown, sourceNow(ctx, stream.source));
  return uncompared(claim, unread);
}

/**
 * Returns whether the record could be compared. One that the source does not show could not, because it answers the same for deleted and
 * for temporarily unavailable records.
 */
async function examineById(look: Look, stream: ById, id: string): Promise<boolean> {
  const { ctx, claim } = look;
  const askedMs = ctx.clock.now();
  let reply: Reply<Row>;
  try {
    const options = { lane: 'sweep', signal: ctx.signal, tries: fewTries } as const;
    reply = await sourceOf(ctx, stream.source).send(stream.request(id), options);
  } catch (error) {
    if (!(error instanceof Gone || error instanceof Retry)) throw error;
    return false;
  }
  if (reply.records[0]?.id !== id) return false;
  const { waitsSince, checkedAt, read } = stream.rows;
  const waits = `t.${waitsSince} is not null or t.${checkedAt} is null and (${read}) is not true`;
  const at = { askedMs, asOfMs: reply.asOf };
  const subject: Subject = {
    ...ofOneReader(look, stream.key, { table: stream.key, waits }, at, (_, ours) =>
      ours?.waits ? 'behind' : 'differs',
    ),
    kind: found => kindOfEdit(stream.merge, found, `${unitOf(stream)} edited`),
    // A newer change in a list leaves the record waiting.
    async written(client, ids) {
      await client.query(
        `update ${stream.key} set ${read}, ${checkedAt} = $3, ${waitsSince} = case when ${waitsSince} > $3 then ${waitsSince} end
         where account_id = $1 and id = any($2)`,
        [claim.account, ids, new Date(reply.asOf)],
      );
    },
  };
  const { unread, late } = await examine(look, { subject, reply, batch: singleBatch(stream, reply) });
  return unread + late.length === 0;
}
