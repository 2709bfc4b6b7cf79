/** What a hydration costs and takes on disk, and a model of many accounts that goes on from there: the figures of docs/explanation/scale.md. */
import { fileURLToPath } from 'node:url';
import { connectionsOf, lookersMost } from '../../src/engine/database/pool.ts';
import { openDatabase } from '../lab.ts';
import { runOurs, startSource } from '../load.ts';
import { medianOf, type Section } from '../report.ts';

const tickets = 2000;
const messagesEach = 5;
const rounds = 3;
/** Of an account at 100 credits a minute, 2 a ticket. */
const betweenMs = 1200;
const million = 1_000_000;

export const scale: Section = {
  name: 'scale',
  title: 'Scale',
  about: [
    `Measured: ${tickets.toLocaleString('en-US')} tickets of ${messagesEach} messages of 3 KB, hydrated with history, metrics and the index of words; CPU of our process and`,
    'of all of PostgreSQL, and what is on disk afterwards. Modelled from that: accounts that ask for a ticket each 1.2 s (100 credits a',
    'minute), each as soon as its budget lets it and its last reply is stored, and processors that serve whoever came first. The processors',
    'needed are the fewest with which the accounts use 98 % of their budgets. Sizes are those of a message times their number.',
  ].join(' '),
  async run({ quick, figure }) {
    const count = quick ? tickets / 10 : tickets;
    using source = await startSource(fileURLToPath(new URL('../long-letters.ts', import.meta.url)), [String(count)]);
    const found = { node: [], postgres: [], wal: [], disk: [], indexes: [] } as Record<
      'node' | 'postgres' | 'wal' | 'disk' | 'indexes',
      number[]
    >;
    for (let round = 0; round < rounds; round++) {
      await using db = await openDatabase();
      await runOurs(db, source, ['sync', 'tickets']);
      const cost = await runOurs(db, source, ['sync', 'messages']);
      const { rows } = await db.pool.query<{ disk: number; indexes: number }>(
        `select sum(pg_total_relation_size(c.oid))::float8 as disk, sum(pg_indexes_size(c.oid))::float8 as indexes
         from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where n.nspname in ('helpdesk', 'analytics', 'sync') and c.relkind = 'r' and pg_table_size(c.oid) > 1000000`,
      );
      found.node.push((cost.node / count) * 1000);
      found.postgres.push((cost.postgres / count) * 1000);
      found.wal.push((cost.wal / count) * 1000);
      found.disk.push(rows[0]!.disk / count / messagesEach / 1000);
      found.indexes.push(rows[0]!.indexes / count / messagesEach / 1000);
    }
    figure({ what: 'the messages of a ticket: CPU of Node', unit: 'ms', rounds: found.node });
    figure({ what: 'the messages of a ticket: CPU of PostgreSQL', unit: 'ms', rounds: found.postgres });
    figure({ what: 'the messages of a ticket: WAL', unit: 'kB', rounds: found.wal });
    figure({ what: 'a message of 3 KB with all that hangs on it: disk', unit: 'kB', rounds: found.disk });
    figure({ what: 'a message of 3 KB with all that hangs on it: indexes', unit: 'kB', rounds: found.indexes });
    const [node, postgres] = [medianOf(found.node), medianOf(found.postgres)];
    for (const accounts of [250, 1000]) {
      const all = `${accounts.toLocaleString('en-US')} accounts at their full budget`;
      figure({ what: `${all}: processors for workers`, unit: '', rounds: [processorsFor(accounts, node)] });
      figure({ what: `${all}: processors for PostgreSQL`, unit: '', rounds: [processorsFor(accounts, postgres)] });
      const perDay = (accounts * 86_400_000) / betweenMs;
      figure({ what: `${all}: WAL of a day`, unit: 'GB', rounds: found.wal.map(kb => (kb * perDay) / million) });
      figure({ what: `${all}: messages of a day`, unit: 'million', rounds: [(perDay * messagesEach) / million] });
    }
    const sizes = (kb: readonly number[]) => kb.map(one => one * 100);
    figure({ what: '100 million messages of 3 KB: disk', unit: 'GB', rounds: sizes(found.disk) });
    figure({ what: '100 million messages of 3 KB: indexes', unit: 'GB', rounds: sizes(found.indexes) });
    const connections = connectionsOf(1000) + 1 + lookersMost;
    figure({ what: 'connections of ten workers to PostgreSQL, at most', unit: '', rounds: [10 * connections] });
    figure({
      what: 'workers that the default of 100 connections has room for',
      unit: '',
      rounds: [Math.floor(97 / connections)],
    });
  },
};

const enough = 0.98;

/** The fewest processors with which so many accounts use their budgets, where a ticket takes one of them so long. */
function processorsFor(accounts: number, serviceMs: number): number {
  for (let processors = 1; ; processors++) if (shareUsed(accounts, processors, serviceMs) >= enough) return processors;
}

/** Ten minutes, first come, first served. Asks are spread evenly at first. */
function shareUsed(accounts: number, processors: number, serviceMs: number): number {
  const untilMs = 600_000;
  const free = new Array<number>(processors).fill(0);
  /** When each account asks next, in order. */
  let asks = Array.from({ length: accounts }, (_, i) => (i / accounts) * betweenMs);
  let served = 0;
  while (asks[0]! < untilMs) {
    const next: number[] = [];
    for (const askedMs of asks) {
      const first = free.indexOf(Math.min(...free));
      const doneMs = Math.max(askedMs, free[first]!) + serviceMs;
      free[first] = doneMs;
      if (doneMs <= untilMs) served++;
      next.push(Math.max(askedMs + betweenMs, doneMs));
    }
    asks = next.sort((a, b) => a - b);
  }
  return served / ((accounts * untilMs) / betweenMs);
}
