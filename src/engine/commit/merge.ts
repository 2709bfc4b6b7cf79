/**
 * Builds the SQL of a merge from the declaration of a table. PostgreSQL gets the text of a page as one parameter and
 * parses it (measured: 50,000 rows/s, twice the rate of unnest or of COPY into a staging table). A pre-filter drops
 * unchanged records, so a replayed page writes nothing: no lock, no dead row, no WAL.
 *
 * One statement serves every way of a page (see `Way`), because most of what differs costs nothing where it is not asked.
 *
 * Parameters of every merge: $1 the page as JSON text, $2 account, $3 now, $4 as_of of the reply, $5 the run, $6 the
 * time by which the reply was true (null: not known), $7 the way, $8… parameters of the table.
 */
import { sourceOfKey } from '../database/stream-key.ts';

/** A column: its name, the SQL that reads it from `record`, and whether `_payload` lacks it. */
export interface Column {
  readonly name: string;
  readonly sql: string;
  /** True if `_payload` does not hold the value: a change of the value alone is a change of the row. */
  readonly apart?: boolean;
  /** The field of the record, if its name differs from the column. */
  readonly field?: string;
  /** The path of the value in the record, if the value is nested: `a.b`. */
  readonly path?: string;
  /** The path of the value in the record, if `_payload` lacks the value and its changes do not count. */
  readonly unstored?: readonly string[];
  /** SQL for the part of a value that stays the same from reply to reply. Only this part is compared. */
  readonly alike?: (value: string) => string;
}

export interface Table {
  /** With its schema: `helpdesk.tickets`. */
  readonly name: string;
  /** The table that stores the rows, if `name` is a view of it. */
  readonly rows?: string;
  /** The columns that identify a row within the account; default: `id`. */
  readonly key?: readonly string[];
  /** The SQL `from` that yields `record` (jsonb) and `n` (its place); see `page` and `within`. */
  readonly from: string;
  readonly columns: readonly Column[];
  /**
   * Fields that `_payload` leaves out: records of other tables, long texts with a column of their own, and values that
   * vary without meaning. `a.b` is the field b of a.
   */
  readonly leftOut?: readonly string[];
  /**
   * The column that grows with each change at the source, if the table has one. Such a table also has `_true_by`, the
   * time by which the reply was true that wrote the row.
   */
  readonly version?: string;
  /**
   * True if one reader at a time holds the token: commits come in the order of replies, so a reply need not prove that
   * it is later.
   */
  readonly oneReader?: boolean;
  /** SQL over `t`, the stored row: a matching row is left alone. */
  readonly passOver?: string;
  /** SQL by column: written once, never compared or changed. */
  readonly atFirst?: Readonly<Record<string, string>>;
  /** SQL by column, over `t` (the stored row) and `excluded`: set when a record overwrites its row. */
  readonly whenChanged?: Readonly<Record<string, string>>;
  /** Columns that describe a tombstone. They are null without one. */
  readonly ofTombstone?: readonly string[];
  /** The column of the tombstone, if it is not `_deleted_at`. */
  readonly tombstone?: string;
  /**
   * Columns of our own, and the value that a live row must have: SQL over `t`, $4 (as_of of the reply) and $5 (now).
   * They are compared like columns of the source.
   */
  readonly ours?: Readonly<Record<string, string>>;
  /** The parent of a set: members that the parent no longer shows are removed. */
  readonly parent?: string;
  /** SQL over `from`: the as_of of the reply that shows the record. Default: $4, that of all replies. */
  readonly asOf?: string;
}

/** Rows that hold only an id, as `labels` whose name is not known yet. */
export interface Mention {
  readonly name: string;
  /** SQL that selects `id` from the written rows; `$2` is the account. */
  readonly rows: string;
  /** The columns that this SQL reads. */
  readonly of: readonly string[];
}

/**
 * How a merge takes its text. `unfiltered`: nobody has searched it for erased people. If the account has any, the merge stores
 * nothing and returns `erased`. `by force`: a repair, which also overwrites rows that contradict their own `_payload`, whatever
 * their version, unless a later reply wrote them. The one reader of a table writes no earlier reply after a later one.
 */
export type Way = 'unfiltered' | 'filtered' | 'by force';
const [isUnfiltered, isForced] = [`$7 = 'unfiltered'`, `($7 = 'by force')`];

export interface Merge {
  /**
   * Upserts a page. Returns one row: seen, inserted, updated, updated_ids, and changed_ms: the times of changes that
   * are newer than the mirror, or null; whether it stored nothing because somebody was `erased`; and whether the stream
   * has open `rejects` and `candidates`.
   */
  readonly upsert: string;
  /**
   * Removes members that vanished from the sets of the parents `$3` (text[]), given the page `$1` and the account `$2`.
   * Returns one row: deleted. It is a statement of its own, because most pages change no set.
   */
  readonly removal: string | undefined;
  readonly declared: Declared;
}

/** Names its prepared statements, apart from those of other merges into the same table. */
export const nameOf = ({ declared: { root } }: Pick<Merge, 'declared'>): string =>
  root.passOver === undefined ? root.name : `${root.name}, but for ${root.passOver}`;

/** The declaration that a merge was built from. */
export interface Declared {
  readonly root: Table;
  readonly others: readonly Table[];
}

// --- declarations -------------------------------------------------------------------------------------------------

export const text = (field: string, name = field): Column => ({
  name,
  sql: `record ->> '${field}'`,
  ...(name !== field && { field }),
});
/** Casts through numeric: a source may write an integer as 1024.0 or 1e3. */
export const bigint = (field: string): Column => ({ name: field, sql: `(record ->> '${field}')::numeric::bigint` });
export const boolean = (field: string): Column => ({ name: field, sql: `(record ->> '${field}')::boolean` });
export const time = (field: string): Column => ({ name: field, sql: `(record ->> '${field}')::timestamptz` });

// A nested field, `a.b`, in a column of another name. A value of another type becomes null, and stays in `_payload`.
export const textAt = (path: string, name: string): Column => ({
  name,
  path,
  sql: `record #>> '${deep(path)}'`,
});
export const textsAt = (path: string, name: string): Column => ({
  name,
  path,
  sql: `case when jsonb_typeof(record #> '${deep(path)}') = 'array'
      then array(select jsonb_array_elements_text(record #> '${deep(path)}')) end`,
});
/**
 * Casts the text of the number: 1.334E7 and 12.10 keep their exact value, which a double would change. A number that is longer than
 * any that counts something might be none of PostgreSQL.
 */
export const numericAt = (path: string, name: string): Column => ({
  name,
  path,
  sql: `case when record #>> '${deep(path)}' ~ '^-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]{1,3})?$' and length(record #>> '${deep(path)}') <= 1000
      then (record #>> '${deep(path)}')::numeric end`,
});
export const bigintAt = (path: string, name: string): Column => ({
  name,
  path,
  sql: `case when record #>> '${deep(path)}' ~ '^-?[0-9]{1,18}([.]0+)?$' then (record #>> '${deep(path)}')::numeric::bigint end`,
});
export const booleanAt = (path: string, name: string): Column => ({
  name,
  path,
  sql: `case when jsonb_typeof(record #> '${deep(path)}') = 'boolean' then (record #> '${deep(path)}')::boolean end`,
});
/** A time as RFC 3339. An invalid time (30 February) becomes null, and stays in `_payload`. */
export const timeAt = (path: string, name: string): Column => ({
  name,
  path,
  sql: `case when record #>> '${deep(path)}' ~ '^[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?([Zz]|[+-](0[0-9]|1[0-4]):?[0-5][0-9])$'
        and ${isDay(path)}
      then (record #>> '${deep(path)}')::timestamptz end`,
});
/** A day as RFC 3339. */
export const dateAt = (path: string, name: string): Column => ({
  name,
  path,
  sql: `case when record #>> '${deep(path)}' ~ '^(?!0000)[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$'
        and ${isDay(path)}
      then (record #>> '${deep(path)}')::date end`,
});
const isDay = (path: string) => `substr(record #>> '${deep(path)}', 9, 2)::int <= extract(day from
          make_date(substr(record #>> '${deep(path)}', 1, 4)::int, substr(record #>> '${deep(path)}', 6, 2)::int, 1)
          + interval '1 month - 1 day')`;
const deep = (path: string) => `{${path.split('.').join(',')}}`;

export const texts = (field: string): Column => ({
  name: field,
  sql: `case when jsonb_typeof(record -> '${field}') = 'array'
      then array(select jsonb_array_elements_text(record -> '${field}')) end`,
});
/** The names that lead to the value of a column in its record. */
export const pathOf = ({ name, field, path, unstored }: Column): readonly string[] =>
  path?.split('.') ?? unstored ?? [field ?? name];
/** The outermost of them. */
export const fieldOf = (column: Column): string => pathOf(column)[0]!;
/** 0 means unknown. */
export const unlessZero = (column: Column): Column => ({ ...column, sql: `nullif(${column.sql}, 0)` });
/** A column that `_payload` lacks. */
export const apart = (column: Column): Column => ({ ...column, apart: true });
/** A column whose value does not come from the record. */
export const derived = (name: string, sql: string): Column => ({ name, sql, apart: true });

/** Every record of the page, which is a JSON array. */
export const page = `jsonb_array_elements($1::jsonb) with ordinality as e (record, n)`;

/** The elements of an array within `json`; no rows if the array is null or absent. */
export const elements = (json: string): string =>
  `jsonb_array_elements(case when jsonb_typeof(${json}) = 'array' then ${json} end)`;

/**
 * SQL: from here on, triggers write the transaction's changes of rows to sync.changes, with now, as_of (null: that of
 * the tombstone), the run, and the time by which the reply was true, if there was a reply.
 */
export const keepChanges = (now: string, asOf: string, run: string, trueBy = 'null'): string =>
  `set_config('shelfdesk.merge', jsonb_build_object('seen_at', ${now}::timestamptz, 'as_of', ${asOf}::timestamptz, 'run', ${run}::bigint,
    'true_by', ${trueBy}::timestamptz)::text, true)`;

// --- declaration → SQL -------------------------------------------------------------------------------------------

/** The merge of a page: first its own table, then the tables of its members. */
export function buildMerge(root: Table, others: readonly Table[] = [], mentions: readonly Mention[] = []): Merge {
  const short = shortName(root);
  const shown = [...new Set(mentions.flatMap(({ of }) => of))];
  const ctes = [
    `asked as materialized (select case when ${isUnfiltered} then sync.any_erased($2) else false end as erased)`,
    ...upsertCtes({ ...root, from: `${root.from} where not (select erased from asked)` }, shown),
    ...others.flatMap(table => upsertCtes(table, [])),
    ...mentions.map(mentionCte),
  ];
  return {
    declared: { root, others },
    upsert: `with ${ctes.join(',\n')}
select ${keepChanges('$3', '$4', '$5', '$6')}, (select count(*) from ${short}_row)::int as seen,
  (select count(*) from ${short}_written where inserted)::int as inserted,
  (select count(*) from ${short}_written where not inserted)::int as updated,
  (select coalesce(array_agg(id), '{}') from ${short}_written where not inserted) as updated_ids,
  ${changedMs(root)} as changed_ms, ${passedOver(root)} as passed_over, ${takenOver([root, ...others])} as taken_over,
  ${vanished(root, others)} as vanished, ${left([root, ...others])} as left_alone, (select erased from asked) as erased, ${standing(root.name)}`,
    removal: removal(root, others),
  };
}

/** Whether something may need clearing. Usually not, and then the merge does not look up ids. */
const standing = (key: string): string => `exists (
    select from sync.rejects j where j.account_id = $2 and j.stream_key = '${key}' and j.cleared_at is null) as rejects,
  exists (select from sync.deletion_candidates s where s.account_id = $2 and s.stream_key = '${key}') as candidates`;

/** By id, the version of each record that differs from its row and counted as the older one; null for none. */
function passedOver(root: Table): string {
  if (root.version === undefined) return 'null::jsonb';
  const short = shortName(root);
  const field = fieldOf(root.columns.find(({ name }) => name === root.version) ?? time(root.version));
  return `(select jsonb_object_agg(p.id, p.record ->> '${field}') from ${short}_there p
    where not p.is_same and not exists (select from ${short}_again w where w.id = p.id))`;
}

/** By table, the number of rows that moved from another parent record to this one. */
function takenOver(tables: readonly Table[]): string {
  const counts = tables
    .filter(({ parent }) => parent !== undefined)
    .map(table => `'${shortName(table)}', (select count(*) from ${shortName(table)}_there where is_of_other)`);
  return `jsonb_build_object(${counts.join(', ')})`;
}

/** How many records of the sets of a parent differ from their rows, and did not overwrite them. */
function left(tables: readonly Table[]): string {
  const counts = tables
    .filter(({ parent }) => parent !== undefined)
    .map(table => shortName(table))
    .map(short => `(select count(*) from ${short}_there where not is_same) - (select count(*) from ${short}_again)`);
  return counts.length === 0 ? '0' : `(${counts.join(' + ')})::int`;
}

/** Whether rows of a parent that the page shows are not in the page. Null if each record brings its own set. */
function vanished(root: Table, others: readonly Table[]): string {
  if (root.parent === undefined) return 'null::boolean';
  const left = (table: Table) => `exists (
    select from (select distinct ${root.parent} as id from ${shortName(root)}_row) p
    cross join lateral (select ${named(table, 't')} from ${rowsOf(table)} t where ${sameKey([table.parent!], 'p', ['id'])} order by t.${table.parent} offset 0) k
    where not exists (select from ${shortName(table)}_row r where (${named(table, 'r')}) = (${named(table, 'k')})))`;
  return [root, ...others.filter(({ parent }) => parent !== undefined)].map(left).join(' or ');
}

/** SQL: the columns of the key, of this row. */
export const named = (table: Table, row: string): string =>
  keyOf(table)
    .map(name => `${row}.${name}`)
    .join(', ');

/** The statement sees the rows as of its start, so a change that is already stored does not count again. */
function changedMs(root: Table): string {
  if (root.version === undefined) return 'null';
  return `(select array_agg(extract(epoch from w.changed_at)::float8 * 1000) from ${shortName(root)}_written w
    where w.changed_at > (select mirrored_since from sync.accounts where account_id = $2) and (
      select t.${root.version} >= w.changed_at and t._deleted_at is null from ${rowsOf(root)} t
      where ${sameKey(['id'], 'w')}
      ${inKeyOrder(['id'])}) is not true)`;
}

/**
 * Three CTEs: `tickets_row` (keys and compared values of the page, the last record of each id), `tickets_there` (the
 * same with the stored rows), `tickets_written`.
 *
 * New records are inserted without a second lookup. If another transaction inserts the same key at that moment,
 * PostgreSQL refuses the key, and the transaction is repeated (pool.ts).
 */
function upsertCtes(table: Table, shown: readonly string[]): string[] {
  const short = shortName(table);
  const names = table.columns.map(column => column.name);
  const first = Object.entries(table.atFirst ?? {});
  const key = keyOf(table);
  // Values that `_payload` holds are parsed only where they are written, or compared by force.
  const compared = table.columns.filter(column => column.apart || key.includes(column.name));
  const values = table.columns.map(column => (compared.includes(column) ? column.name : column.sql));
  // An id belongs to one record. Another record that shows it takes the row over.
  const ofOther =
    table.parent === undefined
      ? ''
      : `, t.${table.parent} <> r.${table.parent} and t._deleted_at is null as is_of_other`;
  const insert = (
    where: string,
  ) => `insert into ${rowsOf(table)} as t (account_id, ${[...names, ...first.map(([name]) => name)].join(', ')},
    _first_seen_at, _synced_at, _observed_at, ${table.version ? '_true_by, ' : ''}_payload)
  select $2, ${[...values, ...first.map(([, sql]) => sql)].join(',\n    ')}, $3, $3, ${table.asOf ? 'as_of' : '$4'}, ${table.version ? '$6, ' : ''}_payload
  from ${short}_there where ${where}`;
  const returning = ['id', ...shown].map(name => `t.${name}`).join(', ');
  const changedAt = table.version ? `, t.${table.version} as changed_at` : '';
  const observed = `t._observed_at <= excluded._observed_at or ${isAhead('t._observed_at', 'excluded._observed_at')}`;
  const isLater = table.oneReader
    ? isNewer(table)
    : `case when ${isForced} then (${observed}) else ${isNewer(table)} end`;
  return [
    rowCte({ ...table, columns: compared }),
    `${short}_there as materialized (
  select r.*, t.is_same${ofOther && ', t.is_of_other'}
  from ${short}_row r left join lateral (
    select coalesce(${isSame(table)}, false) as is_same${ofOther} from ${rowsOf(table)} t
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
      .map(name => `${name} = excluded.${name},`)
      .join(' ')}
    _synced_at = excluded._synced_at, _observed_at = excluded._observed_at,${table.version ? ' _true_by = excluded._true_by,' : ''}
    ${['_deleted_at', ...(table.ofTombstone ?? [])].map(name => `${name} = null`).join(', ')},
    ${Object.entries(table.whenChanged ?? {})
      .map(([name, sql]) => `${name} = ${sql},`)
      .join('\n    ')}
    _payload = excluded._payload
  where ${isLater}
  returning ${returning}${changedAt}
)`,
    `${short}_written as (
  select *, true as inserted from ${short}_new
  union all
  select *, false from ${short}_again
)`,
  ];
}

/** SQL: the stored row `t` says what the record `r` does, so nothing is written. */
function isSame(table: Table): string {
  const same = ({ name, alike = one => one }: Pick<Column, 'name' | 'alike'>, sql: string) =>
    `${alike(`t.${name}`)} is not distinct from ${alike(`(${sql})`)}`;
  const apart = table.columns.filter(column => column.apart).map(column => same(column, `r.${column.name}`));
  const usual = ['t._payload = r._payload', 't._deleted_at is null', ...apart];
  const all = (conditions: readonly string[]) => conditions.join('\n      and ');
  const passOver = table.passOver ? `\n      or ${table.passOver}` : '';
  // By force an equal row counts as written too, if other tables hang on it: a relation may be the difference.
  if (table.parent === undefined && !table.oneReader) return `not ${isForced} and (${all(usual)}${passOver})`;
  // A row that equals its `_payload` equals it in every column. A forced merge does not rely on that.
  const others = table.columns.filter(column => !column.apart && !keyOf(table).includes(column.name));
  const further = [
    ...others.map(column => same(column, column.sql)),
    `not (${isAhead('t._synced_at', '$3')} or ${isAhead('t._observed_at', '$4')})`,
    ...Object.entries((table.oneReader && table.ours) || {}).map(([name, sql]) => same({ name }, sql)),
  ];
  return `(${all([...usual, `(not ${isForced} or ${all(further)})`])}${passOver})`;
}

/**
 * SQL: the row of `t` with the key that `row` holds (under other names). The last key column is compared as a range, in
 * its order. Only the primary key serves both, so a plan made while the tables are empty, when all indexes look alike,
 * still finds rows by their key later.
 */
export const sameKey = (key: readonly string[], row: string, names = key): string =>
  [
    't.account_id = $2',
    ...key.slice(0, -1).map((name, i) => `t.${name} = ${row}.${names[i]}`),
    `t.${key.at(-1)} >= ${row}.${names.at(-1)} and t.${key.at(-1)} <= ${row}.${names.at(-1)}`,
  ].join(' and ');
const inKeyOrder = (key: readonly string[]): string => `order by t.${key.at(-1)} limit 1`;

export const keyOf = ({ key = ['id'] }: Table) => key;
export const rowsOf = ({ name, rows = name }: Pick<Table, 'name' | 'rows'>) => rows;

/** SQL: the time is so far ahead that no clock of a worker writes it. Only a manual change does. */
export const isAhead = (time: string, now: string): string => `${time} - interval '1 day' > ${now}`;

/** SQL: the record overrides the stored row. */
function isNewer({ name, version, oneReader, passOver }: Table): string {
  if (oneReader) return passOver ? `not (${passOver})` : 'true';
  const later = version ? `(${laterVersion(version, name)})` : 't._observed_at < excluded._observed_at';
  // A record that is shown after its tombstone exists again, whatever its version.
  return `(t._deleted_at <= excluded._observed_at or t._deleted_at is null and ${later})`;
}

/**
 * SQL: whether the record is later than the row, though either may be dated ahead of its change.
 *
 * A row `t` shows the ticket at some time between `t._observed_at` less the lookback (a copy of the source may lag that
 * much) and `t._true_by` (see rowTrueBy). A change after that time is dated later than the first bound, if it is dated right. So:
 *
 * - A row that is dated at or before the first bound is not ahead of any later change: the greater version is later.
 * - Against any other row, a record is also later if it is dated at or after `_true_by`, or if its reply, less the
 *   lookback, is as of `_true_by` or later.
 * - A record in between may precede or follow the row: noteHeld in ties.ts makes a sync read it again.
 *
 * A record that is dated ahead of its own reply proves nothing by its date. It is later than a row of the past only if
 * its reply, less the lookback, is as of the date of the row or later. Until then it stays at the end of the list, outside
 * the synced range, and is read again.
 */
// @internal Each case of the rule is played in SQL, and a planted defect replaces it.
export function laterVersion(version: string, table: string): string {
  const [trueBy, past] = [rowTrueBy('t'), rowTrueBy('excluded')];
  const lookback = `(select sync.lookback_of($2, '${sourceOfKey(table)}'))`;
  return `(t.${version}, t._observed_at) < (excluded.${version}, excluded._observed_at)
        and (excluded.${version} < ${past} or t._observed_at < excluded._observed_at
          and (t.${version} >= ${trueBy} or excluded._observed_at - ${lookback} >= t.${version}))
      or t._observed_at < excluded._observed_at and t.${version} > t._observed_at - ${lookback}
        and (excluded.${version} >= ${trueBy} and excluded.${version} < ${past}
          or excluded._observed_at - ${lookback} >= ${trueBy})`;
}

/** SQL: `_true_by`, as far as it orders versions. */
export const rowTrueBy = (row: string): string => `sync.ordered_by(${row}._true_by, ${row}._observed_at)`;

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
      ${table.asOf ? `${table.asOf} as as_of, ` : ''}${without(table.leftOut ?? [])} as _payload, record, n
    from ${table.from}
  ) r
  order by ${key}, n desc
)`;
}

/** No pre-filter: an id that exists is skipped, and not written. */
function mentionCte({ name, rows }: Mention): string {
  return `${name.replace('.', '_')}_mentioned as (
  insert into ${name} (account_id, id, _first_seen_at, _synced_at)
  select distinct $2, id, $3::timestamptz, $3::timestamptz
  from (${rows}) m
  on conflict do nothing
)`;
}

/** Rows of the parents `$3` that the page does not show. Only the compared columns are parsed from the page. */
function removal(root: Table, others: readonly Table[]): string | undefined {
  const short = shortName(root);
  const sets = [root, ...others].filter(table => table.parent !== undefined);
  const removed = sets.map(table =>
    deleteBut(rowsOf(table), table.parent!, ['id', table.parent!], `${shortName(table)}_row`),
  );
  if (removed.length === 0) return undefined;
  const needed = (table: Table) => ({
    ...table,
    ...(table.asOf && { asOf: 'null::timestamptz' }),
    columns: table.columns.filter(({ name }) => name === 'id' || name === table.parent),
  });
  const rows = [
    rowCte(root.parent === undefined ? root : needed(root)),
    // `$3` limits the statement to its parents, so every row of the page may count as written.
    `${short}_written as (select * from ${short}_row)`,
    ...sets.filter(table => table !== root).map(table => rowCte(needed(table))),
  ];
  return `with ${[...rows, ...removed.map((sql, i) => `removed_${i} as (${sql}\nreturning 1)`)].join(',\n')}
select (${removed.map((_, i) => `(select count(*) from removed_${i})`).join(' + ')})::int as deleted`;
}

/**
 * Parent by parent in the order of their index (see sameKey), then by place. For a table without statistics the planner
 * takes an account for a small part, and would read the whole account to find these parents.
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
