/**
 * Power cuts, one after the other: `npm run power-cuts -- [--cuts 100] [--seed 1] [--each 20] [--tickets 500]`. A life of the
 * warehouse has 20 cuts and a seed of its own, which repeats it as well as real time can be repeated. Ends with 1 where anything
 * was wrong.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Life, live } from './life.ts';
import { startMachine } from './machine.ts';

const { values } = parseArgs({
  options: {
    cuts: { type: 'string', default: '100' },
    seed: { type: 'string', default: '1' },
    each: { type: 'string', default: '20' },
    tickets: { type: 'string', default: '500' },
    'writer-delay': { type: 'string', default: '200ms' },
  },
});
const [cuts, seed, each, tickets] = [values.cuts, values.seed, values.each, values.tickets].map(Number) as [
  number,
  number,
  number,
  number,
];

const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-power-cuts-'));
process.env.NODE_COMPILE_CACHE = join(folder, 'compiled');
const begunMs = performance.now();
const lives: Life[] = [];
let wrong = 0;
{
  await using machine = await startMachine({ wal_writer_delay: values['writer-delay'] });
  for (let done = 0, life = seed; done < cuts; done += each, life++) {
    const told = (one: Parameters<Parameters<typeof live>[0]['told']>[0]) => {
      const seconds = ((performance.now() - begunMs) / 1000).toFixed(0).padStart(4);
      console.log(
        `${seconds} s  cut ${done + one.cut} of ${cuts}, seed ${life}: workers ${one.died ? 'die' : 'live'}; lost ${one.lostTransactions} transactions, ${one.lostBytes} bytes, replies of ${one.lostCredits} credits${one.wrong.map(words => `\n  WRONG: ${words}`).join('')}`,
      );
    };
    const lived = await live({ machine, seed: life, cuts: Math.min(each, cuts - done), tickets, told });
    lives.push(lived);
    wrong += lived.wrong.length;
    console.log(
      `seed ${life}: ${lived.totals.requests} requests, ${lived.totals.refused} refused; repeated by cut (said): ${lived.cuts.map(({ repeated, said }) => `${repeated} (${said})`).join(', ')}`,
    );
    for (const words of lived.wrong) console.log(`WRONG with seed ${life}: ${words}`);
  }
}
rmSync(folder, { recursive: true, force: true });
const all = lives.flatMap(life => life.cuts);
const lossy = all.filter(({ lostTransactions }) => lostTransactions > 0);
const sum = (of: (one: (typeof all)[number]) => number) => all.reduce((total, one) => total + of(one), 0);
console.log(
  [
    `${all.length} cuts in ${Math.round((performance.now() - begunMs) / 1000)} s; ${all.filter(({ died }) => died).length} with the workers`,
    `${lossy.length} lost something that was committed: ${sum(one => one.lostTransactions)} transactions, at most ${Math.max(...all.map(one => one.lostTransactions))}`,
    `repeated requests: ${sum(one => one.repeated)}, at most ${Math.max(...all.map(one => one.repeated))} after a cut; at most ${Math.max(...all.map(one => one.said))} are said`,
    `refused: ${lives.reduce((total, life) => total + life.totals.refused, 0)} of ${lives.reduce((total, life) => total + life.totals.requests, 0)} requests`,
    wrong === 0 ? 'Nothing wrong.' : `${wrong} wrong.`,
  ].join('\n'),
);
// Where little is lost, nothing is shown.
const showsLoss = lossy.length * 2 > all.length;
if (!showsLoss) console.log('Fewer than half of the cuts lost anything: this run shows nothing.');
process.exit(wrong === 0 && showsLoss ? 0 : 1);
