/** Tables of the lake that belong to no source. */
import type { LakeTable } from './table.ts';

/** Tables of no account. */
const ofNone = { unit: 'all', account: null } as const;

export const ownTables: readonly LakeTable[] = [
  { ...ofNone, name: 'analytics.dim_date', key: ['date_key'] },
  { ...ofNone, name: 'analytics.metric_definitions', key: ['relation', 'name'] },
  // Anybody may comment on a column.
  { ...ofNone, name: 'analytics.data_dictionary', unit: 'status', key: ['schema', 'relation', 'column_name'] },
  { ...ofNone, name: 'analytics.calendars', key: ['name'] },
  { ...ofNone, name: 'analytics.calendar_hours', key: ['calendar', 'weekday', 'opens'] },
  { ...ofNone, name: 'analytics.calendar_holidays', key: ['calendar', 'day'] },
  { ...ofNone, name: 'analytics.calendar_spans', key: ['calendar', 'opens_at'] },
  { name: 'analytics.calendar_assignments', unit: 'list', key: ['inbox_id'] },
  { name: 'analytics.account_zones', unit: 'list', key: [] },
  { name: 'analytics.dim_account', unit: 'list', account: 'account_key', key: [] },
  { name: 'internal.lake_completeness', unit: 'status', key: ['source', 'stream'] },
  {
    name: 'analytics.fact_credits',
    unit: 'status',
    account: 'account_key',
    key: ['credit_key'],
    // The last hours grow. After a year the hours of a day become one row.
    changing: (last, moment) => `(hour >= ${last} - interval '2 days' or hour < ${moment} - interval '360 days')`,
  },
];
