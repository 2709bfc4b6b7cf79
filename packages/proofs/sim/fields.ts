/**
 * I24: field rules come while streams are running. What they take out is in no table afterwards, and the rest is as it would be
 * without them.
 */
import { createHmac } from 'node:crypto';
import { applyToStored } from '../../../src/privacy/fields/apply.ts';
import { type FieldRules, formOf } from '../../../src/privacy/fields/field-rules.ts';
import { parseRules } from '../../../src/privacy/fields/parse-field-rules.ts';
import { keepFieldRules, storedRules } from '../../../src/privacy/fields/stored-rules.ts';
import { kinds, streams } from '../../../src/sources/index.ts';
import type { Held } from '../../../test/support/mirror.ts';
import type { Database } from './database.ts';
import type { History, Said } from './history.ts';
import { account } from './process.ts';

type Pool = Parameters<typeof keepFieldRules>[0];

/** What is ruled together: the same text stands in each of these fields. */
const written: Readonly<Record<Said, string>> = {
  subject: 'tickets.subject',
  body: 'messages.body:truncate=2 messages.more_body',
  name: 'customers.*_name messages.from_name',
  address: 'contacts.value:hash messages.from:hash messages.to:hash tickets.reply_to:hash tickets.reply_cc:hash',
};
export const ruled = Object.keys(written) as Said[];

const key = 'the key of a simulation';

export const fieldRulesOf = (said: readonly Said[]): FieldRules => ({
  kinds,
  key,
  rules: parseRules(said.map(one => written[one]).join(' '), kinds),
});

export async function storeRules(pool: Pool, rules: FieldRules, nowMs: number): Promise<void> {
  await keepFieldRules(pool, account, rules, new Date(nowMs));
}

export async function applyRules(pool: Pool, rules: FieldRules, nowMs: number): Promise<void> {
  const { signal } = new AbortController();
  await applyToStored(pool, account, rules, { streams, signal, now: new Date(nowMs), told: () => {} });
}

export const isApplied = async (pool: Pool): Promise<boolean> => {
  const rules = await storedRules(pool, account);
  return rules.length > 0 && rules.every(({ applied_at }) => applied_at !== null);
};

/** Where a text that is taken out is found, in any column. */
export async function leftOf(database: Database, history: History, said: readonly Said[]): Promise<string[]> {
  const texts = said.flatMap(one => [...history.said[one]]);
  if (texts.length === 0) return [];
  return (await database.holding(texts)).map(({ table, text }) => `I24: ${table} holds '${text}', which is left out`);
}

/** The help desk as these rules show it. */
export function lessOf(held: Held, said: readonly Said[]): Held {
  if (said.length === 0) return held;
  const hash = (text: string | null | undefined) =>
    text && `h:${createHmac('sha256', key).update(formOf(text)).digest('hex').slice(0, 32)}`;
  const has = (one: Said) => said.includes(one);
  const tickets = [...held.tickets.values()].map(ticket => ({
    ...rowOf(ticket),
    ...(has('subject') && { subject: null }),
    ...(has('address') && { reply_to: hash(ticket.reply_to), reply_cc: hash(ticket.reply_cc) }),
    messages: ticket.messages.map(message => ({
      ...message,
      ...(has('body') && { body: message.body && [...message.body].slice(0, 2).join(''), more_body: null }),
      ...(has('name') && { from_name: null }),
      ...(has('address') && 'from' in message && { from: hash(message.from) }),
      ...(has('address') && 'to' in message && { to: hash(message.to) }),
    })),
  }));
  const customers = [...held.customers.values()].map(({ id, first_name, last_name, summary, contacts }) => ({
    ...{ id, summary },
    ...(has('name') ? { first_name: null, last_name: null } : { first_name, last_name }),
    contacts: has('address') ? contacts.map(contact => ({ ...contact, value: hash(contact.value) })) : contacts,
  }));
  return {
    ...held,
    users: held.users,
    labels: held.labels,
    inboxes: held.inboxes,
    tickets,
    customers,
  } as unknown as Held;
}

const fields = [
  ...['id', 'number', 'customer_id', 'user_id', 'inbox_id', 'label_ids', 'state', 'type', 'subject', 'summary', 'spam'],
  ...['trash', 'snoozed_until', 'reply_to', 'reply_cc', 'created_at', 'updated_at'],
];

/** A ticket of the world reads its fields from tables. */
const rowOf = (ticket: object) =>
  Object.fromEntries(fields.map(name => [name, (ticket as Record<string, unknown>)[name]]));
