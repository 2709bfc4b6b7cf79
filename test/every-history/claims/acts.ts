/** Everything that may happen to claims: what the real functions do, and what the model says that they must. */
import type pg from 'pg';
import type * as commit from '../../../src/engine/commit/commit.ts';
import type * as sums from '../../../src/engine/commit/sums.ts';
import type { StreamKey } from '../../../src/engine/database/stream-key.ts';
import type * as claims from '../../../src/engine/runs/claims.ts';
import type * as runs from '../../../src/engine/runs/runs.ts';
import { Interrupted } from '../../../src/errors.ts';
import {
  abandoned,
  type Claims,
  change,
  closing,
  ending,
  find,
  type Held,
  type Part,
  placeOf,
  takingUp,
} from './model.ts';
import type { ActKind, ClaimsWorld } from './worlds.ts';

/** The functions that are examined: those of the product, or a planted mistake. */
export type Product = Pick<
  typeof claims,
  'takeUp' | 'release' | 'finish' | 'finishUntaken' | 'failUntaken' | 'stopped' | 'heldBy'
> &
  Pick<typeof runs, 'endAbandonedRuns' | 'endRun' | 'waitingWork'> &
  Pick<typeof commit, 'commitTogether' | 'keepBooks'> &
  Pick<typeof sums, 'keepProof'>;

export const account = 'default';
/** One time for all: who may do what depends on no clock of ours. */
export const now = new Date(Date.UTC(2026, 0, 1));

export interface Act {
  readonly kind: ActKind;
  readonly says: string;
  /** Calls the product, and says what it answered. */
  run(product: Product, pool: pg.Pool): Promise<string>;
  /** What it has to answer, and what has to become of the tables. */
  must(before: Claims): { answer: string; after: Claims };
  /** A claim that is given, where the answer is `taken` and its token. */
  readonly taker?: Omit<Held, 'token' | 'good'>;
}

const keyOf = ({ run, stream }: { run: number; stream: string }) => ({ account, run, stream: stream as StreamKey });
const nameOf = ({ run, stream }: { run: number; stream: string }) => `${stream.replace('helpdesk.', '')} of run ${run}`;
const isFenced = (error: unknown) => error instanceof Error && error.constructor.name === 'FencedOff';
/** The answer of an act that must be refused to all but the holder. */
const fenced = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    error => {
      if (isFenced(error)) return 'fenced off';
      throw error;
    },
  );

const nothing = { inserted: 0, updated: 0, unchanged: 0, deleted: 0, rejected: 0, cleaned: 0 };
const claimOf = (held: Held) => ({ ...keyOf(held), token: held.token, kind: 'sync', again: false }) as const;

/** All acts that may follow. `used`: how often each has happened. */
export function actsOf(world: ClaimsWorld, state: Claims, used: Partial<Record<ActKind, number>>): Act[] {
  const acts: Act[] = [];
  const may = (kind: ActKind) => (used[kind] ?? 0) < (world.most[kind] ?? 0);
  const add = (act: Act) => {
    if (may(act.kind)) acts.push(act);
  };
  for (const part of state.parts)
    for (const worker of world.workers)
      for (const job of world.jobs) add(take(part, { worker, job: `${job} ${nameOf(part)}` }));
  for (const held of state.held) for (const act of ofClaim(held)) add(act);
  for (const worker of world.workers) {
    const lives = state.alive.includes(worker);
    const alive = lives ? state.alive.filter(one => one !== worker) : [...state.alive, worker].sort();
    const says = lives ? `worker ${worker} is taken for dead` : `worker ${worker} shows itself again`;
    add(silent(lives ? 'die' : 'return', says, before => ({ ...before, alive })));
  }
  add({
    kind: 'abandon',
    says: 'a live worker ends abandoned runs',
    run: (product, pool) => product.endAbandonedRuns(pool, account, now).then(() => 'done'),
    must: before => ({ answer: 'done', after: abandoned(before) }),
  });
  for (const run of state.runs) add(endOf(run.id));
  for (const part of state.parts) {
    for (const job of world.jobs) add(failing(part, `${job} ${nameOf(part)}`));
    add(carrying(part));
    const paused = state.paused.includes(part.stream);
    if (part.run === state.runs[0]!.id) add(pausing(part.stream, paused));
  }
  return acts;
}

const silent = (kind: ActKind, says: string, after: (before: Claims) => Claims): Act => ({
  kind,
  says,
  run: async () => 'done',
  must: before => ({ answer: 'done', after: after(before) }),
});

function take(part: Part, by: { worker: number; job: string }): Act {
  return {
    kind: 'take',
    says: `worker ${by.worker} takes up ${nameOf(part)} as job ${by.job.split(' ')[0]}`,
    taker: { run: part.run, stream: part.stream, ...by },
    async run(product, pool) {
      const up = await product.takeUp(pool, keyOf(part), by, () => now);
      if ('taken' in up) return `taken ${up.taken.token}`;
      return 'busy' in up ? `busy with run ${up.busy}` : 'over';
    },
    must(before) {
      const { up, after } = takingUp(before, part, by);
      return { answer: up === 'taken' || up === 'over' ? up : `busy with run ${up.busy}`, after };
    },
  };
}

function ofClaim(held: Held): Act[] {
  const who = `worker ${held.worker}`;
  const under = `${nameOf(held)} under token ${held.token}`;
  const guarded = (
    kind: ActKind,
    verb: string,
    run: Act['run'],
    after: (before: Claims, part: Part) => Claims,
  ): Act => ({
    kind,
    says: `${who} ${verb} ${under}`,
    run,
    must: before => {
      const good = before.held.some(
        one => one.good && one.run === held.run && one.stream === held.stream && one.token === held.token,
      );
      if (!good) return { answer: kind === 'release' ? 'lost' : 'fenced off', after: before };
      return { answer: 'done', after: after(before, find(before, held)) };
    },
  });
  const add = (claims: Claims, part: Partial<Part>): Claims => ({
    ...claims,
    parts: claims.parts.map(one => (one.run === held.run && one.stream === held.stream ? { ...one, ...part } : one)),
  });
  const proof = { from: now.getTime() - 60_000, to: now.getTime() };
  return [
    guarded(
      'commit',
      'commits a page of',
      (product, pool) =>
        fenced(
          product.commitTogether({ pg: pool, streams: [] }, async client => {
            await client.query('insert into public.pages values ($1)', [held.token]);
            const counts = { ...nothing, seen: 5, credits: 1 };
            const books = { counts, stored: [], rejects: [], drift: [], proof: { covered: proof } } as const;
            await product.keepBooks(client, claimOf(held), { nowMs: now.getTime(), asOfMs: now.getTime() }, books);
          }),
        ),
      (before, { seen, credits }) => add(before, { seen: seen + 5, credits: credits + 1 }),
    ),
    guarded(
      'proof',
      'keeps the proof of an empty page of',
      (product, pool) =>
        fenced(product.keepProof(pool, claimOf(held), 'default', proof, { credits: 1, expected: undefined })),
      (before, { credits }) => add(before, { credits: credits + 1 }),
    ),
    guarded(
      'release',
      'returns',
      (product, pool) => product.release(pool, claimOf(held), 2).then(was => (was ? 'done' : 'lost')),
      (before, { credits }) =>
        change(before, held, { state: 'waiting', worker: null, job: null, credits: credits + 2 }),
    ),
    guarded(
      'finish',
      'finishes',
      (product, pool) => fenced(product.finish(pool, claimOf(held), now, { credits: 3 })),
      (before, { credits }) => closing(change(before, held, { state: 'completed', credits: credits + 3 }), held.run),
    ),
    guarded(
      'interrupt',
      'is interrupted by a person in',
      (product, pool) => fenced(product.finish(pool, claimOf(held), now, { error: new Interrupted(), credits: 0 })),
      before => closing(change(before, held, { state: 'interrupted' }), held.run, 'interrupted'),
    ),
  ];
}

const isOpen = ({ state }: Part) => state === 'waiting' || state === 'running';
const raised = ({ token }: Part) => ({ token: token + 1 });

function endOf(run: number): Act {
  return {
    kind: 'end run',
    says: `a person ends run ${run}`,
    run: (product, pool) => product.endRun(pool, run, now, new Interrupted()).then(() => 'done'),
    must: before => ({ answer: 'done', after: ending(before, run, isOpen, 'interrupted', { part: raised }) }),
  };
}

function failing(part: Part, job: string): Act {
  const data = { account, run: part.run, stream: part.stream as StreamKey };
  return {
    kind: 'fail',
    says: `job ${job.split(' ')[0]} of ${nameOf(part)} fails before it can take it up`,
    run: (product, pool) => product.failUntaken(pool, { id: job, data }, now, new Error('a bug')).then(() => 'done'),
    must: before => {
      const isIt = (one: Part) =>
        one.stream === part.stream && (one.state === 'waiting' || (one.state === 'running' && one.job === job));
      return { answer: 'done', after: ending(before, part.run, isIt, 'failed', { part: raised }) };
    },
  };
}

/** Another run has read it. */
function carrying(part: Part): Act {
  return {
    kind: 'carry',
    says: `${nameOf(part)} is left to another run`,
    run: (product, pool) => product.finishUntaken(pool, keyOf(part), 77, now, {}).then(() => 'done'),
    must: before => {
      const isIt = (one: Part) => one.stream === part.stream && one.state === 'waiting';
      const carried = (one: Part) => ({ ...raised(one), carriedFrom: 77, waitsFor: null });
      return { answer: 'done', after: ending(before, part.run, isIt, 'completed', { part: carried }) };
    },
  };
}

function pausing(stream: string, paused: boolean): Act {
  const [source, name] = stream.split('.');
  return {
    kind: 'pause',
    says: `a person ${paused ? 'resumes' : 'pauses'} ${name}`,
    async run(_product, pool) {
      const text = paused
        ? 'delete from sync.paused where (account_id, source, stream) = ($1, $2, $3)'
        : `insert into sync.paused (account_id, source, stream, paused_at, paused_by) values ($1, $2, $3, '2026-01-01', 'me')`;
      await pool.query(text, [account, source, name]);
      return 'done';
    },
    must: before => ({
      answer: 'done',
      after: {
        ...before,
        paused: paused
          ? before.paused.filter(one => one !== stream)
          : [...before.paused, stream].sort((a, b) => placeOf(a) - placeOf(b)),
      },
    }),
  };
}
