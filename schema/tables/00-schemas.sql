-- Schemas and extensions.

-- The schema sync and its table of migrations exist before the first migration.
create schema if not exists sync;

create schema if not exists helpdesk;

create schema if not exists books;

create schema if not exists analytics;

create schema if not exists internal;

create schema if not exists safe;

-- Trusted extensions: a role that may create schemas may also create these extensions.
create extension if not exists btree_gist with schema sync;

create extension if not exists btree_gin with schema sync;

create extension if not exists pg_trgm with schema sync;
