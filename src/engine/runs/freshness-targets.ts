/** Targets, stored where SQL finds them: from the settings at each start, and from the rotation of re-reading at each look. */
import type { Queryable } from '../database/pool.ts';
import { sql } from '../database/sql.ts';

/** How far a stream may be behind, how long a night may take, or how old the last re-reading may be. */
export interface Target {
  /** The key of a stream, `nightly`, or `reread` with the key of a stream. */
  readonly subject: string;
  readonly ms: number;
}

/** Others whose subject begins with `prefix` go. At a start all go: those of re-reading come with its first look. */
export async function keepTargets(
  db: Queryable,
  account: string,
  targets: readonly Target[],
  prefix = '',
): Promise<void> {
  const subjects = targets.map(({ subject }) => subject);
  await db.query(sql`
    with given as (
      select subject, ms * interval '1 millisecond' as target
      from unnest(${subjects}::text[], ${targets.map(({ ms }) => ms)}::float8[]) g (subject, ms)),
    gone as (
      delete from sync.targets where account_id = ${account} and subject <> all (${subjects}) and starts_with(subject, ${prefix}))
    insert into sync.targets as t (account_id, subject, target) select ${account}, subject, target from given
    on conflict (account_id, subject) do update set target = excluded.target where t.target <> excluded.target`);
}
