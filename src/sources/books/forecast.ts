/**
 * Forecast for the catalog. The list of an owner's shelves costs one request and shows which shelves changed. The same
 * rules as in a run decide whether and how a shelf is read.
 */

import type { Context } from '../../engine/context.ts';
import { Listed } from '../../engine/details/listed.ts';
import type { Part } from '../../engine/forecast/plan-time.ts';
import { type Planning, type Question, storeMs } from '../../engine/forecast/planning.ts';
import { readShelf } from '../../engine/reading/collection.ts';
import { listShelves } from './endpoints.ts';
import { booksOf } from './open.ts';
import { membersOf, shelvesOf } from './shelves/shelf-rows.ts';
import { changedAt, countOf, shelves, versionOf } from './shelves/shelves.ts';
import { volumes } from './volumes/volumes.ts';

const manyVolumes = 1_000_000;

export async function partsOfBooks(planning: Planning, question: Question): Promise<Part[]> {
  const { streams: names } = question;
  const again = question.kind === 'backfill' && question.range.again;
  const lane = question.kind === 'sync' ? 'fresh' : 'backfill';
  const parts: Part[] = [];
  let brought = 0;
  if (names.includes('books.shelves')) {
    let requests = 0;
    for (const owner of booksOf(planning.ctx).owners) {
      const read = await ofOwner(planning, owner, again);
      requests += read.requests;
      brought += read.brought;
    }
    parts.push({ stream: 'shelves', readers: [[{ cost: 1, lane: 'fresh', many: requests }]], storeMs: storeMs.page });
  }
  if (names.includes('books.volumes')) {
    const many = brought + (await waitingVolumes(planning.ctx, planning.nowMs, again));
    parts.push({ stream: 'volumes', readers: [[{ cost: 1, lane, many }]], storeMs: storeMs.record });
  }
  return parts;
}

async function waitingVolumes(ctx: Context, nowMs: number, again: boolean): Promise<number> {
  const listed = new Listed(ctx.pg, ctx.account, volumes);
  const beforeMs = again ? nowMs : nowMs - volumes.ageMs(booksOf(ctx));
  const due = await listed.next({ beforeMs, startedMs: nowMs }, manyVolumes);
  return Math.max(due.length, again ? 0 : await listed.count());
}

/** Requests for the list and the changed shelves, and the new volumes on these shelves. */
async function ofOwner(
  planning: Planning,
  owner: string,
  again: boolean,
): Promise<{ requests: number; brought: number }> {
  const { ctx, counts, counted, assumed, nowMs } = planning;
  const before = await shelvesOf(ctx.pg, ctx.account, owner);
  if (!counts) {
    if (before.size === 0) planning.unknown = true;
    assumed.add('no shelf has changed');
    return { requests: 1, brought: 0 };
  }
  const { send, shelfAgeMs } = booksOf(ctx);
  const { records, asOf } = await send(listShelves(owner), {
    lane: 'interactive',
    signal: ctx.signal,
  });
  counted.push({ what: `the shelves of ${owner}`, credits: 1 });
  let [requests, brought] = [1, 0];
  const dueMs = (send.sourceNow() ?? asOf) - shelfAgeMs;
  for (const shelf of records) {
    const reading = before.get(shelf.id);
    const due = again || (reading?.asOfMs ?? Number.NEGATIVE_INFINITY) < dueMs;
    const version = versionOf(shelf);
    if (version !== null && !due && reading?.version === version) continue;
    const look = !due && reading?.version === null && version === null;
    if (!look && version === null) requests++;
    const known =
      reading?.asOfMs === undefined
        ? undefined
        : await membersOf(ctx.pg, { account: ctx.account, owner, shelf: shelf.id });
    const count = countOf(shelf);
    const ids = imaginedOn(shelf.id, known, count);
    requests += requestsOfShelf({ known, look, perPage: shelves.perPage, count }, ids, nowMs);
    // A changed shelf is fetched itself, for the time of its change.
    if (known && changedAt(shelf) > (reading?.asOfMs ?? 0)) requests++;
    brought += Math.max(0, ids.length - (known?.length ?? 0));
  }
  assumed.add('volumes are on one shelf each, and no shelf moves while it is read');
  return { requests, brought };
}

/** The known volumes, and placeholders for the rest of the shelf's count. */
function imaginedOn(shelf: string, known: readonly string[] = [], count = known.length): string[] {
  const more = Array.from({ length: Math.max(0, count - known.length) }, (_, i) => `${shelf} ${i}`);
  return [...more, ...known].slice(0, Math.max(count, 0));
}

function requestsOfShelf(options: Parameters<typeof readShelf>[0], ids: readonly string[], nowMs: number): number {
  const reading = readShelf(options);
  let requests = 0;
  for (let step = reading.next(); !step.done; requests++) {
    const { startIndex, maxResults } = step.value;
    step = reading.next({ ids: ids.slice(startIndex, startIndex + maxResults), asOf: nowMs });
  }
  return requests;
}
