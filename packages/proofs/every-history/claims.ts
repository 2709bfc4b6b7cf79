/**
 * Every history of the claims: all orders in which small worlds of workers, runs and people can act, by the real
 * functions on a real PostgreSQL. Each act is a transaction; what two transactions do at once is in claims/races.ts.
 */
import * as acknowledged from '../../../src/engine/commit/acknowledged.ts';
import * as commit from '../../../src/engine/commit/commit.ts';
import * as sums from '../../../src/engine/commit/sums.ts';
import * as claimsOfProduct from '../../../src/engine/runs/claims.ts';
import * as runs from '../../../src/engine/runs/runs.ts';
import * as slots from '../../../src/engine/runs/slots.ts';
import * as errors from '../../../src/errors.ts';
import { type Act, actsOf, type Product } from './claims/acts.ts';
import { type ClaimsDatabase, openClaims, type Tables } from './claims/database.ts';
import { account, beginMs, type Claims, difference, minuteMs, nextWork, opened, partsOf } from './claims/model.ts';
import { type Raced, race } from './claims/races.ts';
import { lastOf, plans } from './claims/slots.ts';
import { type ActKind, type ClaimsWorld, claimsWorlds } from './claims/worlds.ts';
import type { Explored } from './ledger/breadth-first.ts';

export { claimsWorlds };

const product: Product = {
  ...claimsOfProduct,
  ...runs,
  ...commit,
  ...sums,
  ...acknowledged,
  ...slots,
  ...errors,
};

/** The same functions from a copy with a planted mistake. */
export async function loadProduct(load: <M>(path: string) => Promise<M>): Promise<Product> {
  return {
    ...(await load<typeof claimsOfProduct>('src/engine/runs/claims.ts')),
    ...(await load<typeof runs>('src/engine/runs/runs.ts')),
    ...(await load<typeof commit>('src/engine/commit/commit.ts')),
    ...(await load<typeof sums>('src/engine/commit/sums.ts')),
    ...(await load<typeof acknowledged>('src/engine/commit/acknowledged.ts')),
    ...(await load<typeof slots>('src/engine/runs/slots.ts')),
    ...(await load<typeof errors>('src/errors.ts')),
  };
}

export interface ClaimsOptions {
  readonly only?: string;
  readonly mostStates?: number;
  readonly product?: Product;
}

interface Node {
  readonly state: Claims;
  readonly tables: Tables;
  readonly used: Partial<Record<ActKind, number>>;
  readonly number: number;
}

/** The tables of a world before anything happens. */
async function beginWorld(
  db: ClaimsDatabase,
  world: ClaimsWorld,
  { openRun }: Pick<Product, 'openRun'> = product,
): Promise<{ state: Claims; tables: Tables; wrong: string | undefined }> {
  await db.put({});
  const accounts = [account, 'other'];
  const now = new Date(beginMs);
  await db.pool.query(`insert into sync.accounts (account_id) select unnest($1::text[]) on conflict do nothing`, [
    accounts,
  ]);
  await db.pool.query(
    `insert into sync.coverage (account_id, source, stream, list)
     select a, k.source, k.stream, l from unnest($1::text[]) a, sync.streams k, unnest('{default,late}'::text[]) l
     where k.stream in ('customers', 'tickets', 'messages', 'shelves')`,
    [accounts],
  );
  // Customers were read before, and tickets of the other account.
  await db.pool.query(
    `update sync.coverage set covered = '{[2025-12-31 23:00+00, 2025-12-31 23:01+00)}'
     where (account_id, stream, list) in (($1, 'customers', 'default'), ('other', 'tickets', 'default'))`,
    [account],
  );
  await db.pool.query(
    `insert into sync.workers (id, account_id, works, host, pid, version, started_at) overriding system value
     select n, $1, true, 'here', n, 'now', $2 from generate_series(1, 3) n on conflict do nothing`,
    [account, now],
  );
  await db.pool.query(
    `insert into sync.paused (account_id, source, stream, paused_at, paused_by)
     select $1, k.source, k.stream, '2026-01-01', 'me' from sync.streams k where k.stream_key = any($2)`,
    [account, world.paused ?? []],
  );
  const none = { held: [], alive: world.workers, paused: world.paused ?? [], timeMs: beginMs };
  const empty: Claims = { ...partsOf(await db.read()), ...none };
  for (const { account: its = account, kind, streams, opener } of world.runs) {
    const client = await db.pool.connect();
    const range = { since: null, until: null, again: kind === 'backfill' };
    await openRun(client, { account: its, kind, streams, opener, range }, now).finally(() => client.release());
  }
  const tables = await db.read();
  const state = { ...partsOf(tables), ...none };
  return { state, tables, wrong: difference(empty, world.runs.reduce(opened, empty), state) };
}

/** Carries out one act from these tables, and says what went wrong. */
async function perform(
  db: ClaimsDatabase,
  product: Product,
  before: Claims,
  tables: Tables,
  act: Act,
): Promise<{ wrong: string | undefined; state: Claims; tables: Tables }> {
  await db.live(before.alive);
  const { answer, after } = act.must(before);
  const said = await act.run(product, db.pool, new Date(before.timeMs));
  const found = await db.read();
  const [word, token, ...rest] = said.split(' ');
  const isTaken = act.taker !== undefined && word === 'taken';
  const state: Claims = {
    ...after,
    ...partsOf(found),
    timeMs: before.timeMs + minuteMs,
    held: isTaken ? [...after.held, { ...act.taker!, token: Number(token), good: true }] : after.held,
  };
  const wrong =
    (isTaken ? ['taken', ...rest].join(' ') : said) !== answer
      ? `the answer is ${said}, and should be ${answer}`
      : (difference(before, after, state) ?? stillWrong(act, before, tables, state, found, said));
  return { wrong, state, tables: found };
}

/** What else must hold: a refused act changes nothing at all, and a token is given once. */
function stillWrong(
  act: Act,
  before: Claims,
  tables: Tables,
  after: Claims,
  found: Tables,
  said: string,
): string | undefined {
  const names = Object.keys(tables).filter(name => tables[name] !== found[name]);
  if (
    ['over', 'fenced off', 'lost', 'refused'].includes(said.split(' of ')[0]!) &&
    act.kind !== 'take' &&
    names.length > 0
  )
    return `${names.join(' and ')} changed, though the act was refused`;
  const isPage = ['commit', 'pages', 'lose'].includes(act.kind) && said === 'done';
  if (isPage && (!names.includes('public.pages') || !names.includes('sync.stored_run_streams')))
    return 'the page is not written';
  if (!isPage && names.includes('public.pages')) return 'a page is written';
  if (names.includes('sync.schedule_slots') && act.kind !== 'slot') return 'a slot is taken';
  if ((act.kind === 'pause') !== names.includes('sync.paused')) return 'sync.paused changes';
  const last = after.held.at(-1);
  if (
    said.startsWith('taken') &&
    before.held.some(one => one.run === last!.run && one.stream === last!.stream && one.token >= last!.token)
  )
    return `token ${last!.token} is given a second time`;
  return undefined;
}

/** What the product must say of a state, whatever led to it. */
async function stateWrong(
  db: ClaimsDatabase,
  product: Product,
  world: ClaimsWorld,
  state: Claims,
): Promise<string | undefined> {
  await db.live(state.alive);
  for (const worker of world.workers)
    for (const its of new Set(state.runs.map(run => run.account))) {
      const found = await product.waitingWork(db.pool, [{ account: its, worker }]);
      const work = found.map(one => `${one.run} ${one.stream} ${one.kind} ${one.token}`).sort();
      const wanted = nextWork(state, its, worker).sort();
      if (work.join() !== wanted.join() || found.some(one => one.worker !== worker))
        return `worker ${worker} is shown ${work.join(', ') || 'no work'}, and should see ${wanted.join(', ') || 'none'}`;
    }
  if (world.most.slot !== undefined)
    for (const { schedule } of plans) {
      const last = await product.lastSlot(db.pool, account, schedule, new Date(state.timeMs));
      const found = last ? JSON.stringify([last.slot.getTime(), last.run_id, last.skipped]) : 'none';
      if (found !== lastOf(state, schedule))
        return `the last slot of ${schedule} is ${found}, and should be ${lastOf(state, schedule)}`;
    }
  const claims = state.held.map(({ account, run, stream, token }) => ({
    account,
    run,
    stream: stream as never,
    token,
  }));
  const stopped = await product.stopped(db.pool, claims);
  for (const [place, held] of state.held.entries()) {
    const must = !held.good || (held.account === account && state.paused.includes(held.stream));
    const told = stopped.find(one => one.place === place);
    if ((told !== undefined) !== must)
      return `worker ${held.worker} is ${must ? 'not ' : ''}told to stop under token ${held.token}`;
    if (told && told.paused !== held.good) return `worker ${held.worker} is told a wrong reason to stop`;
  }
  const holds = (await product.heldBy(db.pool, world.workers)).map(
    one => `${one.worker} ${one.run} ${one.stream} ${one.token} ${one.job}`,
  );
  const good = state.held
    .filter(one => one.good)
    .map(one => `${one.worker} ${one.run} ${one.stream} ${one.token} ${one.job}`);
  if (holds.sort().join() !== good.sort().join())
    return `the database has the claims ${holds.join()}, and they are ${good.join()}`;
  return undefined;
}

/** Workers are alike: of two states that differ in their numbers only, one is enough. */
function keyOf(world: ClaimsWorld, { state, used }: Pick<Node, 'state' | 'used'>): string {
  const keys = permutations(world.workers).map(order => {
    const name = (worker: number | null) =>
      worker === null ? null : order.includes(worker) ? order.indexOf(worker) : worker;
    return JSON.stringify([
      state.runs.map(run => [run.state, name(run.openedBy)]),
      // Nothing depends on when something began or ended.
      state.parts.map(({ worker, beganMs: _began, endedMs: _ended, ...part }) => [Object.values(part), name(worker)]),
      state.held.map(({ worker, ...held }) => [Object.values(held), name(worker)].join()).sort(),
      state.alive.map(name).sort(),
      state.paused,
      state.covered,
      state.slots.map(({ worker, atMs: _at, ...slot }) => [Object.values(slot), name(worker)].join()).sort(),
      Object.entries(used).sort(),
    ]);
  });
  return keys.sort()[0]!;
}

function permutations(of: readonly number[]): number[][] {
  if (of.length < 2) return [[...of]];
  return of.flatMap(one => permutations(of.filter(other => other !== one)).map(rest => [one, ...rest]));
}

async function exploreClaimsWorld(
  db: ClaimsDatabase,
  world: ClaimsWorld,
  options: ClaimsOptions = {},
  onProgress?: (world: string, states: number, transitions: number) => void,
): Promise<Explored> {
  const { mostStates = Number.POSITIVE_INFINITY, product: examined = product } = options;
  const { wrong: wrongBefore, ...begin } = await beginWorld(db, world, examined);
  const keys = new Set<string>();
  const says: { parent: number; says: string }[] = [{ parent: -1, says: '' }];
  let transitions = 0;
  let depth = 0;
  let level: Node[] = [{ ...begin, used: {}, number: 0 }];
  keys.add(keyOf(world, level[0]!));
  const story = (number: number): string[] => (number <= 0 ? [] : [...story(says[number]!.parent), says[number]!.says]);
  const end = (complete: boolean, complaint?: Explored['complaint']) => ({
    ...{ states: keys.size, transitions, complete, depth },
    ...(complaint && { complaint }),
  });
  if (wrongBefore) return end(false, { what: wrongBefore, story: [] });
  for (; level.length > 0; depth++) {
    const next: Node[] = [];
    for (const node of level) {
      let current: Tables | undefined;
      for (const act of actsOf(world, node.state, node.used)) {
        transitions++;
        if (current !== node.tables) await db.put(node.tables);
        const { wrong, state, tables } = await perform(db, examined, node.state, node.tables, act);
        const changed = Object.keys(tables).some(name => tables[name] !== node.tables[name]);
        current = changed ? tables : node.tables;
        if (wrong) return end(false, { what: wrong, story: [...story(node.number), act.says] });
        const used = { ...node.used, [act.kind]: (node.used[act.kind] ?? 0) + 1 };
        const key = keyOf(world, { state, used });
        if (keys.has(key)) continue;
        keys.add(key);
        says.push({ parent: node.number, says: act.says });
        const what = await stateWrong(db, examined, world, state);
        if (what) return end(false, { what, story: story(says.length - 1) });
        next.push({ state, tables: changed ? tables : node.tables, used, number: says.length - 1 });
        if (keys.size % 500 === 0) onProgress?.(world.name, keys.size, transitions);
        if (keys.size >= mostStates) return end(false);
      }
    }
    level = next;
  }
  return end(true);
}

/** World after world, on a database with all tables and nothing in them. Stops at the first complaint of each. */
export async function* exploreClaims(
  url: string,
  options: ClaimsOptions = {},
  onProgress?: (world: string, states: number, transitions: number) => void,
): AsyncGenerator<Explored & { readonly world: string }> {
  await using db = await openClaims(url);
  for (const world of claimsWorlds) {
    if (!world.name.includes(options.only ?? '')) continue;
    yield { world: world.name, ...(await exploreClaimsWorld(db, world, options, onProgress)) };
  }
}

/**
 * What has happened before two acts race. A kind means its first possible act, other text the act whose sentence begins so. A
 * world that has no such act begins without it.
 */
const befores: readonly (readonly ActKind[])[] = [[], ['take'], ['take', 'die'], ['take', 'die', 'take']];

async function beginAfter(
  db: ClaimsDatabase,
  world: ClaimsWorld,
  examined: Product,
  before: readonly string[],
): Promise<Awaited<ReturnType<typeof beginWorld>>> {
  let { state, tables, wrong } = await beginWorld(db, world, examined);
  for (const what of before) {
    const taker = state.alive[0];
    const act = actsOf(world, state, {}).find(
      ({ kind, says, taker: by }) =>
        says.startsWith(what) || (kind === what && (by === undefined || by.worker === taker)),
    );
    if (wrong || !act) continue;
    await db.put(tables);
    ({ state, tables, wrong } = await perform(db, examined, state, tables, act));
  }
  return { state, tables, wrong };
}

/**
 * All pairs of acts that are transactions, at once, after each of these beginnings. Pairs of one worker are left out: it
 * does one thing at a time.
 */
export async function* raceClaims(
  url: string,
  options: Pick<ClaimsOptions, 'product' | 'only'> = {},
): AsyncGenerator<Raced & { readonly pair: string }> {
  await using db = await openClaims(url);
  const { product: examined = product } = options;
  const slots = claimsWorlds.find(({ most }) => most.slot !== undefined)!;
  for (const { world, after } of [
    ...befores.map(after => ({ world: { ...claimsWorlds[0]!, most: raced }, after })),
    { world: { ...slots, most: { slot: 9 } }, after: [] },
    { world: twoSources, after: ['worker 1 takes up tickets', 'worker 2 takes up books.shelves'] },
  ]) {
    const { state, tables } = await beginAfter(db, world, examined, after);
    const acts = actsOf(world, state, {}).filter(
      ({ kind, taker }) => kind in world.most && kind !== 'die' && !(taker?.job.startsWith('b') && taker.worker === 1),
    );
    for (const [n, one] of acts.entries()) {
      for (const other of acts.slice(n)) {
        const pair = `after ${after.join(', ') || 'nothing'}: ${one.says}, while ${other.says}`;
        if (!pair.includes(options.only ?? '') || workerOf(one) === workerOf(other)) continue;
        yield { pair, ...(await race(db, examined, state, tables, [one, other])) };
      }
    }
  }
}

const raced = {
  take: 9,
  commit: 9,
  proof: 9,
  release: 9,
  finish: 9,
  die: 9,
  abandon: 9,
  'end run': 9,
  fail: 9,
} as const;
/** Streams of two sources end, and so does their run. */
const twoSources: ClaimsWorld = {
  name: 'a stream of each source',
  workers: [1, 2],
  runs: [{ kind: 'sync', streams: ['helpdesk.tickets', 'books.shelves'], opener: 1 }],
  jobs: ['a'],
  most: { take: 9, finish: 9, partial: 9, interrupt: 9, 'end run': 9 },
};
/** The end of a run and of abandoned ones may come from anybody. */
const workerOf = ({ says }: Act) => /^worker \d/.exec(says)?.[0] ?? says;
