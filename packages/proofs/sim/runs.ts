/** Runs, as people and schedules ask for them: opened while everything goes wrong, and brought to a good end at rest. */
import type pg from 'pg';
import { openSweep } from '../../../src/engine/deletions/swept-ranges.ts';
import { openBackfill } from '../../../src/engine/runs/ranges.ts';
import { openRun, openSync, type RunKind, withAccount } from '../../../src/engine/runs/runs.ts';
import { streams } from '../../../src/sources/index.ts';
import { keysOf } from '../../../test/support/keys.ts';
import { pick, type Rng } from '../../sandbox/src/random.ts';
import type { Check } from './check.ts';
import type { Database } from './database.ts';
import type { Plan } from './plan.ts';
import { account, type Process } from './process.ts';
import type { Scheduler } from './scheduler.ts';

export type Asked = RunKind | 'again' | 'night' | 'catalog' | 'catalog again';

export interface AroundRuns {
  readonly plan: Plan;
  readonly scheduler: Scheduler;
  readonly database: Database;
  readonly check: Check;
  readonly chance: Rng;
  /** Nothing goes wrong with it. */
  readonly calm: pg.Pool;
  /** A script asks for the most of the choices that there are: what it comes by does not hang on a draw. */
  readonly isScripted: boolean;
  readonly processes: () => readonly Process[];
  readonly start: () => void;
  readonly direct: (act: () => Promise<void>) => Promise<void>;
  readonly failed: (why: unknown) => void;
}

const inCatalog = ['shelves', 'volumes'];

/** The streams that a seed has. */
export const namesOf = ({ volumes }: Plan): string[] =>
  streams.filter(({ source }) => source === 'helpdesk' || volumes > 0).map(({ name }) => name);

/** Of what nothing goes wrong with. */
const mostSteps = 20_000;

export class Runs {
  /** Some run may be over. */
  mayHaveEnded = false;
  /** The last sweep that was asked for goes on with one that was broken off. */
  goesOn = false;
  /** Streams that said that a part of them cannot be read. */
  readonly unreadable = new Set<string>();
  readonly #around: AroundRuns;

  constructor(around: AroundRuns) {
    this.#around = around;
  }

  askFor(kind: Asked): void {
    if (kind === 'nightly') this.ask('nightly', ['users', 'customers', 'tickets']);
    else if (kind === 'fresh') this.ask('fresh', ['customers', 'tickets']);
    else if (kind === 'hydrate') this.ask('hydrate', ['messages']);
    else if (kind === 'sync') this.ask('sync', namesOf(this.#around.plan));
    else if (kind === 'catalog') this.ask('fresh', inCatalog);
    else if (kind === 'catalog again') this.ask('backfill', inCatalog, true);
    else if (kind === 'sweep') this.ask('sweep', this.#someOf([['tickets'], ['customers'], ['customers', 'tickets']]));
    else if (kind === 'night') this.ask('sweep', ['customers', 'tickets'], false);
    else this.ask('backfill', this.#someOf([['tickets'], ['customers'], ['tickets', 'messages']]), kind === 'again');
  }

  /** A script asks for the most of them: what it comes by does not hang on a draw. */
  #someOf(choices: readonly (readonly string[])[]): readonly string[] {
    return !this.#around.isScripted ? pick(this.#around.chance, choices) : choices.at(-1)!;
  }

  ask(kind: RunKind, asked: readonly string[], again?: boolean): void {
    this.#open(kind, asked, again).catch(this.#around.failed);
  }

  /** A sweep that is not asked for `again` is one of the schedule. */
  async #open(kind: RunKind, asked: readonly string[], again?: boolean): Promise<number> {
    const opener = this.#around.processes().find(({ by, id }) => !by.dead && id > 0)?.id ?? 0;
    const now = new Date(this.#around.scheduler.nowMs);
    const given = { account, streams: keysOf(asked), opener };
    const range = { since: null, until: null, again: again ?? false };
    const open = async () => {
      if (kind === 'sync') return openSync(this.#around.calm, given, now, 60_000);
      if (kind === 'sweep' && again !== false) {
        const opened = await openSweep(this.#around.calm, { ...given, acceptDeletions: true }, now);
        this.goesOn = opened.resumed;
        return opened.run;
      }
      if (kind === 'backfill') return (await openBackfill(this.#around.calm, { ...given, range }, now)).run;
      return withAccount(this.#around.calm, account, client => openRun(client, { ...given, kind }, now));
    };
    const run = await open();
    for (const process of this.#around.processes()) process.ring();
    return run;
  }

  /** A run that has to come to a good end, and what may still wait for its next try. */
  async finish(kind: RunKind, asked: readonly string[], again?: boolean): Promise<void> {
    const { scheduler, check } = this.#around;
    for (let tries = 1; ; tries++) {
      let run: number | undefined;
      await this.#around.direct(async () => {
        run = await this.#open(kind, asked, again);
      });
      let state = 'running';
      for (const last = scheduler.steps + mostSteps; state === 'running' && scheduler.steps < last; ) {
        this.mayHaveEnded = false;
        const { rows } = await this.#around.database.query(
          { text: 'select state from sync.stored_runs where id = $1', values: [run] },
          0,
        );
        state = rows[0].state;
        if (state === 'running') await scheduler.run(() => this.mayHaveEnded, mostSteps);
      }
      if (state === 'completed') return await this.#settled();
      const { rows } = await this.#around.database.query(
        {
          text: `select stream, state, error from sync.stored_run_streams where run_id = $1 and error is not null`,
          values: [run],
        },
        0,
      );
      const why = rows.map(row => `${row.stream}: ${row.error}`).join('; ');
      scheduler.note(`run ${run}, ${kind}, ended ${state}: ${why}`);
      if (/paging reaches/.test(why) && !/could not be stored|in full/.test(why)) {
        // More in one second than can be read in any way: it says so, and what of it is gone nobody can see.
        for (const { stream } of rows) this.unreadable.add(stream);
        return await this.#settled();
      }
      // What a clock far ahead has put off is counted by each run until then; what it did to the tables the comparison tells.
      if (tries === 3 && this.#around.plan.clocksMs > 0 && /could not be stored$/.test(why)) return;
      if (tries === 3) return check.complain(`at rest: run ${run} of kind ${kind} ended ${state}: ${why}`);
      for (const process of this.#around.processes()) await process.kill();
      scheduler.skip(2 * 86_400_000);
      this.#around.start();
    }
  }

  /** What runs by itself is over as well: one that was asked for leaves names that are being asked for to it. */
  async #settled(): Promise<void> {
    for (const last = this.#around.scheduler.steps + mostSteps; this.#around.scheduler.steps < last; ) {
      this.mayHaveEnded = false;
      const { rows } = await this.#around.database.query(
        { text: `select count(*)::int as n from sync.stored_runs where state = 'running'`, values: [] },
        0,
      );
      if (rows[0].n === 0) return;
      await this.#around.scheduler.run(() => this.mayHaveEnded, mostSteps);
    }
    this.#around.check.complain('at rest: a run does not end');
  }
}
