/** What is pressed on the page: a word or two of the button, done as warehouse/operations.ts does it for commands too. */

import type pg from 'pg';
import type { StreamKey } from '../../engine/database/stream-key.ts';
import { cancelRun, pause, resume, retryRun, runNow } from '../../engine/runs/operations.ts';
import { UsageError } from '../../errors.ts';

export interface By {
  readonly account: string;
  /** The role and the address of a browser. */
  readonly who: string;
  /** Those that are configured; undefined where that is not known. */
  readonly streams: readonly StreamKey[] | undefined;
}

type Do = (db: pg.Pool, by: By, subject: string, now: Date) => Promise<string>;

const number = (subject: string): number => {
  if (/^\d{1,15}$/.test(subject)) return Number(subject);
  throw new UsageError(`'${subject}' is no number of a run`, 'Load the page again.');
};

const deeds: Record<string, Do> = {
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
    return `${subject === '' ? 'It' : subject} goes on.`;
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

/** `retry 12` → its action and subject; undefined if there is no such action. */
export function deedOf(value: string): { action: string; subject: string } | undefined {
  const [action = '', subject = ''] = value.split(' ', 2);
  return Object.hasOwn(deeds, action) ? { action, subject } : undefined;
}

/** Answers what came of it, in a sentence. Throws UsageError where it cannot be done. */
export const doDeed = (
  db: pg.Pool,
  by: By,
  { action, subject }: { action: string; subject: string },
  now: Date,
): Promise<string> => deeds[action]!(db, by, subject, now);

/** What is said after a deed by a form without a script, which comes back to the page by a new request. */
export const saidOf: Readonly<Record<string, string>> = {
  run: 'A run was opened.',
  pause: 'It is paused.',
  resume: 'It goes on.',
  retry: 'A run tries it again.',
  cancel: 'The run was canceled.',
};
