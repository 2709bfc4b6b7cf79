-- Up Migration

-- Words of new messages are kept aside and sorted in together: a word of many messages is written once for all of them. Sorted in
-- by the half megabyte they took more of the processor, and of the log, than all else of a message. What a search reads of those
-- kept aside is little beside what it reads of the rest.
alter index helpdesk.messages_words set (gin_pending_list_limit = 4096);
