/** What a source is asked when a run is forecast. */
import type { Context } from '../context.ts';
import type { StreamKey } from '../database/stream-key.ts';
import type { Ms } from '../reading/reading.ts';
import type { Range } from '../runs/runs.ts';

export type Question =
  | { readonly kind: 'sync'; readonly streams: readonly StreamKey[] }
  | { readonly kind: 'backfill'; readonly streams: readonly StreamKey[]; readonly range: Range };

/** The state of a forecast while it is computed. */
export interface Planning {
  readonly ctx: Context;
  readonly nowMs: Ms;
  /** Whether a source may be asked, for credits. */
  readonly counts: boolean;
  /** The requests of the forecast itself, and their cost. */
  readonly counted: { what: string; credits: number }[];
  readonly assumed: Set<string>;
  /** Something that matters is unknown. */
  unknown: boolean;
  /** The fastest reply so far. The first reply waits for a connection, a count for the source. */
  latencyMs: number | undefined;
}
