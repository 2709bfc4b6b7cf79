/**
 * Fault rules: which requests fail, after how many, how often, and how. Rules come as JSON, at the start or from the admin
 * port. Every admitted request is matched against all rules in order, and gets the faults of all that match (see
 * faults.ts). Refused requests (401, 403, 429) are not matched.
 */
import { z } from 'zod';
import type { SeenRequest } from '../http/request-reply.ts';
import { makeRng, type Rng } from '../random.ts';
import { type PlainFault, plainFault } from './faults.ts';

export type RuledService = 'helpdesk' | 'books' | 'token';

const SERVICES = ['helpdesk', 'books', 'token'] as const satisfies readonly RuledService[];

const count = (what: string, least: number) => {
  const error = `has to be ${what}: a whole number, ${least} or more`;
  return z.int({ error }).min(least, { error });
};
const method = z
  .string({ error: 'has to be a verb such as "POST", or a list of verbs' })
  .regex(/^[A-Z]+$/, { error: 'has to be a verb in capitals, such as "POST"' });

const faultRule = z.strictObject(
  {
    /** Name for replacing and removing the rule; default 'rule-1', 'rule-2' … */
    id: z.string({ error: 'has to be a name, as text' }).min(1, { error: 'has to be a name, or left out' }).optional(),
    /** Default: any. */
    service: z.enum(SERVICES, { error: `has to be one of ${SERVICES.join(', ')}` }).optional(),
    /** Method after X-HTTP-Method-Override; default: any. */
    method: method.or(z.array(method)).optional(),
    /** Path below the base address: `/tickets/*` (`*`: up to the next slash; `**`: anything). Default: any. */
    path: z
      .string({ error: 'has to be a path such as /tickets/*' })
      .regex(/^\//, { error: 'has to begin with a slash, as in /tickets/*' })
      .refine(path => !/^\/(api|books)\/v1/.test(path), {
        error: 'has to be what comes below the base address: /tickets, not /api/v1/tickets',
      })
      .optional(),
    /** Required value of each parameter, whole or as an item of its list; `*` matches anything; null: must be absent. */
    query: z
      .record(z.string(), z.string({ error: 'has to be text, or null for a parameter that is absent' }).nullable(), {
        error: 'has to be an object of parameters and their values',
      })
      .optional(),
    /** Number of matching requests that succeed first; default 0. */
    after: count('how many requests go well first', 0).optional(),
    /** After those, every nth request fails; default 1. */
    every: count('which of them goes wrong, each nth', 1).optional(),
    /** Largest number of failures; default: unlimited. */
    times: count('how often it happens at most', 1).optional(),
    /** Share of the remaining requests that fails; default 1. */
    share: z
      .number({ error: 'has to be a share: a number from 0 to 1' })
      .min(0, { error: 'has to be a share, 0 or more' })
      .max(1, { error: 'has to be a share, at most 1: 0.05 for five of a hundred' })
      .optional(),
    /** Seed of the random choice for `share`; default 1. */
    seed: z.int({ error: 'has to be a whole number' }).optional(),
    fault: plainFault,
  },
  { error: issue => (issue.code === 'unrecognized_keys' ? undefined : 'has to be an object, with at least a "fault"') },
);

export type FaultRule = z.infer<typeof faultRule>;

/** A rule, with the number of requests that it matched and that failed by it. */
export interface RuleState {
  rule: FaultRule & { id: string };
  matched: number;
  fired: number;
}

/** Invalid rules. Each problem names the place and the expected value. */
export class RuleError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`The fault rules cannot be used. ${problems.join('. ')}.`);
    this.problems = problems;
  }
}

interface Living extends RuleState {
  rng: Rng;
  path: RegExp | undefined;
}

export class Rules {
  #rules: Living[] = [];
  readonly #watchers: (() => void)[] = [];
  #named = 0;

  /** `rules`: a list of rules, as parsed from JSON. Throws a RuleError. */
  constructor(rules: unknown = []) {
    this.set(rules);
  }

  list(): RuleState[] {
    return this.#rules.map(({ rule, matched, fired }) => ({ rule, matched, fired }));
  }

  get(id: string): RuleState | undefined {
    return this.list().find(({ rule }) => rule.id === id);
  }

  /** Appends a rule. Throws a RuleError, also for an id in use. */
  add(rule: unknown): RuleState {
    const [made] = this.#read([rule], this.#rules);
    if (this.get(made!.id)) throw new RuleError([`id: there is a rule "${made!.id}" already; replace or remove it`]);
    this.#become([...this.#rules, live(made!)]);
    return this.list().at(-1)!;
  }

  /** Replaces the rule with this id and resets its counts, or appends the rule. Throws a RuleError. */
  replace(id: string, rule: unknown): RuleState {
    const named = typeof rule === 'object' && rule !== null && !Array.isArray(rule) ? { ...rule, id } : rule;
    const [made] = this.#read([named]);
    const at = this.#rules.findIndex(one => one.rule.id === id);
    this.#become(at < 0 ? [...this.#rules, live(made!)] : this.#rules.with(at, live(made!)));
    return this.get(id)!;
  }

  /** Replaces all rules. Throws a RuleError and changes nothing if one of them is invalid. */
  set(rules: unknown): void {
    if (!Array.isArray(rules)) throw new RuleError(['They have to be a list: [{"fault": {…}}, …]']);
    const made = this.#read(rules);
    const twice = made.find(({ id }, at) => made.findIndex(one => one.id === id) !== at);
    if (twice) throw new RuleError([`id: two rules are called "${twice.id}"; give each a name of its own`]);
    this.#become(made.map(live));
  }

  /** Returns whether the rule existed. */
  remove(id: string): boolean {
    const kept = this.#rules.filter(({ rule }) => rule.id !== id);
    const found = kept.length < this.#rules.length;
    if (found) this.#become(kept);
    return found;
  }

  clear(): void {
    this.#become([]);
  }

  /** Counts the request and returns its faults with the ids of their rules. */
  strike(service: RuledService, seen: SeenRequest): { id: string; fault: PlainFault }[] {
    const met = this.#rules.filter(one => isMeant(one, service, seen) && isDue(one));
    for (const one of met) one.fired++;
    return met.map(({ rule: { id, fault } }) => ({ id, fault }));
  }

  /** Longest lag of all rules for the service: how long it must keep before-images. */
  longestLag_ms(service: RuledService): number {
    const mine = this.#rules.filter(({ rule }) => rule.service === undefined || rule.service === service);
    return Math.max(0, ...mine.map(({ rule: { fault } }) => (fault.kind === 'lag' ? fault.seconds * 1000 : 0)));
  }

  /** Calls `watcher` now and after every change of the rules. */
  watch(watcher: () => void): void {
    this.#watchers.push(watcher);
    watcher();
  }

  #newName(taken: ReadonlySet<string | undefined>): string {
    let name: string;
    do name = `rule-${++this.#named}`;
    while (taken.has(name));
    return name;
  }

  #become(rules: Living[]): void {
    this.#rules = rules;
    for (const watcher of this.#watchers) watcher();
  }

  /** Validates rules and names the unnamed ones; `others` are the ids in use. */
  #read(rules: readonly unknown[], others: readonly RuleState[] = []): RuleState['rule'][] {
    const read = rules.map(rule => faultRule.safeParse(rule));
    const problems = read.flatMap(({ error }, at) =>
      (error?.issues ?? []).map(issue => problem(issue, rules.length > 1 ? `rule ${at + 1}, ` : '')),
    );
    if (problems.length > 0) throw new RuleError(problems);
    const taken = new Set([...others.map(({ rule }) => rule.id), ...read.map(({ data }) => data!.id)]);
    return read.map(({ data }) => ({ ...data!, id: data!.id ?? this.#newName(taken) }));
  }
}

function live(rule: RuleState['rule']): Living {
  return { rule, matched: 0, fired: 0, rng: makeRng(rule.seed ?? 1), path: rule.path ? pattern(rule.path) : undefined };
}

/** `*` matches up to the next slash, `**` matches anything. */
function pattern(text: string): RegExp {
  const source = text
    .split(/(\*\*|\*)/)
    .map(part => (part === '**' ? '.*' : part === '*' ? '[^/]*' : part.replaceAll(/[\\^$.|?+()[\]{}]/g, '\\$&')));
  return new RegExp(`^${source.join('')}$`, 's');
}

function isMeant({ rule, path }: Living, service: RuledService, seen: SeenRequest): boolean {
  if (rule.service !== undefined && rule.service !== service) return false;
  if (rule.method !== undefined && ![rule.method].flat().includes(seen.method)) return false;
  if (path && !path.test(seen.path)) return false;
  return Object.entries(rule.query ?? {}).every(([name, wanted]) => isAsked(seen.query.getAll(name), wanted));
}

function isAsked(values: readonly string[], wanted: string | null): boolean {
  if (wanted === null) return values.length === 0;
  const fits = pattern(wanted.replaceAll(/\*+/g, '**'));
  return values.some(value => fits.test(value) || value.split(',').some(part => fits.test(part.trim())));
}

/** Counts a matching request. Draws a random number only if all other conditions hold. */
function isDue(one: Living): boolean {
  const { after = 0, every = 1, times = Number.POSITIVE_INFINITY, share = 1 } = one.rule;
  const nth = ++one.matched - after;
  return nth > 0 && nth % every === 0 && one.fired < times && (share === 1 || one.rng() < share);
}

function problem(issue: z.core.$ZodIssue, which: string): string {
  const where = issue.path.length > 0 ? `${which}${issue.path.join('.')}: ` : which && `${which.slice(0, -2)}: `;
  if (issue.code !== 'unrecognized_keys') return where + issue.message;
  return `${where}there is no ${issue.keys.map(key => `"${key}"`).join(', ')}; is it misspelt, or of another kind of fault?`;
}
