/** The product's merge of pages of tickets, without requests: one session, ten pages a transaction and a merge as in a run. */
import type pg from 'pg';
import { systemClock } from '../../../src/clock.ts';
import type { Batch } from '../../../src/engine/commit/page.ts';
import { writeBatch } from '../../../src/engine/commit/rows.ts';
import { makePool } from '../../../src/engine/database/pool.ts';
import { Commits, type Entry } from '../../../src/engine/load/commit-queue.ts';
import { tickets } from '../../../src/sources/helpdesk/tickets.ts';
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
  merge: tickets.merge,
  filter: tickets.personal,
  records: ids.map((id, place) => ({ place, id })),
  text: () => text,
  record: () => text,
  parameters: () => [],
});

/** With the triggers on the table. */
export async function mergePages(pg: pg.Pool, pages: readonly Page[], nowMs: number): Promise<void> {
  const at = { nowMs, asOfMs: nowMs, trueByMs: nowMs + 1000 };
  const writer = { account: 'default', run: 1 };
  const commits = new Commits({ pg, streams: [], clock: systemClock }, 60_000);
  for (const page of pages) {
    const batch = batchOf(page);
    const write: Entry['write'] = async (client, care, written) =>
      void (written ?? (await writeBatch({ client, claim: writer, at, care }, batch)));
    await commits.room();
    commits.add({
      write,
      rows: async () => ({ batch, writer, at: () => at, versions: new Map(page.ids.map(id => [id, undefined])) }),
      size: page.text.length,
    });
  }
  await commits.done();
}
