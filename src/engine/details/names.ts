/** Names that have no endpoint, as of labels. A request for a record in detail embeds those that the record mentions. */

import type { Name, Row } from '../../sources/source.ts';
import { elements } from '../commit/merge.ts';
import type { Care, Reject, Tx, Writer } from '../commit/page.ts';
import { attempt } from '../commit/rows.ts';
import type { Client, Queryable } from '../database/pool.ts';
import { parseJson } from '../exact-json.ts';
import type { Reply } from '../http/request.ts';
import { cleanJson, cleanText, elementsOf, fieldsOf, objectOf } from '../json-text.ts';
import type { Ms } from '../reading/reading.ts';
import { type Detail, type DueNames, idsOf, isDue, rowsOfParent, type Wanted } from './detail-rows.ts';

const fieldOf = (record: Row, field: string) =>
  (record as unknown as Readonly<Record<string, unknown>>)[field] ?? undefined;

/** Ids that the record mentions. */
export const mentioned = ({ ids }: Name, record: Row): string[] => ([fieldOf(record, ids) || []] as string[][]).flat();

/** Names in the record, valid or not. */
export function shownIn({ embed, many }: Name, record: Row): unknown[] {
  const shown = fieldOf(record, embed);
  if (many) return Array.isArray(shown) ? shown : [];
  return shown === undefined ? [] : [shown];
}

/** What a request embeds for the names that are due. */
export const embedsFor = ({ names }: Pick<Detail, 'names'>, due: DueNames): string[] =>
  names.map(({ embed }) => embed).filter(embed => (due[embed]?.length ?? 0) > 0);

/**
 * For each name that is unknown or was last shown before `namesMs`: a record that mentions it. Excludes the records in
 * `except`.
 */
export async function recordsForNames(
  db: Queryable,
  account: string,
  stream: Detail,
  except: readonly string[],
  namesMs: Ms,
): Promise<Wanted[]> {
  const { names } = stream;
  if (names.length === 0) return [];
  const due = names.map(
    ({ table, embed }) => `array(select n.id from ${table} n where n.account_id = $1 and ${isDue('$3')}) as "${embed}"`,
  );
  const shown = names.map(
    name =>
      `select '${name.embed}' as embed, n.id as name from unnest(${idsOf(name)}) n (id) where n.id = any(due."${name.embed}")`,
  );
  const { rows } = await db.query<{ id: string; embed: string; names: string[] }>(
    `with due as (select ${due.join(',\n         ')})
     select m.id, m.embed, array_agg(m.name) as names
     from (
       select min(t.id) as id, u.embed, u.name
       from due cross join ${rowsOfParent(stream).table} t
       cross join lateral (
         ${shown.join('\n         union all\n         ')}) u
       -- Without a name that is due, no record is read.
       where ${names.map(({ embed }) => `due."${embed}"`).join(' || ')} <> '{}' and t.account_id = $1 and t._deleted_at is null and t.id <> all($2)
       group by u.embed, u.name) m
     group by m.id, m.embed
     order by m.id`,
    [account, except, new Date(namesMs)],
  );
  const found = new Map<string, Record<string, string[]>>();
  for (const { id, embed, names: ids } of rows) found.set(id, { ...found.get(id), [embed]: ids });
  return [...found].map(([id, due]) => ({ id, due }));
}

/**
 * Stores the names that a reply embeds. `asked`: ids that were requested and that the record mentions. Such an id without a name in
 * the reply counts as answered: no more credits are spent until names are due again. An id that the record no longer mentions stays
 * due: another record will show its name.
 */
export async function storeNames(
  client: Client,
  account: string,
  { table, embed, many }: Name,
  { text, asked, at }: { text: string; asked: readonly string[]; at: { nowMs: Ms; asOfMs: Ms } },
): Promise<void> {
  const shown = many ? `$1::jsonb -> '${embed}'` : `jsonb_build_array($1::jsonb -> '${embed}')`;
  await client.query({
    name: `names of ${table}`,
    text: `insert into ${table} as t (account_id, id, name, _first_seen_at, _synced_at, _observed_at, _payload)
select $2, id, s.record ->> 'name', $3, $3, $4, s.record
from unnest($5::text[]) as asked (id)
full join (select distinct on (1) record ->> 'id' as id, record from ${elements(shown)} as e (record) where jsonb_typeof(record -> 'id') = 'string') s using (id)
where id is not null
on conflict (account_id, id) do update set
  name = coalesce(excluded.name, t.name),
  _synced_at = case when excluded.name is distinct from t.name then excluded._synced_at else t._synced_at end,
  _observed_at = excluded._observed_at,
  _payload = coalesce(excluded._payload, t._payload)
where t._observed_at is null or t._observed_at < excluded._observed_at`,
    values: [text, account, new Date(at.nowMs), new Date(at.asOfMs), asked],
  });
}

/**
 * Stores the names that a reply embeds, as far as they were requested and the record still mentions them. Returns what PostgreSQL
 * refused, and the number of cleaned characters.
 */
export async function writeNames(
  { client, claim, at, care }: Tx<Writer>,
  { names }: Pick<Detail, 'names'>,
  reply: Reply<Row>,
  record: Row,
  { id, due = {} }: Wanted,
): Promise<{ refused: Reject[]; cleaned: number }> {
  const refused: Reject[] = [];
  let cleaned = 0;
  for (const name of names) {
    const requested = due[name.embed] ?? [];
    if (requested.length === 0) continue;
    const ids = mentioned(name, record).map(one => cleanText(one).text);
    const left = new Set(requested.filter(one => ids.includes(one)));
    for (const part of nameTexts(name, reply, care)) {
      const { text, shows } = part;
      const asked = shows === undefined ? [...left] : [];
      const give = () => storeNames(client, claim.account, name, { text, asked, at });
      const refusal = care === 'one by one' ? await attempt(client, give) : await give();
      if (refusal) refused.push({ askId: id, reason: refusal.message, payload: text });
      if (refusal && shows !== undefined) left.delete(shows);
      cleaned += part.cleaned;
    }
  }
  return { refused, cleaned };
}

function idIn(json: string): string {
  const id = fieldsOf(json).get('id');
  return id?.startsWith('"') ? cleanText(String(parseJson(id))).text : '';
}

interface NamePart {
  readonly text: string;
  readonly cleaned: number;
  /** The id of the only name in this part. Undefined for the part that marks all requested names as answered. */
  readonly shows?: string;
}

/** The embedded names as JSON parts. With care 'one by one', each name is a part of its own. */
function nameTexts(name: Name, reply: Reply<Row>, care: Care): NamePart[] {
  if (care === 'as it came') return [{ text: reply.text, cleaned: 0 }];
  const shown = fieldsOf(reply.text).get(name.embed) ?? 'null';
  const field = (text: string) => cleanJson(objectOf([[name.embed, text]]));
  if (care === 'cleaned') return [field(shown)];
  const isMany = shown.startsWith('[');
  const each = (isMany ? elementsOf(shown) : [shown]).map(one => ({
    ...field(isMany ? `[${one}]` : one),
    shows: idIn(one),
  }));
  return [...each, field('null')];
}
