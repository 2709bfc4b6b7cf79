/**
 * The warehouse as sources of dbt: descriptions from the comments, how fresh they are from what the mirror knows of itself,
 * and tests from keys, joins and the values that the comments name.
 */
import { stringify } from 'yaml';
import { type Join, nameOf, type Relation, type Schema } from './catalog.ts';

/** Of sync only the worker, and who may read everything, sees anything. */
const offered = ['analytics', 'safe', 'helpdesk', 'books'];

/** What a view of the same name shows, to whom it may. */
const isStore = ({ name }: Relation): boolean => name.startsWith('stored_');

const opening = `# Generated: \`npx shelfdesk schema dbt\` prints it. Who wants to change a description changes a comment, in a migration.
`;

export function dbtSources(all: readonly Schema[]): string {
  const schemas = all
    .filter(schema => offered.includes(schema.name))
    .map(schema => ({ ...schema, relations: schema.relations.filter(relation => !isStore(relation)) }));
  const there = new Set(schemas.flatMap(schema => schema.relations).map(nameOf));
  const sources = schemas.map(schema => ({
    name: schema.name,
    schema: schema.name,
    description: schema.comment,
    tables: schema.relations.map(relation => tableOf(relation, there)),
  }));
  return opening + stringify({ version: 2, sources }, { lineWidth: 0, aliasDuplicateObjects: false });
}

function tableOf(relation: Relation, there: ReadonlySet<string>): object {
  const { name, comment, columns, key, joins } = relation;
  const stream = streamOf(relation);
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

/** What the source may do any day is a warning: new values, and rows whose other side has not arrived yet. */
const doubt = { severity: 'warn' };

const sourceOf = (name: string): string => `source('${name.replace('.', "', '")}')`;

const relationship = ({ to, fields }: Join) => ({
  relationships: { arguments: { to: sourceOf(to), field: fields[0] }, config: doubt },
});

const joinTest = ({ columns, to, fields }: Join) => ({
  joins: { arguments: { columns: [...columns], to: sourceOf(to), fields: [...fields] }, config: doubt },
});

/** `open, hold or closed; other values pass as they come.` */
export function valuesIn(comment: string): string[] | undefined {
  const [, list] = /(?:^|: )(\w+(?:, \w+)* or \w+); other values pass/.exec(comment) ?? [];
  return list?.split(/, | or /);
}

// --- freshness ------------------------------------------------------------------------------------------------------

const freshness = {
  warn_after: { count: 1, period: 'hour' },
  error_after: { count: 24, period: 'hour' },
};

/** Which stream brings what: what is here is as new as that is complete. */
const streams: Readonly<Record<string, readonly string[]>> = {
  users: ['users', 'dim_agent'],
  customers: ['customers', 'contacts', 'customer_summary', 'dim_customer'],
  tickets: [
    ...['tickets', 'ticket_labels', 'ticket_history', 'ticket_state_intervals', 'inboxes', 'labels', 'dim_inbox'],
    ...['dim_label', 'fact_ticket_labels', 'fact_backlog'],
  ],
  messages: [
    ...['messages', 'attachments', 'ticket_metrics', 'ticket_metrics_defined', 'reply_turns'],
    ...['reply_turns_defined', 'agent_daily'],
    ...['arrivals_hourly', 'fact_tickets', 'fact_messages', 'fact_turns'],
  ],
  shelves: ['shelves', 'shelf_volumes', 'shelf_volume_history', 'shelf_events', 'dim_shelf', 'fact_shelf_volumes'],
  volumes: ['volumes', 'dim_volume'],
};

const streamOf = ({ name }: Relation): string | undefined =>
  Object.keys(streams).find(stream => streams[stream]!.includes(name));

/** Of several accounts the one that is furthest behind. */
const loadedAt = (stream: string): string =>
  `select min(complete_through) from analytics.completeness where source = 'helpdesk' and stream = '${stream}'`;
