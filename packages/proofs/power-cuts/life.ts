/**
 * One life of a warehouse: a first load, the catalog, changes, bulk changes, slots every second, a backfill and a sweep, while the power is cut
 * again and again. In some cuts the workers die with the database; in others they are on another machine, keep all that they hold
 * of a future that is lost, and go on. After each cut, rows, claims, slots and the budget are looked at before anybody goes on. At
 * the end everything is compared.
 */
import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import pg from 'pg';
import { migrateWarehouse } from '../../../src/app/migrate.ts';
import { bookDifferences } from '../../../test/support/books.ts';
import { settingsFor } from '../../../test/support/cli.ts';
import { differences } from '../../../test/support/mirror.ts';
import { type Asked, askedOf, type Kill } from '../../../test/support/workers.ts';
import type { World } from '../../sandbox/src/helpdesk/world/world.ts';
import { makeRng, type Rng } from '../../sandbox/src/random.ts';
import { type SeenRequest, startSandbox } from '../../sandbox/src/server.ts';
import { disagreements, lost } from './agreement.ts';
import { type Command, type Crew, commandIn, crewOf } from './crew.ts';
import type { Machine } from './machine.ts';
import { repeatedIn, thrice } from './repeats.ts';
import { losesCommits, lostCredits, prepare, standingOf, takenBack, wrongSlots } from './standing.ts';

export interface LifeOptions {
  readonly machine: Machine;
  readonly seed: number;
  readonly cuts: number;
  readonly tickets: number;
  readonly limits?: typeof usualLimits;
  /** Another tree's main.ts, for planted defects. */
  readonly program?: string;
  /** With a planted defect nothing is waited for after the first complaint. */
  readonly untilWrong?: boolean;
  readonly told: (cut: Told) => void;
}

export interface Told {
  readonly cut: number;
  /** Whether the workers died with the database. */
  readonly died: boolean;
  readonly lostTransactions: number;
  readonly lostBytes: number;
  readonly lostCredits: number;
  readonly wrong: readonly string[];
}

export interface Life {
  readonly wrong: readonly string[];
  readonly cuts: readonly (Told & { readonly repeated: number; readonly said: number })[];
  readonly totals: {
    readonly requests: number;
    readonly ofCatalog: number;
    readonly credits: number;
    /** By both. */
    readonly refused: number;
    /** The share of the credits that was used in the busiest period. */
    readonly busiest: number;
  };
  /** Requests that were repeated for another reason: ties, the search for the end of the customers, unripe tickets. */
  readonly others: number;
}

/** Those of the service, twelve times as fast, so that a life meets them. */
const usualLimits = { credits: 600, periodSeconds: 30, requestsPerSecond: 70 };
const users = 250;
const catalog = { volumes: 120, requestsPerDay: 5000, requestsPerSecond: 20 };
/** With public shelves; beside it the library of the one who asks. */
const owner = '118446744073709551615';
const changeMs = 200;
const bulkMs = 7000;
/** Of each reader: ten replies that are being committed, ten that wait, and the one in flight (SPEC I1). */
const inHand = 21;
/** Renames are found after a week. */
const unannounced = ['rename of a label', 'rename of an inbox'];
const patienceMs = 240_000;

export async function live({ machine, seed, cuts, tickets, told, ...options }: LifeOptions): Promise<Life> {
  await using stack = new AsyncDisposableStack();
  const { limits = usualLimits } = options;
  const rng = makeRng(seed);
  const database = `life_${seed}`;
  const url = await makeDatabase(machine, database);
  const asked: Asked[] = [];
  const sandbox = await startSandbox({
    ...limits,
    tickets,
    seed,
    books: catalog,
    before: request => void asked.push(askedOf(request, sandbox.world)),
  });
  stack.defer(() => sandbox.close());
  const { world } = sandbox;
  const refused = () => sandbox.totals.refused + sandbox.books.totals.refused;
  for (let n = 0; n < users; n++) world.addUser();
  const env = {
    ...settingsFor(url, sandbox),
    HELPDESK_CREDITS: String(limits.credits),
    HELPDESK_PERIOD_SECONDS: String(limits.periodSeconds),
    HELPDESK_REQUESTS_PER_SECOND: String(limits.requestsPerSecond),
    HELPDESK_LOOKBACK_SECONDS: '3',
    BOOKS_BASE_URL: sandbox.books.url,
    BOOKS_API_KEY: sandbox.books.key,
    BOOKS_ACCESS_TOKEN: sandbox.books.token,
    BOOKS_USERS: owner,
    BOOKS_REQUESTS_PER_DAY: String(catalog.requestsPerDay),
    BOOKS_REQUESTS_PER_SECOND: String(catalog.requestsPerSecond),
    SCHEDULE_FRESH: '* * * * * *',
    SCHEDULE_NIGHTLY: '*/20 * * * * *',
  };
  const pool = new pg.Pool({ connectionString: url, application_name: 'power cuts', max: 2 });
  pool.on('error', () => {});
  stack.defer(() => pool.end());
  const crew = crewOf(2, env, options.program);
  stack.use(crew);
  const commands = ['backfill', 'sweep'].map(name => commandIn(name, env, options.program));
  for (const command of commands) stack.use(command);

  const wrong: string[] = [];
  const kills: Kill[] = [];
  const happened: (Told & { readers: number })[] = [];
  const changing = change(world, rng);
  try {
    commands[0]!.begin();
    for (let cut = 1; cut <= cuts; cut++) {
      if (cut === Math.ceil(cuts / 2)) commands[1]!.begin();
      await crew.ready();
      await goesOn(asked, rng);
      const one = await cutOnce({ machine, database, crew, commands, world, died: rng() < 0.6 });
      kills.push(one.kill);
      if (refused() > 0) one.wrong.push(`${refused()} requests were refused`);
      happened.push({ cut, ...one });
      wrong.push(...one.wrong.map(words => `cut ${cut}: ${words}`));
      told({ cut, ...one });
      if (options.untilWrong && wrong.length > 0) break;
    }
  } finally {
    clearInterval(changing.one);
    clearInterval(changing.bulk);
  }
  const duringCuts = [...asked];
  const isOver = () => options.untilWrong === true && wrong.length > 0;
  if (!isOver()) wrong.push(...(await settle({ pool, world, crew, commands, env, program: options.program })));
  if (!isOver()) {
    wrong.push(...(await differences(pool, world)).slice(0, 20));
    wrong.push(...(await bookDifferences(pool, sandbox.books.world, [owner, 'mylibrary'])).slice(0, 20));
  }
  wrong.push(...(await wrongSlots(pool)));
  if (refused() > 0) wrong.push(`${refused()} requests were refused in all`);

  const { byCut, others } = repeatedIn(duringCuts, kills);
  const figures = happened.map((one, n) => ({
    ...one,
    repeated: byCut[n]!.length,
    said: one.readers * inHand + one.lostCredits,
  }));
  for (const { cut, repeated, said } of figures)
    if (repeated > said) wrong.push(`cut ${cut}: ${repeated} requests were repeated, and at most ${said} may be`);
  for (const [n, repeated] of byCut.entries())
    wrong.push(...thrice(repeated).map(what => `cut ${n + 1}: ${what} was paid for more than twice`));
  return {
    wrong,
    cuts: figures,
    totals: {
      ...sandbox.totals,
      refused: refused(),
      ofCatalog: sandbox.books.totals.requests,
      busiest: busiestOf(sandbox.requests, limits),
    },
    others,
  };
}

export async function makeDatabase(machine: Machine, name: string): Promise<string> {
  const admin = new pg.Client({ connectionString: machine.admin });
  await admin.connect();
  await admin.query(`create database ${name} template template0`).finally(() => admin.end());
  await migrateWarehouse(machine.urlOf(name));
  const client = new pg.Client({ connectionString: machine.urlOf(name) });
  await client.connect();
  await prepare(client).finally(() => client.end());
  return machine.urlOf(name);
}

function change(world: World, rng: Rng) {
  return {
    one: setInterval(() => void world.mutate(rng, unannounced), changeMs),
    bulk: setInterval(() => void world.actInBulk(150), bulkMs),
  };
}

/** Some requests, and then a random moment. */
async function goesOn(asked: readonly Asked[], rng: Rng): Promise<void> {
  const before = asked.length;
  const untilMs = performance.now() + patienceMs;
  const some = 3 + rng() * 20;
  const waitMs = rng() * 1500;
  while (asked.length < before + some && performance.now() < untilMs) await delay(20);
  if (asked.length === before) throw new Error('no request came after the cut: the work does not go on');
  await delay(waitMs);
}

async function cutOnce(at: {
  machine: Machine;
  database: string;
  crew: Crew;
  commands: readonly Command[];
  world: World;
  died: boolean;
}) {
  const { machine, database, crew, commands, world, died } = at;
  const all = [crew, ...commands];
  const found: string[] = [];
  let frozen = false;
  let overMs = 0;
  const cut = await machine.cut(database, {
    isWorth: losesCommits,
    ask: async client => {
      const standing = await standingOf(client);
      if (frozen) found.push(...(await disagreements(client, world)), ...(await wrongSlots(client)));
      return standing;
    },
    whileOff: async () => {
      frozen = true;
      for (const one of all) await (died ? one.die() : one.stop());
      // The sandbox lives in this process: after some turns of its loop it has read what the dead processes sent.
      for (let turn = 0; turn < 10; turn++) await setImmediate();
      overMs = Date.now();
    },
  });
  // What was sent until then was sent before the cut.
  const kill = { atMs: overMs, overMs };
  for (const one of all) died ? one.begin(true) : one.goOn();
  return {
    died,
    kill,
    lostTransactions: cut.lostTransactions,
    lostBytes: cut.lostBytes,
    lostCredits: lostCredits(cut.before, cut.after),
    readers: cut.before.streams.reduce((sum, { readers }) => sum + readers, 0),
    wrong: [...found, ...takenBack(cut.before, cut.after)],
  };
}

async function settle(at: {
  pool: pg.Pool;
  world: World;
  crew: Crew;
  commands: readonly Command[];
  env: Record<string, string>;
  program: string | undefined;
}): Promise<string[]> {
  const { pool, world, crew, commands, env, program } = at;
  const wrong: string[] = [];
  await Promise.all(commands.map(command => command.done()));
  const { rows } = await rest(pool);
  wrong.push(...rows.map(({ words }) => `still open: ${words}`));
  wrong.push(...(await crew.leave()));
  const run = async (words: string) => {
    const command = commandIn(words, env, program);
    command.begin();
    wrong.push(...(await command.done()));
  };
  await run('sync');
  // A sweep would bring back in silence what was lost.
  wrong.push(...(await lost(pool, world)));
  await run('sweep');
  await run('verify --full');
  return wrong;
}

/** Until no ticket waits and no run is open, but for those of every second. */
async function rest(pool: pg.Pool) {
  for (const untilMs = performance.now() + patienceMs; ; await delay(200)) {
    const left = await pool.query<{ words: string }>(
      `select kind || ' ' || id as words from sync.stored_runs where state = 'running' and kind not in ('fresh', 'nightly')
       union all
       select waiting || ' tickets wait' from sync.status where stream = 'messages' and waiting > 0`,
    );
    if (left.rows.length === 0 || performance.now() > untilMs) return left;
  }
}

function busiestOf(requests: readonly SeenRequest[], { credits, periodSeconds }: typeof usualLimits): number {
  let [first, sum, most] = [0, 0, 0];
  for (const { at, cost } of requests) {
    sum += cost;
    while (requests[first]!.at <= at - periodSeconds * 1000) sum -= requests[first++]!.cost;
    most = Math.max(most, sum);
  }
  return most / credits;
}
