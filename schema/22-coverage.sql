-- Coverage: the ranges that have been read, and the gaps between them.

create table sync.coverage (
  account_id text,
  stream text not null,
  list text,
  covered tstzmultirange default '{}' not null,
  redundant boolean default false not null,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  primary key (account_id, stream_key, list)
);
comment on table sync.coverage is
  'What has been read: for each list of a stream the time ranges in which the mirror has all that the source showed.';
comment on column sync.coverage.stream is
  'users, customers, tickets or shelves (what messages and volumes lack follows from tickets and shelves).';
comment on column sync.coverage.list is
  'default, or a list of its own that the source may hide from the default one (spam, trash); of shelves: their owner.';
comment on column sync.coverage.covered is
  'Ranges read and committed: of update time for tickets, of creation time for customers, of knowledge for users and shelves.';
comment on column sync.coverage.redundant is
  'True once the default list has shown such records itself, so that this list need not be read.';

create or replace view sync.separate_lists as
select c.account_id, bool_or(c.list = 'spam') as spam, bool_or(c.list = 'trash') as trash
from sync.coverage c
where c.stream_key = 'helpdesk.tickets' and not c.redundant
group by c.account_id;
comment on view sync.separate_lists is 'Which tickets the default list of an account may hide, so that lists of their own are read.';
comment on column sync.separate_lists.account_id is 'The account.';
comment on column sync.separate_lists.spam is 'True if spam is read in a list of its own.';
comment on column sync.separate_lists.trash is 'True if what is in the trash is read in a list of its own.';

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
comment on table sync.gap_reasons is 'Why a range could not be read. Whether it still is a gap, sync.gaps tells.';
comment on column sync.gap_reasons.gap is 'The range that could not be read.';
comment on column sync.gap_reasons.reason is 'What stood in the way.';
comment on column sync.gap_reasons.found_at is 'When it was found.';

create or replace view sync.gaps as
select c.account_id, c.stream, c.list, lower(h.gap) as gap_from, upper(h.gap) as gap_to,
  (select string_agg(distinct r.reason, '; ')
   from sync.gap_reasons r
   where r.account_id = c.account_id and r.stream_key = c.stream_key and r.list = c.list and r.gap && h.gap) as reason,
  c.source, c.stream_key
from sync.coverage c
join sync.accounts a using (account_id)
cross join unnest(
  case when isempty(c.covered) then '{}'::tstzmultirange
    else tstzmultirange(tstzrange(a.since, greatest(a.since, upper(c.covered)))) - c.covered
  end) as h (gap)
where not c.redundant;
comment on view sync.gaps is 'Ranges below the top of coverage that have not been read, with the reason where one is known.';
comment on column sync.gaps.account_id is 'The account.';
comment on column sync.gaps.stream is 'The stream.';
comment on column sync.gaps.list is 'The list of the stream.';
comment on column sync.gaps.gap_from is 'The gap begins here.';
comment on column sync.gaps.gap_to is 'The gap ends before this time.';
comment on column sync.gaps.reason is 'Why it could not be read; null if it simply has not been read.';

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
  primary key (account_id, stream_key, list, until)
);
comment on table sync.walks is
  'The place of a walk: by pages, from the last page to the first, or by creation. It proves nothing before its end, and then becomes coverage.';
comment on column sync.walks.since is 'The walk reads everything created since this time.';
comment on column sync.walks.as_of is 'The walk proves what existed at this time.';
comment on column sync.walks.page is 'The page to be read next; it goes down to 1.';
comment on column sync.walks.deep is 'True if the list is longer than paging reaches, so that another walk has to follow.';
comment on column sync.walks.until is 'The walk reads what was created before this time; infinity: everything.';
comment on column sync.walks.updated_since is
  'The walk reads only what was updated since this time, by creation, from `since` on; null: a walk by pages.';

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
comment on table sync.ties is
  'Crowded seconds that were read by pages, and are covered, while it may still show that a member had left when they were read. Then they are taken back, and read again.';
comment on column sync.ties.seconds is 'What the pages proved.';
comment on column sync.ties.told_by is
  'When the last of its pages came, by the source''s clock: once a sync has read all that had changed by then, it is certain.';
comment on column sync.ties.members is 'The records that its pages showed; each joins the id of its table.';
comment on column sync.ties.held is
  'True where a reply showed a ticket in this second, in an earlier version than its row, and it is not known which of the two is newer: the second is not claimed until it has been read again after told_by and the lookback.';

create or replace function sync.lists_complete_through(account text, stream text) returns timestamptz
language sql stable
begin atomic
  select case when bool_and(not isempty(c.covered))
    then least(
      min(lower(tstzmultirange(tstzrange(a.since, null)) - c.covered)),
      min((
        select min(lower(w.seconds)) from sync.ties w
        where w.held and (w.account_id, w.stream_key, w.list) = (c.account_id, c.stream_key, c.list)))) end
  from sync.coverage c
  join sync.accounts a using (account_id)
  where c.account_id = account
    and c.stream_key = lists_complete_through.stream
    and not c.redundant;
end;
comment on function sync.lists_complete_through is
  'Every list of the stream has been read without a gap up to this time; null if one was never read. The stream is named by its key.';
