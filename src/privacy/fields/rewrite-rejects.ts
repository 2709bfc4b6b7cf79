/** Field rules on what is kept beside rows: rejects, and texts that may quote a value. */
import type { Client } from '../../engine/database/pool.ts';
import { sql } from '../../engine/database/sql.ts';
import { fieldsOf } from '../../engine/json-text.ts';
import type { Stream } from '../../sources/source.ts';
import { type Batch, nextRange, type Place } from './batches.ts';
import type { FieldRules } from './field-rules.ts';
import { ruledText, same } from './ruled-texts.ts';

/** The new reason of a reject whose payload was removed because it did not follow the rules. */
const taken = 'its payload held fields that a rule leaves out';
/** Instead of a text that may quote a value. */
const quoted = 'taken out: it may quote a field that a rule leaves out';

/** The kind of the records within those of a stream, if a merge of its own stores them. */
const membersIn = (stream: Stream): string[] =>
  stream.kind !== 'detail' && 'members' in stream ? [stream.members.merge.declared.root.name] : [];

/** The kinds of the records that a reject of the stream may hold. */
function kindsIn(stream: Stream, { payload, recordId, askId }: Rejected): string[] {
  if (stream.kind !== 'detail') return [stream.key, ...membersIn(stream)];
  const fields = payload.trimStart().startsWith('{') ? fieldsIn(payload) : [];
  if (fields.includes(stream.membersField)) return [stream.of.key];
  // The rejected record may be the parent or a member.
  return recordId === null || recordId === askId ? [stream.of.key, stream.key] : [stream.key];
}

function fieldsIn(payload: string): string[] {
  try {
    return [...fieldsOf(payload).keys()];
  } catch (error) {
    if (error instanceof SyntaxError) return [];
    throw error;
  }
}

interface Rejected {
  readonly payload: string;
  readonly recordId: string | null;
  readonly askId: string | null;
}

export async function rewriteRejects(
  client: Client,
  account: string,
  of: FieldRules,
  stream: Stream,
  after: Place,
): Promise<Batch> {
  const range = await nextRange(
    client,
    account,
    {
      ...{ rows: 'sync.rejects', key: ['id'], size: 'pg_column_size(t.payload)' },
      ...{ where: 't.payload is not null and t.stream_key = $2', values: [stream.key] },
    },
    after,
  );
  if (range === undefined) return { seen: 0, changed: 0, last: undefined };
  const { rows } = await client.query<Rejected & { id: number }>(
    `select t.id::float8 as id, t.payload, t.record_id as "recordId", t.ask_id as "askId" from sync.rejects t
     where ${range.where} for update`,
    [...range.values],
  );
  const ruled = rows.flatMap(row => {
    const kinds = kindsIn(stream, row);
    const text = kinds.reduce<string | undefined>(
      (one, kind) => (one === undefined ? undefined : ruledText(of, kind, one)),
      row.payload,
    );
    if (text !== undefined && same(text, row.payload)) return [];
    // A record that followed the rules of another kind too has lost fields that its row keeps.
    return [{ id: row.id, text: text ?? null, whole: text !== undefined && kinds.length === 1 }];
  });
  await client.query(sql`
    update sync.rejects j set payload = r.payload, reason = ${taken}, replayable = j.replayable and r.whole
    from unnest(${ruled.map(({ id }) => id)}::bigint[], ${ruled.map(({ text }) => text)}::text[],
      ${ruled.map(({ whole }) => whole)}::boolean[]) r (id, payload, whole) where j.id = r.id`);
  return { seen: rows.length, changed: ruled.length, last: range.last };
}

/** Texts about failures of these streams, from before the rules. Returns their number. */
export async function blankReasons(client: Client, account: string, keys: readonly string[]): Promise<number> {
  let changed = 0;
  for (const [table, column, further] of [
    ['sync.rejects', 'reason', 'payload is null'],
    ['sync.stored_run_streams', 'error', 'true'],
    ['sync.deletion_candidates', 'error', 'true'],
    ['sync.gap_reasons', 'reason', 'true'],
  ]) {
    const { rowCount } = await client.query(
      `update ${table} set ${column} = $3 where account_id = $1 and stream_key = any ($2) and ${column} not in ($3, $4) and ${further}`,
      [account, keys, quoted, taken],
    );
    changed += rowCount ?? 0;
  }
  return changed;
}
