/**
 * Actions of the page's buttons. A button sends one or two words; engine/runs/operations.ts performs the action, as it
 * does for commands.
 */

import type pg from 'pg';
import type { StreamKey } from '../../engine/database/stream-key.ts';
import { cancelRun, pause, resume, retryRun, runNow } from '../../engine/runs/operations.ts';
import { UsageError } from '../../errors.ts';

export interface By {
  readonly account: string;
  /** Role and address of the browser. */
  readonly who: string;
  /** Streams of the configured sources; undefined if unknown. */
  readonly streams: readonly StreamKey[] | undefined;
}

type Do = (db: pg.Pool, by: By, subject: string, now: Date) => Promise<string>;

const number = (subject: string): number => {
  if (/^\d{1,15}$/.test(subject)) return Number(subject);
  throw new UsageError(`'${subject}' is no number of a run`, 'Load the page again.');
};

const actions: Record<string, Do> = {
  run: async (db, { account, who, streams }, subject, now) => {
    if (subject !== 'sync' && subject !== 'sweep')
      throw new UsageError(`there is no run '${subject}'`, 'Load the page again.');
    const run = await runNow(db, { account, kind: subject, who, ...(streams && { streams }) }, now);
    return `Run ${run} was opened.`;
  },
  pause: async (db, { account, who }, subject, now) => {
    await pause(db, { account, who, stream: subject }, now);
    return `${subject === '' ? 'All of it' : subject} is paused.`;
  },
  resume: async (db, { account, who }, subject, now) => {
    await resume(db, { account, who, stream: subject }, now);
    return `${subject === '' ? 'It' : subject} resumes.`;
  },
  retry: async (db, { account, who }, subject, now) => {
    const run = await retryRun(db, { account, who, run: number(subject) }, now);
    return `Run ${run} tries again what was left of run ${subject}.`;
  },
  cancel: async (db, { account, who }, subject, now) => {
    await cancelRun(db, { account, who, run: number(subject) }, now);
    return `Run ${subject} was canceled.`;
  },
};

/** Parses `retry 12` into action and subject; undefined for an unknown action. */
export function actionOf(value: string): { action: string; subject: string } | undefined {
  const [action = '', subject = ''] = value.split(' ', 2);
  return Object.hasOwn(actions, action) ? { action, subject } : undefined;
}

/** Returns the result in one sentence. Throws UsageError if the action is not possible. */
export const doAction = (
  db: pg.Pool,
  by: By,
  { action, subject }: { action: string; subject: string },
  now: Date,
): Promise<string> => actions[action]!(db, by, subject, now);

/** Messages after an action without JavaScript, which returns to the page with a new request. */
export const saidOf: Readonly<Record<string, string>> = {
  run: 'A run was opened.',
  pause: 'It is paused.',
  resume: 'It resumes.',
  retry: 'A run tries it again.',
  cancel: 'The run was canceled.',
};
