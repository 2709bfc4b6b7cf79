/**
 * Applies field rules to what the warehouse holds: rows, their old values, rejects, samples of drift and comparisons. In small
 * transactions, so that workers continue. It can be broken off and given again: what follows the rules already stays.
 */
import type pg from 'pg';
import type { Client } from '../../engine/database/pool.ts';
import { sql } from '../../engine/database/sql.ts';
import type { Stream } from '../../sources/source.ts';
import { forgetRequests } from '../personal-data-scan.ts';
import { rewriting, stepThrough } from './batches.ts';
import { concernsKind, type FieldRules } from './field-rules.ts';
import { blankReasons, rewriteRejects } from './rewrite-rejects.ts';
import { type Kept, rewriteChanges, rewriteHistories, rewriteRows } from './rewrite-rows.ts';

export interface Applying {
  readonly of: string;
  readonly seen: number;
  readonly changed: number;
}

/** The tables of the sources that a rule concerns. */
function tablesOf(of: FieldRules, streams: readonly Stream[]): Kept[] {
  const merged = streams.flatMap((stream): Kept[] => {
    const { root, others } = stream.merge.declared;
    return [root, ...others].map(table => ({
      ...{ kind: table.name, table },
      ...(table === root && stream.kind === 'detail' && { detail: stream }),
    }));
  });
  const further = Object.entries(of.kinds).flatMap(([kind, { tables = [] }]) => tables.map(table => ({ kind, table })));
  return [...merged, ...further].filter(({ kind }) => concernsKind(of, kind));
}

/** The streams, and tables with findings of their own, whose replies show records that a rule concerns. */
function keysOf(of: FieldRules, streams: readonly Stream[]): string[] {
  const tables = Object.entries(of.kinds).flatMap(([kind, { tables = [] }]) => (concernsKind(of, kind) ? tables : []));
  return [
    ...streams.filter(({ key }) => concernsKind(of, key)).map(({ key }) => key),
    ...tables.map(({ name }) => name),
  ];
}

/** `told` hears of each batch. */
export async function applyToStored(
  db: pg.Pool,
  account: string,
  rules: FieldRules,
  {
    streams,
    signal,
    now,
    told,
  }: {
    streams: readonly Stream[];
    signal: AbortSignal;
    now: Date;
    told: (one: Applying) => void;
  },
): Promise<Readonly<Record<string, number>>> {
  const of = { ...rules, isAgain: true };
  const tables = tablesOf(of, streams);
  const at = { db, account, signal };
  const counts: Record<string, number> = {};
  const add = (name: string, changed: number) => {
    counts[name] = (counts[name] ?? 0) + changed;
  };
  // A reject that is replayed meanwhile would bring back what its row has lost.
  for (const stream of streams)
    add('rejects', await stepThrough(at, (client, after) => rewriteRejects(client, account, of, stream, after)));
  for (const one of tables) {
    const { name } = one.table;
    const step = (client: Client, after: readonly string[]) => rewriteRows(client, account, of, one, { after, now });
    add(name, await stepThrough(at, step, (seen, changed) => told({ of: name, seen, changed })));
  }
  await rewriteHistories(at, of, add);
  add('changes', await stepThrough(at, (client, after) => rewriteChanges(client, account, of, tables, after)));
  const anyChanged = () => Object.values(counts).some(changed => changed > 0);
  await rewriting(db, client => settle(client, account, of, { keys: keysOf(of, streams), now, add, anyChanged }));
  return counts;
}

/** Removes values of ruled fields from drift, comparisons and reasons, and notes that the stored rules are applied. */
async function settle(
  client: Client,
  account: string,
  of: FieldRules,
  {
    keys,
    now,
    add,
    anyChanged,
  }: { keys: readonly string[]; now: Date; add: (name: string, changed: number) => void; anyChanged: () => boolean },
): Promise<void> {
  const drift = await client.query(sql`
    delete from sync.drift where account_id = ${account} and stream_key = any (${keys})`);
  add('drift', drift.rowCount ?? 0);
  const audit = await client.query(sql`
    update sync.audit a set differences = (
      select coalesce(jsonb_object_agg(d.key, '["left out", "left out"]'::jsonb), '{}') from jsonb_each(a.differences) d)
    where a.account_id = ${account} and a.stream_key = any (${keys}) and a.differences <> '{}'
      and exists (select from jsonb_each(a.differences) d where d.value <> '["left out", "left out"]')`);
  add('comparisons', audit.rowCount ?? 0);
  const { rowCount: pending } = await client.query(sql`
    update sync.field_rules set applied_at = ${now} where account_id = ${account}
      and full_rule = any (${of.rules.map(({ full }) => full)}) and applied_at is null`);
  const isFirst = (pending ?? 0) > 0;
  // Later texts quote what the rules have left.
  add('reasons', isFirst ? await blankReasons(client, account, keys) : 0);
  await forgetRequests(client, account);
  if (isFirst || anyChanged())
    await client.query(sql`
      insert into sync.lake_pending (unit, account_id, id, erased) select 'rules', ${account}, '', true where exists (select from sync.lake)`);
}
