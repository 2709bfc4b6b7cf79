/**
 * Asks for the details of one record. They come with the record, in one reply, or as a list of their own. Then all pages of the list
 * make one reply, because the members are replaced as a set.
 */
import { Retry } from '../../errors.ts';
import type { DetailStream, MemberList, Row } from '../../sources/source.ts';
import { parseJson } from '../exact-json.ts';
import type { Reply, Request } from '../http/request.ts';
import { elementsOf, fieldsOf, objectOf } from '../json-text.ts';
import { leastSize } from '../reading/ends.ts';
import type { Page } from '../reading/reading.ts';
import { readWhole } from '../reading/whole-list.ts';
import { arrayOf, pageOf } from './batch.ts';

/** `more`: the names that the request embeds. */
export const readDetail = (
  { request, list, membersField }: Pick<DetailStream<Row, Row>, 'request' | 'list' | 'membersField'>,
  { id, more }: { readonly id: string; readonly more: readonly string[] },
  send: (request: Request<Row>) => Promise<Reply<Row>>,
): Promise<Reply<Row>> => (list === undefined ? send(request(id, more)) : readMembers(list, membersField, id, send));

async function readMembers(
  list: MemberList,
  field: string,
  id: string,
  send: (request: Request<Row>) => Promise<Reply<Row>>,
): Promise<Reply<Row>> {
  const { read, perPage } = list;
  const replies: Reply<Row>[] = [];
  /** By the text of its id. */
  const members = new Map<string, string>();
  const reading = read(0, { lookbackMs: 0, perPage, depth: Number.POSITIVE_INFINITY });
  let step = reading.next();
  while (!step.done) {
    const { ask } = step.value;
    // A list that has moved is read again. By numbered pages it is read backwards as well.
    if (ask.page === 1 && read !== readWhole) members.clear();
    const reply = await send(list.request(id, ask));
    replies.push(reply);
    for (const [place, text] of elementsOf(reply.text).entries())
      members.set(fieldsOf(text).get('id') ?? `${ask.page}, ${place}`, text);
    step = reading.next(endOf(list, reply, members.size));
  }
  if (step.value.covered === undefined)
    throw new Retry(`the ${field} of ${id}: ${step.value.gap?.reason ?? 'the end of the list was not found'}`);
  const text = arrayOf([...members.values()]);
  const latest = (time: (reply: Reply<Row>) => number) => Math.max(...replies.map(time));
  const record: Row = { id, ...{ [field]: parseJson(text) } };
  return {
    ...Object.assign({}, ...replies),
    text: objectOf([
      ['id', JSON.stringify(id)],
      [field, text],
    ]),
    ...{ records: [record], unreadable: [], arrived: 1, total: undefined },
    asOf: -latest(({ asOf }) => -asOf),
    trueBy: latest(({ trueBy }) => trueBy),
    shownBy: latest(({ shownBy }) => shownBy),
  };
}

/** A page that is short, but not of very few records, may have others behind it: a source may cap its pages. */
function endOf({ perPage, isCounted }: MemberList, reply: Reply<Row>, shown: number): Page {
  const page = pageOf({ orderedBy: () => Number.NaN }, reply);
  const { total } = reply;
  if (!isCounted) return page;
  const isLast = total === undefined ? reply.arrived < leastSize({ perPage }) : shown >= total;
  return { ...page, isLast, next: isLast ? undefined : page.next };
}
