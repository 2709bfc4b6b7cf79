import { describe, expect, test } from 'vitest';
import type { ServiceOptions } from '../../src/sandbox/helpdesk/service.ts';
import { asking, emptyWorld, ids } from './asking.ts';

/** Six tickets, created a < b < … < f, updated in the order d, a, b, c (c and e in one second, c first), e, f. */
function sixTickets() {
  const { world, clock } = emptyWorld();
  world.addInbox({ id: 'in1', name: 'Support' });
  world.addInbox({ id: 'in2', name: 'Orders' });
  world.addUser({ id: 'u1', first_name: 'Ines', last_name: null, email: 'ines@desk.example' });
  world.addUser({ id: 'u2' });
  world.addLabel({ id: 'l1', name: 'refund' });
  world.addLabel({ id: 'l2', name: 'VIP' });
  world.addCustomer({ id: 'k1', first_name: 'Noah' });
  const day = (n: number) => `2024-04-0${n}T08:00:00Z`;
  const at = (created: number, updated: number) => ({ created_at: day(created), updated_at: day(updated) });
  world.addTicket({ id: 'a', ...at(1, 3), user_id: 'u2', inbox_id: 'in1', label_ids: ['l1'], state: 'open' });
  world.addTicket({ id: 'b', ...at(2, 4), user_id: 'u1', inbox_id: 'in2', label_ids: ['l2', 'l1'], state: 'hold' });
  world.addTicket({ id: 'c', ...at(3, 5), user_id: null, inbox_id: 'in1', state: 'closed', type: 'chat' });
  world.addTicket({ id: 'd', ...at(4, 2), user_id: 'u1', inbox_id: 'in2', state: 'snoozed', type: 'sms' });
  world.addTicket({ id: 'e', ...at(5, 5), user_id: null, inbox_id: 'in1', spam: true, label_ids: ['l2'] });
  world.addTicket({ id: 'f', ...at(6, 6), user_id: 'u2', inbox_id: 'in1', trash: true, state: 'archived' });
  return { world, clock };
}

const list = (query: string, options?: ServiceOptions) => asking(sixTickets().world, options).get(`/tickets${query}`);

describe('GET /tickets: which, and in which order', () => {
  test.each<[section: string, query: string, expected: string]>([
    ['1 sorting: the default is descending creation time', '', 'f e d c b a'],
    ['4 sort', '?sort=created_at', 'a b c d e f'],
    ['4 sort', '?sort=-created_at', 'f e d c b a'],
    ['4 sort', '?sort=updated_at', 'd a b c e f'],
    ['4 sort', '?sort=-updated_at', 'f e c b a d'],
    ['4 sort', '?sort=user_id,-updated_at', 'b d f a e c'],
    ['4 sort, the comma encoded', '?sort=user_id%2C-updated_at', 'b d f a e c'],
    ['4 id: comma separated', '?id=f,a,nobody', 'f a'],
    ['4 inbox_id', '?inbox_id=in2', 'd b'],
    ['4 inbox_id, two', '?inbox_id=in1,in2', 'f e d c b a'],
    ['4 state', '?state=open', 'e a'],
    ['4 state: comma separated', '?state=hold,closed', 'c b'],
    ['4 state: repeated', '?state=hold&state=closed', 'c b'],
    ['4 user_id', '?user_id=u1', 'd b'],
    ['4 user_id: the word null', '?user_id=null', 'e c'],
    ['4 user_id: null among others', '?user_id=u1,null', 'e d c b'],
    ['4 user_id: empty means null', '?user_id=', 'e c'],
    ['4 user_id: empty among others', '?user_id=&user_id=u1', 'e d c b'],
    ['4 label_id: any of them', '?label_id=l1', 'b a'],
    ['4 label_id: comma separated', '?label_id=l1,l2', 'e b a'],
    ['4 label_id: unknown', '?label_id=l9', ''],
    ['4 type', '?type=sms,chat', 'd c'],
    ['4 spam', '?spam=true', 'e'],
    ['4 spam', '?spam=false', 'f d c b a'],
    ['4 trash', '?trash=true', 'f'],
    ['4 trash', '?trash=false&spam=false', 'd c b a'],
    ['4 since_created_at', '?since_created_at=2024-04-04T08:00:01Z', 'f e'],
    ['4 since_updated_at', '?since_updated_at=2024-04-04T08:00:01Z', 'f e c'],
    ['4 since_updated_at with sort', '?since_updated_at=2024-04-04T08:00:01Z&sort=updated_at', 'c e f'],
    [
      '4 both since with sort',
      '?since_updated_at=2024-04-02T08:00:01Z&since_created_at=2024-04-02T08:00:01Z&sort=-updated_at',
      'f e c',
    ],
    ['4 since with the sort of users', '?since_updated_at=2024-04-05T07:00:00Z&sort=user_id,-updated_at', 'f e c'],
    ['4 since in the future', '?since_updated_at=2030-01-01T00:00:00Z', ''],
    ['1 pagination', '?per_page=2', 'f e'],
    ['1 pagination', '?per_page=2&page=2', 'd c'],
    ['1 pagination: behind the end', '?per_page=2&page=4', ''],
    ['1 pagination: ascending', '?per_page=4&page=2&sort=updated_at', 'e f'],
    ['1 pagination under a filter', '?per_page=2&page=2&spam=false', 'c b'],
    ['1 per_page may be 0', '?per_page=0', ''],
    ['filters together', '?inbox_id=in1&state=open,closed&user_id=null&spam=false', 'c'],
    ['an empty list is no list', '?id=&state=&label_id=', 'f e d c b a'],
    ['nobody knows what this means: ignored', '?flavour=mint', 'f e d c b a'],
  ])('%s: %s → %s', (_, query, expected) => {
    const got = list(query);
    expect(got.status).toBe(200);
    expect(ids(got).join(' ')).toBe(expected);
  });

  test('1 pagination: ten on a page unless told otherwise', () => {
    const { world } = emptyWorld();
    for (let n = 0; n < 12; n++) world.addTicket();
    expect(asking(world).get('/tickets').json).toHaveLength(10);
  });
});

describe('GET /tickets: readings that nobody knows', () => {
  const second = '2024-04-05T08:00:00';
  test.each<[since: string, inclusive: string, exclusive: string]>([
    [`${second}Z`, 'c e f', 'f'],
    [`${second}.000Z`, 'c e f', 'f'],
    [`${second}.001Z`, 'f', 'f'],
    [`${second}.0000001Z`, 'f', 'f'],
    ['2024-04-05T07:59:59.9Z', 'c e f', 'c e f'],
    ['2024-04-05T07:59:59Z', 'c e f', 'c e f'],
    [`${second}%2B00:00`, 'c e f', 'f'],
    ['2024-04-05T10:00:00%2B02%3A00', 'c e f', 'f'],
    ['2024-04-05T03:30:00-04:30', 'c e f', 'f'],
    ['0000-01-01T00:00:00%2B01:00', 'd a b c e f', 'd a b c e f'],
    ['9999-12-31T23:59:59Z', '', ''],
    ['9999-12-31T23:59:59-01:00', '', ''],
  ])('since_updated_at=%s: %s, or %s where the own second is not included', (since, inclusive, exclusive) => {
    const query = `?sort=updated_at&since_updated_at=${since}`;
    expect(ids(list(query)).join(' ')).toBe(inclusive);
    expect(ids(list(query, { sinceInclusive: false })).join(' ')).toBe(exclusive);
  });

  test.each<[options: ServiceOptions, query: string, expected: string]>([
    [{ spamListed: false }, '', 'f d c b a'],
    [{ spamListed: false }, '?spam=true', 'e'],
    [{ trashListed: false }, '', 'e d c b a'],
    [{ trashListed: false }, '?trash=true', 'f'],
    [{ spamListed: false, trashListed: false }, '', 'd c b a'],
    [{ spamListed: false, trashListed: false }, '?trash=true', 'f'],
    [{ spamListed: false, trashListed: false }, '?spam=true', 'e'],
    [{ archivedListed: false }, '', 'e d c b a'],
    [{ snoozedListed: false }, '', 'f e c b a'],
    [{ archivedListed: false, snoozedListed: false }, '?trash=true', ''],
    [{ archivedListed: false, snoozedListed: false }, '?state=open,hold', 'e b a'],
  ])('%o %s → %s', (options, query, expected) => {
    expect(ids(list(query, options)).join(' ')).toBe(expected);
  });

  test('8 depth: a page that begins beyond it is refused, or empty', () => {
    const depth = 4;
    expect(ids(list('?per_page=2&page=2', { depth })).join(' ')).toBe('d c');
    expect(ids(list('?per_page=3&page=2', { depth })).join(' ')).toBe('c b a');
    expect(list('?per_page=2&page=3', { depth })).toMatchObject({
      status: 422,
      json: {
        message: 'Unprocessable Entity',
        errors: [{ message: 'page: lists are 4 deep; use since_created_at to read on' }],
      },
    });
    expect(list('?per_page=2&page=3', { depth, beyondDepth: 'empty' })).toMatchObject({ status: 200, json: [] });
    expect(list('?page=1001').status).toBe(422);
    expect(list('?page=1000').status).toBe(200);
  });
});

describe('GET /tickets: counting, fields', () => {
  test.each<[section: string, query: string, options: ServiceOptions, total: string | undefined, cost: number]>([
    ['1 counting', '?count=true', {}, '6', 2],
    ['1 counting', '?count=false', {}, undefined, 1],
    ['1 counting', '', {}, undefined, 1],
    ['1 counting: all there are, not the page', '?count=true&per_page=2&page=3', {}, '6', 2],
    ['1 counting: a cheap total', '?count=true&per_page=0', {}, '6', 2],
    ['1 counting under filters', '?count=true&inbox_id=in1&spam=false', {}, '3', 2],
    ['1 counting under since', '?count=true&sort=updated_at&since_updated_at=2024-04-04T08:00:00Z', {}, '4', 2],
    ['unknown: the count may stop', '?count=true', { totalCountCap: 4 }, '4', 2],
    ['4: embed is not in the table of the list, so it is ignored and costs nothing', '?embed=labels', {}, undefined, 1],
  ])('%s: %s %o', (_, query, options, total, cost) => {
    const got = list(query, options);
    expect(got.headers['Total-Count']).toBe(total);
    expect(got.headers['Rate-Limit-Used']).toBe(String(cost));
  });

  test('2 ticket: the whole record, unset fields null, unset arrays empty', () => {
    const [got] = list('?id=c').json;
    expect(got).toStrictEqual({
      id: 'c',
      number: 1003,
      customer_id: 'k1',
      user_id: null,
      inbox_id: 'in1',
      label_ids: [],
      state: 'closed',
      snoozed_until: null,
      subject: null,
      type: 'chat',
      spam: false,
      trash: false,
      updated_at: '2024-04-05T08:00:00Z',
      created_at: '2024-04-03T08:00:00Z',
      reply_to: null,
      reply_cc: null,
      summary: null,
    });
  });

  test('1 fields: only those, in every row; unknown ones are nothing', () => {
    expect(list('?id=a,b&fields=updated_at,id,flavour').json).toStrictEqual([
      { id: 'b', updated_at: '2024-04-04T08:00:00Z' },
      { id: 'a', updated_at: '2024-04-03T08:00:00Z' },
    ]);
  });
});

describe('GET /tickets: what cannot be parsed is 400', () => {
  test.each([
    '?page=0',
    '?page=-1',
    '?page=1.5',
    '?page=one',
    '?page=',
    '?per_page=101',
    '?per_page=-1',
    '?per_page=ten',
    '?state=snoozed',
    '?state=open,archived',
    '?type=letter',
    '?spam=yes',
    '?trash=1',
    '?count=1',
    '?sort=number',
    '?sort=-user_id',
    '?sort=updated_at,created_at',
    '?since_updated_at=yesterday',
    '?since_updated_at=',
    '?since_updated_at=2024-04-05',
    '?since_updated_at=2024-04-05T08:00:00',
    '?since_updated_at=2024-13-05T08:00:00Z',
    '?since_updated_at=2024-02-30T08:00:00Z',
    '?since_updated_at=1712304000',
    // A plus sign that was not encoded arrives as a blank.
    '?since_created_at=2024-04-05T08:00:00+00:00',
  ])('%s', query => {
    const got = list(query);
    const name = /\?(\w+)/.exec(query)?.[1];
    expect(got.status).toBe(400);
    expect(got.headers['Content-Type']).toBe('application/json');
    expect(got.json).toStrictEqual({ message: expect.stringContaining(`${name}: `) });
  });
});

describe('GET /tickets/<id>', () => {
  function conversation() {
    const { world } = sixTickets();
    world.patchCustomer('k1', { last_name: 'Li' });
    world.addContact('k1', { id: 'co1', type: 'email', value: 'noah@mail.example' });
    const file = { id: 'f1', name: 'a.pdf', size: 3, type: 'application/pdf' };
    world.addMessage('b', {
      id: 'm1',
      body: '<p>hi</p>',
      htmlized: true,
      from: 'noah@mail.example',
      attachments: [file],
    });
    world.addNote('b', { id: 'm2', body: 'call back', user_id: 'u1', from_name: 'Ines' });
    return world;
  }
  const reply = {
    id: 'm1',
    type: 'reply',
    direction: 'in',
    from_name: null,
    from: 'noah@mail.example',
    to: null,
    body: '<p>hi</p>',
    more_body: null,
    htmlized: true,
    attachments: [{ id: 'f1', name: 'a.pdf', size: 3, type: 'application/pdf' }],
    user_id: null,
    created_at: '2024-05-01T12:00:00Z',
  };
  const note = {
    id: 'm2',
    type: 'note',
    from_name: 'Ines',
    body: 'call back',
    htmlized: false,
    attachments: [],
    user_id: 'u1',
    created_at: '2024-05-01T12:00:00Z',
  };
  const customer = {
    id: 'k1',
    first_name: 'Noah',
    last_name: 'Li',
    summary: null,
    contacts: [{ id: 'co1', type: 'email', value: 'noah@mail.example' }],
  };
  const labels = [
    { id: 'l2', name: 'VIP' },
    { id: 'l1', name: 'refund' },
  ];
  const user = { id: 'u1', first_name: 'Ines', last_name: null, email: 'ines@desk.example' };
  const inbox = { id: 'in2', name: 'Orders' };

  test.each<[section: string, path: string, embedded: object, cost: number]>([
    ['4', '/tickets/b', {}, 1],
    ['4 embed', '/tickets/b?embed=messages', { messages: [reply, note] }, 2],
    ['4 embed, repeated', '/tickets/b?embed=labels&embed=user', { labels, user }, 3],
    ['4 embed, all', '/tickets/b?embed=user,inbox,customer,labels', { user, inbox, customer, labels }, 5],
    ['4 embed, one type twice', '/tickets/b?embed=inbox,inbox', { inbox }, 2],
    ['4 embed, the deprecated one', '/tickets/b?embed=group', { group: inbox }, 2],
    [
      '2 unset: nobody is assigned',
      '/tickets/c?embed=user,labels,messages',
      { user: null, labels: [], messages: [] },
      4,
    ],
    ['1 counting is for collections', '/tickets/b?count=true', {}, 1],
  ])('%s: %s', (_, path, embedded, cost) => {
    const ask = asking(conversation());
    const bare = ask.get(path.split('?')[0]!).json;
    const got = ask.get(path);
    expect(got.json).toStrictEqual({ ...bare, ...embedded });
    expect(got.headers['Rate-Limit-Used']).toBe(String(cost));
    expect(got.headers['Total-Count']).toBeUndefined();
  });

  test('1 fields: the embedded objects have to be named as well', () => {
    const { get } = asking(conversation());
    expect(get('/tickets/b?embed=user&fields=id').json).toStrictEqual({ id: 'b' });
    expect(get('/tickets/b?embed=user&fields=id,user').json).toStrictEqual({ id: 'b', user });
  });

  test('1 embedding: a type that is not offered here is 400, and costs what the rest costs', () => {
    const got = asking(conversation()).get('/tickets/b?embed=messages,tickets');
    expect(got).toMatchObject({ status: 400, json: { message: expect.stringContaining('"tickets"') } });
    expect(got.headers['Rate-Limit-Used']).toBe('2');
  });

  test('7: 404 for an unknown, empty or deleted ticket', () => {
    const world = conversation();
    const { get } = asking(world);
    world.deleteTicket('b');
    for (const path of ['/tickets/nobody', '/tickets/', '/tickets/b']) {
      expect(get(path)).toMatchObject({ status: 404, json: { message: expect.any(String) } });
    }
    expect(get('/attachments/f1').status).toBe(404);
  });
});
