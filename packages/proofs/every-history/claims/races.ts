/**
 * What two transactions do at once. Each statement of both acts waits for its turn, and every order of turns is played,
 * on a real PostgreSQL with a connection for each. Where a statement waits for a lock of the other act, the other goes on.
 * Whatever the order, the tables and the answers must be as if one act had come after the other.
 */
import pg from 'pg';
import { sessionSettings } from '../../../../src/engine/database/pool.ts';
import { connectSession, sessionTo } from '../../../../src/engine/database/session/session.ts';
import type { Act, Product } from './acts.ts';
import type { ClaimsDatabase, Tables } from './database.ts';
import type { Claims } from './model.ts';

/** One connection, each of whose statements waits for a turn. */
interface Door {
  readonly pool: pg.Pool;
  /** Sends the next statement. It is answered, or waits for a lock; then the next turn waits for its answer. */
  turn(): Promise<'answered' | 'blocked' | 'nothing to send'>;
  /** Whether its statement waits for a lock. */
  isStuck(): Promise<boolean>;
  end(): Promise<void>;
}

async function door(url: string, isBlocked: (pid: number) => Promise<boolean>): Promise<Door> {
  const client = sessionTo(url, {});
  await connectSession(client, url, sessionSettings);
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  const pid = rows[0]!.pid;
  const waiting: (() => Promise<unknown>)[] = [];
  let sent: Promise<unknown> | undefined;
  const query = (...args: unknown[]) =>
    new Promise((resolve, reject) => {
      waiting.push(() => {
        const answered = (client.query as (...args: unknown[]) => Promise<unknown>)(...args);
        answered.then(resolve, reject);
        return answered;
      });
    });
  const guest = { query, release: () => {} };
  return {
    pool: { query, connect: async () => guest } as unknown as pg.Pool,
    async turn() {
      sent ??= waiting.shift()?.();
      if (sent === undefined) return 'nothing to send';
      let answered = false;
      const end = () => {
        answered = true;
      };
      sent.then(end, end);
      for (;;) {
        const blocked = await isBlocked(pid);
        if (answered) {
          sent = undefined;
          // The act goes on to its next statement, or to its end.
          await new Promise(setImmediate);
          return 'answered';
        }
        if (blocked) return 'blocked';
      }
    },
    isStuck: async () => sent !== undefined && (await isBlocked(pid)),
    end: () => client.end(),
  };
}

export interface Raced {
  readonly orders: number;
  readonly complaint?: { readonly what: string; readonly story: readonly string[] };
}

/** Plays two acts in every order of their statements, from these tables. */
export async function race(
  db: ClaimsDatabase,
  product: Product,
  before: Claims,
  tables: Tables,
  acts: readonly [Act, Act],
): Promise<Raced> {
  const monitor = new pg.Client({ connectionString: db.url });
  await monitor.connect();
  const isBlocked = async (pid: number) => {
    const { rows } = await monitor.query<{ blocked: boolean }>(
      'select cardinality(pg_blocking_pids($1)) > 0 as blocked',
      [pid],
    );
    return rows[0]!.blocked;
  };
  const doors = [await door(db.url, isBlocked), await door(db.url, isBlocked)] as const;
  const now = new Date(before.timeMs);
  await db.live(before.alive);
  const outcome = async (answers: readonly string[]) => `${answers.join(' and ')}: ${JSON.stringify(await db.read())}`;
  try {
    const serial: string[] = [];
    for (const [first, second] of [
      [0, 1],
      [1, 0],
    ] as const) {
      await db.put(tables);
      const answers: string[] = [];
      answers[first] = await acts[first].run(product, db.pool, now);
      answers[second] = await acts[second].run(product, db.pool, now);
      const failed = answers.find(answer => /^\w*error: /i.test(answer));
      if (failed !== undefined) return { orders: 0, complaint: { what: failed, story: acts.map(({ says }) => says) } };
      serial.push(await outcome(answers));
    }
    let orders = 0;
    /** The next order: turns of the first act as 0, of the second as 1. */
    let next: number[] | undefined = [];
    while (next !== undefined) {
      await db.put(tables);
      const { answers, turns } = await play(doors, acts, product, next, now);
      orders++;
      const found = await outcome(answers);
      if (!serial.includes(found)) {
        const story = turns.map(({ of }) => `a statement of: ${acts[of]!.says}`);
        return { orders, complaint: { what: `the outcome is that of no order: ${answers.join(' and ')}`, story } };
      }
      next = after(turns);
    }
    return { orders };
  } finally {
    await monitor.end();
    for (const one of doors) await one.end();
  }
}

interface Turn {
  readonly of: number;
  /** Whether the other act could have had this turn. */
  readonly free: boolean;
}

async function play(
  doors: readonly [Door, Door],
  acts: readonly [Act, Act],
  product: Product,
  wanted: readonly number[],
  now: Date,
): Promise<{ answers: string[]; turns: Turn[] }> {
  const over = [false, false];
  const results = acts.map((act, n) =>
    act
      .run(product, doors[n]!.pool, now)
      .catch((error: Error) => `error: ${error.message}`)
      .finally(() => {
        over[n] = true;
      }),
  );
  await new Promise(setImmediate);
  const turns: Turn[] = [];
  let stuck = [false, false];
  while (!over[0] || !over[1]) {
    const may = [0, 1].filter(n => !over[n] && !stuck[n]);
    if (may.length === 0) {
      // Both wait for each other, until PostgreSQL ends one; or for an act that is over by now.
      stuck = [false, false];
      continue;
    }
    const of = may.find(n => n === wanted[turns.length]) ?? may[0]!;
    turns.push({ of, free: may.length === 2 });
    const became = await doors[of]!.turn();
    // To give a turn to what still waits for a lock would be the same order again.
    if (became === 'blocked') stuck = stuck.map((one, n) => n === of || one);
    else stuck = await Promise.all(stuck.map(async (one, n) => one && n !== of && (await doors[n]!.isStuck())));
  }
  return { answers: await Promise.all(results), turns };
}

/** The next order in which the last free turn that went to the first act goes to the second. */
function after(turns: readonly Turn[]): number[] | undefined {
  for (let n = turns.length - 1; n >= 0; n--)
    if (turns[n]!.free && turns[n]!.of === 0) return [...turns.slice(0, n).map(({ of }) => of), 1];
  return undefined;
}
