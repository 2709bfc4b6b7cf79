/** `calendar` at a terminal: hours as people write them, who keeps them, and metrics that follow at once. */
import { CommanderError } from 'commander';
import { expect, test } from 'vitest';
import { addCalendar } from '../../src/cli/setup/warehouse/calendar.ts';
import { command } from '../support/command.ts';
import { long } from '../support/long.ts';
import { configFor } from '../support/mirror.ts';
import { message, scripted, ticket } from '../support/scripted.ts';

test('a calendar is made, kept by an inbox, changed and removed; business times follow', long, async () => {
  await using s = await scripted();
  const config = configFor(s.url, { url: 'https://desk.example/api/v1', token: 'none' });
  const calendar = (...args: string[]) => command(addCalendar, config, 'calendar', ...args);
  const json = async (...args: string[]) => JSON.parse((await calendar(...args, '--json')).stdout);
  // Asked at midnight of a Thursday, the 1st of January 2026; answered at noon.
  const asked = ticket('t1', {
    inbox_id: 'i1',
    created_at: '2026-01-01T00:00:00Z',
    updated_at: '2026-01-01T12:00:00Z',
  });
  s.lists.tickets = [asked];
  s.details['/tickets/t1'] = {
    ...asked,
    messages: [
      message('m1', { direction: 'in', user_id: null, created_at: '2026-01-01T00:00:00Z' }),
      message('m2', { direction: 'out', user_id: 'u1', created_at: '2026-01-01T12:00:00Z' }),
    ],
  };
  s.goTo(13 * 3600);
  await s.sync('tickets');
  await s.sync('messages');
  const business = async () =>
    (await s.rows('select first_response_business_seconds as b from analytics.ticket_metrics'))[0]!.b;
  expect(await business()).toBe(null);
  expect(await calendar('list')).toMatchObject({
    code: 0,
    stdout: '',
    stderr: expect.stringContaining('No calendars yet'),
  });

  expect(await calendar('set', 'office', '--time-zone', 'Europe/Berlin')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('needs a time zone and hours'),
  });
  const office = ['set', 'office', '--time-zone', 'Europe/Berlin', '--hours', 'mon-fri 09:00-12:00 13:00-17:00'];
  expect(await json(...office, '--hours', 'sat 22:00-02:00', '--holiday', '2026-12-25 Christmas')).toEqual({
    ...{ name: 'office', time_zone: 'Europe/Berlin', assigned: [] },
    hours: [
      ...[1, 2, 3, 4, 5].flatMap(weekday => [
        { weekday, opens: '09:00', closes: '12:00' },
        { weekday, opens: '13:00', closes: '17:00' },
      ]),
      { weekday: 6, opens: '22:00', closes: '24:00' },
      { weekday: 7, opens: '00:00', closes: '02:00' },
    ],
    holidays: [{ day: '2026-12-25', name: 'Christmas' }],
  });
  expect(await business()).toBe(null);

  expect(await calendar('assign', 'office', '--inbox', 'i1')).toMatchObject({
    code: 0,
    stdout: [
      'calendar   office',
      'time zone  Europe/Berlin',
      'hours      mon-fri 09:00-12:00 13:00-17:00',
      '           sat 22:00-24:00',
      '           sun 00:00-02:00',
      'holidays   2026-12-25 Christmas',
      'kept by    default inbox i1\n',
    ].join('\n'),
    stderr: expect.stringContaining("Business times of account 'default' were recomputed"),
  });
  // 09:00 to 12:00 and 13:00 in Berlin: it was noon in UTC.
  expect(await business()).toBe(3 * 3600);
  // Changed by a hand, or by a command that was killed before it had worked out anything: that is known.
  const due = async () =>
    (await s.rows(`select found from analytics.integrity where check_name like 'business times%'`))[0]!.found;
  expect(await due()).toBe(0);
  await s.rows(`update analytics.calendars set time_zone = 'Asia/Tokyo' where name = 'office'`);
  expect(await due()).toBe(1);
  expect(await json('set', 'office', '--time-zone', 'UTC')).toMatchObject({
    time_zone: 'UTC',
    holidays: [{ day: '2026-12-25' }],
  });
  expect(await business()).toBe(3 * 3600);
  expect(await due()).toBe(0);
  expect(await json('set', 'office', '--hours', 'mon-sun 00:00-24:00')).toMatchObject({ hours: { length: 7 } });
  expect(await business()).toBe(12 * 3600);
  await calendar('set', 'office', '--holiday', '2026-01-01');
  expect(await business()).toBe(0);
  expect(await json('set', 'office', '--no-holiday')).toMatchObject({ holidays: [] });
  expect(await business()).toBe(12 * 3600);

  await calendar('set', 'night', '--time-zone', 'UTC', '--hours', 'fri,sun-mon 22:00-06:00');
  expect(await json('assign', 'night')).toMatchObject({ assigned: [{ account: 'default', inbox: null }] });
  expect((await calendar('list')).stdout).toMatch(/night +UTC +mon 00:00-06:00 22:00-24:00, tue 00:00-06:00, fri 22:/);
  expect(await calendar('remove', 'night')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('Run `npx shelfdesk warehouse calendar unassign` first'),
  });
  expect(await calendar('unassign')).toMatchObject({ code: 0 });
  expect(await calendar('unassign')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('keeps no calendar as a whole'),
  });
  expect(await calendar('remove', 'night')).toMatchObject({ code: 0 });
  expect(await calendar('unassign', '--inbox', 'i1')).toMatchObject({ code: 0 });
  expect(await business()).toBe(null);
  expect(await s.rows('select who, action, subject, outcome from sync.operations order by id')).toEqual([
    { who: expect.stringContaining('@'), action: 'calendar', subject: 'inbox i1', outcome: 'keeps office' },
    ...Array.from({ length: 4 }, () => expect.objectContaining({ subject: 'office', outcome: 'changed' })),
    expect.objectContaining({ subject: '', outcome: 'keeps night' }),
    expect.objectContaining({ subject: '', outcome: 'keeps none' }),
    expect.objectContaining({ subject: 'inbox i1', outcome: 'keeps none' }),
  ]);
});

test('what cannot be is refused where it is said, and changes nothing', async () => {
  await using s = await scripted();
  const config = configFor(s.url, { url: 'https://desk.example/api/v1', token: 'none' });
  const calendar = (...args: string[]) => command(addCalendar, config, 'calendar', ...args);
  const zone = ['--time-zone', 'UTC'];
  for (const odd of [
    'mon',
    'mon 9:00-17:00',
    'mon 09:00-09:00',
    'mon 09:00-25:00',
    'foo 09:00-17:00',
    'mon-tue-wed 09:00-10:00',
  ])
    await expect(calendar('set', 'x', ...zone, '--hours', odd), odd).rejects.toThrow(CommanderError);
  await expect(
    calendar('set', 'x', ...zone, '--hours', 'mon 09:00-10:00', '--hours', 'mon 09:00-11:00'),
  ).rejects.toThrow('start at the same time');
  for (const odd of ['2026-02-30', 'Christmas', '25.12.2026'])
    await expect(calendar('set', 'x', ...zone, '--hours', 'mon 09:00-10:00', '--holiday', odd), odd).rejects.toThrow(
      CommanderError,
    );
  const refusals: [args: string[], says: string][] = [
    [
      ['set', 'x', '--time-zone', 'Europe/Nowhere', '--hours', 'mon 09:00-10:00'],
      "knows no time zone 'Europe/Nowhere'",
    ],
    [['show', 'x'], "there is no calendar 'x'"],
    [['assign', 'x'], "there is no calendar 'x'"],
    [['remove', 'x'], "there is no calendar 'x'"],
  ];
  for (const [args, says] of refusals)
    expect(await calendar(...args)).toMatchObject({ code: 2, stderr: expect.stringContaining(says) });
  expect(await s.rows('select from analytics.calendars')).toEqual([]);
  await calendar('set', 'x', ...zone, '--hours', 'mon 09:00-10:00');
  expect(await calendar('assign', 'x', '--inbox', 'nowhere')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("account 'default' has no inbox nowhere"),
  });
  expect(await s.rows('select from sync.operations')).toEqual([]);
});
