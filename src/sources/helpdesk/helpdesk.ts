/** The help desk as a source. */

import { detailJobs, pendingOf, replay } from '../../engine/details/detail-jobs.ts';
import { fixedToken } from '../../engine/http/dialect.ts';
import { listJobs } from '../../engine/load/list-jobs.ts';
import type { Source } from '../source.ts';
import { customers } from './customers.ts';
import { helpdeskDialect } from './dialect.ts';
import { lakeTables } from './lake.ts';
import { messages } from './messages/messages.ts';
import { sourceName } from './open.ts';
import { uses } from './personal/field-uses.ts';
import { tables } from './records.ts';
import { configureHelpdesk, type HelpdeskPart, helpdeskContradictions, helpdeskSettings } from './settings.ts';
import { changedAt } from './ticket-life.ts';
import { tickets } from './tickets.ts';
import { users } from './users.ts';

/**
 * Smallest tolerance for steps of the source's clock. Smaller steps cannot be distinguished from the resolution of both
 * clocks.
 */
const leastToleranceMs = 5000;

const ticketRelations = [
  ...['tickets', 'ticket_labels', 'ticket_history', 'ticket_state_intervals', 'inboxes', 'labels'],
  ...['dim_inbox', 'dim_label', 'fact_ticket_labels', 'fact_backlog', 'fact_backlog_months'],
];
const messageRelations = [
  ...['messages', 'attachments', 'ticket_metrics', 'countable_tickets', 'reply_turns'],
  ...['agent_daily', 'arrivals_hourly', 'fact_tickets', 'fact_messages', 'fact_turns'],
  ...['ticket_targets', 'fact_targets', 'fact_ticket_events'],
];

export const helpdesk: Source<HelpdeskPart> = {
  name: sourceName,
  label: 'the help desk',
  unit: 'credit',
  settings: helpdeskSettings,
  address: 'HELPDESK_BASE_URL',
  requires: 'HELPDESK_BASE_URL and HELPDESK_TOKEN',
  configure: configureHelpdesk,
  contradictions: helpdeskContradictions,
  identityOf: ({ helpdesk: access }) => access && JSON.stringify([access.baseUrl.href, access.token]),
  tables,
  uses,
  streams: [
    { ...users, replay, relations: ['users', 'dim_user'], jobs: listJobs(users) },
    {
      ...customers,
      replay,
      relations: ['contacts', 'customers', 'customer_summary', 'dim_customer'],
      jobs: listJobs(customers),
    },
    {
      ...tickets,
      replay,
      relations: ticketRelations,
      beneath: ['helpdesk.inboxes', 'helpdesk.labels', 'internal.ticket_history', 'internal.backlog'],
      jobs: listJobs(tickets),
    },
    {
      ...messages,
      replay,
      relations: messageRelations,
      beneath: ['internal.messages', 'internal.stored_ticket_metrics', 'internal.stored_reply_turns'],
      nightlyDetails: true,
      pending: { ...pendingOf(messages), changedAt },
      jobs: detailJobs(messages),
    },
  ],
  // A forecast without settings sends no request, so this token is never sent.
  settingsFrom: ({ address }) => ({ HELPDESK_BASE_URL: address.href, HELPDESK_TOKEN: 'unknown' }),
  connect({ helpdesk: access, limits, sinceMs, lookbackMs, audit }) {
    if (access === undefined) return undefined;
    return {
      baseUrl: access.baseUrl,
      dialect: helpdeskDialect,
      token: fixedToken(access.token),
      limits,
      sinceMs,
      lookbackMs,
      clockToleranceMs: Math.max(lookbackMs, leastToleranceMs),
      audit,
    };
  },
  forecast: async (planning, question) => (await import('./forecast/lists.ts')).partsOf(planning, question),
  checks: async () => ({ area: 'help desk', checks: (await import('./doctor/checks.ts')).helpdeskChecks }),
  lakeTables,
};
