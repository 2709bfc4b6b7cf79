-- Coverage: synced ranges, and the gaps between them.

create table sync.coverage (
  account_id text,
  stream text not null,
  list text,
  covered tstzmultirange default '{}' not null,
  redundant boolean default false not null,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  since timestamptz,
  lookback interval,
  page_size integer,
  pages_vary boolean default false not null,
  ends_proven_through timestamptz,
  primary key (account_id, stream_key, list)
);

create table sync.gap_reasons (
  account_id text,
  stream text not null,
  list text,
  gap tstzrange,
  reason text not null,
  found_at timestamptz not null,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  primary key (account_id, stream_key, list, gap)
);

create table sync.walks (
  account_id text,
  stream text not null,
  list text,
  since timestamptz not null,
  as_of timestamptz not null,
  page integer not null,
  deep boolean not null,
  until timestamptz default 'infinity',
  updated_since timestamptz,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  cursor text,
  primary key (account_id, stream_key, list, until)
);

create table sync.ties (
  account_id text,
  stream text not null,
  list text,
  seconds tstzrange,
  told_by timestamptz not null,
  members text[] not null,
  held boolean default false not null,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  primary key (account_id, stream_key, list, seconds)
);
