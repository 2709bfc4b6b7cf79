/** A model of many accounts and of many messages, from the measured cost of one: the figures of docs/explanation/scale.md. */
import { connectionsOf, lookersMost } from '../../../../src/engine/database/pool.ts';
import { hydrations, messagesEach, searches } from '../hydration.ts';
import { medianOf, type Section } from '../report.ts';

/** Of an account at 100 credits a minute, 2 a ticket. */
const betweenMs = 1200;
const million = 1_000_000;

export const scale: Section = {
  name: 'scale',
  title: 'Scale',
  about: [
    'A model, from the costs of a ticket with five messages of 3 KB that the section load-messages measures. Each account asks for a ticket',
    'every 1.2 s (100 credits a minute), as soon as its budget lets it and its last reply is stored; processors serve first come, first',
    'served. The processors needed are the fewest with which the accounts use 98 % of their budgets. Sizes are those of a message times their',
    'number.',
  ].join(' '),
  async run({ quick, figure }) {
    const measured = await hydrations(quick);
    for (const search of searches) {
      const found = measured[search];
      const each = (value: (one: (typeof found)[number]) => number) => found.map(one => value(one) / one.tickets);
      const [node, postgres] = [
        medianOf(each(({ first }) => first.node * 1000)),
        medianOf(each(({ first }) => first.postgres * 1000)),
      ];
      for (const accounts of [250, 1000]) {
        const all = `${accounts.toLocaleString('en-US')} accounts at their full budget, ${search}`;
        figure({ what: `${all}: processors for workers`, unit: '', rounds: [processorsFor(accounts, node)] });
        figure({ what: `${all}: processors for PostgreSQL`, unit: '', rounds: [processorsFor(accounts, postgres)] });
        const perDay = (accounts * 86_400_000) / betweenMs;
        figure({ what: `${all}: WAL of a day`, unit: 'GB', rounds: each(({ first }) => (first.wal * perDay) / 1000) });
      }
      // 100 million messages, a byte of each is 0.1 GB.
      const sizes = (value: (one: (typeof found)[number]) => number) => each(value).map(kb => kb / messagesEach / 10);
      figure({ what: `100 million messages of 3 KB, ${search}: disk`, unit: 'GB', rounds: sizes(({ disk }) => disk) });
      figure({
        what: `100 million messages of 3 KB, ${search}: indexes`,
        unit: 'GB',
        rounds: sizes(({ indexes }) => indexes),
      });
    }
    for (const accounts of [250, 1000]) {
      const perDay = (accounts * 86_400_000) / betweenMs;
      const what = `${accounts.toLocaleString('en-US')} accounts at their full budget: messages of a day`;
      figure({ what, unit: 'million', rounds: [(perDay * messagesEach) / million] });
    }
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
