/** What is counted of a ticket, against values worked out by hand; and the traps, each by its name. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { message, type Scripted, scripted, ticket } from '../../support/scripted.ts';
import { differingMetrics } from '../../support/stored-metrics.ts';
import { told } from '../../support/told.ts';

const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;

const begin = Date.UTC(2026, 0, 5, 9);
const stamp = (ms: number) => `${new Date(ms).toISOString().slice(0, 19)}Z`;

const units: Readonly<Record<string, number>> = { d: day, h: hour, '': 1 };

/** Who wrote when: `in 0, auto 60, note u2 2h, out u1 3d`, each with the second of its creation after `from`; `?` where it shows none. */
const talk = (said: string, { id = 't1', from = begin } = {}) =>
  said.split(', ').flatMap((one, i) => {
    const [, kind, user_id = null, at, unit = ''] = /^(\w+)(?: (u\d))? (\d+|\?)([dh]?)$/.exec(one) ?? [];
    if (kind === undefined) return [];
    const second = at === '?' ? null : Number(at) * units[unit]!;
    return message(`${id}-${i + 1}`, {
      type: kind === 'note' ? 'note' : 'reply',
      direction: kind === 'note' ? null : kind === 'in' ? 'in' : 'out',
      user_id,
      created_at: second === null ? null : stamp(from + second * 1000),
    });
  });

interface Shown {
  id?: string;
  account?: string;
  from?: number;
  /** Seconds after `from` at which the ticket was updated, and then looked at. */
  updated?: number;
  seen?: number;
}

/** The ticket with these messages, created at `from`, as it is seen a minute after it was updated. */
async function show(
  s: Scripted,
  said: string,
  more: Record<string, unknown> = {},
  { id = 't1', account = 'default', from = begin, updated = 10 * day, seen = updated + minute }: Shown = {},
): Promise<void> {
  const record = ticket(id, { created_at: stamp(from), updated_at: stamp(from + updated * 1000), ...more });
  await told(s.pool, account, from + seen * 1000, record, talk(said, { id, from }));
}

async function metrics(s: Scripted, id = 't1', account = 'default'): Promise<Record<string, unknown>> {
  const [row] = await s.rows(
    'select * from analytics.ticket_metrics where ticket_id = $1 and account_id = $2',
    id,
    account,
  );
  return row!;
}

/** What is stored is what is defined, and nothing is left over. */
async function expectDefined(s: Scripted): Promise<void> {
  expect(await s.rows(differingMetrics)).toEqual([]);
}

async function calendar(
  s: Scripted,
  name: string,
  opens: string,
  closes: string,
  days: readonly number[],
): Promise<void> {
  await s.rows(`insert into analytics.calendars values ($1, 'Europe/Berlin')`, name);
  await s.rows(
    'insert into analytics.calendar_hours (calendar, weekday, opens, closes) select $1, d, $2::time, $3::time from unnest($4::int[]) d',
    name,
    opens,
    closes,
    days,
  );
}
const assign = (s: Scripted, name: string, account = 'default', inbox: string | null = null) =>
  s.rows(
    'insert into internal.stored_calendar_assignments (account_id, inbox_id, calendar) values ($2, $3, $1)',
    name,
    account,
    inbox,
  );
const workdays = [1, 2, 3, 4, 5];

/** Rows with these columns. */
const table = (columns: string, ...rows: readonly unknown[][]) =>
  rows.map(row => Object.fromEntries(columns.split(' ').map((name, i) => [name, row[i]])));

test('a ticket from its first message to its second reopening, every value worked out by hand', async () => {
  await using s = await scripted();
  // In Berlin it is an hour later than here. Friday the 2nd of January is the first working day.
  await calendar(s, 'office', '09:00', '17:00', workdays);
  await assign(s, 'office');
  const at = (date: number, time: string) => Date.parse(`2026-01-0${date}T${time}Z`);
  const says = (id: string, who: string, date: number, time: string) => ({
    ...talk(`${who} 0`, { from: at(date, time) })[0]!,
    id,
  });
  const conversation = [
    says('m1', 'in', 2, '15:00:00'), // A burst of two on Friday afternoon,
    says('m2', 'in', 2, '15:10:00'),
    says('m3', 'auto', 2, '15:11:00'), // which a machine acknowledges,
    { ...says('m4', 'note u2', 2, '15:20:00'), attachments: [{ id: 'a1', name: 'a', type: 'text/plain', size: 1 }] },
    says('m5', 'out u1', 5, '08:30:00'), // and somebody answers on Monday morning.
    says('m6', 'in', 5, '10:00:00'),
    says('m7', 'out u2', 5, '10:45:00'),
    says('m8', 'in', 6, '20:00:00'), // On Tuesday evening the customer writes again, and waits.
  ];
  const looks = [
    { seen: at(2, '15:30:00'), updated: '2026-01-02T15:20:00Z', state: 'open', user_id: null, messages: 4 },
    { seen: at(5, '09:00:00'), updated: '2026-01-05T08:31:00Z', state: 'closed', user_id: 'u1', messages: 5 },
    { seen: at(5, '10:05:00'), updated: '2026-01-05T10:00:00Z', state: 'open', user_id: 'u1', messages: 6 },
    { seen: at(5, '11:00:00'), updated: '2026-01-05T10:46:00Z', state: 'closed', user_id: 'u2', messages: 7 },
    { seen: at(6, '20:05:00'), updated: '2026-01-06T20:00:00Z', state: 'open', user_id: 'u2', messages: 8 },
  ];
  for (const { seen, updated, state, user_id, messages } of looks) {
    const record = ticket('t1', { created_at: '2026-01-02T15:00:00Z', updated_at: updated, state, user_id });
    await told(s.pool, 'default', seen, record, conversation.slice(0, messages));
    await expectDefined(s);
  }

  expect(await metrics(s)).toEqual({
    account_id: 'default',
    ticket_id: 't1',
    number: 7,
    customer_id: 'c1',
    inbox_id: 'i1',
    user_id: 'u2',
    state: 'open',
    type: 'email',
    spam: false,
    trash: false,
    created_at: new Date('2026-01-02T15:00:00Z'),
    updated_at: new Date('2026-01-06T20:00:00Z'),
    deleted_at: null,
    messages_complete: true,
    message_count: 8,
    inbound_count: 4,
    authored_count: 2,
    automatic_count: 1,
    note_count: 1,
    other_count: 0,
    attachment_count: 1,
    agents_involved: 2, // u1 replied; u2 wrote the note, and replied.
    last_inbound_at: new Date('2026-01-06T20:00:00Z'),
    last_authored_at: new Date('2026-01-05T10:45:00Z'),
    is_outbound_initiated: false,
    is_one_touch: false,
    is_unreplied: false,
    // Friday 15:00 to Monday 08:30 is 65.5 h. Of these the office had Friday 15:00–16:00 and Monday 08:00–08:30.
    first_response_seconds: 235_800,
    first_response_business_seconds: 5400,
    first_responder_id: 'u1',
    // The ticket was created with its first message.
    first_reply_seconds: 235_800,
    first_reply_business_seconds: 5400,
    // Two bursts were answered: after 235,800 s, and after the 45 min from 10:00 to 10:45 on Monday.
    turns: 2,
    waiting_since: new Date('2026-01-06T20:00:00Z'),
    total_wait_seconds: 238_500,
    average_wait_seconds: 119_250,
    longest_wait_seconds: 235_800,
    total_wait_business_seconds: 8100,
    average_wait_business_seconds: 4050,
    longest_wait_business_seconds: 5400,
    // Seen closed on Monday 09:00, updated at 08:31. It was last seen open on Friday 15:30, and a source may show a change two
    // minutes late: so it was closed after 15:28, within 234,180 s.
    first_closed_at: new Date('2026-01-05T08:31:00Z'),
    first_closed_error_seconds: 234_180,
    // Closed again at 10:46, and last seen open at 10:05: after 10:03.
    last_closed_at: new Date('2026-01-05T10:46:00Z'),
    last_closed_error_seconds: 2580,
    // Friday 15:00 to Monday 08:31; in the office 1 h on Friday and 31 min on Monday.
    first_resolution_seconds: 235_860,
    first_resolution_error_seconds: 234_180,
    first_resolution_business_seconds: 5460,
    // It is open.
    full_resolution_seconds: null,
    full_resolution_error_seconds: null,
    full_resolution_business_seconds: null,
    first_closing_seen: true,
    last_closing_seen: true,
    reopen_count: 2,
    // Nobody knows when it changed from 14:59:59 (a second before its creation) to 15:20 on Friday: 1,201 s; then 234,180 s;
    // from 08:58 to 10:00 on Monday: 3,720 s; 2,580 s; and from Monday 10:58 to Tuesday 20:00: 118,920 s.
    reopen_error_seconds: 360_601,
    assignment_count: 2,
    assignment_error_seconds: 360_601,
    // Friday 15:20 to Monday 08:31 is 234,660 s; 10:00 to 10:46 on Monday is 2,760 s. What began on Tuesday goes on.
    seconds_open: 237_420,
    open_error_seconds: 1201 + 234_180 + 3720 + 2580,
    seconds_hold: 0,
    hold_error_seconds: 0,
    seconds_snoozed: 0,
    snoozed_error_seconds: 0,
    // 08:31 to 10:00 is 5,340 s; Monday 10:46 to Tuesday 20:00 is 119,640 s.
    seconds_closed: 124_980,
    closed_error_seconds: 234_180 + 3720 + 2580 + 118_920,
    seconds_archived: 0,
    archived_error_seconds: 0,
  });

  expect(
    await s.rows(`select turn, wait_seconds, wait_business_seconds, user_id, inbound_messages, first_message_id, reply_message_id,
      is_answered, is_first_response from analytics.reply_turns order by turn`),
  ).toEqual(
    table(
      'turn wait_seconds wait_business_seconds user_id inbound_messages first_message_id reply_message_id is_answered is_first_response',
      [1, 235_800, 5400, 'u1', 2, 'm1', 'm5', true, true],
      [2, 2700, 2700, 'u2', 1, 'm6', 'm7', true, false],
      [3, null, null, null, 1, 'm8', null, false, false],
    ),
  );
  expect(
    await s.rows(`select day::text, user_id, replies, notes, first_responses, turns_answered, wait_seconds, wait_business_seconds, tickets_touched
      from analytics.agent_daily order by day, user_id`),
  ).toEqual(
    table(
      'day user_id replies notes first_responses turns_answered wait_seconds wait_business_seconds tickets_touched',
      ['2026-01-02', 'u2', 0, 1, 0, 0, null, null, 1],
      ['2026-01-05', 'u1', 1, 0, 1, 1, 235_800, 5400, 1],
      ['2026-01-05', 'u2', 1, 0, 0, 1, 2700, 2700, 1],
    ),
  );
  expect(
    await s.rows(
      `select local_weekday, local_hour, tickets_created, inbound_messages from analytics.arrivals_hourly order by hour`,
    ),
  ).toEqual([
    { local_weekday: 5, local_hour: 16, tickets_created: 1, inbound_messages: 2 },
    { local_weekday: 1, local_hour: 11, tickets_created: 0, inbound_messages: 1 },
    { local_weekday: 2, local_hour: 21, tickets_created: 0, inbound_messages: 1 },
  ]);
  // The customer has not been read: the ticket alone tells of them.
  expect(await s.rows(`select * from analytics.customer_summary`)).toEqual([
    {
      account_id: 'default',
      customer_id: 'c1',
      is_mirrored: false,
      tickets: 1,
      open_tickets: 1,
      waiting_tickets: 1,
      waiting_since: new Date('2026-01-06T20:00:00Z'),
      first_ticket_at: new Date('2026-01-02T15:00:00Z'),
      last_ticket_at: new Date('2026-01-02T15:00:00Z'),
      inbound_messages: 4,
      replies: 2,
      last_inbound_at: new Date('2026-01-06T20:00:00Z'),
      average_first_response_seconds: 235_800,
      reopens: 2,
      // That of the ticket.
      reopen_error_seconds: 360_601,
    },
  ]);
});

interface Trap {
  name: string;
  said: string;
  expected: Record<string, unknown>;
}

const traps: Trap[] = [
  {
    name: 'equal seconds are in the order of positions: question, then answer',
    said: 'in 0, in 60, out u1 60',
    expected: { first_response_seconds: 60, turns: 1, waiting_since: null, is_outbound_initiated: false },
  },
  {
    name: 'equal seconds are in the order of positions: answer, then question',
    said: 'in 0, out u1 60, in 60',
    expected: { first_response_seconds: 60, turns: 1, waiting_since: new Date(begin + 60_000), is_one_touch: false },
  },
  {
    name: 'time goes before position: what the source lists late may have been written early',
    said: 'out u1 100, in 0',
    expected: { is_outbound_initiated: false, first_response_seconds: 100 },
  },
  {
    name: 'a ticket longer than a year, over a leap day',
    said: 'in 0, out u1 366d, in 400d, out u1 800d',
    expected: { first_response_seconds: 31_622_400, longest_wait_seconds: 34_560_000, total_wait_seconds: 66_182_400 },
  },
];

describe('a ticket of each kind, in one warehouse', () => {
  let s: Scripted;
  beforeAll(async () => {
    s = await scripted();
    for (const { name, said } of traps) await show(s, said, {}, { id: name });
  });
  afterAll(() => s[Symbol.asyncDispose]());

  test.each(traps)('$name', async ({ name, expected }) => {
    expect(await metrics(s, name)).toMatchObject(expected);
  });

  test('stored metrics equal their definitions, and an equal row or a recomputation writes nothing', async () => {
    await expectDefined(s);
    const written = () =>
      s.rows(`select 0 as turn, ctid::text, xmin::text from internal.stored_ticket_metrics
        union all select turn, ctid::text, xmin::text from internal.stored_reply_turns order by 1, 2`);
    const before = await written();
    expect(before.length).toBeGreaterThan(2 * traps.length);
    for (const { name, said } of traps) await show(s, said, {}, { id: name });
    await s.rows(`call analytics.recompute('default', 2)`);
    expect(await written()).toEqual(before);
  });
});

test('a ticket that moves to another inbox moves to its hours, and a calendar that changes is told by a recomputation', async () => {
  await using s = await scripted();
  await calendar(s, 'nights', '01:00', '05:00', [7]);
  await assign(s, 'nights', 'default', 'i1');
  // In Berlin clocks go from 3 back to 2 on the 25th of October 2026, a Sunday.
  const from = Date.UTC(2026, 9, 24, 22);
  await show(s, 'in 0, out u1 12h', { inbox_id: 'i2' }, { from });
  // No calendar is no business time, not none of it.
  expect(await metrics(s)).toMatchObject({ first_response_business_seconds: null });
  await show(s, 'in 0, out u1 12h', { inbox_id: 'i1' }, { from, updated: 11 * day });
  expect(await metrics(s)).toMatchObject({ first_response_business_seconds: 5 * hour });
  await s.rows(`update analytics.calendar_hours set closes = '02:00'`);
  await s.rows(`call analytics.recompute('default', 2)`);
  expect(await metrics(s)).toMatchObject({ first_response_business_seconds: hour });
  await expectDefined(s);
});

test('a message that is taken from a ticket whose messages are read anew at that moment', async () => {
  await using s = await scripted();
  await show(s, 'in 0', {}, { id: 'from' });
  await show(s, 'in 0', {}, { id: 'to' });
  const [taking, reading] = [await s.pool.connect(), await s.pool.connect()];
  try {
    const { rows } = await reading.query<{ pid: number }>('select pg_backend_pid() as pid');
    await taking.query('begin');
    await taking.query(`update internal.messages set ticket_id = 'to', position = 2 where id = 'from-1'`);
    const read = (async () => {
      await reading.query('begin');
      await reading.query(
        `update helpdesk.tickets set _messages_as_of = _messages_as_of + interval '1 minute' where id = 'from'`,
      );
      await reading.query(`insert into internal.messages (account_id, id, ticket_id, position, type, _first_seen_at, _synced_at, _observed_at, _payload)
        values ('default', 'new', 'from', 1, 'note', now(), now(), now(), '{}')`);
      await reading.query('commit');
    })();
    await expect
      .poll(async () => (await s.rows(`select wait_event_type from pg_stat_activity where pid = $1`, rows[0]!.pid))[0])
      .toEqual({ wait_event_type: 'Lock' });
    await taking.query('commit');
    await read;
  } finally {
    taking.release();
    reading.release();
  }
  expect(await metrics(s, 'from')).toMatchObject({ message_count: 1, note_count: 1, inbound_count: 0 });
  expect(await metrics(s, 'to')).toMatchObject({ inbound_count: 2 });
  await expectDefined(s);
});
