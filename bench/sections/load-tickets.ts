/** Tickets from HTTP to committed rows, against COPY of the same rows. */
import { openDatabase } from '../lab.ts';
import { copyInto, deadIn, forget, runOurs, startSandbox } from '../load.ts';
import type { Section } from '../report.ts';

const tickets = 100_000;
const rounds = 3;
const tables = ['helpdesk.tickets'];
const load = ['sync', 'tickets'];

export const loadTickets: Section = {
  name: 'load-tickets',
  title: 'Tickets from HTTP to committed rows',
  about: [
    `${tickets.toLocaleString('en-US')} tickets from the sandbox over HTTP at no limit by \`shelfdesk sync tickets\`, into tables that were never`,
    'analysed: with history, labels, coverage and metrics; then once more with nothing changed, and with 1 % of them changed; and in another',
    'database a first load without the triggers that write history and metrics. Beside it in each round COPY of the same rows, from a',
    'file, into the same table with all its indexes (one of them of the trigrams of subjects) and without triggers. Seconds are those from',
    'the moment that the stream is taken up to its end. Everything shares the cores that there are: the sandbox, Node and PostgreSQL.',
  ].join(' '),
  async run({ quick, figure }) {
    const count = quick ? tickets / 10 : tickets;
    using source = await startSandbox(count);
    const costs = { whole: [], bare: [], copy: [], unchanged: [], changed: [] } as Record<
      'whole' | 'bare' | 'copy' | 'unchanged' | 'changed',
      Awaited<ReturnType<typeof runOurs>>[]
    >;
    const dead: number[] = [];
    // The sandbox makes a ticket when it is first asked for.
    await using warm = await openDatabase();
    await runOurs(warm, source, load);
    for (let round = 0; round < rounds; round++) {
      await using db = await openDatabase();
      costs.whole.push(await runOurs(db, source, load));
      costs.copy.push(await copyInto(db, tables));
      const before = await deadIn(db, tables);
      await db.pool.query(forget);
      costs.unchanged.push(await runOurs(db, source, load));
      dead.push((await deadIn(db, tables)) - before);
      await db.pool.query(
        `update helpdesk.tickets set subject = 'as it was before', _payload = _payload || '{"subject": "as it was before"}',
           updated_at = updated_at - interval '1 day'
         where abs(hashtext(id)) % 100 = 0`,
      );
      await db.pool.query(forget);
      costs.changed.push(await runOurs(db, source, load));

      await using other = await openDatabase();
      await other.pool.query('alter table helpdesk.tickets disable trigger user');
      costs.bare.push(await runOurs(other, source, load));
    }
    const rates = (of: keyof typeof costs) => costs[of].map(({ seconds }) => count / seconds);
    const ratio = (of: keyof typeof costs) => costs[of].map(({ seconds }, i) => costs.copy[i]!.seconds / seconds);
    const each = (of: keyof typeof costs, what: 'node' | 'postgres' | 'wal') =>
      costs[of].map(cost => (cost[what] / count) * 100_000);
    figure({ what: 'COPY of the same rows', unit: 'rows/s', rounds: rates('copy') });
    figure({ what: 'first load', unit: 'rows/s', rounds: rates('whole'), headline: true });
    figure({ what: 'first load to COPY', unit: '×', rounds: ratio('whole'), atLeast: 0.6, headline: true });
    figure({ what: 'first load without triggers to COPY', unit: '×', rounds: ratio('bare'), atLeast: 0.8 });
    figure({ what: 'unchanged', unit: 'rows/s', rounds: rates('unchanged'), headline: true });
    figure({ what: 'unchanged to COPY', unit: '×', rounds: ratio('unchanged'), atLeast: 1.2, headline: true });
    figure({ what: '1 % changed to COPY', unit: '×', rounds: ratio('changed') });
    figure({ what: 'unchanged: rows written over or removed', unit: 'rows', rounds: dead, atMost: 0 });
    figure({ what: 'unchanged: WAL, 100,000 rows', unit: 'MB', rounds: each('unchanged', 'wal'), atMost: 1 });
    for (const [of, what] of [
      ['whole', 'first load'],
      ['bare', 'first load without triggers'],
      ['unchanged', 'unchanged'],
    ] as const) {
      figure({ what: `${what}: CPU of Node, 100,000 rows`, unit: 's', rounds: each(of, 'node') });
      figure({ what: `${what}: CPU of PostgreSQL, 100,000 rows`, unit: 's', rounds: each(of, 'postgres') });
    }
    figure({
      what: 'first load: memory of Node, at most',
      unit: 'MB',
      rounds: costs.whole.map(({ memory }) => memory),
    });
    figure({ what: 'COPY: CPU of PostgreSQL, 100,000 rows', unit: 's', rounds: each('copy', 'postgres') });
    figure({ what: 'first load: WAL, 100,000 rows', unit: 'MB', rounds: each('whole', 'wal') });
    figure({ what: 'COPY: WAL, 100,000 rows', unit: 'MB', rounds: each('copy', 'wal') });
  },
};
