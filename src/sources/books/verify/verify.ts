/**
 * Re-reads the shelves of the catalog with their content, or a sample, and compares them. It uses spare requests and stops when the
 * daily quota is used up. It resumes when the quota resets.
 */

import { type Context, type Outcome, sourceNow } from '../../../engine/context.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import type { Examined, Look } from '../../../engine/verify/compare-reply.ts';
import { examineSample } from '../../../engine/verify/one-by-one.ts';
import { giveWay } from '../../../engine/verify/one-reader.ts';
import { noteOrphans, parentsLost } from '../../../engine/verify/orphans.ts';
import { askedOf, movePlace, placeOf, uncompared } from '../../../engine/verify/verifications.ts';
import { Gone, Retry } from '../../../errors.ts';
import { getShelf } from '../endpoints.ts';
import { booksOf } from '../open.ts';
import { fewTries, send } from '../shelves/read-shelf.ts';
import { goneAsOf, requestShelves, vanished } from '../shelves/shelf-loop.ts';
import { shelvesOf, shelvesOfStrangers } from '../shelves/shelf-rows.ts';
import { places, shelves } from '../shelves/shelves.ts';
import { examineContents, examineShelves, type Key, noteShelfGone } from './compare.ts';

/** SQL: the shelves of owners that are mirrored. */
const ids = `select s.owner_id || '/' || s.id as id from books.shelves s
  join sync.coverage c on (c.account_id, c.stream_key, c.list) = (s.account_id, 'books.shelves', s.owner_id)
  where s.account_id = $1 and s._deleted_at is null`;

/** An id of a shelf has no slash. */
function keyOf(record: string): Key {
  const slash = record.lastIndexOf('/');
  return { owner: record.slice(0, slash), shelf: record.slice(slash + 1) };
}

/** Volumes that an audit compares for each shelf. A shelf costs one request, plus one for each page of its volumes. */
const volumesToShelf = 5;

export async function verifyShelves(ctx: Context, claim: Claim): Promise<Outcome> {
  const { sample: asked, repair } = await askedOf(ctx, claim);
  const sample = asked !== null && claim.kind === 'audit' ? Math.ceil(asked / volumesToShelf) : asked;
  const look: Look = { ctx, claim, repair, random: sample !== null, expected: sample ?? undefined };
  if (sample !== null) {
    const isCompared = async (id: string) => {
      await giveWay(ctx, claim);
      return unreadOf(await examineOne(look, keyOf(id))) === 0;
    };
    return uncompared(claim, await examineSample(look, { sample, ids, isCompared }));
  }
  const missing: string[] = [];
  let unread = 0;
  for (const owner of booksOf(ctx).owners) {
    await giveWay(ctx, claim);
    unread += await verifyOwner(look, owner, missing);
  }
  const asOfMs = sourceNow(ctx, 'books');
  for (const one of await shelvesOfStrangers(ctx.pg, claim))
    await noteShelfGone(look, one, { askedMs: ctx.clock.now(), asOfMs });
  const orphans = { of: shelves.merge.declared.root, parts: [places], as: shelves.key };
  for (const id of await parentsLost(ctx.pg, claim, orphans)) await noteOrphans(look, orphans, id, asOfMs);
  return uncompared(claim, unread, missing);
}

/** A reason counts as one record that could not be compared. */
const unreadOf = (examined: Examined | string): number =>
  typeof examined === 'string' ? 1 : examined.unread + examined.late.length;

/** Compares one shelf by id, with its content. */
async function examineOne(look: Look, { owner, shelf }: Key): Promise<Examined | string> {
  const { ctx, claim } = look;
  const askedMs = ctx.clock.now();
  try {
    const reply = await send(look, getShelf(owner, shelf), { tries: fewTries });
    const [record] = reply.records;
    if (record?.id !== shelf) return `the catalog answered with another shelf than ${shelf} of ${owner}`;
    const readings = await shelvesOf(ctx.pg, claim.account, owner);
    const examined = await examineShelves(look, owner, { reply, askedMs, single: true, readings });
    if (unreadOf(examined) > 0) return examined;
    return await examineContents(look, owner, { shelf: record, asOf: reply.asOf }, readings.get(shelf));
  } catch (error) {
    if (!(error instanceof Gone || error instanceof Retry)) throw error;
    const asOfMs = error instanceof Gone ? error.asOf : Number.NaN;
    const isKnown = Number.isFinite(asOfMs) && (await noteShelfGone(look, { owner, shelf }, { askedMs, asOfMs }));
    return isKnown ? { unread: 0, undecided: [], late: [] } : error.message;
  }
}

/**
 * Compares all shelves of an owner. Skips what was compared before an interruption. Returns the number of records that could not be
 * compared, and adds reasons to `missing`.
 */
async function verifyOwner(look: Look, owner: string, missing: string[]): Promise<number> {
  const { ctx, claim } = look;
  const askedMs = ctx.clock.now();
  const readings = await shelvesOf(ctx.pg, claim.account, owner);
  const replies = await requestShelves(look, owner).catch((error: unknown) => {
    if (!(error instanceof Gone || error instanceof Retry)) throw error;
    missing.push(`the catalog does not show the shelves of ${owner} (${error.message})`);
    return [];
  });
  if (replies.length === 0) return 0;
  let unread = 0;
  for (const reply of replies)
    unread += unreadOf(await examineShelves(look, owner, { reply, askedMs, single: false, readings }));
  const after = (await placeOf(ctx.pg, claim, owner))?.place ?? '';
  const shown = replies.flatMap(({ records }) => records).filter(({ id }) => id > after);
  for (const shelf of shown.sort((a, b) => (a.id < b.id ? -1 : 1))) {
    await giveWay(ctx, claim);
    const current = await shelvesOf(ctx.pg, claim.account, owner);
    const told = { shelf, asOf: replies[0]!.asOf };
    const examined = await examineContents(look, owner, told, current.get(shelf.id));
    if (typeof examined === 'string') missing.push(examined);
    else unread += unreadOf(examined);
    await movePlace(ctx.pg, claim, owner, shelf.id);
  }
  for (const [shelf] of vanished(replies, readings)) {
    const at = { askedMs: ctx.clock.now(), asOfMs: await goneAsOf(look, owner, shelf) };
    if (typeof at.asOfMs === 'string') missing.push(at.asOfMs);
    else if (!(await noteShelfGone(look, { owner, shelf }, { ...at, asOfMs: at.asOfMs }))) unread++;
  }
  return unread;
}
