/** Manages service targets: how long a first response and a resolution may take, by account, inbox and label. */
import type pg from 'pg';
import { transaction } from '../engine/database/pool.ts';
import { noteOperation } from '../engine/runs/operations.ts';
import { command } from '../engine/runs/pauses.ts';
import { UsageError } from '../errors.ts';
import { requireAccount, requireInboxes } from './calendars.ts';

export const metrics = ['first-response', 'resolution'] as const;
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
}

/** Columns keep the words of the metrics: first_response. */
const column = (metric: Metric): string => metric.replace('-', '_');

/** The targets of an account, or of all, from the general to the most specific one. */
export async function readServiceTargets(db: pg.Pool, account: string | undefined): Promise<ServiceTarget[]> {
  const { rows } = await db.query<ServiceTarget>(
    `select g.account_id as account, replace(g.metric, '_', '-') as metric, g.inbox_id as inbox, g.label_id as label, g.target_seconds as seconds
     from analytics.service_targets g where $1::text is null or g.account_id = $1
     order by g.account_id, g.metric, g.label_id nulls first, g.inbox_id nulls first`,
    [account ?? null],
  );
  return rows;
}

export async function setServiceTarget(
  db: pg.Pool,
  { account, metric, inbox, label, seconds }: ServiceTarget,
  who: string,
  now: Date,
): Promise<void> {
  await transaction(db, async client => {
    await requireAccount(client, account);
    await requireInboxes(client, account, inbox === null ? [] : [inbox]);
    if (label !== null) {
      const { rowCount } = await client.query('select from helpdesk.labels where (account_id, id) = ($1, $2)', [
        account,
        label,
      ]);
      if (rowCount === 0)
        throw new UsageError(
          `account '${account}' has no label ${label}`,
          'Run `npx shelfdesk sql "select account_id, id, name from helpdesk.labels"` for those that are known.',
        );
    }
    await client.query(
      `insert into internal.stored_service_targets (account_id, inbox_id, label_id, metric, target_seconds)
       values ($1, $2, $3, $4, $5)
       on conflict (account_id, inbox_id, label_id, metric) do update set target_seconds = excluded.target_seconds`,
      [account, inbox, label, column(metric), seconds],
    );
    const outcome = `within ${inHours(seconds)}`;
    await noteOperation(
      client,
      { account, who, action: 'target', subject: subject({ metric, inbox, label }), outcome },
      now,
    );
  });
}

export async function removeServiceTarget(db: pg.Pool, scope: TargetScope, who: string, now: Date): Promise<void> {
  const { account, metric, inbox, label } = scope;
  await transaction(db, async client => {
    await requireAccount(client, account);
    const { rowCount } = await client.query(
      `delete from internal.stored_service_targets g
       where g.account_id = $1 and g.metric = $2 and g.inbox_id is not distinct from $3 and g.label_id is not distinct from $4`,
      [account, column(metric), inbox, label],
    );
    if (rowCount === 0)
      throw new UsageError(
        `account '${account}' has no service target for ${subject(scope)}`,
        `See ${command(account, 'warehouse target list')} for those that there are.`,
      );
    await noteOperation(client, { account, who, action: 'target', subject: subject(scope), outcome: 'removed' }, now);
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
