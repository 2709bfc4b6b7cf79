/** Describes each kind of run for people: in `runs list`, `runs show`, the page of a run, docs/reference/runs.md. */
import type { RunKind } from './runs.ts';

export const runKinds: Readonly<Record<RunKind, { readonly opens: string; readonly does: string }>> = {
  sync: { opens: 'a command', does: 'reads what is new in all lists, then the pending messages and volumes' },
  fresh: {
    opens: 'the schedule, each minute; a worker',
    does: 'reads what is new in the lists of tickets and customers',
  },
  nightly: {
    opens: 'the schedule, each night',
    does: 'reads all lists, also those that fresh runs leave out, and opens a sweep of what is due',
  },
  hydrate: {
    opens: 'a worker, when records are pending',
    does: 'fetches pending messages and volumes by id, for ten minutes at most',
  },
  sweep: {
    opens: 'a worker, by day; the schedule; a command',
    does: 'reads records again to find deletions and silent changes, which no list of changes shows',
  },
  audit: {
    opens: 'a worker, each hour, while credits are left over',
    does: 'compares a random sample with the source and repairs what differs',
  },
  backfill: {
    opens: 'a command',
    does: 'fills the gaps of a range, reads the range again with --again, or one ticket by `sync --ticket`',
  },
  verify: { opens: 'a command', does: 'compares the mirror with the source: a sample, or everything' },
};
