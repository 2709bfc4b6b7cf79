/**
 * A lake beside the warehouse of some seeds: exports between any two effects, also ones that die. An export is one effect: what
 * others do meanwhile is in the tests of the lake.
 */

import type { Lake } from '../../../src/lake/package.ts';
import { turnOff } from '../../../src/lake/state.ts';
import { type LakeBeside, lakeBeside } from '../../lake/test/support/lake-beside.ts';
import { between, makeRng, type Rng } from '../../sandbox/src/random.ts';
import type { Database } from './database.ts';

/** An export that dies does so within this many statements; one that has fewer comes to its end. */
const statements = 120;

export class SimulatedLake {
  /** That came to their end. */
  exports = 0;
  /** That died. */
  deaths = 0;
  readonly #database: Database;
  readonly #beside: LakeBeside;
  readonly #rng: Rng;

  private constructor(database: Database, beside: LakeBeside, rng: Rng) {
    this.#database = database;
    this.#beside = beside;
    this.#rng = rng;
  }

  /** `mistake`: a statement that spoils it. */
  static async open(database: Database, seed: number, mistake?: string): Promise<SimulatedLake> {
    const beside = await lakeBeside(database.url);
    if (mistake !== undefined) await database.client.query(mistake);
    return new SimulatedLake(database, beside, makeRng(seed * 7 + 15));
  }

  /** One in three is to die. */
  async export(): Promise<void> {
    if (this.#rng() < 2 / 3) return this.#wholly();
    let left = between(this.#rng, 1, statements);
    const { lake } = this.#beside;
    const dying: Lake = {
      ...lake,
      async run(sql) {
        if (left-- === 0) throw new Died();
        await lake.run(sql);
      },
    };
    try {
      await this.#beside.export(dying);
      this.exports++;
    } catch (error) {
      if (!(error instanceof Died)) throw error;
      this.deaths++;
      await this.#beside.reopen();
    }
  }

  async #wholly(): Promise<void> {
    await this.#beside.export();
    this.exports++;
  }

  /** After one more export: where it is not what the tables are, and which of these texts it still has. */
  async wrong(gone: readonly string[]): Promise<string[]> {
    await this.#wholly();
    const differ = (await this.#beside.compare()).map(
      ({ table, missing, extra }) => `the lake lacks ${missing} rows of ${table}, and has ${extra} others`,
    );
    const all = gone.length > 0 ? await this.#beside.everything() : '';
    const left = gone.filter(text => all.includes(text));
    return [...differ, ...left.map(text => `I23: the lake holds '${text}' of an erased person`)];
  }

  async close(): Promise<void> {
    await this.#beside[Symbol.asyncDispose]();
    await turnOff(this.#database.url);
  }
}

class Died extends Error {}
