/**
 * The comparison engine: compares one reply with the stored rows, in one transaction. It notes which records differ,
 * and repairs them on request. It knows no source: a `Subject` describes the rows of a stream, and what a difference
 * means.
 */

import type { Row } from '../../sources/source.ts';
import { commitWork, keepBooks, withCare } from '../commit/commit.ts';
import { add, type Batch, type Moment, noCounts, type Reject, type Tx, type Written } from '../commit/page.ts';
import { settle } from '../commit/rejects.ts';
import { attempt, screen, writeBatch } from '../commit/rows.ts';
import { type Context, takeCredits } from '../context.ts';
import type { Client } from '../database/pool.ts';
import type { StreamKey } from '../database/stream-key.ts';
import type { Reply } from '../http/request.ts';
import { byForce } from '../load/batch.ts';
import type { Ms } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { type Compared, compare, type Differing } from './comparison-sql.ts';
import { byRoot, cameBack, differencesOf, isMadeHere, kindOfGone } from './difference-kinds.ts';
import { type Finding, type Standing, writeFindings } from './findings.ts';
import { setAside } from './verifications.ts';

/** The settings of a comparison. */
export interface Look {
  readonly ctx: Context;
  readonly claim: Claim;
  /** Repairs differences. */
  readonly repair: boolean;
  /** The records are a random sample: equal ones are noted too. */
  readonly random: boolean;
  /** The number of records to compare, for progress. */
  readonly expected?: number | undefined;
}

/**
 * behind: changes since the last complete sync are merged, and count as no difference. undecided, unjudged: see
 * `Examined`.
 */
export type Verdict = 'behind' | 'differs' | 'undecided' | 'unjudged';

type Stored = Pick<Written, 'counts' | 'rejects'>;

/** A source's description of the records that are compared. */
export interface Subject {
  /** The key of the stream. */
  readonly stream: StreamKey;
  /** The stored rows of these ids. `lock`: they stay unchanged until the transaction ends. */
  standing(client: Client, ids: readonly string[], lock: boolean): Promise<Map<string, Standing>>;
  judge(client: Client, ids: readonly string[], standing: ReadonlyMap<string, Standing>): Promise<Map<string, Verdict>>;
  kind(found: readonly Differing[], id: string, standing: Standing | undefined): string;
  /** The declaration that names the fields, if it is not the merge of the batch. */
  readonly declared?: Compared;
  /** For rows that the merge of their batch does not compare, or does not write. */
  differing?(tx: Tx): Promise<{ found: Differing[]; refused: number }>;
  write?(tx: Tx): Promise<Stored>;
  /** Runs after the merge of these ids, in its transaction. */
  written?(client: Client, ids: readonly string[], at: Moment): Promise<void>;
}

export interface Examined {
  /** Records that could not be compared: unreadable, or refused by PostgreSQL. */
  readonly unread: number;
  /** Records that are missing here, and that may be newer than the last complete sync. They were not changed. */
  readonly undecided: readonly string[];
  /** Rows that were written while the reply was in flight, and differ from it: fetch them again. */
  readonly late: readonly string[];
}

export interface Given {
  readonly subject: Subject;
  readonly reply: Pick<Reply<Row>, 'arrived' | 'unreadable' | 'asOf'> & { readonly trueByMs?: Ms };
  readonly batch: Batch;
  /** Runs in the same transaction. */
  readonly more?: ((client: Client) => Promise<void>) | undefined;
  /** The comparison is part of another one, which counts it. */
  readonly uncounted?: boolean | undefined;
}

export async function examine(look: Look, { subject, reply, batch, more, uncounted }: Given): Promise<Examined> {
  const { ctx, claim, repair, random } = look;
  const at = { nowMs: ctx.clock.now(), asOfMs: reply.asOf, trueByMs: reply.trueByMs };
  const credits = takeCredits(ctx);
  return withCare(ctx, async (client, care) => {
    const tx = { client, claim, at, care };
    const { found, refused } = await (subject.differing?.(tx) ?? differingOf(tx, batch));
    const differing = byRoot(found);
    const wanted = random ? batch.records.map(({ id }) => id) : [...differing.keys()];
    const key = { account: claim.account, stream: subject.stream };
    const standing = wanted.length > 0 ? await subject.standing(client, wanted, repair) : new Map<string, Standing>();
    const verdicts = await subject.judge(client, [...differing.keys()], standing);
    // A row that is behind is merged, and a merge leaves a row alone whose `_payload` is equal.
    for (const [id, verdict] of verdicts)
      if (verdict === 'behind' && isMadeHere(subject.declared ?? batch.merge, differing.get(id)!))
        verdicts.set(id, 'differs');
    const of = (verdict: Verdict) => [...verdicts].filter(([, one]) => one === verdict).map(([id]) => id);
    const differs = of('differs');
    // Rejects are not differences: they are reported as rejects.
    const aside = await setAside(client, key, differs);
    const counts = noCounts();
    const rejects: Reject[] = [];
    const stored: string[] = [];
    for (const part of [subset(batch, of('behind')), ...(repair ? [byForce(subset(batch, differs))] : [])]) {
      if (part.records.length === 0) continue;
      const written = await (subject.write?.(tx) ?? writeBatch(tx, part));
      add(counts, written.counts);
      rejects.push(...written.rejects);
      const ids = part.records.map(({ id }) => id);
      stored.push(...ids);
      const failed = new Set(written.rejects.map(({ recordId }) => recordId));
      await subject.written?.(
        client,
        ids.filter(id => !failed.has(id)),
        at,
      );
    }
    const refusedIds = new Set(rejects.map(({ recordId }) => recordId));
    const findings = wanted
      .filter(id => (verdicts.get(id) ?? 'differs') === 'differs')
      .filter(id => !aside.has(id) || (repair && !refusedIds.has(id)))
      .map((id): Finding => {
        const one = differing.get(id);
        const ours = standing.get(id);
        return {
          stream: subject.stream,
          record: id,
          ...(one && ours?.hasTombstone
            ? cameBack
            : {
                differences: one ? differencesOf(subject.declared ?? batch.merge, one) : null,
                kind: one ? subject.kind(one, id, ours) : null,
              }),
          oursAsOf: ours && !ours.hasTombstone ? ours.observedAt : null,
          repaired: one !== undefined && repair && !refusedIds.has(id),
        };
      });
    await writeFindings(client, claim, findings, { ...at, random });
    await more?.(client);
    await settle({ client, claim: key, at }, { stored, rejects, filter: batch.filter });
    await keepBooks(tx, {
      counts: { ...counts, seen: uncounted ? 0 : reply.arrived, rejected: rejects.length, credits },
      expected: look.expected,
    });
    return { unread: reply.unreadable.length + refused, undecided: of('undecided'), late: of('unjudged') };
  });
}

/** A record with a value that fails cannot be compared. */
export async function differingOf(
  tx: Tx<Pick<Claim, 'account' | 'run'>>,
  batch: Batch,
): Promise<{ found: Differing[]; refused: number }> {
  const { client, claim, at } = tx;
  const differing = async (what: Batch, parents: readonly string[] | undefined) =>
    compare(client, batch.merge, { account: claim.account, parents, ...at }, await screen(tx, what));
  if (tx.care !== 'one by one') return { found: await differing(batch, batch.parents), refused: 0 };
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

function subset(batch: Batch, ids: readonly string[]): Batch {
  const wanted = new Set(ids);
  return { ...batch, records: batch.records.filter(({ id }) => wanted.has(id)) };
}

/** A record that is only here, as its source describes it. */
export interface Absent {
  /** The key of the stream. */
  readonly stream: StreamKey;
  readonly id: string;
  standing(client: Client): Promise<Standing | undefined>;
  /** Whether the deletion at the source is believed. */
  isBelieved(client: Client, ours: Standing): Promise<boolean>;
  /** Writes the tombstones. Returns their number. */
  markDeleted(client: Client, at: Moment): Promise<number>;
}

/** The source answered 404. Returns whether the state of the record is known now. */
export async function noteAbsent(
  look: Look,
  absent: Absent,
  { asOfMs, more }: { asOfMs: Ms; more?: ((client: Client) => Promise<void>) | undefined },
): Promise<boolean> {
  const { ctx, claim, repair, random, expected } = look;
  let known = false;
  await commitWork(ctx, claim, asOfMs, async (client, at) => {
    const ours = await absent.standing(client);
    const isHere = ours !== undefined && !ours.hasTombstone;
    known = !isHere || (ours.isOlder && (await absent.isBelieved(client, ours)));
    let deleted = 0;
    if (isHere && known) {
      if (repair) deleted = await absent.markDeleted(client, at);
      const finding: Finding = {
        stream: absent.stream,
        record: absent.id,
        differences: { row: ['there', null] },
        kind: kindOfGone(ours.isItself),
        oursAsOf: ours.observedAt,
        repaired: deleted > 0,
      };
      await writeFindings(client, claim, [finding], { ...at, random });
    }
    await more?.(client);
    return { counts: { seen: 1, deleted }, expected };
  });
  return known;
}
