/** The opened help desk source. */
import { type Context, type OpenSource, sourceOf } from '../../engine/context.ts';

export const sourceName = 'helpdesk';

/** Throws Fatal if the help desk is not configured. */
export const helpdeskOf = (ctx: Pick<Context, 'sources'>): OpenSource => sourceOf(ctx, sourceName);
