import { describe, expect, test } from 'vitest';
import { FAULT_KINDS } from '../src/admission/faults.ts';
import { RuleError, Rules } from '../src/admission/rules.ts';
import { Service } from '../src/helpdesk/service.ts';
import type { World } from '../src/helpdesk/world/world.ts';
import type { SeenRequest } from '../src/http/request-reply.ts';
import { askingBooks, emptyBooks, itemIds, ME } from './books-in-process.ts';
import { asking, emptyWorld, ids } from './in-process.ts';

const DOWN = { kind: 'status', status: 503 } as const;

function seen(request = 'GET /tickets'): SeenRequest {
  const [method = '', url = ''] = request.split(' ');
  const [path = '', query = ''] = url.split('?');
  return { method, path, query: new URLSearchParams(query), cost: 1, at: 0 };
}

/** A help desk with tickets a, b and c and one customer, whose nth answers go wrong by these rules. */
function desk(...rules: object[]) {
  const { world, clock } = emptyWorld();
  world.customers.add({
    id: 'kim',
    first_name: 'Kim',
    contacts: [{ id: 'k1', type: 'email', value: 'kim@x.example' }],
  });
  for (const id of ['a', 'b', 'c']) world.addTicket({ id, subject: id.toUpperCase(), customer_id: 'kim' });
  const all = new Rules(rules);
  return { world, clock, rules: all, ...asking(world, { rules: all }) };
}

/** The reply as it is, of which a client may not be able to read the text. */
function raw(world: World, rule: object, path = '/tickets') {
  const service = new Service(world, { rules: new Rules([rule]) });
  return service.handle({ method: 'GET', url: `/api/v1${path}`, headers: { authorization: 'Bearer sandbox-token' } });
}

describe('which requests', () => {
  test.for<{ rule: object; goes: string }>([
    { rule: {}, goes: 'xxxxxxxxxx' },
    { rule: { after: 3 }, goes: '...xxxxxxx' },
    { rule: { every: 3 }, goes: '..x..x..x.' },
    { rule: { times: 2 }, goes: 'xx........' },
    { rule: { after: 1, every: 2, times: 3 }, goes: '..x.x.x...' },
    { rule: { share: 0 }, goes: '..........' },
    { rule: { share: 1 }, goes: 'xxxxxxxxxx' },
  ])('$rule', ({ rule, goes }) => {
    const rules = new Rules([{ ...rule, fault: DOWN }]);
    const went = Array.from(goes, () => (rules.strike('helpdesk', seen()).length > 0 ? 'x' : '.'));
    expect(went.join('')).toBe(goes);
    expect(rules.list()).toMatchObject([{ matched: 10, fired: goes.replaceAll('.', '').length }]);
  });

  test('a share is a matter of chance that a seed repeats', () => {
    const struck = (seed: number) => {
      const rules = new Rules([{ share: 0.2, seed, fault: DOWN }]);
      return Array.from({ length: 2000 }, () => rules.strike('helpdesk', seen()).length).join('');
    };
    expect(struck(7)).toBe(struck(7));
    expect(struck(7)).not.toBe(struck(8));
    const hits = struck(7).replaceAll('0', '').length;
    expect(hits).toBeGreaterThan(340);
    expect(hits).toBeLessThan(460);
  });

  test.for<[rule: object, meant: string, others: string[]]>([
    [{ method: 'POST' }, 'POST /tickets', ['GET /tickets', 'PATCH /tickets/a']],
    [{ method: ['PUT', 'DELETE'] }, 'DELETE /x', ['GET /x', 'POST /x']],
    [{ path: '/tickets' }, 'GET /tickets?page=2', ['GET /tickets/a', 'GET /ticket', 'GET /x/tickets']],
    [{ path: '/tickets/*' }, 'GET /tickets/a', ['GET /tickets', 'POST /tickets/a/messages']],
    [{ path: '/tickets/**' }, 'POST /tickets/a/messages', ['GET /tickets']],
    [{ path: '/*/a.b' }, 'GET /x/a.b', ['GET /x/aab', 'GET /x/y/a.b']],
    [{ query: { page: '2' } }, 'GET /tickets?page=2', ['GET /tickets?page=22', 'GET /tickets', 'GET /tickets?page=1']],
    [{ query: { embed: 'messages' } }, 'GET /t?embed=labels,messages', ['GET /t?embed=labels']],
    [{ query: { embed: 'messages' } }, 'GET /t?embed=labels&embed=messages', ['GET /t?embed=message']],
    [{ query: { since_updated_at: '*' } }, 'GET /t?since_updated_at=2024', ['GET /t']],
    [{ query: { page: null } }, 'GET /t?sort=x', ['GET /t?page=1', 'GET /t?page=']],
  ])('%o means %s and not %o', ([rule, meant, others]) => {
    const rules = new Rules([{ ...rule, fault: DOWN }]);
    expect(rules.strike('helpdesk', seen(meant))).toHaveLength(1);
    for (const other of others) expect(rules.strike('helpdesk', seen(other)), other).toEqual([]);
    expect(rules.list()).toMatchObject([{ matched: 1 }]);
  });

  test('those of one service, or of any', () => {
    const rules = new Rules([{ service: 'books', fault: DOWN }, { fault: { kind: 'html' } }]);
    const kinds = (service: 'helpdesk' | 'books') => rules.strike(service, seen()).map(({ fault }) => fault.kind);
    expect([kinds('helpdesk'), kinds('books')]).toEqual([['html'], ['status', 'html']]);
  });

  test('those that were let in: a 401 and a 429 are as they are, and count nowhere', () => {
    const { world } = emptyWorld();
    const rules = new Rules([{ fault: DOWN }]);
    const { ask } = asking(world, { rules, credits: 1 });
    const statuses = [
      ask('GET', '/tickets', { authorization: 'none' }),
      ask('GET', '/tickets'),
      ask('GET', '/tickets'),
    ];
    expect(statuses.map(({ status }) => status)).toEqual([401, 503, 429]);
    expect(rules.list()).toMatchObject([{ matched: 1, fired: 1 }]);
  });
});

describe('what goes wrong', () => {
  test('a status of the 500 series, with no body unless there is a reason, and headers for when to come again', () => {
    const { get } = desk(
      { times: 1, fault: { ...DOWN, headers: { 'Retry-After': '7' } } },
      { after: 1, fault: { ...DOWN, reason: 'Too much to do' } },
    );
    const [first, second] = [get('/tickets?count=true'), get('/tickets')];
    expect([first.status, first.text, first.headers['Retry-After']]).toEqual([503, '', '7']);
    expect(Object.keys(first.headers)).not.toContain('Content-Type');
    expect(Object.keys(first.headers)).not.toContain('Total-Count');
    expect(first.headers['Rate-Limit-Used']).toBe('2');
    expect([second.status, second.json]).toEqual([503, { message: 'Too much to do' }]);
  });

  test('a status of the 400 series has the body that section 7 gives it', () => {
    const { get } = desk(
      { times: 1, fault: { kind: 'status', status: 403 } },
      { after: 1, fault: { kind: 'status', status: 422, reason: 'No' } },
    );
    expect(get('/users')).toMatchObject({ status: 403, json: { message: 'Status 403 on purpose' } });
    expect(get('/users')).toMatchObject({ status: 422, json: { message: 'No', errors: [{ message: 'No' }] } });
  });

  test('in an envelope an error is inside, and a record that differs too', () => {
    const { get } = desk({ times: 1, fault: DOWN }, { after: 1, fault: { kind: 'set', field: 'id', value: 5 } });
    expect(get('/tickets/a?envelope=true')).toMatchObject({ status: 200, json: { status: 503, response: null } });
    expect(get('/tickets/a?envelope=true').json).toMatchObject({ status: 200, response: { id: 5, subject: 'A' } });
  });

  test('what the socket has to do is marked', () => {
    const { world } = desk();
    const whole = raw(world, { path: '/none', fault: DOWN }).text;
    expect(raw(world, { fault: { kind: 'reset', after: 'headers' } })).toMatchObject({
      text: whole,
      broken: 'headers',
    });
    expect(raw(world, { fault: { kind: 'delay', ms: 250 } })).toMatchObject({ text: whole, delay_ms: 250 });
    expect(raw(world, { fault: { kind: 'truncate' } }).text).toBe(whole.slice(0, whole.length >> 1));
    expect(raw(world, { fault: { kind: 'truncate' } }, '/tickets/none').status).toBe(404);
    expect(raw(world, { fault: { kind: 'html' } })).toMatchObject({ headers: { 'Content-Type': 'text/html' } });
  });

  test('headers are dropped and set, however they are written', () => {
    const { get } = desk({ fault: { kind: 'headers', drop: ['DATE'], set: { 'rate-limit-remaining': 'many' } } });
    const { headers } = get('/users');
    expect(headers).toMatchObject({ 'rate-limit-remaining': 'many', 'Rate-Limit-Used': '1' });
    expect(Object.keys(headers)).not.toContain('Date');
    expect(Object.keys(headers)).not.toContain('Rate-Limit-Remaining');
  });

  test.for<[fault: object, path: string, where: (json: never) => unknown, expected: unknown]>([
    [
      { index: 1, field: 'number', value: 'seven' },
      '/tickets',
      (all: { number: unknown }[]) => all[1]!.number,
      'seven',
    ],
    [{ index: -1, field: 'subject', value: null }, '/tickets', (all: { subject: unknown }[]) => all[2]!.subject, null],
    [{ id: 'b', field: 'label_ids', value: {} }, '/tickets', (all: { label_ids: unknown }[]) => all[1]!.label_ids, {}],
    [
      { field: 'contacts.0.value', value: 7 },
      '/customers/kim',
      (kim: { contacts: object[] }) => kim.contacts[0],
      {
        id: 'k1',
        type: 'email',
        value: 7,
      },
    ],
    [{ field: 'subject' }, '/tickets/a', (ticket: object) => 'subject' in ticket, false],
    [{ index: 0, value: 'not a ticket' }, '/tickets', (all: unknown[]) => all[0], 'not a ticket'],
    [{ index: 0 }, '/tickets', (all: unknown[]) => all.length, 2],
    [
      { index: 9, field: 'id', value: 1 },
      '/tickets',
      (all: { id: string }[]) => all.map(({ id }) => id),
      ['c', 'b', 'a'],
    ],
    [
      { id: 'zz', field: 'id', value: 1 },
      '/tickets',
      (all: { id: string }[]) => all.map(({ id }) => id),
      ['c', 'b', 'a'],
    ],
    [{ field: 'none.such', value: 1 }, '/tickets/a', (ticket: object) => 'none' in ticket, false],
  ])('one record differs: %o in %s', ([fault, path, where, expected]) => {
    const { get, world } = desk({ fault: { kind: 'set', ...fault } });
    expect(where(get(path).json as never)).toEqual(expected);
    expect([world.ticket('a').subject, world.customer('kim').contacts[0]!.value]).toEqual(['A', 'kim@x.example']);
  });

  test('an error stays as it is where a record was to differ', () => {
    const { get } = desk({ fault: { kind: 'set', field: 'message', value: 5 } });
    expect(get('/tickets/none').json).toEqual({ message: 'There is no ticket none' });
  });

  test('a row is shown twice', () => {
    const list = (fault: object) => ids(desk({ fault: { kind: 'duplicate', ...fault } }).get('/tickets')).join('');
    expect([list({}), list({ index: -1 }), list({ id: 'b' }), list({ id: 'z' })]).toEqual([
      'ccba',
      'cbaa',
      'cbba',
      'cba',
    ]);
  });

  test('several at once, in their order, and a hook before them', () => {
    const { world } = desk();
    const rules = new Rules([
      { id: 'slow', fault: { kind: 'delay', ms: 20 } },
      { id: 'twice', fault: { kind: 'duplicate' } },
      { id: 'odd', fault: { kind: 'set', index: 1, field: 'id', value: 0 } },
    ]);
    const { service, get } = asking(world, { rules, fault: () => ({ kind: 'delay', ms: 3 }) });
    const reply = get('/tickets');
    expect(reply).toMatchObject({ delay_ms: 23 });
    expect(ids(reply)).toEqual(['c', 0, 'b', 'a']);
    expect(service.requests.at(-1)!.rules).toEqual(['slow', 'twice', 'odd']);
  });
});

describe('whether the work was done', () => {
  const breaks = [DOWN, { kind: 'reset', after: 'before' }, { kind: 'reset', after: 'half' }] as const;
  const JSON_TYPE = { 'content-type': 'application/json' };

  test.for(breaks.flatMap(fault => (['done', 'undone'] as const).map(work => [fault, work] as const)))(
    '%o: %s',
    ([fault, work]) => {
      const { world, service, ask } = desk({ fault: { ...fault, work } });
      const reply = ask('POST', '/customers', JSON_TYPE, '{"first_name":"Noor"}');
      const patched = ask('PATCH', '/tickets/a', JSON_TYPE, '{"state":"closed"}');
      ask('GET', '/tickets/a');
      expect([world.customers.size, world.ticket('a').state]).toEqual(work === 'done' ? [2, 'closed'] : [1, 'open']);
      expect(service.totals.credits).toBe(3);
      const { kind } = fault;
      if (kind === 'status') expect([reply.status, reply.text, patched.text]).toEqual([503, '', '']);
      else expect(reply).toMatchObject({ broken: fault.after });
      expect(Object.keys(reply.headers)).not.toContain(
        kind === 'status' || work === 'undone' ? 'Location' : 'location',
      );
    },
  );

  test('what only reads has nothing to undo: half of what it would have been', () => {
    const { world } = desk();
    const half = { kind: 'reset', after: 'half' } as const;
    const [done, undone] = (['done', 'undone'] as const).map(work => raw(world, { fault: { ...half, work } }));
    expect(undone).toEqual({ ...done, headers: { ...done!.headers } });
    expect(JSON.parse(undone!.text)).toHaveLength(3);
  });

  test('a POST that was undone can be sent again', () => {
    const { world, ask } = desk({ method: 'POST', times: 1, fault: { ...DOWN, work: 'undone' } });
    const send = () => ask('POST', '/customers', JSON_TYPE, '{}').status;
    expect([send(), world.customers.size, send(), world.customers.size]).toEqual([503, 1, 201, 2]);
  });

  test('in the catalog', () => {
    const { world } = emptyBooks();
    world.addVolume({ id: 'v1' });
    world.addVolume({ id: 'v2' });
    const rules = new Rules([
      { id: 'lost', path: '/mylibrary/**', times: 1, fault: { ...DOWN, work: 'done' } },
      { path: '/mylibrary/**', after: 1, times: 1, fault: { kind: 'reset', after: 'before', work: 'undone' } },
    ]);
    const { post, service } = askingBooks(world, { rules });
    expect(post('/mylibrary/bookshelves/3/addVolume?volumeId=v1')).toMatchObject({ status: 503, text: '' });
    expect(world.shelf(ME, 3).volumes).toEqual(['v1']);
    expect(post('/mylibrary/bookshelves/3/addVolume?volumeId=v2')).toMatchObject({ broken: 'before' });
    expect(world.shelf(ME, 3).volumes).toEqual(['v1']);
    expect(service.requests.map(({ rules }) => rules)).toEqual([['lost'], ['rule-1']]);
  });
});

describe('what happens to the service', () => {
  test('another client uses credits, which the reply tells already', () => {
    const { world } = emptyWorld();
    const rules = new Rules([{ after: 1, times: 1, fault: { kind: 'credits', credits: 50 } }]);
    const { get } = asking(world, { rules, credits: 100 });
    const left = () => get('/users').headers['Rate-Limit-Remaining'];
    expect([left(), left(), left()]).toEqual(['99', '48', '47']);
  });

  test('requests of the catalog’s day', () => {
    const { world } = emptyBooks();
    const rules = new Rules([{ service: 'books', times: 1, fault: { kind: 'credits', credits: 9 } }]);
    const { get } = askingBooks(world, { rules, requestsPerDay: 10 });
    expect([get('/mylibrary/bookshelves').status, get('/mylibrary/bookshelves').status]).toEqual([200, 403]);
  });

  test('its clock jumps, and its limits go on by another one', () => {
    const { world, clock } = emptyWorld();
    const rules = new Rules([{ after: 1, times: 1, fault: { kind: 'clock', seconds: 3600 } }]);
    const { get, send, service } = asking(world, { rules, credits: 100 });
    const told = () => {
      const { headers } = get('/users');
      return [headers.Date!.slice(17, 25), headers['Rate-Limit-Remaining'], headers['Rate-Limit-Reset']];
    };
    const before = told();
    clock.ms += 10_000;
    expect([before, told()]).toEqual([
      ['12:00:00', '99', '60'],
      ['13:00:10', '98', '50'],
    ]);
    const made = send('POST', '/customers', {}).json;
    expect(world.customer(made.id).created_at).toBe('2024-05-01T13:00:10Z');
    expect(service.requests.at(-1)!.at).toBe(clock.ms);
    rules.set([{ fault: { kind: 'clock', seconds: -7200 } }]);
    expect(told()[0]).toBe('11:00:10');
  });
});

describe('the catalog', () => {
  function shelf(...rules: object[]) {
    const { world } = emptyBooks();
    const price = { listPrice: { amount: '1.334E7', currencyCode: 'EUR' } };
    for (const id of ['v1', 'v2']) {
      world.addVolume({ id, saleInfo: { saleability: 'FOR_SALE', isEbook: true, ...price } as never });
      world.add(ME, 0, id);
    }
    return askingBooks(world, { rules: new Rules(rules), totalItems: 'true' });
  }
  const VOLUMES = '/mylibrary/bookshelves/0/volumes';

  test('rows are those of `items`, ids may be numbers, and prices stay as they are written', () => {
    expect(itemIds(shelf({ fault: { kind: 'duplicate', id: 'v1' } }).get(VOLUMES))).toBe('v2 v1 v1');
    const { text } = shelf({ fault: { kind: 'set', id: 'v1', field: 'volumeInfo.title', value: 5 } }).get(VOLUMES);
    expect(text).toContain('"title":5');
    expect(text).toContain('1.334E7');
    const shelves = shelf({ fault: { kind: 'set', id: 4, field: 'title', value: 'Mine' } }).get(
      '/mylibrary/bookshelves',
    );
    expect(shelves.json.items[4].title).toBe('Mine');
  });

  test('its errors have its form', () => {
    const quota = { kind: 'status', status: 403, reason: 'dailyLimitExceeded' };
    expect(shelf({ fault: quota }).get(VOLUMES)).toMatchObject({
      status: 403,
      json: { error: { code: 403, errors: [{ reason: 'dailyLimitExceeded' }] } },
    });
  });

  test('its access tokens are a service of their own', () => {
    const { refresh, get } = shelf({ service: 'token', times: 1, fault: { kind: 'status', status: 401 } });
    const form = {
      grant_type: 'refresh_token',
      client_id: 'sandbox-client',
      client_secret: 'sandbox-secret',
      refresh_token: 'sandbox-refresh',
    };
    expect(get(VOLUMES).status).toBe(200);
    expect(refresh(form)).toMatchObject({ status: 401, json: { error: 'temporarily_unavailable' } });
    expect(refresh(form)).toMatchObject({ status: 200 });
  });
});

describe('rules change while it runs', () => {
  test('added, replaced, removed, and their counts', () => {
    const { get, rules } = desk({ id: 'down', fault: DOWN });
    const status = () => get('/users').status;
    expect(status()).toBe(503);
    expect(rules.add({ path: '/users', fault: { kind: 'html' } })).toMatchObject({ rule: { id: 'rule-1' }, fired: 0 });
    rules.replace('down', { fault: { kind: 'status', status: 500 }, times: 1 });
    expect(rules.list().map(({ rule, fired }) => [rule.id, fired])).toEqual([
      ['down', 0],
      ['rule-1', 0],
    ]);
    expect(rules.get('down')).toMatchObject({ rule: { times: 1 }, matched: 0 });
    expect([rules.remove('rule-1'), rules.remove('rule-1')]).toEqual([true, false]);
    expect([status(), status()]).toEqual([500, 200]);
    rules.clear();
    expect(rules.list()).toEqual([]);
  });

  test('a name stays given: the next without one is called otherwise', () => {
    const rules = new Rules([{ fault: DOWN }, { fault: DOWN }]);
    rules.remove('rule-2');
    expect(rules.add({ fault: DOWN }).rule.id).toBe('rule-3');
  });

  test('nor is a name made that somebody has given', () => {
    const rules = new Rules([{ fault: DOWN }, { id: 'rule-2', fault: DOWN }]);
    expect(rules.add({ fault: DOWN }).rule.id).toBe('rule-3');
    rules.set([{ fault: DOWN }, { id: 'rule-4', fault: DOWN }, { fault: DOWN }]);
    expect(rules.list().map(({ rule }) => rule.id)).toEqual(['rule-5', 'rule-4', 'rule-6']);
  });

  test('where one is wrong, nothing changes', () => {
    const { rules } = desk({ id: 'down', fault: DOWN });
    expect(() => rules.set([{ fault: DOWN }, { fault: {} }])).toThrow(RuleError);
    expect(() => rules.add({ id: 'down', fault: DOWN })).toThrow('id: there is a rule "down" already');
    expect(
      () =>
        new Rules([
          { id: 'x', fault: DOWN },
          { id: 'x', fault: DOWN },
        ]),
    ).toThrow('two rules are called "x"');
    expect(rules.list()).toMatchObject([{ rule: { id: 'down' } }]);
  });

  test.for<[rules: unknown, problem: string]>([
    [{}, 'They have to be a list: [{"fault": {…}}, …]'],
    [[5], 'has to be an object, with at least a "fault"'],
    [[{}], 'fault: has to be an object that says what goes wrong, such as {"kind": "status", "status": 503}'],
    [[{ fault: { kind: 'boom' } }], `fault.kind: has to be one of ${FAULT_KINDS.join(', ')}`],
    [
      [{ fault: { kind: 'delay' } }],
      'fault.ms: has to be how late the reply is in milliseconds: a whole number, 0 to 2147483647',
    ],
    [[{ fault: { kind: 'status', status: 42 } }], 'fault.status: has to be an HTTP status: a whole number, 300 to 599'],
    [
      [{ fault: { kind: 'headers', set: { 'a b': 'c' } } }],
      'fault.set.a b: has to have the name of a header: letters, digits and hyphens',
    ],
    [
      [{ fault: { kind: 'headers', set: { a: 'b\nc' } } }],
      'fault.set.a: has to be a value that a header can have: one line, of Latin letters and signs',
    ],
    [
      [{ fault: { ...DOWN, headers: { 'Retry-After': '7 ☃' } } }],
      'fault.headers.Retry-After: has to be a value that a header can have: one line, of Latin letters and signs',
    ],
    [
      [{ fault: { kind: 'headers', set: { Trailer: 'x' } } }],
      'fault.set.Trailer: has to be another header: no body here has a trailer',
    ],
    [[{ fault: { kind: 'reset', after: 'lunch' } }], 'fault.after: has to be one of before, headers, half'],
    [
      [{ fault: { kind: 'lag', seconds: '5' } }],
      'fault.seconds: has to be how far behind the copy is in seconds: a number, 0 to 3600',
    ],
    [
      [{ fault: { kind: 'lag', seconds: 3601 } }],
      'fault.seconds: has to be how far behind the copy is in seconds: a number, 0 to 3600',
    ],
    [[{ fault: { ...DOWN, mss: 5 } }], 'fault: there is no "mss"; is it misspelt, or of another kind of fault?'],
    [[{ fault: DOWN, pth: '/x' }], 'there is no "pth"; is it misspelt, or of another kind of fault?'],
    [[{ fault: DOWN }, { fault: DOWN, service: 'mail' }], 'rule 2, service: has to be one of helpdesk, books, token'],
    [[{ fault: DOWN, path: 'tickets' }], 'path: has to begin with a slash, as in /tickets/*'],
    [
      [{ fault: DOWN, path: '/api/v1/tickets' }],
      'path: has to be what comes below the base address: /tickets, not /api/v1/tickets',
    ],
    [[{ fault: DOWN, every: 0 }], 'every: has to be which of them goes wrong, each nth: a whole number, 1 or more'],
    [[{ fault: DOWN, share: 30 }], 'share: has to be a share, at most 1: 0.05 for five of a hundred'],
    [[{ fault: DOWN, method: 'post' }], 'method: has to be a verb in capitals, such as "POST"'],
  ])('%o: %s', ([rules, problem]) => {
    const read = () => new Rules(rules);
    expect(read).toThrow(RuleError);
    try {
      read();
    } catch (error) {
      expect((error as RuleError).problems).toEqual([problem]);
    }
  });
});
