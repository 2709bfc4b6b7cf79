/**
 * The comparison engine: one reply beside what is here, in one transaction. It says which records differ and, where that is
 * asked for, makes them equal. It knows no source: a `Subject` tells how the source's rows stand beside a reply and what a
 * difference of theirs means.
 */

import type { Row } from '../../sources/source.ts';
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
  type Written,
  withCare,
  writeBatch,
} from '../commit/commit.ts';
import { type Reject, settleRejects } from '../commit/rejects.ts';
import type { Context } from '../context.ts';
import { type Client, transaction } from '../database/pool.ts';
import type { StreamKey } from '../database/stream-key.ts';
import type { Reply } from '../http/request.ts';
import type { Ms } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { type Compared, compare, type Differing } from './comparison-sql.ts';
import { byRoot, cameBack, differencesOf, kindOfGone } from './difference-kinds.ts';
import { type Finding, type Standing, writeFindings } from './findings.ts';
import { setAside } from './verifications.ts';

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

/** When a reply was asked for, by our clock, and as of when it is true, by the source's. */
export interface Asked {
  readonly askedMs: Ms;
  readonly asOfMs: Ms;
}

/**
 * behind: what changed since the mirror was last complete is merged, and is no difference. undecided, unjudged: see `Examined`.
 */
export type Verdict = 'behind' | 'differs' | 'undecided' | 'unjudged';

type Stored = Pick<Written, 'counts' | 'rejects'>;

/** What a source declares of records that are compared. */
export interface Subject {
  /** Its key. */
  readonly stream: StreamKey;
  /** What the reply has cost. */
  takeCredits(): number;
  /** Our rows of these ids. `lock`: they stay as they are until the transaction ends. */
  standing(client: Client, ids: readonly string[], lock: boolean): Promise<Map<string, Standing>>;
  judge(client: Client, ids: readonly string[], standing: ReadonlyMap<string, Standing>): Promise<Map<string, Verdict>>;
  kind(found: readonly Differing[], id: string, standing: Standing | undefined): string;
  /** What the fields that differ are named by, where that is not the merge of the batch. */
  readonly declared?: Compared;
  /** Where rows are not compared, or not written, by the merge of their batch. */
  differing?(client: Client, care: Care, at: Moment): Promise<{ found: Differing[]; refused: number }>;
  write?(client: Client, care: Care, at: Moment): Promise<Stored>;
  /** Beside the merge of these ids, in its transaction. */
  written?(client: Client, ids: readonly string[], at: Moment): Promise<void>;
}

export interface Examined {
  /** Could not be compared: unreadable, or refused by PostgreSQL. */
  readonly unread: number;
  /** Not here, and whether they came since the stream is complete nobody has said: nothing was done about them. */
  readonly undecided: readonly string[];
  /** Written while the reply was on its way, and not like it: to be asked for anew. */
  readonly late: readonly string[];
}

export interface Given {
  readonly subject: Subject;
  readonly reply: Pick<Reply<Row>, 'arrived' | 'unreadable' | 'asOf'> & { readonly trueByMs?: Ms };
  readonly batch: Batch;
  /** In the same transaction. */
  readonly more?: ((client: Client) => Promise<void>) | undefined;
  /** It is part of something that counts itself. */
  readonly uncounted?: boolean | undefined;
}

export async function examine(look: Look, { subject, reply, batch, more, uncounted }: Given): Promise<Examined> {
  const { ctx, claim, repair, random } = look;
  const at = {
    nowMs: ctx.clock.now(),
    asOfMs: reply.asOf,
    ...(reply.trueByMs !== undefined && { trueByMs: reply.trueByMs }),
  };
  const credits = subject.takeCredits();
  return withCare(ctx, async (client, care) => {
    const { found, refused } = await (subject.differing?.(client, care, at) ??
      differingOf(client, claim, batch, care, at));
    const differing = byRoot(found);
    const wanted = random ? batch.records.map(({ id }) => id) : [...differing.keys()];
    const key = { account: claim.account, stream: subject.stream };
    const standing = wanted.length > 0 ? await subject.standing(client, wanted, repair) : new Map<string, Standing>();
    const verdicts = await subject.judge(client, [...differing.keys()], standing);
    const of = (verdict: Verdict) => [...verdicts].filter(([, one]) => one === verdict).map(([id]) => id);
    const differs = of('differs');
    // What is set aside is told as such.
    const aside = await setAside(client, key, differs);
    const counts = noCounts();
    const rejects: Reject[] = [];
    const stored: string[] = [];
    for (const part of [subset(batch, of('behind')), ...(repair ? [byForce(subset(batch, differs))] : [])]) {
      if (part.records.length === 0) continue;
      const written = await (subject.write?.(client, care, at) ?? writeBatch(client, claim, part, at, care));
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
          ...(one && ours?.buried
            ? cameBack
            : {
                differences: one ? differencesOf(subject.declared ?? batch.merge, one) : null,
                kind: one ? subject.kind(one, id, ours) : null,
              }),
          oursAsOf: ours && !ours.buried ? ours.observedAt : null,
          repaired: one !== undefined && repair && !refusedIds.has(id),
        };
      });
    await writeFindings(client, claim, findings, { ...at, random });
    await more?.(client);
    await settleRejects(client, key, { stored, rejects, personal: batch.personal }, at);
    await keepBooks(client, claim, at, {
      counts: { ...counts, seen: uncounted ? 0 : reply.arrived, rejected: rejects.length, credits },
      rejects: [],
      stored: [],
      drift: [],
      expected: look.expected,
    });
    return { unread: reply.unreadable.length + refused, undecided: of('undecided'), late: of('unjudged') };
  });
}

/** What fails for a value cannot be compared. */
export async function differingOf(
  client: Client,
  claim: Claim,
  batch: Batch,
  care: Care,
  { nowMs, asOfMs }: Pick<Moment, 'nowMs' | 'asOfMs'>,
): Promise<{ found: Differing[]; refused: number }> {
  const { name, merge, parents } = batch;
  const differing = async (what: Batch, of: readonly string[] | undefined) => {
    const erased = await erasedIn(client, claim.account, what, nowMs);
    const places = what.records.map(({ place }) => place);
    const key = { account: claim.account, parents: of, asOfMs, nowMs };
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

function subset(batch: Batch, ids: readonly string[]): Batch {
  const wanted = new Set(ids);
  return { ...batch, records: batch.records.filter(({ id }) => wanted.has(id)) };
}

/** Written whatever the versions say, with all that hangs on the records. */
export function byForce(batch: Batch): Batch {
  return {
    ...batch,
    name: `${batch.name}, by force`,
    merge: { ...batch.merge, upsert: batch.merge.forced },
    parents: batch.parents ?? batch.records.map(({ id }) => id),
  };
}

/** A record that is here alone, as a source declares it. */
export interface Absent {
  /** Its key. */
  readonly stream: StreamKey;
  readonly id: string;
  takeCredits(): number;
  standing(client: Client): Promise<Standing | undefined>;
  /** Whether it is to be believed that the source has it no more. */
  isBelieved(client: Client, ours: Standing): Promise<boolean>;
  /** Its tombstone. Answers how many rows got one. */
  bury(client: Client, at: Moment): Promise<number>;
}

/** The source says that it has it no more. Answers whether it is known now. */
export async function noteAbsent(
  look: Look,
  absent: Absent,
  { asOfMs, more }: { asOfMs: Ms; more?: ((client: Client) => Promise<void>) | undefined },
): Promise<boolean> {
  const { ctx, claim, repair, random, expected } = look;
  const at = { nowMs: ctx.clock.now(), asOfMs };
  const credits = absent.takeCredits();
  return transaction(ctx.pg, async client => {
    const ours = await absent.standing(client);
    const isHere = ours !== undefined && !ours.buried;
    const known = !isHere || (ours.isOlder && (await absent.isBelieved(client, ours)));
    let deleted = 0;
    if (isHere && known) {
      if (repair) deleted = await absent.bury(client, at);
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
    const counts = { ...noCounts(), seen: 1, deleted, credits };
    await keepBooks(client, claim, at, { counts, rejects: [], stored: [], drift: [], expected });
    return known;
  });
}
