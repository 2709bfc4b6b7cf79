/**
 * Reads the catalog of the warehouse: relations, columns, keys and joins. Joins come from the comments, which are the
 * analysts' manual: the sentence `joins helpdesk.customers.id` becomes an edge.
 */
import type pg from 'pg';

interface Column {
  readonly name: string;
  readonly type: string;
  /** Undefined for views, because PostgreSQL does not know. */
  readonly nullable: boolean | undefined;
  readonly comment: string;
}

export interface Relation {
  readonly schema: string;
  readonly name: string;
  readonly kind: 'table' | 'view';
  readonly comment: string;
  readonly columns: readonly Column[];
  /** Columns of the key; empty if unknown. */
  readonly key: readonly string[];
  readonly joins: readonly Join[];
}

/** Pairs of equal columns, including the account if both relations have one. */
export interface Join {
  readonly columns: readonly string[];
  /** `helpdesk.customers` */
  readonly to: string;
  readonly fields: readonly string[];
}

interface Routine {
  /** Functions have their arguments in the name. */
  readonly name: string;
  readonly gives: string;
  readonly comment: string;
}

export interface Schema {
  readonly name: string;
  readonly comment: string;
  /** The schema holds the mirrored tables of a source. */
  readonly isMirror: boolean;
  readonly relations: readonly Relation[];
  readonly routines: readonly Routine[];
}

export const nameOf = (relation: Pick<Relation, 'schema' | 'name'>): string => `${relation.schema}.${relation.name}`;

/** The schemas that readers of one account see, besides the mirrored ones. */
export const offered = ['analytics', 'safe'];

/** The schemas of mirrored tables stand between these, in the order of the streams. */
const [first, last] = [offered, ['sync']];

/**
 * PostgreSQL knows no keys of views. Views of `safe`, and views of an internal table of the same name, have the keys of
 * their tables. Views of the star begin with their key. A view of ids alone is a relation: all of them are its key.
 */
const keysOfViews: Readonly<Record<string, readonly string[]>> = {
  'analytics.agent_daily': ['account_id', 'day', 'user_id'],
  'analytics.arrivals_hourly': ['account_id', 'hour', 'time_zone'],
  'analytics.completeness': ['account_id', 'stream'],
  'analytics.countable_tickets': ['account_id', 'ticket_id'],
  'analytics.customer_summary': ['account_id', 'customer_id'],
  'analytics.inbox_zones': ['account_id', 'inbox_id'],
  'analytics.integrity': ['account_id', 'check_name'],
  'analytics.metric_definitions': ['name', 'relation'],
  'analytics.reply_turns': ['account_id', 'ticket_id', 'turn'],
  'analytics.ticket_targets': ['account_id', 'ticket_id', 'metric', 'turn'],
  'analytics.ticket_metrics': ['account_id', 'ticket_id'],
  'analytics.ticket_state_intervals': ['account_id', 'ticket_id', 'valid_from'],
};

export const isOfStar = (relation: Pick<Relation, 'schema' | 'name'>): boolean =>
  relation.schema === 'analytics' && /^(dim|fact)_/.test(relation.name);

interface Row {
  schema: string;
  relation: string;
  kind: 'table' | 'view' | 'function';
  column_name: string | null;
  type: string | null;
  nullable: boolean | null;
  comment: string | null;
}

const entries = `
  select schema, relation, kind, column_name, type, nullable, comment from analytics.data_dictionary
  order by schema collate "C", relation collate "C", position`;
const keys = `
  select conrelid::regclass::text as relation, array(
    select a.attname::text from unnest(conkey) with ordinality k (attnum, place)
    join pg_attribute a on a.attrelid = conrelid and a.attnum = k.attnum order by k.place) as columns
  from pg_constraint where contype = 'p' and conrelid <> 0`;
const mirrors = `
  select source as name from sync.streams group by source order by min(place)`;
const schemata = `
  select nspname::text as name, obj_description(oid, 'pg_namespace') as comment from pg_namespace`;

/** The relations that the current role may read. */
export async function readCatalog(db: Pick<pg.Pool, 'query'>): Promise<Schema[]> {
  const { rows } = await db.query<Row>(entries);
  const { rows: keyed } = await db.query<{ relation: string; columns: string[] }>(keys);
  const { rows: named } = await db.query<{ name: string; comment: string | null }>(schemata);
  const known: Known = {
    keys: new Map(keyed.map(({ relation, columns }) => [relation, columns])),
    ofAccounts: new Set(
      rows.filter(row => row.column_name === 'account_id').map(({ schema, relation }) => `${schema}.${relation}`),
    ),
  };
  const { rows: mirrored } = await db.query<{ name: string }>(mirrors);
  const sources = mirrored.map(({ name }) => name);
  return [...first, ...sources, ...last]
    .map(name => ({
      name,
      isMirror: sources.includes(name),
      comment: named.find(schema => schema.name === name)?.comment ?? '',
      relations: relationsOf(
        rows.filter(row => row.schema === name && row.kind !== 'function'),
        known,
      ),
      routines: rows
        .filter(row => row.schema === name && row.kind === 'function')
        .map(row => ({ name: row.relation, gives: row.type ?? '', comment: row.comment ?? '' })),
    }))
    .filter(({ relations, routines }) => relations.length + routines.length > 0);
}

interface Known {
  readonly keys: ReadonlyMap<string, readonly string[]>;
  /** Relations with rows of several accounts. */
  readonly ofAccounts: ReadonlySet<string>;
}

function relationsOf(rows: readonly Row[], known: Known): Relation[] {
  const whole = rows.filter(row => row.column_name === null);
  return whole.map(({ schema, relation: name, kind, comment }) => {
    const columns = rows
      .filter(row => row.relation === name && row.column_name !== null)
      .map(row => ({
        name: row.column_name!,
        type: shortType(row.type!),
        nullable: row.nullable ?? undefined,
        comment: row.comment ?? '',
      }));
    const relation = { schema, name, kind: kind as 'table' | 'view', comment: comment ?? '', columns };
    return { ...relation, key: keyFor(relation, known), joins: joinsOf(relation, known) };
  });
}

function keyFor(relation: Omit<Relation, 'key' | 'joins'>, { keys }: Known): readonly string[] {
  const name = nameOf(relation);
  if (isOfStar(relation)) return relation.columns.slice(0, 1).map(column => column.name);
  const masked = [...keys.keys()].find(table => table.replace('.', '_') === relation.name);
  const shown = masked ?? `helpdesk.${relation.name}`;
  const key =
    keys.get(relation.schema === 'safe' ? shown : name) ??
    keys.get(`internal.${relation.name}`) ??
    keysOfViews[name] ??
    idsOf(relation);
  return key.every(one => relation.columns.some(column => column.name === one)) ? key : [];
}

/** The columns of a view of ids alone; else none. */
function idsOf({ columns }: Pick<Relation, 'columns'>): readonly string[] {
  return columns.every(({ name }) => name.endsWith('_id')) ? columns.map(({ name }) => name) : [];
}

const joining = /\bjoins ([a-z]\w*\.[a-z]\w*)\.([a-z]\w*)/gi;

/** Columns that join the same relation form one join: owner and id of a shelf. */
function joinsOf(relation: Omit<Relation, 'key' | 'joins'>, { ofAccounts }: Known): Join[] {
  // An array of ids cannot be drawn or tested as a join. The table with one row per element can.
  const single = relation.columns.filter(column => !column.type.endsWith('[]'));
  const edges = single.flatMap(column =>
    [...column.comment.matchAll(joining)].map(([, to, field]) => ({ column: column.name, to: to!, field: field! })),
  );
  const hasAccount = ofAccounts.has(nameOf(relation));
  const found: Join[] = [];
  for (const { column, to, field } of edges) {
    const partner = found.find(join => join.to === to && !join.fields.includes(field));
    if (partner) found[found.indexOf(partner)] = { ...partner, ...pair(partner, column, field) };
    else if (hasAccount && ofAccounts.has(to) && field !== 'account_id' && !field.endsWith('_key'))
      found.push({ columns: ['account_id', column], to, fields: ['account_id', field] });
    else found.push({ columns: [column], to, fields: [field] });
  }
  return found;
}

const pair = (join: Join, column: string, field: string) => ({
  columns: [...join.columns, column],
  fields: [...join.fields, field],
});

const shortNames: Readonly<Record<string, string>> = {
  'timestamp with time zone': 'timestamptz',
  'double precision': 'float8',
  'character varying': 'varchar',
  'time without time zone': 'time',
};

const shortType = (type: string): string => shortNames[type] ?? type;
