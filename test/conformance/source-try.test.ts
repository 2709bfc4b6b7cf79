/**
 * `source try` against services over HTTP: a declaration that is right has no finding, and each quirk of a service has the one that it
 * deserves, with the line to change. No database is there, and values of records are never shown.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { shelfdesk } from '../support/cli.ts';
import { type BillingHarness, type CrmHarness, openBilling, openCrm } from './harness.ts';
import { type Quirk, quirky } from './quirks.ts';
import { blocks } from './tree.ts';

interface Found {
  readonly weight: string;
  readonly stream: string | null;
  readonly what: string;
  readonly at: string | null;
  readonly change: string | null;
  readonly tells: object | null;
}
interface Tried {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly findings: readonly Found[];
  readonly requests: number;
  readonly asked: readonly URL[];
  /** The line of the declaration at which a finding points. */
  lineOf(found: Found): string;
}

let folder: string;
let crm: CrmHarness;
let billing: BillingHarness;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'shelfdesk-try-'));
  [crm, billing] = await Promise.all([openCrm(), openBilling()]);
  billing.billing.left = 4000;
  billing.billing.delete('client', [...billing.billing.clients.keys()][1]!, new Date(Date.now() - 5000).toISOString());
  billing.billing.delete('client', [...billing.billing.clients.keys()][2]!);
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await crm[Symbol.asyncDispose]();
  await billing[Symbol.asyncDispose]();
});

type Changes = readonly (readonly [before: string | RegExp, after: string])[];

/** The declarations of the guide. Its service has 50 records a page. */
const guided = {
  crm: [],
  billing: [["limitParam: 'limit', limit: 100", "limitParam: 'limit', limit: 50"]],
} as const satisfies Record<string, Changes>;

let homes = 0;
async function tried(
  name: keyof typeof guided,
  quirk: Quirk = {},
  changes: Changes = [],
  env: Record<string, string> = {},
): Promise<Tried> {
  const home = join(folder, String(homes++));
  mkdirSync(join(home, 'sources'), { recursive: true });
  const block = blocks.find(({ file }) => file.endsWith(`${name}.ts`))!.text;
  const text = [...guided[name], ...changes].reduce((before, [from, to]) => {
    const after = before.replace(from, to);
    expect(after, String(from)).not.toBe(before);
    return after;
  }, block);
  writeFileSync(join(home, 'sources', `${name}.ts`), text);
  const of = { crm, billing }[name];
  const address = `${name.toUpperCase()}_BASE_URL`;
  await using service = await quirky(of.env[address]!, quirk);
  const given = { SHELFDESK_SOURCES: 'sources', ...of.env, [address]: service.url, ...env };
  const { code, stdout, stderr } = await shelfdesk(['source', 'try', name, '--json'], given, home).finished;
  // Values of records, and keys.
  for (const secret of ['@example.org', 'Contact 1', 'Note 1', 'Client 1', '+49', of.env[`${name.toUpperCase()}_KEY`]!])
    expect(stdout + stderr).not.toContain(secret);
  const said = stdout === '' ? { findings: [], requests: 0 } : JSON.parse(stdout);
  const lineOf = ({ at }: Found) => text.split('\n')[Number(/^sources\/\w+\.ts:(\d+)$/.exec(at ?? '')![1]) - 1]!;
  return { code, stdout, stderr, ...said, asked: service.asked, lineOf };
}

/** What would have to change. */
const findings = ({ findings }: Tried) => findings.filter(({ weight }) => weight === 'wrong' || weight === 'note');
const seen = ({ findings }: Tried, stream: string | null) =>
  findings.filter(one => one.stream === stream && one.weight === 'seen').map(({ what }) => what);

/** What `source test --tried` takes of it. */
const told = ({ findings }: Tried, stream: string) =>
  Object.assign({}, ...findings.filter(one => one.stream === stream).map(({ tells }) => tells));

describe('a declaration that is right', () => {
  test.each(['crm', 'billing'] as const)('of %s has no finding, and takes a handful of requests', async name => {
    const got = await tried(name);
    expect(findings(got)).toEqual([]);
    expect([got.code, got.stderr]).toEqual([0, '']);
    expect(got.requests).toBe(got.asked.length);
    const of = Map.groupBy(got.asked, ({ pathname }) => pathname.split('/').slice(1, 2).join());
    for (const [path, all] of of) expect(all.length, path).toBeLessThanOrEqual(20);
  });

  test('what the service does is said: order, since, ids, clock, key, an id that does not exist', async () => {
    const got = await tried('billing');
    expect(seen(got, null)).toEqual([
      'its clock is that of this machine',
      'without the key it answers 401, JSON with error',
    ]);
    expect(seen(got, 'invoices')).toEqual([
      'ids beyond 2^53: as text each digit stays',
      'a page has the 50 records that are declared',
      'no more than 50 are given when 100 are asked for',
      '50 records came in the ascending order of updatedAt',
      'updated_since is inclusive, to the millisecond',
      'an id that does not exist answers 404, JSON with nothing in it',
    ]);
    expect(told(got, 'invoices')).toEqual({ order: 'declared', inclusive: true, grainMs: 1, slackMs: 0 });
    expect(seen(got, 'deletions')).toContain('the events behind the first one begin with the second one');
  });
});

/** The only finding: its weight, its stream, its words, what it says to write, and a part of the line at which it points. */
type Expected = readonly [weight: 'wrong' | 'note', stream: string | null, what: RegExp, change: RegExp, line: RegExp];

function expectOnly(got: Tried, [weight, stream, what, change, line]: Expected): void {
  expect(findings(got).map(one => [one.weight, one.stream, one.what])).toEqual([
    [weight, stream, expect.stringMatching(what)],
  ]);
  const [found] = findings(got);
  expect(found!.change).toMatch(change);
  expect(got.lineOf(found!)).toMatch(line);
  expect(got.code).toBe(weight === 'wrong' ? 1 : 0);
}

const items = (body: Record<string, unknown>) => body.items as Record<string, unknown>[];
const data = (body: Record<string, unknown>) => body.data as Record<string, unknown>[];
const isList = (url: URL, path: string) => url.pathname === path;
/** Changes `since` of the invoices, in ms. */
const sinceAs = (to: (ms: number) => number) => (url: URL) => {
  const since = url.searchParams.get('updated_since');
  if (since !== null) url.searchParams.set('updated_since', new Date(to(Date.parse(since))).toISOString());
};
const onInvoices =
  (change: (all: Record<string, unknown>[]) => Record<string, unknown>[]) =>
  (body: Record<string, unknown>, url: URL) =>
    isList(url, '/invoices') ? { ...body, items: change(items(body)) } : body;
const onContacts =
  (change: (one: Record<string, unknown>, n: number) => object) => (body: Record<string, unknown>, url: URL) =>
    isList(url, '/contacts') ? { ...body, data: data(body).map(change) } : body;

/** Contact n changed so many minutes after this. */
const beganMs = Date.parse('2026-03-01T12:00:00Z');
const changedAt = (n: number) => new Date(beganMs + n * 60_000).toISOString();
const nOf = (time: string) => (Date.parse(time) - beganMs) / 60_000;
/** Another cursor of the contacts than the id of the last one. `shown`: by the number of contacts before the next page. */
const cursorAs = (shown: (n: number) => string, meant: (cursor: string) => number): Quirk => ({
  ask(url) {
    const cursor = url.searchParams.get('cursor');
    if (cursor !== null && isList(url, '/contacts'))
      url.searchParams.set('cursor', `c${String(meant(cursor) - 1).padStart(4, '0')}`);
  },
  answer: (body, url) =>
    isList(url, '/contacts') && typeof body.next_cursor === 'string'
      ? { ...body, next_cursor: shown(Number(body.next_cursor.slice(1)) + 1) }
      : body,
});

describe('a quirk of the service is found, with the line to change:', () => {
  const capped: Quirk = {
    ask: url =>
      isList(url, '/contacts') &&
      url.searchParams.set('limit', String(Math.min(40, Number(url.searchParams.get('limit'))))),
  };
  test.each<[string, keyof typeof guided, Quirk, Expected]>([
    [
      'a cap of pages',
      'crm',
      capped,
      [
        'wrong',
        'contacts',
        /a page has 40 records at most, and 100 are declared/,
        /^limit: 40$/,
        /paginator: .*limit: 100/,
      ],
    ],
    ...(
      [
        ['an offset', 'number of records', String, Number, /type: 'offset', offsetParam: 'cursor'/],
        ['a page', 'number of a page', n => String(n / 100 + 1), text => 100 * (Number(text) - 1), /'page_number'/],
        ['a time', 'time of the last record', n => changedAt(n - 1), text => 1 + nOf(text), /another cursor/],
      ] as const satisfies [string, string, (n: number) => string, (text: string) => number, RegExp][]
    ).map(([what, says, shown, meant, change]): [string, 'crm', Quirk, Expected] => [
      `${what} as a cursor`,
      'crm',
      cursorAs(shown, meant),
      ['wrong', 'contacts', new RegExp(`next_cursor is the ${says}|next_cursor is a ${says}`), change, /cursorPath/],
    ]),
    [
      'the newest first',
      'billing',
      { answer: onInvoices(all => all.toReversed()) },
      ['wrong', 'invoices', /in the descending order of updatedAt/, /^fullRefresh\(/, /incremental\(invoice/],
    ],
    [
      'no order',
      'billing',
      { answer: onInvoices(all => all.toSorted((a, b) => (String(a.note) < String(b.note) ? -1 : 1))) },
      ['wrong', 'invoices', /times out of the order of updatedAt/, /^fullRefresh\(/, /incremental\(invoice/],
    ],
    [
      'since of the next minute',
      'billing',
      { ask: sinceAs(ms => ms + 61_000) },
      ['wrong', 'invoices', /updated_since hides a record of a second later/, /^fullRefresh\(/, /incremental\(invoice/],
    ],
    [
      'since of the day',
      'billing',
      { ask: sinceAs(ms => ms - (ms % 86_400_000)) },
      ['wrong', 'invoices', /coarser than a second/, /^fullRefresh\(/, /incremental\(invoice/],
    ],
    [
      'since of the minute',
      'billing',
      { ask: sinceAs(ms => ms - (ms % 60_000)) },
      ['wrong', 'invoices', /coarser than a second/, /^fullRefresh\(/, /incremental\(invoice/],
    ],
    [
      'since that begins a second earlier',
      'billing',
      { ask: sinceAs(ms => ms - 1000) },
      ['wrong', 'invoices', /shows records that are 1 s older/, /^startSlackSeconds: 1$/, /incremental\(invoice/],
    ],
    [
      'since refused',
      'billing',
      { status: (status, url) => (/updated_since=2/.test(url.search) ? 400 : status) },
      ['wrong', 'invoices', /updated_since is refused with 400/, /parameter/, /incremental\(invoice/],
    ],
    [
      'a number as text',
      'crm',
      {
        answer: body => ({
          ...body,
          data: data(body).map(one => ('amount' in one ? { ...one, amount: String(one.amount) } : one)),
        }),
      },
      [
        'wrong',
        'deals',
        /amount of deals is declared as number, and is number as text in 40 of 40 records/,
        /^amount: text\('Amount\.'\)\.plain\(\)/,
        /amount: number/,
      ],
    ],
    [
      'a text instead of a time',
      'crm',
      { answer: onContacts(one => ({ ...one, updated_at: 1772366400 })) },
      [
        'wrong',
        'contacts',
        /updated_at of contacts is declared as time, and is integer/,
        /^updated_at: integer/,
        /updated_at: time.*always/,
      ],
    ],
    [
      'no time',
      'crm',
      { answer: onContacts((one, n) => (n % 2 ? { ...one, updated_at: null } : one)) },
      [
        'wrong',
        'contacts',
        /updated_at of contacts is missing or null in \d+ of \d+ records/,
        /without \.always\(\)/,
        /updated_at: time/,
      ],
    ],
    [
      'another name',
      'crm',
      { answer: onContacts(({ phone, ...one }) => ({ ...one, phones: phone })) },
      [
        'wrong',
        'contacts',
        /phone of contacts is declared, and the service writes phones/,
        /^phones: …/,
        /phone: text/,
      ],
    ],
    [
      'a field more',
      'crm',
      { answer: onContacts(one => ({ ...one, mobile_phone: '+49 1', vip: true, calls: 2, spentHours: 2 })) },
      [
        'note',
        'contacts',
        /4 fields of contacts are not declared: mobile_phone \(text\), vip \(boolean\), calls \(integer\), spentHours \(integer\)/,
        /^mobile_phone: text\('Mobile phone\.'\)\.personal\('contact'\),\nvip: flag.*\ncalls: integer.*\nspentHours: number/,
        /record\('contacts'/,
      ],
    ],
    [
      'a value more',
      'crm',
      {
        answer: (body, url) =>
          isList(url, '/deals') ? { ...body, data: data(body).map(one => ({ ...one, stage: 'Contact 1' })) } : body,
      },
      ['note', 'deals', /stage of deals has 1 value that oneOf does not name/, /oneOf/, /stage: oneOf/],
    ],
    [
      'headers of a limit',
      'crm',
      { headers: said => Object.assign(said, { 'x-ratelimit-remaining': '9', 'x-ratelimit-reset': '60' }) },
      [
        'note',
        null,
        /x-ratelimit-remaining, x-ratelimit-reset/,
        /remaining: 'x-ratelimit-remaining', resets: 'x-ratelimit-reset'/,
        /limits:/,
      ],
    ],
    [
      'no Date',
      'crm',
      { headers: said => Reflect.deleteProperty(said, 'date') },
      ['wrong', null, /no Date/, /./, /name: 'crm'/],
    ],
    [
      'a total',
      'billing',
      { answer: (body, url) => (isList(url, '/clients') ? { ...body, total: 68 } : body) },
      ['note', 'clients', /counts all records at total/, /^totalPath: 'total'/, /paginator:/],
    ],
    [
      'an unknown id that answers',
      'billing',
      { status: (status, url) => (/^\/invoices\/\d+$/.test(url.pathname) ? 200 : status) },
      ['wrong', 'invoices', /an id that does not exist answers 200/, /take get out/, /incremental\(invoice/],
    ],
    [
      'an unknown id that is refused',
      'billing',
      { status: (status, url) => (/^\/invoices\/\d+$/.test(url.pathname) && status === 404 ? 400 : status) },
      ['wrong', 'invoices', /answers 400.*only a 404 confirms/, /take get out/, /incremental\(invoice/],
    ],
    [
      'another address',
      'crm',
      { status: (status, url) => (isList(url, '/contacts') ? 301 : status) },
      ['wrong', 'contacts', /no redirect is followed/, /base address/, /fullRefresh\(contact/],
    ],
    [
      'records twice',
      'crm',
      {
        answer: (body, url) => (isList(url, '/deals') ? { ...body, data: data(body).with(-1, data(body)[0]!) } : body),
      },
      ['wrong', 'deals', /1 id of a page is there twice, such as d0/, /once/, /fullRefresh\(deal/],
    ],
  ])('%s', async (_quirk, name, quirk, expected) => {
    expectOnly(await tried(name, quirk), expected);
  });

  test('what needs no change is said: an exclusive since, its grain, a clock that is ahead, an open service', async () => {
    const exclusive = await tried('billing', { ask: sinceAs(ms => ms + 1) });
    const coarse = await tried('billing', {
      ask: sinceAs(ms => ms - (ms % 1000)),
      headers: said => Object.assign(said, { date: new Date(Date.now() + 300_000).toUTCString() }),
      sends: { 'x-api-key': billing.billing.key },
    });
    expect([findings(exclusive), findings(coarse)]).toEqual([[], []]);
    expect(seen(exclusive, 'invoices')).toContainEqual(expect.stringContaining('updated_since is exclusive'));
    expect(seen(coarse, 'invoices')).toContain('updated_since is inclusive, to the second');
    expect(told(exclusive, 'invoices')).toEqual({ order: 'declared', inclusive: false, slackMs: 0 });
    expect(told(coarse, 'invoices')).toMatchObject({ grainMs: 1000 });
    expect(seen(coarse, null)).toEqual([
      "its clock is 5 min ahead of this machine; the mirror goes by the service's",
      'a list answers without the key too',
    ]);
  });

  test('a refusal at a limit is waited out, and is a finding', async () => {
    let left = 2;
    const refusing = await tried('crm', {
      headers: said => Object.assign(said, { 'retry-after': '0' }),
      status: status => (--left === 0 ? 429 : status),
    });
    expect(findings(refusing).map(({ what }) => what)).toEqual([
      expect.stringMatching(/^1 request was refused at a limit with 429, with Retry-After/),
    ]);
    expect(refusing.code).toBe(0);
  });
});

describe('a mistake in the declaration is found, with the line to change:', () => {
  const paged: Quirk['ask'] = url => {
    const page = url.searchParams.get('page');
    if (page !== null) url.searchParams.set('offset', String(Number(page) * Number(url.searchParams.get('limit'))));
  };
  const numbered: Changes[number] = ["type: 'offset', offsetParam: 'offset'", "type: 'page_number', pageParam: 'page'"];
  const onlyContacts: Changes[number] = [/\n {4}fullRefresh\(deal.*/, ''];
  const onlyClients: Changes[number] = [/ {4}incremental\(invoice[\s\S]*?\n {2}\],/, '  ],'];
  test.each<[string, keyof typeof guided, Changes, Quirk, Expected]>([
    [
      'dataSelector',
      'crm',
      [["dataSelector: 'data'", "dataSelector: 'result.rows'"], onlyContacts],
      {},
      ['wrong', 'contacts', /has no list at result\.rows/, /^dataSelector: 'data'$/, /dataSelector/],
    ],
    [
      'cursorParam',
      'crm',
      [onlyContacts, ["cursorParam: 'cursor'", "cursorParam: 'after'"]],
      {},
      ['wrong', 'contacts', /the service does not know after/, /cursorParam/, /cursorParam: 'after'/],
    ],
    [
      'cursorPath',
      'crm',
      [onlyContacts, ["cursorPath: 'next_cursor'", "cursorPath: 'next'"]],
      {},
      ['wrong', 'contacts', /has no field next/, /cursorPath/, /cursorPath: 'next'/],
    ],
    [
      'path',
      'crm',
      [["'/contacts'", "'/contact'"]],
      {},
      ['wrong', 'contacts', /GET \/contact answers 404, JSON with error: there is no such list/, /path/, /'\/contact'/],
    ],
    [
      'startParam',
      'billing',
      [["startParam: 'updated_since'", "startParam: 'changed_since'"]],
      {},
      ['wrong', 'invoices', /the service does not know the parameter/, /fullRefresh/, /startParam: 'changed_since'/],
    ],
    [
      'offsetParam',
      'billing',
      [["offsetParam: 'offset'", "offsetParam: 'start'"], onlyClients],
      {},
      ['wrong', 'clients', /the second page begins as the first one/, /offsetParam/, /offsetParam: 'start'/],
    ],
    [
      'basePage',
      'billing',
      [numbered, onlyClients],
      { ask: paged },
      ['wrong', 'clients', /page 0 has 50 records that page 1 does not show/, /^basePage: 0$/, /pageParam/],
    ],
    [
      'cursorParam of a feed',
      'billing',
      [["cursorParam: 'after'", "cursorParam: 'behind'"]],
      {},
      [
        'wrong',
        'deletions',
        /the service does not know behind, or includes it/,
        /behind an id/,
        /cursorParam: 'behind'/,
      ],
    ],
    [
      'hasMorePath',
      'billing',
      [["hasMorePath: 'more'", "hasMorePath: 'has_more'"]],
      {},
      ['wrong', 'deletions', /has no field has_more/, /^hasMorePath: 'more'$/, /hasMorePath/],
    ],
    [
      'details',
      'billing',
      [["'/invoices/:id/comments'", "'/invoices/:id/remarks'"]],
      {},
      ['wrong', 'comments', /\/remarks answers 404/, /path/, /details\(comment/],
    ],
    [
      'get',
      'billing',
      [["get: '/invoices/:id'", "get: '/invoice/:id'"]],
      {},
      ['wrong', 'invoices', /one record by its id answers 404/, /get/, /get: '\/invoice\/:id'/],
    ],
    [
      'totalPath',
      'billing',
      [["offsetParam: 'offset',", "offsetParam: 'offset', totalPath: 'total',"], onlyClients],
      {},
      ['wrong', 'clients', /no number at total/, /take totalPath out/, /totalPath/],
    ],
    [
      'the limit of a stream of its own',
      'crm',
      [
        [
          "'/deals', { updatedAt: 'updated_at' }",
          "'/deals', { updatedAt: 'updated_at', paginator: { type: 'cursor', cursorParam: 'cursor', cursorPath: 'next_cursor', limitParam: 'limit', limit: 30 } }",
        ],
      ],
      {
        ask: url =>
          isList(url, '/deals') &&
          url.searchParams.set('limit', String(Math.min(8, Number(url.searchParams.get('limit'))))),
      },
      ['wrong', 'deals', /a page has 8 records at most, and 30 are declared/, /^limit: 8$/, /'\/deals'.*limit: 30/],
    ],
    [
      'a total of more than the list shows',
      'billing',
      [["offsetParam: 'offset',", "offsetParam: 'offset', totalPath: 'total',"], onlyClients],
      {
        answer(body) {
          const shown = [...billing.billing.clients.keys()].slice(0, 20);
          return { items: items(body).filter(({ id }) => shown.includes(String(id))), total: 68 };
        },
      },
      ['wrong', 'clients', /total is 68, and all pages have 20 records/, /deletionsUnknown/, /totalPath/],
    ],
  ])('%s', async (_mistake, name, changes, quirk, expected) => {
    expectOnly(await tried(name, quirk, changes), expected);
  });
});

test('a list that the key may not read is not tried, and the others are', async () => {
  const got = await tried('crm', { status: (status, url) => (isList(url, '/contacts') ? 403 : status) });
  expect([got.code, findings(got)]).toEqual([2, []]);
  expect(got.findings).toContainEqual(
    expect.objectContaining({
      weight: 'untried',
      stream: 'contacts',
      what: expect.stringContaining('the key may not read it'),
    }),
  );
  expect(seen(got, 'deals')).toContainEqual(expect.stringContaining('shorter pages are as asked for'));
});

test('details have pages too: the first record that has some is asked for them', async () => {
  const { comments } = billing.billing;
  const [, one] = [...comments.keys()];
  const before = comments.get(one!)!;
  comments.set(one!, comments.get([...comments.keys()][8]!)!);
  const got = await tried('billing');
  comments.set(one!, before);
  expect(findings(got)).toEqual([]);
  expect(seen(got, 'comments')).toContain('a page has the 50 records that are declared');
});

test('what cannot be tried is said, and is no finding: a key that is refused, no answer, a limit that is used up', async () => {
  const refused = await tried('crm', {}, [], { CRM_KEY: 'another-key' });
  expect([refused.code, refused.stdout]).toEqual([2, expect.stringContaining('the service refuses the key')]);
  const silent = await tried('crm', {}, [], { CRM_BASE_URL: 'http://127.0.0.1:9' });
  expect([silent.code, silent.stdout]).toEqual([2, expect.stringContaining('nobody listens at 127.0.0.1:9')]);
  const spent = await tried('crm', {
    headers: said => Object.assign(said, { 'retry-after': '3600' }),
    status: () => 429,
  });
  expect([spent.code, spent.stdout]).toEqual([2, expect.stringContaining('used up for 60 min')]);
});

test('a source of the program, one that is not there, and one without an address have a sentence', async () => {
  const env = { SHELFDESK_SOURCES: join(folder, '0/sources') };
  const say = async (name: string) => (await shelfdesk(['source', 'try', name], env, folder).finished).stderr;
  expect(await say('helpdesk')).toContain('npx shelfdesk sandbox probe');
  expect(await say('books')).toContain('npx shelfdesk doctor');
  expect(await say('cmr')).toContain('Did you mean crm?');
  expect(await say('crm')).toContain('Set CRM_BASE_URL and CRM_KEY.');
});

test('people read it by stream, with the line to change below', async () => {
  const home = join(folder, '0');
  const { code, stdout, stderr } = await shelfdesk(
    ['source', 'try', 'crm'],
    { SHELFDESK_SOURCES: 'sources', ...crm.env },
    home,
  ).finished;
  expect(code).toBe(0);
  expect(stdout).toContain('contacts\n  seen     a page has the 100 records that are declared\n');
  expect(stderr).toMatch(/^\d+ requests: nothing would make the mirror wrong\.\n$/);
});
