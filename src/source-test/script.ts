/** What happens in a play, drawn from its seed. */

import type { Limit } from '../sources/service/limits.ts';
import type { Paginator } from '../sources/service/paginator.ts';
import type { Service } from '../sources/service/service.ts';
import { defineService } from '../sources/service/service.ts';
import type { Source } from '../sources/source.ts';
import type { Behaviour } from './behaviour.ts';
import type { Meaning } from './meaning.ts';
import type { Event, Phase, Script } from './play.ts';
import { phases } from './play.ts';
import { below, pick, type Rng, rngOf } from './rng.ts';
import type { Op } from './world.ts';

/** Pages of a play: small worlds fill them. A page of ten or fewer has a meaning of its own for the engine. */
const mostPerPage = 16;

/** A list that is read again from its first page would never end within fewer, and each wait costs a moment. */
const leastRequests: Readonly<Record<Limit['per'], number>> = { second: 1, minute: 30, hour: 200, day: 200 };

const wide = (limit: Limit): Limit => ({ ...limit, requests: Math.max(limit.requests, leastRequests[limit.per]) });

/** The same service with small pages, and with limits that let a play end. */
export function withSmallPages(service: Service<string>): Source {
  const small = (pages: Paginator): Paginator =>
    pages.type === 'single_page' ? pages : { ...pages, limit: Math.min(pages.limit, mostPerPage) };
  const streams = service.streams.map(stream => {
    const { paginator } = stream.options;
    return paginator
      ? ({ ...stream, options: { ...stream.options, paginator: small(paginator) } } as typeof stream)
      : stream;
  });
  return defineService({ ...service, paginator: small(service.paginator), limits: service.limits.map(wide), streams });
}

/** The moves of a kind of stream, the likely ones more than once. */
const movesOf: Readonly<Record<Meaning['stream']['kind'], readonly Op[]>> = {
  'full refresh': ['create', 'edit', 'delete'],
  incremental: ['create', 'edit', 'edit', 'edit', 'delete', 'silent', 'comment'],
  created: ['create', 'create', 'create', 'edit', 'delete'],
  feed: ['create'],
  details: [],
};

const faults = ['kill', 'refuse', 'reset', 'limit'] as const;

export function scriptOf(seed: number, meanings: readonly Meaning[], behaviour: Behaviour): Script {
  const rng = rngOf(seed);
  const sizes = meanings.flatMap(({ pages }) => (pages.type === 'single_page' ? [] : [pages.limit]));
  const perPage = Math.min(mostPerPage, ...sizes);
  const tie = Math.round(perPage * 1.3);
  const ages = meanings.some(({ stream }) => stream.kind === 'details' && stream.options.ageDays !== undefined);
  const events = meanings.flatMap(meaning => {
    const kinds = movesOf[meaning.stream.kind].filter(op => op !== 'comment' || hasDetails(meaning, meanings));
    const isFed = meaning.stream.kind === 'feed' && meaning.stream.options.deletes !== undefined;
    const moves = isFed || kinds.length === 0 ? [] : movesIn(rng, meaning, kinds, behaviour);
    const silent = ages && hasDetails(meaning, meanings) ? [eventOf(rng, meaning, 'recomment', 'sweep')] : [];
    return [...moves, ...silent, ...(behaviour.fails ? failuresIn(rng, meaning) : [])];
  });
  const records = Math.round(perPage * 2.6);
  return { seed, behaviour, records, tie, phases, events, streams: meanings.map(({ name }) => name) };
}

/** One list is read three times while others use the account as well, and the service asks for a pause. */
export function limitScriptOf(seed: number, meanings: readonly Meaning[], behaviour: Behaviour): Script {
  const lists = meanings.filter(({ stream }) => stream.kind !== 'details');
  const { name } = lists.find(({ stream }) => stream.kind !== 'feed') ?? lists[0]!;
  const event: Event = { phase: 'third', at: 1, stream: name, what: 'limit' };
  const records = Math.round(mostPerPage * 2.6);
  return { seed, behaviour, records, tie: 1, phases: ['first', 'second', 'third'], events: [event], streams: [name] };
}

const hasDetails = ({ name }: Meaning, all: readonly Meaning[]): boolean =>
  all.some(({ stream }) => stream.kind === 'details' && stream.options.parent === name);

function movesIn(rng: Rng, meaning: Meaning, kinds: readonly Op[], { ties, lateMs }: Behaviour): Event[] {
  const events: Event[] = [];
  const late = lateMs > 0 ? 0.4 : 0;
  const moving: [Phase, number][] = [
    ['first', 7],
    ['second', 5],
    ['third', 5],
    ['sweep', 4],
  ];
  for (const [phase, many] of moving)
    for (let n = 0; n < many; n++) {
      const op = pick(rng, kinds);
      events.push(eventOf(rng, meaning, op, phase, rng() < late));
    }
  // What is deleted while a whole list is read moves the records behind it.
  if (meaning.stream.kind === 'full refresh' && meaning.pages.type !== 'single_page')
    for (const phase of ['first', 'second'] as const)
      for (const at of [2, 3]) events.push({ ...eventOf(rng, meaning, 'delete', phase), at });
  if (lateMs > 0)
    for (const op of kinds.filter(one => one === 'create' || one === 'edit'))
      events.push({ ...eventOf(rng, meaning, op, 'second', true), at: 0 });
  if (ties && meaning.stream.kind !== 'full refresh' && meaning.stream.kind !== 'feed')
    events.push(eventOf(rng, meaning, 'many', 'second'));
  return events;
}

const eventOf = (rng: Rng, { name }: Meaning, op: Op, phase: Phase, late = false): Event => ({
  phase,
  at: late && rng() < 0.5 ? 0 : below(rng, 6),
  stream: name,
  what: { op, x: rng(), late },
});

const failuresIn = (rng: Rng, { name }: Meaning): Event[] =>
  (['first', 'second', 'sweep'] as const).flatMap(phase =>
    faults.flatMap(what => (rng() < 0.5 ? [{ phase, at: 1 + below(rng, 5), stream: name, what }] : [])),
  );
