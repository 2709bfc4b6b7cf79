/** `warehouse calendar list | show | set | assign | unassign | remove`: business hours and their assignment to accounts and inboxes. */
import { type Command, InvalidArgumentError } from 'commander';
import type pg from 'pg';
import {
  assignCalendar,
  type Calendar,
  type Holiday,
  type Hours,
  readCalendar,
  readCalendars,
  recompute,
  removeCalendar,
  setCalendar,
  unassignCalendar,
} from '../../../analytics/calendars.ts';
import { openToSet } from '../../choose-account.ts';
import { type Act, type Deps, jsonOption } from '../../command.ts';
import { print, printJson, printList, say } from '../../output/terminal.ts';

const weekdays = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'];

interface Asked {
  json?: boolean;
  inbox?: string[];
  timeZone?: string;
  hours?: Hours[];
  holiday?: Holiday[] | false;
}

export function addCalendar(program: Command, deps: Deps, act: Act): void {
  const calendar = program
    .command('calendar')
    .summary('set business hours for the metrics')
    .description('business hours for the metrics, per account or inbox');
  calendar
    .command('list')
    .description('list the calendars and their assignments')
    .option(...jsonOption)
    .action(act((asked: Asked) => list(deps, asked)));
  calendar
    .command('show')
    .description('show the hours, holidays and assignments of a calendar')
    .argument('<name>', 'name in `warehouse calendar list`')
    .option(...jsonOption)
    .action(act((name: string, asked: Asked) => show(deps, name, asked)));
  calendar
    .command('set')
    .description('create a calendar, or change the given parts of one')
    .argument('<name>', 'name of the calendar')
    .option('--time-zone <zone>', 'time zone of the hours, such as Europe/Berlin')
    .option('--hours <hours>', 'such as "mon-fri 09:00-12:30 13:00-18:00"; repeat for other days', hours)
    .option('--holiday <day>', 'closed day, such as "2026-12-25 Christmas"; may be repeated', holiday)
    .option('--no-holiday', 'remove all holidays')
    .option(...jsonOption)
    .action(act((name: string, asked: Asked) => set(deps, name, asked)));
  calendar
    .command('assign')
    .description('assign a calendar to the account or some of its inboxes and recompute their business times')
    .argument('<name>', 'name in `warehouse calendar list`')
    .option('--inbox <id>', 'only this inbox; may be repeated (default: the whole account)', inboxes)
    .option(...jsonOption)
    .action(act((name: string, asked: Asked) => assign(deps, name, asked)));
  calendar
    .command('unassign')
    .description('remove the assignment of the account or some of its inboxes')
    .option('--inbox <id>', 'only this inbox; may be repeated (default: the whole account)', inboxes)
    .action(act((asked: Asked) => unassign(deps, asked)));
  calendar
    .command('remove')
    .description('remove a calendar that is not assigned')
    .argument('<name>', 'name in `warehouse calendar list`')
    .action(act((name: string) => remove(deps, name)));
}

async function list(deps: Deps, asked: Asked): Promise<void> {
  await using opened = await openToSet(deps);
  printList(await readCalendars(opened.db), asked, {
    none: 'No calendars yet, so business times are null. Create one with `warehouse calendar set`.',
    columns: ['calendar', 'time zone', 'hours', 'holidays', 'kept by'],
    row: one => [one.name, one.time_zone, inWords(one.hours), one.holidays.length, keepers(one)],
  });
}

async function show(deps: Deps, name: string, asked: Asked): Promise<void> {
  await using opened = await openToSet(deps);
  await printOne(opened.db, name, asked);
}

async function set(deps: Deps, name: string, asked: Asked): Promise<void> {
  await using opened = await openToSet(deps);
  const { db, who, now } = opened;
  // Commander sets `true` if neither option was given.
  const holidays = asked.holiday === false ? [] : Array.isArray(asked.holiday) ? asked.holiday : undefined;
  const changed = { name, who, timeZone: asked.timeZone, hours: asked.hours, holidays };
  for (const account of await setCalendar(db, changed, now)) await recomputeTimes(db, account);
  await printOne(db, name, asked);
}

async function assign(deps: Deps, name: string, asked: Asked): Promise<void> {
  await using opened = await openToSet(deps);
  const { db, who, now } = opened;
  const account = await opened.account();
  await assignCalendar(db, { account, calendar: name, inboxes: asked.inbox ?? [], who }, now);
  await recomputeTimes(db, account);
  await printOne(db, name, asked);
}

async function unassign(deps: Deps, { inbox = [] }: Asked): Promise<void> {
  await using opened = await openToSet(deps);
  const { db, who, now } = opened;
  const account = await opened.account();
  await unassignCalendar(db, { account, inboxes: inbox, who }, now);
  await recomputeTimes(db, account);
}

async function remove(deps: Deps, name: string): Promise<void> {
  await using opened = await openToSet(deps);
  await removeCalendar(opened.db, name);
  say(`Calendar '${name}' was removed.`);
}

async function recomputeTimes(db: pg.Pool, account: string): Promise<void> {
  await recompute(db, account);
  say(`Business times of account '${account}' were recomputed.`);
}

async function printOne(db: pg.Pool, name: string, { json }: Asked): Promise<void> {
  const one = await readCalendar(db, name);
  if (json) printJson(one);
  else print(sheet(one));
}

/** `mon-fri 09:00-12:30 13:00-18:00`, `sat,sun 22:00-06:00`. Hours after midnight are stored on the next day. */
function hours(text: string, before: Hours[] = []): Hours[] {
  const [days = '', ...spans] = text.trim().toLowerCase().split(/\s+/);
  const wrong = new InvalidArgumentError('It must be days and hours, such as "mon-fri 09:00-12:30 13:00-18:00".');
  const named = days.split(',').flatMap(part => {
    const [first, last = first, ...more] = part.split('-').map(day => weekdays.indexOf(day));
    if (first === undefined || first < 0 || last === undefined || last < 0 || more.length > 0) throw wrong;
    return Array.from({ length: ((last - first + 7) % 7) + 1 }, (_, i) => ((first + i) % 7) + 1);
  });
  if (spans.length === 0) throw wrong;
  const found = spans.flatMap(span => {
    const [, opens, closes] = /^((?:[01]\d|2[0-3]):[0-5]\d)-((?:[01]\d|2[0-3]):[0-5]\d|24:00)$/.exec(span) ?? [];
    if (opens === undefined || closes === undefined || opens === closes) throw wrong;
    return named.flatMap(weekday => {
      if (opens < closes) return [{ weekday, opens, closes }];
      const morning = { weekday: (weekday % 7) + 1, opens: '00:00', closes };
      return [{ weekday, opens, closes: '24:00' }, ...(closes === '00:00' ? [] : [morning])];
    });
  });
  const all = [...before, ...found];
  const starts = new Set(all.map(({ weekday, opens }) => `${weekday} ${opens}`));
  if (starts.size < all.length) throw new InvalidArgumentError('Two time spans start at the same time of a day.');
  return all;
}

function holiday(text: string, before: Holiday[] | boolean | undefined): Holiday[] {
  const [, day, name] = /^(\d{4}-\d\d-\d\d)(?:\s+(.*\S))?\s*$/.exec(text) ?? [];
  // `Date` reads 2026-02-30 as another day or as invalid.
  const read = new Date(`${day}T00:00:00Z`);
  if (day === undefined || Number.isNaN(read.getTime()) || read.toISOString().slice(0, 10) !== day)
    throw new InvalidArgumentError('It must be a day with an optional name: "2026-12-25 Christmas".');
  const others = Array.isArray(before) ? before.filter(one => one.day !== day) : [];
  return [...others, { day, name: name ?? null }];
}

const inboxes = (id: string, before: string[] = []) => [...before, id];

/** Groups consecutive days with the same hours: `mon-fri 09:00-17:00, sat 10:00-14:00`. */
function inWords(all: readonly Hours[]): string {
  const ofDay = weekdays.map((_, i) =>
    all
      .filter(({ weekday }) => weekday === i + 1)
      .map(({ opens, closes }) => `${opens}-${closes}`)
      .join(' '),
  );
  const parts: string[] = [];
  for (let i = 0; i < ofDay.length; i++) {
    let last = i;
    while (ofDay[last + 1] === ofDay[i]) last++;
    if (ofDay[i]) parts.push(`${i === last ? weekdays[i] : `${weekdays[i]}-${weekdays[last]}`} ${ofDay[i]}`);
    i = last;
  }
  return parts.join(', ') || 'never open';
}

function keepers({ assigned }: Calendar): string {
  return assigned.map(({ account, inbox }) => (inbox === null ? account : `${account} inbox ${inbox}`)).join(', ');
}

function sheet(one: Calendar): string {
  const days = inWords(one.hours).split(', ');
  return [
    `calendar   ${one.name}`,
    `time zone  ${one.time_zone}`,
    ...days.map((day, i) => `${i === 0 ? 'hours' : ''}`.padEnd(11) + day),
    ...one.holidays.map(({ day, name }, i) =>
      `${(i === 0 ? 'holidays' : '').padEnd(11)}${day} ${name ?? ''}`.trimEnd(),
    ),
    `kept by    ${keepers(one) || 'nobody'}`,
  ].join('\n');
}
