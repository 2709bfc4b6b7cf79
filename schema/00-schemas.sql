-- Schemas and extensions.

-- The schema sync and its table of migrations are there before the first migration.
create schema if not exists sync;
create schema helpdesk;
create schema books;
create schema analytics;
create schema internal;
create schema safe;
comment on schema sync is
  'What Shelfdesk knows of itself: what has been read, when, at what cost, and where the gaps are.';
comment on schema helpdesk is
  'The mirror of the help desk. Read sync.status to see up to when each table is complete.';
comment on schema books is
  'The mirror of the book catalog: shelves, the volumes on them, and where each volume stood when. Read sync.status to see up to when it is complete.';
comment on schema analytics is
  'Facts and metrics for analysts, current within the commit that brought the ticket. Nothing here names a person; every row is of an account that whoever asks may read.';
comment on schema internal is
  'How the metrics are computed and stored. Readers have no access: analytics shows the results.';
comment on schema safe is
  'The mirror of the help desk without what identifies a person: such values are keyed hashes here, equal where the values are equal, or left out.';

-- Trusted extensions: a role that may create schemas may create them.
create extension if not exists btree_gist with schema sync;
create extension if not exists btree_gin with schema sync;
create extension if not exists pg_trgm with schema sync;

-- Bodies of functions name tables that follow.
set local check_function_bodies = off;
