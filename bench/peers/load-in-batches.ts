/**
 * The shape that Stripe's sync engine has in its repository since (0.2.5 of its PostgreSQL destination, which is on no
 * registry), in our words: a page of 100 in one statement of values, the JSON of each beside columns that are generated from
 * it, and an update only where the row is not older and says something else. One load, in a process of its own.
 *
 *   node load-in-batches.ts <database> <url of the source> <token>
 */
import pg from 'pg';
import { type Ticket, writeTickets } from './source.ts';

const columns = {
  text: ['customer_id', 'user_id', 'inbox_id', 'state', 'type', 'subject', 'summary', 'reply_to', 'reply_cc'],
  /** As text: a cast to a time is not immutable, and so generates no column. */
  time: ['snoozed_until', 'created_at', 'updated_at'],
  number: ['number'],
  boolean: ['spam', 'trash'],
  jsonb: ['label_ids'],
};
const generated = (names: readonly string[], type: string, arrow = '->>') =>
  names.map(name => `${name} ${type} generated always as ((_raw_data${arrow}'${name}')::${type}) stored`);

const [database, url, token] = process.argv.slice(2) as [string, string, string];
const pool = new pg.Pool({ connectionString: database });
await pool.query(`
  create schema if not exists batches;
  create table if not exists batches.tickets (
    _raw_data jsonb not null,
    _synced_at timestamptz not null,
    _updated_at timestamptz not null,
    ${[
      ...generated(['id', ...columns.text, ...columns.time], 'text'),
      ...generated(columns.number, 'bigint'),
      ...generated(columns.boolean, 'boolean'),
      ...generated(columns.jsonb, 'jsonb', '->'),
    ].join(',\n    ')},
    primary key (id)
  )`);

const statementOf = (rows: number) => `
  insert into batches.tickets as t (_raw_data, _synced_at, _updated_at)
  values ${Array.from({ length: rows }, (_, i) => `($${3 * i + 1}::jsonb, $${3 * i + 2}, $${3 * i + 3})`).join(', ')}
  on conflict (id) do update
    set _raw_data = excluded._raw_data, _synced_at = excluded._synced_at, _updated_at = excluded._updated_at
    where excluded._updated_at >= t._updated_at and excluded._raw_data is distinct from t._raw_data`;

// One page is read while one is written.
const seconds = await writeTickets({ url, token }, 1, (page: readonly Ticket[]) => {
  const now = new Date();
  return pool.query(
    statementOf(page.length),
    page.flatMap(ticket => [JSON.stringify(ticket), now, ticket.updated_at]),
  );
});
await pool.end();
console.log(JSON.stringify({ seconds }));
