/** Messages of 3 KB from HTTP to committed rows, against COPY of the same rows. */
import { fileURLToPath } from 'node:url';
import { openDatabase } from '../lab.ts';
import { copyInto, deadIn, runOurs, startSource } from '../load.ts';
import type { Section } from '../report.ts';

const tickets = 2000;
const messagesEach = 5;
const rounds = 3;
const tables = ['helpdesk.messages', 'helpdesk.attachments'];
const again = ['backfill', 'messages', '--again', '--since', '2025-01-01', '--until', '2028-01-01'];

export const loadMessages: Section = {
  name: 'load-messages',
  title: 'Messages from HTTP to committed rows',
  about: [
    `${tickets.toLocaleString('en-US')} tickets of ${messagesEach} messages of 3 KB, read one ticket after the other over HTTP at no limit by`,
    '`shelfdesk sync messages`, with history, coverage and metrics, into tables that were never analysed; then once more with nothing',
    'changed, and with 1 % of the messages changed. Beside it in each round COPY of the same rows, from files, into the same tables',
    'with their indexes (the one of all words takes most of the time) and without triggers.',
  ].join(' '),
  async run({ quick, figure, note }) {
    const count = quick ? tickets / 10 : tickets;
    const all = count * messagesEach;
    using source = await startSource(fileURLToPath(new URL('../long-letters.ts', import.meta.url)), [String(count)]);
    const found = {
      rate: [] as number[],
      copied: [] as number[],
      node: [] as number[],
      memory: [] as number[],
      postgres: [] as number[],
      copying: [] as number[],
    };
    const unchanged = { rate: [] as number[], ticket: [] as number[], dead: [] as number[], wal: [] as number[] };
    const changed = { rate: [] as number[] };
    for (let round = 0; round < rounds; round++) {
      await using db = await openDatabase();
      await runOurs(db, source, ['sync', 'tickets']);
      const first = await runOurs(db, source, ['sync', 'messages']);
      const copy = await copyInto(db, tables);
      found.rate.push(all / first.seconds);
      found.copied.push(all / copy.seconds);
      found.node.push((first.node / all) * 100_000);
      found.memory.push(first.memory);
      found.postgres.push((first.postgres / all) * 100_000);
      found.copying.push((copy.postgres / all) * 100_000);
      const dead = await deadIn(db, tables);
      const same = await runOurs(db, source, again);
      unchanged.rate.push(all / same.seconds);
      unchanged.ticket.push((same.postgres / count) * 1000);
      unchanged.dead.push((await deadIn(db, tables)) - dead);
      unchanged.wal.push((same.wal / all) * 100_000);
      await db.pool.query(
        `update helpdesk.messages set body = 'as it was before', body_text = 'as it was before' where id ~ '[05]0-1$'`,
      );
      changed.rate.push(all / (await runOurs(db, source, again)).seconds);
    }
    const ratio = (rates: readonly number[]) => rates.map((rate, i) => rate / found.copied[i]!);
    figure({ what: 'first load', unit: 'rows/s', rounds: found.rate });
    figure({ what: 'COPY of the same rows', unit: 'rows/s', rounds: found.copied });
    figure({ what: 'first load to COPY', unit: '×', rounds: ratio(found.rate), atLeast: 0.6 });
    figure({ what: 'first load: CPU of Node, 100,000 rows', unit: 's', rounds: found.node });
    figure({ what: 'first load: memory of Node, at most', unit: 'MB', rounds: found.memory });
    figure({ what: 'first load: CPU of PostgreSQL, 100,000 rows', unit: 's', rounds: found.postgres });
    figure({ what: 'COPY: CPU of PostgreSQL, 100,000 rows', unit: 's', rounds: found.copying });
    figure({ what: 'unchanged', unit: 'rows/s', rounds: unchanged.rate });
    figure({ what: 'unchanged to COPY', unit: '×', rounds: ratio(unchanged.rate) });
    figure({ what: 'unchanged: CPU of PostgreSQL, a ticket', unit: 'ms', rounds: unchanged.ticket, atMost: 5 });
    figure({ what: 'unchanged: rows written over or removed', unit: 'rows', rounds: unchanged.dead, atMost: 0 });
    figure({ what: 'unchanged: WAL, 100,000 rows', unit: 'MB', rounds: unchanged.wal });
    figure({ what: '1 % changed', unit: 'rows/s', rounds: changed.rate });
    figure({ what: '1 % changed to COPY', unit: '×', rounds: ratio(changed.rate) });
    note('What an unchanged ticket writes is the time as of which its messages were read: a row of helpdesk.tickets.');
  },
};
