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
import { tickets } from '../tickets.ts';
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
  target: '15m',
  of: tickets,
  request: getTicketInDetail,
  members: record => record.messages,
  membersField: 'messages',
  member: checks.message,
  derive: textOf,
  derivesFrom: ['body', 'htmlized'],
  parameters: (texts, places, asOfMs) => [texts, places.map(place => place + 1), places.map(() => new Date(asOfMs))],
  version: record => timeOf(record.updated_at),
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
    {
      embed: 'labels',
      mentioned: record => record.label_ids ?? [],
      shown: ({ labels }) => (Array.isArray(labels) ? labels : []),
      record: checks.name,
      upsert: upsertNames('helpdesk.labels', elements(`$1::jsonb -> 'labels'`)),
    },
    {
      embed: 'inbox',
      mentioned: record => (record.inbox_id ? [record.inbox_id] : []),
      shown: ({ inbox }) => (inbox === null || inbox === undefined ? [] : [inbox]),
      record: checks.name,
      upsert: upsertNames('helpdesk.inboxes', elements(`jsonb_build_array($1::jsonb -> 'inbox')`)),
    },
  ],
  ...factsOf(message),
};

/**
 * SQL that stores names. A mentioned id without a name in the reply counts as answered: no more credits are spent until
 * names are due again. An id that the record no longer mentions stays due: another ticket will show its name.
 */
function upsertNames(table: string, shown: string): string {
  return `insert into ${table} as t (account_id, id, name, _first_seen_at, _synced_at, _observed_at, _payload)
select $2, id, s.record ->> 'name', $3, $3, $4, s.record
from unnest($5::text[]) as asked (id)
full join (select distinct on (1) record ->> 'id' as id, record from ${shown} as e (record) where jsonb_typeof(record -> 'id') = 'string') s using (id)
where id is not null
on conflict (account_id, id) do update set
  name = coalesce(excluded.name, t.name),
  _synced_at = case when excluded.name is distinct from t.name then excluded._synced_at else t._synced_at end,
  _observed_at = excluded._observed_at,
  _payload = coalesce(excluded._payload, t._payload)
where t._observed_at is null or t._observed_at < excluded._observed_at`;
}

/** The plain text, where it differs from the body. */
async function textOf({ body, htmlized }: Message): Promise<Derived> {
  if (body === null || body === undefined || !htmlized) return { value: null };
  const { text, simplified } = await plainTextOf(body);
  return {
    value: text === body ? null : text,
    ...(simplified && { drift: { kind: 'simplified_html', path: 'body' } as const }),
  };
}
