/** Tables and views of the lake that belong to no source. */
import type { LakeTable } from './table.ts';

export const ownViews = new URL('./views.sql', import.meta.url);

export const ownTables: readonly LakeTable[] = [
  { name: 'analytics.dim_date', unit: 'all', key: ['date_key'] },
  { name: 'analytics.metric_definitions', unit: 'all', key: ['relation', 'name'] },
  { name: 'analytics.data_dictionary', unit: 'all', key: ['schema', 'relation', 'column_name'] },
  { name: 'analytics.calendars', unit: 'all', key: ['name'] },
  { name: 'analytics.calendar_hours', unit: 'all', key: ['calendar', 'weekday', 'opens'] },
  { name: 'analytics.calendar_holidays', unit: 'all', key: ['calendar', 'day'] },
  { name: 'analytics.calendar_spans', unit: 'all', key: ['calendar', 'opens_at'] },
  { name: 'analytics.calendar_assignments', unit: 'list', key: ['inbox_id'] },
  { name: 'analytics.account_zones', unit: 'list', key: [] },
  { name: 'analytics.dim_account', unit: 'list', account: 'account_key', key: [] },
  { name: 'analytics.completeness', unit: 'status', key: ['source', 'stream'] },
  {
    name: 'analytics.fact_credits',
    unit: 'status',
    account: 'account_key',
    key: ['credit_key'],
    // The last hours grow. After a year the hours of a day become one row.
    changing: last => `(hour >= ${last} - interval '2 days' or hour < ${last} - interval '360 days')`,
  },
];
