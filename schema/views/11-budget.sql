comment on table sync.budget is
  'Current credits of each source of an account, shared by all processes on all machines. For reports read sync.credit_minutes.';
comment on column sync.budget.account_id is 'The operator''s name for the account.';
comment on column sync.budget.version is
  'Digest of the state, or 1 at first. A change that is based on another state is refused and retried.';
comment on column sync.budget.source is
  'helpdesk or books: each source has its own credits. A credit of the catalog is a request.';
comment on column sync.budget.state is
  'Requests in flight, requests answered within the last period, waiting requests, and the last limits that the source sent. Times are milliseconds since 1970 by the clock of this database.';
comment on table sync.credit_minutes is
  'Credits that an account spent, by purpose. One row a minute; after five weeks one row an hour; after one year one row a day. Times without requests have no row.';
comment on column sync.credit_minutes.account_id is 'The operator''s name for the account.';
comment on column sync.credit_minutes.minute is
  'Start of the minute or the hour, by the clock of this database. For a day: start of the first hour with a request. A request counts in the minute of its reply.';
comment on column sync.credit_minutes.credit_limit is
  'Credits in a period for all clients of the account together, as of the last reply.';
comment on column sync.credit_minutes.interactive is 'Credits that Shelfdesk used for requests with a person waiting.';
comment on column sync.credit_minutes.fresh is 'Credits that Shelfdesk used to keep up with recent changes.';
comment on column sync.credit_minutes.backfill is 'Credits that Shelfdesk used to read history.';
comment on column sync.credit_minutes.others is
  'Highest usage by other clients of the account in one period, as seen in this minute. For an hour or a day: the sum over its minutes.';
comment on column sync.credit_minutes.waited_ms is
  'Total time that the requests of this row waited for credits, in milliseconds.';
comment on column sync.credit_minutes.refused is
  'Requests that the source refused for lack of credits (429; for the catalog also 403). A refusal counts as credits only if the source said so.';
comment on column sync.credit_minutes.source is 'helpdesk or books. A credit of the catalog is a request.';
comment on column sync.credit_minutes.sweep is 'Credits that Shelfdesk used to re-read data: sweeps, audits, verifications.';
comment on column sync.credit_minutes.requests is
  'Answered requests, including refusals and time-outs. Rows from before this column existed have 0.';
comment on column sync.credit_minutes.took_ms is 'Total time from the grant of credits to the reply, in milliseconds.';
comment on column sync.credit_minutes.followed is
  'Requests of this row that immediately followed another request of the same process, with no other request in flight.';
comment on column sync.credit_minutes.between_ms is
  'Total time from the previous reply to the next request, for the requests in `followed`, in milliseconds. The process stores the reply in this time.';
comment on column sync.credit_minutes.minutes is
  'Length of the row in minutes: 1, an hour (60) or a day (1440) of the account''s time zone.';
