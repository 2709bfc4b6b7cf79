-- Up Migration

-- Words of new messages are kept aside and sorted in together: a word of many messages is written once for all of them. Sorted in
-- by the half megabyte they were most of what a message wrote to the log. A search reads all that is kept aside: some milliseconds
-- where the list is full.
alter index helpdesk.messages_words set (gin_pending_list_limit = 4096);
