/**
 * Removes what is here of people: rows stay as redact.ts would leave them, had they come now, so that a sync changes nothing
 * of them. Nobody stores anything in the account meanwhile; whoever did before has committed.
 */
import type pg from 'pg';
import { concerning, type FoundAgain } from './erased.ts';
import { type Client, transaction } from './pool.ts';
import { type Clues, kept, naming, type Personal } from './redact.ts';
import { ofErased } from './rejects.ts';

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
const keptOf = (table: Reduced) => [...kept[table], ...besides];

/** Rejects that are looked through at once. */
const batchSize = 200;

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
  await note(client, account, { customers, asked: asked.customers, forms }, now);
  return remove(client, account, { customers, tickets: asked.tickets, forms }, now);
}

/** Who came again under another id. Other contact values of theirs are not kept out: else a shared one would reach ever further. */
export async function eraseFound(pool: pg.Pool, { account, found, nowMs }: FoundAgain): Promise<void> {
  const now = new Date(nowMs);
  await transaction(pool, async client => {
    await alone(client, account);
    await note(client, account, { customers: found.customers, asked: [], forms: [] }, now);
    await remove(client, account, { ...found, forms: [] }, now);
  });
}

/** The other side of sync.any_erased. */
async function alone(client: Client, account: string): Promise<void> {
  await client.query('select pg_advisory_xact_lock(1397245266, hashtext($1))', [account]);
}

/** Of the contact values that they have, or had as far as is known. */
async function formsOf(client: Client, account: string, customers: readonly string[]): Promise<string[]> {
  const { rows } = await client.query<{ forms: string[] }>(
    `select array(
       select distinct f.form
       from (
         select k.value from helpdesk.contacts k where k.account_id = $1 and k.customer_id = any ($2)
         union all
         select v.value from sync.changes c,
           jsonb_array_elements_text(case when jsonb_typeof(c.changes -> 'value') = 'array' then c.changes -> 'value' end) v (value)
         where c.account_id = $1 and c.table_name = 'contacts' and c.parent_id = any ($2)) one,
         unnest(sync.contact_forms(one.value)) f (form)) as forms`,
    [account, customers],
  );
  return rows[0]!.forms;
}

/** LIKE patterns of the e-mail addresses among them. */
const patternsOf = (forms: readonly string[]): string[] =>
  forms.filter(form => form.includes('@')).map(form => `%${form.replaceAll(/[\\%_]/g, found => `\\${found}`)}%`);

/**
 * SQL: whether a field holds one of the forms $2, whose patterns are $3. What cannot is told first, and cheaply: no index helps,
 * and there may be millions.
 */
function carries(field: string, forms: readonly string[]): string {
  const may = [`cardinality($3::text[]) > 0 and lower(${field}) like any ($3::text[])`];
  if (forms.some(form => /^\d+$/.test(form))) may.push(`${field} ~ '^[-0-9+()./[:space:]]+$'`);
  if (forms.some(form => !/^\d+$|@/.test(form))) may.push(`lower(btrim(${field}, ' @')) = any ($2::text[])`);
  return `(${field} is not null and (${may.join(' or ')}) and sync.contact_forms(${field}) && $2::text[])`;
}

async function sharing(client: Client, account: string, forms: readonly string[]): Promise<string[]> {
  if (forms.length === 0) return [];
  const { rows } = await client.query<{ id: string }>(
    `select distinct customer_id as id from helpdesk.contacts where account_id = $1 and ${carries('value', forms)} order by 1`,
    [account, forms, patternsOf(forms)],
  );
  return rows.map(({ id }) => id);
}

async function note(
  client: Client,
  account: string,
  { customers, asked, forms }: { customers: readonly string[]; asked: readonly string[]; forms: readonly string[] },
  now: Date,
): Promise<void> {
  await client.query(
    `insert into sync.erased (account_id, customer_id, erased_at, found_again)
     select $1, w.id, $3, w.id <> all ($4) from unnest($2::text[]) w (id) on conflict do nothing`,
    [account, customers, now, asked],
  );
  await client.query(
    `insert into sync.secret_erased (account_id, contact_hash, erased_at)
     select $1, sync.contact_hash(w.form), $3 from unnest($2::text[]) w (form) on conflict do nothing`,
    [account, forms, now],
  );
}

interface Who extends Pick<Clues, 'customers' | 'tickets'> {
  readonly forms: readonly string[];
}

async function remove(client: Client, account: string, who: Who, now: Date): Promise<Removed> {
  const { customers, forms } = who;
  const patterns = patternsOf(forms);
  const { rows } = await client.query<{ id: string }>(
    `insert into sync.erased_tickets as e (account_id, ticket_id, erased_at)
     select $1, t.id, $4::timestamptz from helpdesk.tickets t where t.account_id = $1 and t.customer_id = any ($2)
     union select $1, w.id, $4::timestamptz from unnest($3::text[]) w (id)
     on conflict (account_id, ticket_id) do update set erased_at = e.erased_at
     returning e.ticket_id as id`,
    [account, customers, who.tickets, now],
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
  counts.changes = await emptyChanges(client, account, { customers, tickets, written, patterns });
  counts.comparisons = await emptyAudit(client, account, { customers, tickets, patterns });
  counts.rejects = await emptyRejects(client, account, patterns);
  counts['samples of drift'] = await emptyDrift(client, account);
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
  const { rowCount } = await client.query(
    `update helpdesk.${table} t set ${columns.map(name => `${name} = null`).join(', ')},
       _payload = sync.kept_of(t._payload, $3), _synced_at = $4
     where t.account_id = $1 and t.${column} = any ($2)
       and (num_nonnulls(${columns.map(name => `t.${name}`).join(', ')}) > 0 or t._payload <> sync.kept_of(t._payload, $3))`,
    [account, ids, kept[table], now],
  );
  return rowCount ?? 0;
}

/** Records of others that name them, when their own are reduced; `written`: messages that they wrote themselves. In one look at each table. */
async function namingThem(
  client: Client,
  account: string,
  table: keyof typeof fieldsThatName,
  forms: readonly string[],
): Promise<{ id: string; written: boolean }[]> {
  if (forms.length === 0) return [];
  const written =
    table === 'messages' ? `direction is distinct from 'out' and ${carries('from_address', forms)}` : 'false';
  const { rows } = await client.query<{ id: string; written: boolean }>(
    `select id, coalesce(${written}, false) as written from helpdesk.${table}
     where account_id = $1 and (${fieldsThatName[table].map(({ columns: [column] }) => carries(column, forms)).join(' or ')})`,
    [account, forms, patternsOf(forms)],
  );
  return rows;
}

/** Of messages that the team wrote, or that were written to them among others, and of tickets: the fields that name them. */
async function reduceFields(
  client: Client,
  table: keyof typeof fieldsThatName,
  { account, forms, ids, now }: { account: string; forms: readonly string[]; ids: readonly string[]; now: Date },
): Promise<number> {
  if (ids.length === 0) return 0;
  const fields = fieldsThatName[table];
  const sets = fields.flatMap(({ columns }) =>
    columns.map(name => `${name} = case when ${carries(columns[0], forms)} then null else ${name} end`),
  );
  const keys = fields.map(
    ({ columns: [column], keys }) =>
      `case when ${carries(column, forms)} then '{${keys.join(',')}}'::text[] else '{}' end`,
  );
  const { rowCount } = await client.query(
    `update helpdesk.${table} set ${sets.join(', ')}, _payload = _payload - (${keys.join(' || ')}), _synced_at = $4
     where account_id = $1 and id = any ($5)`,
    [account, forms, patternsOf(forms), now, ids],
  );
  return rowCount ?? 0;
}

/** The first column tells; the fields of `_payload` are those of redact.ts. */
const fieldsThatName = {
  messages: [
    { columns: ['from_address', 'from_name'], keys: naming.messages.from },
    { columns: ['to_address'], keys: naming.messages.to },
  ],
  tickets: naming.tickets.map(field => ({ columns: [field], keys: [field] })),
} as const satisfies Record<string, readonly { columns: readonly [string, ...string[]]; keys: readonly string[] }[]>;

/** Also of whatever holds their address in other old values. */
async function emptyChanges(
  client: Client,
  account: string,
  {
    customers,
    tickets,
    written,
    patterns,
  }: Pick<Who, 'customers' | 'tickets'> & Record<'written' | 'patterns', readonly string[]>,
): Promise<number> {
  const { rowCount } = await client.query(
    `with emptied as (
       select c.id, sync.kept_of(c.changes, case c.table_name when 'customers' then $6::text[] when 'contacts' then $6
         when 'tickets' then $7 when 'messages' then $8 when 'attachments' then $9 else $10 end) as left
       from sync.changes c
       where c.account_id = $1 and (
         c.table_name = 'customers' and c.record_id = any ($2)
         or c.table_name = 'contacts' and c.parent_id = any ($2)
         or c.table_name = 'tickets' and c.record_id = any ($3)
         or c.table_name = 'messages' and (c.parent_id = any ($3) or c.record_id = any ($4))
         or c.table_name = 'attachments' and (c.parent_id = any ($3) or c.changes -> 'message_id' ->> 0 = any ($4)
           or exists (select from helpdesk.attachments f where f.account_id = $1 and f.id = c.record_id and f.message_id = any ($4)))
         or lower(c.changes::text) like any ($5)))
     update sync.changes c set changes = e.left from emptied e where c.id = e.id and c.changes <> e.left`,
    [
      ...[account, customers, tickets, written, patterns],
      ...[keptOf('customers'), keptOf('tickets'), keptOf('messages'), keptOf('attachments'), besides],
    ],
  );
  return rowCount ?? 0;
}

/** That they differed stays, since it is counted; what with is gone. */
async function emptyAudit(
  client: Client,
  account: string,
  { customers, tickets, patterns }: Pick<Who, 'customers' | 'tickets'> & { patterns: readonly string[] },
): Promise<number> {
  const { rowCount } = await client.query(
    `with emptied as (
       select a.account_id, a.id, (
         select jsonb_object_agg(d.key, case when d.key = any ($5) then d.value else '["erased", "erased"]' end)
         from jsonb_each(a.differences) d) as left
       from sync.audit a
       where a.account_id = $1 and a.differences <> '{}' and (
         a.stream = 'customers' and a.record_id = any ($2)
         or a.stream in ('tickets', 'messages') and a.record_id = any ($3)
         or lower(a.differences::text) like any ($4)))
     update sync.audit a set differences = e.left from emptied e
     where (a.account_id, a.id) = (e.account_id, e.id) and a.differences <> e.left`,
    [account, customers, tickets, patterns, [...kept.tickets, ...kept.messages, ...besides]],
  );
  return rowCount ?? 0;
}

async function emptyRejects(client: Client, account: string, patterns: readonly string[]): Promise<number> {
  let emptied = 0;
  for (const stream of ['customers', 'tickets', 'messages'] satisfies Personal[]) {
    for (let after = 0; ; ) {
      const { rows } = await client.query<{
        id: number;
        record_id: string | null;
        ask_id: string | null;
        payload: string;
        named: boolean;
      }>(
        `select id, record_id, ask_id, payload, lower(payload || reason) like any ($5) as named from sync.rejects
         where account_id = $1 and stream = $2 and id > $3 and payload is not null order by id limit $4`,
        [account, stream, after, batchSize, patterns],
      );
      if (rows.length === 0) break;
      const all = rows.map(({ payload, record_id, ask_id }) => ({
        text: payload,
        of: [ask_id ?? undefined, stream === 'messages' ? undefined : (record_id ?? undefined)],
      }));
      const theirs = await concerning(client, account, stream, all);
      const ids = rows.filter(({ named }, i) => named || theirs.has(i)).map(({ id }) => id);
      await client.query(
        'update sync.rejects set payload = null, replayable = false, reason = $2 where id = any ($1)',
        [ids, ofErased],
      );
      emptied += ids.length;
      after = rows.at(-1)!.id;
    }
  }
  return emptied;
}

/** A sample is cut, so that nobody can tell whose it is: the next record that differs gives another one. */
async function emptyDrift(client: Client, account: string): Promise<number> {
  const { rowCount } = await client.query(
    `update sync.drift set sample = null
     where account_id = $1 and stream in ('customers', 'tickets', 'messages') and sample is not null`,
    [account],
  );
  return rowCount ?? 0;
}
