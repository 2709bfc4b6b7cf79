-- The version of a budget is the digest of its state (schema/11-budget.sql).

comment on column sync.budget.version is
  'Digest of the state, or 1 at first. A change that is based on another state is refused and retried.';
