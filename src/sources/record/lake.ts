/** The tables of the lake that are made of records: each table with all that it has, and its masked view. */
import type { LakeTable } from '../../lake/table.ts';
import type { SourceTable } from '../source.ts';
import { masksOfRecord } from './masks.ts';
import type { AnyRecord } from './record.ts';

type Place = Omit<LakeTable, 'name' | 'personal' | 'withPersonal'>;

/** `record`: of its personal columns an erasure takes the values out of the files. */
export function withMasked(view: string, table: string, place: Place, record?: AnyRecord): LakeTable[] {
  const masks = record && [...masksOfRecord(record)];
  const shown = masks?.flatMap(([column, mask]) =>
    mask.by === 'nothing' ? [] : [mask.by === 'length' ? mask.as : column],
  );
  const stored = masks && [...masks.map(([column]) => column), '_payload'];
  return [
    { ...place, name: view, ...(shown && { personal: shown }) },
    { ...place, name: table, withPersonal: true, ...(stored && { personal: stored }) },
  ];
}

/** The rows of a record, or the parts of one, are exported together: sync.follow_changes notes them by these names. */
export const lakeTablesOf = (tables: readonly SourceTable[]): LakeTable[] =>
  tables.flatMap(({ name, record, parent }) => {
    const place = {
      unit: name,
      exact: true as const,
      id: (t: string) => `${t}${parent ?? 'id'}`,
      key: parent ? [parent, 'id'] : ['id'],
    };
    return withMasked(`safe.${name.replace('.', '_')}`, name, place, record);
  });
