/**
 * A help desk of two years that is made by SQL, faster than any program could write it. Words are as frequent as in a language:
 * the second one stands in half as many messages as the first, and so on.
 */
import type pg from 'pg';

export const vocabulary = 30_000;

export interface Size {
  readonly tickets: number;
  /** Of all tickets together: each has as many as the others, or one more. */
  readonly messages: number;
  readonly customers: number;
  /** When its last ticket is created. */
  readonly until: Date;
}

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

async function fillBy(client: pg.ClientBase, { tickets, messages, customers, until }: Size): Promise<void> {
  const ticketsEach = Math.round(tickets / customers);
  await client.query(
    `set session_replication_role = replica; set synchronous_commit = off; set maintenance_work_mem = '256MB'`,
  );
  // Made again when the rows are there, which is faster.
  const { rows: indexes } = await client.query<{ name: string; made: string }>(
    `select indexrelid::regclass as name, pg_get_indexdef(indexrelid) as made from pg_index
     where indrelid = any ('{helpdesk.tickets, internal.messages, helpdesk.contacts}'::regclass[]) and not indisunique`,
  );
  await client.query(`drop index ${indexes.map(({ name }) => name).join(', ')}`);
  await client.query(`
    insert into sync.accounts (account_id, since, queue) values ('default', '1970-01-01', gen_random_uuid()) on conflict do nothing;
    create table words as
      select n, (select string_agg(chr(97 + ('x' || substr(md5(n || '-' || k), 1, 6))::bit(24)::int % 26), '') from generate_series(1, 3 + n % 7) k) as word
      from generate_series(1, ${vocabulary}) n;
    create unique index on words (n);
    create table sentences as
      select n, (select string_agg(w.word, ' ') from generate_series(1, 8) k
        cross join lateral (select floor(exp(random() * ln(${vocabulary})))::int + 0 * k * n as r) z join words w on w.n = z.r) as said
      from generate_series(1, 60000) n;
    create unique index on sentences (n);
    create table world as
      select g.n, 't' || g.n as id, 'c' || g.n / ${ticketsEach} as customer, timestamptz '${until.toISOString()}' - (${tickets} - g.n + 1) * interval '730 days' / ${tickets} as created_at,
        array_to_string((string_to_array(s.said, ' '))[1 : 3 + g.n % 4], ' ') || ' ' || g.n as subject
      from generate_series(1, ${tickets}) g (n) join sentences s on s.n = 1 + (g.n * 7919::bigint) % 60000;
    insert into helpdesk.tickets (account_id, id, number, customer_id, user_id, inbox_id, label_ids, state, type, subject, spam, trash, created_at, updated_at, _messages_as_of, ${own})
      select 'default', id, n, customer, 'u' || n % 30, 'i' || n % 5, array['l' || n % 25], case when n % 20 = 0 then 'open' else 'closed' end,
        (array['email', 'email', 'chat', 'web', 'phone'])[1 + n % 5], subject, n % 50 = 0, false,
        created_at, created_at + interval '3 days', created_at + interval '4 days', created_at, created_at, created_at,
        jsonb_build_object('id', id, 'customer_id', customer, 'subject', subject, 'updated_at', created_at + interval '3 days')
      from world order by n;
    insert into internal.ticket_history (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, valid_to, change_after, is_first)
      select 'default', id, case when k = 5 and n % 20 > 0 then 'closed' when k = 4 then 'hold' else 'open' end,
        case when k > 1 then 'u' || n % 30 end, 'i' || n % 5, array['l' || n % 25], n % 50 = 0, false,
        created_at + (k - 1) * interval '18 hours', case when k < 5 then created_at + k * interval '18 hours' end,
        created_at + (k - 1) * interval '18 hours' - interval '2 minutes', k = 1
      from world, generate_series(1, 5) k order by n, k;
    insert into internal.messages (account_id, id, ticket_id, position, type, direction, user_id, from_name, from_address, to_address, body_text, created_at, ${own})
      select 'default', w.id || '-' || k, w.id, k, case k when 4 then 'note' else 'reply' end, case when k = 4 then null when k % 2 = 1 then 'in' else 'out' end,
        case when k % 2 = 0 then 'u' || w.n % 30 end, 'Ada ' || customer,
        case k % 2 when 1 then customer || '@example.org' else 'help@example.org' end, case k % 2 when 0 then customer || '@example.org' else 'help@example.org' end,
        a.said || '. ' || b.said || '? Order ' || w.n, created_at + k * interval '2 hours', created_at, created_at, created_at, '{}'
      from world w cross join generate_series(1, (w.n * ${messages}::bigint / ${tickets} - (w.n - 1) * ${messages}::bigint / ${tickets})::int) k
        join sentences a on a.n = 1 + (hashint4(w.n * 7 + k) & 32767) join sentences b on b.n = 20001 + (hashint4(w.n * 11 + k) & 32767)
      order by w.n, k;
    insert into helpdesk.customers (account_id, id, first_name, _created_after, _created_before, _checked_at, ${own})
      select 'default', 'c' || n, 'Ada ' || n, t, t, t, t, t, t, jsonb_build_object('id', 'c' || n, 'first_name', 'Ada ' || n)
      from generate_series(0, ${customers}) n, (select timestamptz '2025-11-01') x (t);
    insert into helpdesk.contacts (account_id, id, customer_id, type, value, ${own})
      select 'default', 'k' || n, 'c' || n, 'email', 'c' || n || '@example.org', t, t, t, '{}'
      from generate_series(0, ${customers}) n, (select timestamptz '2025-11-01') x (t);
    insert into helpdesk.users (account_id, id, email, ${own})
      select 'default', 'u' || n, 'u' || n || '@example.net', t, t, t, '{}' from generate_series(0, 29) n, (select timestamptz '2025-11-01') x (t);
    insert into helpdesk.labels (account_id, id, name, _first_seen_at, _synced_at, _observed_at)
      select 'default', 'l' || n, 'label ' || n, t, t, t from generate_series(0, 24) n, (select timestamptz '2025-11-01') x (t);
    insert into helpdesk.inboxes (account_id, id, name, _first_seen_at, _synced_at, _observed_at)
      select 'default', 'i' || n, 'inbox ' || n, t, t, t from generate_series(0, 4) n, (select timestamptz '2025-11-01') x (t)`);
  for (const { made } of indexes) await client.query(made);
  await client.query('analyze');
}
