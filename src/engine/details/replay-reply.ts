/**
 * Stores rejects of lists and of details from their stored payloads, without a request. The merge compares the time of the
 * payload with newer rows, so replayed records never overwrite newer ones.
 */

import type { DetailStream, ListStream, Replaying, Row } from '../../sources/source.ts';
import type { Batch, Tx, Writer } from '../commit/page.ts';
import { writeBatch } from '../commit/rows.ts';
import { parseJson } from '../exact-json.ts';
import { check, isObject, type Reply } from '../http/request.ts';
import { singleBatch } from '../load/batch.ts';
import { NotStored } from '../load/replay.ts';
import type { Ms } from '../reading/reading.ts';
import { lockMembers } from './claim-members.ts';
import { unitOf } from './detail-rows.ts';
import { detailBatch } from './members.ts';
import { membersOf, writeDetail } from './store-detail.ts';

/** Longest time in ms between the as_of and the Date of a reply: one request, and rounding. */
const longestMs: Ms = 60_000;

type Again = Replaying['reject'];

export async function replay({ tx, streams, stream, reject }: Replaying): Promise<void> {
  const { client, claim, at } = tx;
  const write = async (batch: Batch) => {
    const { rejects } = await writeBatch(tx, batch);
    if (rejects[0]) throw new NotStored(rejects[0].reason);
  };
  if (stream.kind === 'list') return write(singleBatch(stream, replyOf(recordOf(stream), reject, at.asOfMs)));
  if (stream.kind !== 'detail') throw new NotStored('the record is fetched again');

  const raw: unknown = parseJson(reject.payload);
  // The payload of a list of members is one of them.
  if (stream.list) return write(await memberBatch(tx, stream, reject, raw));
  if (isObject(raw) && stream.membersField in raw) {
    const wanted = { id: reject.ask_id ?? '' };
    const reply = replyOf(stream.request(wanted.id, []).record, reject, at.asOfMs);
    const came = { reply, found: await membersOf(stream, reply) };
    const { refused, current } = await writeDetail(tx, stream, came, wanted);
    if (refused[0]) throw new NotStored(refused[0].reason);
    if (!current) throw new NotStored('the stored record is newer; the record is fetched again');
    return undefined;
  }
  if (reject.record_id !== null && reject.record_id === reject.ask_id) {
    const of = streams.find(({ key }) => key === stream.of.key);
    if (of?.kind !== 'list') throw new NotStored('the record is fetched again');
    await write(singleBatch(of, replyOf(recordOf(of), reject, at.asOfMs)));
    // The payload holds only the ticket. Its messages must have been read at this time or later.
    const read = await lockMembers(client, claim.account, stream, reject.record_id);
    if (read === undefined || read.getTime() < at.asOfMs)
      throw new NotStored(`the payload holds no ${stream.name}; the record is fetched again`);
    return undefined;
  }
  return write(await memberBatch(tx, stream, reject, raw));
}

/**
 * Builds the batch of one rejected member. It is stored only if its record still shows the set of the same reading.
 */
async function memberBatch(
  { client, claim: { account }, at }: Tx<Writer>,
  stream: DetailStream<Row, Row>,
  { ask_id, payload, place }: Again,
  raw: unknown,
): Promise<Batch> {
  if (ask_id === null || place === null) throw new NotStored(`its ${unitOf(stream)} is unknown; it is fetched again`);
  const asOf = await lockMembers(client, account, stream, ask_id);
  if (asOf?.getTime() !== at.asOfMs)
    throw new NotStored(`${unitOf(stream)} ${ask_id} has ${stream.name} of another reading; fetched again`);
  const parent = { id: ask_id, [stream.membersField]: [raw] };
  const text = `{"id":${JSON.stringify(ask_id)},${JSON.stringify(stream.membersField)}:[${payload}]}`;
  const { batch, unreadable } = await detailBatch(stream, parent, { text, asOf: at.asOfMs });
  if (unreadable[0]) throw new NotStored(unreadable[0].reason);
  const [value] = batch.parameters([0]) as [unknown[]];
  return { ...batch, parents: [], parameters: () => stream.parameters(value, [place - 1], at.asOfMs) };
}

const recordOf = (stream: ListStream<Row>) => stream.request(stream.lists[0].name, { page: 1, perPage: 1 }).record;

/** Rebuilds the reply from the stored payload. Throws NotStored if this version rejects the record too. */
function replyOf(record: Parameters<typeof check<Row>>[0], { payload }: Again, asOfMs: Ms): Reply<Row> {
  const checked = check(record, parseJson(payload), 0);
  if (!('readable' in checked)) throw new NotStored(checked.reason);
  const records = [checked.readable];
  const trueBy = asOfMs + longestMs + 1000;
  return {
    text: payload,
    records,
    unreadable: [],
    arrived: 1,
    asOf: asOfMs,
    trueBy,
    shownBy: trueBy,
    total: undefined,
  };
}
