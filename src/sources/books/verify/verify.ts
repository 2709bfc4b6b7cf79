/**
 * Re-reads the catalog, or a sample, and compares it: the lists of shelves with their content, and each volume by id,
 * one request each. It uses spare requests and stops when the daily quota is used up. It resumes when the quota resets.
 */

import { keepBooks, noCounts } from '../../../engine/commit/commit.ts';
import type { Context } from '../../../engine/context.ts';
import { transaction } from '../../../engine/database/pool.ts';
import type { Outcome } from '../../../engine/load/list-loop.ts';
import type { Ms } from '../../../engine/reading/reading.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import type { Examined, Look } from '../../../engine/verify/compare-reply.ts';
import { noteAbsent } from '../../../engine/verify/compare-reply.ts';
import { countFindings, isReadBeside, noteUnread, writeFindings } from '../../../engine/verify/findings.ts';
import { askedOf, movePlace, placeOf } from '../../../engine/verify/verifications.ts';
import { Gone, Retry } from '../../../errors.ts';
import { booksOf } from '../open.ts';
import { fewTries } from '../shelves/read-shelf.ts';
import { requestShelves } from '../shelves/shelf-loop.ts';
import { shelvesOf } from '../shelves/shelf-rows.ts';
import {
  type Catalog,
  examineContents,
  examineShelfGone,
  examineShelves,
  examineVolume,
  noteShelfGone,
  recordOf,
} from './compare.ts';
import {
  clearShelf,
  shelvesAtRandom,
  shelvesOfNobody,
  shelvesOfStrangers,
  takeVolume,
  volumesAfter,
  volumesAtRandom,
  volumesOfNoShelf,
} from './verify-rows.ts';

/** Volumes per query. */
const batchSize = 100;
/** Interval of the check whether another run reads the stream, and the longest wait for it. */
const lookMs = 1000;
const patienceMs = 15 * 60_000;

export async function verifyBooks(ctx: Context, claim: Claim, catalog: Catalog): Promise<Outcome> {
  const { sample, repair } = await askedOf(ctx.pg, claim.run);
  const expected = sample ?? undefined;
  const look: Look = { ctx, claim, repair, random: sample !== null, expected };
  if (sample !== null) return verifyAtRandom(look, catalog, sample);
  const missing = await (claim.stream === 'books.shelves'
    ? verifyShelves(look, catalog)
    : verifyVolumes(look, catalog));
  return { partial: missing.length > 0 ? missing.join('; ') : undefined };
}

/** Compares this many random shelves with their content, or random volumes, with equal probability. */
export async function verifyAtRandom(
  look: Look,
  catalog: Catalog,
  sample: number,
  goesOn: () => Promise<boolean> = async () => true,
): Promise<Outcome> {
  const { ctx, claim } = look;
  const choice = { limit: sample - (await countFindings(ctx.pg, claim)), chance: ctx.random() };
  const { owners } = booksOf(ctx);
  const chosen: [record: string, examined: () => Promise<Examined | string>][] =
    claim.stream === 'books.volumes'
      ? (await volumesAtRandom(ctx.pg, claim, choice)).map(id => [id, () => examineVolume(look, catalog, id)])
      : (await shelvesAtRandom(ctx.pg, claim, { ...choice, owners })).map(({ owner, shelf }) => [
          recordOf({ owner, shelf }),
          () => examineOne(look, catalog, owner, shelf),
        ]);
  let unread = 0;
  for (const [record, examined] of chosen) {
    if (!(await goesOn())) break;
    await giveWay(look);
    const result = await examined();
    const isUnread = typeof result === 'string' || unreadOf(result) > 0;
    if (!isUnread) continue;
    unread++;
    await noteUnread(ctx.pg, claim, [claim.stream], record, sourceNow(look));
  }
  const [partial] = uncompared(unread);
  return { partial };
}

/** Waits for a run that reads the stream, because rows that it stores meanwhile could not be compared. */
async function giveWay({ ctx, claim }: Look): Promise<void> {
  for (let waitedMs = 0; waitedMs < patienceMs; waitedMs += lookMs) {
    ctx.signal.throwIfAborted();
    if (!(await isReadBeside(ctx.pg, claim, ctx.clock.now()))) return;
    await ctx.clock.sleep(lookMs, ctx.signal);
  }
}

const unreadOf = ({ unread, late }: Examined): number => unread + late.length;
const uncompared = (many: number): string[] =>
  many === 0 ? [] : [`${many} ${many === 1 ? 'record' : 'records'} could not be compared`];

// --- volumes -----------------------------------------------------------------------------------------------------------

async function verifyVolumes(look: Look, catalog: Catalog): Promise<string[]> {
  const { ctx, claim } = look;
  let unread = 0;
  for (let after = (await placeOf(ctx.pg, claim, 'default'))?.place ?? ''; ; ) {
    const ids = await volumesAfter(ctx.pg, claim, after, batchSize);
    if (ids.length === 0) break;
    for (const id of ids) {
      await giveWay(look);
      const isUnread = unreadOf(await examineVolume(look, catalog, id)) > 0;
      // A volume that another run stored meanwhile is fetched once more.
      if (isUnread) unread += unreadOf(await examineVolume(look, catalog, id));
      await movePlace(ctx.pg, claim, 'default', id);
    }
    after = ids.at(-1)!;
  }
  for (const id of await volumesOfNoShelf(ctx.pg, claim)) await noteVolumeOfNoShelf(look, id);
  return uncompared(unread);
}

const sourceNow = ({ ctx }: Look): Ms => booksOf(ctx).send.sourceNow() ?? ctx.clock.now();

/** No list has ever shown this volume, so it was written by hand. */
async function noteVolumeOfNoShelf(look: Look, id: string): Promise<void> {
  const { ctx, claim } = look;
  const standing = async () => ({ ...unknown, observedAt: new Date(sourceNow(look)) });
  const absent = {
    stream: 'books.volumes' as const,
    id,
    takeCredits: () => booksOf(ctx).send.takeCredits(),
    standing,
    isBelieved: async () => true,
    markDeleted: (client: Parameters<typeof takeVolume>[0]) => takeVolume(client, claim, id),
  };
  await noteAbsent(look, absent, { asOfMs: sourceNow(look) });
}

/** A row without a reply to compare. */
const unknown = {
  hasTombstone: false,
  isItself: null,
  isOlder: true,
  updatedMs: null,
  hasMessages: null,
  waits: false,
};

// --- shelves -----------------------------------------------------------------------------------------------------------

async function verifyShelves(look: Look, catalog: Catalog): Promise<string[]> {
  const { ctx } = look;
  const missing: string[] = [];
  for (const owner of booksOf(ctx).owners) {
    await giveWay(look);
    missing.push(...(await verifyOwner(look, catalog, owner)));
  }
  const nowMs = sourceNow(look);
  for (const one of await shelvesOfStrangers(ctx.pg, look.claim))
    await noteShelfGone(
      look,
      catalog,
      { ...one, account: look.claim.account },
      { askedMs: ctx.clock.now(), asOfMs: nowMs },
    );
  for (const one of await shelvesOfNobody(ctx.pg, look.claim)) await noteHanging(look, one);
  return missing;
}

/** Compares one shelf by id, with its content. */
async function examineOne(look: Look, catalog: Catalog, owner: string, shelf: string): Promise<Examined | string> {
  const { ctx, claim } = look;
  const askedMs = ctx.clock.now();
  try {
    const options = { lane: 'sweep', signal: ctx.signal, tries: fewTries } as const;
    const reply = await booksOf(ctx).send(catalog.shelves.get(owner, shelf), options);
    if (reply.records[0]?.id !== shelf) return `the catalog answered with another shelf than ${shelf} of ${owner}`;
    const readings = await shelvesOf(ctx.pg, claim.account, owner);
    const examined = await examineShelves(look, catalog, owner, { reply, askedMs, single: true, readings });
    if (unreadOf(examined) > 0) return examined;
    const told = { shelf: reply.records[0], asOf: reply.asOf };
    return await examineContents(look, catalog, owner, told, readings.get(shelf));
  } catch (error) {
    if (!(error instanceof Gone || error instanceof Retry)) throw error;
    if (error instanceof Retry) return error.message;
    const isKnown = await examineShelfGone(look, catalog, { account: claim.account, owner, shelf });
    return isKnown ? { unread: 0, undecided: [], late: [] } : `whether shelf ${shelf} of ${owner} is gone is not known`;
  }
}

/** Compares all shelves of an owner. Skips what was compared before an interruption. */
async function verifyOwner(look: Look, catalog: Catalog, owner: string): Promise<string[]> {
  const { ctx, claim } = look;
  const missing: string[] = [];
  const askedMs = ctx.clock.now();
  const readings = await shelvesOf(ctx.pg, claim.account, owner);
  const replies = await requestShelves({ ctx, claim, stream: catalog.shelves }, owner).catch((error: unknown) => {
    if (!(error instanceof Gone || error instanceof Retry)) throw error;
    missing.push(`the catalog does not show the shelves of ${owner} (${error.message})`);
    return [];
  });
  if (replies.length === 0) return missing;
  let unread = 0;
  for (const reply of replies)
    unread += unreadOf(await examineShelves(look, catalog, owner, { reply, askedMs, single: false, readings }));
  const shown = replies.flatMap(({ records }) => records);
  const after = (await placeOf(ctx.pg, claim, owner))?.place ?? '';
  for (const shelf of shown.filter(({ id }) => id > after).sort((a, b) => (a.id < b.id ? -1 : 1))) {
    await giveWay(look);
    const told = { shelf, asOf: replies[0]!.asOf };
    const current = await shelvesOf(ctx.pg, claim.account, owner);
    const examined = await examineContents(look, catalog, owner, told, current.get(shelf.id));
    if (typeof examined === 'string') missing.push(examined);
    else unread += unreadOf(examined);
    await movePlace(ctx.pg, claim, owner, shelf.id);
  }
  // A record without a readable id may be any missing shelf.
  const isReadable = replies.every(({ unreadable }) => unreadable.length === 0);
  const ids = new Set(shown.map(({ id }) => id));
  const unshown = [...readings].filter(([id, { isGone }]) => !isGone && !ids.has(id)).map(([id]) => id);
  for (const shelf of isReadable ? unshown : []) {
    if (!(await examineShelfGone(look, catalog, { account: claim.account, owner, shelf }))) unread++;
  }
  return [...missing, ...uncompared(unread)];
}

/** Reports volumes on a missing or deleted shelf. */
async function noteHanging(look: Look, one: { owner: string; shelf: string; volumes: string[] }): Promise<void> {
  const { ctx, claim, repair, random } = look;
  const at = { nowMs: ctx.clock.now(), asOfMs: sourceNow(look) };
  const key = { account: claim.account, owner: one.owner, shelf: one.shelf };
  const hanging = Object.fromEntries(one.volumes.map(id => [id, 'there']));
  await transaction(ctx.pg, async client => {
    const deleted = repair ? await clearShelf(client, key, new Date(at.nowMs), claim.run) : 0;
    const finding = {
      stream: 'books.shelves' as const,
      record: recordOf(key),
      differences: { 'shelf_volumes.row': [hanging, {}] as const },
      kind: 'only here',
      oursAsOf: null,
      repaired: repair,
    };
    await writeFindings(client, claim, [finding], { ...at, random });
    const counts = { ...noCounts(), deleted, credits: 0 };
    await keepBooks(client, claim, at, { counts, rejects: [], stored: [], drift: [] });
  });
}
