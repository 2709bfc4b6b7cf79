/**
 * Looks up who of a text was erased, in the transaction that stores it and under a lock that excludes erasures until it ends. If
 * the account has no erased people, the merge itself notices that (engine/commit/rows.ts).
 */

import type { Aside } from '../engine/commit/page.ts';
import type { Queryable } from '../engine/database/pool.ts';
import { query } from '../engine/database/sql.ts';
import { ExactNumber, parseJson } from '../engine/exact-json.ts';
import { cleanText } from '../engine/json-text.ts';
import { type Clues, concerns, type Erased, type PersonalRules } from './redact.ts';

/**
 * Returns those of the records that belong to erased people or hold a contact value of one anywhere, and those for which that is
 * unknown.
 */
export async function concerning(
  client: Queryable,
  account: string,
  rules: PersonalRules,
  all: readonly Aside[],
): Promise<ReadonlySet<number>> {
  if (all.length === 0 || !(await anyErased(client, account))) return new Set();
  const clues = all.map(one => {
    try {
      const { contacts, ...ids } = rules.cluesOf(one);
      return {
        ...ids,
        contacts: [...contacts, ...(one.text === undefined ? [] : textsIn(parseJson(one.text), { names: true }))],
      };
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

/** Texts and numbers at any depth. `names`: and the names of fields. */
export function textsIn(value: unknown, { names = false } = {}): string[] {
  const found: string[] = [];
  const left = [value];
  while (left.length > 0) {
    const one = left.pop();
    if (typeof one === 'string') found.push(one);
    else if (typeof one === 'number' || one instanceof ExactNumber) found.push(String(one));
    else if (typeof one === 'object' && one !== null) {
      // No spread: a record may have more parts than a call may have arguments.
      if (names && !Array.isArray(one)) for (const name of Object.keys(one)) found.push(name);
      for (const part of Object.values(one)) left.push(part);
    }
  }
  return found;
}

export const anyErased = (client: Queryable, account: string): Promise<boolean> =>
  query(client, 'any erased').value`select sync.any_erased(${account}) as any`;

export async function lookUp(client: Queryable, account: string, clues: Clues): Promise<Erased> {
  const clean = (all: readonly string[]) => [...new Set(all.map(text => cleanText(text).text))];
  const { rows } = await client.query<Record<keyof Erased, string[]>>({
    name: 'look up erased',
    text: `select
        array(select e.customer_id from sync.erased e where e.account_id = $1 and e.customer_id = any ($2)) as customers,
        array(select e.customer_id from sync.erased e where e.account_id = $1 and e.customer_id = any ($2) and not e.found_again) as asked,
        array(select e.ticket_id from sync.erased_tickets e where e.account_id = $1 and e.ticket_id = any ($3)) as tickets,
        coalesce(array_agg(distinct c.value) filter (where c.known), '{}') as contacts,
        coalesce(array_agg(distinct c.value) filter (where not c.known), '{}') as further
      from (
        select v.value, exists (
          select from sync.secret_erased e where e.account_id = $1 and e.contact_hash = sync.contact_hash($1, f.form)) as known
        from unnest($4::text[]) v (value), unnest(sync.contact_forms(v.value)) f (form)) c`,
    values: [account, clean(clues.customers), clean(clues.tickets), clean(clues.contacts)],
  });
  const { customers, asked, tickets, contacts, further } = rows[0]!;
  return {
    ...{ customers: new Set(customers), asked: new Set(asked), tickets: new Set(tickets) },
    ...{ contacts: new Set(contacts), further: new Set(further) },
  };
}
