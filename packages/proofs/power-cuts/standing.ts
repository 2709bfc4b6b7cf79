/** What no power cut may take back, as one connection sees it: once while everything stands still, once after the recovery. */
import type pg from 'pg';

export interface Standing {
  readonly slots: readonly { slot: string; run: number | null; skipped: string | null }[];
  /** Streams of runs: the fencing token, and what has been paid for so far. */
  readonly streams: readonly { stream: string; token: number; credits: number; readers: number }[];
  /** Requests that the budget has granted and that nobody has settled. */
  readonly flights: readonly string[];
}

export async function standingOf(client: pg.ClientBase): Promise<Standing> {
  const { rows } = await client.query<Standing>(
    `select
       (select coalesce(json_agg(json_build_object('slot', schedule || ' ' || slot, 'run', run_id, 'skipped', skipped)), '[]')
        from sync.schedule_slots) as slots,
       (select coalesce(json_agg(json_build_object('stream', run_id || ' ' || stream_key, 'token', token, 'credits', credits,
          'readers', case when state <> 'running' then 0 when stream = 'messages' then 2 else 1 end)), '[]')
        from sync.stored_run_streams) as streams,
       (select coalesce(json_agg(f.value ->> 'id'), '[]') from sync.budget b, json_array_elements(b.state -> 'flights') f) as flights`,
  );
  return rows[0]!;
}

/** What was there before a cut and is not there after it, although it had been promised to somebody. */
export function takenBack(before: Standing, after: Standing): string[] {
  const slots = new Map(after.slots.map(one => [one.slot, one]));
  const streams = new Map(after.streams.map(one => [one.stream, one]));
  const flights = new Set(after.flights);
  return [
    ...before.slots
      .filter(({ slot, run }) => slots.get(slot)?.run !== run)
      .map(({ slot, run }) => `slot ${slot} of run ${run} is free again`),
    ...before.streams
      .filter(({ stream, token }) => (streams.get(stream)?.token ?? -1) < token)
      .map(({ stream, token }) => `token ${token} of stream ${stream} can be given again`),
    ...before.flights.filter(id => !flights.has(id)).map(id => `the granted request ${id} is forgotten`),
  ];
}

/** Credits of replies that were committed and are lost. */
export function lostCredits(before: Standing, after: Standing): number {
  const streams = new Map(after.streams.map(one => [one.stream, one.credits]));
  return before.streams.reduce((sum, { stream, credits }) => sum + credits - (streams.get(stream) ?? 0), 0);
}

/** Each slot has a run or a reason, each run of the schedule has one slot. */
export async function wrongSlots(db: pg.ClientBase | pg.Pool): Promise<string[]> {
  const { rows } = await db.query<{ words: string }>(
    `select 'slot ' || schedule || ' ' || slot || ' has neither a run nor a reason' as words
     from sync.schedule_slots where run_id is null and skipped is null
     union all
     select 'run ' || r.id || ' (' || r.kind || ') has ' || count(s.slot) || ' slots'
     from sync.stored_runs r left join sync.schedule_slots s on s.run_id = r.id
     where r.kind in ('fresh', 'nightly') group by r.id having count(s.slot) <> 1`,
  );
  return rows.map(({ words }) => words);
}

/** What `losesCommits` needs. */
export async function prepare(db: pg.ClientBase): Promise<void> {
  await db.query('create schema power_cuts; create extension pageinspect schema power_cuts');
}

/**
 * Whether a worker has committed something that is not flushed: a page of the tables that it writes all the time is ahead of
 * the flushed log, and the newest transaction on it is committed.
 */
export async function losesCommits(db: pg.ClientBase): Promise<boolean> {
  const { rows } = await db.query<{ loses: boolean }>(
    `with pages as materialized (
       select power_cuts.get_raw_page(t.name, n::int) as page
       from unnest('{sync.stored_run_streams, sync.coverage, sync.credit_minutes}'::text[]) t (name),
         generate_series(0, pg_relation_size(t.name::regclass) / 8192 - 1) n)
     select exists (
       select from pages
       where (power_cuts.page_header(page)).lsn > pg_current_wal_flush_lsn() and pg_xact_status((
         select max(greatest(i.t_xmin::text::bigint, i.t_xmax::text::bigint)) from power_cuts.heap_page_items(page) i
       )::text::xid8) = 'committed') as loses`,
  );
  return rows[0]!.loses;
}
