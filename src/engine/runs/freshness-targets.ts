/** Freshness targets, stored where SQL finds them: from the settings, at each start. */
import type pg from 'pg';

/** How far a stream may be behind, or how long a night may take. */
export interface Target {
  /** The key of a stream, or `nightly`. */
  readonly subject: string;
  readonly ms: number;
}

export async function keepTargets(db: pg.Pool, account: string, targets: readonly Target[]): Promise<void> {
  await db.query(
    `with given as (
       select subject, ms * interval '1 millisecond' as target from unnest($2::text[], $3::float8[]) g (subject, ms)),
     gone as (
       delete from sync.targets where account_id = $1 and subject <> all ($2::text[]))
     insert into sync.targets as t (account_id, subject, target) select $1, subject, target from given
     on conflict (account_id, subject) do update set target = excluded.target where t.target <> excluded.target`,
    [account, targets.map(({ subject }) => subject), targets.map(({ ms }) => ms)],
  );
}
