/** What a source is asked when a run is forecast. */
import type { Context } from '../context.ts';
import type { StreamKey } from '../database/stream-key.ts';
import type { Ms } from '../reading/reading.ts';
import type { Range } from '../runs/runs.ts';

export type Question =
  | { readonly kind: 'sync'; readonly streams: readonly StreamKey[] }
  | { readonly kind: 'backfill'; readonly streams: readonly StreamKey[]; readonly range: Range };

/** Time in ms to store a page of a list (`page`) or a record by id (`record`). Includes the query for the next one. */
export const storeMs = { page: 20, record: 8 };

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
}
