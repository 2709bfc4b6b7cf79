/**
 * What is left of erased people beside the mirror: old values, comparisons, what was set aside, samples. By ids each is found by an
 * index; by contact values everything of the account is looked through, which is done where there are some, and for nobody else.
 */

import { ofErased } from '../engine/commit/rejects.ts';
import type { Client } from '../engine/database/pool.ts';
import { carries, digitsOf, holdingOf, patternsOf } from './contact-normalisation.ts';
import { kept, type Personal } from './redact.ts';
import { concerning } from './screen.ts';

/** Whose traces: messages are those that they wrote in tickets of others. */
export interface Theirs {
  readonly customers: readonly string[];
  readonly tickets: readonly string[];
  readonly messages: readonly string[];
  readonly forms: readonly string[];
}

/** Of old and new values, and of what comparisons found. */
const besides = [
  ...[
    '_deleted_at',
    '_deleted_after',
    '_messages_as_of',
    '_messages_by',
    '_removed_at',
    'row',
    'contacts.row',
    'attachments.row',
  ],
  ...['ticket_id', 'message_id', 'position', 'ticket_labels', 'attachments.message_id', 'attachments.ticket_id'],
];

/** Rejects that are looked through at once. */
const batchSize = 200;

/** Fields whose old and new values are addresses, or may be. */
const addressed = ['reply_to', 'reply_cc', 'from_address', 'to_address', 'from_name', 'value', 'email'];
const valuesOf = (field: string) =>
  `jsonb_array_elements_text(case when jsonb_typeof(c.changes -> ${field}) = 'array' then c.changes -> ${field} end)`;

/** Old values that hold a contact value of theirs; and messages that they wrote, also those that are not here any more. */
export async function changesNaming(
  client: Client,
  account: string,
  forms: readonly string[],
): Promise<{ changes: readonly string[]; messages: readonly string[] }> {
  if (forms.length === 0) return { changes: [], messages: [] };
  const { rows } = await client.query<{ id: string; message: string | null }>(
    `select c.id::text, case when c.table_name = 'messages'
         and exists (select from ${valuesOf(`'from_address'`)} v (value) where ${carries('v.value', forms)})
         and coalesce(c.changes -> 'direction' ->> 0,
           (select m.direction from helpdesk.messages m where (m.account_id, m.id) = (c.account_id, c.record_id))) is distinct from 'out'
       then c.record_id end as message
     from sync.changes c
     where c.account_id = $1 and (cardinality($3::text[]) > 0 and strpos(c.changes::text, '@') > 0 and lower(c.changes::text) like any ($3)
       or c.changes ?| $4::text[] and exists (
         select from unnest($4::text[]) f (name), ${valuesOf('f.name')} v (value) where ${carries('v.value', forms)}))`,
    [account, forms, patternsOf(forms), addressed],
  );
  return {
    changes: rows.map(({ id }) => id),
    messages: [...new Set(rows.flatMap(({ message }) => message ?? []))],
  };
}

/** Tickets that the help desk has given to somebody else since. */
export async function givenAway(client: Client, account: string, customers: readonly string[]): Promise<string[]> {
  const { rows } = await client.query<{ id: string }>(
    `select distinct c.record_id as id from sync.changes c
     where c.account_id = $1 and c.table_name = 'tickets' and c.changes ? 'customer_id' and c.changes -> 'customer_id' ?| $2::text[]`,
    [account, customers],
  );
  return rows.map(({ id }) => id);
}

/** Of their records, and of whatever else names them. */
export async function emptyChanges(
  client: Client,
  account: string,
  { customers, tickets, messages }: Theirs,
  naming: readonly string[],
): Promise<number> {
  const { rowCount } = await client.query(
    `with theirs (id) as (
       select id from sync.changes where account_id = $1 and table_name = 'customers' and record_id = any ($2)
       union select id from sync.changes where account_id = $1 and table_name = 'contacts' and parent_id = any ($2)
       union select id from sync.changes where account_id = $1 and table_name = 'tickets' and record_id = any ($3)
       union select id from sync.changes where account_id = $1 and table_name in ('messages', 'attachments') and parent_id = any ($3)
       union select id from sync.changes where account_id = $1 and table_name = 'messages' and record_id = any ($4)
       union select c.id from helpdesk.attachments f join sync.changes c
         on (c.account_id, c.table_name, c.record_id) = (f.account_id, 'attachments', f.id)
         where f.account_id = $1 and f.message_id = any ($4)
       union select id from sync.changes where account_id = $1 and table_name = 'attachments' and record_id in (
         select f.record_id from sync.changes f where cardinality($4::text[]) > 0
           and f.account_id = $1 and f.table_name = 'attachments' and f.changes -> 'message_id' ->> 0 = any ($4))
       union select w.id from unnest($5::bigint[]) w (id)),
     emptied as (
       select c.id, sync.kept_of(c.changes, case c.table_name when 'customers' then $6::text[] when 'contacts' then $6
         when 'tickets' then $7 when 'messages' then $8 else $9 end) as left
       from sync.changes c join theirs t on t.id = c.id)
     update sync.changes c set changes = e.left from emptied e where c.id = e.id and c.changes <> e.left`,
    [
      ...[account, customers, tickets, messages, naming],
      ...[
        [...kept.customers, ...besides],
        [...kept.tickets, ...besides],
        [...kept.messages, ...besides],
      ],
      // Of a file also not its type, which may hold its name.
      ['id', 'size', ...besides],
    ],
  );
  return rowCount ?? 0;
}

/** That they differed stays, since it is counted; what with is gone. */
export async function emptyAudit(
  client: Client,
  account: string,
  { customers, tickets, messages, forms }: Theirs,
): Promise<number> {
  const { rowCount } = await client.query(
    `with theirs (id) as (
       select id from sync.audit where account_id = $1 and stream_key = 'helpdesk.customers' and record_id = any ($5)
       union select id from sync.audit where account_id = $1 and stream_key in ('helpdesk.tickets', 'helpdesk.messages') and record_id = any ($6)
       union select id from sync.audit a where cardinality($2::text[]) > 0 and a.account_id = $1 and a.differences <> '{}' and (
         exists (select from jsonb_path_query(a.differences, '$.*[*]') v (value)
           where jsonb_typeof(v.value) = 'object' and v.value ?| $4::text[])
         or lower(a.differences::text) like any ($3::text[])
         or exists (select from jsonb_path_query(a.differences, 'strict $.** ? (@.type() == "string")') v (value),
           lateral (select v.value #>> '{}' as text) t where ${carries('t.text', forms)}))),
     emptied as (
       select a.id, (
         select jsonb_object_agg(d.key, case when d.key = any ($7) then d.value else '["erased", "erased"]' end)
         from jsonb_each(a.differences) d) as left
       from sync.audit a join theirs t on t.id = a.id where a.account_id = $1 and a.differences <> '{}')
     update sync.audit a set differences = e.left from emptied e
     where (a.account_id, a.id) = ($1, e.id) and a.differences <> e.left`,
    [
      ...[account, forms, patternsOf(forms), await withFiles(client, account, messages)],
      ...[customers, tickets, [...kept.tickets, ...kept.messages, ...besides]],
    ],
  );
  return rowCount ?? 0;
}

/** Ids of messages, and of the files with them: by these a comparison tells what differs. */
async function withFiles(client: Client, account: string, messages: readonly string[]): Promise<string[]> {
  if (messages.length === 0) return [];
  const { rows } = await client.query<{ id: string }>(
    'select id from helpdesk.attachments where account_id = $1 and message_id = any ($2)',
    [account, messages],
  );
  return [...messages, ...rows.map(({ id }) => id)];
}

/** Without contact values those that have one of the ids, as their own or in what came. */
export async function emptyRejects(client: Client, account: string, theirs: Theirs): Promise<number> {
  const { customers, tickets, messages, forms } = theirs;
  const ids = [...customers, ...tickets, ...messages];
  let emptied = 0;
  for (const stream of ['helpdesk.customers', 'helpdesk.tickets', 'helpdesk.messages'] satisfies Personal[]) {
    for (let after = 0; ; ) {
      const { rows } = await client.query<{
        id: number;
        record_id: string | null;
        ask_id: string | null;
        payload: string | null;
        named: boolean;
      }>(
        `select id, record_id, ask_id, payload, lower(t.text) like any ($5) or translate(t.text, ' ()+-./', '') like any ($6)
           or stream_key = 'helpdesk.messages' and record_id = any ($9) as named
         -- What is looked at closely is only what is taken.
         from (
           select id, stream_key, record_id, ask_id, payload, reason from sync.rejects
           where account_id = $1 and stream_key = $2 and id > $3 and (payload is not null or reason <> $10)
             and (cardinality($11::text[]) > 0 or record_id = any ($7) or ask_id = any ($7) or payload like any ($8))
           order by id limit $4) r, lateral (select concat(payload, ' ', reason) as text) t
         order by id`,
        [
          ...[account, stream, after, batchSize, patternsOf(forms), digitsOf(forms)],
          ...[ids, holdingOf(customers), messages, ofErased, forms],
        ],
      );
      if (rows.length === 0) break;
      const all = rows.map(({ payload, record_id, ask_id }) => ({
        text: payload ?? undefined,
        of: [ask_id ?? undefined, stream === 'helpdesk.messages' ? undefined : (record_id ?? undefined)],
      }));
      const known = await concerning(client, account, stream, all);
      const gone = rows.filter(({ named }, i) => named || known.has(i)).map(({ id }) => id);
      await client.query(
        'update sync.rejects set payload = null, replayable = false, reason = $2 where id = any ($1)',
        [gone, ofErased],
      );
      emptied += gone.length;
      after = rows.at(-1)!.id;
    }
  }
  return emptied;
}

/** A sample is cut, so that nobody can tell whose it is: the next record that differs gives another one. */
export async function emptyDrift(client: Client, account: string, forms: readonly string[]): Promise<number> {
  const streams = `account_id = $1 and stream_key in ('helpdesk.customers', 'helpdesk.tickets', 'helpdesk.messages')`;
  const { rowCount } = await client.query(
    `update sync.drift set sample = null where ${streams} and sample is not null`,
    [account],
  );
  if (forms.length === 0) return rowCount ?? 0;
  const named = await client.query(
    `delete from sync.drift where ${streams} and (${carries('value', forms)} or ${carries('path', forms)})`,
    [account, forms, patternsOf(forms)],
  );
  return (rowCount ?? 0) + (named.rowCount ?? 0);
}
