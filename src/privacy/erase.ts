/**
 * Removes what is here of people: rows stay as redact.ts would leave them, had they come now, so that a sync changes nothing
 * of them. Nobody stores anything in the account meanwhile; whoever did before has committed.
 */

import type { Client } from '../engine/database/pool.ts';
import { carries, carriesAddress, formsIn, formsOf, patternsOf } from './contact-normalisation.ts';
import {
  changesNaming,
  emptyAudit,
  emptyChanges,
  emptyDrift,
  emptyRejects,
  givenAway,
  type Theirs,
} from './personal-data-scan.ts';
import { type Clues, kept, naming } from './redact.ts';

export interface Removed {
  /** Who was erased: the one that was asked for, then those that share a contact value. */
  readonly customers: readonly string[];
  /** Of each kind how many rows were reduced, emptied, or deleted. */
  readonly rows: Readonly<Record<string, number>>;
}

/** Columns that go, beside those that come from `_payload`'s fields. */
const cleared = {
  customers: ['first_name', 'last_name', 'summary'],
  tickets: ['subject', 'summary', 'reply_to', 'reply_cc'],
  messages: ['from_name', 'from_address', 'to_address', 'body', 'more_body', 'body_text'],
  attachments: ['name'],
} as const;
type Reduced = keyof typeof cleared;

/** Who is asked for, everybody who shares a contact value with them, and their tickets. */
export async function erase(
  client: Client,
  account: string,
  asked: Pick<Clues, 'customers' | 'tickets'>,
  now: Date,
): Promise<Removed> {
  await alone(client, account);
  const forms = await formsOf(client, account, asked.customers);
  const same = await sharing(client, account, forms);
  const customers = [...asked.customers, ...same.filter(id => !asked.customers.includes(id))];
  const kept = await note(client, account, { customers, asked: asked.customers, forms }, now);
  return remove(client, account, { customers, tickets: asked.tickets, forms, kept }, now);
}

/**
 * Who came again: customers and tickets under other ids, and further contact values of who was asked for. Contact values of who was found
 * only are not kept out: else a shared one would reach ever further.
 */
export async function eraseMore(client: Client, account: string, found: Clues, now: Date): Promise<Removed> {
  await alone(client, account);
  const forms = await formsIn(client, found.contacts);
  const customers = [...new Set([...found.customers, ...(await sharing(client, account, forms))])];
  const kept = await note(client, account, { customers, asked: [], forms }, now);
  return remove(client, account, { customers, tickets: found.tickets, forms, kept }, now);
}

/** The other side of sync.any_erased. */
async function alone(client: Client, account: string): Promise<void> {
  await client.query('select pg_advisory_xact_lock(1397245266, hashtext($1))', [account]);
}

async function sharing(client: Client, account: string, forms: readonly string[]): Promise<string[]> {
  if (forms.length === 0) return [];
  const { rows } = await client.query<{ id: string }>(
    `select distinct customer_id as id from helpdesk.contacts where account_id = $1 and ${carries('value', forms)} order by 1`,
    [account, forms, patternsOf(forms)],
  );
  return rows.map(({ id }) => id);
}

/** Answers how many contact values are kept out from now on. */
async function note(
  client: Client,
  account: string,
  { customers, asked, forms }: { customers: readonly string[]; asked: readonly string[]; forms: readonly string[] },
  now: Date,
): Promise<number> {
  await client.query(
    `insert into sync.erased (account_id, customer_id, erased_at, found_again)
     select $1, w.id, $3, w.id <> all ($4) from unnest($2::text[]) w (id) on conflict do nothing`,
    [account, customers, now, asked],
  );
  const { rowCount } = await client.query(
    `insert into sync.secret_erased (account_id, contact_hash, erased_at)
     select $1, sync.contact_hash(w.form), $3 from unnest($2::text[]) w (form) on conflict do nothing`,
    [account, forms, now],
  );
  return rowCount ?? 0;
}

interface Who extends Pick<Clues, 'customers' | 'tickets'> {
  readonly forms: readonly string[];
  /** How many of them are new. */
  readonly kept: number;
}

async function remove(client: Client, account: string, who: Who, now: Date): Promise<Removed> {
  const { customers, forms } = who;
  const given = await givenAway(client, account, customers);
  const { rows } = await client.query<{ id: string }>(
    `insert into sync.erased_tickets as e (account_id, ticket_id, erased_at)
     select $1, t.id, $4::timestamptz from helpdesk.tickets t where t.account_id = $1 and t.customer_id = any ($2)
     union select $1, w.id, $4::timestamptz from unnest($3::text[]) w (id)
     on conflict (account_id, ticket_id) do update set erased_at = e.erased_at
     returning e.ticket_id as id`,
    [account, customers, [...who.tickets, ...given], now],
  );
  const tickets = rows.map(({ id }) => id);
  const within = (table: Reduced, column: string, ids: readonly string[]) =>
    reduce(client, table, column, { account, ids, now });
  const contacts = await client.query(
    'delete from helpdesk.contacts where account_id = $1 and customer_id = any ($2)',
    [account, customers],
  );
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
  // What they wrote in tickets of others goes whole.
  const written = named.messages.filter(one => one.written).map(({ id }) => id);
  const restOf = (table: keyof typeof named) => named[table].filter(one => !one.written).map(({ id }) => id);
  counts.attachments! += await within('attachments', 'message_id', written);
  counts['messages elsewhere'] =
    (await within('messages', 'id', written)) +
    (await reduceFields(client, 'messages', { account, forms, now, ids: restOf('messages') }));
  counts['tickets of others'] = await reduceFields(client, 'tickets', { account, forms, now, ids: restOf('tickets') });
  const old = await changesNaming(client, account, forms);
  const theirs: Theirs = { customers, tickets, messages: [...new Set([...written, ...old.messages])], forms };
  counts.changes = await emptyChanges(client, account, theirs, old.changes);
  counts.comparisons = await emptyAudit(client, account, theirs);
  counts.rejects = await emptyRejects(client, account, theirs);
  counts['samples of drift'] = await emptyDrift(client, account, forms);
  counts['contact values kept out'] = who.kept;
  return { customers, rows: counts };
}

/** What is reduced already is left alone. */
async function reduce(
  client: Client,
  table: Reduced,
  column: string,
  { account, ids, now }: { account: string; ids: readonly string[]; now: Date },
): Promise<number> {
  if (ids.length === 0) return 0;
  const columns = cleared[table];
  const all = `sync.kept_of(t._payload, $3)`;
  // The type of a file may hold its name.
  const [payload, sets, more] =
    table === 'attachments'
      ? [
          `(case when strpos(t.type, ';') > 0 then jsonb_set(${all}, '{type}', to_jsonb(split_part(t.type, ';', 1)), false) else ${all} end)`,
          [`type = split_part(t.type, ';', 1)`],
          ` or strpos(t.type, ';') > 0`,
        ]
      : [all, [], ''];
  const { rowCount } = await client.query(
    `update helpdesk.${table} t set ${[...columns.map(name => `${name} = null`), ...sets].join(', ')},
       _payload = ${payload}, _synced_at = $4
     where t.account_id = $1 and t.${column} = any ($2)
       and (num_nonnulls(${columns.map(name => `t.${name}`).join(', ')}) > 0 or t._payload <> ${all}${more})`,
    [account, ids, kept[table], now],
  );
  return rowCount ?? 0;
}

/** Records of others that name them, when their own are reduced; `written`: messages that they wrote themselves. In one look at each table. */
async function namingThem(
  client: Client,
  account: string,
  table: 'messages' | 'tickets',
  forms: readonly string[],
): Promise<{ id: string; written: boolean }[]> {
  if (forms.length === 0) return [];
  const written =
    table === 'messages' ? `direction is distinct from 'out' and ${carries('from_address', forms)}` : 'false';
  const named = fieldsThatName(forms)[table].map(({ when }) => when);
  const { rows } = await client.query<{ id: string; written: boolean }>(
    `select id, coalesce(${written}, false) as written from helpdesk.${table} where account_id = $1 and (${named.join(' or ')})`,
    [account, forms, patternsOf(forms)],
  );
  return rows;
}

/** Of messages that the team wrote, or that were written to them among others, and of tickets: the fields that name them. */
async function reduceFields(
  client: Client,
  table: 'messages' | 'tickets',
  { account, forms, ids, now }: { account: string; forms: readonly string[]; ids: readonly string[]; now: Date },
): Promise<number> {
  if (ids.length === 0) return 0;
  const fields = fieldsThatName(forms)[table];
  const sets = fields.map(({ column, when }) => `${column} = case when ${when} then null else ${column} end`);
  const keys = fields.map(({ key, when }) => `case when ${when} then '{${key}}'::text[] else '{}' end`);
  const { rowCount } = await client.query(
    `update helpdesk.${table} set ${sets.join(', ')}, _payload = _payload - (${keys.join(' || ')}), _synced_at = $4
     where account_id = $1 and id = any ($5)`,
    [account, forms, patternsOf(forms), now, ids],
  );
  return rowCount ?? 0;
}

/** Columns that go, fields of `_payload` with them, and when: as redact.ts has it. */
const fieldsThatName = (forms: readonly string[]) => ({
  messages: [
    { column: 'from_address', key: 'from', when: carries('from_address', forms) },
    {
      ...{ column: 'from_name', key: 'from_name' },
      when: `(${carries('from_address', forms)} or ${carriesAddress('from_name', forms)})`,
    },
    { column: 'to_address', key: 'to', when: carries('to_address', forms) },
  ],
  tickets: naming.tickets.map(field => ({ column: field, key: field, when: carries(field, forms) })),
});
