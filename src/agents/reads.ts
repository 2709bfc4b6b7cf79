/**
 * Which streams a query reads. Its plan names the tables beneath all views, and what it calls. Anything unknown may read any
 * stream.
 */
import type pg from 'pg';
import type { Stream } from '../sources/source.ts';

type Known = Pick<Stream, 'key' | 'merge' | 'beneath'>;

/** A function of the warehouse or of an extension, which may read tables. */
export interface Routine {
  readonly name: string;
  /** Its name in an execution plan. */
  readonly called: string;
}

/** Tables and functions without rows of a stream. Views read them beside those of a stream. */
// @internal A test holds the list against the views of a warehouse.
export const neutral: ReadonlySet<string> = new Set([
  ...['sync.accounts', 'sync.readers', 'sync.rejects', 'sync.secret_salt', 'pg_catalog.pg_authid'],
  ...['analytics.calendars', 'analytics.calendar_holidays', 'analytics.calendar_hours', 'analytics.calendar_spans'],
  ...['analytics.metric_definitions', 'internal.stored_calendar_assignments', 'internal.stored_service_targets'],
  ...['analytics.business_seconds', 'analytics.business_time_after', 'analytics.calendar_of', 'analytics.is_in_force'],
  ...['analytics.is_overdue'],
  ...['analytics.open_spans', 'analytics.zone_offsets', 'internal.stream_standing'],
]);

/** Functions of PostgreSQL that run the text of a query, or read a table by its name. */
const runsText = /\b(?:\w+_to_xml\w*|ts_stat|ts_rewrite)\(/;

/** `plan`: of `explain (verbose, format json)`. Undefined: any stream. */
export function streamsOfPlan(
  plan: string,
  streams: readonly Known[],
  routines: readonly Routine[],
): readonly string[] | undefined {
  if (runsText.test(plan)) return undefined;
  const read = new Set<string>();
  JSON.parse(plan, (_key, value) => {
    if (typeof value?.['Relation Name'] === 'string') read.add(`${value.Schema}.${value['Relation Name']}`);
    return value;
  });
  for (const { name, called } of routines) if (calls(plan, called)) read.add(name);
  const keys = new Set<string>();
  for (const name of read) {
    if (neutral.has(name)) continue;
    const of = streams.find(one => holds(one, name));
    if (of === undefined) return undefined;
    keys.add(of.key);
  }
  return keys.size === 0 ? undefined : [...keys];
}

const holds = ({ merge: { declared }, beneath = [] }: Known, name: string): boolean =>
  [declared.root, ...declared.others].some(table => table.name === name) || beneath.includes(name);

function calls(plan: string, called: string): boolean {
  const words = `${JSON.stringify(called).slice(1, -1)}(`;
  for (let at = plan.indexOf(words); at >= 0; at = plan.indexOf(words, at + 1))
    if (!/\w/.test(plan[at - 1]!)) return true;
  return false;
}

/** An immutable function reads nothing. */
export async function routinesOf(db: Pick<pg.Pool, 'query'>): Promise<Routine[]> {
  const { rows } = await db.query<Routine>(
    `select distinct n.nspname || '.' || p.proname as name, quote_ident(p.proname) as called
     from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     where n.nspname not in ('pg_catalog', 'information_schema') and p.provolatile <> 'i'`,
  );
  return rows;
}
