comment on table sync.coverage is
  'Synced ranges: for each list of a stream, the time ranges in which the mirror holds all records that the source showed.';
comment on column sync.coverage.stream is
  'users, customers, tickets or shelves. Gaps in messages and volumes follow from tickets and shelves.';
comment on column sync.coverage.list is
  'default, or a separate list that the source may hide from the default one (spam, trash). For shelves: their owner.';
comment on column sync.coverage.covered is
  'Synced ranges, read and committed. Tickets: ranges of update time. Customers: ranges of creation time. Users and shelves: the range up to the last full read.';
comment on column sync.coverage.redundant is
  'True once the default list showed records of this list, so that no run needs to read this list.';

comment on column sync.coverage.since is
  'Start of the range that the mirror reads of this source; 1970-01-01 means everything. Null: that of the account (sync.accounts).';
comment on column sync.coverage.lookback is
  'Lookback window of this source: the longest delay until it shows a change. Null: that of the account (sync.accounts).';
comment on column sync.coverage.page_size is
  'Most records that a page of this list shows, where the source shows fewer than it is asked for. Null: as many as it is asked for.';
comment on column sync.coverage.pages_vary is
  'Pages of this list that have others behind them show different numbers of records, as if some were taken out.';
comment on column sync.coverage.ends_proven_through is
  'What was covered before this time was read to the end of the list for certain: in a first load, or before a later look at the newest records. If pages turn out to be short, what was covered since then is read again.';

create or replace function sync.lookback_of(account text, source text) returns interval
language sql stable
begin atomic
  select coalesce(
    (select max(c.lookback) from sync.coverage c where c.account_id = account and c.source = lookback_of.source), a.lookback)
  from sync.accounts a where a.account_id = account;
end;
comment on function sync.lookback_of is 'Lookback window of a source of an account.';

create or replace view sync.separate_lists as
select c.account_id, bool_or(c.list = 'spam') as spam, bool_or(c.list = 'trash') as trash
from sync.coverage c
where c.stream_key = 'helpdesk.tickets' and not c.redundant
group by c.account_id;
comment on view sync.separate_lists is
  'Tickets that the default list of an account may hide, so that runs read them in separate lists.';
comment on column sync.separate_lists.account_id is 'The account.';
comment on column sync.separate_lists.spam is 'True if spam is read in a separate list.';
comment on column sync.separate_lists.trash is 'True if the trash is read in a separate list.';
comment on table sync.gap_reasons is 'Reasons why ranges could not be read. sync.gaps shows whether a range is still a gap.';
comment on column sync.gap_reasons.gap is 'The range that could not be read.';
comment on column sync.gap_reasons.reason is 'Reason for the failure.';
comment on column sync.gap_reasons.found_at is 'When the failure was found.';

create or replace view sync.gaps as
select c.account_id, c.stream, c.list, lower(h.gap) as gap_from, upper(h.gap) as gap_to,
  (select string_agg(distinct r.reason, '; ')
   from sync.gap_reasons r
   where r.account_id = c.account_id and r.stream_key = c.stream_key and r.list = c.list and r.gap && h.gap) as reason,
  c.source, c.stream_key
from sync.coverage c
join sync.accounts a using (account_id)
cross join lateral (select coalesce(c.since, a.since) as since) b
cross join unnest(
  case when isempty(c.covered) then '{}'::tstzmultirange
    else tstzmultirange(tstzrange(b.since, greatest(b.since, upper(c.covered)))) - c.covered
  end) as h (gap)
where not c.redundant;
comment on view sync.gaps is 'Gaps: unread ranges below the high-water mark, with the reason where known.';
comment on column sync.gaps.account_id is 'The account.';
comment on column sync.gaps.stream is 'The stream.';
comment on column sync.gaps.list is 'The list of the stream.';
comment on column sync.gaps.gap_from is 'Start of the gap.';
comment on column sync.gaps.gap_to is 'End of the gap, exclusive.';
comment on column sync.gaps.reason is 'Why the gap could not be read; null if the range is merely unread.';
comment on table sync.walks is
  'Positions of unfinished walks through a list: by pages, from the last page to the first, or by creation time. A walk proves nothing before its end, and then becomes coverage.';
comment on column sync.walks.since is 'The walk reads everything created since this time.';
comment on column sync.walks.as_of is 'The walk proves which records existed at this time.';
comment on column sync.walks.page is 'Next page to read; counts down to 1.';
comment on column sync.walks.deep is 'True if the list is longer than paging reaches, so that another walk must follow.';
comment on column sync.walks.until is 'The walk reads records created before this time; infinity: all records.';
comment on column sync.walks.cursor is 'Of a feed of events: the cursor behind which the next run reads. It is kept when the run has ended.';
comment on column sync.walks.updated_since is
  'The walk reads only records updated since this time, in order of creation, from `since` on. Null: a walk by pages.';
comment on table sync.ties is
  'Ties: seconds shared by many records, read by pages. A record may have left its second before the last page arrived, so that pages missed other records. Until a sync rules this out, the second counts as synced, unless `held`. If a record did leave, the second becomes a gap and is re-read.';
comment on column sync.ties.seconds is 'Range that the pages proved.';
comment on column sync.ties.told_by is
  'When the last page arrived, by the source''s clock. The tie is certain once a sync has read all changes up to this time.';
comment on column sync.ties.members is 'Records on the pages of the tie; each joins the id of its table.';
comment on column sync.ties.held is
  'True if a reply showed a ticket in this second in an earlier version than its row, and the two versions cannot be ordered. The second counts as synced only when re-read after told_by and the lookback.';

create or replace function sync.lists_complete_through(account text, stream text) returns timestamptz
language sql stable
begin atomic
  select case when bool_and(not isempty(c.covered))
    then least(
      min(lower(tstzmultirange(tstzrange(coalesce(c.since, a.since), null)) - c.covered)),
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
  'Every list of the stream is read without a gap up to this time; null if one list was never read. The stream is named by its key.';
