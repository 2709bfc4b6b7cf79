/** `why`: the whole life of a ticket, from the tables alone. */
import { expect, test } from 'vitest';
import { addWhy, type Why } from '../../src/cli/look/why.ts';
import { transaction } from '../../src/engine/database/pool.ts';
import { buryTicket } from '../support/bury-ticket.ts';
import { command } from '../support/command.ts';
import { configFor } from '../support/mirror.ts';
import { at, iso, message, scripted, second, ticket } from '../support/scripted.ts';

test('when it was listed, changed, read, swept and compared, by which run and for how much; what it waits for, and why', async () => {
  await using s = await scripted({ lookbackMs: 1000 });
  const config = configFor(s.url, { url: 'https://desk.example/api/v1', token: 'none' });
  const limits = { ...config.limits, credits: 100, reserve: 10 };
  const why = (...args: string[]) => command(addWhy, { ...config, limits }, 'why', ...args);
  const json = async (name: string): Promise<Why> => JSON.parse((await why(name, '--json')).stdout);
  const show = (id: string, updated: number, messages: unknown[], more: object = {}) => {
    const record = ticket(id, { inbox_id: null, updated_at: iso(updated), ...more });
    s.details[`/tickets/${id}`] = { ...record, messages };
    return record;
  };
  const nobody = await why('t1');
  expect(nobody).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(/no ticket t1 here.*\nTickets are not complete/),
  });

  // Listed with another one, read, changed, read again.
  s.lists.tickets = [show('t0', 0, []), show('t1', 1, [message('m1'), message('m2')], { number: 77 })];
  s.goTo(100);
  await s.sync('tickets');
  s.goTo(200);
  await s.sync('messages');
  s.lists.tickets = [show('t1', 299, [message('m1', { body: 'edited' })], { number: 77, subject: 'Coffee' })];
  s.goTo(300);
  await s.sync('tickets', { kind: 'fresh' });
  s.goTo(400);
  await s.sync('messages', { kind: 'hydrate' });
  // Changed once more, before an older change, with a message that cannot be stored; swept and compared.
  s.lists.tickets = [
    show('t2', 495, []),
    show('t1', 499, [message('m1', { created_at: 'never' })], { number: 77, subject: 'Coffee' }),
  ];
  s.goTo(500);
  await s.sync('tickets');
  s.details['/tickets/t1'] = 500;
  s.details['/tickets/t2'] = 500;
  await s.sync('messages').catch(() => {});
  await s.rows(`insert into sync.swept values
    ('default', 'tickets', 'default', '[1970-01-01,${iso(600)})', '${iso(480)}', 5, 'helpdesk'),
    ('default', 'tickets', 'default', '[${iso(600)},${iso(700)})', '${iso(485)}', 5, 'helpdesk'),
    ('default', 'tickets', 'open', '[1970-01-01,${iso(600)})', '${iso(490)}', 5, 'helpdesk')`);
  await s.rows(`insert into sync.audit (account_id, run_id, source, stream, record_id, checked_at, ours_as_of, random, differences, kind, repaired_at)
    values ('default', 5, 'helpdesk', 'tickets', 't1', '${iso(450)}', '${iso(399)}', true, '{"label_ids": [[], ["l1"]]}', 'label edits do not move updated_at', now()),
      ('default', 5, 'helpdesk', 'messages', 't1', '${iso(450)}', '${iso(399)}', true, null, null, null)`);

  const found = await json('t1');
  expect(found).toMatchObject({
    ticket: { id: 't1', number: 77, subject: 'Coffee', updated_at: at(499).toISOString(), deleted_at: null },
    listed: { at: at(100).toISOString(), run: 1, kind: 'sync' },
    messages: 1,
    checked_at: at(499).toISOString(),
    swept: [{ list: 'default', run: 5 }, { list: 'open' }],
    audits: [
      { stream: 'tickets', difference: 'label edits do not move updated_at' },
      { stream: 'messages', fields: null },
    ],
    deletion_candidate: null,
    queue: { place: 1, of: 2 },
    next: { fresh: null, nightly: null, sweep_due: new Date(second(490) + 20 * 3_600_000).toISOString() },
    complete_through: { tickets: at(498).toISOString(), messages: at(495).toISOString() },
  });
  expect((await json('t2')).queue).toEqual({ place: 2, of: 2 });
  // Three pages, one for each list, for two records.
  expect(found.listed.credits).toBe(
    (await s.rows('select credits::float8 / seen as share from sync.run_streams where run_id = 1'))[0]!.share,
  );
  expect(found.readings).toEqual([
    { as_of: at(199).toISOString(), run: 2, kind: 'sync' },
    { as_of: at(399).toISOString(), run: 4, kind: 'hydrate' },
  ]);
  expect(
    found.changes.map(({ run, kind, table, record, fields }) => [run, kind, table, record, Object.keys(fields).sort()]),
  ).toEqual([
    [3, 'fresh', 'tickets', 't1', ['subject', 'updated_at']],
    [4, 'hydrate', 'messages', 'm1', ['body']],
    [4, 'hydrate', 'messages', 'm2', expect.arrayContaining(['id', 'body'])],
    [5, 'sync', 'tickets', 't1', ['updated_at']],
  ]);
  expect(found.rejects).toMatchObject([{ stream: 'messages', cleared_at: null, next_try_at: expect.any(String) }]);

  // By its number, for people.
  const told = await why('77');
  expect(told).toMatchObject({ code: 0, stderr: expect.stringContaining('1 reject: see') });
  const lines = told.stdout.split('\n');
  expect(lines[0]).toBe('ticket t1, number 77: "Coffee", open');
  const rows = lines.slice(3, 15).map(line => line.replaceAll(/ {2,}/g, ' | '));
  expect(rows).toEqual([
    expect.stringMatching(/^2026-01-01T00:01:40Z \| listed \| 1 \(sync\) \| \d\.\d+$/),
    '2026-01-01T00:03:19Z | messages read | 2 (sync) | 2.00',
    expect.stringMatching(/^2026-01-01T00:05:00Z \| changed \| 3 \(fresh\) \| subject: "Tea" → "Coffee"; updated_at: /),
    '2026-01-01T00:06:39Z | messages read | 4 (hydrate) | 2.00 | 1 of them',
    '2026-01-01T00:06:40Z | message m1 changed | 4 (hydrate) | body: "body of m1" → "edited"',
    '2026-01-01T00:06:40Z | message m2 removed | 4 (hydrate)',
    expect.stringMatching(
      /\| compared, tickets \| 5 \(sync\) \| label edits do not move updated_at, repaired: label_ids: \[\] → \["l1"\]$/,
    ),
    '2026-01-01T00:07:30Z | compared, messages | 5 (sync) | equal',
    '2026-01-01T00:08:00Z | swept, default | 5 (sync)',
    '2026-01-01T00:08:10Z | swept, open | 5 (sync)',
    expect.stringMatching(/^2026-01-01T00:08:20Z \| changed \| 5 \(sync\) \| updated_at: /),
    expect.stringMatching(/^Reject \d+ of messages is open: .*; it is tried again from 2026-.* on\.$/),
  ]);
  expect(lines.slice(15)).toEqual([
    'It changed at 2026-01-01T00:08:19Z, and its messages are as of 2026-01-01T00:06:39Z: it waits for them, as number 1 of 2, newest change first: 1 s at the credits that the limits allow.',
    'Changes up to 2026-01-01T00:08:18Z are here; no later sync is scheduled.',
    expect.stringMatching(/^messages: /),
    expect.stringMatching(/^No worker is alive: /),
    'A sweep found it unchanged as of 2026-01-01T00:08:19Z.',
    'It is due for the next sweep.',
    '',
  ]);

  // Suspected, then gone; what was set aside is no ticket, but known.
  await s.rows(`insert into sync.deletion_candidates (account_id, source, stream, record_id, missing_since, alive_at, error)
    values ('default', 'helpdesk', 'tickets', 't0', '${iso(700)}', '${iso(480)}', 'HTTP 503')`);
  expect((await json('t0')).why[0]).toBe(
    'A list lacked it as of 2026-01-01T00:11:40Z: the next sweep asks for it by its id, and marks it as deleted only if it is gone (the last time: HTTP 503).',
  );
  await transaction(s.pool, client => buryTicket(client, { account: 'default', run: 3 }, 't0', second(800), at(801)));
  expect(await json('t0')).toMatchObject({
    why: [expect.stringMatching(/^The source has it no more: it was deleted after .*, and by 2026-01-01T00:13:20Z\.$/)],
    next: { sweep_due: null },
    queue: null,
  });
  expect((await why('t0')).stdout).toMatch(/2026-01-01T00:13:20Z {2}gone {2,}3 \(\w+\)/);
  s.lists.tickets = [show('t9', 899, [], { user_id: 12 })];
  s.details['/tickets/t9'] = ticket('t9', { user_id: 12 });
  s.goTo(900);
  await s.sync('tickets');
  expect(await why('t9')).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/no ticket t9 here.*\nThe ticket was rejected: user_id: .*rejects show \d+/),
  });
});
