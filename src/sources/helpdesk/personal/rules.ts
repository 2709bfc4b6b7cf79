/** The privacy rules of the help desk's streams: finding, redacting and erasing customers. */
import { holdingOf } from '../../../privacy/contact-normalisation.ts';
import { withFilter } from '../../../privacy/filter.ts';
import { noClues, type People } from '../../../privacy/redact.ts';
import { contactsOf } from '../../record/personal.ts';
import { tables } from '../records.ts';
import { changesOf, customersHere, impersonal, keptInChanges, noteNew, reduceRows, withFiles } from './erase.ts';
import { cluesIn, cluesOf, contactsOfAsked, foundIn, kept, type Personal, redact } from './redact.ts';

const rulesOf = (stream: Personal) =>
  withFilter({
    stream,
    cluesIn: text => cluesIn(stream, text),
    // A message belongs to the customer of its ticket, so the ticket's id is used.
    cluesOf: ({ text, recordId, askId }) =>
      cluesOf(stream, text, stream === 'helpdesk.messages' ? [askId] : [recordId, askId]),
    foundIn(text, erased) {
      const { customers, tickets } = foundIn(stream, text, erased);
      const further = stream === 'helpdesk.customers' ? contactsOfAsked(text, erased) : noClues;
      return { customers: [...customers, ...further.customers], tickets, contacts: further.contacts };
    },
    redact: (text, erased) => redact(stream, text, erased),
    noteNew,
    people,
  });

const people: People = {
  source: 'helpdesk',
  label: 'the help desk',
  requires: 'HELPDESK_BASE_URL and HELPDESK_TOKEN',
  whereIds: 'Ids are those of the help desk: see helpdesk.customers, or helpdesk.contacts for an address.',
  addressed: tables.flatMap(({ record }) => contactsOf(record)).map(({ column }) => column),
  ...customersHere,
  async remove(client, account, who, now) {
    const reduction = await reduceRows(client, account, who, now);
    const { rows, tickets, messages } = reduction;
    const ids = [...who.customers, ...tickets, ...messages];
    const holding = holdingOf(who.customers);
    return {
      rows,
      changes: await changesOf(client, account, who.customers, reduction),
      keptInChanges,
      audits: {
        records: [
          { stream: personalRules.customers.stream, ids: who.customers },
          { stream: personalRules.tickets.stream, ids: tickets },
          { stream: personalRules.messages.stream, ids: tickets },
        ],
        members: await withFiles(client, account, messages),
        kept: [...kept.tickets, ...kept.messages, ...impersonal],
      },
      rejects: [
        { rules: personalRules.customers, ids, holding, own: [] },
        { rules: personalRules.tickets, ids, holding, own: [] },
        { rules: personalRules.messages, ids, holding, own: messages },
      ],
    };
  },
};

export const personalRules = {
  customers: rulesOf('helpdesk.customers'),
  tickets: rulesOf('helpdesk.tickets'),
  messages: rulesOf('helpdesk.messages'),
};
