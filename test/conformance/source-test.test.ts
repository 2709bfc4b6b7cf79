/** `source test`: the sources of the guide are right, and each mistake that is planted in them is refuted with its story. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { AllTold } from '../../src/source-test/behaviour.ts';
import { type Tested, testSource } from '../../src/source-test/test-source.ts';
import type { Source } from '../../src/sources/source.ts';
import { long } from '../support/long.ts';
import { freshDatabase } from '../support/postgres.ts';
import { blocks, type Changes, type Program, programOf, root } from './tree.ts';

const folder = mkdtempSync(join(tmpdir(), `shelfdesk-source-test-${process.pid}-`));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Name = 'crm' | 'billing';

/** The text of a source of the guide, with these changes. */
function textOf(name: Name, changes: Changes = []): string {
  const { text } = blocks.find(({ file }) => file.endsWith(`/${name}.ts`))!;
  return changes.reduce((all, [before, after]) => {
    if (!all.includes(before)) throw new Error(`the guide does not hold ${before}`);
    return all.replaceAll(before, () => after);
  }, text);
}

let files = 0;
async function sourceOf(name: Name, changes: Changes): Promise<Source> {
  const file = join(folder, `${name}${++files}.ts`);
  writeFileSync(
    file,
    textOf(name, changes).replaceAll("'shelfdesk/source'", `'${join(root, 'src/sources/declare.ts')}'`),
  );
  return Object.values((await import(file)) as Record<string, Source>)[0]!;
}

async function tested(name: Name, changes: Changes = [], told: AllTold = {}): Promise<Tested> {
  const source = await sourceOf(name, changes);
  await using db = await freshDatabase();
  return await testSource(source, { url: db.url, told });
}

/** All streams but these are left out. */
const only = (...kept: string[]): Changes =>
  (
    [
      ['clients', "    fullRefresh(client, '/clients'),\n"],
      ['comments', "    details(comment, '/invoices/:id/comments', { parent: 'invoices', ageDays: 7 }),\n"],
      ['payments', "    created(payment, '/payments', { cursor: 'createdAt', startParam: 'created_since' }),\n"],
      [
        'deletions',
        "    feed(deletion, '/deletions', {\n      cursorParam: 'after',\n      hasMorePath: 'more',\n      deletes: { id: 'of', at: 'at', type: 'type', of: { invoice: 'invoices', client: 'clients' } },\n    }),\n",
      ],
      [
        'invoices',
        "    incremental(invoice, '/invoices', { cursor: 'updatedAt', startParam: 'updated_since', get: '/invoices/:id' }),\n",
      ],
    ] as const
  ).flatMap(([name, line]) => (kept.includes(name) ? [] : [[line, ''] as const]));

const noReferences: Changes = [
  ["reference('clients', 'The client')", "text('The client.').plain()"],
  ["reference('invoices', 'The invoice')", "text('The invoice.').plain()"],
];
const invoices = [...only('invoices'), ...noReferences];
const limits = "perDay(5000, { remaining: 'X-Quota-Left', resets: 'midnight UTC' })";
const limited = (remaining: string, resets: string) =>
  [limits, `{ per: 'hour', requests: 900, remaining: '${remaining}', resets: '${resets}' }`] as const;
/** The smallest source: a feed that buries nothing. */
const events: Changes = [
  ...only('deletions'),
  ...noReferences,
  [
    "hasMorePath: 'more',\n      deletes: { id: 'of', at: 'at', type: 'type', of: { invoice: 'invoices', client: 'clients' } },\n",
    "at: 'at',\n",
  ],
];
const deals: Changes = [
  ["    fullRefresh(contact, '/contacts', { updatedAt: 'updated_at' }),\n", ''],
  ["reference('contacts', 'The contact')", "text('The contact.').plain()"],
];
const payments = [...only('payments'), ...noReferences];

describe('the sources of the guide are right', long, () => {
  test('the CRM', async () => {
    const { isRight, refutations, streams } = await tested('crm');
    expect([isRight, refutations]).toEqual([true, []]);
    expect(streams.map(({ stream }) => stream)).toEqual(['contacts', 'deals']);
    // A cursor that is an offset in disguise loses what moves up.
    expect(streams[0]!.restsOn).toContainEqual({
      says: 'the cursor is a number of records',
      wrong: expect.any(Number),
    });
  });

  test('the billing service, which says what it rests on', async () => {
    const { isRight, refutations, streams, limits } = await tested('billing');
    expect([isRight, refutations]).toEqual([true, []]);
    // Others have used all but one request of the day, and the mirror waits for the next one.
    expect(limits).toEqual({ refusals: 0, wrong: [], restsOn: [] });
    const needs = (name: string) =>
      streams
        .find(({ stream }) => stream === name)!
        .restsOn.filter(({ wrong }) => wrong > 0)
        .map(({ says }) => says);
    expect(needs('invoices')).toEqual([
      'the list is not in the order of updatedAt, but of the ids',
      'the list shows the latest first',
      'the list is in the order of creation',
      'updated_since compares the time of creation',
      'the service ignores updated_since',
      'the list begins a second before the time that it is asked for',
      'a change is listed later than 10 s',
    ]);
    expect(needs('payments')).toHaveLength(5);
  });

  test('a feed that says no more than its events, and when each of them was; a limit of an hour', async () => {
    const { refutations, streams, limits } = await tested('billing', [...events, limited('X-Left', 'X-Reset')]);
    expect([refutations, limits.wrong]).toEqual([[], []]);
    expect(limits.restsOn).toEqual(['x-reset is in milliseconds (a wait that is 59 min too long)']);
    expect(streams[0]!.restsOn.filter(({ wrong }) => wrong > 0).map(({ says }) => says)).toEqual([
      'the ids of its events do not grow',
      'an event is listed later than 10 s after its time',
    ]);
  });

  test('a list with a parameter in its path and a time of its own writing, and details at the path of their record', async () => {
    const changes: Changes = [
      ...only('invoices', 'comments'),
      ...noReferences,
      ["incremental(invoice, '/invoices', {", "incremental(invoice, '/invoices?all=1', {"],
      [
        "startParam: 'updated_since',",
        "startParam: 'updated_since', datetimeFormat: '>=%d.%m.%Y %H:%M:%S', startSlackSeconds: 1,",
      ],
      ["'/invoices/:id/comments', {", "'/invoices/:id', { params: { with: 'comments' }, dataSelector: 'parts',"],
    ];
    // What was told needs no play.
    const { refutations } = await tested('billing', changes, { invoices: { order: 'declared', slackMs: 1000 } });
    expect(refutations).toEqual([]);
  });
});

const mistakesOfLimits: readonly { readonly what: string; readonly changes: Changes; readonly says: RegExp }[] = [
  {
    what: 'the header of the whole limit, read as what is left',
    changes: [limited('X-Limit', 'X-Reset')],
    says: /refused at the limit\. X-Limit is read as remaining, and is by its name the whole limit/,
  },
  {
    what: 'milliseconds, read as seconds',
    changes: [limited('X-Left', 'X-Reset-Ms')],
    says: /a wait that is \d+ min too long/,
  },
  {
    what: 'the seconds of Retry-After, read as milliseconds',
    changes: [
      [
        "keyHeader: 'X-Api-Key'",
        "dialect: { refusal: ({ status, header }) => (status === 429 ? { freezeMs: Number(header('retry-after')) } : undefined) }",
      ],
    ],
    says: /[2-9] requests refused at the/,
  },
];

test('a list whose first cursor is a word of the declaration is right', long, async () => {
  const first: Changes = [...deals, ["'/deals', {", "'/deals', { params: { cursor: '*', sort: '-id' },"]];
  const { refutations } = await tested('crm', first);
  expect(refutations).toEqual([]);
});

test.each(["{ per: 'hour', requests: 3, remaining: 'X-Left', resets: 'X-Reset' }", "{ per: 'minute', requests: 1 }"])(
  'a service of %s is played to its end',
  long,
  async limit => {
    const { limits: kept, refutations } = await tested('crm', [...deals, ['perHour(1000)', limit]]);
    expect([refutations, kept.wrong]).toEqual([[], []]);
  },
);

test('a test ends at once when it is told to, also within a play', long, async () => {
  const gone = new AbortController();
  const reason = new Error('the test is told to end');
  const source = await sourceOf('billing', events);
  await using db = await freshDatabase();
  let played = 0;
  const testing = testSource(source, {
    ...{ url: db.url, signal: gone.signal },
    tell: () => {
      // A moment later a play is on its way.
      played++;
      setImmediate(() => gone.abort(reason));
    },
  });
  await expect(testing).rejects.toBe(reason);
  expect(played).toBe(1);
});

describe('a limit that is read wrongly is refuted', long, () => {
  test.each(mistakesOfLimits)('$what', async ({ changes, says }) => {
    const { isRight, refutations, limits } = await tested('billing', [...events, ...changes]);
    expect([isRight, refutations]).toEqual([false, []]);
    expect(limits.wrong.join('\n')).toMatch(says);
  });
});

interface Mistake {
  readonly what: string;
  readonly of: Name;
  readonly changes: Changes;
  readonly told?: AllTold;
  readonly stream: string;
  /** Words of the story, or of what is wrong. */
  readonly says: RegExp;
  readonly isRepeated?: true;
}

const mistakes: readonly Mistake[] = [
  {
    what: 'a list of changes by the time of creation, which no edit moves',
    of: 'billing',
    changes: [
      ...invoices,
      ["updatedAt: time('When the invoice was last changed.')", "createdAt: time('When the invoice was made.')"],
      ["cursor: 'updatedAt', startParam: 'updated_since'", "cursor: 'createdAt', startParam: 'created_since'"],
    ],
    stream: 'invoices',
    says: /is changed/,
  },
  {
    what: 'the latest first',
    of: 'billing',
    changes: [...invoices, ["get: '/invoices/:id'", "params: { sort: '-updatedAt' }"]],
    stream: 'invoices',
    says: /out of order/,
  },
  {
    what: 'a filter that leaves out records',
    of: 'billing',
    changes: [...invoices, ["get: '/invoices/:id'", "params: { status: 'sent' }"]],
    stream: 'invoices',
    says: /status "sent" → /,
  },
  {
    what: 'a parameter that compares another time',
    of: 'billing',
    changes: [...invoices, ["startParam: 'updated_since'", "startParam: 'created_since'"]],
    isRepeated: true,
    stream: 'invoices',
    says: /is changed/,
  },
  {
    what: 'no overlap',
    of: 'billing',
    changes: [...payments, ["keyHeader: 'X-Api-Key'", "keyHeader: 'X-Api-Key', lookbackSeconds: 0"]],
    stream: 'payments',
    says: /listed 5 s late/,
  },
  {
    what: 'edits that only a sweep would find, and no sweep',
    of: 'billing',
    changes: [
      ...payments,
      ["startParam: 'created_since' }", "startParam: 'created_since', deletionsUnknown: 'it hides some' }"],
    ],
    stream: 'payments',
    says: /is changed/,
  },
  {
    what: 'a time as the cursor of pages',
    of: 'billing',
    changes: [
      ...invoices,
      [
        "{ type: 'offset', offsetParam: 'offset',",
        "{ type: 'cursor', cursorParam: 'modified_after', cursorPath: 'next',",
      ],
    ],
    stream: 'invoices',
    says: /is not in the mirror after it/,
  },
  {
    what: 'an offset as the cursor of pages',
    of: 'crm',
    changes: [
      ...deals,
      ["cursorParam: 'cursor', cursorPath: 'next_cursor'", "cursorParam: 'offset', cursorPath: 'next_offset'"],
    ],
    stream: 'deals',
    says: /is deleted/,
  },
  {
    what: 'the records of another list',
    of: 'crm',
    changes: [["'/deals', {", "'/deals', { dataSelector: 'contacts',"]],
    stream: 'deals',
    says: /\/deals/,
  },
  {
    what: 'a list that the service has in the order of the ids',
    of: 'billing',
    changes: invoices,
    told: { invoices: { order: 'id' } },
    stream: 'invoices',
    says: /out of order/,
  },
];

describe('a planted mistake is refuted with its story', long, () => {
  test.each(mistakes)('$what', async ({ of, changes, told, stream, says, isRepeated = false }) => {
    const verdict = await tested(of, changes, told);
    const { isRight, refutations } = verdict;
    expect(isRight).toBe(false);
    // The same seed tells the same story.
    if (isRepeated) expect(await tested(of, changes, told)).toEqual(verdict);
    const found = refutations.find(one => one.stream === stream)!;
    expect([found.says, ...found.story.map(line => line.says)].join('\n')).toMatch(says);
    // Of some twenty things that happened one or two are left.
    expect(found.story.filter(({ who }) => who === 'service').length).toBeLessThanOrEqual(2);
  });
});

describe('the command', long, () => {
  let program: Program;
  const home = join(folder, 'home');
  beforeAll(() => {
    mkdirSync(join(home, 'sources'), { recursive: true });
    const contacts: Changes = [["    fullRefresh(deal, '/deals', { updatedAt: 'updated_at' }),\n", '']];
    writeFileSync(join(home, 'sources/crm.ts'), textOf('crm', contacts));
    const tried = (file: string, finding: object, ended: string | null = null) => {
      const seen = { weight: 'seen', stream: 'contacts', what: 'it is in order', tells: { order: 'declared' } };
      writeFileSync(join(home, file), JSON.stringify({ source: 'crm', ended, findings: [{ ...seen, ...finding }] }));
    };
    tried('tried.json', {});
    tried('wrong.json', { weight: 'wrong', what: 'it is out of order' });
    tried('other.json', { stream: 'people' });
    tried('word.json', { tells: { order: 'sideways' } });
    tried('ended.json', {}, 'no answer. Look at the address.');
    const wrong: Changes = [
      ['perHour(1000)', "perHour(1000, { remaining: 'X-Limit' })"],
      ["name: 'crm'", "name: 'wrong'"],
    ];
    writeFileSync(join(home, 'sources/wrong.ts'), textOf('crm', [...contacts, ...wrong]));
    program = programOf({ folder: root, home, [Symbol.dispose]: () => {} });
    return () => program[Symbol.dispose]();
  });
  const run = (...args: string[]) =>
    program.run({ args: ['source', 'test', ...args], env: { SHELFDESK_SOURCES: 'sources', NO_COLOR: '1' } });

  test.each([
    ['wrong.json', 'the try has found contacts wrong: it is out of order'],
    ['other.json', 'crm has no stream people'],
    ['word.json', 'findings.0.tells.order'],
    ['ended.json', 'a try that ended early: no answer'],
  ])('refuses %s, a try that does not tell how the service behaves', async (file, says) => {
    const { code, stderr } = await run('crm', '--tried', file);
    expect([code, stderr]).toEqual([2, expect.stringContaining(says)]);
  });

  test('says what is right, with 0, and what is refuted, with 1 and its reason', async () => {
    const right = await run('crm', '--tried', 'tried.json');
    expect([right.code, right.stderr]).toEqual([0, expect.stringContaining('the declaration is right')]);
    expect(right.stdout).toMatch(/^contacts +full refresh +0 /m);
    expect(right.stdout).not.toContain('the list shows the latest first');
    const other = await run('wrong', '--tried', 'tried.json');
    expect([other.code, other.stderr]).toEqual([2, expect.stringContaining('tried.json is no try of wrong')]);
    const wrong = await run('wrong', '--json');
    expect(wrong.code).toBe(1);
    expect(JSON.parse(wrong.stdout)).toMatchObject({
      source: 'wrong',
      isRight: false,
      limits: { wrong: [expect.stringContaining('X-Limit is read as remaining')] },
    });
    const unknown = await run('nobody');
    expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('there is no source nobody')]);
  });
});
