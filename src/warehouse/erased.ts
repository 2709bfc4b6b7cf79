/**
 * Who of a page was erased: asked in the transaction that stores it, and under a lock that keeps everybody from being erased
 * until it ends. One question where nobody was erased in the account; else what the page holds is looked up as well.
 */
import type pg from 'pg';
import type { Ms } from '../reading/reading.ts';
import { cleanText } from './clean.ts';
import { type Clues, cluesIn, cluesOf, concerns, type Erased, foundIn, nobody, type Personal } from './redact.ts';

type Queryable = Pick<pg.ClientBase, 'query'>;

/** The page shows erased people under ids that are not known: what is here of them goes first, then it is stored anew. */
export class FoundAgain extends Error {
  readonly account: string;
  readonly found: Pick<Clues, 'customers' | 'tickets'>;
  readonly nowMs: Ms;

  constructor(account: string, found: Pick<Clues, 'customers' | 'tickets'>, nowMs: Ms) {
    super('the page shows somebody who was erased, under another id');
    this.account = account;
    this.found = found;
    this.nowMs = nowMs;
  }
}

/** Before anything of a text is stored or compared. `text` is asked for only where somebody was erased. */
export async function screen(
  client: Queryable,
  account: string,
  stream: Personal,
  text: () => string,
  nowMs: Ms,
): Promise<Erased> {
  if (!(await anyErased(client, account))) return nobody;
  const page = text();
  const erased = await lookUp(client, account, cluesIn(stream, page));
  const found = foundIn(stream, page, erased);
  if (found.customers.length + found.tickets.length > 0) throw new FoundAgain(account, found, nowMs);
  return erased;
}

/** A text beside the record that it belongs to: ids, of its own or of its ticket. */
export interface Aside {
  readonly text: string | undefined;
  readonly of: readonly (string | undefined)[];
}

/** Which of them, that nothing can be stored of, are of erased people; also those of which that cannot be told. */
export async function concerning(
  client: Queryable,
  account: string,
  stream: Personal,
  all: readonly Aside[],
): Promise<ReadonlySet<number>> {
  if (all.length === 0 || !(await anyErased(client, account))) return new Set();
  const clues = all.map(({ text, of }) => {
    try {
      return cluesOf(stream, text, of);
    } catch (error) {
      if (error instanceof SyntaxError || error instanceof RangeError) return undefined;
      throw error;
    }
  });
  const known = clues.filter(one => one !== undefined);
  const erased = await lookUp(client, account, {
    customers: known.flatMap(one => one.customers),
    tickets: known.flatMap(one => one.tickets),
    contacts: known.flatMap(one => one.contacts),
  });
  return new Set(clues.flatMap((one, i) => (one === undefined || concerns(one, erased) ? [i] : [])));
}

async function anyErased(client: Queryable, account: string): Promise<boolean> {
  const { rows } = await client.query<{ any: boolean }>({
    name: 'any erased',
    text: 'select sync.any_erased($1) as any',
    values: [account],
  });
  return rows[0]!.any;
}

async function lookUp(client: Queryable, account: string, clues: Clues): Promise<Erased> {
  const clean = (all: readonly string[]) => [...new Set(all.map(text => cleanText(text).text))];
  const { rows } = await client.query<Record<keyof Clues, string[]>>({
    name: 'look up erased',
    text: `select
        array(select e.customer_id from sync.erased e where e.account_id = $1 and e.customer_id = any ($2)) as customers,
        array(select e.ticket_id from sync.erased_tickets e where e.account_id = $1 and e.ticket_id = any ($3)) as tickets,
        array(select c.value from unnest($4::text[]) c (value)
          where exists (
            select from unnest(sync.contact_forms(c.value)) f (form)
            join sync.secret_erased e on e.account_id = $1 and e.contact_hash = sync.contact_hash(f.form))) as contacts`,
    values: [account, clean(clues.customers), clean(clues.tickets), clean(clues.contacts)],
  });
  const [{ customers, tickets, contacts }] = rows as [Record<keyof Clues, string[]>];
  return { customers: new Set(customers), tickets: new Set(tickets), contacts: new Set(contacts) };
}
