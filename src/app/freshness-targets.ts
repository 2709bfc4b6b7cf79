/**
 * Freshness targets of an account from its settings: the longest lag of each stream, and the longest duration of a
 * nightly run.
 */

import { longestPauseMs } from '../engine/queue/longest-pause.ts';
import type { Target } from '../engine/runs/freshness-targets.ts';
import { scheduleOf, streams } from '../sources/index.ts';
import type { Config } from './config.ts';
import { configuredSources } from './context.ts';

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

/**
 * Default targets assume the default schedule. If a stream is read less often, its default target grows accordingly; if
 * the schedule does not read the stream, it has no target. A target that was set stays as it is.
 */
export function promisesOf(config: Config): Target[] {
  const { targets, nightlyMs } = config.promises;
  const sources = configuredSources(config);
  const pauseMs = { fresh: longestPauseMs(config.schedule.fresh), nightly: longestPauseMs(config.schedule.nightly) };
  const found = streams
    .filter(({ source }) => sources.has(source))
    .flatMap(stream => {
      const target = targets[stream.key] ?? targets[stream.name];
      if (target === undefined) return [];
      const { ms, isSet } = target;
      const schedule = scheduleOf(stream);
      const usualMs = schedule.includes('fresh') ? minuteMs : dayMs;
      const reads = schedule.flatMap(name => pauseMs[name] ?? []);
      if (isSet) return [{ subject: stream.key, ms }];
      if (reads.length === 0) return [];
      return [{ subject: stream.key, ms: ms + Math.max(0, Math.min(...reads) - usualMs) }];
    });
  return [...found, ...(pauseMs.nightly === undefined ? [] : [{ subject: 'nightly', ms: nightlyMs }])];
}
