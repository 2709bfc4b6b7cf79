/**
 * Shows how far the runs of `start` are. At a terminal: progress lines of the oldest run, as `sync` has them. Elsewhere: a line of
 * the log every ten minutes, for each run that takes longer.
 */
import type { Ground } from '../../app/account.ts';
import type { Config } from '../../app/config.ts';
import type { Rounds } from '../../app/serve.ts';
import { systemClock } from '../../clock.ts';
import { isAway } from '../../errors.ts';
import { readRuns } from '../../status/runs.ts';
import { type Progress, showProgress } from '../output/progress.ts';
import { isTerminal } from '../output/voice.ts';
import { limitsOf, waitsIn } from './follow.ts';

const atTerminal = { lookMs: 1000, afterMs: 5000 };
const inLog = { lookMs: 60_000, afterMs: 600_000 };

/** `configs`: of the accounts that this process works for. */
export function showWork(
  { warehouse, log }: Pick<Ground, 'warehouse' | 'log'>,
  { members }: Pick<Rounds, 'members'>,
  configs: ReadonlyMap<string, Config>,
  clock = systemClock,
): AsyncDisposable {
  const ended = new AbortController();
  // `silent` and levels above hide lines for people too.
  const isShown = log.isLevelEnabled('info');
  const { lookMs, afterMs } = isTerminal() ? atTerminal : inLog;
  const shown = new Map<number, Progress>();

  async function look(): Promise<void> {
    const now = new Date(clock.now());
    // Without runs that are open only because of a pause.
    const runs = (await readRuns(warehouse.pg, { account: null, open: true }, now))
      .reverse()
      .filter(
        ({ account, state, started_at, streams }) =>
          configs.has(account) &&
          state === 'running' &&
          now.getTime() - started_at.getTime() > afterMs &&
          streams.some(one => one.state === 'running'),
      );
    // A terminal has room for one run.
    for (const { run, account } of isTerminal() ? runs.slice(0, shown.size === 0 ? 1 : 0) : runs) {
      const member = [...members].find(({ ctx }) => ctx.account === account);
      if (shown.has(run) || member === undefined) continue;
      const place = { limits: limitsOf(configs.get(account)!), waits: waitsIn(member.ctx) };
      const tell = (line: string) => log.info({ account, run }, `run ${run}: ${line.trim()}`);
      shown.set(run, showProgress(warehouse.pg, run, place, clock, { tell, everyMs: inLog.afterMs, isBegun: true }));
    }
    for (const [run, progress] of shown) {
      if (!(await progress.look())) continue;
      progress.end();
      shown.delete(run);
    }
  }

  const working = (async () => {
    while (isShown && !ended.signal.aborted) {
      try {
        await look();
      } catch (error) {
        // The wait for the database is reported elsewhere.
        if (!isAway(error)) log.debug({ err: error }, 'the progress of a run cannot be shown');
      }
      await clock.sleep(lookMs, ended.signal).catch(() => {});
    }
  })();
  return {
    async [Symbol.asyncDispose]() {
      ended.abort();
      await working;
      for (const progress of shown.values()) progress.end();
    },
  };
}
