/** The open help desk: what its streams need beyond any other source. */
import { type Context, type OpenSource, sourceOf } from '../../engine/context.ts';

export interface HelpdeskSettings {
  readonly audit: AuditSettings;
}

export interface AuditSettings {
  /** Random tickets that an audit compares in an hour; 0: no audit. */
  readonly ticketsPerHour: number;
  /** An audit re-reads messages that were read longer ago than this; undefined: never. */
  readonly messagesAgeMs: number | undefined;
}

export const sourceName = 'helpdesk';

/** Throws Fatal if the help desk is not configured. */
export const helpdeskOf = (ctx: Pick<Context, 'sources'>): OpenSource & HelpdeskSettings =>
  sourceOf(ctx, sourceName) as OpenSource & HelpdeskSettings;
