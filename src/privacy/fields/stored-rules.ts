/**
 * The field rules that the warehouse keeps (sync.field_rules). They say what was left out of its rows, so a process that does not
 * apply them must not write: it would bring back what may not be kept.
 */
import { createHmac } from 'node:crypto';
import type pg from 'pg';
import { transaction } from '../../engine/database/pool.ts';
import type { FieldRules } from '../../engine/http/field-rules.ts';
import { noteOperation } from '../../engine/runs/operations.ts';
import { command } from '../../engine/runs/pauses.ts';
import { UsageError } from '../../errors.ts';

export interface StoredRule {
  /** As the operator wrote it. */
  readonly rule: string;
  readonly since: Date;
  /** When the rows of before had been rewritten; null: not yet. */
  readonly applied_at: Date | null;
}

/** In the order of their text. */
export async function storedRules(db: Pick<pg.ClientBase, 'query'>, account: string): Promise<StoredRule[]> {
  const { rows } = await db.query<StoredRule>(
    'select rule, since, applied_at from sync.field_rules where account_id = $1 order by rule collate "C"',
    [account],
  );
  return rows;
}

/**
 * Stores new rules. From then on no process without them commits: the claims of running streams end, and takeUp asks for
 * them. Returns the rules that rows of before do not follow yet. Throws UsageError if a stored rule is missing, or if hashes
 * were made with another key.
 */
export async function keepFieldRules(
  db: pg.Pool,
  account: string,
  of: FieldRules | undefined,
  now: Date,
): Promise<readonly StoredRule[]> {
  const rules = [...new Set(of?.rules.map(({ written }) => written))];
  const mark = of && createHmac('sha256', of.key).update('mark').digest('hex').slice(0, 16);
  return transaction(db, async client => {
    await client.query('select from sync.accounts where account_id = $1 for update', [account]);
    const { rows } = await client.query<{ rule: string; key_mark: string | null }>(
      'select rule, key_mark from sync.field_rules where account_id = $1 order by rule collate "C"',
      [account],
    );
    const missing = rows.find(({ rule }) => !rules.includes(rule));
    if (missing !== undefined)
      throw new UsageError(
        `this warehouse keeps less of account '${account}': ${missing.rule}, which FIELD_RULES does not have`,
        `Add it to FIELD_RULES. To keep the field from now on: ${command(account, `fields lift ${missing.rule}`)}.`,
      );
    if (rows.some(({ key_mark }) => key_mark !== null && key_mark !== mark))
      throw new UsageError(
        `the hashes of account '${account}' were made with another key than FIELD_RULES_KEY`,
        'Set the key of before. Hashes of two keys cannot be compared.',
      );
    const added = rules.filter(rule => !rows.some(one => one.rule === rule));
    if (added.length > 0) {
      await client.query(
        `insert into sync.field_rules (account_id, rule, since, key_mark, applied_at)
         select $1, r.rule, $3, case when r.rule like '%:hash' then $4 end,
           case when not exists (select from sync.stored_runs s where s.account_id = $1) then $3::timestamptz end
         from unnest($2::text[]) r (rule)`,
        [account, added, now, mark],
      );
      await client.query(
        `update sync.stored_run_streams set token = token + 1, state = 'waiting', worker = null, job = null
         where account_id = $1 and state = 'running'`,
        [account],
      );
    }
    return (await storedRules(client, account)).filter(({ applied_at }) => applied_at === null);
  });
}

/** The rules of a process, as takeUp compares them with the stored ones. */
export const writtenOf = (of: FieldRules | undefined): string =>
  [...new Set(of?.rules.map(({ written }) => written))].sort().join(' ');

/** Takes a rule out of the warehouse, so that its field is kept again. Throws UsageError if there is none like it. */
export async function liftRule(
  db: pg.Pool,
  { account, who, rule }: { account: string; who: string; rule: string },
  now: Date,
): Promise<void> {
  await transaction(db, async client => {
    const { rowCount } = await client.query('delete from sync.field_rules where account_id = $1 and rule = $2', [
      account,
      rule,
    ]);
    if (rowCount === 0) {
      const stored = await storedRules(client, account);
      throw new UsageError(
        `the warehouse has no rule ${rule} for account '${account}'`,
        stored.length === 0 ? 'It has none at all.' : `It has: ${stored.map(one => one.rule).join(', ')}.`,
      );
    }
    await noteOperation(client, { account, who, action: 'field rules', subject: rule, outcome: 'lifted' }, now);
  });
}
