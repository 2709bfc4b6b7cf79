/**
 * A record that the source refuses is a reject. A source that refuses every record has another address: then nothing
 * more is asked. After a few refusals in a row, records that were read before tell one from the other: of several groups
 * where the stream names them, because a group may be refused as a whole.
 */
import type pg from 'pg';
import { type Fatal, Gone, Retry } from '../../errors.ts';
import { type Context, sourceOf } from '../context.ts';
import { commitNow } from '../load/commit-queue.ts';
import type { Claim } from '../runs/claims.ts';
import { type Detail, rowsOfParent } from './detail-rows.ts';
import { detailOf } from './store-detail.ts';

/** After this many refusals in a row, records that were read before are fetched, until one answers. */
const few = 5;
const mostKnown = 3;
/** Without such records, this many refusals in a row are those of a wrong address. */
const many = 15;

export class Refusals {
  #inARow = 0;

  answered(): void {
    this.#inARow = 0;
  }

  /** Throws if the source refuses every record. */
  async note(ctx: Context, claim: Claim, stream: Detail, everywhere: Fatal): Promise<void> {
    if (++this.#inARow < few) return;
    const known = await knownRecords(ctx.pg, claim, stream);
    if (known.length === 0 && this.#inARow < many) return;
    for (const id of known) {
      if (!(await answers(ctx, claim, stream, id))) continue;
      this.answered();
      return;
    }
    throw everywhere;
  }
}

/** Reads the record anew. False if the source refuses it, too. */
async function answers(ctx: Context, claim: Claim, stream: Detail, id: string): Promise<boolean> {
  try {
    const reply = await sourceOf(ctx, stream.source).send(stream.request(id, []), {
      lane: 'fresh',
      signal: ctx.signal,
    });
    await commitNow(ctx, detailOf(ctx, claim, stream, reply, { id, due: {} }));
  } catch (error) {
    if (error instanceof Retry && error.everywhere) return false;
    if (!(error instanceof Gone)) throw error;
  }
  return true;
}

/** The records whose members were read last, of each group one before others, and that were not refused since. */
async function knownRecords(db: pg.Pool, { account }: Claim, stream: Detail): Promise<string[]> {
  const { table, asOf } = rowsOfParent(stream);
  const { rows } = await db.query<{ id: string }>(
    `select id from (
       select t.id, t.${asOf} as read_as_of, row_number() over (partition by ${stream.group ?? 'null'} order by t.${asOf} desc) as place
       from ${table} t
       where t.account_id = $1 and t.${asOf} is not null and t._deleted_at is null and not exists (
         select from sync.rejects r
         where (r.account_id, r.stream_key, r.ask_id) = ($1, $2, t.id) and r.cleared_at is null)) k
     order by place, read_as_of desc limit ${mostKnown}`,
    [account, stream.key],
  );
  return rows.map(({ id }) => id);
}
