/** The tables at rest beside the truth: what differs, and what may. */

import { differences } from '../../../test/support/mirror.ts';
import type { World } from '../../sandbox/src/helpdesk/world/world.ts';
import type { Check } from './check.ts';
import type { Database } from './database.ts';
import { heldOf } from './erasing.ts';
import { lessOf } from './fields.ts';
import type { History, Said } from './history.ts';
import { account } from './process.ts';

export interface AroundTruth {
  readonly world: World;
  readonly history: History;
  readonly check: Check;
  readonly database: Database;
  /** What field rules take out. */
  readonly fields: readonly Said[];
  /** Streams that said that a part of them cannot be read. */
  readonly unreadable: ReadonlySet<string>;
}

export class Truth {
  readonly #at: AroundTruth;

  constructor(at: AroundTruth) {
    this.#at = at;
  }

  /** What lies in a gap that is told with its reason: more records in one second than can be read in any way. */
  async excused(): Promise<Set<string>> {
    const { rows } = await this.#at.database.query(
      {
        text: `select extract(epoch from gap_from)::float8 * 1000 as from_ms, extract(epoch from gap_to)::float8 * 1000 as to_ms
          from sync.gaps where stream = 'tickets' and account_id = $1 and reason is not null`,
        values: [account],
      },
      0,
    );
    const isIn = (ms: number) =>
      rows.some(({ from_ms, to_ms }) => ms >= from_ms && ms < (to_ms ?? Number.POSITIVE_INFINITY));
    const tickets = [...this.#at.world.tickets.values()].filter(t => isIn(Date.parse(t.updated_at)));
    const within = tickets.flatMap(t => [t, ...t.messages, ...t.messages.flatMap(m => m.attachments)]);
    const ids = within.map(({ id }) => id);
    return new Set([...ids, ...tickets.flatMap(t => [...t.label_ids, t.inbox_id])]);
  }

  /** Before a sweep may bring back in silence what was lost: a ticket whose time has moved, and a customer who is new. */
  async compareAnnounced(): Promise<void> {
    const { history, check, unreadable } = this.#at;
    const { rows } = await this.#at.database.query(
      {
        text: `select coalesce(record_id, '') as id from sync.rejects where account_id = $1 and cleared_at is null`,
        values: [account],
      },
      0,
    );
    const unread = new Set<string>([...rows.map(({ id }) => id), ...(await this.excused())]);
    if (unread.has('')) return;
    for (const what of await this.differences()) {
      const [table = '', id = ''] = what.split(/[ :]/);
      const announced =
        table === 'tickets'
          ? !what.endsWith('too many') && !history.silent.has(id)
          : table === 'customers' && what.endsWith('missing') && !history.away.has(id);
      if (announced && !unreadable.has(table) && !unread.has(id)) check.complain(`at rest, before the sweep: ${what}`);
    }
  }

  /** Of the tables and the help desk, but for what is erased or left out. */
  differences(): Promise<string[]> {
    const { world, check, fields } = this.#at;
    return differences(this.reads(), lessOf(heldOf(world, check.erased), fields));
  }

  async hasRejects(): Promise<boolean> {
    const { rows } = await this.#at.database.query(
      {
        text: 'select count(*)::int as n from sync.rejects where account_id = $1 and cleared_at is null',
        values: [account],
      },
      0,
    );
    return rows[0].n > 0;
  }

  async hasGaps(): Promise<boolean> {
    const { rows } = await this.#at.database.query(
      {
        text: `select count(*)::int as n from sync.gaps where stream = 'tickets' and account_id = $1`,
        values: [account],
      },
      0,
    );
    return rows[0].n > 0;
  }

  reads() {
    const query = (asked: { text: string; rowMode?: 'array' }) => this.#at.database.client.query(asked);
    return { query } as unknown as Parameters<typeof differences>[0];
  }
}
