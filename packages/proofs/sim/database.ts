/**
 * The warehouse of a simulation: a real PostgreSQL, over one connection, since only one thing happens at a time anyway. A
 * process sees it as its pool. A statement, and a whole transaction from its connection to its release, is one effect; it
 * may fail before it is carried out, in the middle, or after it: then it holds, and the process has seen an error.
 */
import type pg from 'pg';
import type { Actor, Scheduler } from './scheduler.ts';
import { type Asked, Wire } from './wire.ts';

/** How an effect on the database goes wrong. */
export type Trouble =
  | { readonly kind: 'before' | 'after' }
  /** With the nth statement of a transaction. */
  | { readonly kind: 'within'; readonly statement: number };

/** What a process makes of the database, and what becomes of it. */
export interface Door {
  readonly by: Actor;
  readonly scheduler: Scheduler;
  /** The database's clock. */
  readonly now: () => number;
  /** Decides anew for each effect. */
  readonly trouble: () => Trouble | undefined;
  /** Takes its time. */
  readonly lateMs: () => number;
  /** A planted defect: says another statement, or none. */
  readonly rewrite?: (statement: Statement) => Statement;
  /** Another one: what holds even where its transaction is rolled back. */
  readonly sticks?: (statement: Statement) => boolean;
}

export interface Statement {
  text: string;
  values: unknown[];
}

/** Told of each statement that was carried out. */
export type Watch = (statement: Statement, by: Actor, result: pg.QueryResult) => void;

const clock = 'extract(epoch from clock_timestamp())::float8 * 1000';

export class Database {
  readonly url: string;
  readonly client: Wire;
  watch: Watch = () => {};
  readonly #names = new Map<string, string>();

  private constructor(url: string, client: Wire) {
    this.url = url;
    this.client = client;
  }

  static async open(url: string): Promise<Database> {
    // As the pool of the product, but for the plans: tables are small here, and planning would be most of the time.
    const options = '-c timezone=UTC -c synchronous_commit=off -c plan_cache_mode=force_generic_plan -c jit=off';
    const client = await Wire.open(url, options);
    const database = new Database(url, client);
    const { rows } = await client.query(
      `select format('%I.%I', t.table_schema, t.table_name) as name,
         (xpath('/row/n/text()', query_to_xml(format('select count(*) as n from %I.%I', t.table_schema, t.table_name), false, true, '')))[1]::text <> '0' as full
       from information_schema.tables t
       where t.table_schema in ('helpdesk', 'books', 'sync', 'internal') and t.table_type = 'BASE TABLE' order by 1`,
    );
    const tables = rows.filter(({ full }) => !full).map(({ name }) => name);
    const { rows: sequences } = await client.query(
      `select format('%I.%I', schemaname, sequencename) as name from pg_sequences where schemaname in ('helpdesk', 'books', 'sync')`,
    );
    await client.query(`create or replace function pg_temp.empty() returns text[] language plpgsql as $$
      declare filled text[] := '{}';
      begin
        ${tables.map(name => `if exists (select from ${name}) then filled := filled || '${name}'::text; end if;`).join('\n')}
        set local session_replication_role = replica;
        for i in 1 .. cardinality(filled) loop execute 'delete from ' || filled[i]; end loop;
        ${sequences.map(({ name }) => `perform setval('${name}', 1, false);`).join('\n')}
        return filled;
      end $$`);
    await client.query(`vacuum ${tables.join(', ')}`);
    return database;
  }

  /** What the migrations have put in stays. */
  async empty(): Promise<void> {
    const { rows } = await this.client.query('select pg_temp.empty() as filled');
    const { filled } = rows[0]!;
    // Rows without an order come as they lie in the file, which is to be the same each time: a file without rows is cut to
    // nothing. To truncate the tables, which makes new files for them, takes four times as long.
    if (filled.length > 0) await this.client.query(`vacuum ${filled.join(', ')}`);
  }

  async close(): Promise<void> {
    this.client.close();
  }

  /** Rows that hold one of these texts in any column. Those of the catalog have none, but random digits that may look like one. */
  async holding(texts: readonly string[]): Promise<{ table: string; text: string }[]> {
    const { rows: tables } = await this.client.query(
      `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where c.relkind in ('r', 'm') and n.nspname !~ '^(pg_|information_schema|books$)' and pg_relation_size(c.oid) > 0 order by 1`,
    );
    const all = tables.map(({ name }) => `select '${name}' as name, t::text as row from ${name} t`).join(' union all ');
    const found = `select distinct r.name as table, w.text from (${all}) r, unnest($1::text[]) w (text) where strpos(r.row, w.text) > 0`;
    return (await this.client.query({ text: found, values: [texts] })).rows;
  }

  /** A statement with values is prepared once. */
  async query(asked: pg.QueryConfig, nowMs: number): Promise<pg.QueryResult> {
    const config = atTime(asked, nowMs);
    if (config.values === undefined) return this.client.query(config as Asked);
    const name = this.#names.get(config.text) ?? `s${this.#names.size}`;
    this.#names.set(config.text, name);
    return this.client.query({ text: config.text, values: config.values, name });
  }

  /** The pool of one process. */
  poolFor(door: Door): pg.Pool {
    const { by, scheduler } = door;
    const ask = async (asked: pg.QueryConfig) => {
      const statement = door.rewrite?.({ text: asked.text, values: asked.values ?? [] });
      const config = statement ? { ...asked, ...statement, ...(asked.values ? {} : { values: undefined }) } : asked;
      const result = await this.query(config as pg.QueryConfig, door.now());
      this.watch({ text: config.text, values: (config.values ?? []) as unknown[] }, by, result);
      return result;
    };
    const pool = {
      query: (text: string | pg.QueryConfig, values?: unknown[]) => {
        const config = configOf(text, values);
        return scheduler.effect(
          by,
          brief(config.text),
          async () => {
            const trouble = door.trouble();
            if (trouble?.kind === 'before' || trouble?.kind === 'within') throw broken();
            const result = await ask(config);
            if (trouble?.kind === 'after') throw broken();
            return result;
          },
          door.lateMs(),
        );
      },
      connect: () =>
        new Promise<pg.PoolClient>((resolve, reject) => {
          scheduler.enqueue(by, 'transaction', door.lateMs(), async () => {
            const trouble = door.trouble();
            if (trouble?.kind === 'before') return () => reject(broken());
            const session = new Session(ask, trouble, door.sticks);
            resolve(session as unknown as pg.PoolClient);
            await session.released;
            scheduler.note(`  ${session.said.join(' · ')}`);
            // A process that dies after this has its transaction, and never goes on.
            return () => {};
          });
        }),
      on: () => pool,
      end: async () => {},
    };
    return pool as unknown as pg.Pool;
  }
}

/** The one connection, while a transaction has it. */
class Session {
  readonly said: string[] = [];
  readonly released: Promise<void>;
  #release: () => void = () => {};
  #broken = false;
  #statements = 0;
  readonly #ask: (config: pg.QueryConfig) => Promise<pg.QueryResult>;
  readonly #trouble: Trouble | undefined;

  readonly #sticks: Door['sticks'];
  readonly #stuck: pg.QueryConfig[] = [];

  constructor(
    ask: (config: pg.QueryConfig) => Promise<pg.QueryResult>,
    trouble: Trouble | undefined,
    sticks: Door['sticks'],
  ) {
    this.#sticks = sticks;
    this.#ask = ask;
    this.#trouble = trouble;
    this.released = new Promise(resolve => {
      this.#release = resolve;
    });
  }

  async query(text: string | pg.QueryConfig, values?: unknown[]): Promise<pg.QueryResult> {
    if (this.#broken) throw broken();
    const config = configOf(text, values);
    const trouble = this.#trouble;
    const fails = trouble?.kind === 'within' && ++this.#statements === trouble.statement;
    if (fails || (config.text.endsWith('commit') && trouble?.kind === 'within')) return this.#breakOff();
    this.said.push(brief(config.text));
    if (this.#sticks?.({ text: config.text, values: (config.values ?? []) as unknown[] })) this.#stuck.push(config);
    const result = await this.#ask(config);
    if (config.text === 'rollback') await this.#stick();
    if (!config.text.endsWith('commit') || trouble?.kind !== 'after') return result;
    this.#broken = true;
    throw broken();
  }

  async #breakOff(): Promise<never> {
    this.#broken = true;
    this.said.push('broken');
    await this.#ask({ text: 'rollback' });
    await this.#stick();
    throw broken();
  }

  async #stick(): Promise<void> {
    for (const config of this.#stuck) await this.#ask(config);
  }

  release(): void {
    this.#release();
  }
}

/** As node-postgres says it when the server is gone. */
const broken = () => new Error('Connection terminated unexpectedly');

const configOf = (text: string | pg.QueryConfig, values?: unknown[]): pg.QueryConfig =>
  typeof text === 'string' ? { text, ...(values && { values }) } : text;

/** The database's clock is the simulation's. */
function atTime(config: pg.QueryConfig, nowMs: number): pg.QueryConfig {
  if (!config.text.includes('clock_timestamp()')) return config;
  const values = [...((config.values ?? []) as unknown[]), nowMs];
  const text = config.text.replaceAll(clock, `$${values.length}::float8`);
  if (text.includes('clock_timestamp()')) throw new Error(`a clock that the simulation does not know: ${text}`);
  return { ...config, text, values };
}

const briefs = new Map<string, string>();

/** Enough of a statement to tell it from others. */
function brief(text: string): string {
  const known = briefs.get(text);
  if (known !== undefined) return known;
  const words = text.replaceAll(/\s+/g, ' ').trim();
  const what = /^(\w+)/.exec(words)?.[1] ?? '';
  const where = /\b(?:into|update|from|join) ((?:sync|helpdesk|books)\.\w+)/.exec(words)?.[1] ?? '';
  const made = where ? `${what} ${where}` : words.slice(0, 40);
  briefs.set(text, made);
  return made;
}
