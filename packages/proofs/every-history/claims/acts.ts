/** Everything that may happen to claims: what the real functions do, and what the model says that they must. */
import type pg from 'pg';
import type * as acknowledged from '../../../../src/engine/commit/acknowledged.ts';
import type * as commit from '../../../../src/engine/commit/commit.ts';
import type * as sums from '../../../../src/engine/commit/sums.ts';
import type { StreamKey } from '../../../../src/engine/database/stream-key.ts';
import type * as claims from '../../../../src/engine/runs/claims.ts';
import type * as runs from '../../../../src/engine/runs/runs.ts';
import type * as slots from '../../../../src/engine/runs/slots.ts';
import type * as errors from '../../../../src/errors.ts';
import { isNamed } from '../planted.ts';
import {
  abandoned,
  account,
  beginMs,
  type Claims,
  change,
  closing,
  ending,
  endOf,
  find,
  type Held,
  isOpen,
  minuteMs,
  type Part,
  placeOf,
  takingUp,
  wasInterrupted,
} from './model.ts';
import { claimsOfSlots } from './slots.ts';
import type { ActKind, ClaimsWorld } from './worlds.ts';

/** The functions that are examined: those of the product, or a planted mistake. */
export type Product = Pick<
  typeof claims,
  'takeUp' | 'release' | 'finish' | 'finishUntaken' | 'failUntaken' | 'stopped' | 'heldBy'
> &
  Pick<typeof acknowledged, 'acknowledge'> &
  Pick<typeof runs, 'openRun' | 'endAbandonedRuns' | 'endRun' | 'waitingWork'> &
  Pick<typeof commit, 'commitTogether' | 'keepBooks'> &
  Pick<typeof sums, 'keepProof' | 'summed'> &
  Pick<typeof slots, 'claimSlot' | 'lastSlot'> &
  Pick<typeof errors, 'Fatal' | 'Interrupted' | 'Spent'>;

export interface Act {
  readonly kind: ActKind;
  readonly says: string;
  /** Calls the product, and says what it answered. */
  run(product: Product, pool: pg.Pool, now: Date): Promise<string>;
  /** What it has to answer, and what has to become of the tables. */
  must(before: Claims): { answer: string; after: Claims };
  /** A claim that is given, where the answer is `taken` and its token. */
  readonly taker?: Omit<Held, 'token' | 'good'>;
}

interface Key {
  readonly account: string;
  readonly run: number;
  readonly stream: string;
}
const keyOf = ({ account, run, stream }: Key) => ({ account, run, stream: stream as StreamKey });
const nameOf = ({ run, stream }: { run: number; stream: string }) => `${stream.replace('helpdesk.', '')} of run ${run}`;
/** The answer of an act that must be refused to all but the holder. */
const fenced = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    error => (isNamed(error, 'FencedOff') ? 'fenced off' : String(error)),
  );

/** The names of the prepared statements that this work executes, in their order. */
async function writtenBy(client: pg.ClientBase, work: () => Promise<void>): Promise<string[]> {
  const names: string[] = [];
  Object.assign(client, {
    query(statement: { name?: string }, ...more: unknown[]) {
      if (statement.name !== undefined) names.push(statement.name);
      return Reflect.apply(Object.getPrototypeOf(client).query, client, [statement, ...more]);
    },
  });
  try {
    await work();
  } finally {
    Reflect.deleteProperty(client, 'query');
  }
  return names;
}

/** All different, so that none is written for another. */
const counts = { seen: 5, inserted: 1, updated: 2, unchanged: 3, deleted: 9, rejected: 6, cleaned: 7, credits: 1 };
/** These minutes since the beginning. */
const range = (from: number, to: number) => ({ from: beginMs + from * minuteMs, to: beginMs + to * minuteMs });
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
      for (const job of world.jobs) {
        const by = { worker, job: `${job} ${nameOf(part)}` };
        add(take(part, by));
        add(takeByOtherRules(part, by));
      }
  for (const held of state.held) for (const act of ofClaim(held)) add(act);
  for (const worker of world.workers) {
    for (const act of claimsOfSlots(worker)) add(act);
    const lives = state.alive.includes(worker);
    const alive = lives ? state.alive.filter(one => one !== worker) : [...state.alive, worker].sort();
    const says = lives ? `worker ${worker} is taken for dead` : `worker ${worker} shows itself again`;
    add(silent(lives ? 'die' : 'return', says, before => ({ ...before, alive })));
  }
  add({
    kind: 'abandon',
    says: 'a live worker ends abandoned runs',
    run: (product, pool, now) => product.endAbandonedRuns(pool, account, now).then(() => 'done'),
    must: before => ({ answer: 'done', after: abandoned(before) }),
  });
  add(forgotten);
  for (const run of state.runs) add(cancel(run.id));
  for (const part of state.parts) {
    for (const job of world.jobs) add(failing(part, `${job} ${nameOf(part)}`));
    add(carrying(part));
    const paused = state.paused.includes(part.stream);
    if (part.account === account && part.run === state.runs[0]!.id) add(pausing(part.stream, paused));
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
    taker: { account: part.account, run: part.run, stream: part.stream, ...by },
    async run(product, pool, now) {
      const up = await product.takeUp(pool, keyOf(part), by, () => now);
      if ('taken' in up) return `taken ${up.taken.token} ${up.taken.kind} ${up.taken.again}`;
      return 'busy' in up ? `busy with run ${up.busy}` : overOf(up);
    },
    must(before) {
      const { up, after } = takingUp(before, part, by);
      if (up === 'over') return { answer: up, after };
      const { kind } = before.runs.find(({ id }) => id === part.run)!;
      return { answer: up === 'taken' ? `taken ${kind} ${kind === 'backfill'}` : `busy with run ${up.busy}`, after };
    },
  };
}

const overOf = (up: { readonly over: true }) => (up.over === true ? 'over' : `over: ${up.over}`);

/** The job of a run that was forgotten since. */
const forgotten: Act = {
  kind: 'forgotten',
  says: 'worker 1 asks for tickets of a run that is forgotten',
  async run(product, pool, now) {
    const key = { account, run: 99, stream: 'helpdesk.tickets' } as const;
    const up = await product.takeUp(pool, key, { worker: 1, job: 'a' }, () => now);
    return 'over' in up ? overOf(up) : Object.keys(up).join();
  },
  must: before => ({ answer: 'over', after: before }),
};

/** Of a process that began before the field rules were changed. */
function takeByOtherRules(part: Part, by: { worker: number; job: string }): Act {
  return {
    kind: 'other rules',
    says: `worker ${by.worker} asks for ${nameOf(part)} as job ${by.job.split(' ')[0]}, with other field rules`,
    run: (product, pool, now) =>
      product
        .takeUp(pool, keyOf(part), { ...by, rules: 'other' }, () => now)
        .then(
          up => ('over' in up ? overOf(up) : Object.keys(up).join()),
          error => {
            if (isNamed(error, 'UsageError')) return `refused of ${String(error).split(': ').at(-1)}`;
            throw error;
          },
        ),
    must: before => ({
      answer: takingUp({ ...before, paused: [] }, part, by).up === 'over' ? 'over' : 'refused of none',
      after: before,
    }),
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
  const add = (claims: Claims, list: string, from: number, to: number, part: Partial<Part>): Claims => ({
    ...claims,
    parts: claims.parts.map(one => (one.run === held.run && one.stream === held.stream ? { ...one, ...part } : one)),
    covered: [
      ...new Set([
        ...claims.covered,
        ...Array.from({ length: to - from }, (_, more) => `${held.account} ${held.stream} ${list} ${from + more}`),
      ]),
    ],
  });
  /** Six pages in one transaction, of two lists. */
  const pages = (product: Product, pool: pg.Pool, now: Date, claim: ReturnType<typeof claimOf>, fails = false) => {
    const at = { nowMs: now.getTime(), asOfMs: now.getTime() };
    const page = (
      client: pg.ClientBase,
      list: string,
      covered: ReturnType<typeof range> | undefined,
      expected?: number,
    ) => product.keepBooks({ client, claim, at }, { counts, list, expected, proof: covered ? { covered } : {} });
    return product.commitTogether({ pg: pool, streams: [] }, async client => {
      await client.query('insert into public.pages values ($1)', [claim.token]);
      const written = await writtenBy(client, () =>
        product.summed(client, async () => {
          await page(client, 'default', range(-9, -8), 7);
          await page(client, 'default', range(-8, -7));
          await page(client, 'default', undefined);
          await page(client, 'late', range(-7, -6));
          await page(client, 'late', range(-6, -5));
          await page(client, 'late', range(-4, -3));
        }),
      );
      // What they count, and three ranges: those that touch are joined.
      if (written.length !== 4) throw new Error(`pages are written by ${written}`);
      if (fails) throw new Error('the power fails');
    });
  };
  const pagesOf = (before: Claims, { counts: had, credits }: Part): Claims => {
    const { credits: _, ...others } = counts;
    const sums = Object.values(others).map(n => 6 * n);
    const all = { counts: counted(had, sums, 7), credits: credits + 6 };
    return add(add(add(before, 'default', -9, -7, all), 'late', -7, -5, {}), 'late', -4, -3, {});
  };
  const proof = (product: Product, pool: pg.Pool, claim: ReturnType<typeof claimOf>, expected?: number) =>
    product.keepProof(pool, claim, 'default', range(-1, 0), { credits: 1, expected });
  const ends = (kind: ActKind, verb: string, as: End): Act =>
    guarded(
      kind,
      verb,
      (product, pool, now) => fenced(product.finish(pool, claimOf(held), now, { ...as.tells(product), credits: 3 })),
      (before, { credits }) => {
        const end = { state: as.state, end: as.end, credits: credits + 3, endedMs: before.timeMs };
        const after = change(before, held, end);
        return closing(after, held.run, as.stops && { by: find(after, held), source: as.stops === 'its source' });
      },
    );
  return [
    guarded(
      'commit',
      'commits a page of',
      (product, pool, now) =>
        fenced(
          product.commitTogether({ pg: pool, streams: [] }, async client => {
            await client.query('insert into public.pages values ($1)', [held.token]);
            const tx = { client, claim: claimOf(held), at: { nowMs: now.getTime(), asOfMs: now.getTime() } };
            const one = { counts: { seen: 5, credits: 1 }, proof: { covered: range(-3, -2) } };
            await product.keepBooks(tx, one);
          }),
        ),
      (before, { counts, credits }) =>
        add(before, 'default', -3, -2, { counts: counted(counts, [5]), credits: credits + 1 }),
    ),
    guarded(
      'pages',
      'commits six pages at once of',
      (product, pool, now) => fenced(pages(product, pool, now, claimOf(held))),
      pagesOf,
    ),
    guarded(
      'proof',
      'keeps the proof of an empty page of',
      (product, pool) => fenced(proof(product, pool, claimOf(held), 8)),
      (before, { counts, credits }) =>
        add(before, 'default', -1, 0, { counts: counted(counts, [], 8), credits: credits + 1 }),
    ),
    guarded(
      'lose',
      'outlives a database that loses its last commit of',
      async (product, pool, now) => {
        const claim = claimOf(held);
        const alter = (column: string, by: number) =>
          pool.query(
            `update sync.stored_run_streams set ${column} = ${column} + $4
             where run_id = $1 and stream_key = $2 and token = $3 and state = 'running'`,
            [held.run, held.stream, held.token, by],
          );
        // What is rolled back was acknowledged by nobody. A transaction may also have no page.
        await pages(product, pool, now, claim, true).catch(() => {});
        await product.commitTogether({ pg: pool, streams: [] }, client => product.summed(client, async () => {}));
        const said: string[] = [];
        for (const [commits, columns] of [
          [() => proof(product, pool, claim), ['credits']],
          [() => pages(product, pool, now, claim), ['seen', 'deleted', 'credits']],
        ] as const) {
          said.push(await fenced(commits()), await fenced(commits()));
          // A reply that comes late acknowledges less.
          product.acknowledge(claim, 1);
          for (const what of columns) {
            await alter(what, -1);
            const lost = [
              await fenced(proof(product, pool, claim)),
              await fenced(pages(product, pool, now, claim)),
              await fenced(product.finish(pool, claim, now, { credits: 3 })),
            ];
            if (lost.some(one => one !== 'fenced off')) return `after ${what} that are lost: ${lost}`;
            await alter(what, 1);
          }
        }
        return [...new Set(said)].join(' and ');
      },
      (before, part) => {
        const after = pagesOf(pagesOf(before, part), find(pagesOf(before, part), held));
        return add(after, 'default', -1, 0, { credits: find(after, held).credits + 2 });
      },
    ),
    guarded(
      'release',
      'returns',
      (product, pool) => product.release(pool, claimOf(held), 2).then(was => (was ? 'done' : 'lost')),
      (before, { credits }) =>
        change(before, held, { state: 'waiting', worker: null, job: null, credits: credits + 2 }),
    ),
    ...ways.map(([kind, verb, as]) => ends(kind, verb, as)),
  ];
}

/** Sums, and the last number that the source has told. */
function counted(before: string, more: readonly number[], expected?: number): string {
  const had = before.split(',');
  return [...had.slice(0, 7).map((n, i) => Number(n) + (more[i] ?? 0)), expected ?? had[7]].join();
}

interface End {
  readonly state: Part['state'];
  readonly end: string;
  readonly tells: (product: Product) => { partial?: string; error?: unknown };
  readonly stops?: 'the run' | 'its source';
}

const deferredUntil = new Date(beginMs + 60 * minuteMs);
const ways: readonly (readonly [ActKind, string, End])[] = [
  ['finish', 'finishes', { state: 'completed', end: endOf(null, false, 0), tells: () => ({}) }],
  [
    'partial',
    'finishes with a gap',
    { state: 'partial', end: endOf('a gap', true, 3), tells: () => ({ partial: 'a gap' }) },
  ],
  [
    'spend',
    'has spent the quota of the day for',
    {
      state: 'partial',
      end: endOf(
        'the quota of the source is used up; reading resumes at 2026-01-01T01:00:00Z',
        true,
        3,
        deferredUntil.getTime(),
      ),
      tells: ({ Spent }) => ({ error: new Spent(deferredUntil) }),
    },
  ],
  [
    'refuse',
    'is refused by the source of',
    {
      state: 'failed',
      end: endOf('no such token', true, 4),
      tells: ({ Fatal }) => ({ error: new Fatal('no such token', 'Ask for one.', 4) }),
      stops: 'its source',
    },
  ],
  [
    'break',
    'finds a bug in',
    { state: 'failed', end: endOf('a bug', true, 1), tells: () => ({ error: new Error('a bug') }) },
  ],
  [
    'interrupt',
    'is interrupted by a person in',
    {
      state: 'interrupted',
      end: wasInterrupted,
      tells: ({ Interrupted }) => ({ error: new Interrupted() }),
      stops: 'the run',
    },
  ],
];

function cancel(run: number): Act {
  return {
    kind: 'end run',
    says: `a person ends run ${run}`,
    run: (product, pool, now) => product.endRun(pool, run, now, new product.Interrupted()).then(() => 'done'),
    must: before => ({
      answer: 'done',
      after: ending(before, run, isOpen, ({ token }) => ({
        ...{ state: 'interrupted', end: wasInterrupted, token: token + 1 },
      })),
    }),
  };
}

function failing(part: Part, job: string): Act {
  const data = { account: part.account, run: part.run, stream: part.stream as StreamKey };
  return {
    kind: 'fail',
    says: `job ${job.split(' ')[0]} of ${nameOf(part)} fails before it can take it up`,
    async run(product, pool, now) {
      // A job of another kind, which names nothing, ends nothing.
      await product.failUntaken(pool, { id: job, data: { account: part.account } }, now, new Error('a bug'));
      await product.failUntaken(pool, { id: job, data }, now, new Error('a bug'));
      return 'done';
    },
    must: before => {
      const isIt = (one: Part) =>
        one.stream === part.stream && (one.state === 'waiting' || (one.state === 'running' && one.job === job));
      return {
        answer: 'done',
        after: ending(before, part.run, isIt, ({ token }) => ({
          ...{ state: 'failed', end: endOf('a bug', true, 1), token: token + 1 },
        })),
      };
    },
  };
}

/** Another run has read it. */
function carrying(part: Part): Act {
  return {
    kind: 'carry',
    says: `${nameOf(part)} is left to another run`,
    run: (product, pool, now) => product.finishUntaken(pool, keyOf(part), 77, now, {}).then(() => 'done'),
    must: before => {
      const isIt = (one: Part) => one.stream === part.stream && one.state === 'waiting';
      return {
        answer: 'done',
        after: ending(before, part.run, isIt, ({ token, beganMs }) => ({
          ...{ state: 'completed', end: endOf(null, false, 0), token: token + 1 },
          ...{ carriedFrom: 77, waitsFor: null, beganMs: beganMs ?? before.timeMs },
        })),
      };
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
