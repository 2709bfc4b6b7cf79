/** The help desk beyond the table of cases: ties within a second, deletions, logs and hooks. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test, vi } from 'vitest';
import { keep, type SeenRequest } from '../src/http/request-reply.ts';
import { asking, emptyWorld, ids } from './in-process.ts';

function smallDesk() {
  const { world, clock } = emptyWorld();
  world.addUser({ id: 'u1' });
  world.customers.add({ id: 'k1' });
  world.customers.add({ id: 'k2' });
  world.addTicket({ id: 't1', customer_id: 'k1', subject: 'Hi' });
  return { world, clock };
}

describe('within one second', () => {
  const second = '2024-04-05T08:00:00Z';
  function desk() {
    const { world } = emptyWorld();
    world.addTicket({ id: 'before', updated_at: '2024-04-05T07:59:59Z' });
    for (const id of ['a', 'b', 'c']) world.addTicket({ id, updated_at: second });
    world.touch('a', second);
    return asking(world);
  }

  test('what was updated first comes first, and last where the order is descending', () => {
    const { get } = desk();
    expect(ids(get('/tickets?sort=updated_at'))).toEqual(['before', 'b', 'c', 'a']);
    expect(ids(get('/tickets?sort=-updated_at'))).toEqual(['a', 'c', 'b', 'before']);
    expect(ids(get(`/tickets?sort=updated_at&since_updated_at=${second}&per_page=2&page=2`))).toEqual(['a']);
  });

  test('what was created later has the larger number, and comes first by default', () => {
    const { world } = emptyWorld();
    for (const id of ['a', 'b', 'c']) world.addTicket({ id, created_at: second });
    expect(ids(asking(world).get('/tickets'))).toEqual(['c', 'b', 'a']);
  });
});

test('a deleted ticket is 404, and so are its attachments', () => {
  const { world } = smallDesk();
  const message = world.addMessage('t1', { body: 'see below' });
  const file = world.addAttachment('t1', message.id, { name: 'ü.png', size: 7, type: 'image/png' });
  const { get } = asking(world);
  expect(get('/tickets/t1?embed=messages').json.messages[0].attachments).toStrictEqual([file]);
  expect(get(`/attachments/${file.id}`).json).toStrictEqual(file);
  world.deleteTicket('t1');
  for (const path of ['/tickets/t1', `/attachments/${file.id}`]) expect(get(path).status).toBe(404);
});

test('a mistake of the sandbox’s own is a 500 like any other: told of, charged and written down', () => {
  const warned = vi.spyOn(process, 'emitWarning').mockReturnValue();
  const { service, get } = asking(smallDesk().world, {
    credits: 5,
    before: () => {
      throw new Error('a mistake');
    },
  });
  const { status, text, headers } = get('/tickets/t1?embed=labels');
  expect([status, text, headers['Rate-Limit-Used'], headers['Rate-Limit-Remaining']]).toEqual([500, '', '2', '3']);
  expect(service.requests.map(({ path, cost, status }) => [path, cost, status])).toEqual([['/tickets/t1', 2, 500]]);
  expect(service.clients.uses()).toMatchObject([{ requests: 1, credits: 2 }]);
  expect(warned.mock.calls).toEqual([[new Error('a mistake')]]);
  warned.mockRestore();
});

test('a token without a character is nobody’s, whatever was ordered', () => {
  const { exactly, get } = asking(smallDesk().world, { tokens: ['', 'real'], blockedToken: '' });
  expect(exactly('GET', '/api/v1/users', {}).status).toBe(401);
  expect(exactly('GET', '/api/v1/users', { authorization: `Basic ${btoa(':')}` }).status).toBe(401);
  expect(get('/users', { authorization: 'Bearer real' }).status).toBe(200);
});

test('a page beyond the depth says how to go on', () => {
  const { get } = asking(smallDesk().world, { depth: 4 });
  expect(get('/tickets?per_page=2&page=3').json).toStrictEqual({
    message: 'Unprocessable Entity',
    errors: [{ message: 'page: lists are 4 deep; use since_created_at to read on' }],
  });
});

describe('what tests see and do', () => {
  test('every answered request is kept, with what it cost and what it was answered', () => {
    const { service, get } = asking(smallDesk().world, { credits: 3 });
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
    const { world } = smallDesk();
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

  test('what is kept of a request is not the whole line that a stranger has sent', () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const { service } = asking(smallDesk().world);
    const long = 'x'.repeat(15_000);
    const lines = [`/users?a=${long}`, `/${long}`, `/users?${'&'.repeat(15_000)}a_name_that_is_a_slice=1`];
    const held = () => {
      collect();
      return process.memoryUsage().heapUsed;
    };
    const before = held();
    for (let n = 0; n < 999; n++) {
      // Each a text of its own, as from a socket.
      const [url, agent] = [`/api/v1${lines[n % 3]}`, long].map(text => Buffer.from(text).toString());
      service.handle({ method: 'GET', url: url!, headers: { 'user-agent': agent } });
    }
    expect(held() - before).toBeLessThan(3_000_000);
  });

  test('of very many requests at least the last 100,000 are kept, and not many more', () => {
    const requests: SeenRequest[] = [];
    const seen = { method: 'GET', path: '/users', query: new URLSearchParams(), cost: 1 };
    for (let n = 0; n < 250_000; n++) {
      keep(requests, { ...seen, at: n });
      if (requests.length > 110_000) throw new Error(`${requests.length} are kept`);
    }
    expect(requests.length).toBeGreaterThanOrEqual(100_000);
    expect(requests.map(({ at }) => at)).toEqual(requests.map((_, at) => 250_000 - requests.length + at));
  });
});

test('of what strangers send the log keeps a little', () => {
  const { world } = smallDesk();
  const { ask, service } = asking(world, { credits: 1 });
  const long = 'x'.repeat(15_000);
  const agent = { 'user-agent': long };
  ask('GET', `/tickets/t1?fields=id&a=${long}&b=${long}`, agent);
  ask('GET', `/${long}?${'=&'.repeat(5000)}`, agent);
  const [first, second] = service.requests;
  expect(first!.query.toString()).toBe(`fields=id&a=${'x'.repeat(489)}`);
  expect([second!.path, second!.query.size]).toEqual([`/${'x'.repeat(499)}`, 250]);
  expect(service.clients.uses()).toMatchObject([{ agent: 'x'.repeat(200) }]);
  expect(service.clients.refusals).toMatchObject([{ request: `GET /${'x'.repeat(495)}` }]);
});
