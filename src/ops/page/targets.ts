/**
 * How an account keeps its service targets, for the page: tickets of the four weeks up to which the mirror is complete. They are read once a minute
 * at most, because a visited page asks every few seconds.
 */
import type pg from 'pg';
import type { Clock } from '../../clock.ts';
import { sql } from '../../engine/database/sql.ts';
import { inSnapshot } from './overview.ts';

export interface TargetFigures {
  /** `first_response`, `next_reply`, `resolution`, `resolution_without_hold` */
  readonly metric: string;
  readonly met: number;
  readonly missed: number;
  readonly uncertain: number;
  readonly at_risk: number;
  readonly running: number;
}

const restMs = 60_000;

/** A row for each metric with a target. */
const read = (db: pg.Pool, account: string): Promise<TargetFigures[]> =>
  inSnapshot(db, async client => {
    const { rows: set } = await client.query<Pick<TargetFigures, 'metric'>>(sql`
      select distinct metric from analytics.service_targets where account_id = ${account} and valid_to is null order by 1`);
    if (set.length === 0) return [];
    const { rows } = await client.query<TargetFigures>(sql`
      select metric, count(*) filter (where outcome = 'met') as met, count(*) filter (where outcome = 'missed') as missed,
        count(*) filter (where outcome = 'uncertain') as uncertain, count(*) filter (where outcome = 'at_risk') as at_risk,
        count(*) filter (where outcome = 'running') as running
      from analytics.ticket_targets g
      where account_id = ${account}
        -- Of tickets that were resolved when the mirror first saw them, or whose messages are not all here, only quick ones could
        -- be decided.
        and case when metric in ('first_response', 'next_reply') then messages_complete else not is_done or (
          select m.last_closing_seen from analytics.ticket_metrics m where (m.account_id, m.ticket_id) = (g.account_id, g.ticket_id)) end
        and created_at >= (
        select complete_through from analytics.completeness where account_id = ${account} and source = 'helpdesk'
          and stream = 'tickets') - interval '28 days'
      group by metric`);
    const none = { met: 0, missed: 0, uncertain: 0, at_risk: 0, running: 0 };
    return set.map(({ metric }) => rows.find(row => row.metric === metric) ?? { metric, ...none });
  });

export function makeTargets(db: pg.Pool, clock: Clock): (account: string) => Promise<readonly TargetFigures[]> {
  const known = new Map<string, { readonly untilMs: number; readonly figures: Promise<readonly TargetFigures[]> }>();
  return account => {
    const before = known.get(account);
    if (before !== undefined && clock.monotonic() < before.untilMs) return before.figures;
    const figures = read(db, account);
    known.set(account, { untilMs: clock.monotonic() + restMs, figures });
    // A failure is shown, and not kept.
    figures.catch(() => known.delete(account));
    return figures;
  };
}
