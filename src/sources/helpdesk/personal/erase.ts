/**
 * Erases customers from the help desk's tables. The remaining rows equal the redacted records of redact.ts, so a later
 * sync does not change them.
 */

import type { Client, Queryable } from '../../../engine/database/pool.ts';
import { query, sql } from '../../../engine/database/sql.ts';
import { cleanText } from '../../../engine/json-text.ts';
import { carries, carriesAddress, patternsOf } from '../../../privacy/contact-normalisation.ts';
import { besides } from '../../../privacy/personal-data-scan.ts';
import type { People, Who } from '../../../privacy/redact.ts';
import { cutOf, tellingColumns } from '../../record/personal.ts';
import { attachment, customer, message, ticket } from '../records.ts';
import { rowsOf } from '../rows-of.ts';
import { kept, naming } from './redact.ts';

/** Columns that erasure sets to null, in addition to the fields of `_payload`. */
const cleared = {
  customers: tellingColumns(customer),
  tickets: tellingColumns(ticket),
  messages: tellingColumns(message),
  attachments: tellingColumns(attachment),
};
type Reduced = keyof typeof cleared;

export const customersHere: Pick<People, 'isKnown' | 'contactsOf' | 'sharing'> = {
  async isKnown(client, account, id) {
    return query(client).value<boolean>`
      select exists (select from helpdesk.customers where account_id = ${account} and id = ${id})
      or exists (select from helpdesk.tickets where account_id = ${account} and customer_id = ${id}) as known`;
  },
  async contactsOf(client, account, customers) {
    const { rows } = await client.query<{ value: string | null }>(sql`
      select k.value from helpdesk.contacts k where k.account_id = ${account} and k.customer_id = any (${customers})
      union
      select v.value from sync.changes c,
        jsonb_array_elements_text(case when jsonb_typeof(c.changes -> 'value') = 'array' then c.changes -> 'value' end) v (value)
      where c.account_id = ${account} and c.source = 'helpdesk' and c.table_name = 'contacts' and c.parent_id = any (${customers})`);
    return rows.flatMap(({ value }) => value ?? []);
  },
  async sharing(client, account, forms) {
    const { rows } = await client.query<{ id: string }>(
      `select distinct customer_id as id from helpdesk.contacts where account_id = $1 and ${carries('value', forms)} order by 1`,
      [account, forms, patternsOf(forms)],
    );
    return rows.map(({ id }) => id);
  },
};

/** Ids of tickets that once belonged to these customers and now belong to another customer. */
const givenAway = (client: Client, account: string, customers: readonly string[]): Promise<string[]> =>
  query(client).values`
    select distinct c.record_id as id from sync.changes c
    where c.account_id = ${account} and c.source = 'helpdesk' and c.table_name = 'tickets' and c.changes ? 'customer_id'
      and c.changes -> 'customer_id' ?| ${customers}::text[]`;

/** Result of the reduction: row counts, and the ids whose remaining personal data must be found. */
export interface Reduction {
  readonly rows: Readonly<Record<string, number>>;
  readonly tickets: readonly string[];
  /** Messages that the erased people wrote in other customers' tickets. */
  readonly messages: readonly string[];
}

export async function reduceRows(client: Client, account: string, who: Who, now: Date): Promise<Reduction> {
  const { customers, forms } = who;
  const given = await givenAway(client, account, customers);
  const tickets = await query(client).values<string>`
    insert into sync.erased_tickets as e (account_id, ticket_id, erased_at)
    select ${account}, t.id, ${now}::timestamptz from helpdesk.tickets t where t.account_id = ${account} and t.customer_id = any (${customers})
    union select ${account}, w.id, ${now}::timestamptz from unnest(${[...who.tickets, ...given]}::text[]) w (id)
    on conflict (account_id, ticket_id) do update set erased_at = e.erased_at
    returning e.ticket_id as id`;
  const within = (table: Reduced, column: string, ids: readonly string[]) =>
    reduce(client, table, column, { account, ids, now });
  const contacts = await client.query(sql`
    delete from helpdesk.contacts where account_id = ${account} and customer_id = any (${customers})`);
  const counts: Record<string, number> = {
    customers: await within('customers', 'id', customers),
    contacts: contacts.rowCount ?? 0,
    tickets: await within('tickets', 'id', tickets),
    messages: await within('messages', 'ticket_id', tickets),
    attachments: await within('attachments', 'ticket_id', tickets),
  };
  const named = {
    messages: await namingThem(client, account, 'messages', forms),
    tickets: await namingThem(client, account, 'tickets', forms),
  };
  // The erased people's messages in other customers' tickets are reduced completely.
  const written = named.messages.filter(one => one.written).map(({ id }) => id);
  const restOf = (table: keyof typeof named) => named[table].filter(one => !one.written).map(({ id }) => id);
  counts.attachments! += await within('attachments', 'message_id', written);
  counts['messages elsewhere'] =
    (await within('messages', 'id', written)) +
    (await reduceFields(client, 'messages', { account, forms, now, ids: restOf('messages') }));
  counts['tickets of others'] = await reduceFields(client, 'tickets', { account, forms, now, ids: restOf('tickets') });
  const before = await writtenBefore(client, who);
  return { rows: counts, tickets, messages: [...new Set([...written, ...before])] };
}

/**
 * Ids of messages whose earlier sender address, kept in sync.changes, belongs to the erased people. Includes messages
 * without a row.
 */
async function writtenBefore(client: Client, { forms, changes }: Who): Promise<string[]> {
  if (changes.length === 0) return [];
  const { rows } = await client.query<{ id: string }>(
    `select distinct c.record_id as id
     from sync.changes c,
       jsonb_array_elements_text(case when jsonb_typeof(c.changes -> 'from_address') = 'array' then c.changes -> 'from_address' end) v (value)
     where c.id = any ($1::bigint[]) and c.source = 'helpdesk' and c.table_name = 'messages' and ${carries('v.value', forms)}
       and coalesce(c.changes -> 'direction' ->> 0,
         (select m.direction from helpdesk.messages m where (m.account_id, m.id) = (c.account_id, c.record_id))) is distinct from 'out'`,
    [changes, forms, patternsOf(forms)],
  );
  return rows.map(({ id }) => id);
}

/** Ids of the rows of sync.changes that hold changes of the erased people's records. */
export const changesOf = (
  client: Client,
  account: string,
  customers: readonly string[],
  { tickets, messages }: Reduction,
): Promise<string[]> =>
  query(client).values`
    select id::text from (
    select id from sync.changes where account_id = ${account} and source = 'helpdesk' and table_name = 'customers' and record_id = any (${customers})
    union select id from sync.changes where account_id = ${account} and source = 'helpdesk' and table_name = 'contacts'
      and parent_id = any (${customers})
    union select id from sync.changes where account_id = ${account} and source = 'helpdesk' and table_name = 'tickets'
      and record_id = any (${tickets})
    union select id from sync.changes where account_id = ${account} and source = 'helpdesk'
      and table_name in ('messages', 'attachments') and parent_id = any (${tickets})
    -- A message, or a file, that was in another ticket before, and is in theirs or was removed there.
    union select c.id from sync.changes c join (
      select 'messages' as table_name, m.id from helpdesk.messages m where m.account_id = ${account} and m.ticket_id = any (${tickets})
      union select 'attachments', f.id from helpdesk.attachments f where f.account_id = ${account} and f.ticket_id = any (${tickets})
      union select g.table_name, g.record_id from sync.changes g where g.account_id = ${account}
        and g.source = 'helpdesk' and g.table_name in ('messages', 'attachments') and g.parent_id = any (${tickets}) and g.changes ? 'id'
        and not exists (select from helpdesk.messages m where (m.account_id, m.id) = (g.account_id, g.record_id))
        and not exists (select from helpdesk.attachments f where (f.account_id, f.id) = (g.account_id, g.record_id))) n
      on (c.table_name, c.record_id) = (n.table_name, n.id)
      where c.account_id = ${account} and c.source = 'helpdesk'
    union select id from sync.changes where account_id = ${account} and source = 'helpdesk' and table_name = 'messages'
      and record_id = any (${messages})
    union select c.id from helpdesk.attachments f join sync.changes c
      on (c.account_id, c.source, c.table_name, c.record_id) = (f.account_id, 'helpdesk', 'attachments', f.id)
      where f.account_id = ${account} and f.message_id = any (${messages})
    union select id from sync.changes where account_id = ${account} and source = 'helpdesk' and table_name = 'attachments' and record_id in (
      select f.record_id from sync.changes f where cardinality(${messages}::text[]) > 0
        and f.account_id = ${account} and f.source = 'helpdesk' and f.table_name = 'attachments'
          and f.changes -> 'message_id' ->> 0 = any (${messages}))) theirs`;

/** Fields in old values and comparisons that hold no personal data. */
export const impersonal = [
  ...besides,
  ...['_messages_as_of', '_messages_by', 'contacts.row', 'attachments.row', 'ticket_id', 'message_id'],
  ...['attachments.message_id', 'attachments.ticket_id'],
];

/** `leastKept`: the columns that stay in attachments, and in tables that are not in `tables`. */
const cuts = cutOf(attachment);
const leastKept = [...kept.attachments.filter(field => cuts.every(([name]) => name !== field)), ...impersonal];
const tables = {
  'helpdesk.customers': [...kept.customers, ...impersonal],
  'helpdesk.contacts': [...kept.customers, ...impersonal],
  'helpdesk.tickets': [...kept.tickets, ...impersonal],
  'helpdesk.messages': [...kept.messages, ...impersonal],
};
export const keptInChanges = { tables, others: leastKept };

/** Ids of these messages and of their files. Comparisons name differing rows by these ids. */
export async function withFiles(client: Client, account: string, messages: readonly string[]): Promise<string[]> {
  if (messages.length === 0) return [];
  const { rows } = await client.query<{ id: string }>(sql`
    select id from helpdesk.attachments where account_id = ${account} and message_id = any (${messages})`);
  return [...messages, ...rows.map(({ id }) => id)];
}

/**
 * Notes tickets without stored rows as erased. Such tickets need no further erasure, so a person who writes often does
 * not block the others. Returns the remaining ids.
 */
export async function noteNew(
  client: Queryable,
  account: string,
  tickets: readonly string[],
  now: Date,
): Promise<string[]> {
  const clean = [...new Set(tickets.map(id => cleanText(id).text))].toSorted();
  const { rows } = await client.query<{ id: string }>({
    text: `with asked as (
        select w.id, exists (select from helpdesk.tickets t where t.account_id = $1 and t.id = w.id)
          or exists (select from helpdesk.messages m where m.account_id = $1 and m.ticket_id = w.id)
          or exists (select from sync.changes c where c.account_id = $1 and c.source = 'helpdesk' and c.table_name = 'tickets' and c.record_id = w.id)
          or exists (select from sync.changes c where c.account_id = $1 and c.source = 'helpdesk' and c.table_name = 'messages' and c.parent_id = w.id)
          or exists (select from sync.audit a where a.account_id = $1 and a.stream_key in ('helpdesk.tickets', 'helpdesk.messages') and a.record_id = w.id)
          or exists (select from sync.rejects r where r.account_id = $1 and r.stream_key in ('helpdesk.tickets', 'helpdesk.messages') and r.ask_id = w.id)
          or exists (select from sync.rejects r where r.account_id = $1 and r.stream_key = 'helpdesk.tickets' and r.record_id = w.id and length(r.record_id) <= 500) as here
        from unnest($2::text[]) w (id)),
      noted as (
        insert into sync.erased_tickets (account_id, ticket_id, erased_at)
        select $1, a.id, $3 from asked a where not a.here order by a.id on conflict do nothing)
      select a.id from asked a where a.here`,
    values: [account, clean, now],
  });
  return rows.map(({ id }) => id);
}

/**
 * Reduces rows to the fields that erasure keeps. Skips rows that are already reduced. Returns the number of changed
 * rows.
 */
async function reduce(
  client: Client,
  table: Reduced,
  column: string,
  { account, ids, now }: { account: string; ids: readonly string[]; now: Date },
): Promise<number> {
  if (ids.length === 0) return 0;
  const columns = cleared[table];
  const all = `sync.kept_of(t._payload, $3)`;
  const cut = (table === 'attachments' ? cuts : []).map(([name, upTo]) => ({
    ...{ name, isCut: `strpos(t.${name}, '${upTo}') > 0`, left: `split_part(t.${name}, '${upTo}', 1)` },
  }));
  const payload = cut.reduce(
    (sql, { name, isCut, left }) =>
      `(case when ${isCut} then jsonb_set(${sql}, '{${name}}', to_jsonb(${left}), false) else ${sql} end)`,
    all,
  );
  const sets = cut.map(({ name, left }) => `${name} = ${left}`);
  const more = cut.map(({ isCut }) => ` or ${isCut}`).join('');
  const { rowCount } = await client.query(
    `update ${rowsOf(table)} t set ${[...columns.map(name => `${name} = null`), ...sets].join(', ')},
       _payload = ${payload}, _synced_at = $4
     where t.account_id = $1 and t.${column} = any ($2)
       and (num_nonnulls(${columns.map(name => `t.${name}`).join(', ')}) > 0 or t._payload <> ${all}${more})`,
    [account, ids, kept[table], now],
  );
  return rowCount ?? 0;
}

/**
 * Other customers' records that name the erased people, after their own records are reduced. `written`: the erased
 * person wrote the message. Scans each table once.
 */
async function namingThem(
  client: Client,
  account: string,
  table: 'messages' | 'tickets',
  forms: readonly string[],
): Promise<{ id: string; written: boolean }[]> {
  if (forms.length === 0) return [];
  const written =
    table === 'messages' ? `direction is distinct from 'out' and ${carries('from_address', forms)}` : 'false';
  const named = fieldsThatName(table, forms).map(({ when }) => when);
  const { rows } = await client.query<{ id: string; written: boolean }>(
    `select id, coalesce(${written}, false) as written from helpdesk.${table} where account_id = $1 and (${named.join(' or ')})`,
    [account, forms, patternsOf(forms)],
  );
  return rows;
}

/**
 * Clears the fields that name the erased people in other records: tickets, the team's messages, and messages addressed
 * to several people.
 */
async function reduceFields(
  client: Client,
  table: 'messages' | 'tickets',
  { account, forms, ids, now }: { account: string; forms: readonly string[]; ids: readonly string[]; now: Date },
): Promise<number> {
  if (ids.length === 0) return 0;
  const fields = fieldsThatName(table, forms);
  const sets = fields.map(({ column, when }) => `${column} = case when ${when} then null else ${column} end`);
  const keys = fields.map(({ key, when }) => `case when ${when} then '{${key}}'::text[] else '{}' end`);
  const { rowCount } = await client.query(
    `update ${rowsOf(table)} set ${sets.join(', ')}, _payload = _payload - (${keys.join(' || ')}), _synced_at = $4
     where account_id = $1 and id = any ($5)`,
    [account, forms, patternsOf(forms), now, ids],
  );
  return rowCount ?? 0;
}

/** Columns to clear, with their `_payload` field and the SQL condition. The same rules as in redact.ts. */
const fieldsThatName = (table: keyof typeof naming, forms: readonly string[]) =>
  naming[table].map(({ field, column }) => {
    const named = naming[table].filter(({ ofSame }) => ofSame.includes(field));
    const when = named.map(one => (one.isName ? carriesAddress : carries)(one.column, forms));
    return { column, key: field, when: `(${when.join(' or ')})` };
  });
