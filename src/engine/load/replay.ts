/**
 * Stores a reject from what came then, without a request: after an upgrade that can read it, or a change of the database. It
 * goes through the merge like everything else, so that it goes over nothing that is newer; no position moves with it. What a
 * sweep has not found since then becomes a suspect: it is shown again, and was said to be checked.
 */

import { membersOf, writeDetail } from '../../sources/helpdesk/messages/detail.ts';
import { lockMessages } from '../../sources/helpdesk/messages/waiting.ts';
import type { DetailStream, ListStream, Row, Stream } from '../../sources/source.ts';
import { type Batch, type Care, type Moment, type Writer, withCare, writeBatch } from '../commit/commit.ts';
import { clearReject, lockReject, type StoredReject } from '../commit/rejects.ts';
import type { Context } from '../context.ts';
import { type Client, isOfRecord } from '../database/pool.ts';
import { suspectLate } from '../deletions/candidates.ts';
import { check, isObject, type Reply } from '../http/request.ts';
import type { Ms } from '../reading/reading.ts';
import { detailBatch, singleBatch } from './batch.ts';

/** So much later than its as_of a reply was written at most: a request and its rounding. */
const longestMs: Ms = 60_000;

/** Why it stays set aside: what was written of it is undone. */
class NotStored extends Error {}

/** Answers why it could not be stored; undefined if it was, and is cleared. */
export async function replay(
  { pg, account, clock, lookbackMs }: Pick<Context, 'pg' | 'account' | 'clock'> & { readonly lookbackMs: number },
  streams: readonly Stream[],
  id: number,
): Promise<string | undefined> {
  const nowMs = clock.now();
  try {
    await withCare(pg, async (client, care) => {
      const reject = await lockReject(client, account, id);
      if (reject === undefined) throw new NotStored('it is not open');
      const { stream_key: stream, payload, as_of } = reject;
      if (payload === null) throw new NotStored('nothing came that could be stored; it is asked for again');
      if (as_of === null)
        throw new NotStored('an older Shelfdesk did not note when it was true; it is asked for again');
      const again = { ...reject, payload, at: { nowMs, asOfMs: as_of.getTime() } };
      await store(
        client,
        { account, run: null },
        streams,
        streams.find(({ key }) => key === stream),
        again,
        care,
      );
      const ofTicket = { stream: 'helpdesk.tickets', id: again.ask_id } as const;
      const of = stream === 'helpdesk.messages' ? ofTicket : { stream, id: again.record_id };
      if (of.id !== null)
        await suspectLate(client, { account, stream: of.stream }, [of.id], { asOfMs: again.at.asOfMs, lookbackMs });
      await clearReject(client, id, new Date(nowMs));
    });
    return undefined;
  } catch (error) {
    if (error instanceof NotStored || isOfRecord(error)) return error.message;
    throw error;
  }
}

type Again = StoredReject & { readonly payload: string; readonly at: Moment };

async function store(
  client: Client,
  writer: Writer,
  streams: readonly Stream[],
  stream: Stream | undefined,
  reject: Again,
  care: Care,
): Promise<void> {
  const write = async (batch: Batch) => {
    const { rejects } = await writeBatch(client, writer, batch, reject.at, care);
    if (rejects[0]) throw new NotStored(rejects[0].reason);
  };
  // What is newer is told by as_of, which the merge of the catalog does not ask for.
  if (stream?.source !== 'helpdesk') throw new NotStored('the catalog is asked for it again');
  if (stream.kind === 'list') return write(singleBatch(stream, replyOf(recordOf(stream), reject)));
  if (stream.kind !== 'detail') throw new NotStored('it is asked for again');

  const raw: unknown = JSON.parse(reject.payload);
  if (isObject(raw) && stream.membersField in raw) {
    const ticket = { id: reject.ask_id ?? '', due: { labels: [], inbox: [] } };
    const reply = replyOf(stream.request(ticket.id, []).record, reject);
    const came = { reply, found: await membersOf(stream, reply) };
    const { refused, current } = await writeDetail(client, writer, stream, came, ticket, reject.at, care);
    if (refused[0]) throw new NotStored(refused[0].reason);
    if (!current) throw new NotStored('what is there is newer; it is asked for again');
    return undefined;
  }
  if (reject.record_id !== null && reject.record_id === reject.ask_id) {
    const of = streams.find(({ key }) => key === stream.of.key);
    if (of?.kind !== 'list') throw new NotStored('it is asked for again');
    await write(singleBatch(of, replyOf(recordOf(of), reject)));
    // The rest of it was read, or was not in what came.
    const read = await lockMessages(client, writer.account, reject.record_id);
    if (read === undefined || read.getTime() < reject.at.asOfMs)
      throw new NotStored(`no ${stream.name} came with it; it is asked for again`);
    return undefined;
  }
  return write(await memberBatch(client, writer, stream, reject, raw));
}

/** One message: it belongs to the set that was read with it, and to no other. */
async function memberBatch(
  client: Client,
  { account }: Writer,
  stream: DetailStream<Row, Row>,
  { ask_id, payload, place, at }: Again,
  raw: unknown,
): Promise<Batch> {
  if (ask_id === null || place === null) throw new NotStored('what it belongs to is not known; it is asked for again');
  const asOf = await lockMessages(client, account, ask_id);
  if (asOf?.getTime() !== at.asOfMs)
    throw new NotStored(`ticket ${ask_id} shows another reading; it is asked for again`);
  const parent = { id: ask_id, [stream.membersField]: [raw] };
  const text = `{"id":${JSON.stringify(ask_id)},${JSON.stringify(stream.membersField)}:[${payload}]}`;
  const { batch, unreadable } = await detailBatch(stream, parent, text);
  if (unreadable[0]) throw new NotStored(unreadable[0].reason);
  const [value] = batch.parameters([0]) as [unknown[]];
  return { ...batch, parents: [], parameters: () => stream.parameters(value, [place - 1]) };
}

const recordOf = (stream: ListStream<Row>) => stream.request(stream.lists[0].name, { page: 1, perPage: 1 }).record;

/** As it came, if this program can read it. */
function replyOf(record: Parameters<typeof check<Row>>[0], { payload, at }: Again): Reply<Row> {
  const checked = check(record, JSON.parse(payload), 0);
  if (!('readable' in checked)) throw new NotStored(checked.reason);
  const records = [checked.readable];
  const date = at.asOfMs + longestMs;
  return { text: payload, records, unreadable: [], arrived: 1, asOf: at.asOfMs, date, total: undefined };
}
