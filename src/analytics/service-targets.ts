/** Manages service targets: how long a response and a resolution may take, by account, inbox and label. */
import type pg from 'pg';
import { type Queryable, transaction } from '../engine/database/pool.ts';
import { sql } from '../engine/database/sql.ts';
import { noteOperation } from '../engine/runs/operations.ts';
import { command } from '../engine/runs/pauses.ts';
import { UsageError } from '../errors.ts';
import { requireAccount, requireInboxes } from './calendars.ts';

export const metrics = ['first-response', 'next-reply', 'resolution', 'resolution-without-hold'] as const;
export type Metric = (typeof metrics)[number];

/** The tickets that a target is for. A null inbox or label means all of them. */
export interface TargetScope {
  readonly account: string;
  readonly metric: Metric;
  readonly inbox: string | null;
  readonly label: string | null;
}

export interface ServiceTarget extends TargetScope {
  readonly seconds: number;
  /** It holds for what begins at this time or later. Null: from the beginning. */
  readonly since: Date | null;
}

/** Columns keep the words of the metrics: first_response. */
const column = (metric: Metric): string => metric.replaceAll('-', '_');

/** The targets of an account, or of all, that hold now: from the general to the most specific one. */
export async function readServiceTargets(db: pg.Pool, account: string | undefined): Promise<ServiceTarget[]> {
  const { rows } = await db.query<ServiceTarget>(
    `select g.account_id as account, replace(g.metric, '_', '-') as metric, g.inbox_id as inbox, g.label_id as label, g.target_seconds as seconds,
       g.valid_from as since
     from analytics.service_targets g where g.valid_to is null and ($1::text is null or g.account_id = $1)
     order by g.account_id, g.metric, g.label_id nulls first, g.inbox_id nulls first`,
    [account ?? null],
  );
  return rows;
}

const ofScope =
  '(account_id, metric) = ($1, $2) and inbox_id is not distinct from $3 and label_id is not distinct from $4';
const valuesOf = ({ account, metric, inbox, label }: TargetScope) => [account, column(metric), inbox, label];

/** Of the targets of a scope, those that begin at this time or later go, and the one that holds then ends. Returns how many there were. */
async function endTargets(client: Queryable, scope: TargetScope, since: Date): Promise<number> {
  const values = [...valuesOf(scope), since];
  const { rowCount: gone } = await client.query(
    `delete from internal.stored_service_targets where ${ofScope} and valid_from >= $5`,
    values,
  );
  const { rowCount: ended } = await client.query(
    `update internal.stored_service_targets set valid_to = $5 where ${ofScope} and (valid_to is null or valid_to > $5)`,
    values,
  );
  return (gone ?? 0) + (ended ?? 0);
}

/** Two changes at once would both find the same target. */
const lockTargets = (client: Queryable) =>
  client.query('lock table internal.stored_service_targets in share row exclusive mode');

/** Without `since` the first target of its metric holds from the beginning. Any later one holds from now on: it takes tickets from another. */
export async function setServiceTarget(
  db: pg.Pool,
  { since: asked, ...target }: Omit<ServiceTarget, 'since'> & { readonly since?: Date | undefined },
  who: string,
  now: Date,
): Promise<ServiceTarget> {
  const { account, metric, inbox, label, seconds } = target;
  return transaction(db, async client => {
    await requireAccount(client, account);
    await requireInboxes(client, account, inbox === null ? [] : [inbox]);
    if (label !== null) {
      const { rowCount } = await client.query(sql`
        select from helpdesk.labels where (account_id, id) = (${account}, ${label})`);
      if (rowCount === 0)
        throw new UsageError(
          `account '${account}' has no label ${label}`,
          'Run `npx shelfdesk sql "select account_id, id, name from helpdesk.labels"` for those that are known.',
        );
    }
    await lockTargets(client);
    const { rowCount } = await client.query(sql`
      select from internal.stored_service_targets where (account_id, metric) = (${account}, ${column(metric)})`);
    const since = asked ?? (rowCount === 0 ? null : now);
    if (since !== null) await endTargets(client, target, since);
    await client.query(
      `insert into internal.stored_service_targets (account_id, metric, inbox_id, label_id, target_seconds, valid_from)
       values ($1, $2, $3, $4, $5, $6)`,
      [...valuesOf(target), seconds, since],
    );
    const outcome = `within ${inHours(seconds)}${sinceWords(since)}`;
    await noteOperation(
      client,
      { account, who, action: 'target', subject: subject({ metric, inbox, label }), outcome },
      now,
    );
    return { ...target, since };
  });
}

/** `, for what begins from 2026-03-01T00:00:00Z on`; empty if it holds from the beginning. */
export const sinceWords = (since: Date | null): string =>
  since === null ? '' : `, for what begins from ${since.toISOString().replace('.000Z', 'Z')} on`;

/** What began while the target was in force keeps it. */
export async function removeServiceTarget(
  db: pg.Pool,
  scope: TargetScope,
  who: string,
  { now, since }: { readonly now: Date; readonly since: Date },
): Promise<void> {
  const { account } = scope;
  await transaction(db, async client => {
    await requireAccount(client, account);
    await lockTargets(client);
    if ((await endTargets(client, scope, since)) === 0)
      throw new UsageError(
        `account '${account}' has no service target for ${subject(scope)}`,
        `See ${command(account, 'warehouse target list')} for those that there are.`,
      );
    await noteOperation(
      client,
      { account, who, action: 'target', subject: subject(scope), outcome: `removed${sinceWords(since)}` },
      now,
    );
  });
}

/** `first-response, inbox i1, label l2` */
export const subject = ({ metric, inbox, label }: Omit<TargetScope, 'account'>): string =>
  [metric, ...(inbox === null ? [] : [`inbox ${inbox}`]), ...(label === null ? [] : [`label ${label}`])].join(', ');

/** `4h`, `1h30m`, `45m`: as the command reads it. */
export function inHours(seconds: number): string {
  const minutes = Math.round(seconds / 60);
  const [hours, rest] = [Math.floor(minutes / 60), minutes % 60];
  return `${hours === 0 ? '' : `${hours}h`}${rest === 0 ? '' : `${rest}m`}`;
}
