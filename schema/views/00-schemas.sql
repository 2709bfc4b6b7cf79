comment on schema sync is 'Records of the sync itself: synced ranges, times of runs, costs in credits, and gaps.';
comment on schema helpdesk is
  'The mirror of the help desk. Read sync.status to see up to when each table is complete.';
comment on schema books is
  'The mirror of the book catalog: shelves, their volumes, and the history of each volume''s place. Read sync.status to see up to when the mirror is complete.';
comment on schema analytics is
  'Facts and metrics for analysts, updated in the same commit as the ticket. No row names a person. Readers see only rows of accounts that they may read. Agents that ask in SQL begin with analytics.guide.';
comment on schema internal is 'Computation and storage of the metrics. Readers have no access: analytics shows the results.';
comment on schema safe is
  'The mirror of the help desk without personal data. Identifying values are left out, or replaced by keyed hashes: equal values have equal hashes.';
