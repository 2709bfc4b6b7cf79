/** Queries of the doctor's checks. */
import type pg from 'pg';
import { query } from '../../engine/database/sql.ts';

/** Whether BullMQ has made its tables in this database. */
export const hasQueueTables = (db: pg.Pool): Promise<boolean> =>
  query(db).value<boolean>`
    select exists (select from pg_namespace where nspname = 'bullmq') as there`;

/** Open runs, oldest first, with whether a living process can continue each, and whether it is paused as a whole. */
export async function openRuns(db: pg.Pool, account: string) {
  return query(db).rows<{ id: number; kind: string; started_at: Date; stuck: boolean; paused: boolean }>`
    select id, kind, started_at, state = 'interrupted' as stuck, not exists (
      select from sync.stored_run_streams s
      where s.run_id = runs.id and s.state in ('waiting', 'running') and not sync.is_paused(s.account_id, s.stream_key)) as paused
    from sync.runs
    where account_id = ${account} and finished_at is null order by id`;
}

/** Kinds of drift. `isNew`: first seen after this time, and not by the first load. */
export async function driftKinds(db: pg.Pool, account: string, since: Date) {
  return query(db).rows<{ stream: string; kind: string; path: string; isNew: boolean }>`
    select d.stream, d.kind, d.path, bool_or(d.first_seen_at > greatest(${since}, a.mirrored_since + interval '1 day')) as "isNew"
    from sync.drift d join sync.accounts a using (account_id) where d.account_id = ${account}
    group by 1, 2, 3 order by 1, 2, 3`;
}

/** Lists of a source whose pages show fewer records than they are asked for. */
export async function shortPages(db: pg.Pool, account: string, source: string) {
  return query(db).rows<{ stream: string; list: string; size: number; varies: boolean }>`
    select stream, list, page_size as size, pages_vary as varies from sync.coverage
    where account_id = ${account} and source = ${source} and page_size is not null order by 1, 2`;
}

/** Accounts with a run that began after this time. */
export async function knownAccounts(db: pg.Pool, since: Date) {
  return query(db).rows<{ account: string }>`
    select a.account_id as account from sync.accounts a
    where exists (select from sync.stored_runs r where r.account_id = a.account_id and r.started_at > ${since})
    order by 1`;
}
