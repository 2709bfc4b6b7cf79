/** Manages business calendars and their assignment to inboxes. Triggers maintain the open spans. */
import type pg from 'pg';
import { type Queryable, transaction } from '../engine/database/pool.ts';
import { query, raw, sql } from '../engine/database/sql.ts';
import { hasLeft, noteOperation } from '../engine/runs/operations.ts';
import { command } from '../engine/runs/pauses.ts';
import { UsageError } from '../errors.ts';

export interface Hours {
  /** 1 Monday to 7 Sunday. */
  readonly weekday: number;
  /** `09:00`; `24:00` is the end of the day. */
  readonly opens: string;
  readonly closes: string;
}

export interface Holiday {
  /** `2026-12-25` */
  readonly day: string;
  readonly name: string | null;
}

export interface Calendar {
  readonly name: string;
  readonly time_zone: string;
  readonly hours: Hours[];
  readonly holidays: Holiday[];
  /** Inbox null: the whole account. */
  readonly assigned: { account: string; inbox: string | null }[];
}

/** Undefined fields stay unchanged. */
interface CalendarChange {
  readonly timeZone?: string | undefined;
  readonly hours?: readonly Hours[] | undefined;
  readonly holidays?: readonly Holiday[] | undefined;
}

export async function readCalendars(db: Queryable, name?: string): Promise<Calendar[]> {
  const { rows } = await db.query<Calendar>(
    `select c.name, c.time_zone,
       (select coalesce(jsonb_agg(jsonb_build_object('weekday', h.weekday, 'opens', left(h.opens::text, 5), 'closes', left(h.closes::text, 5))
           order by h.weekday, h.opens), '[]')
        from analytics.calendar_hours h where h.calendar = c.name) as hours,
       (select coalesce(jsonb_agg(jsonb_build_object('day', f.day, 'name', f.name) order by f.day), '[]')
        from analytics.calendar_holidays f where f.calendar = c.name) as holidays,
       (select coalesce(jsonb_agg(jsonb_build_object('account', a.account_id, 'inbox', a.inbox_id) order by a.account_id, a.inbox_id nulls first), '[]')
        from internal.stored_calendar_assignments a where a.calendar = c.name) as assigned
     from analytics.calendars c where $1::text is null or c.name = $1 order by c.name`,
    [name ?? null],
  );
  return rows;
}

export async function readCalendar(db: Queryable, name: string): Promise<Calendar> {
  const [calendar] = await readCalendars(db, name);
  if (calendar === undefined)
    throw new UsageError(
      `there is no calendar '${name}'`,
      'See `npx shelfdesk warehouse calendar list`; `npx shelfdesk warehouse calendar set` makes one.',
    );
  return calendar;
}

/** Creates or changes a calendar. Returns the accounts whose business times change: not those that have left for another warehouse. */
export async function setCalendar(
  db: pg.Pool,
  { name, who, timeZone, hours, holidays }: CalendarChange & { name: string; who: string },
  now: Date,
): Promise<string[]> {
  return transaction(db, async client => {
    const [before] = await readCalendars(client, name);
    if (before === undefined && (timeZone === undefined || hours === undefined))
      throw new UsageError(
        `a new calendar needs a time zone and hours, and '${name}' is new`,
        `Run \`npx shelfdesk warehouse calendar set ${name} --time-zone Europe/Berlin --hours "mon-fri 09:00-17:00"\`, or see \`npx shelfdesk warehouse calendar list\` for those that there are.`,
      );
    if (timeZone !== undefined) await requireZone(client, timeZone);
    await client.query(sql`
      insert into analytics.calendars (name, time_zone) values (${name}, ${timeZone ?? before?.time_zone})
      on conflict (name) do update set time_zone = excluded.time_zone where calendars.time_zone <> excluded.time_zone`);
    // Holidays first: without hours, the triggers have nothing to compute.
    if (hours !== undefined) await client.query(sql`delete from analytics.calendar_hours where calendar = ${name}`);
    if (holidays !== undefined) {
      await client.query(sql`delete from analytics.calendar_holidays where calendar = ${name}`);
      await client.query(sql`
        insert into analytics.calendar_holidays (calendar, day, name)
        select ${name}, f.day, f.name from jsonb_to_recordset(${JSON.stringify(holidays)}::jsonb) f (day date, name text)`);
    }
    if (hours !== undefined)
      await client.query(sql`
        insert into analytics.calendar_hours (calendar, weekday, opens, closes)
        select ${name}, h.weekday, h.opens, h.closes from jsonb_to_recordset(${JSON.stringify(hours)}::jsonb) h (weekday int, opens time, closes time)`);
    const accounts = await query(client).values<string>`
      select distinct a.account_id as account from internal.stored_calendar_assignments a
      where a.calendar = ${name} and not ${raw(hasLeft('a'))} order by 1`;
    for (const account of accounts)
      await noteOperation(client, { account, who, action: 'calendar', subject: name, outcome: 'changed' }, now);
    return accounts;
  });
}

async function requireZone(db: Queryable, zone: string): Promise<void> {
  const { rowCount } = await db.query(sql`select from pg_timezone_names where name = ${zone}`);
  if (rowCount === 0)
    throw new UsageError(
      `PostgreSQL knows no time zone '${zone}'`,
      'Give one by its name, such as Europe/Berlin; `npx shelfdesk sql "select name from pg_timezone_names order by 1"` lists them.',
    );
}

interface Assignment {
  readonly account: string;
  readonly who: string;
  /** Empty: the account as a whole. */
  readonly inboxes: readonly string[];
}

const subject = (inboxes: readonly string[]) => (inboxes.length > 0 ? `inbox ${inboxes.join(', ')}` : '');

export async function assignCalendar(
  db: pg.Pool,
  { account, calendar, inboxes, who }: Assignment & { calendar: string },
  now: Date,
): Promise<void> {
  await transaction(db, async client => {
    await readCalendar(client, calendar);
    await requireAccount(client, account);
    await requireInboxes(client, account, inboxes);
    await client.query(sql`
      insert into internal.stored_calendar_assignments (account_id, inbox_id, calendar)
      select ${account}, i.id, ${calendar} from unnest(${inboxes.length > 0 ? inboxes : [null]}::text[]) i (id)
      on conflict (account_id, inbox_id) do update set calendar = excluded.calendar`);
    const noted = {
      account,
      who,
      action: 'calendar',
      subject: subject(inboxes),
      outcome: `keeps ${calendar}`,
    } as const;
    await noteOperation(client, noted, now);
  });
}

export async function unassignCalendar(db: pg.Pool, { account, inboxes, who }: Assignment, now: Date): Promise<void> {
  await transaction(db, async client => {
    await requireAccount(client, account);
    const { rowCount } = await client.query(sql`
      delete from internal.stored_calendar_assignments a using unnest(${inboxes.length > 0 ? inboxes : [null]}::text[]) i (id)
      where a.account_id = ${account} and a.inbox_id is not distinct from i.id`);
    if (rowCount === 0)
      throw new UsageError(
        `account '${account}' keeps no calendar${inboxes.length > 0 ? ` for ${subject(inboxes)}` : ' as a whole'}`,
        'See `npx shelfdesk warehouse calendar list` for what is assigned.',
      );
    const noted = { account, who, action: 'calendar', subject: subject(inboxes), outcome: 'keeps none' } as const;
    await noteOperation(client, noted, now);
  });
}

export async function requireInboxes(db: Queryable, account: string, inboxes: readonly string[]): Promise<void> {
  const { rows: unknown } = await db.query<{ id: string }>(sql`
    select i.id from unnest(${inboxes}::text[]) i (id)
    where not exists (select from helpdesk.inboxes x where x.account_id = ${account} and x.id = i.id)`);
  if (unknown[0])
    throw new UsageError(
      `account '${account}' has no inbox ${unknown.map(({ id }) => id).join(', ')}`,
      'Run `npx shelfdesk sql "select account_id, id, name from helpdesk.inboxes"` for those that are known.',
    );
}

export async function requireAccount(db: Queryable, account: string): Promise<void> {
  const { rowCount } = await db.query(sql`select from sync.accounts where account_id = ${account}`);
  if (rowCount === 0)
    throw new UsageError(
      `this warehouse holds nothing of an account '${account}'`,
      `Run ${command(account, 'sync')} for it first, or name another one.`,
    );
}

/** Removes a calendar without assignments; throws if it has any. */
export async function removeCalendar(db: pg.Pool, name: string): Promise<void> {
  await transaction(db, async client => {
    const { assigned } = await readCalendar(client, name);
    const [one] = assigned;
    if (one !== undefined)
      throw new UsageError(
        `account '${one.account}' keeps calendar '${name}'${one.inbox === null ? '' : ` for inbox ${one.inbox}`}`,
        `Run ${command(one.account, `warehouse calendar unassign${one.inbox === null ? '' : ` --inbox ${one.inbox}`}`)} first, or assign another one.`,
      );
    await client.query(sql`delete from analytics.calendars where name = ${name}`);
  });
}

/**
 * Recomputes the stored business times of an account's tickets with the new hours, in batches with a transaction each.
 */
export async function recompute(db: pg.Pool, account: string): Promise<void> {
  await db.query(sql`call analytics.recompute(${account})`);
}
