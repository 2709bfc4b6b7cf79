-- Messages and attachments.

-- PostgreSQL's text parser looks ahead for addresses, paths, tags, numbers and compounds, which takes minutes on long
-- runs of such characters. So these characters become spaces, here and in search terms: an address becomes its words.
-- The vector stays below PostgreSQL's limit of 1 MB: 100,000 characters of four bytes with their positions.
create or replace function helpdesk.search_words(body text) returns tsvector
language sql immutable parallel safe
begin atomic
  -- Nested replace is ten times as fast as translate.
  select to_tsvector('simple',
    replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(left(body, 100000), '-', ' '), '_', ' '), '.', ' '), '/', ' '), ':', ' '), '@', ' '), '&', ' '), '<', ' '), '~', ' '), '+', ' '), '#', ' '), '%', ' '), '?', ' '), '=', ' '));
end;
comment on function helpdesk.search_words is
  'Text search vector of a message: all words in lower case with positions, without stemming or stop words. Only the first 100,000 characters count. The index messages_words, which `shelfdesk warehouse search on` makes, uses this function.';
comment on column internal.messages.position is 'Place within the ticket as the source lists it, from 1.';
comment on column helpdesk.attachments.message_id is 'The message; joins helpdesk.messages.id.';
comment on column helpdesk.attachments.ticket_id is 'The ticket of that message; joins helpdesk.tickets.id.';

create or replace trigger keep_change after delete or update on internal.messages for each row execute function sync.keep_change('ticket_id', '{account_id,body_text,from,to}');

create or replace trigger keep_change after delete or update on helpdesk.attachments for each row execute function sync.keep_change('ticket_id', '{account_id}');
