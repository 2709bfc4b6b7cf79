/** Writes the tombstone of a ticket, as a 404 for its id does. */
import type { Client } from '../../src/engine/database/pool.ts';
import { bury } from '../../src/engine/deletions/bury.ts';
import { tickets } from '../../src/sources/helpdesk/tickets.ts';

/** `byMs`: when the ticket was gone, by the clock of the help desk. Returns the number of tombstones. */
export const buryTicket = (
  client: Client,
  writer: { readonly account: string; readonly run: number | null },
  id: string,
  asOfMs: number,
  now: Date,
  { byMs, lookbackMs } = { byMs: asOfMs, lookbackMs: 0 },
): Promise<number> =>
  bury(client, writer, tickets, [id], { goneMs: byMs, beforeMs: asOfMs + 1, nowMs: now.getTime(), lookbackMs });
