/** The limits of a service as it keeps them: what it refuses, and the headers by which it tells of the longest one. */
import type { Dialect } from '../engine/http/dialect.ts';
import { type Limit, lengthMs, longestOf } from '../sources/service/limits.ts';
import type { Behaviour } from './behaviour.ts';
import { secondMs } from './world.ts';

/** What a header tells, by its name: only words that mean one thing. A name that fits what is declared is never held against it. */
const meanings = [
  [
    'resets',
    /reset|retry|expire|(seconds|secs|time|ms|millis)[-_]?(left|remaining)|(left|remaining)[-_]?(seconds|secs|time|ms)/i,
  ],
  ['remaining', /remain|left|avail|unused/i],
  ['used', /(?<![a-z])used|usage|consum/i],
  // `X-Rate-Limit` may be anything.
  ['allowed', /(?<!rate)[-_]limit$|max/i],
] as const;
type Meaning = (typeof meanings)[number][0];

const byName = (name: string, declared: Meaning | undefined): Meaning | undefined => {
  const fits = meanings.flatMap(([meaning, pattern]) => (pattern.test(name) ? [meaning] : []));
  return declared !== undefined && fits.includes(declared) ? declared : (fits[0] ?? declared);
};

/** Names of the headers that a declaration reads, in small letters, with what each of them tells. */
export function headersOf(limits: readonly Limit[], { rate }: Pick<Dialect, 'rate'>): Map<string, Meaning> {
  const asked = new Set<string>();
  rate(name => {
    asked.add(name);
    return '1';
  });
  const { remaining, resets } = longestOf(limits) ?? {};
  const declared: Readonly<Record<string, Meaning>> = {
    [`${remaining}`.toLowerCase()]: 'remaining',
    [`${resets}`.toLowerCase()]: 'resets',
  };
  return new Map(
    [...asked].flatMap(name => {
      const meaning = name === 'date' || name === 'retry-after' ? undefined : byName(name, declared[name]);
      return meaning === undefined ? [] : [[name, meaning] as const];
    }),
  );
}

/** A header that is named otherwise than it is read. */
export function misread(limits: readonly Limit[], headers: ReadonlyMap<string, Meaning>): string[] {
  const { remaining, resets } = longestOf(limits) ?? {};
  return Object.entries({ remaining, resets }).flatMap(([word, name]) => {
    const told = name === undefined ? undefined : headers.get(name.toLowerCase());
    return told === undefined || told === word ? [] : [`${name} is read as ${word}, and is by its name ${words[told]}`];
  });
}
const words: Readonly<Record<Meaning, string>> = {
  resets: 'when the limit ends',
  remaining: 'what is left',
  used: 'what is used',
  allowed: 'the whole limit',
};

interface Window {
  readonly ms: number;
  readonly requests: number;
  used: number;
  untilMs: number;
}

/** How long the first period lasts yet, if others have begun it. */
const firstMs = 90 * secondMs;
const pauseMs = 2 * secondMs;

export class Gate {
  refusals = 0;
  /** How long the mirror has waited after it could have gone on. */
  idleMs = 0;
  readonly #windows: readonly Window[];
  readonly #longest: Window | undefined;
  readonly #headers: ReadonlyMap<string, Meaning>;
  readonly #behaviour: Behaviour;
  #pausedMs = 0;
  #freeMs: number | undefined;

  constructor(limits: readonly Limit[], dialect: Dialect, behaviour: Behaviour, nowMs: number) {
    this.#headers = headersOf(limits, dialect);
    this.#behaviour = behaviour;
    const longest = longestOf(limits);
    this.#windows = limits.map(limit => {
      const [ms, { requests }] = [lengthMs[limit.per], limit];
      const isShared = behaviour.shared === true && limit === longest && this.#headers.size > 0;
      const endMs = limit.resets === 'midnight UTC' ? ms - (nowMs % ms) : Math.min(ms, isShared ? firstMs : ms);
      return { ms, requests, used: isShared ? requests - 1 : 0, untilMs: nowMs + endMs };
    });
    this.#longest = this.#windows[longest === undefined ? -1 : limits.indexOf(longest)];
  }

  /** The service asks for a pause, as it may at any time. */
  pause(nowMs: number): Record<string, string> {
    this.#pausedMs = nowMs + pauseMs;
    return this.#refused(this.#pausedMs, nowMs);
  }

  /** Headers of the reply, and whether it is a refusal. */
  pass(nowMs: number): { refused: boolean; headers: Record<string, string> } {
    for (const window of this.#windows) {
      if (nowMs < window.untilMs) continue;
      window.untilMs += (1 + Math.floor((nowMs - window.untilMs) / window.ms)) * window.ms;
      window.used = 0;
    }
    if (this.#freeMs !== undefined) this.idleMs = Math.max(this.idleMs, nowMs - this.#freeMs);
    this.#freeMs = undefined;
    const full = this.#windows.filter(({ used, requests }) => used >= requests).map(({ untilMs }) => untilMs);
    const untilMs = Math.max(this.#pausedMs, ...full);
    const refused = untilMs > nowMs;
    if (refused) this.refusals++;
    else for (const window of this.#windows) window.used++;
    const longest = this.#longest;
    if (longest !== undefined && longest.used >= longest.requests) this.#freeMs = longest.untilMs;
    return { refused, headers: refused ? this.#refused(untilMs, nowMs) : this.#told(nowMs) };
  }

  #refused(untilMs: number, nowMs: number): Record<string, string> {
    const seconds = Math.ceil((untilMs - nowMs) / secondMs);
    const after = this.#behaviour.writes === 'date' ? dateOf(nowMs + seconds * secondMs) : String(seconds);
    return { ...this.#told(nowMs), 'retry-after': after };
  }

  #told(nowMs: number): Record<string, string> {
    const longest = this.#longest;
    if (longest === undefined) return {};
    const { requests, used, untilMs } = longest;
    const values = { remaining: requests - used, used, allowed: requests } as const;
    return Object.fromEntries(
      [...this.#headers].map(([name, meaning]) => [
        name,
        meaning === 'resets' ? this.#resets(name, untilMs, nowMs) : String(values[meaning]),
      ]),
    );
  }

  #resets(name: string, untilMs: number, nowMs: number): string {
    const { writes = /ms$|milli/i.test(name) ? 'milliseconds' : 'seconds' } = this.#behaviour;
    if (writes === 'date') return dateOf(untilMs);
    if (writes === 'milliseconds') return String(untilMs - nowMs);
    return String(Math.ceil((writes === 'time' ? untilMs : untilMs - nowMs) / secondMs));
  }
}

const dateOf = (ms: number): string => new Date(Math.ceil(ms / secondMs) * secondMs).toUTCString();
