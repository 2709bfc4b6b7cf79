/**
 * What the claims promise, said again in plain code: who holds a stream, whose claim is good, and what each act must
 * answer and change. It is written from SPEC.md (I1, I20) and the comments of the functions, not from their SQL.
 */
import type { Tables } from './database.ts';

export type State = 'waiting' | 'running' | 'completed' | 'partial' | 'failed' | 'interrupted';

/** A stream of a run. */
export interface Part {
  readonly account: string;
  readonly run: number;
  readonly stream: string;
  readonly state: State;
  readonly worker: number | null;
  readonly job: string | null;
  readonly token: number;
  readonly waitsFor: number | null;
  readonly carriedFrom: number | null;
  readonly credits: number;
  /** Of seen, inserted, updated, unchanged, deleted, rejected and cleaned records; and how many the source counts. */
  readonly counts: string;
  /** What people read of the end: error, whether a remedy is given, exit code, until when it sleeps. */
  readonly end: string;
  readonly beganMs: number | null;
  readonly endedMs: number | null;
}
interface Run {
  readonly account: string;
  readonly id: number;
  readonly kind: string;
  readonly state: State;
  readonly openedBy: number;
  /** For a run that reads again: those that were open. */
  readonly beside: string;
  readonly endedMs: number | null;
}
/** A due time of the schedule that somebody has taken. */
export interface Slot {
  readonly schedule: string;
  readonly slotMs: number;
  readonly worker: number;
  readonly atMs: number;
  readonly run: number | null;
  readonly skipped: string | null;
}
/** What a worker believes to hold. It may be wrong about it, for as long as it likes. */
export interface Held {
  readonly account: string;
  readonly worker: number;
  readonly run: number;
  readonly stream: string;
  readonly token: number;
  readonly job: string;
  /** The truth: nobody has taken, ended or returned the stream since. */
  readonly good: boolean;
}

export interface Claims {
  readonly runs: readonly Run[];
  readonly parts: readonly Part[];
  readonly held: readonly Held[];
  readonly alive: readonly number[];
  /** Streams of the account of the first run. */
  readonly paused: readonly string[];
  /** Account, stream, list and minute: what is recorded as synced. */
  readonly covered: readonly string[];
  readonly slots: readonly Slot[];
  /** Of the next act. Only slots of the schedule depend on it. */
  readonly timeMs: number;
}

export const account = 'default';
export const beginMs = Date.UTC(2026, 0, 1);
/** Each act comes a minute after the one before. */
export const minuteMs = 60_000;
const msOf = (time: string | null) => (time === null ? null : Date.parse(time));
export const endOf = (
  error: string | null,
  isHelped: boolean,
  exit: number | null,
  deferredUntilMs: number | null = null,
) => JSON.stringify([error, isHelped, exit, deferredUntilMs]);
export const wasInterrupted = endOf(null, true, 130);
const died = endOf('the process died', true, 1);
export const isPaused = (claims: Claims, part: Pick<Part, 'account' | 'stream'>): boolean =>
  part.account === account && claims.paused.includes(part.stream);

type Tabled = Pick<Claims, 'runs' | 'parts' | 'covered' | 'slots'>;

/** What the tables say, in the words of the model. */
export function partsOf(tables: Tables): Tabled {
  // biome-ignore lint/suspicious/noExplicitAny: rows as the database says them.
  const rows = (name: string) => JSON.parse(tables[name]!) as any[];
  return {
    runs: rows('sync.stored_runs')
      .map(({ account_id: account, id, kind, state, opened_by: openedBy, finished_at, beside }) => ({
        ...{ account, id, kind, state, openedBy, beside: beside.join(), endedMs: msOf(finished_at) },
      }))
      .sort((a, b) => a.id - b.id),
    parts: rows('sync.stored_run_streams')
      .map(one => ({
        account: one.account_id,
        run: one.run_id,
        stream: `${one.source}.${one.stream}`,
        ...{ state: one.state, worker: one.worker, job: one.job, token: one.token, waitsFor: one.waits_for },
        ...{ carriedFrom: one.carried_from, credits: one.credits },
        counts: [
          one.seen,
          one.inserted,
          one.updated,
          one.unchanged,
          one.deleted,
          one.rejected,
          one.cleaned,
          one.expected,
        ].join(),
        end: endOf(one.error, one.remedy !== null, one.exit_code, msOf(one.deferred_until)),
        ...{ beganMs: msOf(one.started_at), endedMs: msOf(one.finished_at) },
      }))
      .sort((a, b) => a.run - b.run || (a.stream < b.stream ? -1 : 1)),
    covered: rows('sync.coverage')
      .flatMap(one =>
        minutesOf(one.covered).map(minute => `${one.account_id} ${one.source}.${one.stream} ${one.list} ${minute}`),
      )
      .sort(),
    slots: rows('sync.schedule_slots').map(one => ({
      ...{
        schedule: one.schedule,
        slotMs: Date.parse(one.slot),
        worker: one.claimed_by,
        atMs: Date.parse(one.claimed_at),
      },
      ...{ run: one.run_id, skipped: one.skipped },
    })),
  };
}

/** The minutes of a multirange since the beginning. */
function minutesOf(covered: string): number[] {
  const bounds = [...covered.matchAll(/"([^"]+)"/g)].map(([, time]) => (Date.parse(time!) - beginMs) / minuteMs);
  return bounds.flatMap((from, n) =>
    n % 2 === 0 ? Array.from({ length: bounds[n + 1]! - from }, (_, more) => from + more) : [],
  );
}

export const isOpen = ({ state }: { readonly state: State }) => state === 'waiting' || state === 'running';

/** Where a run reads one part at a time, in this order. */
export const placeOf = (stream: string): number =>
  ['helpdesk.users', 'helpdesk.customers', 'helpdesk.tickets', 'helpdesk.messages', 'books.shelves'].indexOf(stream);
export const sourceOf = (stream: string) => stream.split('.')[0];
/** Streams that are fetched by id have one reader. */
const hasOneReader = (stream: string) => stream === 'helpdesk.messages' || stream === 'books.shelves';
const isApart = (kind: string) => ['sweep', 'audit', 'verify'].includes(kind);
const classOf = (kind: string) => (isApart(kind) || kind === 'backfill' ? kind : 'top');

export const find = (claims: Claims, key: { run: number; stream: string }): Part =>
  claims.parts.find(one => one.run === key.run && one.stream === key.stream)!;

/** A run opens, with waiting streams. */
export function opened(
  claims: Claims,
  run: { account?: string; kind: string; streams: readonly string[]; opener: number },
): Claims {
  const { account: its = account, kind, streams, opener: openedBy } = run;
  const id = claims.runs.length + 1;
  const open = claims.runs.filter(one => one.account === its && one.endedMs === null).map(one => one.id);
  const beside = kind === 'backfill' ? open.join() : '';
  const parts = streams.map(stream => ({
    ...{ account: its, run: id, stream, state: 'waiting' as const, worker: null, job: null, token: 0 },
    ...{ waitsFor: null, carriedFrom: null, credits: 0, counts: '0,0,0,0,0,0,0,', end: endOf(null, false, null) },
    ...{ beganMs: null, endedMs: null },
  }));
  return {
    ...claims,
    runs: [...claims.runs, { account: its, id, kind, state: 'running', openedBy, beside, endedMs: null }],
    parts: [...claims.parts, ...parts.sort((a, b) => (a.stream < b.stream ? -1 : 1))],
  };
}

/** A stream changes hands or ends: no claim that was given on it is good any more. */
export function change(claims: Claims, key: { run: number; stream: string }, part: Partial<Part>): Claims {
  const isIt = (one: { run: number; stream: string }) => one.run === key.run && one.stream === key.stream;
  return {
    ...claims,
    parts: claims.parts.map(one => (isIt(one) ? { ...one, ...part } : one)),
    held: claims.held.map(one => (isIt(one) ? { ...one, good: false } : one)),
  };
}

export type Up = 'over' | { readonly busy: number } | 'taken';

/** Who asks for a stream gets it, unless it has ended, is paused, or a live worker reads it or the same elsewhere. */
export function takingUp(
  claims: Claims,
  key: { run: number; stream: string },
  by: { worker: number; job: string },
): { up: Up; after: Claims } {
  const part = find(claims, key);
  const lives = (worker: number | null) => worker !== null && (worker === by.worker || claims.alive.includes(worker));
  if (!isOpen(part)) return { up: 'over', after: claims };
  if (part.state === 'running' && part.job !== by.job && lives(part.worker)) return { up: 'over', after: claims };
  const none = { state: 'waiting', worker: null, job: null } as const;
  if (isPaused(claims, part)) return { up: 'over', after: change(claims, key, { ...none, waitsFor: null }) };
  const kindOf = (run: number) => claims.runs.find(({ id }) => id === run)!.kind;
  const [mine] = [kindOf(key.run)];
  const busy = claims.parts
    .filter(one => one.account === part.account && one.stream === key.stream && one.run !== key.run)
    .filter(one => one.state === 'running' && lives(one.worker))
    .filter(
      one =>
        classOf(kindOf(one.run)) === classOf(mine) ||
        (hasOneReader(key.stream) && !isApart(kindOf(one.run)) && !isApart(mine)),
    )
    .map(one => one.run)
    .sort((a, b) => a - b)[0];
  if (busy !== undefined) return { up: { busy }, after: change(claims, key, { ...none, waitsFor: busy }) };
  return {
    up: 'taken',
    // The token grows: by how much does not matter, and the tables say it.
    after: change(claims, key, {
      ...{ state: 'running', ...by, waitsFor: null, token: part.token + 1, beganMs: part.beganMs ?? claims.timeMs },
    }),
  };
}

/** Ends these streams of a run, and the run with its last one. */
export function ending(
  claims: Claims,
  run: number,
  of: (part: Part) => boolean,
  as: (part: Part) => Pick<Part, 'state' | 'end'> & Partial<Part>,
): Claims {
  let after = claims;
  for (const part of claims.parts)
    if (part.run === run && of(part)) after = change(after, part, { ...as(part), endedMs: claims.timeMs });
  return closing(after, run);
}

/**
 * `stops`: a person interrupted the run, or its source refused the token, so that what still waits does not start; of
 * the source, if it was the source.
 */
export function closing(claims: Claims, run: number, stops?: { readonly by: Part; readonly source: boolean }): Claims {
  let after = claims;
  for (const part of stops ? claims.parts : []) {
    if (part.run !== run || part.state !== 'waiting') continue;
    if (stops!.source && sourceOf(part.stream) !== sourceOf(stops!.by.stream)) continue;
    const { state, end } = stops!.by;
    after = change(after, part, { state, end, endedMs: claims.timeMs });
  }
  const states = after.parts.filter(one => one.run === run).map(({ state }) => state);
  if (states.some(state => state === 'waiting' || state === 'running')) return after;
  const order: readonly State[] = ['failed', 'interrupted', 'partial', 'completed'];
  const worst = order.find(state => states.includes(state))!;
  return {
    ...after,
    runs: after.runs.map(one =>
      one.id === run && one.state === 'running' ? { ...one, state: worst, endedMs: claims.timeMs } : one,
    ),
  };
}

/** Runs that nobody opened who lives, and at which nobody works who lives. */
export function abandoned(claims: Claims): Claims {
  let after = claims;
  const lives = (worker: number | null) => worker !== null && claims.alive.includes(worker);
  for (const run of claims.runs) {
    const parts = claims.parts.filter(one => one.run === run.id);
    if (run.account !== account || run.state !== 'running' || lives(run.openedBy)) continue;
    if (parts.some(one => one.state === 'running' && lives(one.worker))) continue;
    for (const part of parts)
      if (isOpen(part)) after = change(after, part, { ...interruptedAt(claims), end: died, token: part.token + 1 });
    after = {
      ...after,
      runs: after.runs.map(one => (one.id === run.id ? { ...one, ...interruptedAt(claims) } : one)),
    };
  }
  return after;
}

const interruptedAt = ({ timeMs }: Claims) => ({ state: 'interrupted', endedMs: timeMs }) as const;

/** What a worker of this account should take next: of each run and source the next stream, unless somebody who lives has it. */
export function nextWork(claims: Claims, of: string, worker: number): string[] {
  const next: string[] = [];
  const lives = (one: Part) => one.worker !== null && (one.worker === worker || claims.alive.includes(one.worker));
  for (const run of claims.runs) {
    if (run.state !== 'running' || run.account !== of) continue;
    const open = claims.parts
      .filter(one => one.run === run.id)
      .filter(one => (one.state === 'running' && lives(one)) || (isOpen(one) && !isPaused(claims, one)))
      .sort((a, b) => placeOf(a.stream) - placeOf(b.stream));
    for (const source of new Set(open.map(one => sourceOf(one.stream)))) {
      const part = open.find(one => sourceOf(one.stream) === source)!;
      if (part.state === 'waiting' || !lives(part)) next.push(`${part.run} ${part.stream} ${run.kind} ${part.token}`);
    }
  }
  return next;
}

const isSame = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

/** Where the tables differ from what had to become of them. A token that was to grow may grow by any number. */
export function difference(before: Claims, wanted: Claims, found: Tabled): string | undefined {
  if (wanted.runs.length !== found.runs.length || wanted.parts.length !== found.parts.length)
    return `there are ${found.runs.length} runs with ${found.parts.length} streams, and should be ${wanted.runs.length} with ${wanted.parts.length}`;
  for (const [n, run] of wanted.runs.entries())
    if (!isSame(run, found.runs[n]))
      return `run ${run.id} is ${JSON.stringify(found.runs[n])}, and should be ${JSON.stringify(run)}`;
  for (const [n, part] of wanted.parts.entries()) {
    const is = found.parts[n]!;
    const token = before.parts[n]?.token ?? part.token;
    if (part.token > token ? is.token <= token : is.token !== part.token)
      return `the token of ${part.stream} in run ${part.run} goes from ${token} to ${is.token}`;
    const wrong = (Object.keys(part) as (keyof Part)[]).find(name => name !== 'token' && part[name] !== is[name]);
    if (wrong) return `${wrong} of ${part.stream} in run ${part.run} is ${is[wrong]}, and should be ${part[wrong]}`;
  }
  const slots = (of: Tabled) => of.slots.map(one => JSON.stringify(one)).sort();
  if (slots(found).join() !== slots(wanted).join())
    return `the slots are ${slots(found)}, and should be ${slots(wanted)}`;
  const more = found.covered.find(one => !wanted.covered.includes(one));
  if (more) return `${more} is recorded as synced`;
  const less = wanted.covered.find(one => !found.covered.includes(one));
  return less && `${less} is not recorded as synced`;
}
