/** What is said of a service target, beside what the script did to the ticket. */
import { expect } from 'vitest';
import type { Desk } from './desk-script.ts';
import { type Period, statesOf, timeOf } from './history-in-words.ts';
import { closingsOf, kindOf, waitsOf } from './metrics-in-words.ts';
import type { Counted, Row } from './star-in-words.ts';

interface Claim {
  /** Of analytics.ticket_targets. */
  readonly row: Row;
  readonly one: Counted;
  readonly desk: Desk;
  readonly periods: readonly Period[];
  /** The last reply shows all that had happened by then. */
  readonly readMs: number;
}

/** What is met was met, and what is missed was missed, outside of the bounds that the comments state. */
export function checkOutcome(claim: Claim): void {
  const { row, desk } = claim;
  const id = String(row.ticket_id);
  // What nobody can read, nobody can know.
  if ((row.outcome !== 'met' && row.outcome !== 'missed') || desk.unreadable.has(id)) return;
  if (row.metric === 'resolution') checkResolution(id, claim);
  else if (row.metric === 'resolution_without_hold') checkWithoutHold(id, claim);
  else checkResponse(id, claim);
}

function checkResolution(id: string, { row, desk, periods, readMs }: Claim): void {
  const dueMs = Date.parse(String(row.due_at));
  const life = desk.lives.get(id)!;
  const resolved = life.map(({ was }) => was !== undefined && /^\["(closed|archived)"/.test(was));
  const closings = life.filter((_, i) => resolved[i] && !resolved[i - 1]);
  if (row.is_done) {
    const closing = closingsOf(statesOf(periods)).at(-1)!;
    // Of what was resolved when it was first seen it takes the source at its word.
    if (closing.isFirst || closing.after === null) return;
    const byMs = closing.by ?? closing.from;
    const when = closings.filter(({ fromMs }) => fromMs > closing.after! && fromMs <= byMs).map(({ fromMs }) => fromMs);
    const says = `${id} was closed ${when.map(ms => new Date(ms).toISOString())}, ${row.outcome} by ${row.due_at}`;
    expect(when.length, says).toBeGreaterThan(0);
    // A closing that did not move `updated_at` may have been as late as `by`.
    if (row.outcome === 'missed')
      expect(
        when.some(ms => ms > dueMs),
        says,
      ).toBe(true);
    else if (closing.by === null)
      expect(
        when.some(ms => ms <= dueMs),
        says,
      ).toBe(true);
    else
      expect(
        when.some(ms => ms <= dueMs) || closings.some(({ fromMs, silent }) => silent && when.includes(fromMs)),
        says,
      ).toBe(true);
  } else if (resolved.at(-1)) {
    // It runs, they say.
    const { fromMs, silent } = closings.at(-1)!;
    const says = `${id} was closed at ${new Date(fromMs).toISOString()}, and not missed by ${row.due_at}`;
    expect(fromMs > dueMs || (silent && fromMs > readMs), says).toBe(true);
  }
}

/** Where the mirror saw each state that the ticket was in: the time that it took is that of the script, but for changes that did not move `updated_at`. */
function checkWithoutHold(id: string, { row, one, desk, periods }: Claim): void {
  const life = desk.lives
    .get(id)!
    .map(({ fromMs, was }) => ({ fromMs, state: was === undefined ? 'gone' : String(JSON.parse(was)[0]) }))
    .filter(({ state }, i, all) => state !== all[i - 1]?.state);
  const seen = statesOf(periods).map(({ state }) => state);
  if (!row.is_done || life.map(({ state }) => state).join() !== seen.join()) return;
  const isResolved = (i: number) => /^(closed|archived)$/.test(life[i]?.state ?? '');
  const closing = life.findLastIndex((_, i) => isResolved(i) && !isResolved(i - 1));
  const lasts = one.business ?? ((since: number, until: number) => (until - since) / 1000);
  const took = life
    .slice(0, closing)
    .reduce((sum, { fromMs, state }, i) => sum + (state === 'hold' ? 0 : lasts(fromMs, life[i + 1]!.fromMs)), 0);
  const late = periods.reduce((sum, { from, by }) => sum + (by === null ? 0 : (by - from) / 1000), 0);
  const says = `${id} took ${took} s without hold, and ${row.outcome} ${row.target_seconds} s`;
  if (row.outcome === 'met') expect(took - late, says).toBeLessThanOrEqual(Number(row.target_seconds));
  else expect(took + late, says).toBeGreaterThan(Number(row.target_seconds));
}

function checkResponse(id: string, { row, one, desk }: Claim): void {
  const there = desk.tickets.get(id);
  if (!row.messages_complete || !there) return;
  const since = Date.parse(String(row.begins_at));
  const dueMs = Date.parse(String(row.due_at));
  // A reply of the same second may be the one before the wait.
  const next = waitsOf(there.messages)[Number(row.turn) - 1]?.untilMs;
  const isFirst = row.metric === 'first_response';
  const inTime = !isFirst
    ? typeof next === 'number' && next <= dueMs
    : there.messages.some(
        said =>
          kindOf(said) === 'authored' &&
          said.created_at !== null &&
          timeOf(said.created_at) >= since &&
          timeOf(said.created_at) <= dueMs,
      );
  // Until it is read again.
  if (there.ticket.updated_at !== one.ticket.updated_at && row.is_done) return;
  expect(inTime, `${id} was answered in time, and ${row.outcome}`).toBe(row.outcome === 'met');
}
