/** The help desk as a source. */

import { fixedToken } from '../../engine/http/dialect.ts';
import { listJobs } from '../../engine/load/list-jobs.ts';
import type { Replaying, Source, StreamJobs } from '../source.ts';
import { customers } from './customers.ts';
import { helpdeskDialect } from './dialect.ts';
import type { Desk } from './forecast/lists.ts';
import { lakeTables } from './lake.ts';
import { messages } from './messages/messages.ts';
import { changedAt, countLeft } from './messages/waiting.ts';
import { type AuditSettings, sourceName } from './open.ts';
import { uses } from './personal/field-uses.ts';
import { tables } from './records.ts';
import { configureHelpdesk, type HelpdeskPart, helpdeskContradictions, helpdeskSettings } from './settings.ts';
import { tickets } from './tickets.ts';
import { users } from './users.ts';

/**
 * Smallest tolerance for steps of the source's clock. Smaller steps cannot be distinguished from the resolution of both
 * clocks.
 */
const leastToleranceMs = 5000;

const ticketRelations = [
  ...['tickets', 'ticket_labels', 'ticket_history', 'ticket_state_intervals', 'inboxes', 'labels'],
  ...['dim_inbox', 'dim_label', 'fact_ticket_labels', 'fact_backlog'],
];
const messageRelations = [
  ...['messages', 'attachments', 'ticket_metrics', 'countable_tickets', 'reply_turns'],
  ...['agent_daily', 'arrivals_hourly', 'fact_tickets', 'fact_messages', 'fact_turns'],
  ...['ticket_targets', 'fact_targets'],
];

/** The work of the streams. A command loads only the work that it does, so that it starts quickly. */
const details = () => import('./messages/detail-loop.ts');
const replay = async (replaying: Replaying) => (await import('./replay.ts')).replay(replaying);

/** Builds the source. `desk`: its streams, which a test may replace by streams with smaller pages. */
// @internal Tests page by a few tickets.
function makeHelpdesk(desk: Desk): Source<HelpdeskPart> {
  const verify: StreamJobs['verify'] = {
    read: async (ctx, claim) => (await import('./verify/verify.ts')).verifyStream(ctx, claim, desk),
  };
  return {
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
      { ...desk.users, replay, relations: ['users', 'dim_user'], jobs: { ...listJobs(desk.users), verify } },
      {
        ...desk.customers,
        replay,
        relations: ['contacts', 'customers', 'customer_summary', 'dim_customer'],
        sampled: true,
        jobs: { ...listJobs(desk.customers), verify },
      },
      {
        ...desk.tickets,
        replay,
        relations: ticketRelations,
        beneath: ['helpdesk.inboxes', 'helpdesk.labels', 'internal.ticket_history', 'internal.backlog'],
        sampled: true,
        jobs: {
          ...listJobs(desk.tickets),
          verify,
          audit: { read: async (ctx, claim) => (await import('./verify/audit.ts')).audit(ctx, claim, desk) },
        },
      },
      {
        ...desk.messages,
        replay,
        relations: messageRelations,
        beneath: ['internal.messages', 'internal.stored_ticket_metrics', 'internal.stored_reply_turns'],
        nightlyDetails: true,
        // A ticket with its messages costs 2 credits (spec, Limits).
        pending: {
          ...{ unit: 'ticket', cost: 2, changedAt, countLeft },
          isDue: async ctx => (await details()).messagesAreDue(ctx),
        },
        jobs: {
          sync: {
            read: async (ctx, claim) => (await details()).hydrate(ctx, claim, desk.messages),
            isDone: async (ctx, work) => (await details()).isDone(ctx, work),
          },
          verify,
        },
      },
    ],
    // A forecast without settings sends no request, so this token is never sent.
    settingsFrom: ({ address }) => ({ HELPDESK_BASE_URL: address.href, HELPDESK_TOKEN: 'unknown' }),
    connect({ helpdesk: access, limits, sinceMs, lookbackMs, audit: own }) {
      if (access === undefined) return undefined;
      return {
        baseUrl: access.baseUrl,
        dialect: helpdeskDialect,
        token: fixedToken(access.token),
        limits,
        sinceMs,
        lookbackMs,
        clockToleranceMs: Math.max(lookbackMs, leastToleranceMs),
        own: { audit: own },
      };
    },
    async forecast(planned, question) {
      const planning = { ...planned, desk };
      const parts = await partsOf();
      planned.unknown ||= planning.unknown;
      planned.latencyMs = planning.latencyMs;
      return parts;

      async function partsOf() {
        const { partsOfBackfill, partsOfSync } = await import('./forecast/lists.ts');
        if (question.kind === 'backfill') return partsOfBackfill(planning, question.streams, question.range);
        return partsOfSync(planning, question.streams);
      }
    },
    checks: async () => (await import('./doctor/checks.ts')).helpdeskChecks,
    lakeTables,
    audit: {
      streams: [tickets.key],
      beside: [messages.key],
      isWanted: source => {
        const { ticketsPerHour, messagesAgeMs } = (source as unknown as { audit: AuditSettings }).audit;
        return ticketsPerHour > 0 || messagesAgeMs !== undefined;
      },
      isThere: 'select from helpdesk.tickets t where t.account_id = $1 and t._messages_as_of is not null',
    },
  };
}

export const helpdesk = makeHelpdesk({ users, customers, tickets, messages });
