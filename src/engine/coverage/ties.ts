/**
 * Ties that were read by pages that do not all overlap (see reading/overlap.ts). Copies of different age may have answered
 * the pages: a record that one page still shows has moved on, and the record that took its place is on no page. No page
 * reveals that. The next version of the record that moved does.
 */

import type pg from 'pg';
import { rowTrueBy, type Table } from '../commit/merge.ts';
import { byKey, type Client } from '../database/pool.ts';
import { query, raw, sql } from '../database/sql.ts';
import { ofStream, sourceOfKey } from '../database/stream-key.ts';
import type { Ms, Range, Tie } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';

export const copiesDiffer =
  'a record left this second while its pages were read, or before: they may be of different age';

/** A table whose rows have a version. It is named as the key of its stream. */
type Versioned = Pick<Table, 'name' | 'version'>;

export async function noteTie(client: Client, claim: Claim, list: string, tie: Tie): Promise<void> {
  const { account, stream } = claim;
  await client.query(sql`
    insert into sync.ties (account_id, source, stream, list, seconds, told_by, members)
    values (${account}, ${ofStream(stream)}, ${list}, tstzrange(${new Date(tie.from)}, ${new Date(tie.to)}), ${new Date(tie.toldBy)}, ${tie.ids})
    on conflict (account_id, stream_key, list, seconds) do update set
      told_by = case when ties.held then greatest(ties.told_by, excluded.told_by) else excluded.told_by end,
      members = case when ties.held then array(select unnest(ties.members) union select unnest(excluded.members))
        else excluded.members end`);
}

/**
 * Notes records of a later reply whose version is earlier than that of their row, if the row may be dated ahead (see
 * merge.ts): either change may have come first. `passedOver`: their versions by id. Their seconds stay outside the
 * synced range until a reply shows the state at `_true_by` of the row or later. Then they are read again, unless the
 * row has the version.
 */
export async function noteHeld(
  client: Client,
  { account, table }: { account: string; table: Versioned },
  passedOver: Readonly<Record<string, string>>,
  asOfMs: Ms,
): Promise<void> {
  const version = raw(`t.${table.version}`);
  await client.query(sql`
    insert into sync.ties as c (account_id, source, stream, list, seconds, told_by, members, held)
    select l.account_id, l.source, l.stream, l.list, tstzrange(s.second, s.second + interval '1 second'), s.told_by, s.members, true
    from (
      select date_trunc('second', p.version::timestamptz) as second, max(b.true_by) as told_by, array_agg(t.id) as members
      from jsonb_each_text(${JSON.stringify(passedOver)}) p (id, version)
      join ${raw(table.name)} t on (t.account_id, t.id) = (${account}, p.id)
      cross join lateral (select ${raw(rowTrueBy('t'))} as true_by) b
      where ${version} > p.version::timestamptz and t._observed_at < ${new Date(asOfMs)} and t._deleted_at is null
        and ${version} > t._observed_at - (select sync.lookback_of(${account}, ${sourceOfKey(table.name)}))
      group by 1) s
    join sync.coverage l on (l.account_id, l.stream_key) = (${account}, ${table.name}) and not l.redundant
    on conflict (account_id, stream_key, list, seconds) do update set
      told_by = greatest(c.told_by, excluded.told_by), held = true,
      members = array(select unnest(c.members) union select unnest(excluded.members))`);
}

/** Whether ties exist whose changes before their reading are all known, given everything up to `knownMs` is. */
export const hasRipe = (db: pg.Pool, { account, stream }: Claim, knownMs: Ms): Promise<boolean> =>
  query(db).value`
    select exists (select from sync.ties where (account_id, stream_key) = (${account}, ${stream}) and told_by <= ${new Date(knownMs)}) as ripe`;

/**
 * A tie is certain now, or a member has moved on; then its range is no longer synced. A member that moved twice does
 * not tell when it moved first, so any move counts.
 */
export async function settleTies(
  client: Client,
  { account, stream }: Claim,
  table: Versioned,
  knownMs: Ms,
  now: Date,
): Promise<void> {
  const key = sql`(${account}, ${stream})`;
  await client.query(sql`
    with ripe as (
      delete from sync.ties where (account_id, stream_key) = ${key} and told_by <= ${new Date(knownMs)} returning *),
    torn as (
      select * from ripe r where exists (
        select from unnest(r.members) m (id)
        join ${raw(table.name)} t on (t.account_id, t.id) = (r.account_id, m.id)
        where t.${raw(table.version!)} >= upper(r.seconds) or t._deleted_at is not null)),
    back as (
      update sync.coverage c set covered = c.covered - t.parts
      from (select list, range_agg(seconds) as parts from torn group by list) t
      where (c.account_id, c.stream_key) = ${key} and c.list = t.list)
    insert into sync.gap_reasons (account_id, source, stream, list, gap, reason, found_at)
    select account_id, source, stream, list, seconds, ${copiesDiffer}, ${now} from torn
    on conflict (account_id, stream_key, list, gap) do update set reason = excluded.reason, found_at = excluded.found_at`);
}

/** Whether nothing of the stream is left to settle: no tie, no torn range, no open reject. The usual case, in one look. */
export function isSettled(db: pg.Pool, { account, stream }: Claim): Promise<boolean> {
  const key = sql`(${account}, ${stream})`;
  return byKey(db, 'settled').value`
    select not exists (select from sync.ties where (account_id, stream_key) = ${key})
      and not exists (
        select from sync.gap_reasons r left join sync.coverage c using (account_id, stream_key, list)
        where (r.account_id, r.stream_key) = ${key} and r.reason = ${copiesDiffer} and (c.covered @> r.gap) is not true)
      and not exists (select from sync.rejects where (account_id, stream_key) = ${key} and cleared_at is null) as settled`;
}

/** Ranges that were taken back and not read since, unless they failed for another reason. */
export const takenBack = (db: pg.Pool, { account, stream }: Claim): Promise<(Range & { list: string })[]> =>
  query(db).rows`
    select r.list, extract(epoch from lower(r.gap))::float8 * 1000 as from, extract(epoch from upper(r.gap))::float8 * 1000 as to
    from sync.gap_reasons r
    join sync.coverage c using (account_id, stream_key, list)
    join sync.accounts a using (account_id)
    where (r.account_id, r.stream_key) = (${account}, ${stream}) and r.reason = ${copiesDiffer} and not c.redundant
      and not c.covered @> r.gap and upper(r.gap) > coalesce(c.since, a.since) and not exists (
        select from sync.gap_reasons o
        where (o.account_id, o.stream_key, o.list) = (r.account_id, r.stream_key, r.list) and o.gap && r.gap
          and o.reason <> r.reason and o.found_at >= r.found_at)
    order by r.list, r.gap`;
