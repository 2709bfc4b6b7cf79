/** What a ticket in detail makes of the tables, without a request: a reply that the test writes goes the way of every other one. */
import type pg from 'pg';
import { transaction, withKeptPlans } from '../../src/engine/database/pool.ts';
import type { Reply } from '../../src/engine/http/request.ts';
import { type Detail, membersOf, writeDetail } from '../../src/sources/helpdesk/messages/detail.ts';
import { messages } from '../../src/sources/helpdesk/messages/messages.ts';
import type { Row } from '../../src/sources/source.ts';

/** A ticket with its messages, as the source showed it at `asOfMs`. False if the reply was too old to count. */
export async function told(
  pool: pg.Pool,
  account: string,
  asOfMs: number,
  record: { id: string },
  said: readonly unknown[],
): Promise<boolean> {
  const whole = { ...record, messages: said };
  const reply: Reply<Row> = {
    text: JSON.stringify(whole),
    records: [whole as unknown as Row],
    unreadable: [],
    arrived: 1,
    asOf: asOfMs,
    trueBy: asOfMs + 2000,
    shownBy: asOfMs + 2000,
    total: undefined,
  };
  const wanted = { id: record.id, due: { labels: [], inbox: [] } };
  const at = { nowMs: asOfMs, asOfMs };
  const came = { reply, found: await membersOf(messages as unknown as Detail, reply) };
  const { current } = await transaction(
    pool,
    client =>
      writeDetail(
        { client, claim: { account, run: 1 }, at, care: 'as it came' },
        messages as unknown as Detail,
        came,
        wanted,
      ),
    withKeptPlans,
  );
  return current;
}
