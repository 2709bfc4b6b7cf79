import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Clients, clientName, type Said, type Visit } from '../src/admission/clients.ts';
import type { Fault } from '../src/admission/faults.ts';
import { type LimitOptions, Limits } from '../src/admission/limits.ts';
import type { BooksServiceOptions } from '../src/books/service.ts';
import type { ServiceOptions } from '../src/helpdesk/service.ts';
import { askingBooks, emptyBooks } from './books-in-process.ts';
import { asking, emptyWorld } from './in-process.ts';

/** A desk with ten credits a minute; `as` asks as one of three clients that differ in token or program. */
function desk(options: ServiceOptions = {}) {
  const { world, clock } = emptyWorld();
  world.addTicket({ id: 't' });
  const { service, ask } = asking(world, {
    tokens: ['first', 'second'],
    credits: 10,
    requestsPerSecond: 100,
    chargeRefused: false,
    ...options,
  });
  const as = (token: string, agent: string) => (path: string) =>
    ask('GET', path, { authorization: `Bearer ${token}`, 'user-agent': agent }).status;
  const verdicts = () =>
    service.clients.refusals.map(({ client, request, cost, limit, fault, why }) =>
      [client.credential, client.agent, request, cost, limit, fault, why].join(' '),
    );
  const whys = () => service.clients.refusals.map(({ why }) => why);
  const times = (n: number, act: () => unknown) => {
    for (let left = n; left > 0; left--) act();
  };
  return { service, clock, as, verdicts, whys, times, nightly: as('first', 'nightly'), live: as('second', 'live') };
}

const TWO = '/tickets/t?embed=user';
const FIVE = '/tickets/t?embed=user,inbox,customer,labels';

describe('who used how much', () => {
  test('a client is a token, by its number, with a User-Agent; whoever is not known is one as well', () => {
    const { service, as, nightly, live, clock } = desk();
    nightly('/users');
    clock.ms += 1000;
    nightly(TWO);
    live('/users?count=true');
    as('first', 'curl')('/users');
    as('wrong', 'curl')('/users');
    as('sandbox-blocked-token', 'curl')('/users');
    const uses = service.clients.uses();
    const of = (credential: string, agent: string, requests: number, credits: number, first: number, last: number) => ({
      ...{ credential, agent, requests, credits, refused: { own: 0, others: 0 } },
      first_at: clock.ms + first,
      last_at: clock.ms + last,
    });
    expect(uses).toStrictEqual([
      of('token 1', 'nightly', 2, 3, -1000, 0),
      of('token 2', 'live', 1, 2, 0, 0),
      of('token 1', 'curl', 1, 1, 0, 0),
      of('none', 'curl', 1, 0, 0, 0),
      of('blocked token', 'curl', 1, 0, 0, 0),
    ]);
    expect(JSON.stringify([uses, service.requests.map(({ client }) => client)])).not.toMatch(
      /first"|second"|wrong|sandbox/,
    );
    expect(service.requests.map(({ client, outcome }) => `${client?.credential}: ${outcome}`)).toEqual([
      'token 1: admitted',
      'token 1: admitted',
      'token 2: admitted',
      'token 1: admitted',
      'none: turned away',
      'blocked token: turned away',
    ]);
  });

  test('a User-Agent counts with its first 200 characters; a thousand clients have a name, the rest is one', () => {
    const { service, as, times } = desk({ credits: 1e6, requestsPerSecond: 1e6 });
    as('first', `${'x'.repeat(200)}1`)('/users');
    as('first', `${'x'.repeat(200)}2`)('/users');
    let n = 0;
    times(1500, () => as('first', `agent ${n++}`)('/users'));
    as('first', 'agent 5')('/users');
    const uses = service.clients.uses();
    expect([uses.length, uses[0]?.requests, uses[0]?.agent.length, uses[6]?.requests]).toEqual([1001, 2, 200, 2]);
    expect(uses.at(-1)).toMatchObject({ credential: 'others', agent: '', requests: 501, credits: 501 });
  });

  test.each([
    { window: 'fixed' },
    { window: 'sliding' },
    { chargeRefused: true },
    { chargeErrors: false },
  ] satisfies ServiceOptions[])('the sums are the totals of the service, to the credit: %j', options => {
    const { service, as, clock } = desk({ requestsPerSecond: 3, ...options });
    fc.assert(
      fc.property(
        fc.array(
          fc.tuple(fc.nat(2), fc.constantFrom('/users', TWO, FIVE, '/nowhere', '/users?count=true'), fc.nat(4000)),
        ),
        requests => {
          for (const [who, path, gap] of requests) {
            clock.ms += gap;
            as(['first', 'second', 'wrong'][who]!, 'x')(path);
          }
          const sums = { requests: 0, credits: 0, refused: 0 };
          for (const { requests, credits, refused } of service.clients.uses()) {
            sums.requests += requests;
            sums.credits += credits;
            sums.refused += refused.own + refused.others;
          }
          expect(sums).toEqual(service.totals);
        },
      ),
      { numRuns: 30 },
    );
    expect(service.totals.refused).toBeGreaterThan(0);
  });
});

describe.each(['fixed', 'sliding'] as const)('whose fault a refusal is, window %s', window => {
  const BOTH = { window };

  test('its own, where its own use alone leaves no room', () => {
    const { nightly, live, verdicts } = desk(BOTH);
    expect([nightly(FIVE), nightly('/users'), live('/users'), nightly(FIVE)]).toEqual([200, 200, 200, 429]);
    expect(verdicts()).toEqual(['token 1 nightly GET /tickets/t 5 credits own own use']);
  });

  test('others’, where there would have been room but for them', () => {
    const { nightly, live, times, verdicts, service, clock } = desk(BOTH);
    expect(nightly(TWO)).toBe(200);
    times(8, () => live('/users'));
    expect(nightly('/users')).toBe(429);
    expect(verdicts()).toEqual(['token 1 nightly GET /users 1 credits others foreign use']);
    expect(service.clients.refusals[0]!.at).toBe(clock.ms);
    expect(service.clients.uses()[0]!.refused).toEqual({ own: 0, others: 1 });
  });

  test('others’, where somebody outside of this sandbox has used the account', () => {
    const { nightly, service, verdicts } = desk(BOTH);
    service.takeCredits(10);
    expect(nightly('/users')).toBe(429);
    expect(verdicts()).toEqual(['token 1 nightly GET /users 1 credits others foreign use']);
  });

  test('its own, where the last reply said that fewer remain than it costs', () => {
    const { nightly, live, verdicts, clock } = desk(BOTH);
    expect([live(FIVE), live(TWO), nightly('/users')]).toEqual([200, 200, 200]);
    clock.ms += 59_999;
    expect([nightly(FIVE), nightly(TWO)]).toEqual([429, 200]);
    expect(verdicts()).toEqual(['token 1 nightly GET /tickets/t 5 credits own told']);
  });

  test('others’, where the last reply said that there is enough', () => {
    const { nightly, live, verdicts } = desk(BOTH);
    expect([nightly('/users'), live(FIVE), live(TWO), nightly(FIVE)]).toEqual([200, 200, 200, 429]);
    expect(verdicts()).toEqual(['token 1 nightly GET /tickets/t 5 credits others foreign use']);
  });

  test('others’, where the reply that said so speaks of a period that is over', () => {
    const { nightly, live, service, verdicts, clock } = desk(BOTH);
    live(FIVE);
    expect([live(FIVE), nightly('/users')]).toEqual([200, 429]);
    clock.ms += 60_000;
    service.takeCredits(10);
    expect(nightly('/users')).toBe(429);
    expect(verdicts()).toEqual([
      'token 1 nightly GET /users 1 credits others foreign use',
      'token 1 nightly GET /users 1 credits others foreign use',
    ]);
  });

  test('its own, where it does not wait as an earlier refusal told it to, though that spoke of enough', () => {
    const { nightly, live, service, verdicts, clock } = desk(BOTH);
    expect([live(FIVE), live('/users'), nightly(FIVE)]).toEqual([200, 200, 429]);
    clock.ms += 59_999;
    service.takeCredits(4);
    expect([nightly('/users'), live('/users')]).toEqual([429, 429]);
    clock.ms += 1000;
    service.takeCredits(10);
    expect(nightly('/users')).toBe(429);
    expect(verdicts()).toEqual([
      'token 1 nightly GET /tickets/t 5 credits others foreign use',
      'token 1 nightly GET /users 1 credits own early',
      'token 2 live GET /users 1 credits others foreign use',
      'token 1 nightly GET /users 1 credits others foreign use',
    ]);
  });

  test('the burst: its own alone, others’ together, and its own again if it does not wait', () => {
    const { nightly, live, times, verdicts, clock } = desk({ ...BOTH, requestsPerSecond: 3 });
    times(4, () => nightly('/users'));
    clock.ms += 60_000;
    times(2, () => live('/users'));
    times(3, () => nightly('/users'));
    expect(verdicts()).toEqual([
      'token 1 nightly GET /users 1 burst own own use',
      'token 1 nightly GET /users 1 burst others foreign use',
      'token 1 nightly GET /users 1 burst own early',
    ]);
  });

  test('a refusal is no use of credits, unless it is charged', () => {
    const free = desk(BOTH);
    free.live(FIVE);
    free.live(TWO);
    free.times(3, () => free.nightly(FIVE));
    expect(free.whys()).toEqual(['foreign use', 'told', 'told']);
    const charged = desk({ ...BOTH, chargeRefused: true });
    charged.nightly(FIVE);
    charged.live(TWO);
    charged.times(2, () => charged.nightly(FIVE));
    expect(charged.whys()).toEqual(['foreign use', 'own use']);
    expect(charged.service.clients.uses()[0]).toMatchObject({
      credits: 8,
      requests: 3,
      refused: { own: 1, others: 1 },
    });
  });

  test('an error that is not charged leaves room', () => {
    const { nightly, live, times, verdicts } = desk({ ...BOTH, chargeErrors: false });
    times(10, () => nightly('/nowhere'));
    times(10, () => live('/users'));
    nightly('/users');
    expect(verdicts()).toEqual(['token 1 nightly GET /users 1 credits others foreign use']);
  });
});

describe('what a client can know', () => {
  test('nothing of a reply that never left, or had the header taken out', () => {
    const lost: Fault[] = [
      { kind: 'reset', after: 'before' },
      { kind: 'headers', drop: ['rate-limit-remaining'] },
    ];
    for (const fault of lost) {
      const { nightly, live, verdicts } = desk({
        fault: ({ client }) => (client?.agent === 'nightly' ? fault : undefined),
      });
      live(FIVE);
      live(TWO);
      nightly(TWO);
      nightly(TWO);
      expect(verdicts(), fault.kind).toEqual(['token 1 nightly GET /tickets/t 2 credits others foreign use']);
    }
  });

  test('what a reply says that was held back, from when it is sent', () => {
    const { nightly, live, whys, clock } = desk({ fault: () => ({ kind: 'delay', ms: 500 }) });
    live(FIVE);
    live(TWO);
    nightly(TWO);
    clock.ms += 499;
    nightly(TWO);
    clock.ms += 1;
    nightly(TWO);
    expect(whys()).toEqual(['foreign use', 'told']);
  });

  test('a refusal on purpose tells it to wait as a real one does', () => {
    const { nightly, service, verdicts } = desk({
      fault: (_, n) => (n === 1 ? { kind: 'status', status: 429 } : undefined),
    });
    nightly('/users');
    service.takeCredits(10);
    nightly('/users');
    expect(verdicts()).toEqual(['token 1 nightly GET /users 1 credits own early']);
  });

  test('nothing of before, once everybody’s limits begin anew', () => {
    const limits: LimitOptions = { credits: 2, periodSeconds: 60, requestsPerSecond: 9, window: 'fixed', start: 0 };
    const clients = new Clients(limits);
    const name = clientName('key', undefined);
    const visit = (at: number, outcome: Visit['outcome'], charged = 0): Visit => ({
      ...{ at, outcome, charged, cost: 2, request: 'GET /volumes' },
    });
    const said: Said = { at: 2, sent_at: 2, remaining: 0, resetSeconds: 60, refuses: true };
    clients.visited(name, visit(1, 'admitted', 2));
    clients.visited(name, visit(2, 'credits'));
    clients.told(name, said);
    clients.visited(name, visit(2, 'turned away'));
    clients.told(name, { ...said, refuses: false });
    clients.beginPeriod({ ...limits, start: 3 });
    clients.visited(name, visit(3, 'credits'));
    expect(clients.refusals.map(({ why }) => why)).toEqual(['own use', 'foreign use']);
  });

  test('of very many refusals the last 10,000 are kept, and all are counted', () => {
    const { nightly, times, service } = desk({ credits: 0 });
    times(10_005, () => nightly('/users'));
    expect(service.clients.refusals).toHaveLength(10_000);
    expect(service.clients.uses()[0]!.refused.own).toBe(10_005);
  });
});

describe('the book catalog', () => {
  function library(options: BooksServiceOptions) {
    const { world, clock } = emptyBooks();
    const { service, ask, refresh } = askingBooks(world, options);
    const token = service.tokens.token;
    const shelves = (token: string, agent = 'shelf') =>
      ask('GET', '/mylibrary/bookshelves', { authorization: `Bearer ${token}`, 'user-agent': agent }).status;
    const search = () => ask('GET', `/volumes?q=x&key=${service.key}`, { 'user-agent': 'search' }).status;
    const verdicts = () =>
      service.clients.refusals.map(({ client, limit, fault, why }) => [client.credential, limit, fault, why].join(' '));
    return { service, clock, ask, refresh, token, shelves, search, verdicts };
  }
  const form = {
    ...{ grant_type: 'refresh_token', client_id: 'sandbox-client', client_secret: 'sandbox-secret' },
    refresh_token: 'sandbox-refresh',
  };

  test('a client is a kind of credential with a User-Agent, and the sums are the totals', () => {
    const { service, ask, refresh, shelves, search, token } = library({ requestsPerDay: 4 });
    search();
    shelves(token);
    for (let n = 0; n < 2; n++) shelves(refresh(form).json.access_token);
    shelves('wrong');
    ask('GET', '/volumes?q=x&key=wrong');
    ask('OPTIONS', '/volumes');
    search();
    const uses = service.clients.uses();
    expect(uses.map(({ credential, agent, requests, credits }) => [credential, agent, requests, credits])).toEqual([
      ['key', 'search', 2, 1],
      ['token 1', 'shelf', 1, 1],
      ['refreshed token', 'shelf', 2, 2],
      ['none', 'shelf', 1, 0],
      ['none', '', 2, 0],
    ]);
    expect(uses[0]!.refused).toEqual({ own: 0, others: 1 });
    expect(service.totals).toEqual({ requests: 8, credits: 4, refused: 1 });
    expect(service.requests.map(({ client }) => client?.credential)).toEqual([
      ...['key', 'token 1', 'refreshed token', 'refreshed token', 'none', 'none', 'none', 'key'],
    ]);
  });

  test('the day: who is told that it is used up waits for the next one', () => {
    const { service, shelves, search, token, clock, verdicts } = library({ requestsPerDay: 2 });
    shelves(token);
    service.takeRequests(1);
    search();
    clock.ms += 86_399_999;
    search();
    service.beginNewDay();
    service.takeRequests(2);
    search();
    expect(verdicts()).toEqual([
      'key credits others foreign use',
      'key credits own told',
      'key credits others foreign use',
    ]);
  });

  test.each([
    [true, 'own early'],
    [false, 'others foreign use'],
  ])(
    'the second, with Retry-After (%s): a reply that does not say how long is no order to wait',
    (retryAfter, again) => {
      const { shelves, search, token, verdicts } = library({ requestsPerSecond: 2, retryAfter });
      shelves(token);
      shelves(token);
      search();
      search();
      shelves(token);
      expect(verdicts()).toEqual(['key burst others foreign use', `key burst ${again}`, 'token 1 burst own own use']);
    },
  );
});

describe('counted again by hand', () => {
  const CREDITS = 8;
  const PERIOD_MS = 5000;
  const BURST = 3;
  const step = fc.record({
    gap: fc.oneof(fc.nat(300), fc.nat(3000)),
    who: fc.constantFrom('a', 'b', 'c'),
    cost: fc.integer({ min: 1, max: 4 }),
    foreign: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, fc.nat(4)),
  });

  test.each(['fixed', 'sliding'] as const)(
    'window %s: the verdict on each refusal is the one that its history gives',
    window => {
      const whys = new Set<string>();
      fc.assert(
        fc.property(fc.array(step, { maxLength: 60 }), steps => {
          const options = { credits: CREDITS, periodSeconds: 5, requestsPerSecond: BURST, window, start: 0 };
          const limits = new Limits(options);
          const clients = new Clients(options);
          const history: {
            who: string;
            at: number;
            cost: number;
            admitted: boolean;
            remaining: number;
            until: number;
          }[] = [];
          let at = 0;
          for (const { gap, who, cost, foreign } of steps) {
            at += gap;
            limits.take(foreign, at);
            const outcome = limits.exceeded(cost, at) ?? 'admitted';
            const admitted = limits.admit(cost, at);
            const { remaining, reset } = limits.budget(at, admitted ? 0 : cost);
            const name = clientName(who, 'x');
            const before = clients.refusals.length;
            clients.visited(name, { at, request: 'GET /', cost, charged: admitted ? cost : 0, outcome });
            clients.told(name, { at, sent_at: at, remaining, resetSeconds: reset, refuses: !admitted });

            const mine = history.filter(past => past.who === who);
            const counts = (past: number) =>
              window === 'fixed' ? Math.floor(past / PERIOD_MS) === Math.floor(at / PERIOD_MS) : past > at - PERIOD_MS;
            const used = mine
              .filter(past => past.admitted && counts(past.at))
              .reduce((sum, past) => sum + past.cost, 0);
            const inSecond = mine.filter(past => past.admitted && past.at > at - 1000).length;
            const last = mine.at(-1);
            const expected =
              used + cost > CREDITS || inSecond >= BURST
                ? 'own use'
                : last !== undefined && last.remaining < cost && at < last.until
                  ? 'told'
                  : mine.some(past => !past.admitted && at < past.until)
                    ? 'early'
                    : 'foreign use';
            expect(clients.refusals.slice(before).map(({ why }) => why)).toEqual(admitted ? [] : [expected]);
            if (!admitted) whys.add(expected);
            history.push({ who, at, cost, admitted, remaining, until: at + reset * 1000 });
          }
        }),
        { numRuns: 1000 },
      );
      expect([...whys].toSorted()).toEqual(['early', 'foreign use', 'own use', 'told']);
    },
  );
});
