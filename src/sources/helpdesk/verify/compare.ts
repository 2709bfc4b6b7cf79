/** Compares tickets with their messages, and the names that they embed, with stored rows. */

import { keepBooks, withCare } from '../../../engine/commit/commit.ts';
import type { Merge } from '../../../engine/commit/merge.ts';
import { add, noCounts, type Reject } from '../../../engine/commit/page.ts';
import { settle } from '../../../engine/commit/rejects.ts';
import { writeBatch } from '../../../engine/commit/rows.ts';
import { sourceNow } from '../../../engine/context.ts';
import type { Client } from '../../../engine/database/pool.ts';
import { streamKey } from '../../../engine/database/stream-key.ts';
import { check, type Reply } from '../../../engine/http/request.ts';
import { cleanJson, cleanText } from '../../../engine/json-text.ts';
import { byForce, detailBatch, singleBatch } from '../../../engine/load/batch.ts';
import { commitNow } from '../../../engine/load/commit-queue.ts';
import type { Ms } from '../../../engine/reading/reading.ts';
import { differingOf, type Look } from '../../../engine/verify/compare-reply.ts';
import type { Differing } from '../../../engine/verify/comparison-sql.ts';
import { examineGone, keepPlace, options } from '../../../engine/verify/confirm-deletion.ts';
import { differencesOf, kindOfEdit, kindsOfQuiet } from '../../../engine/verify/difference-kinds.ts';
import { examineRecords } from '../../../engine/verify/examine-records.ts';
import { type Finding, writeFindings } from '../../../engine/verify/findings.ts';
import { note } from '../../../engine/verify/note-orphans.ts';
import { knownOf, standingOf } from '../../../engine/verify/stored-rows.ts';
import { setAside } from '../../../engine/verify/verifications.ts';
import { Gone, Retry } from '../../../errors.ts';
import type { DetailStream, ListStream, Row } from '../../source.ts';
import { claimMessages, keepReading } from '../messages/claim-messages.ts';
import { detailOf } from '../messages/detail.ts';
import { nameThem } from '../messages/waiting.ts';
import { helpdeskOf, sourceName } from '../open.ts';
import { differingNames, forgetNames, namesOfNothing, takeNames } from './rows.ts';

/** The streams whose records may be compared, with the settings of this job. */
export interface Compared {
  readonly tickets: ListStream<Row>;
  readonly customers: ListStream<Row>;
  readonly users: ListStream<Row>;
  readonly messages: DetailStream<Row, Row>;
}

/** Embedded names that are compared. */
export type Embeds = readonly ('labels' | 'inbox')[];

/**
 * Fetches a ticket with its messages and compares the messages. `whole`: compares the ticket too. Returns whether the
 * comparison was possible.
 */
export async function examineTicket(
  look: Look,
  { tickets, messages }: Pick<Compared, 'tickets' | 'messages'>,
  id: string,
  { whole, embeds = [], more }: { whole: boolean; embeds?: Embeds; more?: (client: Client) => Promise<void> },
): Promise<boolean> {
  const { ctx, claim } = look;
  const askedMs = ctx.clock.now();
  let reply: Reply<Row>;
  try {
    reply = await helpdeskOf(ctx).send(messages.request(id, [...embeds]), options(look));
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
    const { unread, late } = await examineRecords(look, { stream: tickets, reply, batch, askedMs, uncounted: true });
    if (unread + late.length > 0) return false;
  }
  const at = { askedMs, asOfMs: reply.asOf, lock: false };
  const ours = (await standingOf(ctx.pg, claim.account, tickets, [id], at)).get(id);
  if (ours && !ours.hasTombstone && ours.hasMessages && ours.updatedMs === updated(record))
    return examineMessages(look, { tickets, messages }, reply, record, { askedMs, more });
  // The ticket is pending or has just changed. This reply's messages are as good as those of the next read.
  const isKnown = (await knownOf(ctx.pg, claim.account, tickets, [record])).has(id);
  if (look.repair || !isKnown)
    await commitNow(ctx, detailOf(ctx, claim, messages, reply, { id, due: { labels: [], inbox: [] } }));
  await keepPlace(look, more);
  return true;
}

async function examineMessages(
  { ctx, claim, repair, random, expected }: Look,
  { tickets, messages: stream }: Pick<Compared, 'tickets' | 'messages'>,
  reply: Reply<Row>,
  record: Row,
  { askedMs, more }: { askedMs: Ms; more: ((client: Client) => Promise<void>) | undefined },
): Promise<boolean> {
  const at = { nowMs: ctx.clock.now(), asOfMs: reply.asOf, trueByMs: reply.shownBy };
  const credits = helpdeskOf(ctx).send.takeCredits();
  const { batch, members, unreadable } = await detailBatch(stream, record, reply);
  const notes = new Set(members.filter(member => (member as { type?: unknown }).type === 'note').map(({ id }) => id));
  return withCare(ctx, async (client, care) => {
    const now = { askedMs, asOfMs: at.asOfMs, lock: true };
    const ours = (await standingOf(client, claim.account, tickets, [record.id], now)).get(record.id);
    const isSame =
      ours !== undefined && !ours.hasTombstone && ours.hasMessages && ours.updatedMs === stream.version(record);
    const tx = { client, claim, at, care };
    const { found: all, refused } = await differingOf(tx, batch);
    const judged = isSame && unreadable.length === 0 && refused === 0;
    const counts = noCounts();
    const rejects: Reject[] = [];
    const ofMessages = { account: claim.account, stream: stream.key };
    const aside = await setAside(client, ofMessages, [...new Set(all.map(({ id }) => id))]);
    if (judged && all.length > 0 && repair) {
      const written = await writeBatch(tx, byForce(batch));
      add(counts, written.counts);
      rejects.push(...written.rejects.map(reject => ({ ...reject, askId: record.id })));
    }
    // Rejected messages are reported as rejects. Attachments that are missing here are not reported, since they may
    // belong to a rejected message.
    const isAside = ({ id, of, ours }: Differing) => aside.has(id) || (of === 'attachments' && ours === null);
    const found = aside.size > 0 && (!repair || rejects.length > 0) ? all.filter(one => !isAside(one)) : all;
    if (judged) {
      if (all.length === 0 || repair) {
        const claimed = { id: record.id, updatedMs: stream.version(record), asOfMs: at.asOfMs };
        const taken = await claimMessages(client, claim, claimed);
        if (taken && all.length > 0) await keepReading(client, claim, record.id, taken, at);
      }
      const finding: Finding = {
        stream: stream.key,
        record: record.id,
        differences: found.length > 0 ? differencesOf(batch.merge, found) : null,
        kind: found.length > 0 ? kindOfMessages(batch.merge, found, id => notes.has(id)) : null,
        oursAsOf: ours.observedAt,
        repaired: found.length > 0 && repair && rejects.length === 0,
      };
      const findings = found.length > 0 || (random && all.length === 0) ? [finding] : [];
      await writeFindings(client, claim, findings, { ...at, random });
    }
    await more?.(client);
    const stored = all.length > 0 && judged && repair ? [record.id] : [];
    await settle({ ...tx, claim: ofMessages }, { stored, rejects, filter: batch.filter });
    await keepBooks(tx, { counts: { ...counts, seen: 1, rejected: rejects.length, credits }, expected });
    return unreadable.length === 0 && refused === 0;
  });
}

function kindOfMessages(merge: Merge, found: readonly Differing[], isNote: (message: string) => boolean): string {
  const kind = kindOfEdit(merge, found, '');
  if (kind !== '') return kind;
  const edits = found.map(one => {
    if (isNote(one.id) || typeOf(one) === 'note') return 'note edits';
    return one.at === 'row' ? 'messages' : 'message edits';
  });
  return kindsOfQuiet(edits, 'updated_at');
}

const typeOf = ({ at, theirs, ours }: Differing): unknown =>
  at === 'row' ? ((theirs ?? ours) as { type?: unknown } | null)?.type : undefined;

/** Compares the names of labels and inboxes that the ticket embeds. */
async function examineNames(
  { ctx, claim, repair, random }: Look,
  stream: DetailStream<Row, Row>,
  reply: Reply<Row>,
  record: Row,
  embeds: Embeds,
): Promise<void> {
  const at = { nowMs: ctx.clock.now(), asOfMs: reply.asOf, trueByMs: reply.shownBy };
  await withCare(ctx, async (client, care) => {
    for (const embed of embeds) {
      const name = stream.names.find(one => one.embed === embed)!;
      const table = embed === 'labels' ? 'labels' : 'inboxes';
      const shown = name.shown(record).flatMap((one, place) => {
        const checked = check(name.record, one, place);
        return 'readable' in checked ? [{ ...checked.readable, record: cleanJson(JSON.stringify(one)).text }] : [];
      });
      const names = shown.map(({ id, name, record: text }) => ({
        id,
        name: name && cleanText(name).text,
        record: text,
      }));
      const differing = await differingNames(client, claim.account, table, names, at.nowMs);
      // A name that was never read is no difference. The name is stored now.
      if (repair && names.length > 0) {
        const asked = names.map(({ id }) => id);
        const text = care === 'as it came' ? reply.text : cleanJson(reply.text).text;
        await forgetNames(
          client,
          claim.account,
          table,
          differing.map(({ id }) => id),
        );
        await nameThem(client, claim.account, name.upsert, { text, asked, at });
      }
      const findings = differing.map(({ id, differences }) => ({
        stream: streamKey('helpdesk', table),
        record: id,
        differences,
        kind: 'row' in differences ? 'came back' : 'name' in differences ? 'renamed' : 'edited',
        oursAsOf: null,
        repaired: repair,
      }));
      await writeFindings(client, claim, findings, { ...at, random });
    }
    await keepBooks({ client, claim, at }, {});
  });
}

/** Finds labels and inboxes that no ticket ever had, and deletes them if the run repairs. */
export const examineNamesOfNothing = (look: Look): Promise<void> =>
  note(look, sourceNow(look.ctx, sourceName), async client => {
    const { claim, repair } = look;
    const findings: Finding[] = [];
    let deleted = 0;
    for (const table of ['labels', 'inboxes'] as const) {
      const made = await namesOfNothing(client, claim.account, table);
      const ids = made.map(({ id }) => id);
      if (repair) deleted += await takeNames(client, claim.account, table, ids);
      for (const { id, observedAt } of made)
        findings.push({
          stream: streamKey('helpdesk', table),
          record: id,
          differences: { row: ['there', null] },
          kind: 'only here',
          oursAsOf: observedAt,
          repaired: repair,
        });
    }
    return { findings, deleted };
  });
