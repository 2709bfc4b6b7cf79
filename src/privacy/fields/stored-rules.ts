/**
 * The field rules that the warehouse keeps (sync.field_rules). A process that does not apply them must not write: it
 * would store fields that the rules leave out.
 */
import { createHmac } from 'node:crypto';
import type pg from 'pg';
import { forgetAllStored } from '../../engine/commit/stored-sets.ts';
import { durably, transaction } from '../../engine/database/pool.ts';
import { query, sql } from '../../engine/database/sql.ts';
import type { StreamKey } from '../../engine/database/stream-key.ts';
import { noteOperation } from '../../engine/runs/operations.ts';
import { command } from '../../engine/runs/pauses.ts';
import { UsageError } from '../../errors.ts';
import type { FieldRules } from './field-rules.ts';
import { rulesIn } from './losses.ts';

export interface StoredRule {
  /** The rule in the spelling of the operator. */
  readonly rule: string;
  /** The rule with the key of its kind: see FieldRule. */
  readonly full_rule: string;
  readonly since: Date;
  /** When the rows stored before the rule were rewritten; null: not yet. */
  readonly applied_at: Date | null;
}

/** Reads the stored rules in the order of their text. */
export const storedRules = (db: Pick<pg.ClientBase, 'query'>, account: string): Promise<StoredRule[]> =>
  query(db).rows`
    select rule, full_rule, since, applied_at from sync.field_rules where account_id = ${account} order by rule collate "C"`;

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
  const rules = rulesIn(of);
  const mark = of && createHmac('sha256', of.key).update('mark of folded values').digest('hex').slice(0, 16);
  return transaction(
    db,
    async client => {
      await client.query(sql`select from sync.accounts where account_id = ${account} for update`);
      const { rows } = await client.query<{ rule: string; full_rule: string; key_mark: string | null }>(sql`
        select rule, full_rule, key_mark from sync.field_rules where account_id = ${account} order by rule collate "C"`);
      const missing = rows.find(({ full_rule }) => !rules.some(({ full }) => full === full_rule));
      if (missing !== undefined)
        throw new UsageError(
          `this warehouse keeps less of account '${account}': ${missing.rule}, which FIELD_RULES does not have`,
          `Add it to FIELD_RULES. To keep the field from now on: ${command(account, `warehouse fields lift ${missing.rule}`)}.`,
        );
      if (rows.some(({ key_mark }) => key_mark !== null && key_mark !== mark))
        throw new UsageError(
          `the hashes of account '${account}' were made with another key than FIELD_RULES_KEY`,
          'Set the key of before. Hashes of two keys cannot be compared.',
        );
      const added = rules.filter(({ full }) => !rows.some(one => one.full_rule === full));
      await client.query(sql`
        update sync.field_rules f set rule = r.rule
          from unnest(${rules.map(({ written }) => written)}::text[], ${rules.map(({ full }) => full)}::text[]) r (rule, full_rule)
        where f.account_id = ${account} and f.full_rule = r.full_rule and f.rule <> r.rule`);
      if (added.length > 0) {
        // A person who guesses what a rule takes out could tell by a proof that it was here.
        await forgetAllStored(client, account);
        await client.query(sql`
          insert into sync.field_rules (account_id, rule, full_rule, since, key_mark, applied_at)
          select ${account}, r.rule, r.full_rule, ${now}, case when r.full_rule like '%:hash' then ${mark} end,
            case when not exists (select from sync.stored_runs s where s.account_id = ${account}) then ${now}::timestamptz end
          from unnest(${added.map(({ written }) => written)}::text[], ${added.map(({ full }) => full)}::text[]) r (rule, full_rule)`);
        await client.query(sql`
          update sync.stored_run_streams set token = token + 1, state = 'waiting', worker = null, job = null
          where account_id = ${account} and state = 'running'`);
      }
      return (await storedRules(client, account)).filter(({ applied_at }) => applied_at === null);
    },
    durably,
  );
}

/** The name in `paused_by` if a rule leaves out a whole stream. */
const pauser = 'FIELD_RULES';

/** Pauses the streams that a rule leaves out whole, if the account mirrors them. A stream that is paused keeps its pause. */
export async function pauseLeftOut(
  db: pg.Pool,
  account: string,
  of: FieldRules | undefined,
  streams: readonly { readonly key: StreamKey }[],
  now: Date,
): Promise<void> {
  const kinds = (of?.rules ?? []).filter(({ whole }) => whole).map(({ kind }) => kind);
  const keys = streams.filter(({ key }) => kinds.includes(key)).map(({ key }) => key);
  if (keys.length === 0) return;
  await transaction(
    db,
    async client => {
      const reason = `${pauser} leaves it out`;
      const { rows } = await client.query<{ stream: string }>(sql`
        insert into sync.paused (account_id, source, stream, paused_at, paused_by, reason)
        select ${account}, k.source, k.stream, ${now}, ${pauser}, ${reason} from sync.streams k
        where k.stream_key = any (${keys}) and exists (
          select from sync.coverage c where c.account_id = ${account} and c.source = k.source and c.stream in (k.stream, k.follows))
        order by k.place on conflict do nothing returning stream`);
      for (const { stream } of rows)
        await noteOperation(client, { account, who: pauser, action: 'pause', subject: stream, outcome: 'done' }, now);
    },
    durably,
  );
}

/** The rules of a process, as takeUp compares them with the stored ones. */
export const fullRulesOf = (of: FieldRules | undefined): string =>
  rulesIn(of)
    .map(({ full }) => full)
    .sort()
    .join(' ');

/**
 * Takes a rule out of the warehouse, so that its field is kept again. `rule`: as it is stored, or with the key of its kind. Returns
 * the stream that is no longer paused, if the rule left it out whole. Throws UsageError if the warehouse has no such rule.
 */
export async function liftRule(
  db: pg.Pool,
  { account, who, rule }: { account: string; who: string; rule: string },
  now: Date,
): Promise<string | undefined> {
  return transaction(
    db,
    async client => {
      const { rows: gone } = await client.query<{ full_rule: string }>(sql`
        delete from sync.field_rules where account_id = ${account} and ${rule} in (rule, full_rule) returning full_rule`);
      if (gone[0] === undefined) {
        const stored = await storedRules(client, account);
        throw new UsageError(
          `the warehouse has no rule ${rule} for account '${account}'`,
          stored.length === 0 ? 'It has none at all.' : `It has: ${stored.map(one => one.rule).join(', ')}.`,
        );
      }
      await noteOperation(client, { account, who, action: 'field rules', subject: rule, outcome: 'lifted' }, now);
      const { rows } = await client.query<{ stream: string }>(sql`
        delete from sync.paused where account_id = ${account} and stream_key = ${gone[0].full_rule} and paused_by = ${pauser} returning stream`);
      for (const { stream } of rows)
        await noteOperation(client, { account, who, action: 'resume', subject: stream, outcome: 'done' }, now);
      return rows[0]?.stream;
    },
    durably,
  );
}
