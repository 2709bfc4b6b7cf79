-- Up Migration

-- A version of a ticket may be dated ahead of its change. It holds off a later change only until a reply tells which is newer.

create or replace view safe.tickets with (security_barrier) as
select t.account_id, t.id, t.number, t.customer_id, t.user_id, t.inbox_id, t.label_ids, t.state, t.type,
  sync.masked('subject', t.subject, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as subject,
  sync.masked('summary', t.summary, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as summary,
  t.spam, t.trash, t.snoozed_until,
  sync.masked_contact(t.reply_to, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as reply_to,
  sync.masked_contact(t.reply_cc, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as reply_cc,
  t.created_at, t.updated_at, t._messages_as_of, t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at,
  t._deleted_after, t._listed_by, t._messages_by, t._true_by
from helpdesk.tickets t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on column safe.tickets._true_by is
  'The source had shown the content by this time, by its own clock: the Date of the reply and the second of its grain. _observed_at is early on purpose, and is the time up to which the reply was complete. Null where nobody noted it (rows from before this column, and rejects that were replayed): then within a minute after _observed_at.';

alter table sync.crowds add column held boolean not null default false;
comment on column sync.crowds.held is
  'True where a reply showed a ticket in this second, in an earlier version than its row, and it is not known which of the two is newer: the second is not claimed until it has been read again after told_by and the lookback.';

create or replace function sync.lists_complete_through(account text, stream text) returns timestamptz
language sql stable
begin atomic
  select case when bool_and(not isempty(c.covered))
    then least(
      min(lower(tstzmultirange(tstzrange(a.since, null)) - c.covered)),
      min((
        select min(lower(w.seconds)) from sync.crowds w
        where w.held and (w.account_id, w.stream, w.list) = (c.account_id, c.stream, c.list)))) end
  from sync.coverage c
  join sync.accounts a using (account_id)
  where c.account_id = account
    and c.stream = lists_complete_through.stream
    and not c.redundant;
end;

-- The clock of the source was set back. History keeps the last row that is dated later than that, from then on.
create or replace function sync.void_since(account text, source text, since timestamptz) returns void
language sql
begin atomic
  update sync.coverage c set covered = c.covered * tstzmultirange(tstzrange(null, since))
  from sync.streams k
  where k.source = void_since.source and c.stream = k.stream and c.account_id = account
    and c.covered && tstzrange(since, null);
  delete from sync.walks w using sync.streams k
  where k.source = void_since.source and w.stream = k.stream and w.account_id = account and w.as_of > since;
  delete from sync.swept s using sync.streams k
  where k.source = void_since.source and s.stream = k.stream and s.account_id = account and s.as_of > since;
  -- Rows from after that time give way to each reply that is later, also to a version that is dated earlier.
  update helpdesk.tickets t set
    _observed_at = least(t._observed_at, since),
    -- `since` is early by the tolerance of the clock.
    _true_by = least(coalesce(t._true_by, t._observed_at + interval '1 minute'),
      since + (select greatest(a.lookback, interval '5 seconds') from sync.accounts a where a.account_id = t.account_id)),
    _messages_as_of = case when t._messages_as_of > since then since else t._messages_as_of end
  where void_since.source = 'helpdesk' and t.account_id = account
    and (t.updated_at > since or t._observed_at > since or t._messages_as_of > since);
  update helpdesk.customers c set
    _observed_at = least(c._observed_at, since),
    _checked_at = case when c._checked_at > since then since else c._checked_at end
  where void_since.source = 'helpdesk' and c.account_id = account and (c._observed_at > since or c._checked_at > since);
  update helpdesk.users u set _observed_at = since
  where void_since.source = 'helpdesk' and u.account_id = account and u._observed_at > since;
  delete from helpdesk.ticket_history h
  where void_since.source = 'helpdesk' and h.account_id = account and h.valid_from > since and exists (
    select from helpdesk.ticket_history l
    where l.account_id = h.account_id and l.ticket_id = h.ticket_id and l.valid_from > h.valid_from);
  update helpdesk.ticket_history h set
    valid_to = greatest(since, h.valid_from + interval '1 second'),
    deleted_after = case when h.deleted_after < since then h.deleted_after end
  where void_since.source = 'helpdesk' and h.account_id = account and h.valid_from <= since and h.valid_to > since;
  update helpdesk.ticket_history h set
    valid_from = p.at,
    valid_to = case when h.valid_to is not null then greatest(h.valid_to, p.at + interval '1 second') end,
    change_after = case
      when p.last_from is not null then least(h.change_after, p.last_from - interval '1 second')
      when p.created_at <= p.at then p.created_at - interval '1 second' end,
    is_first = p.last_from is null
  from (
    select l.account_id, l.ticket_id, l.valid_from, b.valid_from as last_from, greatest(since, b.valid_to) as at, t.created_at
    from helpdesk.ticket_history l
    join helpdesk.tickets t on t.account_id = l.account_id and t.id = l.ticket_id
    left join lateral (
      select e.valid_from, e.valid_to from helpdesk.ticket_history e
      where e.account_id = l.account_id and e.ticket_id = l.ticket_id and e.valid_from < l.valid_from
      order by e.valid_from desc limit 1) b on true
    where l.account_id = account and l.valid_from > since) p
  where void_since.source = 'helpdesk' and h.account_id = p.account_id and h.ticket_id = p.ticket_id and h.valid_from = p.valid_from;
end;
comment on function sync.void_since(text, text, timestamptz) is
  'The clock of the source was set back to this time: claims of complete, swept and checked end there, rows of a later time give way to what is read next, and the history of tickets has none of a later time.';
