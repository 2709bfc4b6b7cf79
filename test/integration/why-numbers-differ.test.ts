/** The tickets of docs/explanation/why-numbers-differ.md, read by the real program: what the page says of them is in the tables. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { message, scripted, second, ticket } from '../support/scripted.ts';

const page = readFileSync(new URL('../../docs/explanation/why-numbers-differ.md', import.meta.url), 'utf8');

/** The rows of a table below its head. */
function table(heading: string): string[][] {
  const lines = page.split(`## ${heading}\n`)[1]!.split('\n## ')[0]!.split('\n');
  const rows = lines.filter(line => line.startsWith('| ')).map(line => line.split('|').slice(1, -1));
  return rows.slice(2).map(row => row.map(cell => cell.trim()));
}

const secondOf = (time: string) => (Date.parse(`${time.replace(' ', 'T')}:00Z`) - second(0)) / 1000;
const stampOf = (time: string) => `${time.replace(' ', 'T')}:00Z`;
const users = { Ana: 'u1', Ben: 'u2' };
const states = { closed: 'closed', reopened: 'open', snoozed: 'snoozed', archived: 'archived' };

function inWords(value: unknown, isTime: boolean): string {
  if (value === null || value === undefined) return 'none';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (!isTime) return String(value);
  const seconds = Number(value);
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'min'],
    [seconds % 60, 's'],
  ] as const;
  const said = parts.filter(([n]) => n > 0).map(([n, unit]) => `${n} ${unit}`);
  return said.length === 0 ? '0 min' : said.join(' ');
}

test('what the page says of its tickets is what the tables hold', async () => {
  const begins = secondOf('2026-03-02 08:48');
  await using s = await scripted({ begins, lookbackMs: 120_000 });
  await s.pool.query(`
    insert into analytics.calendars values ('office', 'Europe/Berlin');
    insert into analytics.calendar_hours select 'office', d, '09:00', '17:00' from generate_series(1, 5) d;
    insert into internal.stored_calendar_assignments values ('default', null, 'office')`);
  const tickets = new Map<string, Record<string, unknown> & { messages: object[] }>();
  let said = 0;
  const happen = (id: string, time: string, what: string) => {
    const stamp = stampOf(time);
    const one = tickets.get(id) ?? { ...ticket(id, { created_at: stamp }), messages: [] };
    tickets.set(id, one);
    s.details[`/tickets/${id}`] = () => one;
    one.updated_at = stamp;
    for (const act of what.split(', ')) {
      const [, kind, name] = /^(reply|note|assigned) (?:by|to) (\w+)$/.exec(act) ?? [];
      const user = name && users[name as keyof typeof users];
      const say = (more: object) => one.messages.push(message(`m${said++}`, { created_at: stamp, ...more }));
      if (act === 'customer writes') say({});
      else if (act === 'automatic reply') say({ direction: 'out' });
      else if (act === 'marked as spam') one.spam = true;
      else if (act === 'labelled') one.label_ids = ['l1'];
      else if (act in states) one.state = states[act as keyof typeof states];
      else if (kind === 'assigned') one.user_id = user;
      else if (kind) say({ type: kind, direction: kind === 'reply' ? 'out' : null, user_id: user });
      else expect.unreachable(act);
    }
  };
  s.lists.tickets = query => {
    const since = query.get('since_updated_at') ?? '';
    const changed = [...tickets.values()].filter(one => String(one.updated_at) >= since);
    return changed
      .sort((a, b) => (String(a.updated_at) < String(b.updated_at) ? -1 : 1))
      .map(({ messages, ...one }) => one);
  };
  const read = async (n: number) => {
    s.goTo(n);
    await s.sync('tickets');
    await s.sync('messages');
  };
  const events = table('The tickets').map(([id, time, what]) => ({
    id: id!,
    time: time!,
    what: what!,
    n: secondOf(time!),
  }));
  expect(new Set(events.map(({ id }) => id)).size).toBe(10);
  events.sort((a, b) => a.n - b.n);
  const readAt = (n: number) => Math.max(begins, begins + Math.ceil((n - begins) / 600) * 600);
  for (const [i, { id, time, what, n }] of events.entries()) {
    happen(id, time, what);
    const next = events[i + 1];
    if (!next || readAt(next.n) > readAt(n)) await read(readAt(n));
  }
  await read(secondOf('2026-03-09 12:08'));

  const [{ day: whole }] = (await s.rows(`
    select to_jsonb(d) as day from (select
      (select count(*) from analytics.fact_tickets where created_date = '2026-03-02') as created_date,
      (select count(*) from analytics.fact_tickets where first_closed_date = '2026-03-02') as first_closed_date,
      (select sum(tickets) from analytics.backlog_daily('2026-03-02', '2026-03-02', 'Europe/Berlin')) as backlog_daily) d`)) as [
    { day: Record<string, unknown> },
  ];
  const metrics = new Map((await s.rows('select * from analytics.countable_tickets')).map(row => [row.ticket_id, row]));
  const figures = table('What each says').map(row => ({
    ...{ figure: row[0]!, ticket: row[1]!, says: row[5]!, column: row[6]!.replaceAll('`', '') },
  }));
  const found = figures.map(({ ticket, column, ...one }) => {
    const value = ticket === 'all' ? whole[column] : metrics.get(ticket)![column];
    expect(value, `${column} of ${ticket}`).not.toBe(undefined);
    return { ...one, ticket, column, says: inWords(value, column.endsWith('_seconds')) };
  });
  expect(found).toEqual(figures.map(one => ({ ...one })));
  expect(figures.length).toBeGreaterThan(20);
});
