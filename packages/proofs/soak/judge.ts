/** What has to hold once nothing goes wrong any more, and the figures. */
import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import type { Commands } from './commands.ts';
import { patiently } from './servers.ts';
import type { House } from './troubles.ts';
import { differencesFrom, lostFrom, refusalsOf } from './truth.ts';

/** How many tickets wait for their messages. */
export const waiting = (db: pg.Pool): Promise<number> =>
  count(db, `select coalesce(sum(waiting), 0) as count from sync.status where stream = 'messages'`);

/** How many have been read with their messages. */
export const hydrated = (db: pg.Pool): Promise<number> =>
  count(db, 'select count(*) from helpdesk.tickets where _messages_as_of is not null');

async function count(db: pg.Pool, text: string): Promise<number> {
  const { rows } = await patiently(() => db.query<{ count: string }>(text));
  return Number(rows[0]!.count);
}

/** Runs that are not over, but for those of every few seconds, and those that give way to all others. */
async function openRuns(db: pg.Pool): Promise<string[]> {
  const { rows } = await db.query<{ run: string }>(
    `select kind || ' ' || id as run from sync.stored_runs where state = 'running' and kind not in ('fresh', 'audit') order by id`,
  );
  return rows.map(({ run }) => run);
}

/** Until nothing waits and no run is open; answers what is left when retryOutages is at its end. */
async function resting(db: pg.Pool, patienceMs: number): Promise<string | undefined> {
  for (const untilMs = performance.now() + patienceMs; ; ) {
    const [tickets, runs] = [await waiting(db), await openRuns(db)];
    if (tickets === 0 && runs.length === 0) return undefined;
    if (performance.now() > untilMs) return `after the peace ${tickets} tickets still wait; open: ${runs.join(', ')}`;
    await delay(200);
  }
}

/**
 * What had begun ends, and everything is read once more: the tops of the lists, what nothing announces by a sweep, and the
 * names of labels and inboxes, for which a week has to pass: it is made to have passed.
 */
export async function settle(house: House, commands: Commands, patienceMs: number): Promise<string[]> {
  const db = house.postgres.pool;
  while (commands.running) await delay(200);
  const restless = await resting(db, patienceMs);
  for (const table of ['labels', 'inboxes']) {
    await db.query(`update helpdesk.${table} set _observed_at = _observed_at - interval '8 days'`);
  }
  await commands.run('sync', '--json');
  // A sweep would bring back in silence what was lost.
  const lost = await lostFrom(house.sandbox, db);
  await commands.run('sweep', '--json');
  // Finds nothing, or ends with 5.
  await commands.run('verify', '--sample', '200', '--json');
  return [restless, ...lost, await resting(db, patienceMs)].filter(words => words !== undefined);
}

export interface Verdict {
  readonly wrong: string[];
  readonly figures: string[];
}

/** When the workers have left. */
export async function judge({ postgres, sandbox }: House): Promise<Verdict> {
  const db = postgres.pool;
  const different = await differencesFrom(sandbox, db);
  const refusals = await refusalsOf(sandbox);
  const open = await openRuns(db);
  const { rows: failed } = await db.query<{ words: string; outage: boolean }>(
    `select format('%s %s, %s, %s: %s', r.kind, s.run_id, s.stream, s.state, s.error) as words,
       coalesce(s.error like '%gave up after%', false) as outage
     from sync.stored_run_streams s join sync.stored_runs r on r.id = s.run_id
     -- Interrupted is what a command that begins to work, since all workers are dead, writes down of their runs.
     where s.state in ('failed', 'partial') order by s.run_id`,
  );
  const { rows: kinds } = await db.query<{ words: string }>(
    `select count(*) || ' ' || kind as words from sync.runs group by kind order by count(*) desc`,
  );
  const { rows: counts } = await db.query<{ words: string }>(
    `select (select count(*) from helpdesk.tickets where _deleted_at is null) || ' tickets with '
       || (select count(*) from helpdesk.messages where _deleted_at is null) || ' messages, '
       || (select count(*) from helpdesk.customers where _deleted_at is null) || ' customers; '
       || (select count(*) from helpdesk.tickets where _deleted_at is not null) || ' tombstones of tickets' as words`,
  );
  const { rows: audited } = await db.query<{ words: string }>(
    `select format('%s records read again by audits and verify, %s of them differed', count(*), count(differences)) as words
     from sync.audit`,
  );
  return {
    wrong: [
      ...different.slice(0, 10),
      ...(different.length > 10 ? [`… ${different.length} differences`] : []),
      ...(refusals.own > 0
        ? [`${refusals.own} requests refused for our own fault: ${JSON.stringify(refusals.first)}`]
        : []),
      ...open.map(run => `still open: ${run}`),
      ...failed.filter(({ outage }) => !outage).map(({ words }) => words),
    ],
    figures: [
      `runs: ${kinds.map(({ words }) => words).join(', ')}; left open: ${open.length}; not whole, for a help desk that was away: ${failed.filter(({ outage }) => outage).length}`,
      `${refusals.requests} requests, ${refusals.credits} credits, ${refusals.foreign} by others; refused: ${refusals.own} for our own fault, ${refusals.others} for others'`,
      `${counts[0]!.words}; differences: ${different.length}`,
      audited[0]!.words,
    ],
  };
}
