/**
 * Re-reads the catalog, or a sample, and compares it: the lists of shelves with their content, and each volume by id,
 * one request each. It uses spare requests and stops when the daily quota is used up. It resumes when the quota resets.
 */

import { type Context, type Outcome, sourceNow } from '../../../engine/context.ts';
import type { Client } from '../../../engine/database/pool.ts';
import type { StreamKey } from '../../../engine/database/stream-key.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import type { Examined, Look } from '../../../engine/verify/compare-reply.ts';
import { type Finding, isReadBeside } from '../../../engine/verify/findings.ts';
import { note } from '../../../engine/verify/note-orphans.ts';
import { examineSample, fromPlace } from '../../../engine/verify/one-by-one.ts';
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
  const { owners } = booksOf(ctx);
  const isCompared = async (examined: Promise<Examined | string>) => {
    const result = await examined;
    return typeof result !== 'string' && unreadOf(result) === 0;
  };
  const unread = await examineSample(look, {
    sample,
    async choose(of) {
      if (claim.stream === 'books.volumes')
        return (await volumesAtRandom(ctx.pg, claim, of)).map(id => [
          id,
          () => isCompared(examineVolume(look, catalog, id)),
        ]);
      return (await shelvesAtRandom(ctx.pg, claim, { ...of, owners })).map(({ owner, shelf }) => [
        recordOf({ owner, shelf }),
        () => isCompared(examineOne(look, catalog, owner, shelf)),
      ]);
    },
    async goesOn() {
      const isFree = await goesOn();
      if (isFree) await giveWay(look);
      return isFree;
    },
  });
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
  const next = (after: string, limit: number) => volumesAfter(ctx.pg, claim, after, limit);
  for await (const id of fromPlace(look, 'default', next)) {
    await giveWay(look);
    const isUnread = unreadOf(await examineVolume(look, catalog, id)) > 0;
    // A volume that another run stored meanwhile is fetched once more.
    if (isUnread) unread += unreadOf(await examineVolume(look, catalog, id));
    await movePlace(ctx.pg, claim, 'default', id);
  }
  for (const id of await volumesOfNoShelf(ctx.pg, claim)) await noteVolumeOfNoShelf(look, id);
  return uncompared(unread);
}

/** No list has ever shown this volume, so it was written by hand. */
const noteVolumeOfNoShelf = (look: Look, id: string): Promise<void> =>
  noteOnlyHere(look, 'books.volumes', id, { row: ['there', null] }, client => takeVolume(client, look.claim, id));

/** Reports what only the mirror has, and removes it if the run repairs. */
function noteOnlyHere(
  look: Look,
  stream: StreamKey,
  record: string,
  differences: Finding['differences'],
  take: (client: Client, now: Date) => Promise<number>,
): Promise<void> {
  return note(look, sourceNow(look.ctx, 'books'), async (client, { nowMs }) => {
    const { repair } = look;
    const deleted = repair ? await take(client, new Date(nowMs)) : 0;
    return {
      findings: [{ stream, record, differences, kind: 'only here', oursAsOf: null, repaired: repair }],
      deleted,
    };
  });
}

// --- shelves -----------------------------------------------------------------------------------------------------------

async function verifyShelves(look: Look, catalog: Catalog): Promise<string[]> {
  const { ctx } = look;
  const missing: string[] = [];
  for (const owner of booksOf(ctx).owners) {
    await giveWay(look);
    missing.push(...(await verifyOwner(look, catalog, owner)));
  }
  const nowMs = sourceNow(ctx, 'books');
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
function noteHanging(look: Look, one: { owner: string; shelf: string; volumes: string[] }): Promise<void> {
  const { account, run } = look.claim;
  const key = { account, owner: one.owner, shelf: one.shelf };
  const hanging = Object.fromEntries(one.volumes.map(id => [id, 'there']));
  const differences = { 'shelf_volumes.row': [hanging, {}] } as const;
  return noteOnlyHere(look, 'books.shelves', recordOf(key), differences, (client, now) =>
    clearShelf(client, key, now, run),
  );
}
