/**
 * The dashboard of examples/dashboards: up to when everything is complete, and the eight charts that people of a help desk ask
 * for first. Each asks a question of docs/queries, and is declared here once: `npm run docs` makes of it the exports of Superset and
 * Metabase, and the JSON of Grafana. Title and description are those of the question, the types of its columns say PostgreSQL.
 */
import { createHash } from 'node:crypto';
import type pg from 'pg';
import { stringify } from 'yaml';
import type { Query } from '../../src/analytics/questions.ts';

interface Chart {
  /** Name of the question. */
  readonly asks: string;
  readonly kind: 'bars' | 'lines' | 'table';
  /** Of 12 columns of a row. */
  readonly width: number;
  /** Column along the axis; a table shows all columns as they are. */
  readonly along?: string;
  readonly values?: readonly string[];
  /** Column whose values are lines of their own. */
  readonly each?: string;
  /** What the values are: several accounts add up, but for times and shares, of which the highest counts. */
  readonly unit?: 'tickets' | 'hours' | 'days';
}

const charts: readonly Chart[] = [
  { asks: 'how-complete', kind: 'table', width: 12 },
  {
    asks: 'created-and-closed',
    kind: 'bars',
    width: 6,
    along: 'week',
    values: ['created', 'first_closed', 'perhaps_earlier'],
  },
  {
    ...{ asks: 'backlog-by-week', kind: 'lines', width: 6, along: 'day' },
    values: ['tickets', 'open', 'unassigned', 'unknown', 'uncertain'],
  },
  { asks: 'backlog-by-inbox', kind: 'bars', width: 6, along: 'inbox', values: ['four_weeks_ago', 'now'] },
  {
    ...{ asks: 'first-response-by-inbox-and-week', kind: 'lines', width: 6, along: 'week' },
    ...{ values: ['median_hours'], each: 'inbox', unit: 'hours' },
  },
  { asks: 'targets-kept', kind: 'table', width: 12 },
  {
    ...{ asks: 'resolution-time', kind: 'bars', width: 4, along: 'created_in' },
    ...{ values: ['median_days', 'p90_days'], unit: 'days' },
  },
  { asks: 'age-of-open-tickets', kind: 'bars', width: 4, along: 'age', values: ['tickets', 'customers_wait'] },
  { asks: 'load-by-agent', kind: 'bars', width: 4, along: 'user_id', values: ['open_tickets', 'customers_wait'] },
];

/** A chart with its question, and the columns that PostgreSQL gives for it. */
export interface Drawn extends Chart, Query {
  readonly columns: readonly { name: string; type: string }[];
  readonly place: { x: number; y: number };
}

/** Throws if a question or a column is not there. */
export async function drawn(db: Pick<pg.Pool, 'query'>, queries: readonly Query[]): Promise<Drawn[]> {
  const all: Drawn[] = [];
  let [x, y] = [0, 0];
  for (const chart of charts) {
    const query = queries.find(({ name }) => name === chart.asks)!;
    const { fields } = await db.query({ text: query.sql, rowMode: 'array' });
    const { rows } = await db.query<{ type: string }>(
      'select format_type(o, null) as type from unnest($1::oid[]) with ordinality u (o, n) order by n',
      [fields.map(({ dataTypeID }) => dataTypeID)],
    );
    const columns = fields.map(({ name }, n) => ({ name, type: rows[n]!.type }));
    for (const name of [chart.along, chart.each, ...(chart.values ?? [])])
      if (name !== undefined && !columns.some(column => column.name === name))
        throw new Error(`${chart.asks} has no column ${name}`);
    if (x + chart.width > 12) [x, y] = [0, y + 1];
    all.push({ ...chart, ...query, columns, place: { x, y } });
    x += chart.width;
  }
  return all;
}

const aboutOf = ({ notes }: Query): string => notes.join(' ');
const highest = ({ unit = 'tickets' }: Chart): boolean => unit !== 'tickets';
const isTime = ({ type }: { type: string }): boolean => /^(date|timestamp)/.test(type);
const titleOf = 'Help desk';

// --- Superset -------------------------------------------------------------------------------------------------------

/** The files of the export, by path. Ids are made of names: Superset knows what an import brought before, replaces the dashboard, and keeps the charts. */
export function superset(all: readonly Drawn[]): Map<string, string> {
  const files: [string, object][] = [
    ['metadata.yaml', { version, type: 'Dashboard', timestamp: '2026-01-01T00:00:00+00:00' }],
    ['databases/Shelfdesk.yaml', database],
    ...all.map((one): [string, object] => [`datasets/Shelfdesk/${one.name}.yaml`, datasetOf(one)]),
    ...all.map((one): [string, object] => [`charts/${one.name}.yaml`, chartOf(one)]),
    ['dashboards/help-desk.yaml', dashboardOf(all)],
  ];
  return new Map(files.map(([path, content]) => [path, stringify(content, { lineWidth: 0, version: '1.1' })]));
}

const version = '1.0.0';
const idOf = (name: string): string =>
  createHash('sha256')
    .update(`shelfdesk ${name}`)
    .digest('hex')
    .replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, '$1-$2-5$3-a$4-$5');

/** Without a password: whoever imports it writes the address of a reader into it. */
const database = {
  database_name: 'Shelfdesk',
  sqlalchemy_uri: 'postgresql+psycopg2://reader@localhost:5432/shelfdesk',
  expose_in_sqllab: true,
  allow_ctas: false,
  allow_cvas: false,
  allow_dml: false,
  extra: {},
  uuid: idOf('database'),
  version,
};

const datasetOf = (one: Drawn) => ({
  table_name: one.name,
  description: one.question,
  schema: 'analytics',
  sql: one.sql,
  columns: one.columns.map(column => ({
    ...{ column_name: column.name, type: column.type.toUpperCase(), is_dttm: isTime(column) },
    ...{ groupby: true, filterable: true },
  })),
  metrics: [],
  uuid: idOf(`dataset ${one.name}`),
  version,
  database_uuid: database.uuid,
});

function chartOf(one: Drawn) {
  const type = { bars: 'echarts_timeseries_bar', lines: 'echarts_timeseries_line', table: 'table' }[one.kind];
  return {
    slice_name: one.question,
    description: aboutOf(one),
    viz_type: type,
    params: {
      viz_type: type,
      adhoc_filters: [],
      row_limit: 1000,
      ...(one.kind === 'table'
        ? {
            ...{ query_mode: 'raw', all_columns: one.columns.map(({ name }) => name) },
            ...{ table_timestamp_format: '%Y-%m-%d %H:%M', show_cell_bars: false },
          }
        : {
            ...{ x_axis: one.along, x_axis_time_format: '%Y-%m-%d', x_axis_sort_asc: true, time_grain_sqla: null },
            ...(!isTime(one.columns.find(({ name }) => name === one.along)!) && inWords),
            metrics: one.values!.map(value => metricOf(one, value)),
            groupby: one.each === undefined ? [] : [one.each],
            ...{ truncate_metric: true, show_legend: true, legendOrientation: 'top', rich_tooltip: true },
            ...{ y_axis_title: one.unit ?? 'tickets', y_axis_title_margin: 40, y_axis_title_position: 'Left' },
          }),
    },
    uuid: idOf(`chart ${one.name}`),
    version,
    dataset_uuid: idOf(`dataset ${one.name}`),
  };
}

/** Each word below its bar. */
const inWords = { xAxisForceCategorical: true, xAxisLabelRotation: 45, xAxisLabelInterval: '0' };

const metricOf = (one: Drawn, value: string) => ({
  expressionType: 'SIMPLE',
  aggregate: highest(one) ? 'MAX' : 'SUM',
  column: { column_name: value },
  label: value,
  optionName: `metric_${value}`,
});

function dashboardOf(all: readonly Drawn[]) {
  const rows = [...new Set(all.map(({ place }) => place.y))];
  const cells = all.map((one, n) => ({
    type: 'CHART',
    id: `CHART-${one.name}`,
    children: [],
    parents: ['ROOT_ID', 'GRID_ID', `ROW-${one.place.y}`],
    meta: {
      ...{ chartId: n + 1, uuid: idOf(`chart ${one.name}`), sliceName: one.question },
      ...{ width: one.width, height: one.asks === 'how-complete' ? 32 : 52 },
    },
  }));
  const position = {
    DASHBOARD_VERSION_KEY: 'v2',
    ROOT_ID: { type: 'ROOT', id: 'ROOT_ID', children: ['GRID_ID'] },
    GRID_ID: { type: 'GRID', id: 'GRID_ID', children: rows.map(y => `ROW-${y}`), parents: ['ROOT_ID'] },
    HEADER_ID: { type: 'HEADER', id: 'HEADER_ID', meta: { text: titleOf } },
    ...Object.fromEntries(
      rows.map(y => [
        `ROW-${y}`,
        {
          ...{ type: 'ROW', id: `ROW-${y}`, parents: ['ROOT_ID', 'GRID_ID'] },
          children: all.filter(({ place }) => place.y === y).map(({ name }) => `CHART-${name}`),
          meta: { background: 'BACKGROUND_TRANSPARENT' },
        },
      ]),
    ),
    ...Object.fromEntries(cells.map(cell => [cell.id, cell])),
  };
  return {
    dashboard_title: titleOf,
    description: 'Up to when the mirror is complete, and eight questions about the help desk.',
    slug: 'shelfdesk-help-desk',
    published: true,
    uuid: idOf('dashboard'),
    position,
    metadata: {},
    version,
  };
}

// --- Grafana --------------------------------------------------------------------------------------------------------

export function grafana(all: readonly Drawn[]): string {
  return `${JSON.stringify(
    {
      __inputs: [
        {
          ...{ name: 'DS_SHELFDESK', label: 'Shelfdesk', type: 'datasource' },
          ...{ pluginId: source.type, pluginName: 'PostgreSQL' },
        },
      ],
      __requires: [
        { type: 'datasource', id: source.type, name: 'PostgreSQL', version: '' },
        ...['barchart', 'table', 'timeseries'].map(id => ({ type: 'panel', id, name: id, version: '' })),
      ],
      title: titleOf,
      uid: 'shelfdesk-help-desk',
      tags: ['shelfdesk'],
      schemaVersion: 39,
      editable: true,
      // The questions bound themselves: this is the axis of the lines.
      time: { from: 'now-6M', to: 'now' },
      timezone: 'utc',
      panels: all.map(panelOf),
    },
    null,
    2,
  )}\n`;
}

// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana puts the source there that somebody chooses.
const source = { type: 'grafana-postgresql-datasource', uid: '${DS_SHELFDESK}' };
const high = 9;

function panelOf(one: Drawn, n: number) {
  const { kind, place, width } = one;
  const shown = [one.along!, ...(one.values ?? [])];
  return {
    id: n + 1,
    title: one.question,
    description: aboutOf(one),
    type: { bars: 'barchart', lines: 'timeseries', table: 'table' }[kind],
    datasource: source,
    gridPos: { x: place.x * 2, y: place.y * high, w: width * 2, h: high },
    targets: [
      {
        ...{ refId: 'A', datasource: source, editorMode: 'code', rawQuery: true },
        format: kind === 'lines' ? 'time_series' : 'table',
        rawSql: grafanaSqlOf(one),
      },
    ],
    fieldConfig: { defaults: kind === 'table' ? {} : { unit: units[one.unit ?? 'tickets'], min: 0 }, overrides: [] },
    options: kind === 'bars' ? { xField: one.along, showValue: 'auto', legend } : kind === 'lines' ? { legend } : {},
    ...(kind === 'bars' && {
      transformations: [{ id: 'filterFieldsByName', options: { include: { names: shown } } }],
    }),
  };
}

const units = { tickets: 'short', hours: 'h', days: 'd' };
const legend = { showLegend: true, displayMode: 'list', placement: 'bottom' };

/** Grafana draws lines of a column `time`, and names them after a column `metric`. Bars stand in the order of the rows: those of a time in that of the time. */
export function grafanaSqlOf({ sql, kind, along, each, values, columns }: Drawn): string {
  const asked = sql.trim().replace(/;$/, '');
  const named = each === undefined ? '' : `${each} as metric, `;
  if (kind === 'lines')
    return `select ${along}::timestamp as time, ${named}${values!.join(', ')} from (\n${asked}\n) q order by 1\n`;
  if (columns.some(column => column.name === along && isTime(column)))
    return `select * from (\n${asked}\n) q order by ${along}\n`;
  return sql;
}

// --- Metabase -------------------------------------------------------------------------------------------------------

/** The files of the export, by path, in the Metabase Representation Format 1.0.0. */
export function metabase(all: readonly Drawn[]): Map<string, string> {
  const within = 'collections/main/help_desk';
  const files: [string, object][] = [
    [`${within}.yaml`, { name: titleOf, slug: 'help_desk', ...entityOf('Collection', titleOf) }],
    ...all.map((one): [string, object] => [`${within}/${one.name.replaceAll('-', '_')}.yaml`, cardOf(one)]),
    [`${within}/help_desk.yaml`, boardOf(all)],
  ];
  return new Map(files.map(([path, content]) => [path, stringify(content, { lineWidth: 0, version: '1.1' })]));
}

const entityIdOf = (name: string): string =>
  createHash('sha256').update(`shelfdesk metabase ${name}`).digest('base64url').slice(0, 21);

const metaOf = (model: string, name: string) => ({ id: entityIdOf(`${model} ${name}`), label: slugOf(name), model });
const slugOf = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]+/g, '_');

const entityOf = (model: string, name: string) => ({
  entity_id: entityIdOf(`${model} ${name}`),
  'serdes/meta': [metaOf(model, name)],
});

/** Metabase has this user from the beginning. */
const ours = { creator_id: 'internal@metabase.com', collection_id: entityIdOf(`Collection ${titleOf}`) };

function cardOf(one: Drawn) {
  const { kind, along, each, values, unit = 'tickets' } = one;
  const native = { 'lib/type': 'mbql.stage/native', native: one.sql.trim().replace(/;$/, ''), 'template-tags': [] };
  return {
    ...{ name: one.question, description: aboutOf(one), type: 'question', ...ours },
    display: { bars: 'bar', lines: 'line', table: 'table' }[kind],
    dataset_query: { 'lib/type': 'mbql/query', database: database.database_name, stages: [native] },
    visualization_settings:
      kind === 'table'
        ? {}
        : {
            'graph.dimensions': each === undefined ? [along] : [along, each],
            'graph.metrics': values,
            'graph.x_axis.scale': isTime(one.columns.find(({ name }) => name === along)!) ? 'timeseries' : 'ordinal',
            'graph.y_axis.title_text': unit,
          },
    ...{ parameters: [], parameter_mappings: [] },
    ...entityOf('Card', one.name),
  };
}

const boardOf = (all: readonly Drawn[]) => ({
  ...{ name: titleOf, ...ours, parameters: [], tabs: [] },
  dashcards: all.map(({ name, place, width }) => {
    const { id, model } = metaOf('DashboardCard', name);
    return {
      ...{ entity_id: id, card_id: entityIdOf(`Card ${name}`) },
      ...{ row: place.y * high, col: place.x * 2, size_x: width * 2, size_y: high },
      ...{ parameter_mappings: [], series: [], visualization_settings: {} },
      'serdes/meta': [
        { id: entityIdOf(`Dashboard ${titleOf}`), model: 'Dashboard' },
        { id, model },
      ],
    };
  }),
  ...entityOf('Dashboard', titleOf),
});
