/** Customers with their contacts from HTTP to committed rows, against COPY of the same rows. */
import { openDatabase } from '../lab.ts';
import { besidesRuns, copyInto, forget, rowsWritten, runOurs, startSandbox } from '../load.ts';
import type { Section } from '../report.ts';

const tickets = 100_000;
const rounds = 3;
const tables = ['helpdesk.customers', 'helpdesk.contacts'];
export const loadCustomers: Section = {
  name: 'load-customers',
  title: 'Customers with contacts from HTTP to committed rows',
  about: [
    `The customers of ${tickets.toLocaleString('en-US')} tickets with their contacts, 100 a page, from the sandbox over HTTP at no limit by`,
    '`shelfdesk sync customers`, with coverage and changes, into tables that were never analysed; then once more with nothing changed,',
    'and with 1 % of them changed. Beside it in each round COPY of the same rows, from files, into the same tables with their indexes',
    `and without triggers. A row is a customer with the contacts. ${besidesRuns}`,
  ].join(' '),
  async run({ quick, figure }) {
    using source = await startSandbox(quick ? tickets / 10 : tickets);
    const rates = { first: [] as number[], copy: [] as number[], unchanged: [] as number[], changed: [] as number[] };
    const found = {
      node: [] as number[],
      memory: [] as number[],
      postgres: [] as number[],
      copying: [] as number[],
      written: [] as number[],
      wal: [] as number[],
    };
    for (let round = 0; round < rounds; round++) {
      await using db = await openDatabase();
      const first = await runOurs(db, source, ['sync', 'customers']);
      const { rows } = await db.pool.query<{ n: number }>('select count(*)::int as n from helpdesk.customers');
      const all = rows[0]!.n;
      const copy = await copyInto(db, tables);
      rates.first.push(all / first.seconds);
      rates.copy.push(all / copy.seconds);
      found.node.push((first.node / all) * 100_000);
      found.memory.push(first.memory);
      found.postgres.push((first.postgres / all) * 100_000);
      found.copying.push((copy.postgres / all) * 100_000);
      const written = await rowsWritten(db);
      await db.pool.query(forget);
      const same = await runOurs(db, source, ['sync', 'customers']);
      rates.unchanged.push(all / same.seconds);
      found.written.push((await rowsWritten(db)) - written);
      found.wal.push((same.wal / all) * 100_000);
      await db.pool.query(
        `update helpdesk.customers set first_name = 'before', _payload = _payload || '{"first_name": "before"}'
         where abs(hashtext(id)) % 100 = 0`,
      );
      await db.pool.query(forget);
      rates.changed.push(all / (await runOurs(db, source, ['sync', 'customers'])).seconds);
    }
    const ratio = (ours: readonly number[]) => ours.map((rate, i) => rate / rates.copy[i]!);
    figure({ what: 'first load', unit: 'rows/s', rounds: rates.first });
    figure({ what: 'COPY of the same rows', unit: 'rows/s', rounds: rates.copy });
    figure({ what: 'first load to COPY', unit: '×', rounds: ratio(rates.first), atLeast: 0.5 });
    figure({ what: 'first load: CPU of Node, 100,000 rows', unit: 's', rounds: found.node });
    figure({ what: 'first load: memory of Node, at most', unit: 'MB', rounds: found.memory });
    figure({ what: 'first load: CPU of PostgreSQL, 100,000 rows', unit: 's', rounds: found.postgres });
    figure({ what: 'COPY: CPU of PostgreSQL, 100,000 rows', unit: 's', rounds: found.copying });
    figure({ what: 'unchanged', unit: 'rows/s', rounds: rates.unchanged });
    figure({ what: 'unchanged to COPY', unit: '×', rounds: ratio(rates.unchanged) });
    figure({ what: 'unchanged: rows written', unit: 'rows', rounds: found.written, atMost: 0 });
    figure({ what: 'unchanged: WAL, 100,000 rows', unit: 'MB', rounds: found.wal });
    figure({ what: '1 % changed', unit: 'rows/s', rounds: rates.changed });
    figure({ what: '1 % changed to COPY', unit: '×', rounds: ratio(rates.changed) });
  },
};
