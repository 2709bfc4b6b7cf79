/** Targets, stored where SQL finds them: from the settings at each start, and from the rotation of re-reading at each look. */
import type { Queryable } from '../database/pool.ts';

/** How far a stream may be behind, how long a night may take, or how old the last re-reading may be. */
export interface Target {
  /** The key of a stream, `nightly`, or `reread` with the key of a stream. */
  readonly subject: string;
  readonly ms: number;
}

/** `of`: these are all targets of the settings, or all of the re-reading of a source. */
export async function keepTargets(
  db: Queryable,
  account: string,
  targets: readonly Target[],
  of: 'settings' | { readonly rereadOf: string } = 'settings',
): Promise<void> {
  const pattern = of === 'settings' ? 'reread %' : `reread ${of.rereadOf}.%`;
  await db.query(
    `with given as (
       select subject, ms * interval '1 millisecond' as target from unnest($2::text[], $3::float8[]) g (subject, ms)),
     gone as (
       delete from sync.targets where account_id = $1 and subject <> all ($2::text[]) and (subject like $4) <> $5)
     insert into sync.targets as t (account_id, subject, target) select $1, subject, target from given
     on conflict (account_id, subject) do update set target = excluded.target where t.target <> excluded.target`,
    [account, targets.map(({ subject }) => subject), targets.map(({ ms }) => ms), pattern, of === 'settings'],
  );
}
