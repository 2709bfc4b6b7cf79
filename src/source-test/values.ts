/** Values of records, made of their declaration. */
import type { AnyRecord, Facts } from '../sources/record/record.ts';
import { idOf } from './rng.ts';

type Values = Record<string, unknown>;

/** Value `version` of a field of record `n`. */
export function newValue(name: string, facts: Facts, n: number, version: number): unknown {
  if (facts.is === 'object') return valuesOf(facts as { fields: AnyRecord['fields'] }, n, version);
  if (facts.is === 'objects') return [valuesOf(facts as { fields: AnyRecord['fields'] }, n, version)];
  if (facts.is === 'texts by name') return { text: `${name} ${n}.${version}` };
  if (facts.values !== undefined) return facts.values[(n + version) % facts.values.length];
  if (facts.of !== undefined) return facts.type === 'text[]' ? [idOf(n)] : idOf(n);
  switch (facts.type) {
    case 'text':
      return facts.tells === 'contact' ? `${name}${n}.${version}@example.org` : `${name} ${n}.${version}`;
    case 'text[]':
      return [`${name} ${n}.${version}`];
    case 'bigint':
      return 1000 * n + version;
    case 'numeric':
      return n + version / 4;
    case 'boolean':
      return (n + version) % 2 === 0;
    case 'date':
      return `2025-${String(1 + (n % 12)).padStart(2, '0')}-${String(1 + (version % 28)).padStart(2, '0')}`;
    case 'timestamptz':
      return new Date(Date.UTC(2025, 0, 1, 0, n % 1440, version % 60)).toISOString();
  }
}

/** Fields that hold a value of their own: not the id, and no records. */
const ownFields = ({ fields }: Pick<AnyRecord, 'fields'>): [string, Facts][] =>
  Object.entries(fields as Record<string, Facts>).filter(
    ([, { is, isId }]) => !isId && is !== 'children' && is !== 'embedded',
  );

/** All values of a record but its id, its times of the world, and its parts. */
export const valuesOf = (record: Pick<AnyRecord, 'fields'>, n: number, version: number): Values =>
  Object.fromEntries(ownFields(record).map(([name, facts]) => [name, newValue(name, facts, n, version)]));

/** Fields whose value an edit can change. */
export const editable = (record: AnyRecord, times: ReadonlyMap<string, unknown>): [string, Facts][] =>
  ownFields(record).filter(
    ([name, { is, of, values, type }]) =>
      is === 'column' && of === undefined && !times.has(name) && (values?.length ?? 2) > 1 && type !== 'timestamptz',
  );
