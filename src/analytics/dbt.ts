/**
 * Renders the warehouse as dbt sources: descriptions from the comments; freshness from the completeness of the mirror;
 * tests from keys, joins and the values that comments name.
 */
import { stringify } from 'yaml';
import type { Stream } from '../sources/source.ts';
import { type Join, nameOf, offered, type Relation, type Schema } from './catalog.ts';

/** Storage of the view with the same name. Readers use the view. */
const isStore = ({ name }: Relation): boolean => name.startsWith('stored_');

type Bringing = Pick<Stream, 'source' | 'name' | 'merge' | 'relations'>;

const opening = `# Generated: \`npx shelfdesk schema dbt\` prints it. Who wants to change a description changes a comment, in a migration.
`;

/** `streams`: all streams, with their relations. sync is left out: only the worker and readers of all accounts see its rows. */
export function dbtSources(all: readonly Schema[], streams: readonly Bringing[]): string {
  const schemas = all
    .filter(schema => schema.isMirror || offered.includes(schema.name))
    .map(schema => ({ ...schema, relations: schema.relations.filter(relation => !isStore(relation)) }));
  const there = new Set(schemas.flatMap(schema => schema.relations).map(nameOf));
  const sources = schemas.map(schema => ({
    name: schema.name,
    schema: schema.name,
    description: schema.comment,
    tables: schema.relations.map(relation => tableOf(relation, there, streamOf(streams, relation))),
  }));
  return opening + stringify({ version: 2, sources }, { lineWidth: 0, aliasDuplicateObjects: false });
}

function tableOf(relation: Relation, there: ReadonlySet<string>, stream: Bringing | undefined): object {
  const { name, comment, columns, key, joins } = relation;
  const tests = [
    ...(key.length > 1 ? [{ unique_together: { arguments: { columns: [...key] } } }] : []),
    ...joins.filter(join => join.columns.length > 1 && there.has(join.to)).map(joinTest),
  ];
  return {
    name,
    description: comment,
    ...(stream !== undefined && { config: { loaded_at_query: loadedAt(stream), freshness } }),
    ...(tests.length > 0 && { data_tests: tests }),
    columns: columns.map(column => {
      const values = valuesIn(column.comment);
      const single = joins.find(join => join.columns.length === 1 && join.columns[0] === column.name);
      const own = [
        ...(column.nullable === false || key.includes(column.name) ? ['not_null'] : []),
        ...(key.length === 1 && key[0] === column.name ? ['unique'] : []),
        ...(values ? [{ accepted_values: { arguments: { values }, config: doubt } }] : []),
        ...(single && there.has(single.to) ? [relationship(single)] : []),
      ];
      return {
        name: column.name,
        data_type: column.type,
        description: column.comment,
        ...(own.length > 0 && { data_tests: own }),
      };
    }),
  };
}

// --- tests ----------------------------------------------------------------------------------------------------------

/**
 * Conditions that the source may break any day are warnings: new values, and rows whose referenced row has not arrived
 * yet.
 */
const doubt = { severity: 'warn' };

const sourceOf = (name: string): string => `source('${name.replace('.', "', '")}')`;

const relationship = ({ to, fields }: Join) => ({
  relationships: { arguments: { to: sourceOf(to), field: fields[0] }, config: doubt },
});

const joinTest = ({ columns, to, fields }: Join) => ({
  joins: { arguments: { columns: [...columns], to: sourceOf(to), fields: [...fields] }, config: doubt },
});

/** Values that a comment names: `open, hold or closed. Other values are stored unchanged.` */
// @internal Tests read sentences that no comment of today has.
export function valuesIn(comment: string): string[] | undefined {
  const [, list] = /(?:^|: )(\w+(?:, \w+)* or \w+)\. Other values are stored unchanged/.exec(comment) ?? [];
  return list?.split(/, | or /);
}

// --- freshness ------------------------------------------------------------------------------------------------------

const freshness = {
  warn_after: { count: 1, period: 'hour' },
  error_after: { count: 24, period: 'hour' },
};

/** The stream that fills a relation. The relation is as fresh as the stream is complete. */
const streamOf = (streams: readonly Bringing[], { schema, name }: Relation): Bringing | undefined => {
  const brings = ({ source, name: stream, merge, relations = [] }: Bringing) =>
    relations.includes(name) ||
    (schema === source && (stream === name || merge.declared.others.some(other => other.name === `${schema}.${name}`)));
  return streams.find(brings);
};

/** With several accounts, the one that is furthest behind counts. */
const loadedAt = ({ source, name }: Bringing): string =>
  `select min(complete_through) from analytics.completeness where source = '${source}' and stream = '${name}'`;
