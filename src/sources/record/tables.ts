/**
 * The tables of a further service, made of its records: the statements that create them and add columns, and the merge that fills
 * them. A record within a record has a table of its own, and names its parent: `lines.invoice_id`.
 */
import { buildMerge, derived, elements, type Merge, page, type Table } from '../../engine/commit/merge.ts';
import type { SourceTable } from '../source.ts';
import { columnsOf } from './columns.ts';
import { type AnyRecord, fieldsThatAre } from './record.ts';

/** `invoices` → `invoice_id` */
export const parentColumn = ({ name }: AnyRecord): string =>
  `${name
    .replace(/ies$/, 'y')
    .replace(/(ss|x|ch|sh)es$/, '$1')
    .replace(/([^s])s$/, '$1')}_id`;

/** The table of the record, then those of the records within it. */
export function tablesOf(schema: string, record: AnyRecord, version?: string): readonly SourceTable[] {
  const parent = parentColumn(record);
  return [
    { name: `${schema}.${record.name}`, record, ...(version !== undefined && { version }) },
    ...fieldsThatAre(record, 'children').map(([, facts]) => {
      return { name: `${schema}.${facts.record!.name}`, record: facts.record!, parent };
    }),
  ];
}

/** Creates the table where it is missing, and adds the columns that are new. `all`: the tables of its source. */
export function tableStatements(
  { name, record, parent, version }: SourceTable,
  _place: number,
  all: readonly SourceTable[],
): string[] {
  const whole = all.find(one => parentColumn(one.record) === parent);
  const keys = ['account_id', ...(parent === undefined ? [] : [parent]), 'id'];
  const columns = [
    ...fieldsThatAre(record, 'column')
      .filter(([, { isId }]) => !isId)
      .map(([, { column, type }]) => `${column} ${type}`),
    ...(version === undefined ? [] : ['_true_by timestamptz']),
  ];
  return [
    `create table if not exists ${name} (${keys.map(key => `${key} text`).join(', ')}, primary key (${keys.join(', ')}))`,
    ...(columns.length === 0
      ? []
      : [`alter table ${name} ${columns.map(column => `add column if not exists ${column}`).join(', ')}`]),
    `comment on column ${name}.account_id is 'The account.'`,
    `comment on column ${name}.id is 'Id at the source.'`,
    ...(parent === undefined
      ? []
      : [`comment on column ${name}.${parent} is 'Id of the record that this is part of; joins ${whole!.name}.id.'`]),
    ...(version === undefined
      ? []
      : [
          `comment on column ${name}._true_by is 'Upper bound of the time of this version, by the clock of the source; _observed_at is the lower bound.'`,
        ]),
  ];
}

/** The merge of a page of these records. Ids of parts are unique within their record only. */
export function mergeOf([root, ...parts]: readonly SourceTable[], more: Partial<Table> = {}): Merge {
  const { name, record, version } = root!;
  const fields = fieldsThatAre(record, 'children').map(([field]) => field);
  return buildMerge(
    { name, from: page, columns: columnsOf(record), ...(version !== undefined && { version }), ...more },
    parts.map(({ name, record: part, parent }, i): Table => {
      return {
        ...{ name, parent: parent!, key: [parent!, 'id'] },
        from: `(select p.id as ${parent}, c.record, row_number() over (order by p.n, c.n) as n
      from ${record.name}_row p join ${record.name}_written using (id),
        ${elements(`p.record -> '${fields[i]}'`)} with ordinality as c (record, n)) e`,
        columns: columnsOf(part, { id: [derived(parent!, parent!)] }),
      };
    }),
  );
}
