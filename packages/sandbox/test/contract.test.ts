/** Tests checkReply itself: it must reject correct replies with a single change. */
import { describe, expect, test } from 'vitest';
import { askingBooks, emptyBooks } from './books-in-process.ts';
import { breaches } from './contract.ts';
import { asking, emptyWorld } from './in-process.ts';

describe('a reply that is not as the document has it is found', () => {
  interface Sent {
    status: number;
    headers: Record<string, string>;
    // biome-ignore lint/suspicious/noExplicitAny: is made wrong
    json: any;
    /** Instead of `json`. */
    text?: string;
  }
  type Edit = (reply: Sent) => unknown;
  const { world } = emptyWorld();
  world.customers.add({ id: 'k1' });
  world.customers.addContact('k1', { id: 'c1', type: 'email', value: 'a@x.example' });
  world.addLabel({ id: 'l1', name: 'refund' });
  world.addTicket({ id: 't1', customer_id: 'k1' });
  world.addNote('t1', { id: 'm1', body: 'a' });
  const desk = asking(world);
  const shelves = emptyBooks().world;
  shelves.addVolume({ id: 'v1' });
  const books = askingBooks(shelves);

  function edited(method: string, url: string, edit: Edit, headers = {}): string[] {
    const asked = { method, url, headers };
    const below = url.replace(/^\/\w+\/v1/, '');
    const isDesk = url.startsWith('/api/v1');
    const got = isDesk
      ? desk.ask(
          method,
          below,
          { 'content-type': 'application/json', ...headers },
          method === 'POST' ? '{}' : undefined,
        )
      : books.ask(method, below, { authorization: 'Bearer sandbox-books-token' });
    expect(breaches(asked, got)).toEqual([]);
    const copy: Sent = structuredClone({ status: got.status, headers: got.headers, json: got.json });
    edit(copy);
    const text = copy.text ?? (copy.json === undefined ? '' : JSON.stringify(copy.json));
    return breaches(asked, { ...copy, text });
  }

  test.each<[what: string, request: string, edit: Edit, told: string]>([
    [
      'a field is missing',
      'GET /api/v1/tickets/t1',
      ({ json }) => delete json.summary,
      "must have required property 'summary'",
    ],
    ['a field is missing in a list', 'GET /api/v1/tickets', ({ json }) => delete json[0].number, "property 'number'"],
    ['a field too many', 'GET /api/v1/tickets/t1', ({ json }) => Object.assign(json, { flavour: 1 }), 'flavour'],
    [
      'a field too many below',
      'GET /api/v1/customers/k1',
      ({ json }) => Object.assign(json.contacts[0], { x: 1 }),
      '/contacts/0',
    ],
    [
      'another type',
      'GET /api/v1/tickets/t1',
      ({ json }) => Object.assign(json, { number: '1' }),
      '/number must be integer',
    ],
    [
      'null where none can be',
      'GET /api/v1/tickets/t1',
      ({ json }) => Object.assign(json, { label_ids: null }),
      '/label_ids',
    ],
    [
      'a word that there is not',
      'GET /api/v1/tickets/t1',
      ({ json }) => Object.assign(json, { state: 'new' }),
      '/state',
    ],
    [
      'a time that is none',
      'GET /api/v1/tickets/t1',
      ({ json }) => Object.assign(json, { created_at: '2024' }),
      'date-time',
    ],
    ['spam and trash', 'GET /api/v1/tickets/t1', ({ json }) => Object.assign(json, { spam: true, trash: true }), 'NOT'],
    [
      'a note that goes somewhere',
      'GET /api/v1/tickets/t1?embed=messages',
      ({ json }) => Object.assign(json.messages[0], { to: null }),
      'messages',
    ],
    ['an object for a list', 'GET /api/v1/users', reply => (reply.json = {}), 'must be array'],
    ['more than a page', 'GET /api/v1/tickets', ({ json }) => json.push(...Array(100).fill(json[0])), '100 items'],
    [
      'an envelope unasked',
      'GET /api/v1/users',
      reply => (reply.json = { status: 200, headers: {}, response: [] }),
      'must be array',
    ],
    ['no envelope though asked', 'GET /api/v1/users?envelope=true', reply => (reply.json = []), 'must be object'],
    [
      'a wrong body in an envelope',
      'GET /api/v1/tickets/t1?envelope=true',
      ({ json }) => delete json.response.id,
      "in the envelope: the body must have required property 'id'",
    ],
    [
      'a wrong status in an envelope',
      'GET /api/v1/tickets/t1?envelope=true',
      ({ json }) => (json.status = 404),
      'in the envelope',
    ],
    ['an envelope that shows its status', 'GET /api/v1/tickets/x?envelope=true', reply => (reply.status = 404), '200'],
    [
      'an embedded type is missing',
      'GET /api/v1/tickets/t1?embed=labels',
      ({ json }) => delete json.labels,
      'labels is not embedded',
    ],
    ['one is there unasked', 'GET /api/v1/tickets/t1', ({ json }) => (json.labels = []), 'labels is embedded unasked'],
    [
      'fields: of the wrong type',
      'GET /api/v1/tickets/t1?fields=id',
      ({ json }) => (json.id = 7),
      '/id must be string',
    ],
    ['fields: what is not one', 'GET /api/v1/tickets?fields=id', ({ json }) => (json[0].flavour = 7), 'flavour'],
    [
      'fields: half a contact',
      'GET /api/v1/customers/k1?fields=contacts',
      ({ json }) => delete json.contacts[0].id,
      "'id'",
    ],
    ['a status', 'GET /api/v1/tickets/t1', reply => (reply.status = 201), 'status 201 is not documented'],
    ['a status of errors', 'GET /api/v1/tickets/x', reply => (reply.status = 409), 'status 409 is not documented'],
    ['a verb that is refused otherwise', 'DELETE /api/v1/users', reply => (reply.status = 404), 'status 404'],
    ['a path that is refused otherwise', 'GET /api/v1/labels', reply => (reply.status = 405), 'status 405'],
    [
      'no header of the limits',
      'GET /api/v1/users',
      ({ headers }) => delete headers['Rate-Limit-Reset'],
      'Rate-Limit-Reset is missing',
    ],
    [
      'one that is no number',
      'GET /api/v1/tickets/x',
      ({ headers }) => (headers['Rate-Limit-Used'] = 'one'),
      'Rate-Limit-Used',
    ],
    ['one below nothing', 'GET /api/v1/users', ({ headers }) => (headers['Rate-Limit-Remaining'] = '-1'), '>= 0'],
    ['the cost', 'GET /api/v1/users?count=true', ({ headers }) => (headers['Rate-Limit-Used'] = '1'), 'it costs 2'],
    [
      'the cost of embedding',
      'GET /api/v1/tickets/t1?embed=labels,user',
      ({ headers }) => (headers['Rate-Limit-Used'] = '1'),
      'it costs 3',
    ],
    [
      'no total',
      'GET /api/v1/users?count=true',
      ({ headers }) => delete headers['Total-Count'],
      'Total-Count is missing',
    ],
    ['a total unasked', 'GET /api/v1/users', ({ headers }) => (headers['Total-Count'] = '1'), 'Total-Count is there'],
    [
      'another header',
      'GET /api/v1/users',
      ({ headers }) => (headers['X-Flavour'] = 'mint'),
      'x-flavour is not documented',
    ],
    ['no Location', 'POST /api/v1/customers', ({ headers }) => delete headers.Location, 'Location is missing'],
    ['a Location that is none', 'POST /api/v1/customers', ({ headers }) => (headers.Location = 'k9'), 'Location'],
    [
      'another kind of body',
      'GET /api/v1/users',
      ({ headers }) => (headers['Content-Type'] = 'text/html'),
      'text/html',
    ],
    ['no JSON', 'GET /api/v1/users', reply => (reply.text = '['), 'not JSON'],
    ['a body where none is', 'PUT /api/v1/tickets/t1/labels/l1', reply => (reply.json = {}), 'has no body'],
    ['an error without a message', 'GET /api/v1/tickets/x', ({ json }) => delete json.message, "'message'"],
    ['errors of the wrong shape', 'POST /api/v1/tickets', ({ json }) => (json.errors = ['x']), '/errors/0'],
    ['422 without errors', 'POST /api/v1/tickets', ({ json }) => delete json.errors, "'errors'"],
    ['an empty list of items', 'GET /books/v1/volumes?q=a', ({ json }) => (json.items = []), '/items'],
    [
      'a null in the catalog',
      'GET /books/v1/volumes/v1',
      ({ json }) => (json.volumeInfo.publisher = null),
      'publisher',
    ],
    ['no title', 'GET /books/v1/volumes/v1', ({ json }) => delete json.volumeInfo.title, "'title'"],
    [
      'fields: of the wrong type below',
      'GET /books/v1/volumes/v1?fields=volumeInfo/title',
      ({ json }) => (json.volumeInfo.title = 1),
      'title',
    ],
    ['a code that is not the status', 'GET /books/v1/nowhere', ({ json }) => (json.error.code = 400), 'code'],
    [
      'a reason of another status',
      'GET /books/v1/volumes/v2',
      ({ json }) => (json.error.errors[0].reason = 'notFound'),
      'reason',
    ],
    [
      'a reason that there is not',
      'GET /books/v1/nowhere',
      ({ json }) => (json.error.errors[0].reason = 'gone'),
      'reason',
    ],
  ])('%s', (_, request, edit, told) => {
    const [method, url] = request.split(' ') as [string, string];
    expect(edited(method, url, edit).join('\n')).toContain(told);
  });

  test('what stands for another verb is held to that one', () => {
    const patch = { 'x-http-method-override': 'patch' };
    expect(edited('POST', '/api/v1/customers/k1', reply => (reply.status = 201), patch)).not.toEqual([]);
    expect(edited('POST', '/api/v1/customers/k1', ({ json }) => delete json.id, patch)).not.toEqual([]);
  });
});
