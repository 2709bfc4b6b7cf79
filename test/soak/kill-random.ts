/**
 * Three workers, kill -9 of a random one every three seconds for two minutes, a world that changes: do the tables end
 * equal, is nothing refused, and what was paid for twice? Figures beside their limits; ends with 1 where one is missed.
 *
 *   node test/soak/kill-random.ts [seed] [tickets] [seconds]
 *
 * REDIS_URL puts the queue there.
 */

import { openDatabase, secondsOf } from '../../bench/lab.ts';
import { killWorkers } from '../support/killing.ts';
import type { Again } from '../support/workers.ts';

const [seed, tickets, seconds] = [1, 6000, 120].map((usual, i) => Number(process.argv[2 + i] ?? usual));
const { REDIS_URL } = process.env;

await using database = await openDatabase();
const found = await killWorkers({
  database,
  env: REDIS_URL === undefined ? {} : { REDIS_URL },
  tickets: tickets!,
  // 60 times the real ones.
  limits: { credits: 6000, requestsPerSecond: 360 },
  reserve: 600,
  changesPerMinute: 60,
  everyMs: 3000,
  forMs: seconds! * 1000,
  seed: seed!,
  pageMs: 300,
  patienceMs: 300_000,
});
const { kills, again, totals } = found;
console.log(`queue in ${REDIS_URL ? 'Redis' : 'PostgreSQL'}, seed ${seed}, ${tickets} tickets, ${kills.length} kills`);
console.log(`${totals.requests} requests, ${totals.credits} credits; 429: ${totals.refused} (limit 0)`);
console.log(`differences from the sandbox: ${found.differences.length} (limit 0)`, found.differences.slice(0, 10));
console.log(`waited for their messages when the killing ended: ${found.waitingAfterKills} tickets`);
console.log(
  `equal ${secondsOf(found.finishedAfterMs)} s after it; longest time without a ticket: ${secondsOf(found.longestPauseMs)} s`,
);
console.log('asked again although nothing had changed');
console.table(Object.fromEntries([...Map.groupBy(again, ({ kind }) => kind)].map(([kind, all]) => [kind, tell(all)])));
const paidTwice = again.filter(({ kind }) => kind === 'ticket' || kind === 'unripe ticket' || kind === 'page').length;
console.log(`paid twice for each kill: ${(paidTwice / kills.length).toFixed(3)} (limit 1)`);
console.log(`exit codes of the workers on SIGTERM: ${found.codes} (0); runs left open: ${found.open.length}`);
console.log(`failed streams: ${found.failed.length}`, found.failed.slice(0, 5));
for (const one of again.filter(({ afterKill }) => !afterKill).slice(0, 10)) console.log('without a kill:', one);
const missed = totals.refused > 0 || found.differences.length > 0 || paidTwice > kills.length;
process.exitCode = missed ? 1 : 0;

function tell(all: readonly Again[]) {
  const afterKill = all.filter(one => one.afterKill).length;
  return {
    all: all.length,
    'after a kill': afterKill,
    'for each kill': Number((all.length / kills.length).toFixed(3)),
  };
}
