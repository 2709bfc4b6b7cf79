/** What a declaration leaves open: how the service behaves within it, and what it may not do without losing records. */

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
  readonly order?: 'id' | 'created' | 'changed' | 'descending';
  readonly cursor?: 'place' | 'offset' | 'time';
  readonly since?: 'changed' | 'created' | 'ignored';
  /** A list begins so much earlier than it is asked for. */
  readonly slackMs?: number;
  /** The process that reads is killed, and requests fail. */
  readonly fails?: boolean;
}

/** What the answers of a real service have told. */
export type Told = Partial<Omit<Behaviour, 'ties' | 'fails'>>;

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

/** Behaviours that the declaration allows. What was told holds in all of them. */
export function allowedCases(lookbackMs: number, told: Told): Case[] {
  const lateMs = told.lateMs ?? lateWithin(lookbackMs);
  const cases: Case[] = [
    { says: 'changes between requests', behaviour: plain },
    { says: 'many changes in one second', behaviour: { ...plain, grainMs: 1000, ties: true, inclusive: false } },
    { says: 'changes that are listed late', behaviour: { ...plain, grainMs: 1000, lateMs } },
    { says: 'pages that are shorter than asked for', behaviour: { ...plain, ties: true, cap: 0.7 } },
    { says: 'failures and kills', behaviour: { ...plain, grainMs: 1000, fails: true, lateMs, inclusive: false } },
  ];
  const held = Object.fromEntries(Object.entries(told).filter(([name]) => name !== 'lateMs'));
  return cases.map(one => ({ ...one, behaviour: { ...one.behaviour, ...held } }));
}

/** What the declaration of a stream rests on: a service that behaves otherwise may lose records. What was told is known. */
export function otherCases({ stream, pages, order }: Meaning, lookbackMs: number, told: Told): Case[] {
  const { kind } = stream;
  const isTimed = kind === 'incremental' || kind === 'created';
  if (kind === 'details') return [];
  const field = isTimed ? String(stream.options.cursor) : '';
  const cases: (Case & { readonly about: keyof Told })[] = [];
  const add = (about: keyof Told, says: string, change: Partial<Behaviour>) =>
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
  const cleared = cases.filter(({ about }) => told[about] === undefined);
  return cleared.map(({ says, behaviour }) => ({ says, behaviour: { ...behaviour, ...told } }));
}
