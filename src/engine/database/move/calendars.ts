/** Business hours belong to the warehouse. The calendars that an account uses come with it. */
import type pg from 'pg';
import { UsageError } from '../../../errors.ts';
import { raw, sql } from '../sql.ts';
import type { Both } from './copy-rows.ts';

const parts = [
  ['analytics.calendars', 'name'],
  ['analytics.calendar_hours', 'calendar'],
  ['analytics.calendar_holidays', 'calendar'],
] as const;

/** The rows of a calendar, by table, each as JSON. */
async function calendarOf(client: pg.Client, calendar: string): Promise<string[]> {
  const rows: string[] = [];
  for (const [table, key] of parts) {
    const found = await client.query<{ all: string }>(sql`
      select coalesce(jsonb_agg(to_jsonb(c) order by to_jsonb(c)::text collate "C"), '[]')::text as all from ${raw(table)} c
        where c.${raw(key)} = ${calendar}`);
    rows.push(found.rows[0]!.all);
  }
  return rows;
}

/** Makes those that are missing. Throws UsageError if one of that name has other hours there. */
export async function bringCalendars({ from, to, account }: Both, place: string): Promise<void> {
  const { rows: used } = await from.query<{ calendar: string }>(sql`
    select distinct calendar from internal.stored_calendar_assignments where account_id = ${account} order by 1`);
  for (const { calendar } of used) {
    const [ours, theirs] = [await calendarOf(from, calendar), await calendarOf(to, calendar)];
    if (ours.join() === theirs.join()) continue;
    if (theirs[0] !== '[]')
      throw new UsageError(
        `account '${account}' uses the calendar ${calendar}, and that of ${place} has other hours`,
        'Nothing was moved. Make both alike, or give the account a calendar of another name: `npx shelfdesk warehouse calendar`.',
      );
    await to.query('begin');
    for (const [i, [table]] of parts.entries())
      await to.query(sql`
        insert into ${raw(table)} select * from jsonb_populate_recordset(null::${raw(table)}, ${ours[i]})`);
    await to.query('commit');
  }
}
