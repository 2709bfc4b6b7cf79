/** What the sandbox truly holds, as its admin port tells it, against the tables. */
import type pg from 'pg';
import { differences } from '../../../test/support/mirror.ts';
import type { Customer, Message, Named, Ticket, User } from '../../sandbox/src/helpdesk/records.ts';
import type { Served } from './servers.ts';

const byId = <T extends { id: string }>(all: readonly T[]): Map<string, T> => new Map(all.map(one => [one.id, one]));

export async function differencesFrom(sandbox: Served, db: pg.Pool): Promise<string[]> {
  const all = <T>(kind: string) => sandbox.ask<T[]>('GET', `/truth/${kind}`);
  const said = Map.groupBy(await all<Message & { ticket_id: string }>('messages'), ({ ticket_id }) => ticket_id);
  const tickets = (await all<Ticket>('tickets')).map(one => ({ ...one, messages: said.get(one.id) ?? [] }));
  return differences(db, {
    tickets: byId(tickets),
    customers: byId(await all<Customer>('customers')),
    users: byId(await all<User>('users')),
    labels: byId(await all<Named>('labels')),
    inboxes: byId(await all<Named>('inboxes')),
  });
}

/** What was announced and is not here: tickets and customers that no row is of, and tickets that have changed since. */
export async function lostFrom(sandbox: Served, db: pg.Pool): Promise<string[]> {
  const { rows } = await db.query<{ id: string; ms: number | null }>(
    `select id, extract(epoch from updated_at)::float8 * 1000 as ms from helpdesk.tickets
     union all select id, null from helpdesk.customers`,
  );
  const here = new Map(rows.map(({ id, ms }) => [id, ms]));
  const tickets = await sandbox.ask<Ticket[]>('GET', '/truth/tickets');
  const customers = await sandbox.ask<Customer[]>('GET', '/truth/customers');
  const lost = [
    ...tickets.filter(({ id, updated_at }) => here.get(id) !== Date.parse(updated_at)),
    ...customers.filter(({ id }) => !here.has(id)),
  ];
  const some = lost.slice(0, 5).map(({ id }) => id);
  return lost.length === 0 ? [] : [`${lost.length} records were lost before the sweep: ${some.join(', ')}`];
}

/** Ids of rows that have a tombstone although the help desk has the ticket. */
export async function wronglyDeleted(sandbox: Served, db: pg.Pool): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>('select id from helpdesk.tickets where _deleted_at is not null');
  if (rows.length === 0) return [];
  // Asked for afterwards: what is deleted stays so, and is not there any more.
  const there = byId(await sandbox.ask<Ticket[]>('GET', '/truth/tickets'));
  return rows.map(({ id }) => id).filter(id => there.has(id));
}

export interface Refusals {
  /** Requests that were refused for a limit: of our own doing, and of others'. */
  own: number;
  others: number;
  /** The first of our own, for whoever looks into it. */
  first: readonly unknown[];
  credits: number;
  requests: number;
  foreign: number;
}

interface Uses {
  totals: { requests: number; credits: number };
  foreign: number;
  clients: { refused: { own: number; others: number } }[];
}

export const usesOf = async (sandbox: Served): Promise<Uses> =>
  (await sandbox.ask<{ helpdesk: Uses }>('GET', '/clients')).helpdesk;

export async function refusalsOf(sandbox: Served): Promise<Refusals> {
  const helpdesk = await usesOf(sandbox);
  const all = await sandbox.ask<{ helpdesk: { fault: string }[] }>('GET', '/refusals?last=10000');
  const sum = (fault: 'own' | 'others') => helpdesk.clients.reduce((found, one) => found + one.refused[fault], 0);
  return {
    own: sum('own'),
    others: sum('others'),
    first: all.helpdesk.filter(({ fault }) => fault === 'own').slice(0, 5),
    credits: helpdesk.totals.credits,
    requests: helpdesk.totals.requests,
    foreign: helpdesk.foreign,
  };
}
