/** `target` at a terminal: service targets are set, listed and removed; what cannot be is refused. */
import { CommanderError } from 'commander';
import { expect, test } from 'vitest';
import { addTarget } from '../../src/cli/setup/warehouse/target.ts';
import { command } from '../support/command.ts';
import { configFor } from '../support/mirror.ts';
import { scripted, ticket } from '../support/scripted.ts';

test('a service target is set, changed, listed and removed', async () => {
  await using s = await scripted();
  const config = configFor(s.url, { url: 'https://desk.example/api/v1', token: 'none' });
  const target = (...args: string[]) => command(addTarget, config, 'target', ...args);
  s.lists.tickets = [ticket('t1', { label_ids: ['l1'] })];
  await s.sync('tickets');
  expect(await target('list')).toEqual({
    code: 0,
    stdout: '',
    stderr: 'No service targets yet. Create one with `warehouse target set`.\n',
  });
  expect(await target('set', 'first-response', '4h')).toEqual({
    code: 0,
    stdout: '',
    stderr: "Account 'default': first-response within 4h.\n",
  });
  const changed = await target('set', 'first-response', '8h');
  const [, since] = /^Account 'default': first-response within 8h, for what begins from (\S+) on\.\n$/.exec(
    changed.stderr,
  )!;
  // It takes tickets from the one before: those of last year keep what they had.
  const narrowed = await target('set', 'first-response', '90m', '--inbox', 'i1', '--label', 'l1');
  const [, narrowedSince] = / from (\S+) on\.\n$/.exec(narrowed.stderr) ?? [];
  await target('set', 'resolution', '40h', '--label', 'l1');
  expect((await target('list')).stdout).toBe(
    [
      'account  metric          within  inbox  label  since',
      `───────  ──────────────  ──────  ─────  ─────  ${'─'.repeat(24)}`,
      `default  first-response  8h      all    all    ${new Date(since!).toISOString()}`,
      `default  first-response  1h30m   i1     l1     ${new Date(narrowedSince!).toISOString()}`,
      'default  resolution      40h     all    l1     always\n',
    ].join('\n'),
  );
  expect(JSON.parse((await target('list', '--json')).stdout)).toEqual([
    {
      account: 'default',
      metric: 'first-response',
      inbox: null,
      label: null,
      seconds: 8 * 3600,
      since: since!.replace(/(?<!\.\d+)Z$/, '.000Z'),
    },
    {
      account: 'default',
      metric: 'first-response',
      inbox: 'i1',
      label: 'l1',
      seconds: 5400,
      since: new Date(narrowedSince!).toISOString(),
    },
    { account: 'default', metric: 'resolution', inbox: null, label: 'l1', seconds: 40 * 3600, since: null },
  ]);
  expect(await s.rows('select metric, target_seconds from analytics.ticket_targets order by 1')).toEqual([
    { metric: 'resolution', target_seconds: 40 * 3600 },
  ]);

  expect(await target('remove', 'first-response', '--inbox', 'i1')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("account 'default' has no service target for first-response, inbox i1"),
  });
  const dated = ['--inbox', 'i1', '--label', 'l1', '--since', '2020-01-01'];
  expect(await target('remove', 'first-response', ...dated)).toMatchObject({
    code: 0,
    stderr:
      "Account 'default': no service target for first-response, inbox i1, label l1, for what begins from 2020-01-01T00:00:00Z on.\n",
  });
  expect(JSON.parse((await target('list', '--json')).stdout)).toHaveLength(2);
  expect(await s.rows('select action, subject, outcome from sync.operations order by id')).toEqual([
    { action: 'target', subject: 'first-response', outcome: 'within 4h' },
    { action: 'target', subject: 'first-response', outcome: `within 8h, for what begins from ${since} on` },
    {
      action: 'target',
      subject: 'first-response, inbox i1, label l1',
      outcome: `within 1h30m, for what begins from ${narrowedSince} on`,
    },
    { action: 'target', subject: 'resolution, label l1', outcome: 'within 40h' },
    {
      action: 'target',
      subject: 'first-response, inbox i1, label l1',
      outcome: 'removed, for what begins from 2020-01-01T00:00:00Z on',
    },
  ]);
});

test('a target that changes stays for what began before, unless the change is dated', async () => {
  await using s = await scripted();
  const config = configFor(s.url, { url: 'https://desk.example/api/v1', token: 'none' });
  const target = (...args: string[]) => command(addTarget, config, 'target', ...args);
  s.lists.tickets = [ticket('t1')];
  await s.sync('tickets');
  const day = (time: unknown) => (time as Date | null)?.toISOString().slice(0, 10) ?? null;
  const held = async () =>
    (await s.rows('select * from analytics.service_targets order by valid_from nulls first')).map(row => [
      Number(row.target_seconds) / 3600,
      day(row.valid_from),
      day(row.valid_to),
    ]);
  await target('set', 'next-reply', '9h');
  await target('set', 'next-reply', '7h', '--since', '2024-03-01');
  await target('set', 'next-reply', '5h', '--since', '2024-06-01');
  expect(await held()).toEqual([
    [9, null, '2024-03-01'],
    [7, '2024-03-01', '2024-06-01'],
    [5, '2024-06-01', null],
  ]);
  // A mistake: what was to hold from then on goes.
  await target('set', 'next-reply', '6h', '--since', '2024-02-01');
  expect(await held()).toEqual([
    [9, null, '2024-02-01'],
    [6, '2024-02-01', null],
  ]);
  await target('remove', 'next-reply', '--since', '2025-01-01');
  expect((await target('list')).stdout).toBe('');
  expect(await target('remove', 'next-reply')).toMatchObject({ code: 2 });
  // Nothing held in between.
  await target('set', 'next-reply', '4h', '--since', '2025-02-01');
  expect(await held()).toEqual([
    [9, null, '2024-02-01'],
    [6, '2024-02-01', '2025-01-01'],
    [4, '2025-02-01', null],
  ]);
});

test('what cannot be is refused, and changes nothing', async () => {
  await using s = await scripted();
  const config = configFor(s.url, { url: 'https://desk.example/api/v1', token: 'none' });
  const target = (...args: string[]) => command(addTarget, config, 'target', ...args);
  for (const odd of ['4', 'h', '', '0h', '4d', '4.5h', '-4h', '30m4h', '999999999h'])
    await expect(target('set', 'resolution', odd), odd).rejects.toThrow(CommanderError);
  await expect(target('set', 'reply', '4h')).rejects.toThrow(CommanderError);
  for (const [args, says] of [
    [['--inbox', 'none'], "account 'default' has no inbox none"],
    [['--label', 'none'], "account 'default' has no label none"],
  ] as const)
    expect(await target('set', 'resolution', '4h', ...args)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(says),
    });
  expect(await s.rows('select * from analytics.service_targets')).toEqual([]);
  expect(await s.rows('select * from sync.operations')).toEqual([]);
});
