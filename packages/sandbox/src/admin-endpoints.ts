/**
 * What the admin port offers: a table with one entry for each endpoint, which --help and the documents list, and a
 * function from a call to an answer. It shows everything but credentials. Names of fields are those of the services.
 */
import { setImmediate as othersTurn } from 'node:timers/promises';
import type { BooksService } from './books/service.ts';
import type { Service } from './helpdesk/service.ts';
import { statusOf } from './page/status.ts';
import { whole } from './query.ts';
import { makeRng, type Rng } from './random.ts';
import { Refusal } from './refusal.ts';
import type { SeenRequest } from './request-reply.ts';
import { RuleError, type RuleState, type Rules } from './rules.ts';
import { countTruths, isTruth, linesOf, TRUTHS, type Worlds } from './truth.ts';

/** What there is to look at and to act on. */
export interface Administered {
  helpdesk: Service;
  books: BooksService;
  rules: Rules;
  /** Lets happen what is due by now, in both worlds, in slices after each of which others may have their turn. */
  catchingUp(): Iterator<void> & Iterable<void>;
  /** Of the chance that `POST /changes` needs. */
  rng: Rng;
  /** Where this is offered. */
  adminPort?: number;
}

interface AdminCall extends Administered {
  names: Record<string, string>;
  query: URLSearchParams;
  /** Parsed JSON; undefined where none was sent. */
  body: unknown;
}

export interface AdminAnswer {
  /** Default 200. */
  status?: number;
  headers?: Record<string, string>;
  /** To be written as JSON. */
  body?: unknown;
  /** Instead of a body: pieces of a text of one JSON document a line. */
  lines?: Iterable<string>;
}

interface AdminEndpoint {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  path: string;
  says: string;
  /** The JSON that has to be sent, by example; none where there is none. */
  takes?: string;
  answer(call: AdminCall): AdminAnswer | Promise<AdminAnswer>;
}

export const ADMIN_ENDPOINTS: readonly AdminEndpoint[] = [
  { method: 'GET', path: '/', says: 'this list', answer: listEndpoints },
  { method: 'GET', path: '/status', says: 'settings, budgets, counts and clients of both services', answer: status },
  {
    method: 'GET',
    path: '/clients',
    says: 'who used how many credits (of the catalog: requests of the day), and which refusals were their own fault',
    answer: ({ helpdesk, books }) => ({ body: { helpdesk: usesOf(helpdesk), books: usesOf(books) } }),
  },
  {
    method: 'GET',
    path: '/refusals',
    says: 'the last refusals of either service (?last=100, at most 10,000), each with whose fault it was and why',
    answer: call => ({ body: { helpdesk: refusalsOf(call.helpdesk, call), books: refusalsOf(call.books, call) } }),
  },
  {
    method: 'GET',
    path: '/requests',
    says: 'the last requests of either service (?last=100, at most 10,000)',
    answer: call => ({ body: { helpdesk: requestsOf(call.helpdesk, call), books: requestsOf(call.books, call) } }),
  },
  {
    method: 'GET',
    path: '/faults',
    says: 'the fault rules, and how often each was met',
    answer: ({ rules }) => ({ body: rules.list() }),
  },
  {
    method: 'POST',
    path: '/faults',
    says: 'adds a rule behind the others',
    takes: '{"path": "/tickets", "after": 3, "times": 2, "fault": {"kind": "status", "status": 503}}',
    answer: addRule,
  },
  {
    method: 'PUT',
    path: '/faults',
    says: 'these rules instead of all that there are',
    takes: '[{"path": "/tickets", "fault": {"kind": "delay", "ms": 500}}]',
    answer: setRules,
  },
  { method: 'DELETE', path: '/faults', says: 'removes all rules', answer: clearRules },
  { method: 'GET', path: '/faults/:id', says: 'one rule', answer: call => ({ body: ruleOf(call) }) },
  {
    method: 'PUT',
    path: '/faults/:id',
    says: 'this rule in the place of the one with this id, whose counts begin anew; or one more',
    takes: '{"path": "/users", "fault": {"kind": "truncate"}}',
    answer: ({ rules, names, body }) => ({ body: rules.replace(names.id!, body) }),
  },
  { method: 'DELETE', path: '/faults/:id', says: 'removes one rule', answer: removeRule },
  {
    method: 'GET',
    path: '/truth/counts',
    says: 'how many of everything there are',
    answer: call => ({ body: countTruths(worldsOf(call)) }),
  },
  {
    method: 'GET',
    path: '/truth/:kind',
    says: `what is truly there, one JSON record a line: ${Object.keys(TRUTHS).join(', ')}`,
    answer: truth,
  },
  {
    method: 'POST',
    path: '/clock',
    says: 'lets the clock of both services, or of one, jump by so many seconds; snoozes and waiting uploads end by it, limits go by another clock',
    takes: '{"seconds": -30, "service": "helpdesk"}',
    answer: jump,
  },
  {
    method: 'POST',
    path: '/credits',
    says: 'somebody else uses so many credits of the help desk (or requests of the day of the books) now',
    takes: '{"credits": 40, "service": "helpdesk"}',
    answer: useCredits,
  },
  {
    method: 'POST',
    path: '/changes',
    says: 'so many random believable changes now, up to 10,000, of the help desk (or of the books)',
    takes: '{"count": 100, "service": "helpdesk"}',
    answer: change,
  },
  {
    method: 'POST',
    path: '/bulk',
    says: 'closes so many tickets, up to 100,000, within one second, and says which; with a label if one is named',
    takes: '{"count": 5000}',
    answer: actInBulk,
  },
  { method: 'POST', path: '/books/day', says: 'a new day of the catalog: its quota is whole again', answer: newDay },
  {
    method: 'POST',
    path: '/books/tokens/expire',
    says: 'every access token that was given for the refresh token expires now',
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

// --- who asked ---------------------------------------------------------------------------------------------------------

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

// --- what goes wrong -----------------------------------------------------------------------------------------------------

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

/** What an answer has refused, in the words of this port. */
export function refusalOf(error: unknown): Refusal | undefined {
  if (error instanceof RuleError) return new Refusal(422, error.message, [...error.problems]);
  return error instanceof Refusal ? error : undefined;
}

// --- what is there -------------------------------------------------------------------------------------------------------

function worldsOf({ helpdesk, books }: AdminCall): Worlds {
  return { helpdesk: helpdesk.world, books: books.world };
}

function truth(call: AdminCall): AdminAnswer {
  const { kind = '' } = call.names;
  if (!isTruth(kind))
    throw new Refusal(404, `There is no truth about ${kind}, only: ${Object.keys(TRUTHS).join(', ')}`);
  return { lines: linesOf(TRUTHS[kind](worldsOf(call))) };
}

// --- what happens --------------------------------------------------------------------------------------------------------

function jump(call: AdminCall): AdminAnswer {
  const { helpdesk, books } = call;
  const given = fieldsOf(call, 'seconds', 'service');
  const seconds = numberOf(given.seconds, 'seconds', -1e9, 1e9);
  const service = given.service === undefined ? undefined : serviceOf(given.service);
  const jumping = [helpdesk, books].filter(({ world }) => service === undefined || world === worldsOf(call)[service]);
  for (const { world } of jumping) {
    const then = world.clock.now() + seconds * 1000;
    if (then < 0 || then >= END_OF_TIME) throw wrong('seconds: the clock has to stay between the years 1970 and 9999');
  }
  for (const { world } of jumping) world.clock.jump(seconds * 1000);
  return { body: { helpdesk: written(helpdesk.world.clock.now()), books: written(books.world.clock.now()) } };
}

/** Beyond this a year has no four digits. */
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
    // A great many take seconds, which are not for this one alone.
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

// --- what was sent -------------------------------------------------------------------------------------------------------

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

/** For `Administered`: the same seed gives the same changes. */
export const adminRng = (seed: number): Rng => makeRng(seed + 0xad317);
