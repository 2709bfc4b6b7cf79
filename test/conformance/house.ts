/** What the tests of conformance share: the program of the guide, and a house of a source, a database and a program. */
import { beforeAll, expect } from 'vitest';
import type { Finished } from '../support/cli.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { variants } from './harness.ts';
import { followGuide, type Program, programOf } from './tree.ts';

// biome-ignore lint/suspicious/noExplicitAny: documents of several commands
export type Json = any;

/** A source, a database, and the program that reads the one into the other. */
export class House {
  readonly program: Program;
  readonly db: TestDatabase;
  readonly env: Readonly<Record<string, string>>;

  constructor(program: Program, db: TestDatabase, env: Readonly<Record<string, string>>) {
    this.program = program;
    this.db = db;
    this.env = { NO_COLOR: '1', DATABASE_URL: db.url, ...env };
  }

  run(...args: string[]): Promise<Finished> {
    return this.program.run({ args, env: this.env });
  }

  /** The command has to end with one of these codes. */
  async ends(codes: readonly number[], ...args: string[]): Promise<Finished> {
    const finished = await this.run(...args);
    expect(codes, `${args.join(' ')}: ${finished.stderr}`).toContain(finished.code);
    return finished;
  }

  /** Details of a record that changed in the last seconds wait for the next run, and count as waiting until then. */
  async sync(): Promise<Finished> {
    const first = await this.ends([0], 'sync');
    const waiting = async () => {
      const [{ n }] = (await this.rows('select coalesce(sum(waiting), 0)::int as n from sync.status')) as [
        { n: number },
      ];
      if (n > 0) await this.ends([0], 'sync');
      return n;
    };
    await expect.poll(waiting, { timeout: 20_000, interval: 500 }).toBe(0);
    return first;
  }

  /** Times of a source are whole seconds: a list says nothing of a record that was read in the second in which it began. */
  async nextSecond(): Promise<void> {
    const second = () => Math.floor(Date.now() / 1000);
    const now = second();
    await expect.poll(second, { timeout: 5000, interval: 20 }).toBeGreaterThan(now);
  }

  /** The JSON that it prints. */
  async json(args: readonly string[], codes = [0]): Promise<Json> {
    return JSON.parse((await this.ends(codes, ...args, '--json')).stdout);
  }

  async rows(sql: string, ...values: unknown[]): Promise<Json[]> {
    return (await this.db.pool.query(sql, values)).rows;
  }
}

/** The program with the CRM in it, and with one of the other ways that it may be written. */
export function crmProgram(variant: keyof typeof variants): () => Program {
  let program: Program;
  beforeAll(() => {
    const tree = followGuide(variants[variant]);
    program = programOf(tree);
    return () => {
      program[Symbol.dispose]();
      tree[Symbol.dispose]();
    };
  });
  return () => program;
}
