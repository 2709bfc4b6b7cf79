/**
 * A ticket that the source refuses is a reject. A source that refuses every ticket has another address: then nothing
 * more is asked. After a few refusals in a row, a ticket that was read before tells one from the other.
 */
import type pg from 'pg';
import type { Context } from '../../../engine/context.ts';
import { commitNow } from '../../../engine/load/commit-queue.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import { type Fatal, Gone, Retry } from '../../../errors.ts';
import { helpdeskOf } from '../open.ts';
import { type Detail, detailOf } from './detail.ts';

/** After this many refusals in a row, a ticket that was read before is fetched. */
const few = 5;
/** Without such a ticket, this many refusals in a row are those of a wrong address. */
const many = 15;

export class Refusals {
  #inARow = 0;

  answered(): void {
    this.#inARow = 0;
  }

  /** Throws if the source refuses every ticket. */
  async note(ctx: Context, claim: Claim, stream: Detail, everywhere: Fatal): Promise<void> {
    if (++this.#inARow < few) return;
    const known = await knownTicket(ctx.pg, claim);
    if (known === undefined && this.#inARow < many) return;
    if (known === undefined) throw everywhere;
    try {
      const reply = await helpdeskOf(ctx).send(stream.request(known, []), { lane: 'fresh', signal: ctx.signal });
      await commitNow(ctx, detailOf(ctx, claim, stream, reply, { id: known, due: { labels: [], inbox: [] } }));
    } catch (error) {
      if (error instanceof Retry && error.everywhere) throw everywhere;
      if (!(error instanceof Gone)) throw error;
    }
    this.answered();
  }
}

/** The ticket whose messages were read last, and that was not refused since. */
async function knownTicket(db: pg.Pool, { account, stream }: Claim): Promise<string | undefined> {
  const { rows } = await db.query<{ id: string }>(
    `select t.id from helpdesk.tickets t
     where t.account_id = $1 and t._messages_as_of is not null and t._deleted_at is null and not exists (
       select from sync.rejects r
       where (r.account_id, r.stream_key, r.ask_id) = ($1, $2, t.id) and r.cleared_at is null)
     order by t._messages_as_of desc limit 1`,
    [account, stream],
  );
  return rows[0]?.id;
}
