/** The probe against the sandbox: each answer, and each other answer that an option or a fault of the sandbox gives. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import type { Fault } from '../src/admission/faults.ts';
import { type Probed, probe, QUESTIONS } from '../src/probe/probe.ts';
import { type Sandbox, type SandboxOptions, startSandbox } from '../src/server.ts';

const unlimited = { credits: 1_000_000, requestsPerSecond: 100_000 };

async function sandboxOf(options: SandboxOptions = {}): Promise<Sandbox & AsyncDisposable> {
  const sandbox = await startSandbox({
    port: 0,
    tickets: 300,
    seed: 4,
    books: { volumes: 1 },
    ...unlimited,
    ...options,
  });
  return Object.assign(sandbox, { [Symbol.asyncDispose]: () => sandbox.close() });
}

type Answers = Record<string, string>;
const answersOf = ({ answers }: Probed): Answers => Object.fromEntries(answers.map(one => [one.about, one.answer]));

async function probed(sandbox: Sandbox, tickets: readonly string[] = []): Promise<Answers> {
  return answersOf(await probe({ url: sandbox.url, token: sandbox.token, everyMs: 0, tickets }));
}

/** What differs from `usual` under these options. */
async function othersOf(options: SandboxOptions, prepare: (sandbox: Sandbox) => readonly string[] = () => []) {
  await using sandbox = await sandboxOf(options);
  const named = prepare(sandbox);
  write(sandbox);
  const answers = await probed(sandbox, named);
  return Object.fromEntries(Object.entries(answers).filter(([about, answer]) => answer !== usual[about]));
}

/**
 * Of what is there, the tickets that changed last get a note and a reply, and one is snoozed: whether the ends of a made
 * history show a snoozed ticket depends on the time of day.
 */
function write({ world }: Sandbox): void {
  const [last, other, third] = [...world.tickets.values()].toSorted((a, b) => (a.updated_at > b.updated_at ? -1 : 1));
  if (last) world.addNote(last.id, { body: 'A note' });
  if (other) world.addMessage(other.id, { body: 'A reply' });
  if (third && world.tickets.size > 100)
    world.patchTicket(third.id, { state: 'snoozed', snoozed_until: '2099-01-01T00:00:00Z' });
}

/** Of the sandbox without options. */
const usual: Answers = {
  since: 'inclusive',
  order: 'kept',
  ties: 'otherwise',
  'page size': 'as asked for',
  'empty page': 'empty',
  depth: 'refused with 422',
  count: 'whole',
  spam: 'listed',
  trash: 'listed',
  archived: 'listed',
  snoozed: 'listed',
  reply: 'moves it',
  note: 'moves it',
  headers: 'as promised',
  date: 'as the clock here',
  'not found': '404, an object with message',
  refusals: 'charged',
  'stray embed': 'ignored',
  'email case': 'ignored',
};

/** Of each kind one ticket, in the middle of the list, so that its ends do not show it. */
function hide({ world }: Sandbox): readonly string[] {
  const time = (day: number) => `2026-03-${String(day).padStart(2, '0')}T12:00:00Z`;
  const add = (day: number, more: object) =>
    world.addTicket({ state: 'open', created_at: time(1), updated_at: time(day), ...more }).id;
  for (let n = 0; n < 120; n++) add(2, {});
  add(10, { spam: true });
  add(11, { trash: true });
  const named = [add(12, { state: 'archived' }), add(13, { state: 'snoozed', snoozed_until: '2099-01-01T00:00:00Z' })];
  for (let n = 0; n < 120; n++) add(20, {});
  return named;
}

test('the sandbox without options, with each question in its place', async () => {
  await using sandbox = await sandboxOf();
  write(sandbox);
  const told: string[] = [];
  const access = { url: `${sandbox.url}/`, token: sandbox.token, everyMs: 0 };
  const result = await probe({ ...access, onAnswer: ({ about }) => told.push(about) });
  expect(answersOf(result)).toEqual(usual);
  expect(told).toEqual(QUESTIONS.map(({ about }) => about));
  expect(result).toMatchObject({ requests: sandbox.totals.requests, credits: sandbox.totals.credits });
  expect(result.credits).toBeLessThanOrEqual(60);
  expect(sandbox.requests.every(({ method }) => method === 'GET')).toBe(true);
});

const hidden = { spamListed: false, trashListed: false, archivedListed: false, snoozedListed: false };
const others: [string, SandboxOptions, Answers][] = [
  ['--since exclusive', { sinceInclusive: false }, { since: 'exclusive' }],
  ['--beyond-depth empty', { beyondDepth: 'empty' }, { depth: 'empty' }],
  ['--total-count-cap 50', { totalCountCap: 50 }, { count: 'stops at 50' }],
  ['--quiet reply', { quietly: ['reply'] }, { reply: 'does not move it' }],
  ['--quiet note', { quietly: ['note'] }, { note: 'does not move it' }],
  ['--errors free', { chargeErrors: false }, { refusals: 'free' }],
  ['--stray-embed refused', { strayEmbed: 'refused' }, { 'stray embed': 'refused with 400' }],
  ['--email-case exact', { emailCase: 'exact' }, { 'email case': 'matters' }],
  ['--date-ahead 90', { dateAheadSeconds: 90 }, { date: '90 s ahead of the clock here' }],
  ['--date-ahead -90', { dateAheadSeconds: -90 }, { date: '90 s behind the clock here' }],
];

test.for(others)('%s', async ([, options, answers]) => {
  expect(await othersOf(options)).toEqual(answers);
});

test('--page-cap 40', async () => {
  // Which seconds forty tickets of a made world share depends on the time of day.
  const { ties: _, ...answers } = await othersOf({ pageCap: 40 });
  expect(answers).toEqual({ 'page size': 'at most 40', depth: 'empty' });
});

test('what lists hide, found by a filter, or by an id', async () => {
  const given = { tickets: 0 };
  const shown = ['spam', 'trash', 'archived', 'snoozed'];
  const of = (answers: Answers) => shown.map(about => answers[about]);
  for (const [options, answer] of [
    [given, 'listed'],
    [{ ...given, ...hidden }, 'hidden'],
    // Its second fills more than a page.
    [{ ...given, ...hidden, pageCap: 15 }, 'hidden'],
  ] as const) {
    await using sandbox = await sandboxOf(options);
    const named = hide(sandbox);
    expect(of(await probed(sandbox, named))).toEqual(shown.map(() => answer));
    expect(of(await probed(sandbox)).slice(2)).toEqual(['unknown', 'unknown']);
  }
});

/** Replies of the list of tickets, changed. */
const edited = (edit: (rows: Record<string, unknown>[]) => unknown, more: SandboxOptions = {}): SandboxOptions => ({
  ...more,
  fault: ({ path, query }): Fault | undefined =>
    path === '/tickets' && query.get('sort') === 'updated_at'
      ? { kind: 'body', edit: json => (Array.isArray(json) ? edit(json) : json) }
      : undefined,
});

/** Tickets of one second alone, created one after the other; two of them are written to. */
function tie({ world }: Sandbox): readonly string[] {
  for (let n = 0; n < 7; n++)
    world.addTicket({ created_at: `2026-03-01T12:00:0${n}Z`, updated_at: '2026-03-02T12:00:00Z', state: 'open' });
  return [];
}

test('an order that is broken, and ties in other orders', async () => {
  expect(await othersOf(edited(rows => rows.toReversed()))).toMatchObject({ order: 'broken' });
  const ties = async (options: SandboxOptions) => (await othersOf({ tickets: 0, ...options }, tie)).ties ?? usual.ties;
  expect(await ties({})).toBe('by creation');
  expect(await ties(edited(rows => rows.map((row, i) => ({ ...row, id: `${i}` }))))).toBe('by id');
  const mixed = (row: object, n: number) => ({ ...row, id: `${n}`, created_at: `2026-03-01T12:00:0${n}Z` });
  expect(await ties(edited(rows => rows.map((row, i) => mixed(row, (3 * i) % 7))))).toBe('otherwise');
  let n = 0;
  expect(await ties(edited(rows => (n++ % 2 === 0 ? rows : rows.toReversed())))).toBe('changing');
});

test('other headers, other forms of a 404, a page of none that has some, and no count', async () => {
  const faulty = (fault: Fault, path?: string) =>
    othersOf({ fault: one => (!path || one.path === path ? fault : undefined) });
  const dropped = await faulty({ kind: 'headers', drop: ['Date', 'Rate-Limit-Used'] });
  expect(dropped).toEqual({ headers: 'without Rate-Limit-Used, Date', date: 'none', refusals: 'unknown' });
  const nobody = '/tickets/000000000000000000000000';
  const html: Fault = { kind: 'text', edit: () => '<html>' };
  expect(await faulty(html, nobody)).toEqual({ 'not found': '404, no JSON' });
  expect(await faulty({ kind: 'body', edit: () => [] }, nobody)).toEqual({ 'not found': '404, other JSON' });
  expect(await faulty({ kind: 'headers', drop: ['Total-Count'] })).toEqual({ count: 'none' });
  const filled = { kind: 'body', edit: () => [{}] } as const;
  expect(await othersOf({ fault: ({ query }) => (query.get('per_page') === '0' ? filled : undefined) })).toEqual({
    'empty page': 'with records',
  });
  expect(await othersOf({ depth: 20_000, tickets: 10_050 })).toMatchObject({ depth: 'continues' });
});

test('a count of more than pages reach, whole and stopping', async () => {
  expect(await othersOf({ tickets: 10_400 })).not.toHaveProperty('count');
  expect(await othersOf({ tickets: 10_400, totalCountCap: 10_000 })).toMatchObject({ count: 'stops at 10000' });
});

test('where nothing is, nothing is known', async () => {
  const empty = await othersOf({ tickets: 0, customers: 0 });
  const unknown = ['since', 'order', 'ties', 'page size', 'spam', 'trash', 'archived', 'snoozed', 'reply', 'note'];
  expect(empty).toEqual(Object.fromEntries([...unknown, 'email case'].map(about => [about, 'unknown'])));
});

test('a limit is waited for, a tenth stays for others, and what does not answer says so', async () => {
  await using sandbox = await sandboxOf({ credits: 40, periodSeconds: 1 });
  const waits: string[] = [];
  const access = { url: sandbox.url, token: sandbox.token, everyMs: 0 };
  sandbox.takeCredits(39);
  const result = await probe({ ...access, onWait: (_, why) => waits.push(why) });
  expect(answersOf(result)).toMatchObject({ since: 'inclusive', count: 'whole' });
  expect(new Set(waits)).toContain('a tenth of the credits stays for others');
  await expect(probe({ ...access, token: 'wrong' })).rejects.toMatchObject({
    message: 'the help desk refuses the token (401)',
    remedy: expect.stringContaining('token'),
  });
  await expect(probe({ ...access, url: 'http://127.0.0.1:1/api/v1' })).rejects.toThrow(
    /127\.0\.0\.1:1 does not answer/,
  );
  await expect(probe({ ...access, url: new URL('/', sandbox.url).href })).rejects.toThrow('answers 404 without a list');
  await expect(probe({ ...access, tickets: ['nobody'] })).rejects.toThrow('there is no ticket nobody');
});

test('as a command: an answer a line, or one document, and the token from the environment', async () => {
  await using sandbox = await sandboxOf({ tickets: 3, pageCap: 1 });
  const main = fileURLToPath(new URL('../src/main.ts', import.meta.url));
  const run = async (args: string[], env: Record<string, string>) => {
    const { PATH } = process.env;
    const finished = promisify(execFile)(process.execPath, [main, 'probe', ...args], { env: { PATH: PATH!, ...env } });
    const { stdout, stderr, code = 0 } = await finished.catch(error => error);
    return { stdout, stderr, code };
  };
  const shown = await run([sandbox.url], { HELPDESK_TOKEN: sandbox.token });
  expect(shown).toMatchObject({ code: 0, stderr: expect.stringMatching(/^\d+ requests, \d+ credits\.\n$/) });
  expect(shown.stdout.split('\n')).toHaveLength(QUESTIONS.length + 1);
  expect(shown.stdout).toMatch(/^page size {4}at most 1: asked for 100 tickets, 1 came, and more on the next page$/m);
  const json = await run([sandbox.url, '--json', '--token', sandbox.token], {});
  expect(JSON.parse(json.stdout)).toMatchObject({
    url: sandbox.url,
    answers: QUESTIONS.map(({ about }) => ({ about })),
  });
  expect(await run([sandbox.url], {})).toMatchObject({
    code: 2,
    stderr: 'error: a probe needs a token\nSet HELPDESK_TOKEN, or give --token.\n',
  });
  expect(await run(['desk.example'], { HELPDESK_TOKEN: 'x' })).toMatchObject({ code: 2 });
});
