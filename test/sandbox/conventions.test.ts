import { describe, expect, test } from 'vitest';
import type { Asked } from '../../src/sandbox/exchange.ts';
import type { ServiceOptions } from '../../src/sandbox/helpdesk/service.ts';
import { asking, emptyWorld, ids } from './asking.ts';

/** One user after the other, three customers on three days, one ticket. */
function smallWorld() {
  const { world, clock } = emptyWorld();
  for (let n = 1; n <= 12; n++)
    world.addUser({ id: `u${n}`, first_name: 'U', last_name: `${n}`, email: `u${n}@desk.example` });
  world.addCustomer({ id: 'k1', first_name: 'Ada', last_name: '', created_at: '2024-01-01T10:00:00Z' });
  world.addCustomer({ id: 'k2', created_at: '2024-01-02T10:00:00Z' });
  world.addCustomer({ id: 'k3', created_at: '2024-01-03T10:00:00Z' });
  world.addContact('k1', { id: 'c1', type: 'email', value: 'a@x.example' });
  world.addContact('k1', { id: 'c2', type: 'phone', value: '+4420' });
  world.addContact('k2', { id: 'c3', type: 'twitter', value: 'a@x.example' });
  world.addTicket({ id: 't1', customer_id: 'k1', subject: 'Hi' });
  return { world, clock };
}

const get = (path: string, options?: ServiceOptions) => asking(smallWorld().world, options).get(path);

describe('4 users, customers, attachments', () => {
  const newestFirst = 'u12 u11 u10 u9 u8 u7 u6 u5 u4 u3 u2 u1';
  test.each<[section: string, path: string, expected: string]>([
    ['4 users: no pages', '/users', newestFirst],
    ['4 users: no pages, whatever is asked', '/users?page=2&per_page=5', newestFirst],
    ['4 customers: the newest first', '/customers', 'k3 k2 k1'],
    ['4 customers sort', '/customers?sort=created_at', 'k1 k2 k3'],
    ['4 customers pages', '/customers?sort=created_at&per_page=2&page=2', 'k3'],
    ['4 customers since', '/customers?since_created_at=2024-01-02T10:00:00Z', 'k3 k2'],
    ['4 customers since with sort', '/customers?since_created_at=2024-01-02T10:00:00.5Z&sort=created_at', 'k3'],
    ['4 customers contact', '/customers?contacts.type=email&contacts.value=a@x.example', 'k1'],
    ['4 customers contact', '/customers?contacts.type=twitter&contacts.value=a%40x.example', 'k2'],
    [
      '4 customers contact: both have to be of one contact',
      '/customers?contacts.type=phone&contacts.value=a@x.example',
      '',
    ],
    ['4 customers contact, its type alone', '/customers?contacts.type=phone', 'k1'],
    ['4 customers contact, its value alone', '/customers?contacts.value=a@x.example', 'k2 k1'],
    ['4 customers contact that was never encoded', '/customers?contacts.type=phone&contacts.value=+4420', ''],
    ['4 customers contact, a phone number', '/customers?contacts.type=phone&contacts.value=%2B4420', 'k1'],
  ])('%s: %s → %s', (_, path, expected) => {
    expect(ids(get(path)).join(' ')).toBe(expected);
  });

  test('2 customer: the whole record, which has no times', () => {
    const record = {
      id: 'k1',
      first_name: 'Ada',
      last_name: '',
      summary: null,
      contacts: [
        { id: 'c1', type: 'email', value: 'a@x.example' },
        { id: 'c2', type: 'phone', value: '+4420' },
      ],
    };
    expect(get('/customers/k1').json).toStrictEqual(record);
    expect(get('/customers?per_page=1&page=3').json).toStrictEqual([record]);
    expect(get('/customers/k2').json).toMatchObject({ id: 'k2', first_name: null, last_name: null });
  });

  test('2 user: the whole record', () => {
    const user = { id: 'u1', first_name: 'U', last_name: '1', email: 'u1@desk.example' };
    expect(get('/users').json.at(-1)).toStrictEqual(user);
  });

  test('4 attachments: one by its id', () => {
    const { world } = smallWorld();
    const message = world.addMessage('t1', { body: 'see below' });
    const file = world.addAttachment('t1', message.id, { name: 'ü.png', size: 7, type: 'image/png' });
    const ask = asking(world);
    expect(ask.get(`/attachments/${file.id}`).json).toStrictEqual({
      id: file.id,
      name: 'ü.png',
      size: 7,
      type: 'image/png',
    });
    expect(ask.get('/tickets/t1?embed=messages').json.messages[0].attachments).toStrictEqual([file]);
  });

  test.each<[section: string, path: string, total: string | undefined, cost: string]>([
    ['1 counting', '/customers?count=true&per_page=1', '3', '2'],
    ['1 counting', '/customers?count=true&since_created_at=2024-01-02T10:00:00Z', '2', '2'],
    ['1 counting', '/customers?count=true&contacts.type=email', '1', '2'],
    ['1 counting on any collection', '/users?count=true', '12', '2'],
    ['1 embedding: not from everywhere', '/customers?embed=tickets', undefined, '1'],
    ['8 cost', '/customers/k1', undefined, '1'],
  ])('%s: %s', (_, path, total, cost) => {
    const { headers } = get(path);
    expect([headers['Total-Count'], headers['Rate-Limit-Used']]).toEqual([total, cost]);
  });

  test.each([
    ['4 customers sort', '/customers?sort=updated_at', 400],
    ['4 customers contact', '/customers?contacts.type=fax', 400],
    ['8 page size', '/customers?per_page=101', 400],
    ['8 depth', '/customers?per_page=100&page=101', 422],
    ['7', '/customers/nobody', 404],
    ['7', '/attachments/nothing', 404],
    ['7', '/labels', 404],
    ['7', '/', 404],
    ['7', '/users/u1', 404],
    ['7', '/tickets/%E0%A4%A', 404],
  ])('%s: %s → %i', (_, path, status) => {
    const got = get(path);
    expect(got).toMatchObject({ status, json: { message: expect.any(String) } });
    expect(got.headers['Content-Type']).toBe('application/json');
  });

  test('1 field filtering applies to all responses', () => {
    expect(get('/users?fields=email').json.at(-1)).toStrictEqual({ email: 'u1@desk.example' });
    expect(get('/customers/none?fields=id').json).toStrictEqual({ message: 'There is no customer none' });
    expect(get('/customers/k1?fields=id,last_name').json).toStrictEqual({ id: 'k1', last_name: '' });
  });
});

describe('1 enveloping', () => {
  const budget = {
    'Rate-Limit-Limit': '100',
    'Rate-Limit-Remaining': '98',
    'Rate-Limit-Used': '2',
    'Rate-Limit-Reset': '60',
  };
  const limited = { credits: 100 };

  test('status is always 200, the real one and the real headers are inside', () => {
    const got = get('/users?count=true&fields=id&envelope=true', limited);
    expect(got.status).toBe(200);
    expect(got.json).toStrictEqual({
      status: 200,
      headers: {
        Date: 'Wed, 01 May 2024 12:00:00 GMT',
        'Content-Type': 'application/json',
        ...budget,
        'Total-Count': '12',
      },
      response: got.json.response,
    });
    expect(got.json.response.at(-1)).toStrictEqual({ id: 'u1' });
    expect(got.headers).toMatchObject({ ...budget, 'Total-Count': '12' });
  });

  test.each<[section: string, path: string, options: ServiceOptions, status: number]>([
    ['7.4', '/tickets/nobody?envelope=true', {}, 404],
    ['7.4', '/tickets?sort=x&envelope=true', {}, 400],
    ['7.4', '/tickets?page=2000&envelope=true', {}, 422],
    ['7.4', '/tickets?envelope=true', { credits: 0 }, 429],
  ])('%s: errors too: %s', (_, path, options, status) => {
    expect(get(path, options)).toMatchObject({
      status: 200,
      json: { status, headers: { 'Rate-Limit-Limit': expect.any(String) }, response: { message: expect.any(String) } },
    });
  });

  test('envelope=false is none', () => {
    expect(get('/users?envelope=false').json).toHaveLength(12);
  });
});

describe('5 authentication', () => {
  const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;
  test.each<[section: string, authorization: string | undefined, status: number]>([
    ['5.2', 'Bearer secret', 200],
    ['5.2, schemes have no case', 'bearer secret', 200],
    ['5.3', basic('secret:x'), 200],
    ['5.3, any password', basic('secret:with:colons'), 200],
    ['5.3, none', basic('secret'), 200],
    ['5.5', undefined, 401],
    ['5.5', '', 401],
    ['5.5', 'Bearer', 401],
    ['5.5', 'Bearer wrong', 401],
    ['5.5', 'Bearer secret too', 401],
    ['5.5', 'secret', 401],
    ['5.5', 'Token secret', 401],
    ['5.5', basic('x:secret'), 401],
  ])('%s: %s → %i', (_, authorization, status) => {
    const { service } = asking(smallWorld().world, { tokens: ['secret'], credits: 100 });
    const reply = service.handle({ method: 'GET', url: '/api/v1/users', headers: { authorization } });
    expect(reply.status).toBe(status);
    // Whoever is nobody costs the account nothing.
    expect(reply.headers['Rate-Limit-Remaining']).toBe(status === 200 ? '99' : '100');
    if (status === 401) expect(JSON.parse(reply.text)).toStrictEqual({ message: 'Unauthorized' });
  });
});

describe('9.2 the prefix, and 1 the verbs', () => {
  test.each<[asked: Partial<Asked>, status: number]>([
    [{ url: '/api/v1/users' }, 200],
    [{ url: '/api/v1/users?a=b?c' }, 200],
    [{ url: '/users' }, 404],
    [{ url: '/api/v2/users' }, 404],
    [{ url: '/api/v1' }, 404],
    [{ url: '*' }, 404],
    [{ url: '/api/v1/users', headers: { 'content-type': 'application/json' } }, 200],
    [{ url: '/api/v1/users', method: 'DELETE' }, 405],
  ])('%o → %i', (asked, status) => {
    const { service } = asking(smallWorld().world);
    const authorization = `Bearer ${service.tokens[0]}`;
    const reply = service.handle({ method: 'GET', url: '', ...asked, headers: { authorization, ...asked.headers } });
    expect(reply.status).toBe(status);
    expect(reply.headers['Rate-Limit-Used']).toBe('1');
  });

  test('what is not offered says so, under the verb it stands for', () => {
    const got = asking(smallWorld().world).ask('POST', '/users', { 'x-http-method-override': 'delete' });
    expect([got.status, got.json.message]).toEqual([405, 'DELETE is not offered at /users']);
  });
});

describe('what tests see and do', () => {
  test('every answered request is kept, with what it cost and what it was answered', () => {
    const { service, get } = asking(smallWorld().world, { credits: 3 });
    get('/tickets/t1?embed=labels');
    get('/tickets/none');
    get('/users');
    service.handle({ method: 'GET', url: '/api/v1/users', headers: {} });
    expect(service.requests.map(({ path, cost, status }) => [path, cost, status])).toEqual([
      ['/tickets/t1', 2, 200],
      ['/tickets/none', 1, 404],
      ['/users', 0, 429],
      ['/users', 0, 401],
    ]);
    expect(service.requests[0]!.query.get('embed')).toBe('labels');
    expect(service.totals).toEqual({ requests: 4, credits: 3, refused: 1 });
  });

  test('`before` changes the world ahead of the answer, and is not called for who is refused', () => {
    const { world } = smallWorld();
    const seen: string[] = [];
    const { get } = asking(world, {
      credits: 2,
      before: ({ path, cost }, n) => {
        seen.push(`${n} ${path} ${cost}`);
        world.touch('t1', '2024-05-01T13:00:00Z');
      },
    });
    expect(get('/tickets/t1?embed=labels').json.updated_at).toBe('2024-05-01T13:00:00Z');
    expect(get('/users').status).toBe(429);
    expect(seen).toEqual(['1 /tickets/t1 2']);
  });

  test('of very many requests the last 100,000 are kept, and all are counted', () => {
    const { service, get } = asking(smallWorld().world);
    get('/customers/k1');
    for (let n = 0; n < 100_000; n++) get('/customers/k2');
    expect(service.requests).toHaveLength(100_000);
    expect(service.requests[0]!.path).toBe('/customers/k2');
    expect(service.totals.requests).toBe(100_001);
  });
});
