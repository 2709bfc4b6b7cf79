/**
 * A ticket that the source refuses is a reject. A source that refuses every ticket has another address: then nothing
 * more is asked. After a few refusals in a row, tickets that were read before tell one from the other: of several inboxes
 * where there are some, because an inbox may be refused as a whole.
 */
import type pg from 'pg';
import type { Context } from '../../../engine/context.ts';
import { commitNow } from '../../../engine/load/commit-queue.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import { type Fatal, Gone, Retry } from '../../../errors.ts';
import { helpdeskOf } from '../open.ts';
import { type Detail, detailOf } from './detail.ts';

/** After this many refusals in a row, tickets that were read before are fetched, until one answers. */
const few = 5;
const mostKnown = 3;
/** Without such tickets, this many refusals in a row are those of a wrong address. */
const many = 15;

export class Refusals {
  #inARow = 0;

  answered(): void {
    this.#inARow = 0;
  }

  /** Throws if the source refuses every ticket. */
  async note(ctx: Context, claim: Claim, stream: Detail, everywhere: Fatal): Promise<void> {
    if (++this.#inARow < few) return;
    const known = await knownTickets(ctx.pg, claim);
    if (known.length === 0 && this.#inARow < many) return;
    for (const id of known) {
      if (!(await answers(ctx, claim, stream, id))) continue;
      this.answered();
      return;
    }
    throw everywhere;
  }
}

/** Reads the ticket anew. False if the source refuses it, too. */
async function answers(ctx: Context, claim: Claim, stream: Detail, id: string): Promise<boolean> {
  try {
    const reply = await helpdeskOf(ctx).send(stream.request(id, []), { lane: 'fresh', signal: ctx.signal });
    await commitNow(ctx, detailOf(ctx, claim, stream, reply, { id, due: { labels: [], inbox: [] } }));
  } catch (error) {
    if (error instanceof Retry && error.everywhere) return false;
    if (!(error instanceof Gone)) throw error;
  }
  return true;
}

/** The tickets whose messages were read last, of each inbox one before others, and that were not refused since. */
async function knownTickets(db: pg.Pool, { account, stream }: Claim): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select id from (
       select t.id, t._messages_as_of, row_number() over (partition by t.inbox_id order by t._messages_as_of desc) as place
       from helpdesk.tickets t
       where t.account_id = $1 and t._messages_as_of is not null and t._deleted_at is null and not exists (
         select from sync.rejects r
         where (r.account_id, r.stream_key, r.ask_id) = ($1, $2, t.id) and r.cleared_at is null)) k
     order by place, _messages_as_of desc limit ${mostKnown}`,
    [account, stream],
  );
  return rows.map(({ id }) => id);
}
