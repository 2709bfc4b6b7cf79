/**
 * A table's declaration in, the SQL of its merge out. The text of a page goes to Postgres as one parameter and is taken
 * apart there (measured: 50,000 rows/s, twice what unnest or COPY to a stage reach); what is unchanged is left out by a
 * pre-filter, so that a replayed page writes nothing: no lock, no dead row, no WAL.
 *
 * Parameters of every merge: $1 the page as JSON text, $2 account, $3 now, $4 as_of of the reply, $5 the run, $6 the time by
 * which the reply was true (null: not noted), $7… the table's own.
 */

/** One column: its name, the SQL that takes it out of `record`, and whether `_payload` lacks it. */
export interface Column {
  readonly name: string;
  readonly sql: string;
  /** True for what `_payload` does not hold: a change of it alone is a change of the row. */
  readonly apart?: boolean;
  /** The field that it comes from, where that has another name. */
  readonly field?: string;
  /** The outermost field that it comes from, where it is a field of a field. */
  readonly within?: string;
  /** SQL for the part of a value that does not vary from reply to reply: only this part is compared. */
  readonly alike?: (value: string) => string;
}

export interface Table {
  /** With its schema: `helpdesk.tickets`. */
  readonly name: string;
  /** The columns that name a row, with the account; `id` unless told. */
  readonly key?: readonly string[];
  /** The SQL `from` that yields `record` (jsonb) and `n` (its place); see `page` and `within`. */
  readonly from: string;
  readonly columns: readonly Column[];
  /**
   * Fields that do not belong to `_payload`: other tables' records, long texts with a column of their own, what varies
   * without meaning. `a.b` is the field b of a.
   */
  readonly leftOut?: readonly string[];
  /**
   * The column that only grows at the source, where there is one: when the record changed there. Such a table has `_true_by` too,
   * the time by which the reply was true that the row comes from.
   */
  readonly version?: string;
  /**
   * Where the order of commits is the order of replies, since one reader at a time holds the token: no reply need be later
   * than the one before to count.
   */
  readonly oneReader?: boolean;
  /** SQL over `t`, the row that is there: it is left alone. */
  readonly passOver?: string;
  /** Written once, never compared or changed: SQL by column. */
  readonly atFirst?: Readonly<Record<string, string>>;
  /** Set when a record that is there is written over: SQL by column, over `t`, the row that is there, and `excluded`. */
  readonly whenChanged?: Readonly<Record<string, string>>;
  /** Columns that say more of a tombstone, and are null without one. */
  readonly ofTombstone?: readonly string[];
  /** The column of the tombstone, where it has another name than `_deleted_at`. */
  readonly tombstone?: string;
  /**
   * Columns of our own, and what they must hold in a living row: SQL over `t`, $4 (as_of of the reply) and $5 (now). They
   * are compared like columns of the source.
   */
  readonly ours?: Readonly<Record<string, string>>;
  /** Members of a set that belongs to a parent: those the parent no longer shows are removed. */
  readonly parent?: string;
}

/** Rows that are only a relation (`ticket_labels`) or a mere id (`labels` before their name is known). */
export interface Mention {
  readonly name: string;
  /** SQL for the rows, of what was written of its table: selects the key columns; `$2` is the account. */
  readonly rows: string;
  /** The columns that it takes for that. */
  readonly of: readonly string[];
  readonly key: readonly string[];
  /** True for tables that carry `_first_seen_at` and `_synced_at`. */
  readonly dated: boolean;
  readonly parent?: string;
}

export interface Merge {
  /**
   * Upserts a page; answers one row: seen, inserted, updated, updated_ids; and changed_ms: when those changed that came in a
   * newer version, after the mirror began, or null.
   */
  readonly upsert: string;
  /**
   * The same for a text that nobody has looked through for people who were erased: where somebody of the account was, it stores
   * nothing, and answers `erased`. For a stream, also whether it has `rejects` that are open, and `suspects`.
   */
  readonly unscreened: string;
  /** The same, written over rows that differ from their own `_payload` too, whatever their version, if no later reply wrote them: for what is repaired. */
  readonly forced: string;
  /** Removes what vanished from the sets of the parents `$3` (text[]), given the page `$1` and the account `$2`; answers one row: deleted. */
  readonly removal: string | undefined;
  readonly declared: Declared;
}

/** What a merge was built from. */
export interface Declared {
  readonly root: Table;
  readonly others: readonly Table[];
  readonly mentions: readonly Mention[];
}

// --- the vocabulary of declarations ------------------------------------------------------------------------------

export const text = (field: string, name = field): Column => ({
  name,
  sql: `record ->> '${field}'`,
  ...(name !== field && { field }),
});
/** By way of numeric: an integer may be written as 1024.0 or 1e3. */
export const bigint = (field: string): Column => ({ name: field, sql: `(record ->> '${field}')::numeric::bigint` });
export const boolean = (field: string): Column => ({ name: field, sql: `(record ->> '${field}')::boolean` });
export const time = (field: string): Column => ({ name: field, sql: `(record ->> '${field}')::timestamptz` });

// A field of a field, `a.b`, in a column of another name. What has another type than it should is null, and stays in `_payload`.
export const textAt = (path: string, name: string): Column => ({
  name,
  within: outermost(path),
  sql: `record #>> '${deep(path)}'`,
});
export const textsAt = (path: string, name: string): Column => ({
  name,
  within: outermost(path),
  sql: `case when jsonb_typeof(record #> '${deep(path)}') = 'array'
      then array(select jsonb_array_elements_text(record #> '${deep(path)}')) end`,
});
/** Of the text of the number: 1.334E7 and 12.10 are what they say, whatever a double would make of them. */
export const numericAt = (path: string, name: string): Column => ({
  name,
  within: outermost(path),
  sql: `case when record #>> '${deep(path)}' ~ '^-?[0-9]{1,40}([.][0-9]{1,40})?([eE][+-]?[0-9]{1,2})?$'
      then (record #>> '${deep(path)}')::numeric end`,
});
export const bigintAt = (path: string, name: string): Column => ({
  name,
  within: outermost(path),
  sql: `case when record #>> '${deep(path)}' ~ '^-?[0-9]{1,18}([.]0+)?$' then (record #>> '${deep(path)}')::numeric::bigint end`,
});
/** A time of RFC 3339: what is none (a 30th of February) is null, and stays in `_payload`. */
export const timeAt = (path: string, name: string): Column => ({
  name,
  within: outermost(path),
  sql: `case when record #>> '${deep(path)}' ~ '^[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?([Zz]|[+-](0[0-9]|1[0-4]):?[0-5][0-9])$'
        and substr(record #>> '${deep(path)}', 9, 2)::int <= extract(day from
          make_date(substr(record #>> '${deep(path)}', 1, 4)::int, substr(record #>> '${deep(path)}', 6, 2)::int, 1)
          + interval '1 month - 1 day')
      then (record #>> '${deep(path)}')::timestamptz end`,
});
const outermost = (path: string) => path.replace(/\..*$/, '');
const deep = (path: string) => `{${path.split('.').join(',')}}`;

export const texts = (field: string): Column => ({
  name: field,
  sql: `case when jsonb_typeof(record -> '${field}') = 'array'
      then array(select jsonb_array_elements_text(record -> '${field}')) end`,
});
/** A column that `_payload` lacks. */
export const apart = (column: Column): Column => ({ ...column, apart: true });
/** A column that does not come from the record itself. */
export const derived = (name: string, sql: string): Column => ({ name, sql, apart: true });

/** Every record of the page, which is a JSON array. */
export const page = `jsonb_array_elements($1::jsonb) with ordinality as e (record, n)`;

/** An array within `json`, or nothing where it is null or absent. */
export const elements = (json: string): string =>
  `jsonb_array_elements(case when jsonb_typeof(${json}) = 'array' then ${json} end)`;

/**
 * SQL: from here on the transaction's changes of rows are kept in sync.changes; with now, as_of (null: of the tombstone) and the run,
 * and the time by which the reply was true, where there is a reply.
 */
export const keepChanges = (now: string, asOf: string, run: string, trueBy = 'null'): string =>
  `set_config('shelfdesk.merge', jsonb_build_object('seen_at', ${now}::timestamptz, 'as_of', ${asOf}::timestamptz, 'run', ${run}::bigint,
    'true_by', ${trueBy}::timestamptz)::text, true)`;

// --- declaration → SQL -------------------------------------------------------------------------------------------

/** The merge of a page: first its own table, then what hangs on it. */
export function buildMerge(root: Table, others: readonly Table[] = [], mentions: readonly Mention[] = []): Merge {
  const short = shortName(root);
  const upsert = (forced: boolean, screened: boolean) => {
    const shown = [...new Set(mentions.flatMap(({ of }) => of))];
    const ctes = [
      ...(screened ? [] : ['asked as materialized (select sync.any_erased($2) as erased)']),
      ...upsertCtes(
        screened ? root : { ...root, from: `${root.from} where not (select erased from asked)` },
        forced,
        shown,
      ),
      ...others.flatMap(table => upsertCtes(table, forced, [])),
      ...mentions.map(mentionCte),
    ];
    return `with ${ctes.join(',\n')}
select ${keepChanges('$3', '$4', '$5', '$6')}, (select count(*) from ${short}_row)::int as seen,
  (select count(*) from ${short}_written where inserted)::int as inserted,
  (select count(*) from ${short}_written where not inserted)::int as updated,
  (select coalesce(array_agg(id), '{}') from ${short}_written where not inserted) as updated_ids,
  ${changedMs(root)} as changed_ms, ${passedOver(root)} as passed_over, ${takenOver([root, ...others])} as taken_over${screened ? '' : `, (select erased from asked) as erased, ${standing(root.name)}`}`;
  };
  return {
    declared: { root, others, mentions },
    upsert: upsert(false, true),
    unscreened: upsert(false, false),
    forced: upsert(true, true),
    removal: removal(root, others, mentions),
  };
}

/** What there may be to clear: mostly nothing, and then nobody asks for it by ids. */
const standing = (key: string): string => `exists (
    select from sync.rejects j where j.account_id = $2 and j.stream_key = '${key}' and j.cleared_at is null) as rejects,
  exists (select from sync.deletion_candidates s where s.account_id = $2 and s.stream_key = '${key}') as suspects`;

/** By id the version of each record that differs from its row, and was taken for an older one; null for none. */
function passedOver(root: Table): string {
  if (root.version === undefined) return 'null::jsonb';
  const short = shortName(root);
  return `(select jsonb_object_agg(p.id, p.record ->> '${root.version}') from ${short}_there p
    where not p.is_same and not exists (select from ${short}_again w where w.id = p.id))`;
}

/** By table how many rows were another record's, and are of this one now. */
function takenOver(tables: readonly Table[]): string {
  const counts = tables
    .filter(({ parent }) => parent !== undefined)
    .map(table => `'${shortName(table)}', (select count(*) from ${shortName(table)}_there where is_of_other)`);
  return `jsonb_build_object(${counts.join(', ')})`;
}

/** The statement sees the rows as they were before it: a change that was here already came another time. */
function changedMs(root: Table): string {
  if (root.version === undefined) return 'null';
  return `(select array_agg(extract(epoch from w.changed_at)::float8 * 1000) from ${shortName(root)}_written w
    where w.changed_at > (select mirrored_since from sync.accounts where account_id = $2) and (
      select t.${root.version} >= w.changed_at and t._deleted_at is null from ${root.name} t
      where ${sameKey(['id'], 'w')}
      ${inKeyOrder(['id'])}) is not true)`;
}

/**
 * `tickets_row` (what names and compares the rows of the page, the last of each id), `tickets_there` (with what is here already),
 * `tickets_written`.
 *
 * What is new is inserted without asking anew whether it is there. If somebody else stores it at this very moment, the key is
 * refused, and the transaction is made again: see pool.ts.
 */
function upsertCtes(table: Table, forced: boolean, shown: readonly string[]): string[] {
  const short = shortName(table);
  const names = table.columns.map(column => column.name);
  const first = Object.entries(table.atFirst ?? {});
  // What is equal to its own `_payload` is so in every column; by force, nothing is taken for granted.
  const apartEqual = table.columns
    .filter(column => column.apart || forced)
    .map(({ name }) => `\n      and t.${name} is not distinct from r.${name}`)
    .join('');
  const timely = forced
    ? `\n      and not (${isAhead('t._synced_at', '$3')} or ${isAhead('t._observed_at', '$4')})`
    : '';
  const key = keyOf(table);
  // What `_payload` tells is taken out of the record only where it is written.
  const compared = table.columns.filter(column => forced || column.apart || key.includes(column.name));
  const values = table.columns.map(column => (compared.includes(column) ? column.name : column.sql));
  const passOver = table.passOver ? ` or ${table.passOver}` : '';
  // By force also a row that is equal counts as written, if others hang on it: a relation may be what differs.
  const unchanged =
    forced && table.parent === undefined
      ? 'false'
      : `(t._payload = r._payload and t._deleted_at is null${apartEqual}${timely}${passOver})`;
  // An id belongs to one record: another one that shows it takes the row over.
  const ofOther =
    table.parent === undefined
      ? ''
      : `, t.${table.parent} <> r.${table.parent} and t._deleted_at is null as is_of_other`;
  const insert = (
    where: string,
  ) => `insert into ${table.name} as t (account_id, ${[...names, ...first.map(([name]) => name)].join(', ')},
    _first_seen_at, _synced_at, _observed_at, ${table.version ? '_true_by, ' : ''}_payload)
  select $2, ${[...values, ...first.map(([, sql]) => sql)].join(',\n    ')}, $3, $3, $4, ${table.version ? '$6, ' : ''}_payload
  from ${short}_there where ${where}`;
  const returning = ['id', ...shown].map(name => `t.${name}`).join(', ');
  const changedAt = table.version ? `, t.${table.version} as changed_at` : '';
  return [
    rowCte({ ...table, columns: compared }),
    `${short}_there as materialized (
  select r.*, t.is_same${ofOther && ', t.is_of_other'}
  from ${short}_row r left join lateral (
    select coalesce(${unchanged}, false) as is_same${ofOther} from ${table.name} t
    where ${sameKey(key, 'r')}
    ${inKeyOrder(key)}) t on true
)`,
    `${short}_new as (
  ${insert('is_same is null')}
  returning ${returning}${changedAt}
)`,
    `${short}_again as (
  ${insert('not is_same')}
  on conflict (account_id, ${key.join(', ')}) do update set
    ${names
      .filter(name => !key.includes(name))
      .map(name => `${name} = excluded.${name}`)
      .join(', ')},
    _synced_at = excluded._synced_at, _observed_at = excluded._observed_at,${table.version ? ' _true_by = excluded._true_by,' : ''}
    ${['_deleted_at', ...(table.ofTombstone ?? [])].map(name => `${name} = null`).join(', ')},
    ${Object.entries(table.whenChanged ?? {})
      .map(([name, sql]) => `${name} = ${sql},`)
      .join('\n    ')}
    _payload = excluded._payload
  where ${forced ? `(t._observed_at <= excluded._observed_at or ${isAhead('t._observed_at', 'excluded._observed_at')})` : isNewer(table)}
  returning ${returning}${changedAt}
)`,
    `${short}_written as (
  select *, true as inserted from ${short}_new
  union all
  select *, false from ${short}_again
)`,
  ];
}

/**
 * Rows of `t` with this key, which `row` has (under other names). The last part of it is given as a range, and to be asked for in
 * its order: no other index has both, so that a plan made while the tables are empty, where all indexes look alike, finds rows by
 * their key ever after.
 */
export const sameKey = (key: readonly string[], row: string, names = key): string =>
  [
    't.account_id = $2',
    ...key.slice(0, -1).map((name, i) => `t.${name} = ${row}.${names[i]}`),
    `t.${key.at(-1)} >= ${row}.${names.at(-1)} and t.${key.at(-1)} <= ${row}.${names.at(-1)}`,
  ].join(' and ');
const inKeyOrder = (key: readonly string[]): string => `order by t.${key.at(-1)} limit 1`;

export const keyOf = ({ key = ['id'] }: Table) => key;

/** SQL: no clock goes so wrong that a worker writes such a time; a hand does. */
export const isAhead = (time: string, now: string): string => `${time} - interval '1 day' > ${now}`;

/** Whether what came goes before the row that is there. */
function isNewer({ version, oneReader, passOver }: Table): string {
  if (oneReader) return passOver ? `not (${passOver})` : 'true';
  const later = version ? `(${laterVersion(version)})` : 't._observed_at < excluded._observed_at';
  // What is shown after a tombstone is there, in whatever version it came back.
  return `(t._deleted_at <= excluded._observed_at or t._deleted_at is null and ${later})`;
}

/**
 * SQL: whether the record is later than the row, though either may be dated ahead of its change.
 *
 * A row `t` shows the ticket as it was at some time between `t._observed_at` less the lookback (a copy of the source may lag
 * that much) and `t._true_by`. A change after that time is dated later than the first bound, if it is dated right. So:
 *   - a row that is dated at or before the first bound is not ahead of any later change: the greater version is later;
 *   - against any other row, a record is later too if it is dated at or after `_true_by`, or if its reply, less the lookback,
 *     is as of `_true_by` or later;
 *   - a record in between may be from before the row or from after it: noteHeld in crowds.ts has it read again.
 *
 * A record that is dated ahead of its own reply proves nothing by its date. It is later than a row of the past only if its reply,
 * less the lookback, is as of the row's date or later. Until then it stays at the end of the list, unclaimed, and is read again.
 */
export function laterVersion(version: string): string {
  const [trueBy, past] = [rowTrueBy('t'), rowTrueBy('excluded')];
  const lookback = '(select a.lookback from sync.accounts a where a.account_id = $2)';
  return `(t.${version}, t._observed_at) < (excluded.${version}, excluded._observed_at)
        and (excluded.${version} < ${past} or t._observed_at < excluded._observed_at
          and (t.${version} >= ${trueBy} or excluded._observed_at - ${lookback} >= t.${version}))
      or t._observed_at < excluded._observed_at and t.${version} > t._observed_at - ${lookback}
        and (excluded.${version} >= ${trueBy} and excluded.${version} < ${past}
          or excluded._observed_at - ${lookback} >= ${trueBy})`;
}

/** SQL: where `_true_by` was not noted, the row was so within a minute after `_observed_at`. A request takes half of that at most. */
export const rowTrueBy = (row: string): string =>
  `coalesce(${row}._true_by, ${row}._observed_at + interval '1 minute')`;

/** SQL for `record` without these fields. */
export function without(fields: readonly string[]): string {
  const plain = fields.filter(field => !field.includes('.'));
  const inner = fields.filter(field => field.includes('.')).map(field => ` #- '${deep(field)}'`);
  return `record${plain.length > 0 ? ` - '{${plain.join(',')}}'::text[]` : ''}${inner.join('')}`;
}

export function rowCte(table: Table): string {
  const key = keyOf(table).join(', ');
  return `${shortName(table)}_row as (
  select distinct on (${key}) * from (
    select ${table.columns.map(({ name, sql }) => `${sql} as ${name}`).join(',\n      ')},
      ${without(table.leftOut ?? [])} as _payload, record, n
    from ${table.from}
  ) r
  order by ${key}, n desc
)`;
}

/** No pre-filter: what is there already is passed over by its key, unwritten. */
function mentionCte(mention: Mention): string {
  const dated = mention.dated ? ', _first_seen_at, _synced_at' : '';
  return `${mention.name.replace('.', '_')}_mentioned as (
  insert into ${mention.name} (account_id, ${mention.key.join(', ')}${dated})
  select distinct $2, ${mention.key.join(', ')}${mention.dated ? ', $3::timestamptz, $3::timestamptz' : ''}
  from (${mention.rows}) m
  on conflict do nothing
)`;
}

/** Rows of the parents `$3` that the page does not show. Only what the comparison needs is taken out of the page. */
function removal(root: Table, others: readonly Table[], mentions: readonly Mention[]): string | undefined {
  const short = shortName(root);
  const sets = [root, ...others].filter(table => table.parent !== undefined);
  const removed = [
    ...sets.map(table => deleteBut(table.name, table.parent!, ['id', table.parent!], `${shortName(table)}_row`)),
    ...mentions
      .filter(({ parent }) => parent !== undefined)
      .map(({ name, parent, key, rows }) => deleteBut(name, parent!, key, `(${rows})`)),
  ];
  if (removed.length === 0) return undefined;
  const needed = (table: Table) => ({
    ...table,
    columns: table.columns.filter(({ name }) => name === 'id' || name === table.parent),
  });
  const rows = [
    rowCte(root.parent === undefined ? root : needed(root)),
    // It is limited to its parents by `$3`, so every row of the page may stand for a written one.
    `${short}_written as (select * from ${short}_row)`,
    ...sets.filter(table => table !== root).map(table => rowCte(needed(table))),
  ];
  return `with ${[...rows, ...removed.map((sql, i) => `removed_${i} as (${sql}\nreturning 1)`)].join(',\n')}
select (${removed.map((_, i) => `(select count(*) from removed_${i})`).join(' + ')})::int as deleted`;
}

/**
 * Parent by parent, in the order of their index (see sameKey), and then by place: where nothing is known of a table, the
 * planner takes an account for a small part of it, and would read the whole account in search of these parents.
 */
function deleteBut(table: string, parent: string, key: readonly string[], shown: string): string {
  return `delete from ${table}
where ctid = any (array(
  select k.place
  from unnest($3::text[]) as p (id)
  cross join lateral (
    select t.ctid as place, ${key.map(name => `t.${name}`).join(', ')}
    from ${table} t where ${sameKey([parent], 'p', ['id'])} order by t.${parent}
    offset 0) k
  where not exists (select from ${shown} s where ${key.map(name => `s.${name} = k.${name}`).join(' and ')})))`;
}

export function shortName(table: Pick<Table, 'name'>): string {
  return table.name.replace(/^.*\./, '');
}
