/**
 * I21 against the truth: each row of a ticket's history came to be within its bounds, and what `analytics.tickets_as_of` calls
 * certain was so.
 */
import type { Database } from './database.ts';
import { type History, keptOf, type Span } from './history.ts';

interface Row {
  id: string;
  was: string;
  is_first: boolean;
  from_ms: number;
  after_ms: number | null;
  by_ms: number | null;
}

/** The source tells whole seconds. */
const grainMs = 999;
/** Times that are asked for, at most: spread over all that there are. */
const mostTimes = 60;
const values = `json_build_array(state, user_id, inbox_id, label_ids, spam, trash)`;
const ms = (column: string) => `extract(epoch from ${column})::float8 * 1000`;

/** What does not hold. Copies that are behind show what was before after what is: then a row may tell of a time that is over. */
export async function uncertain(
  database: Database,
  history: History,
  { isBehind, excused }: { isBehind: boolean; excused: ReadonlySet<string> },
): Promise<string[]> {
  const complaints: string[] = [];
  const { rows } = await database.query(
    {
      text: `select ticket_id as id, ${values} as kept, is_first, ${ms('valid_from')} as from_ms, ${ms('change_after')} as after_ms,
        ${ms('change_by')} as by_ms from helpdesk.ticket_history order by ticket_id, valid_from`,
      values: [],
    },
    0,
  );
  const told: Row[] = rows.map(({ kept, ...row }) => ({ ...row, was: wordsOf(kept) }));
  for (const { id, was, is_first, from_ms, after_ms, by_ms } of isBehind ? [] : told) {
    const life = history.lives.get(id);
    if (life === undefined || is_first || after_ms === null) continue;
    const untilMs = by_ms ?? from_ms + grainMs;
    const isTrue = life.some(
      (span, i) => span.was === was && span.saidMs <= untilMs && (life[i + 1]?.fromMs ?? Infinity) > after_ms,
    );
    if (!isTrue) complaints.push(`I21: ticket ${id} was not ${was} between ${iso(after_ms)} and ${iso(untilMs)}`);
  }
  for (const atMs of timesOf(history)) {
    const { rows: then } = await database.query(
      {
        text: `select ticket_id as id, ${values} as kept, ${ms('valid_from')} as from_ms, ${ms('valid_to')} as to_ms from analytics.tickets_as_of($1) where certain`,
        values: [new Date(atMs)],
      },
      0,
    );
    for (const { id, kept, from_ms, to_ms } of then) {
      const life = history.lives.get(id);
      const row = told.find(one => one.id === id && one.from_ms === from_ms);
      if (life === undefined || row === undefined || (to_ms === null && excused.has(id))) continue;
      // What was there before the mirror began is taken at its word: that it has not changed since its time.
      const isWord = row.is_first && row.by_ms === null;
      if (isWord && (atMs <= from_ms + grainMs || life.some(({ silent }) => silent))) continue;
      const was = wordsOf(kept);
      if (
        !isPossible(life, was, atMs) &&
        !isBack(life, was, atMs, { fromMs: row.after_ms ?? from_ms, toMs: to_ms ?? Infinity })
      )
        complaints.push(`I21: ticket ${id} is certain to have been ${was} at ${iso(atMs)}`);
    }
  }
  return complaints;
}

/** Whether it was so at this time, or may be said to have been: between the time that a change is given, and when it shows. */
function isPossible(life: readonly Span[], was: string, atMs: number): boolean {
  return life.some((span, i) => span.was === was && span.saidMs <= atMs && atMs < (life[i + 1]?.fromMs ?? Infinity));
}

/**
 * What was changed and changed back between two readings leaves no trace: it was so before this time and after it, within the row.
 * `fromMs` is its `change_after`: the change back may have come before the reply that the row begins with was written.
 */
function isBack(life: readonly Span[], was: string, atMs: number, row: { fromMs: number; toMs: number }): boolean {
  const isBefore = life.some(
    (span, i) => span.was === was && life[i + 1] && life[i + 1]!.fromMs <= atMs && life[i + 1]!.fromMs > row.fromMs,
  );
  return isBefore && life.some(span => span.was === was && span.saidMs > atMs && span.saidMs < row.toMs);
}

/** Before and after each change, where a wrong word shows. */
function timesOf({ lives }: History): number[] {
  const changes = [...lives.values()].flatMap(life => life.slice(1).map(({ fromMs }) => fromMs));
  const times = [...new Set(changes.flatMap(atMs => [atMs - 1000, atMs - 1]))].sort((a, b) => a - b);
  const step = Math.max(1, times.length / mostTimes);
  return Array.from({ length: Math.floor(times.length / step) }, (_, i) => times[Math.floor(i * step)]!);
}

function wordsOf(kept: [string, string | null, string | null, string[], boolean, boolean]): string {
  const [state, user_id, inbox_id, label_ids, spam, trash] = kept;
  return keptOf({ state, user_id, inbox_id, label_ids, spam, trash } as Parameters<typeof keptOf>[0]);
}

const iso = (time: number) => new Date(time).toISOString().slice(11, 23);
