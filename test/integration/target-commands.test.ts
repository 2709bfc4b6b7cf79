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
  await target('set', 'first-response', '8h');
  await target('set', 'first-response', '90m', '--inbox', 'i1', '--label', 'l1');
  await target('set', 'resolution', '40h', '--label', 'l1');
  expect((await target('list')).stdout).toBe(
    [
      'account  metric          within  inbox  label',
      '───────  ──────────────  ──────  ─────  ─────',
      'default  first-response  8h      all    all',
      'default  first-response  1h30m   i1     l1',
      'default  resolution      40h     all    l1\n',
    ].join('\n'),
  );
  expect(JSON.parse((await target('list', '--json')).stdout)).toEqual([
    { account: 'default', metric: 'first-response', inbox: null, label: null, seconds: 8 * 3600 },
    { account: 'default', metric: 'first-response', inbox: 'i1', label: 'l1', seconds: 5400 },
    { account: 'default', metric: 'resolution', inbox: null, label: 'l1', seconds: 40 * 3600 },
  ]);
  expect(await s.rows('select metric, target_seconds from analytics.ticket_targets order by 1')).toEqual([
    { metric: 'resolution', target_seconds: 40 * 3600 },
  ]);

  expect(await target('remove', 'first-response', '--inbox', 'i1')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("account 'default' has no service target for first-response, inbox i1"),
  });
  expect(await target('remove', 'first-response', '--inbox', 'i1', '--label', 'l1')).toMatchObject({
    code: 0,
    stderr: "Account 'default': no service target for first-response, inbox i1, label l1 any more.\n",
  });
  expect(JSON.parse((await target('list', '--json')).stdout)).toHaveLength(2);
  expect(await s.rows('select action, subject, outcome from sync.operations order by id')).toEqual([
    { action: 'target', subject: 'first-response', outcome: 'within 4h' },
    { action: 'target', subject: 'first-response', outcome: 'within 8h' },
    { action: 'target', subject: 'first-response, inbox i1, label l1', outcome: 'within 1h30m' },
    { action: 'target', subject: 'resolution, label l1', outcome: 'within 40h' },
    { action: 'target', subject: 'first-response, inbox i1, label l1', outcome: 'removed' },
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
