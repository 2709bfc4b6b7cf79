/** A sandbox mirrored into a database of its own, and what differs afterwards: nothing, if all is well. */

import type pg from 'pg';
import { inject } from 'vitest';
import { auditStream } from '../../jobs/audit-stream.ts';
import { backfillStream } from '../../jobs/backfill-stream.ts';
import { sweepStream } from '../../jobs/sweep-stream.ts';
import { syncStream } from '../../jobs/sync-stream.ts';
import { verifyStream } from '../../jobs/verify-stream.ts';
import type { Customer, Message, Named, Ticket, User } from '../../packages/sandbox/src/helpdesk/records.ts';
import type { Sandbox } from '../../packages/sandbox/src/server.ts';
import type { Config } from '../../src/app/config.ts';
import type { Warehouse } from '../../src/app/context.ts';
import { runBackfill } from '../../src/cli/work/backfill.ts';
import { chooseStreams, type RunResult } from '../../src/cli/work/follow.ts';
import { runSync } from '../../src/cli/work/sync.ts';
import { runVerify, type VerifyResult } from '../../src/cli/work/verify.ts';
import { makePool } from '../../src/engine/database/pool.ts';
import { noProxies } from '../../src/engine/http/proxies.ts';
import type { Range } from '../../src/engine/runs/runs.ts';
import type { Asked } from '../../src/engine/verify/verifications.ts';
import { keysOf } from './keys.ts';

export const jobs = [syncStream, backfillStream, sweepStream, auditStream, verifyStream];

/** What nothing announces: no list shows it, and a sweep finds it. */
export const unannounced = [
  'edit of a customer',
  'contact added',
  'contact removed',
  'rename of a label',
  'rename of an inbox',
  'deletion',
];

/** Limits that a test never meets. */
export const noLimits = { credits: 1_000_000_000, periodMs: 60_000, requestsPerSecond: 1_000_000, reserve: 0 };
export const noSandboxLimits = { credits: 1_000_000_000, requestsPerSecond: 1_000_000 };

export function configFor(
  databaseUrl: string,
  sandbox: Pick<Sandbox, 'url' | 'token'>,
  more: Partial<Config> = {},
): Config {
  return {
    account: 'default',
    databaseUrl,
    redisUrl: inject('ownRedisUrl'),
    proxies: noProxies,
    helpdesk: { baseUrl: new URL(sandbox.url), token: sandbox.token },
    limits: noLimits,
    sinceMs: 0,
    lookbackMs: 120_000,
    sweep: { ageMs: 7 * 86_400_000, mostDeleted: 0.2 },
    audit: { perHour: 0 },
    books: undefined,
    schedule: { fresh: '', nightly: '', timeZone: 'UTC' },
    promises: { targets: {}, nightlyMs: 6 * 3_600_000 },
    fieldRules: undefined,
    alarm: undefined,
    handOff: undefined,
    replyBytes: 64_000_000,
    logLevel: 'silent',
    ...more,
  };
}

export async function syncOnce(
  config: Config,
  names: readonly string[] = chooseStreams([], config),
  signal: AbortSignal = new AbortController().signal,
): Promise<RunResult> {
  return withWarehouse(config, warehouse => runSync(config, warehouse, keysOf(names), { jobs, signal }));
}

export async function backfillOnce(
  config: Config,
  names: readonly string[],
  range: Partial<Range> = {},
  signal: AbortSignal = new AbortController().signal,
): Promise<RunResult> {
  const whole = { since: null, until: null, again: false, ...range };
  return withWarehouse(config, warehouse => runBackfill(config, warehouse, keysOf(names), whole, { jobs, signal }));
}

export async function verifyOnce(config: Config, asked: Partial<Asked> = {}): Promise<VerifyResult> {
  const { signal } = new AbortController();
  return withWarehouse(config, warehouse =>
    runVerify(config, warehouse, { sample: null, repair: false, ...asked }, { jobs, signal }),
  );
}

async function withWarehouse<T>(config: Config, work: (warehouse: Warehouse) => Promise<T>): Promise<T> {
  const pool = makePool(config.databaseUrl!);
  try {
    return await work({
      url: config.databaseUrl!,
      pg: pool,
      ledger: pool,
      folder: undefined,
      [Symbol.asyncDispose]: async () => {},
    });
  } finally {
    await pool.end();
  }
}

export type Rows = Map<string, unknown>;

type All<T> = { values(): Iterable<T> };

/** What a help desk truly holds: a world, or what somebody tells of one. */
export interface Held {
  readonly tickets: All<Ticket & { readonly messages: readonly Message[] }>;
  readonly customers: All<Customer>;
  readonly users: All<User>;
  readonly labels: All<Named>;
  readonly inboxes: All<Named>;
}

/** Table by table, the ids whose rows are missing, too many, or not equal to the world. Without an account: of all rows. */
export const differences = async (db: pg.Pool, world: Held, account?: string): Promise<string[]> => [
  ...(await compare(db, truth(world), account === undefined ? queries : ofAccount(account))),
  ...(await staleMetrics(db)),
];

/** Tickets whose metrics do not count the messages that are there. */
async function staleMetrics(db: pg.Pool): Promise<string[]> {
  const { rows } = await db.query(`
    select t.id, coalesce(s.message_count, 0) as counted, coalesce(m.n, 0) as there
    from helpdesk.tickets t
    left join internal.stored_ticket_metrics s on s.account_id = t.account_id and s.ticket_id = t.id
    left join (select account_id, ticket_id, count(*)::int as n from helpdesk.messages group by 1, 2) m
      on m.account_id = t.account_id and m.ticket_id = t.id
    where coalesce(s.message_count, 0) <> coalesce(m.n, 0)`);
  return rows.map(({ id, counted, there }) => `metrics of ticket ${id}: ${counted} messages instead of ${there}`);
}

/** The first cell of a row is its id. */
export async function compare(
  db: pg.Pool,
  truth: Record<string, Rows>,
  queries: Record<string, string>,
): Promise<string[]> {
  const found: string[] = [];
  for (const [table, expected] of Object.entries(truth)) {
    const actual = await read(db, queries[table]!);
    for (const [id, value] of expected) {
      if (!actual.has(id)) found.push(`${table} ${id}: missing`);
      else if (actual.get(id) !== value)
        found.push(`${table} ${id}: ${String(actual.get(id))} instead of ${String(value)}`);
    }
    for (const id of actual.keys()) if (!expected.has(id)) found.push(`${table} ${id}: too many`);
  }
  return found;
}

/** Times as epoch seconds, everything else as the source shows it: one JSON text for each row. */
function truth(world: Held): Record<string, Rows> {
  const tickets = [...world.tickets.values()];
  const messages = tickets.flatMap(ticket =>
    ticket.messages.map((message, i) => ({ ticket, message, position: i + 1 })),
  );
  const customers = [...world.customers.values()];
  return {
    tickets: rows(tickets, t => [
      t.id,
      t.number,
      t.customer_id,
      t.user_id,
      t.inbox_id,
      t.label_ids,
      t.state,
      t.type,
      t.subject,
      t.summary,
      t.spam,
      t.trash,
      seconds(t.snoozed_until),
      t.reply_to,
      t.reply_cc,
      seconds(t.created_at),
      seconds(t.updated_at),
    ]),
    ticket_labels: rows(
      tickets.flatMap(t => t.label_ids.map(label => [t.id, label])),
      ([ticket, label]) => [`${ticket} ${label}`],
    ),
    messages: rows(messages, ({ ticket, message: m, position }) => [
      m.id,
      ticket.id,
      position,
      m.type,
      'direction' in m ? m.direction : null,
      m.user_id,
      m.from_name,
      'from' in m ? m.from : null,
      'to' in m ? m.to : null,
      m.body,
      'more_body' in m ? m.more_body : null,
      m.htmlized,
      seconds(m.created_at),
    ]),
    attachments: rows(
      messages.flatMap(({ ticket, message }) => message.attachments.map(a => ({ a, message, ticket }))),
      ({ a, message, ticket }) => [a.id, message.id, ticket.id, a.name, a.type, a.size],
    ),
    customers: rows(customers, c => [c.id, c.first_name, c.last_name, c.summary]),
    contacts: rows(
      customers.flatMap(c => c.contacts.map(k => ({ c, k }))),
      ({ c, k }) => [k.id, c.id, k.type, k.value],
    ),
    users: rows([...world.users.values()], u => [u.id, u.first_name, u.last_name, u.email]),
    labels: rows(
      mentioned(
        world.labels.values(),
        tickets.flatMap(t => t.label_ids),
      ),
      l => [l.id, l.name],
    ),
    inboxes: rows(
      mentioned(
        world.inboxes.values(),
        tickets.map(t => t.inbox_id),
      ),
      i => [i.id, i.name],
    ),
  };
}

const queries: Record<string, string> = {
  tickets: `select id, number, customer_id, user_id, inbox_id, label_ids, state, type, subject, summary, spam, trash,
    extract(epoch from snoozed_until)::float8, reply_to, reply_cc, extract(epoch from created_at)::float8,
    extract(epoch from updated_at)::float8 from helpdesk.tickets where _deleted_at is null`,
  ticket_labels: `select ticket_id || ' ' || label_id from helpdesk.ticket_labels`,
  messages: `select id, ticket_id, position, type, direction, user_id, from_name, from_address, to_address, body, more_body,
    htmlized, extract(epoch from created_at)::float8 from helpdesk.messages where _deleted_at is null`,
  attachments: 'select id, message_id, ticket_id, name, type, size from helpdesk.attachments where _deleted_at is null',
  customers: 'select id, first_name, last_name, summary from helpdesk.customers where _deleted_at is null',
  contacts: 'select id, customer_id, type, value from helpdesk.contacts where _deleted_at is null',
  users: 'select id, first_name, last_name, email from helpdesk.users where _deleted_at is null',
  labels: `select id, name from helpdesk.labels l where exists (select from helpdesk.ticket_labels t where t.label_id = l.id)`,
  inboxes: `select id, name from helpdesk.inboxes i where exists (select from helpdesk.tickets t where t.inbox_id = i.id)`,
};

const ofAccount = (account: string) =>
  Object.fromEntries(
    Object.entries(queries).map(([table, query]) => [
      table,
      query.replaceAll(
        /helpdesk\.(\w+)( [a-z])?(?= where|$)/g,
        (_, name, alias = ` ${name}`) => `(select * from helpdesk.${name} where account_id = '${account}')${alias}`,
      ),
    ]),
  );

const seconds = (time: string | null) => (time === null ? null : Date.parse(time) / 1000);

function mentioned<T extends { id: string }>(all: Iterable<T>, ids: readonly string[]): T[] {
  const wanted = new Set(ids);
  return [...all].filter(({ id }) => wanted.has(id));
}

/** The first cell is the id. */
export function rows<T>(all: readonly T[], cells: (one: T) => readonly unknown[]): Rows {
  return new Map(all.map(cells).map(row => [keyOf(row), JSON.stringify(row)]));
}

async function read(db: pg.Pool, query: string): Promise<Rows> {
  const { rows: found } = await db.query<unknown[]>({ text: query, rowMode: 'array' });
  return new Map(found.map(row => [keyOf(row), JSON.stringify(row)]));
}

const keyOf = (row: readonly unknown[]) => String(row[0]);
