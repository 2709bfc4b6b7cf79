/**
 * I23: people are erased while runs go on. Every text in a simulated help desk is found nowhere else, so whatever a person has, or
 * ever had, can be looked for in every column of every table.
 */

import { UsageError } from '../../../src/errors.ts';
import { eraseCustomer } from '../../../src/privacy/erasures.ts';
import { streams } from '../../../src/sources/index.ts';
import type { Held } from '../../../test/support/mirror.ts';
import type { Database } from './database.ts';
import type { History } from './history.ts';
import { account } from './process.ts';
import type { Actor } from './scheduler.ts';

type Pool = Parameters<typeof eraseCustomer>[0];

export interface AroundErasing {
  readonly nowMs: () => number;
  readonly isAlive: () => boolean;
  /** A command begins: its process, and how it sees the database. */
  readonly begin: () => { by: Actor; pool: Pool };
  /** It has to be given again. */
  readonly later: (act: () => void) => void;
}

export class Erasing {
  /** Commands that are on their way, and whom they erase. */
  readonly commands = new Map<Actor, string>();
  /** Whose erasure nobody has heard of yet. */
  readonly pending = new Set<string>();
  readonly #around: AroundErasing;

  constructor(around: AroundErasing) {
    this.#around = around;
  }

  /** The command is given until it has answered. */
  erase(customer: string): void {
    this.pending.add(customer);
    const { by, pool } = this.#around.begin();
    this.commands.set(by, customer);
    const again = () => {
      this.commands.delete(by);
      if (this.#around.isAlive()) this.#around.later(() => this.erase(customer));
    };
    eraseNow(pool, customer, this.#around.nowMs()).then(isKnown => {
      if (!isKnown) return again();
      this.commands.delete(by);
      this.pending.delete(customer);
    }, again);
  }

  /** A command died with its process. */
  died(by: Actor): void {
    const customer = this.commands.get(by);
    this.commands.delete(by);
    if (customer !== undefined) this.#around.later(() => this.erase(customer));
  }
}

/** False if the command was refused: the person is not mirrored yet. */
export async function eraseNow(pool: Pool, customer: string, nowMs: number): Promise<boolean> {
  try {
    await eraseCustomer(pool, { account, customer, who: 'the simulation', streams }, new Date(nowMs));
    return true;
  } catch (error) {
    if (error instanceof UsageError) return false;
    throw error;
  }
}

/** Whatever these people have, or ever had. */
export const textsOf = (history: History, erased: Iterable<string>): string[] =>
  [...erased].flatMap(id => [...(history.texts.get(id) ?? [])]);

/** Where something of these people is found, in any column. */
export async function tracesOf(database: Database, history: History, erased: Iterable<string>): Promise<string[]> {
  const texts = textsOf(history, erased);
  if (texts.length === 0) return [];
  return (await database.holding(texts)).map(({ table, text }) => `I23: ${table} holds '${text}' of an erased person`);
}

/** The help desk, but for what is written of these people. */
export function heldOf(world: Held, erased: ReadonlySet<string>): Held {
  if (erased.size === 0) return world;
  const none = { subject: null, summary: null, reply_to: null, reply_cc: null };
  const bare = { from_name: null, from: null, to: null, body: null, more_body: null };
  const tickets = [...world.tickets.values()].map(ticket =>
    erased.has(ticket.customer_id)
      ? {
          ...fieldsOf(ticket),
          ...none,
          messages: ticket.messages.map(message => ({
            ...message,
            ...bare,
            attachments: message.attachments.map(one => ({ ...one, name: null })),
          })),
        }
      : ticket,
  );
  const customers = [...world.customers.values()].map(one =>
    erased.has(one.id) ? { ...one, first_name: null, last_name: null, summary: null, contacts: [] } : one,
  );
  return {
    ...world,
    users: world.users,
    labels: world.labels,
    inboxes: world.inboxes,
    tickets,
    customers,
  } as unknown as Held;
}

const columns = [
  ...['id', 'number', 'customer_id', 'user_id', 'inbox_id', 'label_ids', 'state', 'type', 'spam', 'trash'],
  ...['snoozed_until', 'created_at', 'updated_at'],
];

/** A ticket of the world reads its fields from tables. */
function fieldsOf(ticket: object): Record<string, unknown> {
  return Object.fromEntries(columns.map(name => [name, (ticket as Record<string, unknown>)[name]]));
}
