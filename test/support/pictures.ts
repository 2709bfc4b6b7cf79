/**
 * Four pictures of a warehouse: a question each, its SQL over the views that readers see, and how the answer is drawn. Colours
 * are told apart by people who see no red or no green as well, and every one of them stands in a legend.
 */
import type pg from 'pg';
import { parse, View } from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';

export interface Picture {
  readonly file: string;
  readonly sql: string;
  readonly spec: Omit<TopLevelSpec, 'data'>;
}

// Of Okabe and Ito.
const blue = '#0072B2';
const orange = '#E69F00';
const green = '#009E73';
const pink = '#CC79A7';

const config = {
  background: 'white',
  font: 'Helvetica, Arial, sans-serif',
  padding: 14,
  title: {
    fontSize: 18,
    subtitleFontSize: 13,
    subtitleColor: '#444444',
    anchor: 'start',
    offset: 14,
    subtitlePadding: 5,
  },
  axis: {
    labelFontSize: 12,
    titleFontSize: 13,
    gridColor: '#e4e4e4',
    domainColor: '#888888',
    tickColor: '#888888',
    titlePadding: 10,
  },
  legend: { labelFontSize: 12, titleFontSize: 13, symbolSize: 140, rowPadding: 5, labelLimit: 320, titleLimit: 320 },
  header: { labelFontSize: 13, titleFontSize: 13, labelFontWeight: 'bold' },
  view: { stroke: '#cccccc' },
} as const;

const days = {
  axis: { format: '%-d %b', labelAngle: 0, tickCount: { interval: 'week', step: 2 }, title: null },
} as const;

export const pictures: readonly Picture[] = [
  {
    file: 'backlog.svg',
    sql: `
      select to_char(date_key, 'YYYY-MM-DD') as day, coalesce(state, 'unknown') as state, sum(tickets)::int as tickets,
        sum(uncertain)::int as uncertain
      from analytics.fact_backlog group by date_key, 2 order by date_key, 2`,
    spec: {
      title: {
        text: 'How much work is left undone at the end of each day?',
        subtitle: [
          'Tickets that are neither closed nor archived, without spam and trash, by their state then, over 90 days.',
          'Dashed: of so many a change may have been on either side of that midnight; a weekly sweep settles most',
        ],
      },
      width: 720,
      height: 320,
      encoding: { x: { field: 'day', type: 'temporal', scale: { type: 'utc' }, ...days } },
      layer: [
        {
          mark: { type: 'area', line: false, opacity: 0.8 },
          encoding: {
            y: { field: 'tickets', type: 'quantitative', stack: 'zero', title: 'tickets' },
            color: {
              field: 'state',
              type: 'nominal',
              title: 'state',
              scale: { domain: ['open', 'hold', 'snoozed', 'unknown'], range: [blue, orange, green, '#999999'] },
            },
            order: { field: 'order', type: 'quantitative' },
          },
        },
        // Seen on every colour.
        {
          transform: [{ aggregate: [{ op: 'sum', field: 'uncertain', as: 'uncertain' }], groupby: ['day'] }],
          mark: { type: 'line', color: 'white', strokeWidth: 4 },
          encoding: { y: { field: 'uncertain', type: 'quantitative' } },
        },
        {
          transform: [{ aggregate: [{ op: 'sum', field: 'uncertain', as: 'uncertain' }], groupby: ['day'] }],
          mark: { type: 'line', color: 'black', strokeDash: [5, 4], strokeWidth: 1.6 },
          encoding: {
            y: { field: 'uncertain', type: 'quantitative' },
            strokeDash: {
              datum: 'may have been otherwise',
              title: 'how sure',
              scale: { range: [[5, 4]] },
              legend: { symbolStrokeColor: 'black', symbolType: 'stroke' },
            },
          },
        },
      ],
      transform: [{ calculate: "indexof(['open', 'hold', 'snoozed', 'unknown'], datum.state)", as: 'order' }],
    } as Picture['spec'],
  },
  {
    file: 'first-response.svg',
    sql: `
      select to_char(d.week_start, 'YYYY-MM-DD') as week, i.inbox_name as inbox, count(*)::int as tickets,
        percentile_cont(0.5) within group (order by t.first_response_seconds) / 3600 as hours
      from analytics.fact_tickets t
      join analytics.dim_date d on d.date_key = t.created_date
      join analytics.dim_inbox i using (inbox_key)
      where t.first_response_seconds is not null
        and t.created_at >= (select max(complete_through) - interval '91 days' from analytics.completeness where stream = 'messages')
      group by i.inbox_key, i.inbox_name, d.week_start order by d.week_start, i.inbox_name collate "C"`,
    spec: {
      title: {
        text: 'How long do customers wait for a first response?',
        subtitle: [
          'Median of the tickets created in each week that have one, in hours on the clock;',
          'each line of the grid is ten times the one below, 0.1 hours or less stand on the lowest',
        ],
      },
      facet: { field: 'inbox', type: 'nominal', title: null, header: { labelAnchor: 'start' } },
      columns: 3,
      spacing: 26,
      spec: {
        width: 225,
        height: 150,
        encoding: {
          x: {
            field: 'week',
            type: 'temporal',
            scale: { type: 'utc' },
            axis: { format: '%-d %b', tickCount: { interval: 'month', step: 1 }, title: null },
          },
          y: {
            field: 'hours',
            type: 'quantitative',
            scale: { type: 'log', domain: [0.1, 1500], clamp: true },
            axis: { values: [0.1, 1, 10, 100, 1000], format: '~r', title: 'hours' },
          },
        },
        layer: [
          { mark: { type: 'line', color: blue, strokeWidth: 1.5, opacity: 0.6 } },
          {
            mark: { type: 'point', filled: true, color: blue, opacity: 1 },
            encoding: {
              size: {
                field: 'tickets',
                type: 'quantitative',
                title: 'tickets with a response',
                scale: { range: [15, 220] },
                legend: { orient: 'bottom', values: [1, 5, 10, 20], symbolFillColor: blue },
              },
            },
          },
        ],
      },
    } as Picture['spec'],
  },
  {
    file: 'arrivals.svg',
    sql: `
      select h.hour, d.weekday, coalesce(a.messages, 0) / 13.0::float8 as messages
      from generate_series(0, 23) h (hour)
      cross join (values (1, 'Monday'), (2, 'Tuesday'), (3, 'Wednesday'), (4, 'Thursday'), (5, 'Friday'), (6, 'Saturday'), (7, 'Sunday')) d (number, weekday)
      left join (
        select local_hour, local_weekday, sum(inbound_messages)::int as messages
        from analytics.arrivals_hourly
        where hour >= (select max(complete_through) - interval '91 days' from analytics.completeness where stream = 'messages')
        group by 1, 2) a on a.local_hour = h.hour and a.local_weekday = d.number
      order by d.number, h.hour`,
    spec: {
      title: {
        text: 'When do customers write?',
        subtitle: 'Their messages an hour in a mean week of the last 13, by the clock of the account (Europe/Berlin)',
      },
      width: 720,
      height: 240,
      mark: { type: 'rect', stroke: 'white', strokeWidth: 1 },
      encoding: {
        x: { field: 'hour', type: 'ordinal', title: 'hour of the day, from', axis: { labelAngle: 0 } },
        y: {
          field: 'weekday',
          type: 'ordinal',
          sort: ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'],
          title: null,
        },
        color: {
          field: 'messages',
          type: 'quantitative',
          title: ['messages', 'an hour'],
          scale: { scheme: 'viridis', reverse: true, zero: true },
          legend: { format: '.1f', gradientLength: 200 },
        },
      },
    } as Picture['spec'],
  },
  {
    file: 'credits.svg',
    sql: `
      select to_char(d.week_start, 'YYYY-MM-DD') as week, p.purpose, sum(p.credits)::int as credits
      from analytics.fact_credits c
      join analytics.dim_date d using (date_key)
      cross join lateral (values ('what has just changed', c.fresh), ('what changed earlier', c.backfill), ('everything again (sweep)', c.sweep),
        ('what a person waits for', c.interactive)) p (purpose, credits)
      where c.source = 'helpdesk' group by d.week_start, p.purpose having sum(p.credits) > 0 order by d.week_start, p.purpose`,
    spec: {
      title: {
        text: 'What do the credits of the help desk go into?',
        subtitle: [
          'Credits spent in each week: a page of a list costs 1, the messages of a ticket cost 2.',
          'The first week has the first load; earlier: more than an hour before it was read',
        ],
      },
      width: 720,
      height: 300,
      mark: { type: 'bar', width: { band: 0.75 } },
      encoding: {
        x: {
          field: 'week',
          type: 'ordinal',
          timeUnit: 'utcyearmonthdate',
          axis: { format: '%-d %b', labelAngle: 0, title: 'week from' },
        },
        y: { field: 'credits', type: 'quantitative', title: 'credits' },
        color: {
          field: 'purpose',
          type: 'nominal',
          title: 'spent on',
          scale: {
            domain: [
              'what has just changed',
              'what changed earlier',
              'everything again (sweep)',
              'what a person waits for',
            ],
            range: [blue, orange, green, pink],
          },
        },
      },
    } as Picture['spec'],
  },
];

export async function draw(db: pg.Pool, { sql, spec }: Picture): Promise<string> {
  const { rows } = await db.query(sql);
  const made = compile({ ...spec, data: { values: rows }, config } as unknown as TopLevelSpec);
  const view = new View(parse(made.spec), { renderer: 'none' });
  const svg = await view.toSVG();
  view.finalize();
  return `${svg}\n`;
}
