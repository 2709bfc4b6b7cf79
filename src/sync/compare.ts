/**
 * One reply beside what is here: which of its records differ, of what kind that is, and, where it is asked for, the repair,
 * in one transaction. What changed at the source since the stream is complete here is no difference: it is merged. A row that
 * was written while the reply was on its way is not judged, since it may be newer.
 */
import type { Context } from '../context.ts';
import { Gone, Retry } from '../errors.ts';
import { check, type Reply, trueByOf } from '../http/request.ts';
import type { Ms } from '../reading/reading.ts';
import type { DetailStream, ListStream, Row } from '../streams/stream.ts';
import {
  differingNames,
  type Finding,
  forgetNames,
  leftBehind,
  type Standing,
  standingOf,
  writeFindings,
} from '../warehouse/audit.ts';
import type { Claim } from '../warehouse/claims.ts';
import { cleanJson, cleanText } from '../warehouse/clean.ts';
import {
  add,
  attempt,
  type Batch,
  type Care,
  erasedIn,
  keepBooks,
  type Moment,
  noCounts,
  textOf,
  withCare,
  writeBatch,
} from '../warehouse/commit.ts';
import { compare, type Differing } from '../warehouse/compare.ts';
import type { Client } from '../warehouse/pool.ts';
import { type Reject, settleRejects } from '../warehouse/rejects.ts';
import { knownOf, setAside } from '../warehouse/verifications.ts';
import { claimMessages, nameThem } from '../warehouse/waiting.ts';
import { examineGone, keepPlace, options } from './alone.ts';
import { detailBatch, singleBatch } from './batch.ts';
import { commitDetail } from './detail.ts';
import { behindMs } from './hydrate.ts';
import { byRoot, cameBack, differencesOf, kindOf } from './kinds.ts';

/** How a run compares. */
export interface Look {
  readonly ctx: Context;
  readonly claim: Claim;
  /** What differs is made equal. */
  readonly repair: boolean;
  /** The records were chosen at random from all: those that are equal are written down as well. */
  readonly random: boolean;
  /** How many records there are to be compared, for those who watch. */
  readonly expected?: number | undefined;
}

/** The streams that a record may belong to, as the job knows them. */
export interface Compared {
  readonly tickets: ListStream<Row>;
  readonly customers: ListStream<Row>;
  readonly users: ListStream<Row>;
  readonly messages: DetailStream<Row, Row>;
}

export interface Examined {
  /** Could not be compared: unreadable, or refused by PostgreSQL. */
  readonly unread: number;
  /** Not here, and whether they came since the stream is complete nobody has said: nothing was done about them. */
  readonly undecided: readonly string[];
  /** Written while the reply was on its way, and not like it: to be asked for anew. */
  readonly late: readonly string[];
}

interface Given {
  /** tickets, customers or users. */
  readonly stream: Pick<ListStream<Row>, 'name' | 'merge'>;
  readonly reply: Reply<Row>;
  readonly batch: Batch;
  /** By our clock. */
  readonly askedMs: Ms;
  /** Of tickets: when a record was updated. */
  readonly updated?: ((record: Row) => Ms) | undefined;
  /** Of customers: those that are known to have come since the stream is complete. */
  readonly newcomers?: ReadonlySet<string> | undefined;
  /** In the same transaction. */
  readonly more?: ((client: Client) => Promise<void>) | undefined;
  /** It is part of something that counts itself. */
  readonly uncounted?: boolean;
}

type Verdict = 'behind' | 'differs' | 'undecided' | 'unjudged';

export async function examineRecords(look: Look, given: Given): Promise<Examined> {
  const { ctx, claim, repair, random } = look;
  const { stream, reply, batch, askedMs, updated } = given;
  const at = { nowMs: ctx.clock.now(), asOfMs: reply.asOf, trueByMs: trueByOf(reply) };
  const credits = ctx.helpdesk.send.takeCredits();
  const times = new Map(reply.records.map(record => [record.id, updated?.(record)]));
  return withCare(ctx.pg, async (client, care) => {
    const { found, refused } = await differingOf(client, claim, batch, care, at);
    const differing = byRoot(found);
    const wanted = random ? batch.records.map(({ id }) => id) : [...differing.keys()];
    const key = { account: claim.account, stream: stream.name };
    const standing =
      wanted.length > 0
        ? await standingOf(client, key, wanted, { askedMs, asOfMs: at.asOfMs, lock: repair })
        : new Map<string, Standing>();
    const what = { ids: [...differing.keys()], standing, times, behindMs: at.asOfMs - behindMs(ctx) };
    const verdicts = await judge(client, claim, given, what);
    const of = (verdict: Verdict) => [...verdicts].filter(([, one]) => one === verdict).map(([id]) => id);
    const differs = of('differs');
    // What is set aside is told as such.
    const aside = await setAside(client, key, differs);
    const counts = noCounts();
    const rejects: Reject[] = [];
    const stored: string[] = [];
    for (const part of [subset(batch, of('behind')), ...(repair ? [byForce(subset(batch, differs))] : [])]) {
      if (part.records.length === 0) continue;
      const written = await writeBatch(client, claim, part, at, care);
      add(counts, written.counts);
      rejects.push(...written.rejects);
      stored.push(...part.records.map(({ id }) => id));
    }
    const refusedIds = new Set(rejects.map(({ recordId }) => recordId));
    const findings = wanted
      .filter(id => (verdicts.get(id) ?? 'differs') === 'differs')
      .filter(id => !aside.has(id) || (repair && !refusedIds.has(id)))
      .map((id): Finding => {
        const one = differing.get(id);
        const ours = standing.get(id);
        const versions = updated && { ours: ours?.updatedMs ?? null, theirs: times.get(id)! };
        return {
          stream: stream.name,
          record: id,
          ...(one && ours?.buried
            ? cameBack
            : {
                differences: one ? differencesOf(batch.merge, one) : null,
                kind: one ? kindOf(stream.name, batch.merge, one, versions && { versions }) : null,
              }),
          oursAsOf: ours && !ours.buried ? ours.observedAt : null,
          repaired: one !== undefined && repair && !refusedIds.has(id),
        };
      });
    await writeFindings(client, claim, findings, { ...at, random });
    await given.more?.(client);
    await settleRejects(client, key, { stored, rejects }, at);
    await keepBooks(client, claim, at, {
      counts: { ...counts, seen: given.uncounted ? 0 : reply.arrived, rejected: rejects.length, credits },
      rejects: [],
      stored: [],
      drift: [],
      expected: look.expected,
    });
    return { unread: reply.unreadable.length + refused, undecided: of('undecided'), late: of('unjudged') };
  });
}

/** What fails for a value cannot be compared. */
async function differingOf(
  client: Client,
  claim: Claim,
  batch: Batch,
  care: Care,
  { nowMs }: Pick<Moment, 'nowMs'>,
): Promise<{ found: Differing[]; refused: number }> {
  const { name, merge, parents } = batch;
  const differing = async (what: Batch, of: readonly string[] | undefined) => {
    const erased = await erasedIn(client, claim.account, what, nowMs);
    const places = what.records.map(({ place }) => place);
    const key = { account: claim.account, parents: of };
    return compare(client, { name, merge }, key, textOf(what, places, care, erased));
  };
  if (care !== 'one by one') return { found: await differing(batch, parents), refused: 0 };
  const found: Differing[] = [];
  let refused = 0;
  for (const record of batch.records) {
    const refusal = await attempt(client, async () => {
      found.push(...(await differing({ ...batch, records: [record] }, undefined)));
    });
    if (refusal) refused++;
  }
  return { found, refused };
}

async function judge(
  client: Client,
  claim: Claim,
  { stream, reply, newcomers, updated }: Given,
  what: {
    ids: readonly string[];
    standing: ReadonlyMap<string, Standing>;
    times: ReadonlyMap<string, Ms | undefined>;
    /** A copy of the source which is behind may answer with what was there then. */
    behindMs: Ms;
  },
): Promise<Map<string, Verdict>> {
  const { ids, standing, times } = what;
  const verdicts = new Map<string, Verdict>();
  if (ids.length === 0) return verdicts;
  const known = updated ? await knownOf(client, claim.account, reply.records, updated) : new Set<string>();
  const absent = ids.filter(id => !standing.has(id));
  const remains = updated ? await leftBehind(client, claim.account, absent) : new Set<string>();
  for (const id of ids) {
    const ours = standing.get(id);
    const time = times.get(id) ?? Number.NEGATIVE_INFINITY;
    if (ours && !ours.isOlder) verdicts.set(id, 'unjudged');
    else if (updated && ours && !ours.buried && time < ours.updatedMs! && ours.observedAt.getTime() > what.behindMs)
      verdicts.set(id, 'unjudged');
    else if (updated) verdicts.set(id, !known.has(id) && isLate(ours, time, remains.has(id)) ? 'behind' : 'differs');
    else if (ours || stream.name !== 'customers') verdicts.set(id, 'differs');
    else verdicts.set(id, newcomers === undefined ? 'undecided' : newcomers.has(id) ? 'behind' : 'differs');
  }
  return verdicts;
}

/** Of a ticket that changed since the stream is complete: whether the version here is an older one. */
function isLate(ours: Standing | undefined, updatedMs: Ms, remains: boolean): boolean {
  if (ours === undefined) return !remains;
  // Within the second of its update more may have changed.
  return ours.buried || ours.updatedMs! < updatedMs || ours.observedAt.getTime() < updatedMs + 1000;
}

function subset(batch: Batch, ids: readonly string[]): Batch {
  const wanted = new Set(ids);
  return { ...batch, records: batch.records.filter(({ id }) => wanted.has(id)) };
}

/** Written whatever the versions say, with all that hangs on the records. */
function byForce(batch: Batch): Batch {
  return {
    ...batch,
    name: `${batch.name}, by force`,
    merge: { ...batch.merge, upsert: batch.merge.forced },
    parents: batch.parents ?? batch.records.map(({ id }) => id),
  };
}

// --- in detail ---------------------------------------------------------------------------------------------------------

/** Names that ride along, and are compared. */
export type Embeds = readonly ('labels' | 'inbox')[];

/** A ticket by its id, with its messages; `whole`: the ticket itself is compared too. Answers whether it could be compared. */
export async function examineTicket(
  look: Look,
  { tickets, messages }: Compared,
  id: string,
  { whole, embeds = [], more }: { whole: boolean; embeds?: Embeds; more?: (client: Client) => Promise<void> },
): Promise<boolean> {
  const { ctx, claim } = look;
  const askedMs = ctx.clock.now();
  let reply: Reply<Row>;
  try {
    reply = await ctx.helpdesk.send(messages.request(id, [...embeds]), options(look));
  } catch (error) {
    if (error instanceof Gone) return examineGone(look, tickets, id, more);
    if (!(error instanceof Retry)) throw error;
    await keepPlace(look, more);
    return false;
  }
  const [record] = reply.records;
  if (record === undefined || record.id !== id) {
    await keepPlace(look, more);
    return false;
  }
  const updated = (one: Row) => messages.version(one);
  if (embeds.length > 0) await examineNames(look, messages, reply, record, embeds);
  if (whole) {
    const batch = singleBatch(tickets, reply);
    const given = { stream: tickets, reply, batch, askedMs, updated, uncounted: true };
    const { unread, late } = await examineRecords(look, given);
    if (unread + late.length > 0) return false;
  }
  const key = { account: claim.account, stream: 'tickets' };
  const ours = (await standingOf(ctx.pg, key, [id], { askedMs, asOfMs: reply.asOf, lock: false })).get(id);
  if (ours && !ours.buried && ours.hasMessages && ours.updatedMs === updated(record))
    return examineMessages(look, messages, reply, record, { askedMs, more });
  // It waits for its messages, or has just changed: they are as good as any that the run for messages would read.
  const isKnown = (await knownOf(ctx.pg, claim.account, [record], updated)).has(id);
  if (look.repair || !isKnown) await commitDetail(ctx, claim, messages, reply, { id, due: { labels: [], inbox: [] } });
  await keepPlace(look, more);
  return true;
}

async function examineMessages(
  { ctx, claim, repair, random, expected }: Look,
  stream: DetailStream<Row, Row>,
  reply: Reply<Row>,
  record: Row,
  { askedMs, more }: { askedMs: Ms; more: ((client: Client) => Promise<void>) | undefined },
): Promise<boolean> {
  const at = { nowMs: ctx.clock.now(), asOfMs: reply.asOf, trueByMs: trueByOf(reply) };
  const credits = ctx.helpdesk.send.takeCredits();
  const { batch, members, unreadable } = await detailBatch(stream, record, reply.text);
  const notes = new Set(members.filter(member => (member as { type?: unknown }).type === 'note').map(({ id }) => id));
  return withCare(ctx.pg, async (client, care) => {
    const key = { account: claim.account, stream: 'tickets' };
    const ours = (await standingOf(client, key, [record.id], { askedMs, asOfMs: at.asOfMs, lock: true })).get(
      record.id,
    );
    const isSame = ours !== undefined && !ours.buried && ours.hasMessages && ours.updatedMs === stream.version(record);
    const { found: all, refused } = await differingOf(client, claim, batch, care, at);
    const judged = isSame && unreadable.length === 0 && refused === 0;
    const counts = noCounts();
    const rejects: Reject[] = [];
    const ofMessages = { account: claim.account, stream: stream.name };
    const aside = await setAside(client, ofMessages, [...new Set(all.map(({ id }) => id))]);
    if (judged && all.length > 0 && repair) {
      const written = await writeBatch(client, claim, byForce(batch), at, care);
      add(counts, written.counts);
      rejects.push(...written.rejects.map(reject => ({ ...reject, askId: record.id })));
    }
    // What is set aside is told as such, and what hangs on it cannot be here.
    const isAside = ({ id, of, ours }: Differing) => aside.has(id) || (of === 'attachments' && ours === null);
    const found = aside.size > 0 && (!repair || rejects.length > 0) ? all.filter(one => !isAside(one)) : all;
    if (judged) {
      if (all.length === 0 || repair) {
        const claimed = { id: record.id, updatedMs: stream.version(record), asOfMs: at.asOfMs };
        await claimMessages(client, claim, claimed, at.nowMs);
      }
      const finding: Finding = {
        stream: stream.name,
        record: record.id,
        differences: found.length > 0 ? differencesOf(batch.merge, found) : null,
        kind: found.length > 0 ? kindOf(stream.name, batch.merge, found, { isNote: id => notes.has(id) }) : null,
        oursAsOf: ours.observedAt,
        repaired: found.length > 0 && repair && rejects.length === 0,
      };
      const findings = found.length > 0 || (random && all.length === 0) ? [finding] : [];
      await writeFindings(client, claim, findings, { ...at, random });
    }
    await more?.(client);
    const stored = all.length > 0 && judged && repair ? [record.id] : [];
    await settleRejects(client, ofMessages, { stored, rejects }, at);
    await keepBooks(client, claim, at, {
      counts: { ...counts, seen: 1, rejected: rejects.length, credits },
      rejects: [],
      stored: [],
      drift: [],
      expected,
    });
    return unreadable.length === 0 && refused === 0;
  });
}

/** What a label or an inbox is called whose name rides along with a ticket. */
async function examineNames(
  { ctx, claim, repair, random }: Look,
  stream: DetailStream<Row, Row>,
  reply: Reply<Row>,
  record: Row,
  embeds: Embeds,
): Promise<void> {
  const at = { nowMs: ctx.clock.now(), asOfMs: reply.asOf, trueByMs: trueByOf(reply) };
  await withCare(ctx.pg, async (client, care) => {
    for (const embed of embeds) {
      const name = stream.names.find(one => one.embed === embed)!;
      const table = embed === 'labels' ? 'labels' : 'inboxes';
      const shown = name.shown(record).flatMap((one, place) => {
        const checked = check(name.record, one, place);
        return 'readable' in checked ? [checked.readable] : [];
      });
      const names = shown.map(({ id, name }) => ({ id, name: name && cleanText(name).text }));
      const differing = await differingNames(client, claim.account, table, names);
      if (repair && differing.length > 0) {
        const asked = differing.map(({ id }) => id);
        const text = care === 'as it came' ? reply.text : cleanJson(reply.text).text;
        await forgetNames(client, claim.account, table, asked);
        await nameThem(client, claim.account, name.upsert, { text, asked, at });
      }
      const findings = differing.map(({ id, ours, theirs }) => ({
        stream: table,
        record: id,
        differences: { name: [ours, theirs] as const },
        kind: 'renamed',
        oursAsOf: null,
        repaired: repair,
      }));
      await writeFindings(client, claim, findings, { ...at, random });
    }
    const counts = { ...noCounts(), credits: 0 };
    await keepBooks(client, claim, at, { counts, rejects: [], stored: [], drift: [] });
  });
}
