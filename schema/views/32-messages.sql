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
comment on table internal.messages is
  'Stored rows of helpdesk.messages. Read helpdesk.messages instead.';
comment on column internal.messages.position is 'Place within the ticket as the source lists it, from 1.';
comment on column internal.messages.type is 'reply or note. Other values are stored unchanged.';
comment on column internal.messages.direction is 'in (from a customer) or out (to a customer); null on notes.';
comment on column internal.messages.user_id is
  'Author, if a team member; null for customers and automatic replies. Joins helpdesk.users.id.';
comment on column internal.messages.from_name is 'Display name of the sender.';
comment on column internal.messages.from_address is 'Contact information of the sender (from at the source).';
comment on column internal.messages.to_address is 'Contact information of the recipient (to at the source).';
comment on column internal.messages.body is 'The text as the source sent it: HTML if htmlized is true.';
comment on column internal.messages.more_body is 'The signature that the source cut from body.';
comment on column internal.messages.body_text is 'body as plain text, where it differs from body; else null.';
comment on column internal.messages.htmlized is 'True if body is HTML.';
comment on column internal.messages.created_at is 'Creation time at the source. Order equal times by position.';
comment on table helpdesk.attachments is 'Metadata of files attached to messages. The content is not mirrored.';
comment on column helpdesk.attachments.message_id is 'The message; joins helpdesk.messages.id.';
comment on column helpdesk.attachments.ticket_id is 'The ticket of that message; joins helpdesk.tickets.id.';
comment on column helpdesk.attachments.name is 'File name.';
comment on column helpdesk.attachments.type is 'MIME type.';
comment on column helpdesk.attachments.size is 'Size in bytes.';

create or replace trigger keep_change after delete or update on internal.messages for each row execute function sync.keep_change('ticket_id', '{account_id,body_text,from,to}');

create or replace trigger keep_change after delete or update on helpdesk.attachments for each row execute function sync.keep_change('ticket_id', '{account_id}');
