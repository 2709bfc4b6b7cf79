comment on table sync.migrations is 'Migrations that were applied to this database, one row each.';
comment on column sync.migrations.id is 'Order in which the migrations were applied.';
comment on column sync.migrations.name is 'Name of the file in migrations/, without .sql.';
comment on column sync.migrations.run_on is 'When the migration was applied.';
comment on table sync.view_sets is 'The texts of schema/views that were applied to this database, one row each; the last one is in force.';
comment on column sync.view_sets.id is 'Order in which they were applied.';
comment on column sync.view_sets.checksum is 'SHA-256 of the text, in hexadecimal.';
comment on column sync.view_sets.version is 'Version of the program that applied it; empty where that did not say.';
comment on column sync.view_sets.made is 'The views and functions that it made, as: view sync.status, function sync.lookback_of(text,text).';
comment on column sync.view_sets.run_on is 'When it was applied.';
comment on table sync.accounts is 'One row for each mirrored account.';
comment on column sync.accounts.account_id is 'The operator''s name for the account; part of every key.';
comment on column sync.accounts.since is
  'Start of the range that the mirror reads of the help desk (HELPDESK_SINCE); 1970-01-01 means everything. Other sources have their own: sync.coverage.since.';
comment on column sync.accounts.queue is
  'Id of the account''s job queue. A separate id keeps warehouses apart that share one Redis.';
comment on column sync.accounts.mirrored_since is
  'Start of the mirror. Later changes are new; earlier changes are history that the first load reads.';
comment on column sync.accounts.lookback is
  'Lookback window of the help desk: the longest delay until it shows a change, as last set (HELPDESK_LOOKBACK_SECONDS). A reply may miss changes that happened less than this long before it. Other sources have their own: sync.coverage.lookback.';
comment on table sync.sources is 'The sources of each account, one row each. All rows of a source come from this one address.';
comment on column sync.sources.account_id is 'The account.';
comment on column sync.sources.source is 'The source, which is also the schema of its tables: helpdesk or books.';
comment on column sync.sources.address is 'Base address of the source. Its first stored row binds the account to this address.';
comment on table sync.streams is 'Mirrored streams, one row each.';
comment on column sync.streams.stream is 'Short name of the stream, unique within its source.';
comment on column sync.streams.source is
  'The source of the stream: helpdesk or books. Streams of two sources do not wait for each other.';
comment on column sync.streams.place is
  'Position of the stream in a run. A run reads the streams of one source one after the other.';
comment on column sync.streams.follows is
  'The stream of the same source whose records name the ids to fetch; null for streams that are read as lists.';
comment on column sync.streams.one_reader is
  'True if only one run at a time reads the stream. False if a backfill may read gaps of the stream concurrently with another run.';
comment on column sync.streams.stream_key is
  'Key of the stream, unique across all sources: source.stream, for example helpdesk.tickets.';
comment on column sync.streams.personal is
  'True if tables of the stream hold personal data. Readers without the right to personal data read masked views in the schema safe.';
comment on column sync.streams.deletions is 'Why deletions in the stream are unknown; null if the mirror finds deletions.';
comment on column sync.streams.swept is 'True if a sweep re-reads the stream to find deletions and silent changes.';
comment on column sync.streams.dated_by is
  'Column of the table of the stream with the time of the last change of a record, or of its creation if the list shows no changes; null if records have no such time.';

create or replace view sync.source_schemas as
select source::name as name, bool_or(personal) as personal from sync.streams group by source;
comment on view sync.source_schemas is 'Schemas of mirrored tables, one for each source.';
comment on column sync.source_schemas.name is 'The schema, named after its source.';
comment on column sync.source_schemas.personal is 'True if at least one stream of the source holds personal data.';
comment on table sync.source_files is
  'Schema files of sources that were applied to this database. Shelfdesk refuses later edits of an applied file.';
comment on column sync.source_files.source is 'The source that owns the file.';
comment on column sync.source_files.name is 'Name of the file.';
comment on column sync.source_files.checksum is 'SHA-256 of the file when it was applied.';
comment on column sync.source_files.run_on is 'When the file was applied.';

create or replace function sync.key_of(stream text) returns text
language sql stable
begin atomic
  select case when strpos(key_of.stream, '.') > 0 then key_of.stream else (
    select min(k.stream_key) from sync.streams k where k.stream = key_of.stream having count(*) = 1) end;
end;
comment on function sync.key_of is
  'Key of a stream (source.stream), from the key itself or from a short name that only one source has. Any other short name gives null.';

create or replace function sync.name_of(key text) returns text
language sql stable
begin atomic
  select case when count(*) > 1 then name_of.key else split_part(name_of.key, '.', 2) end
  from sync.streams k where k.stream = split_part(name_of.key, '.', 2);
end;
comment on function sync.name_of is
  'Name of a stream for people, from its key: the short name, or the key if more than one source has a stream of that name.';

create or replace function sync.option_of(account text) returns text
language sql immutable
begin atomic
  select case when account = 'default' then '' else ' --account ' || account end;
end;
comment on function sync.option_of is 'Command-line option that selects this account; empty for the account named default.';
comment on table sync.paused is
  'Streams and accounts that people paused. No run reads a paused stream until people resume it. Meanwhile open runs wait, and the schedule skips paused streams.';
comment on column sync.paused.stream is 'The paused stream; empty for the whole account.';
comment on column sync.paused.paused_at is 'Start of the pause.';
comment on column sync.paused.paused_by is 'The person who paused the stream or account: see sync.operations.who.';
comment on column sync.paused.reason is 'Reason for the pause, in the person''s own words.';
comment on column sync.paused.source is 'Source of the paused stream: helpdesk or books. Empty for the whole account.';
comment on column sync.paused.stream_key is
  'Key of the paused stream: source.stream, for example helpdesk.tickets. Empty for the whole account.';

create or replace function sync.is_paused(account text, stream text) returns boolean
language sql stable
begin atomic
  select exists (
    select from sync.paused p where p.account_id = account and p.stream_key in ('', is_paused.stream));
end;
comment on function sync.is_paused is 'True if people have paused the stream, named by its key, or the whole account.';
comment on table sync.field_rules is
  'Field rules: fields of the source that are left out, hashed, cut or reduced to a domain before they are stored. No process without these rules writes rows of the account.';
comment on column sync.field_rules.rule is 'The rule as in the setting FIELD_RULES, for example messages.body.';
comment on column sync.field_rules.full_rule is
  'The rule with the source of its records, for example helpdesk.messages.body. Two spellings of a rule are one.';
comment on column sync.field_rules.since is 'From when on records that arrive follow the rule.';
comment on column sync.field_rules.applied_at is
  'When the records of before had been rewritten by the rule. Null: records of before may still hold the field.';
comment on column sync.field_rules.key_mark is 'Digest of the key of the hashes; null for a rule without hashes.';
comment on table sync.operations is
  'Actions of people at a terminal or on the page, one row for each action and account, refused actions included. Actions: pause and resume; start of a run on the page; cancel and retry of a run; erasure of a customer; access of readers; calendars; service targets. Runs that a command starts are in sync.runs.';
comment on column sync.operations.id is 'Number of the action.';
comment on column sync.operations.at is 'When the action happened.';
comment on column sync.operations.account_id is 'The operator''s name for the mirrored account.';
comment on column sync.operations.who is
  'The person: user and machine of a terminal, or role and address of a browser. The worker, when a customer comes back after an erasure and the worker erases the customer again.';
comment on column sync.operations.action is
  'The action: run, pause, resume, retry, cancel, erase, let a reader in, revoke a reader, calendar, target, field rules, move.';
comment on column sync.operations.subject is
  'Object of the action: a stream, a run, a kind of run, a customer, a reader, a calendar, a service target or field rules; empty for the whole account.';
comment on column sync.operations.outcome is 'Result of the action, or the reason for the refusal.';

create or replace function sync.in_words(span interval) returns text
language sql immutable
begin atomic
  select case
    when s < 90 then round(s) || ' s' when s < 90 * 60 then round(s / 60) || ' min'
    when s < 48 * 3600 then round(s / 3600) || ' h' else round(s / 86400) || ' d' end
  from (select greatest(0, extract(epoch from span)) as s) seconds;
end;
comment on function sync.in_words is 'A time span in short form, rounded to one unit: 3 s, 4 min, 33 h, 9 d.';

create or replace function sync.counted(n bigint, one text, many text default null) returns text
language sql immutable
begin atomic
  select n || ' ' || case n when 1 then one else coalesce(many, one || 's') end;
end;
comment on function sync.counted is 'A number with its noun: 1 record, 2 records. Without `many`, the plural adds an s.';

create or replace function sync.time_in_words(at timestamptz) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select to_char(at at time zone 'UTC',
    case when (at at time zone 'UTC')::date = (now() at time zone 'UTC')::date then 'HH24:MI"Z"' else 'YYYY-MM-DD"T"HH24:MI"Z"' end)
$$;
comment on function sync.time_in_words is 'A time in UTC to the minute, with its date unless it is of today: 23:07Z, 2026-06-01T23:07Z.';

create or replace function sync.label_of(source text) returns text
language sql immutable
begin atomic
  select case source when 'helpdesk' then 'the help desk' when 'books' then 'the book catalog' else 'the source ' || source end;
end;
comment on function sync.label_of is 'A source as people call it.';
comment on table sync.secret_ended_sessions is
  'Sessions of the page that their visitors ended. A row goes when its session would have ended by itself.';
comment on column sync.secret_ended_sessions.session is 'A keyed hash of the session: nobody can log in with it.';
comment on column sync.secret_ended_sessions.ends_at is 'When the session would have ended by itself.';
comment on table sync.moves is
  'Accounts that move between warehouses (npx shelfdesk account move), one row each, in both. A warehouse that an account has left keeps its row, so that nobody works on it there.';
comment on column sync.moves.account_id is 'The account.';
comment on column sync.moves.move_id is 'Number of the move, the same in both warehouses.';
comment on column sync.moves.state is
  'leaving: its rows are read-only here until they are equal there. moved: it is worked on there, and stays read-only here. arriving: its rows come in. arrived: it is worked on here.';
comment on column sync.moves.place is 'The other warehouse: host:port/database.';
comment on column sync.moves.who is 'Who moves it.';
comment on column sync.moves.began_at is 'When the move began.';
comment on column sync.moves.ended_at is 'When the account moved; null until then.';
comment on column sync.moves.progress is 'How far the rows of each table have come in; null where they leave.';

-- Its triggers name the accounts (src/engine/database/move/fence.ts), so that a row of any other costs one look into that list.
create or replace function sync.refuse_moved() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  name constant text := coalesce(to_jsonb(new), to_jsonb(old)) ->> 'account_id';
  one sync.moves;
begin
  select m.* into one from sync.moves m where m.account_id = name and m.state <> 'arrived';
  if one.account_id is not null and coalesce(current_setting('shelfdesk.copying', true), '') <> 'on'
    -- A migration changes the rows of all accounts, and what follows from them.
    and coalesce(current_setting('shelfdesk.migrating', true), '') <> 'on' then
    raise exception 'account ''%'' %', name, case one.state
        when 'moved' then format('moved to %s at %sZ', one.place, to_char(one.ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI'))
        when 'leaving' then format('is moving to %s, so nothing is written here', one.place)
        else format('is coming from %s', one.place) end
      using errcode = 'SHMOV', hint = case one.state
        when 'moved' then format('Work on it there: set DATABASE_URL to that warehouse. `npx shelfdesk account remove %s` takes its rows out here.', name)
        when 'leaving' then format('Wait, or run `npx shelfdesk account move %s --to <url>` again: it resumes. With --give-up instead of --to the account stays here.', name)
        else 'Wait for the end of its move, or run that command again, which resumes it.' end;
  end if;
  return case tg_op when 'DELETE' then old else new end;
end
$$;
comment on function sync.refuse_moved is 'Refuses to write rows of an account that is moving, or has moved, to another warehouse.';
