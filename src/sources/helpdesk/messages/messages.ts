/**
 * Messages and attachments. They are read embedded in one ticket, for 2 credits, and replaced as a set, because notes
 * can be edited and removed. Labels and inboxes with unknown names are embedded as well.
 */

import { buildMerge, derived, elements } from '../../../engine/commit/merge.ts';
import { factsOf, timeOf } from '../../record/check.ts';
import { columnsOf, leftOutOf } from '../../record/columns.ts';
import { type Derived, type DetailStream, identify } from '../../source.ts';
import { getTicketInDetail } from '../endpoints.ts';
import { personalRules } from '../personal/rules.ts';
import { attachment, checks, type Message, message, type TicketInDetail } from '../records.ts';
import { rowsOf } from '../rows-of.ts';
import { isOpen, tickets } from '../tickets.ts';
import { plainTextOf } from './plain-text.ts';

/** The messages of all tickets of the page, numbered through. */
const shown = `(select k.ticket ->> 'id' as ticket_id, e.record, row_number() over (order by k.n, e.n) as n
      from jsonb_array_elements($1::jsonb) with ordinality as k (ticket, n),
        ${elements(`k.ticket -> 'messages'`)} with ordinality as e (record, n)) s`;

export const messages: DetailStream<TicketInDetail, Message> = {
  kind: 'detail',
  ...identify('helpdesk', 'messages'),
  personal: personalRules.messages,
  schedule: [],
  of: tickets,
  request: getTicketInDetail,
  members: record => record.messages,
  membersField: 'messages',
  member: checks.message,
  derive: textOf,
  derivesFrom: ['body', 'htmlized'],
  parameters: (texts, places, asOfMs) => [texts, places.map(place => place + 1), places.map(() => new Date(asOfMs))],
  version: record => timeOf(record.updated_at),
  first: isOpen,
  group: 't.inbox_id',
  former: 'helpdesk.ticket_history',
  kindOf: member => ((member as { type?: unknown } | null)?.type === 'note' ? 'note' : undefined),
  merge: buildMerge(
    {
      name: 'helpdesk.messages',
      rows: rowsOf('messages'),
      from: shown,
      asOf: '($10::timestamptz[])[n]',
      parent: 'ticket_id',
      leftOut: [...leftOutOf(message), 'attachments'],
      columns: columnsOf(message, {
        id: [derived('ticket_id', 'ticket_id'), derived('position', '($9::int[])[n]')],
        // A body removed from the record for good has no plain text either.
        more_body: [derived('body_text', `case when record ->> 'body' is not null then ($8::text[])[n] end`)],
      }),
    },
    [
      {
        name: 'helpdesk.attachments',
        from: `(select m.id as message_id, m.ticket_id, m.as_of, a.record, row_number() over (order by m.n, a.n) as n
      from messages_row m, ${elements(`m.record -> 'attachments'`)} with ordinality as a (record, n)) e`,
        asOf: 'as_of',
        parent: 'ticket_id',
        columns: columnsOf(attachment, {
          id: [derived('message_id', 'message_id'), derived('ticket_id', 'ticket_id')],
        }),
      },
    ],
  ),
  names: [
    { embed: 'labels', table: 'helpdesk.labels', ids: 'label_ids', many: true, record: checks.name },
    { embed: 'inbox', table: 'helpdesk.inboxes', ids: 'inbox_id', many: false, record: checks.name },
  ],
  ...factsOf(message),
};

/** The plain text, where it differs from the body. */
async function textOf({ body, htmlized }: Message): Promise<Derived> {
  if (body === null || body === undefined || !htmlized) return { value: null };
  const { text, simplified } = await plainTextOf(body);
  return {
    value: text === body ? null : text,
    ...(simplified && { drift: { kind: 'simplified_html', path: 'body' } as const }),
  };
}
