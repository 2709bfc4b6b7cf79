/** Messages of 3 KB from HTTP to committed rows, with search off and on. */
import { hydrations, messagesEach, searches, tickets } from '../hydration.ts';
import { besidesRuns, type Cost } from '../load.ts';
import type { Section } from '../report.ts';

const most = {
  'search off': { cpu: { atMost: 3 }, wal: { atMost: 2 }, disk: { atMost: 2.2 } },
  'search on': { cpu: { atMost: 7 }, wal: { atMost: 7 }, disk: {} },
};

export const loadMessages: Section = {
  name: 'load-messages',
  title: 'Messages from HTTP to committed rows',
  about: [
    `\`shelfdesk sync messages\` reads ${tickets.toLocaleString('en-US')} tickets of ${messagesEach} messages of 3 KB, one after the other over HTTP at no limit, into tables that were never`,
    'analysed, with history, metrics and coverage; then all of them once more, unchanged. In each round one database has search off, as it',
    'is by default, and one has its indexes (`shelfdesk warehouse search on`) before the first message. CPU is that of the whole process and of all of',
    'PostgreSQL. The text is the sum of the bytes of all bodies. Disk is what the messages add to all tables with their indexes, from',
    `the end of \`sync tickets\` on. ${besidesRuns}`,
  ].join(' '),
  async run({ quick, figure, note }) {
    const found = await hydrations(quick);
    for (const search of searches) {
      const { cpu, wal, disk } = most[search];
      const of = (value: (one: (typeof found)[typeof search][number]) => number) => found[search].map(value);
      const ms = (seconds: number, { tickets: all }: { tickets: number }) => (seconds / all) * 1000;
      const both = ({ node, postgres }: Cost) => node + postgres;
      const headline = true;
      figure({ what: `${search}: CPU, a ticket`, unit: 'ms', rounds: of(o => ms(both(o.first), o)), ...cpu, headline });
      figure({ what: `${search}: of that Node`, unit: 'ms', rounds: of(o => ms(o.first.node, o)) });
      figure({
        what: `${search}: WAL, of the text`,
        unit: '×',
        rounds: of(o => (o.first.wal * 1e6) / o.text),
        ...{ ...wal, headline },
      });
      figure({ what: `${search}: disk, of the text`, unit: '×', rounds: of(o => o.disk / o.text), ...disk, headline });
      figure({ what: `${search}: of that indexes`, unit: '×', rounds: of(o => o.indexes / o.text) });
      figure({
        what: `${search}: first load`,
        unit: 'rows/s',
        rounds: of(o => (o.tickets * messagesEach) / o.first.seconds),
      });
      figure({ what: `${search}: memory of Node, at most`, unit: 'MB', rounds: of(o => o.first.memory) });
      figure({ what: `${search}, unchanged: CPU, a ticket`, unit: 'ms', rounds: of(o => ms(both(o.unchanged), o)) });
      figure({ what: `${search}, unchanged: of that Node`, unit: 'ms', rounds: of(o => ms(o.unchanged.node, o)) });
      figure({
        what: `${search}, unchanged: WAL, a ticket`,
        unit: 'kB',
        rounds: of(o => (o.unchanged.wal / o.tickets) * 1000),
      });
      figure({
        what: `${search}, unchanged: rows written, a ticket`,
        unit: 'rows',
        rounds: of(o => o.written / o.tickets),
      });
    }
    note('An unchanged ticket writes one row: its own, with the time as of which the messages were read.');
  },
};
