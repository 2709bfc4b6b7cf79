/**
 * How columns are shown to readers without the right to personal data: views in the schema `safe`, in which a keyed hash replaces
 * each value that tells who somebody is. Pure: SQL is made of the declaration of a table and of its columns in the catalog.
 */
import { type AnyRecord, computedOf, fieldsThatAre } from './record.ts';

/** `title`: hashed only where it looks like an address. `length`: a column of this name has the number of characters. */
export type Mask =
  | { readonly by: 'address' | 'value' | 'title' | 'nothing' }
  | { readonly by: 'part'; readonly upTo: string }
  | { readonly by: 'length'; readonly as: string; readonly or: string };

/** A table, and what its readers do not see. */
export interface Masked {
  /** Name with the schema: `helpdesk.messages`. */
  readonly table: string;
  /** The table that stores the rows. */
  readonly rows: string;
  /** `safe.messages` */
  readonly view: string;
  readonly masks: ReadonlyMap<string, Mask>;
  /** Columns with a declaration. The values of other columns are not shown. Default: all. */
  readonly declared?: ReadonlySet<string>;
}

/** A column of the table that stores the rows. */
export interface Shown {
  readonly name: string;
  readonly comment: string | null;
  readonly type: string;
  readonly isList: boolean;
}

/** The mask of each column. A computed column has the mask of the column that it is computed from. */
export function masksOfRecord(of: AnyRecord): Map<string, Mask> {
  const masks = fieldsThatAre(of, 'column').flatMap(([, facts]): [string, Mask][] => {
    const { column, tells, apart, upTo, isTitle, length } = facts;
    if (upTo !== undefined) return [[column, { by: 'part', upTo }]];
    if (isTitle) return [[column, { by: 'title' }]];
    if (tells === undefined) return [];
    const mask: Mask = apart ? { by: 'nothing' } : { by: tells === 'contact' ? 'address' : 'value' };
    const ofComputed: Mask = length === undefined ? mask : { by: 'length', as: length, or: column };
    return [[column, mask], ...computedOf(facts).map(([name]): [string, Mask] => [name, ofComputed])];
  });
  return new Map(masks);
}

const keys = ['inner_key', 'outer_key'].map(which => `(select ${which} from sync.secret_salt)`).join(', ');
export const literal = (text: string) => `'${text.replaceAll("'", "''")}'`;

function hash(by: 'address' | 'value' | 'title', name: string, value: string): string {
  if (by === 'address') return `sync.masked_contact(${value}, ${keys})`;
  return by === 'title' ? `sync.masked_title(${value}, ${keys})` : `sync.masked('${name}', ${value}, ${keys})`;
}

function columnOf({ name, isList }: Shown, mask: Mask | undefined): string[] {
  if (mask === undefined) return [`t.${name}`];
  if (mask.by === 'nothing') return [];
  if (mask.by === 'part') return [`split_part(t.${name}, ${literal(mask.upTo)}, 1) as ${name}`];
  if (mask.by === 'length') return [`length(coalesce(t.${name}, t.${mask.or})) as ${mask.as}`];
  if (!isList) return [`${hash(mask.by, name, `t.${name}::text`)} as ${name}`];
  const hashes = hash(mask.by, name, 'u.one');
  return [
    `case when t.${name} is not null then array(select ${hashes} from unnest(t.${name}) with ordinality u (one, n) order by u.n) end as ${name}`,
  ];
}

/** `a, b and c` */
const all = (names: readonly string[]): string =>
  [names.slice(0, -1).join(', '), ...names.slice(-1)].filter(Boolean).join(' and ');

function commentOf({ table, masks }: Masked): string {
  const by = (...kinds: Mask['by'][]) => [...masks].flatMap(([name, mask]) => (kinds.includes(mask.by) ? [name] : []));
  const [hashed, gone, titles] = [by('address', 'value'), by('nothing', 'length'), by('title')];
  const parts = [
    ...(hashed.length > 0 ? [`with hashes of ${all(hashed)}`] : []),
    ...(titles.length > 0
      ? [`with a hash of ${all(titles)} where it has an @ or six digits, also with spaces or punctuation between them`]
      : []),
    ...(gone.length > 0 ? [`without ${all(gone)}`] : []),
  ];
  return `${[table, ...parts.slice(0, 1)].join(' ')}${parts
    .slice(1)
    .map(part => `, ${part}`)
    .join('')}.`;
}

/** `viewOf`: the masked view of another table, for the comments of columns that join it. */
export function maskStatements(masked: Masked, columns: readonly Shown[], viewOf: (table: string) => string): string[] {
  const { table, rows, view, masks, declared } = masked;
  const shown = columns.filter(({ name }) => name !== '_payload');
  const short = table.split('.')[1]!;
  const isKnown = ({ name }: Shown) => declared === undefined || name.startsWith('_') || declared.has(name);
  const comments = shown.flatMap((column): [string, string][] => {
    const mask = masks.get(column.name);
    const { name, comment } = column;
    if (mask?.by === 'nothing') return [];
    if (mask?.by === 'length') return [[mask.as, `Number of characters in ${name}.`]];
    if (mask?.by === 'part') return [[name, `${comment} Only what stands before the first ${mask.upTo} is shown.`]];
    if (mask?.by === 'address' || mask?.by === 'value')
      return [[name, `Keyed hash of ${short}.${name}: equal where that is equal; null and '' stay.`]];
    return comment === null
      ? []
      : [
          [
            name,
            comment.replace(
              /([Jj]oins )(\w+\.\w+)(\.id)/g,
              (_, ...[joins, to, id]) => `${joins}${viewOf(to as string)}${id}`,
            ),
          ],
        ];
  });
  return [
    `create or replace view ${view} with (security_barrier) as
select ${shown.flatMap(column => (isKnown(column) ? columnOf(column, masks.get(column.name)) : [`null::${column.type} as ${column.name}`])).join(',\n  ')}
from ${rows} t
where t.account_id = any (array(select account_id from sync.readable_accounts))`,
    `comment on view ${view} is ${literal(commentOf(masked))}`,
    ...comments.map(([name, comment]) => `comment on column ${view}.${name} is ${literal(comment)}`),
  ];
}
