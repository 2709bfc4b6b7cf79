/** Whether rows and coverage agree, against what the help desk truly holds: nothing that is claimed is missing or old. */
import type pg from 'pg';
import type { World } from '../../sandbox/src/helpdesk/world/world.ts';

interface Seen {
  readonly tickets: [id: string, updatedMs: number, complete: boolean, messages: string[]][];
  readonly users: string[];
  readonly customers: string[];
  readonly covered: [stream: string, fromMs: number, toMs: number][];
}

/** One statement, so that rows and claims are of one moment. */
const seenSql = `select
  (select coalesce(json_agg(json_build_array(t.id, extract(epoch from t.updated_at)::float8 * 1000, c.messages_complete,
     (select coalesce(json_agg(m.id order by m.id), '[]') from helpdesk.messages m where m.ticket_id = t.id))), '[]')
   from helpdesk.tickets t join sync.ticket_completeness c on c.account_id = t.account_id and c.ticket_id = t.id) as tickets,
  (select coalesce(json_agg(id), '[]') from helpdesk.users) as users,
  (select coalesce(json_agg(id), '[]') from helpdesk.customers) as customers,
  (select coalesce(json_agg(json_build_array(c.stream, extract(epoch from lower(r))::float8 * 1000,
     extract(epoch from upper(r))::float8 * 1000)), '[]')
   from sync.coverage c, unnest(c.covered) r where c.list = 'default') as covered`;

export async function disagreements(db: pg.ClientBase | pg.Pool, world: World): Promise<string[]> {
  const { rows } = await db.query<Seen>(seenSql);
  const seen = rows[0]!;
  const isCovered = (stream: string, ms: number) =>
    seen.covered.some(([name, from, to]) => name === stream && from <= ms && ms < to);
  const tickets = new Map(seen.tickets.map(row => [row[0], row]));
  const found: string[] = [];
  // What has changed since is younger than everything that is covered.
  for (const ticket of world.tickets.values()) {
    // Both may have a list of their own.
    if (ticket.spam || ticket.trash) continue;
    const updatedMs = Date.parse(ticket.updated_at);
    const row = tickets.get(ticket.id);
    if (isCovered('tickets', updatedMs) && row?.[1] !== updatedMs)
      found.push(`ticket ${ticket.id} of ${ticket.updated_at} is covered, and ${row ? 'older here' : 'missing'}`);
    if (row?.[1] !== updatedMs || !row[2]) continue;
    const there = ticket.messages.map(({ id }) => id).sort();
    if (JSON.stringify(row[3]) !== JSON.stringify(there))
      found.push(`ticket ${ticket.id} is complete with ${row[3].length} of ${there.length} messages`);
  }
  const customers = new Set(seen.customers);
  for (const { id, created_at } of world.customers.values())
    if (isCovered('customers', Date.parse(created_at)) && !customers.has(id))
      found.push(`customer ${id} of ${created_at} is covered, and missing`);
  const users = new Set(seen.users);
  if (seen.covered.some(([stream]) => stream === 'users'))
    found.push(...[...world.users.keys()].filter(id => !users.has(id)).map(id => `user ${id} is covered, and missing`));
  return found;
}

/** After a sync, without a sweep: gaps, and tickets that were announced and are not here. */
export async function lost(db: pg.Pool, world: World): Promise<string[]> {
  const { rows: gaps } = await db.query<{ words: string }>(
    `select format('a gap in %s, %s: %s to %s', stream, list, gap_from, gap_to) as words from sync.gaps`,
  );
  const { rows } = await db.query<{ id: string; ms: number }>(
    'select id, extract(epoch from updated_at)::float8 * 1000 as ms from helpdesk.tickets',
  );
  const here = new Map(rows.map(({ id, ms }) => [id, ms]));
  const tickets = [...world.tickets.values()].filter(({ id, updated_at }) => here.get(id) !== Date.parse(updated_at));
  return [...gaps.map(({ words }) => words), ...tickets.map(({ id }) => `ticket ${id} is lost until a sweep`)].slice(
    0,
    10,
  );
}
