/**
 * The endpoints of the admin port: one row each, listed by --help and `GET /`. They never show credentials. JSON keys
 * are those of the services.
 */
import { setImmediate as othersTurn } from 'node:timers/promises';
import { RuleError, type RuleState, type Rules } from '../admission/rules.ts';
import type { BooksService } from '../books/service.ts';
import type { Service } from '../helpdesk/service.ts';
import { whole } from '../http/query.ts';
import { Refusal } from '../http/refusal.ts';
import type { SeenRequest } from '../http/request-reply.ts';
import { statusOf } from '../page/status.ts';
import { makeRng, type Rng } from '../random.ts';
import { snapshotOf } from './snapshot.ts';
import { countTruths, isTruth, linesOf, TRUTHS, type Worlds } from './truth.ts';

/** The services, and the state that endpoints read and change. */
export interface Administered {
  helpdesk: Service;
  books: BooksService;
  rules: Rules;
  /** Runs overdue changes of both worlds in slices; the caller yields to the event loop after each slice. */
  catchingUp(): Iterator<void> & Iterable<void>;
  /** Random source of `POST /changes`. */
  rng: Rng;
  /** Keeps a snapshot for `reset`. */
  keep(lines: string): void;
  /** Both services as they were at the kept snapshot, or at the start: records, limits, logs, fault rules. */
  reset(): void;
  /** Port number once the admin port listens. */
  adminPort?: number;
}

interface AdminCall extends Administered {
  names: Record<string, string>;
  query: URLSearchParams;
  /** Parsed JSON; undefined without a body. */
  body: unknown;
}

export interface AdminAnswer {
  /** Default 200. */
  status?: number;
  headers?: Record<string, string>;
  /** Sent as JSON. */
  body?: unknown;
  /** Instead of `body`: pieces of JSON Lines text. */
  lines?: Iterable<string>;
}

interface AdminEndpoint {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  path: string;
  says: string;
  /** Example of the JSON body; absent if the endpoint takes none. */
  takes?: string;
  answer(call: AdminCall): AdminAnswer | Promise<AdminAnswer>;
}

export const ADMIN_ENDPOINTS: readonly AdminEndpoint[] = [
  { method: 'GET', path: '/', says: 'this list', answer: listEndpoints },
  { method: 'GET', path: '/status', says: 'settings, budgets, counts and clients of both services', answer: status },
  {
    method: 'GET',
    path: '/clients',
    says: 'credits (catalog: requests of the day) and refusals per client, and which refusals were its own fault',
    answer: ({ helpdesk, books }) => ({ body: { helpdesk: usesOf(helpdesk), books: usesOf(books) } }),
  },
  {
    method: 'GET',
    path: '/refusals',
    says: 'last refusals of either service (?last=100, at most 10,000), with fault and reason',
    answer: call => ({ body: { helpdesk: refusalsOf(call.helpdesk, call), books: refusalsOf(call.books, call) } }),
  },
  {
    method: 'GET',
    path: '/requests',
    says: 'last requests of either service (?last=100, at most 10,000)',
    answer: call => ({ body: { helpdesk: requestsOf(call.helpdesk, call), books: requestsOf(call.books, call) } }),
  },
  {
    method: 'GET',
    path: '/faults',
    says: 'fault rules, and how many requests each one matched and changed',
    answer: ({ rules }) => ({ body: rules.list() }),
  },
  {
    method: 'POST',
    path: '/faults',
    says: 'appends a rule',
    takes: '{"path": "/tickets", "after": 3, "times": 2, "fault": {"kind": "status", "status": 503}}',
    answer: addRule,
  },
  {
    method: 'PUT',
    path: '/faults',
    says: 'replaces all rules',
    takes: '[{"path": "/tickets", "fault": {"kind": "delay", "ms": 500}}]',
    answer: setRules,
  },
  { method: 'DELETE', path: '/faults', says: 'removes all rules', answer: clearRules },
  { method: 'GET', path: '/faults/:id', says: 'one rule', answer: call => ({ body: ruleOf(call) }) },
  {
    method: 'PUT',
    path: '/faults/:id',
    says: 'replaces the rule with this id and resets its counts, or appends the rule',
    takes: '{"path": "/users", "fault": {"kind": "truncate"}}',
    answer: ({ rules, names, body }) => ({ body: rules.replace(names.id!, body) }),
  },
  { method: 'DELETE', path: '/faults/:id', says: 'removes one rule', answer: removeRule },
  {
    method: 'GET',
    path: '/truth/counts',
    says: 'number of records of each kind',
    answer: call => ({ body: countTruths(worldsOf(call)) }),
  },
  {
    method: 'GET',
    path: '/truth/:kind',
    says: `all records of a kind as JSON Lines: ${Object.keys(TRUTHS).join(', ')}`,
    answer: truth,
  },
  {
    method: 'GET',
    path: '/snapshot',
    says: 'all records of both services as JSON Lines, for --world',
    answer: call => ({ lines: linesOf(snapshotOf(worldsOf(call))) }),
  },
  {
    method: 'POST',
    path: '/snapshot',
    says: 'keeps all records in memory for /reset, and counts them',
    answer: keepSnapshot,
  },
  {
    method: 'POST',
    path: '/reset',
    says: 'takes both services back to the kept snapshot, or to the start: records, limits, logs, clocks and fault rules',
    answer: reset,
  },
  {
    method: 'POST',
    path: '/clock',
    says: 'makes the clock of both services, or of one, jump, or only that of the header Date; snoozes and unused uploads follow this clock, limits do not',
    takes: '{"seconds": -30, "service": "helpdesk", "only": "date"}',
    answer: jump,
  },
  {
    method: 'POST',
    path: '/credits',
    says: 'lets another client use credits of the help desk, or requests of the day of the catalog',
    takes: '{"credits": 40, "service": "helpdesk"}',
    answer: useCredits,
  },
  {
    method: 'POST',
    path: '/changes',
    says: 'makes up to 10,000 random changes in the help desk or the catalog',
    takes: '{"count": 100, "service": "helpdesk"}',
    answer: change,
  },
  {
    method: 'POST',
    path: '/bulk',
    says: 'closes up to 100,000 tickets within one second and returns their ids; adds the label `label_id` if given',
    takes: '{"count": 5000}',
    answer: actInBulk,
  },
  { method: 'POST', path: '/books/day', says: 'begins a new quota day of the catalog', answer: newDay },
  {
    method: 'POST',
    path: '/books/tokens/expire',
    says: 'expires every access token that was issued for the refresh token',
    answer: expireTokens,
  },
];

function listEndpoints(): AdminAnswer {
  return {
    body: ADMIN_ENDPOINTS.map(({ method, path, says, takes }) => ({ method, path, says, ...(takes && { takes }) })),
  };
}

function status(call: AdminCall): AdminAnswer {
  return { body: statusOf(call) };
}

// --- clients, requests, refusals ---------------------------------------------------------------------------------------------------------

type Asked = Pick<Service | BooksService, 'clients' | 'totals'> & { readonly requests: readonly SeenRequest[] };

function usesOf({ clients, totals }: Asked) {
  const uses = clients.uses().map(({ first_at, last_at, ...use }) => ({
    ...use,
    first_at: written(first_at),
    last_at: written(last_at),
  }));
  return { totals, foreign: clients.foreign, clients: uses };
}

function refusalsOf({ clients }: Asked, { query }: AdminCall) {
  return lastOf(clients.refusals, query).map(refusal => ({ ...refusal, at: written(refusal.at) }));
}

function requestsOf({ requests }: Asked, { query }: AdminCall) {
  return lastOf(requests, query).map(({ at, query, ...seen }) => ({
    at: written(at),
    ...seen,
    query: withoutCredentials(query),
  }));
}

function lastOf<T>(all: readonly T[], query: URLSearchParams): T[] {
  const last = whole(query, 'last', 0, 10_000, 100);
  return last === 0 ? [] : all.slice(-last);
}

const CREDENTIALS = ['key', 'access_token', 'oauth_token'];

function withoutCredentials(query: URLSearchParams): string {
  const shown = [...query].map(([name, value]) => [name, CREDENTIALS.includes(name) ? 'hidden' : value]);
  return new URLSearchParams(shown as [string, string][]).toString();
}

const written = (ms: number) => new Date(ms).toISOString();

// --- fault rules -----------------------------------------------------------------------------------------------------

function addRule({ rules, body }: AdminCall): AdminAnswer {
  const added = rules.add(body);
  return {
    status: 201,
    headers: { Location: `/faults/${encodeURIComponent(added.rule.id.toWellFormed())}` },
    body: added,
  };
}

function setRules({ rules, body }: AdminCall): AdminAnswer {
  rules.set(body);
  return { body: rules.list() };
}

function clearRules({ rules }: AdminCall): AdminAnswer {
  rules.clear();
  return { status: 204 };
}

function ruleOf({ rules, names }: AdminCall): RuleState {
  const rule = rules.get(names.id!);
  if (rule === undefined) throw new Refusal(404, `There is no rule ${names.id}`);
  return rule;
}

function removeRule(call: AdminCall): AdminAnswer {
  call.rules.remove(ruleOf(call).rule.id);
  return { status: 204 };
}

/** The error as a refusal of the admin port; undefined for a bug of the sandbox. */
export function refusalOf(error: unknown): Refusal | undefined {
  if (error instanceof RuleError) return new Refusal(422, error.message, [...error.problems]);
  return error instanceof Refusal ? error : undefined;
}

// --- records -------------------------------------------------------------------------------------------------------

function worldsOf({ helpdesk, books }: AdminCall): Worlds {
  return { helpdesk: helpdesk.world, books: books.world };
}

function truth(call: AdminCall): AdminAnswer {
  const { kind = '' } = call.names;
  if (!isTruth(kind)) throw new Refusal(404, `Unknown kind ${kind}; known kinds: ${Object.keys(TRUTHS).join(', ')}`);
  return { lines: linesOf(TRUTHS[kind](worldsOf(call))) };
}

function keepSnapshot(call: AdminCall): AdminAnswer {
  const worlds = worldsOf(call);
  call.keep([...linesOf(snapshotOf(worlds))].join(''));
  return { body: countTruths(worlds) };
}

function reset(call: AdminCall): AdminAnswer {
  call.reset();
  return { body: countTruths(worldsOf(call)) };
}

// --- actions --------------------------------------------------------------------------------------------------------

function jump(call: AdminCall): AdminAnswer {
  const { helpdesk, books } = call;
  const given = fieldsOf(call, 'seconds', 'service', 'only');
  const seconds = numberOf(given.seconds, 'seconds', -1e9, 1e9);
  if (given.only !== undefined && given.only !== 'date') throw wrong('only: the one choice is "date"');
  const service = given.service === undefined ? undefined : serviceOf(given.service);
  const jumping = [helpdesk, books].filter(({ world }) => service === undefined || world === worldsOf(call)[service]);
  for (const { world } of jumping) {
    const then = world.clock.now() + seconds * 1000;
    if (then < 0 || then >= END_OF_TIME) throw wrong('seconds: the clock has to stay between the years 1970 and 9999');
  }
  for (const { world } of jumping) {
    if (given.only === 'date') world.clock.jumpDate(seconds * 1000);
    else world.clock.jump(seconds * 1000);
  }
  return { body: { helpdesk: written(helpdesk.world.clock.now()), books: written(books.world.clock.now()) } };
}

/** Later years have more than four digits. */
const END_OF_TIME = Date.parse('9999-12-31T00:00:00Z');

function useCredits(call: AdminCall): AdminAnswer {
  const { helpdesk, books } = call;
  const given = fieldsOf(call, 'credits', 'service');
  const credits = wholeOf(given.credits, 'credits', 1, 1e9);
  const isBooks = serviceOf(given.service) === 'books';
  if (isBooks) books.takeRequests(credits);
  else helpdesk.takeCredits(credits);
  return { body: (isBooks ? books : helpdesk).budget() };
}

async function change(call: AdminCall): Promise<AdminAnswer> {
  const given = fieldsOf(call, 'count', 'service');
  const count = wholeOf(given.count, 'count', 1, 10_000);
  const { world } = serviceOf(given.service) === 'books' ? call.books : call.helpdesk;
  const changes: unknown[] = [];
  while (changes.length < count) {
    changes.push(world.mutate(call.rng));
    // Thousands of changes take seconds: other requests get their turn in between.
    await othersTurn();
  }
  return { body: changes };
}

function actInBulk(call: AdminCall): AdminAnswer {
  const { world } = call.helpdesk;
  const { count, label_id } = fieldsOf(call, 'count', 'label_id');
  const most = wholeOf(count, 'count', 1, 100_000);
  if (label_id !== undefined && (typeof label_id !== 'string' || !world.labels.has(label_id))) {
    throw wrong('label_id: has to be the id of a label; GET /truth/labels has them');
  }
  return { body: { ids: world.actInBulk(most, label_id) } };
}

function newDay({ books }: AdminCall): AdminAnswer {
  books.beginNewDay();
  return { body: books.budget() };
}

function expireTokens({ books }: AdminCall): AdminAnswer {
  books.tokens.expireAll();
  return { body: { given_so_far: books.tokens.given } };
}

// --- checks of the body -------------------------------------------------------------------------------------------------------

function fieldsOf({ body }: AdminCall, ...known: string[]): Record<string, unknown> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw wrong(`the body has to be an object with ${known.join(', ')}`);
  }
  const odd = Object.keys(body).find(name => !known.includes(name));
  if (odd !== undefined) throw wrong(`there is no "${odd}"; known are ${known.join(', ')}`);
  return body as Record<string, unknown>;
}

function numberOf(value: unknown, name: string, least: number, most: number): number {
  if (typeof value === 'number' && value >= least && value <= most) return value;
  throw wrong(`${name}: has to be a number from ${least} to ${most}`);
}

function wholeOf(value: unknown, name: string, least: number, most: number): number {
  if (Number.isInteger(value)) return numberOf(value, name, least, most);
  throw wrong(`${name}: has to be a whole number from ${least} to ${most}`);
}

function serviceOf(value: unknown): 'helpdesk' | 'books' {
  if (value === undefined || value === 'helpdesk') return 'helpdesk';
  if (value === 'books') return 'books';
  throw wrong('service: has to be "helpdesk" or "books"');
}

const wrong = (error: string) => new Refusal(422, 'Unprocessable Entity', [error]);

/** The random source for `Administered`; the same seed gives the same changes. */
export const adminRng = (seed: number): Rng => makeRng(seed + 0xad317);
