/** Whether a 404 can be believed, or a copy of the source may not have the record yet. */
import { Gone, Retry } from '../../errors.ts';
import type { ListStream, Row } from '../../sources/source.ts';
import { type Context, sourceOf } from '../context.ts';
import { readingOf } from '../database/open-candidates.ts';
import type { Client } from '../database/pool.ts';
import { query, raw, sql } from '../database/sql.ts';
import type { Ms } from '../reading/reading.ts';
import { fewTries } from './fetch-record.ts';
import { behindMs } from './lag.ts';
import { createdAt } from './row-facts.ts';

/** Whether every copy of the source must have had the record at this time, unless it was deleted. False without a row. */
export async function wasThere(
  ctx: Context,
  stream: Pick<ListStream<Row>, 'key' | 'source' | 'rowFacts' | 'merge' | 'details'>,
  id: string,
  asOfMs: Ms,
  db: Pick<Client, 'query'> = ctx.pg,
): Promise<boolean> {
  const { key, source, rowFacts, merge, details = [] } = stream;
  const { version = '_observed_at' } = merge.declared.root;
  const created = rowFacts === undefined ? version : createdAt(rowFacts, '');
  // A record whose details were read was there, however late it has changed.
  const existed = [created, '_observed_at', ...details.map(name => readingOf(name).asOf)].join(', ');
  return query(db).value<boolean>`
    select exists (
    select from ${raw(key)}
    where account_id = ${ctx.account} and id = ${id}
      and least(${raw(existed)}) <= ${new Date(asOfMs - behindMs(sourceOf(ctx, source)))}) as older`;
}

/** Whether the row has its tombstone. */
export async function isBuried(
  { pg, account }: Context,
  { key }: Pick<ListStream<Row>, 'key'>,
  id: string,
): Promise<boolean> {
  const { rowCount } = await pg.query(sql`
    select from ${raw(key)} where account_id = ${account} and id = ${id} and _deleted_at is not null`);
  return rowCount === 1;
}

/** The time of a 404 to a request for the record itself. Undefined: it exists, or the source does not say. */
export async function goneItself(
  ctx: Context,
  { source, get }: Pick<ListStream<Row>, 'source' | 'get'>,
  id: string,
): Promise<Ms | undefined> {
  if (get === undefined) return undefined;
  try {
    await sourceOf(ctx, source).send(get(id), { lane: 'fresh', signal: ctx.signal, tries: fewTries });
  } catch (error) {
    if (error instanceof Gone && Number.isFinite(error.asOf)) return error.asOf;
    if (!(error instanceof Gone || error instanceof Retry)) throw error;
  }
  return undefined;
}
