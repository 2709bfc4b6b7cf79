/**
 * A help desk of two years that is made by SQL, faster than any program could write it. Words are as frequent as in a language:
 * the second one stands in half as many messages as the first, and so on.
 */
import type pg from 'pg';

const vocabulary = 30_000;

export interface Size {
  readonly tickets: number;
  /** When its last ticket is created, and nothing happens later. */
  readonly until: Date;
  /** Each has its share of the customers, with their tickets. */
  readonly accounts?: readonly string[];
}

/** A ticket has one to nine messages, and a customer four tickets. */
export const messagesEach = 5;
export const ticketsEach = 4;

const own = `_first_seen_at, _synced_at, _observed_at, _payload`;

/** Without triggers: history is given, and metrics are made for what changes. */
export async function fillBySql(pool: pg.Pool, size: Size): Promise<void> {
  const client = await pool.connect();
  try {
    await fillBy(client, size);
  } finally {
    client.release(true);
  }
}

async function fillBy(client: pg.ClientBase, { tickets, until, accounts = ['default'] }: Size): Promise<void> {
  const customers = tickets / ticketsEach;
  const names = `array['${accounts.join("', '")}']`;
  const now = `timestamptz '${until.toISOString()}'`;
  const before = `(select ${now} - interval '30 days') x (t)`;
  await client.query(
    `set session_replication_role = replica; set synchronous_commit = off; set maintenance_work_mem = '256MB'`,
  );
  // Made again when the rows are there, which is faster.
  const { rows: indexes } = await client.query<{ name: string; made: string }>(
    `select indexrelid::regclass as name, pg_get_indexdef(indexrelid) as made from pg_index
     where indrelid = any ('{helpdesk.tickets, internal.messages, helpdesk.contacts}'::regclass[]) and not indisunique`,
  );
  await client.query(`drop index ${indexes.map(({ name }) => name).join(', ')}`);
  const { rows: constraints } = await client.query<{ name: string; made: string }>(
    `select conname as name, pg_get_constraintdef(oid) as made from pg_constraint
     where conrelid = 'internal.ticket_history'::regclass and contype = 'x'`,
  );
  for (const { name } of constraints) await client.query(`alter table internal.ticket_history drop constraint ${name}`);
  await client.query(`
    insert into sync.accounts (account_id, since, queue, mirrored_since)
      select a, '1970-01-01', gen_random_uuid(), ${now} - interval '1 year' from unnest(${names}) a on conflict do nothing;
    create table words as
      select n, (select string_agg(chr(97 + ('x' || substr(md5(n || '-' || k), 1, 6))::bit(24)::int % 26), '') from generate_series(1, 3 + n % 7) k) as word
      from generate_series(1, ${vocabulary}) n;
    create unique index on words (n);
    create table sentences as
      select n, (select string_agg(w.word, ' ') from generate_series(1, 8) k
        cross join lateral (select floor(exp(random() * ln(${vocabulary})))::int + 0 * k * n as r) z join words w on w.n = z.r) as said
      from generate_series(1, 60000) n;
    create unique index on sentences (n);
    -- A ticket of today has had all its messages and states by now: they follow each other faster.
    create table world as
      select g.n, 't' || g.n as id, 'c' || g.n / ${ticketsEach} as customer, a.account, b.created_at,
        least(interval '18 hours', (${now} - b.created_at) / 6) as state_lasts, least(interval '2 hours', (${now} - b.created_at) / 12) as turn_lasts,
        array_to_string((string_to_array(s.said, ' '))[1 : 3 + g.n % 4], ' ') || ' ' || g.n as subject,
        case when g.n % 20 = 0 or g.n > 0.99 * ${tickets} then (array['open', 'open', 'open', 'hold', 'snoozed'])[1 + g.n / 20 % 5] else 'closed' end as state,
        case when g.n % 100 > 0 then 'u' || (g.n + g.n / 30) % 32 end as agent, 'i' || g.n / 7 % 5 as inbox,
        case g.n % 10 when 0 then '{}' when 1 then array['l' || g.n / 10 % 25, 'l' || (g.n / 10 + 7) % 25] else array['l' || g.n / 10 % 25] end as labels,
        g.n % 50 = 7 as spam, g.n % 90 = 8 as deleted
      from generate_series(1, ${tickets}) g (n) join sentences s on s.n = 1 + (g.n * 7919::bigint) % 60000
      cross join lateral (select (${names})[1 + g.n / ${ticketsEach} % ${accounts.length}] as account) a
      cross join lateral (select date_trunc('second', ${now} - (${tickets} - g.n + 1) * interval '730 days' / ${tickets}) as created_at) b;
    insert into helpdesk.tickets (account_id, id, number, customer_id, user_id, inbox_id, label_ids, state, type, subject, spam, trash, created_at, updated_at, _messages_as_of, _deleted_after, _deleted_at, ${own})
      select account, id, n, customer, agent, inbox, labels, state,
        (array['email', 'email', 'chat', 'web', 'phone', 'email', 'chat'])[1 + n % 7], subject, spam, n % 110 = 9,
        created_at, created_at + 4 * state_lasts, created_at + 5 * state_lasts,
        case when deleted then created_at + 5 * state_lasts end, case when deleted then created_at + 6 * state_lasts end,
        created_at + state_lasts, created_at + 5 * state_lasts, created_at + 5 * state_lasts,
        jsonb_build_object('id', id, 'customer_id', customer, 'subject', subject, 'updated_at', created_at + 4 * state_lasts)
      from world order by account, n;
    -- Four of eleven tickets are in their first version. Each eighth comes back after it was closed.
    insert into internal.ticket_history (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, valid_to, change_after, deleted_after, is_first)
      select account, id, case when k = 5 then state when k = 2 and n % 8 = 0 then 'closed' when k = 4 then 'hold' else 'open' end,
        case when k = 3 and n % 3 = 0 then 'u' || n % 30 when k > 1 then agent end, inbox, labels, spam, n % 110 = 9,
        created_at + (k - 1) * state_lasts, case when k < 5 then created_at + k * state_lasts when deleted then created_at + 6 * state_lasts end,
        created_at + (k - 1) * state_lasts - interval '2 minutes', case when k = 5 and deleted then created_at + 5 * state_lasts end, k = 1
      from world, generate_series(1, 5) k where n % 11 > 3 or deleted order by account, n, k;
    insert into internal.messages (account_id, id, ticket_id, position, type, direction, user_id, from_name, from_address, to_address, body_text, created_at, ${own})
      select account, id || '-' || k, id, k, case when kind = 14 then 'note' else 'reply' end, case when kind < 8 then 'in' when kind <> 14 then 'out' end,
        case when kind in (8, 9, 10, 11, 12, 14) then 'u' || (w.n + w.n / 30 + kind / 12) % 34 end, 'Ada ' || customer,
        case when kind < 8 then address else 'help@example.org' end, case when kind < 8 then 'help@example.org' else address end,
        a.said || '. ' || b.said || '? Order ' || w.n, created_at + (k - 1) * turn_lasts, created_at, created_at, created_at, '{}'
      from world w cross join generate_series(1, 1 + w.n * 2 % 9) k
        -- Customers begin most tickets, and nobody answers some.
        cross join lateral (
          select case when k = 1 and w.n % 12 > 0 then 0 when w.n % 15 = 4 then (hashint4(w.n * 31 + k) & 1) * 13 else hashint4(w.n * 31 + k) & 15 end as kind,
            case when w.n % 8 = 3 then 'other' || customer when w.n % 8 = 5 then upper(customer) else customer end || '@example.org' as address) d
        join sentences a on a.n = 1 + (hashint4(w.n * 7 + k) & 32767) join sentences b on b.n = 20001 + (hashint4(w.n * 11 + k) & 32767)
      order by account, w.n, k;
    insert into helpdesk.attachments (account_id, id, message_id, ticket_id, name, type, size, ${own})
      select account, 'f' || n, id || '-1', id, 'order.pdf', 'application/pdf', n, created_at, created_at, created_at, '{}' from world where n % 4 = 0 order by account, n;
    insert into helpdesk.customers (account_id, id, first_name, _created_after, _created_before, _checked_at, ${own})
      select (${names})[1 + n % ${accounts.length}], 'c' || n, 'Ada ' || n, t, t, t, t, t, t, jsonb_build_object('id', 'c' || n, 'first_name', 'Ada ' || n)
      from generate_series(0, ${customers}) n, ${before};
    insert into helpdesk.contacts (account_id, id, customer_id, type, value, ${own})
      select (${names})[1 + n % ${accounts.length}], 'k' || n, 'c' || n, 'email', 'c' || n || '@example.org', t, t, t, '{}'
      from generate_series(0, ${customers}) n, ${before};
    -- Some who wrote have left.
    insert into helpdesk.users (account_id, id, email, ${own})
      select a, 'u' || n, 'u' || n || '@example.net', t, t, t, '{}' from unnest(${names}) a, generate_series(0, 29) n, ${before};
    insert into helpdesk.labels (account_id, id, name, _first_seen_at, _synced_at, _observed_at)
      select a, 'l' || n, 'label ' || n, t, t, t from unnest(${names}) a, generate_series(0, 24) n, ${before};
    insert into helpdesk.inboxes (account_id, id, name, _first_seen_at, _synced_at, _observed_at)
      select a, 'i' || n, 'inbox ' || n, t, t, t from unnest(${names}) a, generate_series(0, 4) n, ${before}`);
  for (const { made } of indexes) await client.query(made);
  for (const { name, made } of constraints)
    await client.query(`alter table internal.ticket_history add constraint ${name} ${made}`);
  await client.query('analyze');
}
