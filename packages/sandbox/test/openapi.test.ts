/** The OpenAPI document is valid and complete, and matches the routes of the sandbox exactly. */
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { describe, expect, inject, test } from 'vitest';
import { BOOKS_ROUTES } from '../src/books/routes.ts';
import { BOOKS_BASE } from '../src/books/service.ts';
import { TOKEN_PATH } from '../src/books/tokens.ts';
import { CONTACT_TYPES, TICKET_STATES, TICKET_TYPES } from '../src/helpdesk/records.ts';
import { ROUTES } from '../src/helpdesk/routes.ts';
import { BASE } from '../src/helpdesk/service.ts';
import { openapiAt, openapiJson, openapiYaml } from '../src/openapi.ts';
import { askingBooks, emptyBooks, ME } from './books-in-process.ts';
import { asking, emptyWorld, type Got, NOON } from './in-process.ts';

interface Schema {
  type?: string;
  format?: string;
  enum?: string[];
  items?: Schema;
  minimum?: number;
  maximum?: number;
  pattern?: string;
  required?: string[];
  $ref?: string;
}
interface Parameter {
  name: string;
  in: string;
  schema: Schema;
  $ref?: string;
}
interface Operation {
  operationId: string;
  tags: string[];
  summary: string;
  description: string;
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema: Schema }> };
  responses: Record<string, { $ref?: string; content?: Record<string, { schema: Schema & { anyOf?: Schema[] } }> }>;
  security?: object[];
  'x-method-override'?: true;
  'x-credits'?: { base: number; count?: number; embed?: number };
}
interface Document {
  tags: { name: string }[];
  security: object[];
  paths: Record<string, Record<string, Operation> & { parameters?: Parameter[] }>;
  components: Record<string, Record<string, object>> & { schemas: Record<string, Schema> };
}

const document = inject('openapi') as Document;

function resolved<T extends { $ref?: string }>(node: T): T {
  const [, kind, name] = /^#\/components\/(\w+)\/(.+)$/.exec(node.$ref ?? '') ?? [];
  return kind === undefined ? node : (document.components[kind]![name!] as T);
}

const VERBS = ['get', 'put', 'post', 'delete', 'patch'];

const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  VERBS.filter(verb => item[verb]).map(verb => {
    const operation = item[verb]!;
    const parameters = [...(item.parameters ?? []), ...(operation.parameters ?? [])].map(resolved);
    return { path, verb: verb.toUpperCase(), operation, parameters };
  }),
);

/** Every object in the document, with the names that lead to it. */
function* objectsIn(
  node: unknown,
  names: string[] = [],
): Generator<[names: string[], object: Record<string, unknown>]> {
  if (typeof node !== 'object' || node === null) return;
  if (!Array.isArray(node)) yield [names, node as Record<string, unknown>];
  for (const [name, part] of Object.entries(node)) yield* objectsIn(part, [...names, name]);
}

describe('the document', () => {
  test('is valid OpenAPI 3.1', async () => {
    expect(openapiYaml()).toMatch(/^openapi: 3\.1\./m);
    expect(await new Validator().validate(structuredClone(document) as never)).toEqual({ valid: true });
  });

  test('has schemas that are valid and leave nothing to be guessed', () => {
    const ajv = new Ajv2020({ strict: true });
    addFormats.default(ajv);
    ajv.addVocabulary(['discriminator', 'example', 'x-sandbox']);
    const { components } = JSON.parse(JSON.stringify(document).replaceAll('"#/components/schemas/', '"')) as Document;
    for (const [name, schema] of Object.entries(components.schemas)) ajv.addSchema(schema, name);
    for (const [name] of Object.entries(components.schemas)) expect(ajv.getSchema(name), name).toBeTypeOf('function');
    const closed = ['Ticket', 'Note', 'Reply', 'Attachment', 'User', 'Customer', 'Contact', 'Inbox', 'Label', 'Error'];
    for (const name of closed) {
      const { properties, required, additionalProperties } = components.schemas[name] as Record<string, object>;
      const embeds = name === 'Ticket' ? TICKET_EMBEDS : [];
      expect(additionalProperties, name).toBe(false);
      expect([...(required as string[]), ...embeds].sort(), name).toEqual(Object.keys(properties!).sort());
    }
  });

  test('has no name that stands for nothing, and no text that ends in the middle', () => {
    const empty = [...objectsIn(document)].flatMap(([names, object]) =>
      Object.entries(object).flatMap(([name, value]) => (value === null ? [[...names, name].join('/')] : [])),
    );
    expect(empty).toEqual([]);
    const texts = [...objectsIn(document)].filter(([, { description }]) => typeof description === 'string');
    expect(texts.length).toBeGreaterThan(200);
    expect(
      texts.filter(([, { description }]) => !/[.:]\n?$/.test(String(description))).map(([, text]) => text),
    ).toEqual([]);
  });

  test('says of everything where it comes from', () => {
    const source = /(help desk|book catalog) \d|field notes|not in the specification/i;
    const { parameters, headers, responses, schemas } = document.components as Record<string, Record<string, object>>;
    const described: Record<string, object> = {
      ...Object.fromEntries(operations.map(({ operation }) => [operation.operationId, operation])),
      ...Object.fromEntries(
        operations.flatMap(one => one.parameters.map(node => [`${one.path} ${node.name}`, node as object])),
      ),
      ...{ ...parameters, ...headers, ...responses, ...schemas },
    };
    const silent = Object.entries(described).filter(
      ([, node]) => !source.test((node as { description?: string }).description ?? ''),
    );
    expect(silent.map(([name]) => name)).toEqual([]);
    expect(operations.filter(({ operation }) => !operation.summary).map(({ path }) => path)).toEqual([]);
  });

  test('names every operation once, in a tag that there is, with the parameters of its path', () => {
    const ids = operations.map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
    const tags = document.tags.map(({ name }) => name);
    expect(new Set(operations.flatMap(({ operation }) => operation.tags))).toEqual(new Set(tags));
    for (const { path, parameters } of operations) {
      const named = parameters.filter(one => one.in === 'path').map(({ name }) => `{${name}}`);
      expect(path.match(/\{\w+\}/g) ?? []).toEqual(named);
    }
  });

  test('has no part that nobody uses', () => {
    const { components, paths, security } = document;
    // What an operation reaches; the extension for what no operation has is none.
    const reached = new Set<string>();
    const reach = (node: unknown): void => {
      for (const [, { $ref }] of objectsIn(node)) {
        if (typeof $ref !== 'string' || reached.has($ref)) continue;
        reached.add($ref);
        reach(resolved({ $ref }));
      }
    };
    reach(paths);
    const required = [{ security }, ...operations.map(({ operation }) => operation)].flatMap(one => one.security ?? []);
    const schemes = required.flatMap(Object.keys).map(name => `#/components/securitySchemes/${name}`);
    const parts = Object.entries(components).flatMap(([kind, names]) =>
      Object.keys(names).map(name => `#/components/${kind}/${name}`),
    );
    expect(parts.length).toBeGreaterThan(80);
    expect(parts.filter(part => !reached.has(part) && !schemes.includes(part))).toEqual([]);
  });

  test('has a name for every shape among several, of which clients make classes', () => {
    const nameless = [...objectsIn(document.components.schemas), ...objectsIn(document.paths)].flatMap(
      ([names, { anyOf, oneOf }]) =>
        ([anyOf, oneOf].flat() as (Record<string, unknown> | undefined)[])
          .filter(shape => shape?.properties !== undefined || shape?.required !== undefined)
          .map(() => names.join('/')),
    );
    expect(nameless).toEqual([]);
  });

  test('is served without credentials, as it is written and as JSON', () => {
    const get = (url: string, method = 'GET') => openapiAt({ method, url, headers: {} }, NOON);
    expect(get('/openapi.yaml')).toMatchObject({
      status: 200,
      headers: { 'Content-Type': 'application/yaml', Date: 'Wed, 01 May 2024 12:00:00 GMT' },
      text: openapiYaml(),
    });
    expect(get('/openapi.json?pretty')).toMatchObject({
      status: 200,
      headers: { 'Content-Type': 'application/json', 'Access-Control-Allow-Origin': '*' },
      text: openapiJson(),
    });
    expect(JSON.parse(openapiJson())).toEqual(document);
    expect(get('/openapi.json', 'POST')).toMatchObject({ status: 405, headers: { Allow: 'GET, HEAD' } });
    for (const path of ['/openapi', '/api/v1/openapi.json', '/toString', '/']) expect(get(path)).toBeUndefined();
  });
});

// --- what the sandbox has, and what it says ------------------------------------------------------------------------------

const TICKET_EMBEDS = ROUTES.find(({ embeds }) => embeds)!.embeds!;
const bare = (path: string) => path.replaceAll(/:\w+|\{\w+\}/g, '*');
const of = (verb: string, path: string) => operations.find(one => one.verb === verb && bare(one.path) === bare(path))!;

describe('the document and the sandbox', () => {
  test('have the same operations', () => {
    const offered = [
      ...ROUTES.map(({ method, path }) => `${method} ${BASE}${path}`),
      ...BOOKS_ROUTES.map(({ method, path }) => `${method} ${BOOKS_BASE}${path}`),
      `POST ${TOKEN_PATH}`,
    ];
    const documented = operations.filter(({ operation }) => !operation['x-method-override']);
    expect(documented.map(({ verb, path }) => bare(`${verb} ${path}`)).sort()).toEqual(offered.map(bare).sort());
    expect(offered).toHaveLength(16 + 12 + 1);
  });

  test('have a POST in the place of every verb of an address without one', () => {
    const others = operations.filter(({ verb, path }) => /^(PUT|PATCH|DELETE)$/.test(verb) && path.startsWith(BASE));
    for (const { verb, path } of others) {
      const { operation, parameters } = of('POST', path);
      expect(operation['x-method-override'], path).toBe(true);
      expect(parameters.find(({ name }) => name === 'X-HTTP-Method-Override')!.schema.enum, path).toContain(verb);
    }
  });

  test.each(ROUTES.map(route => [`${route.method} ${route.path}`, route] as const))(
    '%s: what it embeds, counts and reads',
    (_, { method, path, embeds, counts }) => {
      const { operation, parameters } = of(method, BASE + path);
      const names = parameters.map(({ name }) => name);
      expect(names).toEqual(expect.arrayContaining(['fields', 'envelope']));
      expect(names.includes('count')).toBe(counts === true);
      expect(operation['x-credits']).toEqual({ base: 1, ...(embeds && { embed: 1 }), ...(counts && { count: 1 }) });
      expect(parameters.find(({ name }) => name === 'embed')?.schema.items?.enum).toEqual(embeds && [...embeds]);
      if (method !== 'PUT') expect(operation.requestBody !== undefined).toBe(['POST', 'PATCH'].includes(method));
    },
  );

  test.each(BOOKS_ROUTES.map(route => [`${route.method} ${route.path}`, route] as const))(
    '%s: the parameters that it takes',
    (_, { method, path, takes }) => {
      const query = of(method, BOOKS_BASE + path).parameters.filter(one => one.in === 'query');
      const everywhere = ['fields', 'prettyPrint', 'alt'];
      expect(query.map(({ name }) => name).sort()).toEqual([...takes, ...everywhere].sort());
    },
  );

  test('have the same words', () => {
    const { schemas } = document.components;
    expect(schemas.TicketState!.enum).toEqual(TICKET_STATES);
    expect(schemas.TicketType!.enum).toEqual(TICKET_TYPES);
    expect(schemas.ContactType!.enum).toEqual(CONTACT_TYPES);
  });
});

describe('what `fields` leaves', () => {
  const { schemas } = document.components;
  const parts = Object.keys(schemas).filter(name => name.endsWith('Part'));
  const nameOf = ({ $ref, items }: Schema) => ($ref ?? items?.$ref ?? '').split('/').at(-1)!;

  test('has a shape of its own in every reply with fields', () => {
    const shapes = operations.flatMap(({ operation, parameters }) =>
      parameters.some(({ name }) => name === 'fields')
        ? Object.entries(operation.responses).flatMap(([status, response]) => {
            const schema = resolved(response).content?.['application/json']?.schema;
            return status.startsWith('2') && schema ? [(schema.anyOf ?? [schema]).map(nameOf)] : [];
          })
        : [],
    );
    expect(shapes.length).toBeGreaterThan(20);
    for (const [whole, ...others] of shapes) {
      // An envelope, and {}, have nothing that could be left out.
      if (whole === 'Envelope' || whole === '') expect(others).toEqual([]);
      else expect(others.at(-1)).toBe(`${whole}Part`);
    }
  });

  /** Texts are no part of it. On all levels only in the catalog; embedded records of the help desk come whole. */
  function leftOf(schema: Record<string, unknown>, deep: boolean): object {
    const { required: _, not: __, description: ___, examples: ____, properties, items, $ref, ...rest } = schema;
    const left = (part: unknown) => leftOf(part as Record<string, unknown>, deep);
    const below = deep ? left : (part: unknown) => withoutTexts(part as object);
    const part = deep && typeof $ref === 'string' && parts.includes(`${nameOf({ $ref })}Part`) ? `${$ref}Part` : $ref;
    return {
      ...rest,
      ...(part !== undefined && { $ref: part }),
      ...(items !== undefined && { items: below(items) }),
      ...(properties !== undefined && {
        properties: Object.fromEntries(Object.entries(properties as object).map(([name, one]) => [name, below(one)])),
      }),
    };
  }
  const withoutTexts = ({ description: _, ...rest }: { description?: string }) => rest;

  test.each(parts.filter(name => name !== 'MessagePart'))(
    '%s has all that its whole has, and requires nothing',
    name => {
      const catalog = /\(field notes/.test((schemas[name] as { description: string }).description);
      const whole = schemas[name.slice(0, -'Part'.length)] as Record<string, unknown>;
      expect(withoutTexts(schemas[name] as object)).toEqual(leftOf(whole, catalog));
    },
  );

  test('MessagePart has all that a reply or a note has', () => {
    const { properties, ...rest } = leftOf(schemas.Reply as never, false) as { properties: Record<string, object> };
    const both = { ...properties, type: { type: 'string', enum: ['reply', 'note'] } };
    expect(withoutTexts(schemas.MessagePart as object)).toEqual({ ...rest, properties: both });
    expect(Object.keys(both)).toEqual(
      expect.arrayContaining(Object.keys((schemas.Note as { properties: object }).properties)),
    );
  });

  test.each(operations.filter(({ verb }) => verb === 'GET').map(one => [one.operation.operationId, one] as const))(
    '%s: each field alone is as the served document has it',
    (_, { path, operation }) => {
      const schema = resolved(operation.responses['200']!).content!['application/json']!.schema;
      const ajv = new Ajv2020({ strict: false });
      addFormats.default(ajv);
      const validate = ajv.compile({ ...schema, components: document.components });
      const { desk, books } = askedWorlds();
      const at = path.replaceAll(/\{(\w+)\}/g, (_, id) => ({ shelf: '1001', userId: ME })[id as string] ?? 'x');
      const get = (query: string): Got => {
        const below = `${at.replace(/^\/\w+\/v1/, '')}?${path === '/books/v1/volumes' ? 'q=book&' : ''}${query}`;
        return path.startsWith(BASE) ? desk.get(below) : books.get(below);
      };
      const body = get('').json;
      const record = Array.isArray(body) ? body[0] : body;
      const fields = [
        ...Object.keys(record),
        'flavour',
        ...(record.items ? ['items/volumeInfo/title', 'items/id'] : []),
        ...(record.volumeInfo ? ['volumeInfo/title', 'accessInfo(pdf)'] : []),
      ];
      expect(fields.length).toBeGreaterThan(3);
      for (const field of fields) {
        const got = get(`fields=${field}`);
        expect(got.status, field).toBe(200);
        expect(validate(got.json) ? [] : validate.errors, field).toEqual([]);
        const enveloped = path.startsWith(BASE) ? get(`fields=${field}&envelope=true`).json : got.json;
        expect(validate(enveloped) ? [] : validate.errors, field).toEqual([]);
      }
    },
  );
});

/** With one of everything, named x. */
function askedWorlds() {
  const { world } = emptyWorld();
  world.customers.add({ id: 'x' });
  world.addUser({ id: 'x' });
  world.addTicket({ id: 'x', customer_id: 'x' });
  world.addMessage('x', { id: 'x' });
  world.addAttachment('x', 'x', { id: 'x' });
  const shelves = emptyBooks().world;
  shelves.addVolume({ id: 'x' });
  shelves.createShelf(ME, { id: 1001, access: 'PUBLIC', volumes: ['x'] });
  return { desk: asking(world, { beyondDepth: 'empty' }), books: askingBooks(shelves) };
}

/** Values that the document allows, and values that it does not. */
function valuesOf(schema: Schema): { right: string[]; wrong: string[] } {
  const { type, enum: words, minimum, maximum, format, pattern, items } = resolved(schema);
  if (items) return valuesOf(items);
  if (words) return { right: words, wrong: ['flavour'] };
  if (type === 'boolean') return { right: ['true', 'false'], wrong: ['maybe'] };
  if (format === 'date-time')
    return { right: ['2024-05-01T12:00:00Z', '2024-05-01T12:00:00.5%2B02:00'], wrong: ['today'] };
  if (pattern) return { right: ['en'], wrong: ['!'] };
  if (type !== 'integer') return { right: ['x'], wrong: [] };
  const most = maximum ?? 999_999;
  const beyond = maximum === undefined ? [] : [`${maximum + 1}`];
  return { right: [`${minimum}`, `${most}`], wrong: [`${minimum! - 1}`, 'x', '1.5', ...beyond] };
}

describe('every parameter takes what the document says, and nothing else', () => {
  const { desk, books } = askedWorlds();

  const cases = operations
    .filter(({ verb, path }) => verb === 'GET' && !path.includes('attachment'))
    .flatMap(({ path, parameters }) =>
      parameters.filter(one => one.in === 'query').map(({ name, schema }) => [path, name, schema] as const),
    );

  test.each(cases)('%s %s', (path, name, schema) => {
    const at = path.replaceAll(/\{(\w+)\}/g, (_, id) => ({ shelf: '1001', userId: ME })[id as string] ?? 'x');
    const needed = path === '/books/v1/volumes' && name !== 'q' ? 'q=book&' : '';
    const get = (value: string): Got => {
      const below = `${at.replace(/^\/\w+\/v1/, '')}?${needed}${name}=${value}`;
      return path.startsWith(BASE) ? desk.get(below) : books.get(below);
    };
    const { right, wrong } = valuesOf(schema);
    for (const value of right) expect(get(value).status, value).toBe(200);
    for (const value of wrong) expect(get(value).status, value).toBe(400);
  });

  test('cases enough', () => expect(cases.length).toBeGreaterThan(60));
});

// --- bodies ----------------------------------------------------------------------------------------------------------------

/** Path, name of the schema, and a body that has everything. `$file` stands for the id of an attachment. */
const BODIES: [request: string, schema: string, body: Record<string, unknown>][] = [
  [
    'POST /tickets',
    'NewTicket',
    {
      type: 'email',
      subject: 'Hi',
      customer: { first_name: 'Ada', last_name: null, contacts: [{ type: 'email', value: 'ada@x.example' }] },
      user_id: 'u1',
      inbox_id: 'in1',
      messages: [{ type: 'note', user_id: 'u1', body: 'a', htmlized: false }],
      reply_to: 'a@x.example',
      reply_cc: null,
    },
  ],
  ['POST /tickets', 'NewTicket', { type: 'email', subject: '', customer_id: 'k1' }],
  [
    'PATCH /tickets/t1',
    'TicketChanges',
    {
      user_id: null,
      inbox_id: 'in1',
      state: 'hold',
      label_ids: ['l1'],
      spam: false,
      trash: true,
      subject: 'Hello',
    },
  ],
  [
    'POST /tickets/t1/messages',
    'NewNote',
    { type: 'note', user_id: 'u1', body: 'a', htmlized: false, attachment_ids: ['$file'] },
  ],
  [
    'POST /tickets/t1/messages',
    'NewInboundReply',
    {
      type: 'reply',
      direction: 'in',
      from_name: 'Ada',
      from: 'ada@x.example',
      to: null,
      body: '<p>a</p>',
      htmlized: true,
      attachment_ids: [],
    },
  ],
  [
    'POST /tickets/t1/messages',
    'NewOutboundReply',
    { type: 'reply', direction: 'out', user_id: 'u1', to: 'ada@x.example', body: 'a', htmlized: false },
  ],
  ['POST /attachments', 'NewAttachment', { name: 'a.txt', type: 'text/plain; charset=utf-8', data: 'SGVsbG8=' }],
  [
    'POST /customers',
    'CustomerFields',
    { first_name: 'Ada', last_name: '', summary: null, contacts: [{ type: 'phone', value: '+4420' }] },
  ],
  ['PATCH /customers/k1', 'CustomerFields', { first_name: null, last_name: 'Li', summary: 'VIP', contacts: [] }],
  ['POST /customers/k1/contacts', 'NewContact', { type: 'twitter', value: 'ada' }],
];

describe('every body takes what the document says, and nothing else', () => {
  const ajv = new Ajv2020();
  ajv.addVocabulary(['discriminator', 'example', 'x-sandbox']);
  const { components } = JSON.parse(JSON.stringify(document).replaceAll('"#/components/schemas/', '"')) as Document;
  for (const [name, schema] of Object.entries(components.schemas)) ajv.addSchema(schema, name);

  function send(request: string, body: Record<string, unknown>): Got {
    const { world } = emptyWorld();
    world.addInbox({ id: 'in1', name: 'Support' });
    world.addUser({ id: 'u1' });
    world.addLabel({ id: 'l1', name: 'refund' });
    world.customers.add({ id: 'k1' });
    world.addTicket({ id: 't1', customer_id: 'k1' });
    const { send } = asking(world);
    const file = send('POST', '/attachments', { name: 'a', type: 'a/b', data: '' }).json.id;
    const [method, path] = request.split(' ') as [string, string];
    return send(method, path, JSON.parse(JSON.stringify(body).replace('$file', file)));
  }

  test.each(BODIES)('%s: %s', (request, schema, body) => {
    const { required = [], properties } = components.schemas[schema] as Schema & { properties: Record<string, Schema> };
    const agree = (tried: Record<string, unknown>, fits: boolean, name: string) => {
      const got = send(request, tried);
      const told = JSON.stringify({ name, tried, got: got.json });
      expect(ajv.validate(schema, tried), told).toBe(fits);
      expect([200, 201, 422], told).toContain(got.status);
      expect(got.status !== 422, told).toBe(fits);
      if (!fits) expect(got.text).toContain(name);
    };
    agree({ ...body, flavour: 'mint' }, true, 'everything and more');
    for (const name of Object.keys(body)) {
      const { [name]: value, ...others } = body;
      const isNeeded = required.includes(name) || (schema === 'NewTicket' && /^customer/.test(name));
      agree(others, !isNeeded, name);
      agree({ ...body, [name]: value === 7 ? 'x' : 7 }, false, name);
      agree({ ...body, [name]: null }, resolvedBare(properties[name]!).type?.includes('null') === true, name);
      if (resolvedBare(properties[name]!).enum) agree({ ...body, [name]: 'flavour' }, false, name);
    }
  });

  const resolvedBare = ({ $ref, ...schema }: Schema): Schema => ($ref ? components.schemas[$ref]! : schema);

  test('spam and trash', () => {
    for (const [spam, trash, fits] of [
      [true, true, false],
      [true, false, true],
    ]) {
      expect(ajv.validate('TicketChanges', { spam, trash })).toBe(fits);
      expect(send('PATCH /tickets/t1', { spam, trash }).status).toBe(fits ? 200 : 422);
    }
  });
});
