/** The opened help desk source, with the settings that only its streams read. */
import { type Context, type OpenSource, sourceOf } from '../../engine/context.ts';

export interface HelpdeskSettings {
  readonly audit: AuditSettings;
}

export interface AuditSettings {
  /** Random tickets per hour that an audit compares; 0 disables the audit. */
  readonly ticketsPerHour: number;
  /** Age in ms after which an audit re-reads messages; undefined: never. */
  readonly messagesAgeMs: number | undefined;
}

export const sourceName = 'helpdesk';

/** Throws Fatal if the help desk is not configured. */
export const helpdeskOf = (ctx: Pick<Context, 'sources'>): OpenSource & HelpdeskSettings =>
  sourceOf(ctx, sourceName) as OpenSource & HelpdeskSettings;
