/** What a declaration leaves open: how the service behaves within it, and what it may not do without losing records. */

import type { Tells } from '../sources/try/finding.ts';
import type { Meaning } from './meaning.ts';

/** How a service behaves. What is undefined is as the declaration means it. */
export interface Behaviour {
  /** Whether the start of a list includes its own time. */
  readonly inclusive: boolean;
  /** Times are stored in whole steps of this. */
  readonly grainMs: number;
  /** Many records change at once, more than a page shows. */
  readonly ties: boolean;
  /** Changes may be listed so late. */
  readonly lateMs: number;
  /** No page shows more; as a share of what the declaration asks for. */
  readonly cap?: number;
  /** A reply that is declared as the whole list is cut as well. */
  readonly cutsWhole?: boolean;
  /** `declared`: as the declaration means it, and nobody has to ask. */
  readonly order?: 'declared' | 'id' | 'created' | 'changed' | 'descending';
  readonly cursor?: 'place' | 'offset' | 'time';
  readonly since?: 'changed' | 'created' | 'ignored';
  /** A list begins so much earlier than it is asked for. */
  readonly slackMs?: number;
  /** The process that reads is killed, and requests fail. */
  readonly fails?: boolean;
  /** Others have used the longest limit up but for one request, and requests come quickly. */
  readonly shared?: boolean;
  /** How the service writes when a limit ends. Default: seconds, unless the header is named otherwise. */
  readonly writes?: 'date' | 'milliseconds' | 'time';
}

/** What a try has told of each stream. */
export type AllTold = Readonly<Record<string, Tells>>;

/** A behaviour with its name for people. */
interface Case {
  readonly says: string;
  readonly behaviour: Behaviour;
}

const plain: Behaviour = { inclusive: true, grainMs: 1, ties: false, lateMs: 0 };

/** No service that stamps a change before it commits it is more punctual. */
const leastLateMs = 5000;

/** How late a change may be listed by the declaration. */
const lateWithin = (lookbackMs: number): number => Math.max(leastLateMs, lookbackMs - 2000);

/** Behaviours that the declaration allows. */
export function allowedCases(lookbackMs: number): Case[] {
  const lateMs = lateWithin(lookbackMs);
  return [
    { says: 'changes between requests', behaviour: plain },
    { says: 'many changes in one second', behaviour: { ...plain, grainMs: 1000, ties: true, inclusive: false } },
    { says: 'changes that are listed late', behaviour: { ...plain, grainMs: 1000, lateMs } },
    { says: 'pages that are shorter than asked for', behaviour: { ...plain, ties: true, cap: 0.7 } },
    { says: 'failures and kills', behaviour: { ...plain, grainMs: 1000, fails: true, lateMs, inclusive: false } },
  ];
}

/** Others use the account as well: what the declaration says of its limits, and then how the service may write them otherwise. */
export function limitCases(headers: ReadonlyMap<string, string>): Case[] {
  const shared = { ...plain, shared: true };
  const [resets] = [...headers].find(([, tells]) => tells === 'resets') ?? [];
  const ends = resets === undefined ? [] : (['date', 'milliseconds', 'time'] as const);
  return [
    { says: 'others use the same limits', behaviour: shared },
    ...ends.map(writes => ({ says: `${resets} is ${written[writes]}`, behaviour: { ...shared, writes } })),
    ...(ends.length > 0 ? [] : [{ says: 'Retry-After is a date', behaviour: { ...shared, writes: 'date' } as const }]),
  ];
}
const written = { date: 'a date', milliseconds: 'in milliseconds', time: 'in seconds since 1970' } as const;

/** What the declaration of a stream rests on: a service that behaves otherwise may lose records. What was told is known. */
export function otherCases({ stream, pages, order }: Meaning, lookbackMs: number, told: Tells = {}): Case[] {
  const { kind } = stream;
  const isTimed = kind === 'incremental' || kind === 'created';
  if (kind === 'details') return [];
  const field = isTimed ? String(stream.options.cursor) : '';
  const cases: (Case & { readonly about: keyof Behaviour })[] = [];
  const add = (about: keyof Behaviour, says: string, change: Partial<Behaviour>) =>
    cases.push({ about, says, behaviour: { ...plain, grainMs: 1000, ...change } });
  if (kind === 'feed') {
    add('order', 'the ids of its events do not grow', { order: 'id' });
    const lateMs = lookbackMs + 30_000;
    add('lateMs', `an event is listed later than ${lookbackMs / 1000} s after its time`, { lateMs });
  } else if (isTimed) {
    const by = order.by === 'created' ? 'created' : 'changed';
    add('order', `the list is not in the order of ${field}, but of the ids`, { order: 'id' });
    add('order', 'the list shows the latest first', { order: 'descending' });
    if (by === 'changed') {
      add('order', 'the list is in the order of creation', { order: 'created' });
      add('since', `${stream.options.startParam} compares the time of creation`, { since: 'created' });
    }
    add('since', `the service ignores ${stream.options.startParam}`, { since: 'ignored' });
    const { startSlackSeconds: slack = 0 } = stream.options;
    if (slack > 0)
      add('slackMs', 'the list begins at the time that it is asked for', { slackMs: 0, ties: true, inclusive: false });
    else add('slackMs', 'the list begins a second before the time that it is asked for', { slackMs: 1000 });
    add('lateMs', `a change is listed later than ${lookbackMs / 1000} s`, { lateMs: lookbackMs + 30_000 });
  } else if (pages.type !== 'single_page') {
    add('order', 'the list is in the order of the last change', { order: 'changed' });
    add('order', 'the list shows the latest first', { order: 'descending' });
  }
  if (pages.type === 'single_page') add('cap', 'a reply shows the beginning of a long list only', { cutsWhole: true });
  if (pages.type === 'cursor') add('cursor', 'the cursor is a number of records', { cursor: 'offset' });
  return cases.filter(({ about }) => (told as Partial<Behaviour>)[about] === undefined);
}
