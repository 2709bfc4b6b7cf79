/**
 * The field rules that the warehouse keeps (sync.field_rules). They say what was left out of its rows, so a process that does not
 * apply them must not write: it would bring back what may not be kept.
 */
import { createHmac } from 'node:crypto';
import type pg from 'pg';
import { durably, transaction } from '../../engine/database/pool.ts';
import type { StreamKey } from '../../engine/database/stream-key.ts';
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
  return transaction(
    db,
    async client => {
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
    },
    durably,
  );
}

/** Who pauses a stream that a rule leaves out whole. */
const pauser = 'FIELD_RULES';

/** Pauses the streams that a rule leaves out whole, if the account mirrors them. A stream that is paused keeps its pause. */
export async function pauseLeftOut(
  db: pg.Pool,
  account: string,
  of: FieldRules | undefined,
  streams: readonly { readonly name: string; readonly key: StreamKey }[],
  now: Date,
): Promise<void> {
  const kinds = (of?.rules ?? []).filter(({ whole }) => whole).map(({ kind }) => kind);
  const keys = streams.filter(({ name }) => kinds.includes(name)).map(({ key }) => key);
  if (keys.length === 0) return;
  await transaction(
    db,
    async client => {
      const reason = `${pauser} leaves it out`;
      const { rows } = await client.query<{ stream: string }>(
        `insert into sync.paused (account_id, source, stream, paused_at, paused_by, reason)
         select $1, k.source, k.stream, $3, $4, $5 from sync.streams k
         where k.stream_key = any ($2) and exists (
           select from sync.coverage c where c.account_id = $1 and c.source = k.source and c.stream in (k.stream, k.follows))
         order by k.place on conflict do nothing returning stream`,
        [account, keys, now, pauser, reason],
      );
      for (const { stream } of rows)
        await noteOperation(client, { account, who: pauser, action: 'pause', subject: stream, outcome: 'done' }, now);
    },
    durably,
  );
}

/** The rules of a process, as takeUp compares them with the stored ones. */
export const writtenOf = (of: FieldRules | undefined): string =>
  [...new Set(of?.rules.map(({ written }) => written))].sort().join(' ');

/**
 * Takes a rule out of the warehouse, so that its field is kept again. Returns the stream that is no longer paused, if the rule left
 * it out whole. Throws UsageError if the warehouse has no such rule.
 */
export async function liftRule(
  db: pg.Pool,
  { account, who, rule }: { account: string; who: string; rule: string },
  now: Date,
): Promise<string | undefined> {
  return transaction(
    db,
    async client => {
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
      const { rows } = await client.query<{ stream: string }>(
        'delete from sync.paused where account_id = $1 and stream = $2 and paused_by = $3 returning stream',
        [account, rule, pauser],
      );
      for (const { stream } of rows)
        await noteOperation(client, { account, who, action: 'resume', subject: stream, outcome: 'done' }, now);
      return rows[0]?.stream;
    },
    durably,
  );
}
