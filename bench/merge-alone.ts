/** The product's merge of pages of tickets, without requests: one session, ten pages a transaction as in a run. */
import type pg from 'pg';
import { type Batch, commitTogether, writeBatch } from '../src/engine/commit/commit.ts';
import { makePool } from '../src/engine/database/pool.ts';
import { mostTogether } from '../src/engine/load/commit-queue.ts';
import { tickets } from '../src/sources/helpdesk/tickets.ts';
import type { Database } from './load.ts';

/** The reply that shows these records. */
export interface Page {
  readonly text: string;
  readonly ids: readonly string[];
}

const perPage = 100;

/** A pool of one session, with the settings of the product. Its CPU is that of all statements. */
export function oneSession(url: string): pg.Pool {
  const pool = makePool(url);
  Object.assign(pool.options, { max: 1, idleTimeoutMillis: 0 });
  return pool;
}

/** The tickets of a mirror as a list shows them, 100 a page. */
export async function pagesOf({ pool }: Database): Promise<Page[]> {
  const { rows } = await pool.query<Page>(
    `select '[' || string_agg(_payload::text, ',' order by updated_at, id) || ']' as text, array_agg(id order by updated_at, id) as ids
     from (select *, row_number() over (order by updated_at, id) - 1 as n from helpdesk.tickets) t group by n / ${perPage} order by n / ${perPage}`,
  );
  return rows;
}

const batchOf = ({ text, ids }: Page): Batch => ({
  name: tickets.name,
  merge: tickets.merge,
  personal: tickets.personalRules,
  records: ids.map((id, place) => ({ place, id })),
  text: () => text,
  record: () => text,
  parameters: () => [],
});

/** With the triggers on the table. */
export async function mergePages(pg: pg.Pool, pages: readonly Page[], nowMs: number): Promise<void> {
  const at = { nowMs, asOfMs: nowMs, trueByMs: nowMs + 1000 };
  for (let first = 0; first < pages.length; first += mostTogether)
    await commitTogether({ pg, streams: [] }, async client => {
      for (const page of pages.slice(first, first + mostTogether))
        await writeBatch(client, { account: 'default', run: 1 }, batchOf(page), at, 'as it came');
    });
}
