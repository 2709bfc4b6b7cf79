/**
 * The features that need certain fields. Prepared questions are listed if their answers differ without the field
 * (test/integration/field-uses.test.ts).
 */
import type { Uses } from '../../source.ts';

/** Fields that show whether a message is a reply, and by whom. */
const ofAuthor = ['type', 'direction', 'user_id'];
const ofReply = [...ofAuthor, 'created_at'];

const work: Uses = {
  'erasure of an address in tickets of others': { tickets: ['reply_to'] },
  'erasure of who shares an address': { contacts: ['value'] },
  'erasure of who wrote under another id': { messages: ['from'] },
  'search of addresses': { contacts: ['value'] },
  'search of messages': { messages: ['body'] },
  'search of subjects': { tickets: ['subject'] },
};

const questions: Uses = {
  'age-of-open-tickets': { tickets: ['state'], messages: ofReply },
  'arrivals-by-hour-and-weekday': { messages: ['type', 'direction', 'created_at'] },
  'as-of': { tickets: ['user_id', 'state'] },
  'backlog-by-channel': { tickets: ['state', 'type'] },
  'backlog-by-inbox': { tickets: ['inbox_id', 'state'], inboxes: ['name'] },
  'backlog-by-week': { tickets: ['user_id', 'state'] },
  'business-hours': { tickets: ['inbox_id'], messages: ofReply, inboxes: ['name'] },
  'created-and-closed': { tickets: ['state'] },
  'due-next': { tickets: ['number', 'inbox_id', 'state'], messages: ofReply, inboxes: ['name'] },
  'first-response-by-inbox-and-week': { tickets: ['inbox_id'], messages: ofReply, inboxes: ['name'] },
  'first-response-in-time': { tickets: ['inbox_id'], messages: ofReply, inboxes: ['name'] },
  handovers: { tickets: ['user_id', 'state'], messages: ofAuthor },
  'known-senders': { tickets: ['type'], messages: ['direction', 'from'], contacts: ['value'] },
  labels: { tickets: ['label_ids'], messages: ofReply, labels: ['name'] },
  'load-by-agent': { tickets: ['user_id', 'state'], messages: ofReply },
  'never-answered': { tickets: ['inbox_id', 'state'], messages: ofAuthor, inboxes: ['name'] },
  'one-touch': { tickets: ['type'], messages: ofAuthor },
  reopened: { tickets: ['inbox_id', 'state'], inboxes: ['name'] },
  'resolution-time': { tickets: ['state'] },
  'returning-customers': { messages: ['type', 'direction'] },
  'solved-by-agent': { tickets: ['user_id', 'state'] },
  'targets-by-week': { tickets: ['state'], messages: ofReply },
  'targets-in-force': { tickets: ['state'], messages: ofReply },
  'targets-kept': { tickets: ['inbox_id', 'state'], messages: ofReply, inboxes: ['name'] },
  'time-in-states': { tickets: ['inbox_id', 'state'], inboxes: ['name'] },
  'waits-by-channel': { tickets: ['type'], messages: ofReply },
  'who-answers': { messages: ofReply },
  'who-waits-longest': { tickets: ['number', 'inbox_id', 'state', 'type'], messages: ofReply, inboxes: ['name'] },
};

export const uses: Uses = {
  ...work,
  ...Object.fromEntries(Object.entries(questions).map(([name, fields]) => [`question ${name}`, fields])),
};
