/** Compares a record with its members, and the names that it embeds, with stored rows. */

import { Gone, Retry } from '../../../errors.ts';
import type { ListStream, Row } from '../../../sources/source.ts';
import { keepBooks, withCare } from '../../commit/commit.ts';
import { shortName } from '../../commit/merge.ts';
import { add, noCounts, type Reject } from '../../commit/page.ts';
import { settle } from '../../commit/rejects.ts';
import { writeBatch } from '../../commit/rows.ts';
import { sourceNow, sourceOf } from '../../context.ts';
import type { Client } from '../../database/pool.ts';
import { claimMembers, keepReading } from '../../details/claim-members.ts';
import { type Detail, rowsOfParent } from '../../details/detail-rows.ts';
import { detailBatch } from '../../details/members.ts';
import { shownIn, storeNames } from '../../details/names.ts';
import { detailOf, rejectWithin } from '../../details/store-detail.ts';
import { check, type Reply } from '../../http/request.ts';
import { cleanJson, cleanText } from '../../json-text.ts';
import { byForce, singleBatch } from '../../load/batch.ts';
import { commitNow } from '../../load/commit-queue.ts';
import { readDetail } from '../../load/read-members.ts';
import type { Ms } from '../../reading/reading.ts';
import { differingOf, type Look } from '../compare-reply.ts';
import type { Differing } from '../comparison-sql.ts';
import { examineGone, keepPlace, options } from '../confirm-deletion.ts';
import { differencesOf, kindOfEdit, kindsOfQuiet } from '../difference-kinds.ts';
import { examineRecords } from '../examine-records.ts';
import { type Finding, type Standing, writeFindings } from '../findings.ts';
import { noteMadeHere } from '../orphans.ts';
import { knownOf, standingOf } from '../stored-rows.ts';
import { setAside } from '../verifications.ts';
import { differingNames, forgetNames, isNamed, type Shown } from './compare-names.ts';

/** A stream of details, and the list with its parents, with the settings of this job. */
export interface Compared {
  readonly of: ListStream<Row>;
  readonly details: Detail;
}

/**
 * Fetches a record with its members and compares the members. `whole`: compares the record too. Returns whether the
 * comparison was possible.
 */
export async function examineDetail(
  look: Look,
  { of, details }: Compared,
  id: string,
  {
    whole,
    embeds = [],
    more,
  }: { whole: boolean; embeds?: readonly string[]; more?: (client: Client) => Promise<void> },
): Promise<boolean> {
  const { ctx, claim } = look;
  const askedMs = ctx.clock.now();
  let reply: Reply<Row>;
  try {
    const { send } = sourceOf(ctx, of.source);
    reply = await readDetail(details, { id, more: embeds }, request => send(request, options(look)));
  } catch (error) {
    if (error instanceof Gone && of.get) return examineGone(look, of, id, more);
    if (!(error instanceof Retry || error instanceof Gone)) throw error;
    await keepPlace(look, more);
    return false;
  }
  const [record] = reply.records;
  if (record === undefined || record.id !== id) {
    await keepPlace(look, more);
    return false;
  }
  if (embeds.length > 0) await examineNames(look, details, reply, record, embeds);
  if (whole) {
    const batch = singleBatch(of, reply);
    const { unread, late } = await examineRecords(look, { stream: of, reply, batch, askedMs, uncounted: true });
    if (unread + late.length > 0) return false;
  }
  const at = { askedMs, asOfMs: reply.asOf, lock: false, details: details.name };
  const ours = (await standingOf(ctx.pg, claim.account, of, [id], at)).get(id);
  if (isComparable(ours, details, record))
    return examineMembers(look, { of, details }, reply, record, { askedMs, more });
  // The record is pending or has just changed. This reply's members are as good as those of the next read.
  const isKnown = details.list !== undefined || (await knownOf(ctx.pg, claim.account, of, [record])).has(id);
  if (look.repair || !isKnown) await commitNow(ctx, detailOf(ctx, claim, details, reply, { wanted: { id } }));
  await keepPlace(look, more);
  return true;
}

/** Whether the stored members are those of the version of the record that the reply shows. */
const isComparable = (ours: Standing | undefined, { version }: Detail, record: Row): ours is Standing =>
  ours !== undefined &&
  !ours.hasTombstone &&
  ours.hasMessages === true &&
  (version === undefined || ours.updatedMs === version(record));

async function examineMembers(
  { ctx, claim, repair, random, expected }: Look,
  { of, details: stream }: Compared,
  reply: Reply<Row>,
  record: Row,
  { askedMs, more }: { askedMs: Ms; more: ((client: Client) => Promise<void>) | undefined },
): Promise<boolean> {
  const at = { nowMs: ctx.clock.now(), asOfMs: reply.asOf, trueByMs: reply.shownBy };
  const credits = sourceOf(ctx, of.source).send.takeCredits();
  const { batch, members, unreadable } = await detailBatch(stream, record, reply);
  const kinds = new Map(members.map(member => [member.id, stream.kindOf?.(member)]));
  return withCare(ctx, async (client, care) => {
    const now = { askedMs, asOfMs: at.asOfMs, lock: true, details: stream.name };
    const ours = (await standingOf(client, claim.account, of, [record.id], now)).get(record.id);
    const isSame = isComparable(ours, stream, record);
    const tx = { client, claim, at, care };
    const { found: all, refused } = await differingOf(tx, batch);
    const judged = isSame && unreadable.length === 0 && refused === 0;
    const counts = noCounts();
    const rejects: Reject[] = [];
    const others = new Set(batch.merge.declared.others.map(shortName));
    const ofMembers = { account: claim.account, stream: stream.key };
    const aside = await setAside(client, ofMembers, [...new Set(all.map(({ id }) => id))], stream.list && record.id);
    if (judged && all.length > 0 && repair) {
      const written = await writeBatch(tx, byForce(batch));
      add(counts, written.counts);
      rejects.push(...written.rejects.map(rejectWithin(stream, record.id)));
    }
    // Rejected members are reported as rejects. What is missing here in other tables is not reported, since it may
    // belong to a rejected member.
    const isAside = ({ id, of: table, ours }: Differing) => aside.has(id) || (others.has(table) && ours === null);
    const found = aside.size > 0 && (!repair || rejects.length > 0) ? all.filter(one => !isAside(one)) : all;
    if (judged) {
      if (all.length === 0 || repair) {
        const claimed = { id: record.id, updatedMs: ours.updatedMs!, asOfMs: at.asOfMs };
        const taken = await claimMembers(client, claim, stream, claimed);
        if (taken && all.length > 0) await keepReading(client, claim, stream, taken, at);
      }
      const finding: Finding = {
        stream: stream.key,
        record: record.id,
        differences: found.length > 0 ? differencesOf(batch.merge, found) : null,
        kind: found.length > 0 ? kindOfMembers(stream, found, kinds) : null,
        oursAsOf: ours.observedAt,
        repaired: found.length > 0 && repair && rejects.length === 0,
      };
      const findings = found.length > 0 || (random && all.length === 0) ? [finding] : [];
      await writeFindings(client, claim, findings, { ...at, random });
    }
    await more?.(client);
    const stored = all.length > 0 && judged && repair ? [record.id] : [];
    await settle({ ...tx, claim: ofMembers }, { stored, rejects, filter: batch.filter });
    await keepBooks(tx, { counts: { ...counts, seen: 1, rejected: rejects.length, credits }, expected });
    return unreadable.length === 0 && refused === 0;
  });
}

function kindOfMembers(stream: Detail, found: readonly Differing[], kinds: Map<string, string | undefined>) {
  const { name, merge, kindOf } = stream;
  const kind = kindOfEdit(merge, found, '');
  if (kind !== '') return kind;
  const edits = found.map(({ id, at, theirs, ours }) => {
    const own = kinds.get(id) ?? (at === 'row' ? kindOf?.(theirs ?? ours) : undefined);
    if (own !== undefined) return `${own} edits`;
    return at === 'row' ? name : `${name.replace(/s$/, '')} edits`;
  });
  return kindsOfQuiet(edits, rowsOfParent(stream).version);
}

/** Compares the names that the record embeds. */
async function examineNames(
  { ctx, claim, repair, random }: Look,
  { names, of }: Detail,
  reply: Reply<Row>,
  record: Row,
  embeds: readonly string[],
): Promise<void> {
  const at = { nowMs: ctx.clock.now(), asOfMs: reply.asOf, trueByMs: reply.shownBy };
  await withCare(ctx, async (client, care) => {
    for (const name of names.filter(({ embed }) => embeds.includes(embed))) {
      const shown = shownIn(name, record).flatMap((one, place): Shown[] => {
        const checked = check(name.record, one, place);
        if (!('readable' in checked)) return [];
        const { id, name: its } = checked.readable;
        return [{ id, name: its && cleanText(its).text, record: cleanJson(JSON.stringify(one)).text }];
      });
      const differing = await differingNames(client, claim.account, { name, of }, shown, at.nowMs);
      // A name that was never read is no difference. The name is stored now.
      if (repair && shown.length > 0) {
        const asked = shown.map(({ id }) => id);
        const text = care === 'as it came' ? reply.text : cleanJson(reply.text).text;
        await forgetNames(
          client,
          claim.account,
          name,
          differing.map(({ id }) => id),
        );
        await storeNames(client, claim.account, name, { text, asked, at });
      }
      const findings = differing.map(({ id, differences }) => ({
        stream: name.table,
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

/** Finds names that no record ever mentioned, and deletes them if the run repairs. */
export async function examineNamesOfNothing(look: Look, stream: Detail): Promise<void> {
  const nowMs = sourceNow(look.ctx, stream.source);
  for (const name of stream.names) await noteMadeHere(look, name.table, isNamed(stream, name), nowMs);
}
