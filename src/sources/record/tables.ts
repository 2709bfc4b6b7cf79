/**
 * The tables of a further service, made of its records: the statements that create them and add columns, and the merge that fills
 * them. A record within a record has a table of its own, and names its parent: `lines.invoice_id`.
 */
import { buildMerge, derived, elements, type Merge, page, type Table } from '../../engine/commit/merge.ts';
import { readingOf } from '../../engine/database/open-candidates.ts';
import { readingsIn } from '../../engine/details/detail-rows.ts';
import type { SourceTable } from '../source.ts';
import { columnsOf } from './columns.ts';
import { type AnyRecord, fieldsThatAre } from './record.ts';

/** `invoices` → `invoice_id`. The mirror has a column `account_id` itself: parts of `accounts` name `parent_account_id`. */
export function parentColumn({ name }: Pick<AnyRecord, 'name'>): string {
  const one = name
    .replace(/ies$/, 'y')
    .replace(/(ss|x|ch|sh)es$/, '$1')
    .replace(/([^s])s$/, '$1');
  return one === 'account' ? 'parent_account_id' : `${one}_id`;
}

/** The table of the record, then those of the records within it. */
export function tablesOf(schema: string, record: AnyRecord): SourceTable[] {
  const parent = parentColumn(record);
  return [
    { name: `${schema}.${record.name}`, record },
    ...fieldsThatAre(record, 'children').map(([, facts]) => {
      return { name: `${schema}.${facts.record!.name}`, record: facts.record!, parent };
    }),
  ];
}

/** Creates the table where it is missing, and adds the columns that are new. `all`: the tables of its source. */
export function tableStatements(
  { name, record, parent, version, details = [] }: SourceTable,
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
    ...details.map(readingOf).flatMap(({ asOf, by }) => [`${asOf} timestamptz`, `${by} bigint`]),
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
    ...details.flatMap(one => {
      const { asOf, by } = readingOf(one);
      return [
        `comment on column ${name}.${asOf} is 'As of when the ${one} of the record were read, by the clock of the source; null: not yet.'`,
        `comment on column ${name}.${by} is 'The run that read them.'`,
      ];
    }),
  ];
}

/** The indexes by which a record is found whose details are to be read. */
export const indexStatements = ({ name, record, version, details = [] }: SourceTable): string[] =>
  details.flatMap(one => {
    const { asOf } = readingOf(one);
    const index = (what: string, by: string, where: string) =>
      `create index if not exists ${record.name}_${one}_${what} on ${name} (account_id, ${by}) where ${where}_deleted_at is null`;
    return [
      index('waiting', `${version} desc`, `(${asOf} is null or ${asOf} < ${version}) and `),
      index('read', asOf, ''),
    ];
  });

/** The merge of a page of these records. Ids of parts are unique within their record only. */
export function mergeOf([root, ...parts]: readonly SourceTable[]): Merge {
  const { name, record, version, details } = root!;
  const fields = fieldsThatAre(record, 'children').map(([field]) => field);
  return buildMerge(
    {
      ...{ name, from: page, columns: columnsOf(record) },
      ...(version !== undefined && { version, ...(details && readingsIn(details, version)) }),
    },
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

/** The merge of the details of records, each with the id of its record. Their ids are unique within that only. */
export const mergeOfDetails = ({ name, record, parent }: SourceTable): Merge =>
  buildMerge({
    ...{
      name,
      from: page,
      parent: parent!,
      key: [parent!, 'id'],
      asOf: '($8::timestamptz[])[n]',
      leftOut: ['_parent'],
    },
    columns: columnsOf(record, { id: [{ ...derived(parent!, `record ->> '_parent'`), field: '_parent' }] }),
  });
