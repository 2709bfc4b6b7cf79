/**
 * Manages alarms: problems that are reported to people, one row from start to end of a problem (sync.alarms). This file
 * decides which notifications are due and which process sends them. Any number of processes may check, and each
 * notification is sent once, unless a process dies while sending it.
 */
import type pg from 'pg';
import { transaction, withPlansOfFunctions } from '../../engine/database/pool.ts';
import { query, sql } from '../../engine/database/sql.ts';
import { keptDays } from '../../engine/runs/kept-days.ts';
import { readProblems } from '../../status/problems.ts';

/** 'SHAL': held during the transaction that compares problems with alarms. */
const lockKey = 0x53_48_41_4c;

/** After this time another process takes over a notification whose sender died. */
const leaseMs = 60_000;
const minuteMs = 60_000;
/** A measured value swings around its limit. Such a problem ends after it was gone for this time. */
const swings = { problems: ['past_target'], holdMs: 10 * minuteMs };
/** Delays between failed deliveries, in minutes. The last one repeats forever. */
const againMinutes = [1, 5, 15, 60];
const keptMs = keptDays * 24 * 3_600_000;

export interface Alarm {
  readonly id: number;
  readonly account: string;
  readonly problem: string;
  /** Null for the whole account. */
  readonly stream: string | null;
  readonly severity: 'critical' | 'warning';
  readonly says: string;
  readonly remedy: string;
  readonly state: 'begin' | 'end';
  readonly since: Date;
  /** Null while the problem lasts. */
  readonly ended: Date | null;
  /** Number of delivery attempts, including the current one. */
  readonly tries: number;
}

export interface Watched {
  readonly accounts: readonly string[];
  /** Accounts with a webhook. */
  readonly told: readonly string[];
  readonly problems: readonly string[];
  /** A shorter problem is not reported; a problem that is gone for this time has ended. */
  readonly holdMs: number;
}

/** Opens and closes alarms according to the current problems, and marks due notifications. */
export async function compareProblems(
  db: pg.Pool,
  { accounts, told, problems, holdMs }: Watched,
  now: Date,
): Promise<void> {
  const holds = new Date(now.getTime() - holdMs);
  await transaction(
    db,
    async client => {
      const { rows } = await client.query<{ mine: boolean }>(sql`select pg_try_advisory_xact_lock(${lockKey}) as mine`);
      if (!rows[0]!.mine) return;
      const found = (await readProblems(client, accounts))
        .filter(({ severity, problem }) => severity === 'critical' || problems.includes(problem))
        .map(({ account, since: _, ...one }) => ({
          ...{ ...one, account_id: account, source: one.source ?? '', stream: one.stream ?? '' },
          stream_key: one.stream === null ? (one.source ?? '') : `${one.source}.${one.stream}`,
        }));
      await client.query(sql`
        with found as materialized (
          select * from json_to_recordset(${JSON.stringify(found)}) as f (account_id text, source text, stream text, stream_key text,
            problem text, severity text, says text, remedy text)),
        lasting as (
          update sync.alarms a set gone_at = null, severity = f.severity, says = f.says, remedy = f.remedy
          from found f
          where (a.account_id, a.problem, a.stream_key) = (f.account_id, f.problem, f.stream_key) and a.ended_at is null
            and (a.gone_at, a.severity, a.says, a.remedy) is distinct from (null::timestamptz, f.severity, f.says, f.remedy)),
        going as (
          update sync.alarms a set gone_at = ${now}
          where a.account_id = any (${accounts}) and a.ended_at is null and a.gone_at is null and not exists (
            select from found f where (a.account_id, a.problem, a.stream_key) = (f.account_id, f.problem, f.stream_key)))
        insert into sync.alarms (account_id, problem, source, stream, severity, says, remedy, began_at)
        select account_id, problem, source, stream, severity, says, remedy, ${now} from found
        on conflict (account_id, problem, stream_key) where ended_at is null do nothing`);
      await client.query(sql`
        delete from sync.alarms where account_id = any (${accounts}) and (ended_at < ${new Date(now.getTime() - keptMs)}
        or ended_at is null and begin_delivered_at is null and next_try_at is null
          and gone_at < began_at + ${holdMs} * interval '1 millisecond')`);
      // Without a webhook nothing is due, and problems that end meanwhile are not reported later.
      await client.query(sql`
        update sync.alarms set next_try_at = null, last_error = null
        where account_id = any (${accounts}) and account_id <> all (${told}) and next_try_at is not null`);
      await client.query(sql`
        with ended as (
          update sync.alarms set ended_at = gone_at, tries = case when begin_delivered_at is null then tries else 0 end,
            next_try_at = case when begin_delivered_at is not null and account_id = any (${told}) then ${now} else next_try_at end
          where account_id = any (${accounts}) and ended_at is null and gone_at <= case when problem = any (${swings.problems})
            then ${new Date(now.getTime() - swings.holdMs)}::timestamptz else ${holds} end)
        update sync.alarms set next_try_at = ${now}
        where account_id = any (${told}) and ended_at is null and gone_at is null and begin_delivered_at is null
          and next_try_at is null and began_at <= ${holds}`);
    },
    withPlansOfFunctions,
  );
}

/** Takes the next due notification. No other process tries it before the lease ends. */
export const takeAlarm = (db: pg.Pool, accounts: readonly string[], now: Date): Promise<Alarm | undefined> =>
  query(db).first`
    update sync.alarms set next_try_at = ${new Date(now.getTime() + leaseMs)}, tries = tries + 1
    where id = (
      select id from sync.alarms where account_id = any (${accounts}) and next_try_at <= ${now}
      order by next_try_at, id limit 1 for update skip locked)
    returning id, account_id as account, problem, case when stream <> '' then sync.name_of(stream_key) end as stream, severity, says, remedy,
      case when begin_delivered_at is null then 'begin' else 'end' end as state, began_at as since,
      case when begin_delivered_at is not null then ended_at end as ended, tries`;

/** Records a delivery. If the problem has ended meanwhile, the notification of its end is due next. */
export async function noteTold(db: pg.Pool, { id, state }: Pick<Alarm, 'id' | 'state'>, now: Date): Promise<void> {
  await db.query(
    state === 'begin'
      ? `update sync.alarms set begin_delivered_at = $2, tries = 0, last_error = null,
           next_try_at = case when ended_at is not null then $2::timestamptz end
         where id = $1 and begin_delivered_at is null`
      : `update sync.alarms set end_delivered_at = $2, last_error = null, next_try_at = null where id = $1`,
    [id, now],
  );
}

export async function noteUntold(db: pg.Pool, { id, tries }: Pick<Alarm, 'id' | 'tries'>, why: string, now: Date) {
  const minutes = againMinutes[Math.min(tries, againMinutes.length) - 1]!;
  await db.query(sql`
    update sync.alarms set last_error = ${why}, next_try_at = ${new Date(now.getTime() + minutes * minuteMs)} where id = ${id}`);
}
